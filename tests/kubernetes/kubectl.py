"""A stand-in of kubectl for tests; the API server is api.py, and KUBE_STANDIN its folder.

It knows config view, proxy --unix-socket and exec -i, and the words that api.py describes. KUBE_CONTEXT is the current
context ("loop" unless it is set; "" none, as in a pod), and FOLDER/contexts lists those that were used. Pods do not see
the directory KUBE_HIDE.
"""
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

FOLDER = os.environ["KUBE_STANDIN"]


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(f"{FOLDER}/api")
    return s


def request(method, path, body=None):
    """The answer, as JSON."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = connect()
    connection.request(method, path, json.dumps(body) if body is not None else None, {"Connection": "close"} | login())
    answer = connection.getresponse()
    text = answer.read()
    if "json" not in (answer.headers.get("Content-Type") or ""):
        return answer.status, {"message": text.decode().strip()}
    return answer.status, json.loads(text or b"null")


def login():
    try:
        with open(f"{FOLDER}/token", encoding="ascii") as file:
            return {"Authorization": "Bearer " + file.read().strip()}
    except OSError:
        return {}


def pump(source, sink):
    """Bytes, until there are no more."""
    try:
        data = source.recv(65536)
        while data:
            sink.sendall(data)
            data = source.recv(65536)
    except OSError:
        pass
    for s in (source, sink):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client, header):
    """One connection. libcurl sends one request after another on it, so each gets the header."""
    try:
        server = connect()
    except OSError:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 31\r\nConnection: close\r\n\r\ndial tcp: connection refused...")
        client.close()
        return
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    try:
        data = client.recv(65536)
        while data:
            if data.split(b" ", 1)[0] in (b"GET", b"POST", b"DELETE"):
                line, rest = data.split(b"\r\n", 1)
                data = line + b"\r\n" + header + rest
            server.sendall(data)
            data = client.recv(65536)
    except OSError:
        pass
    for s in (server, client):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def proxy(path):
    header = "".join(f"{k}: {v}\r\n" for k, v in login().items()).encode()
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    os.umask(0o177)
    listener.bind(path)
    listener.listen(128)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, header), daemon=True).start()


def option(words, name, default=""):
    return next((w.split("=", 1)[1] for w in words if w.startswith(f"--{name}=")), default)


def view():
    context = os.environ.get("KUBE_CONTEXT", "loop")
    if not context:
        sys.exit("error: current-context must exist in order to minify")
    print(json.dumps({"current-context": context, "contexts": [{"name": context, "context": {"cluster": "loop", "user": "me"}}]}))


def relay(source, sink):
    try:
        while data := os.read(source, 65536):
            while data:
                data = data[os.write(sink, data):]
    except OSError:
        pass
    os.close(sink)


def execute(words):
    """As the real one: what it runs outlives it, and reads the end of its input when it is killed."""
    at = words.index("exec")
    name = words[at + 2]
    code, pod = request("GET", f"/api/v1/namespaces/{option(words, 'namespace', 'default')}/pods/{name}")
    if code != 200:
        sys.exit(f"Error from server: {pod['message']}")
    container = words[words.index("-c") + 1]
    states = {c["name"]: c["state"] for c in pod["status"].get("containerStatuses", [])}
    if "running" not in states.get(container, {}):
        sys.exit(f"error: cannot exec into container {container} of pod {name}")
    while {"type": "Ready", "status": "False"} in pod["status"]["conditions"]:  # its node does not answer
        time.sleep(1)
    home = f"{FOLDER}/pods/{name}"
    env = {"PATH": os.environ["PATH"], "HOME": home, "ESPALIER_POD": home,
           **{k: v for k, v in os.environ.items() if k in ("STEP", "FAIL")}}
    command = words[words.index("--") + 1:]
    if "KUBE_HIDE" in os.environ:
        command = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', os.environ["KUBE_HIDE"]] + command
    child = subprocess.Popen(command, env=env, cwd=home, start_new_session=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    threading.Thread(target=relay, args=(0, child.stdin.fileno()), daemon=True).start()
    errors = threading.Thread(target=relay, args=(child.stderr.fileno(), os.dup(2)), daemon=True)
    errors.start()
    relay(child.stdout.fileno(), os.dup(1))
    errors.join(1)
    os._exit(child.wait() & 255)


def main():
    words = sys.argv[1:]
    if "view" in words:
        view()
    elif "proxy" in words:
        with open(f"{FOLDER}/contexts", "a", encoding="utf-8") as file:
            file.write(option(words, "context") + "\n")
        proxy(option(words, "unix-socket"))
    elif "exec" in words:
        execute(words)
    elif words[0] == "set":
        request("POST", "/_/set", dict(w.split("=", 1) for w in words[1:]))
    else:
        print(json.dumps(request("POST", "/_/" + words[0], words[1:])[1]))


main()
