"""A stand-in of Compute Engine for tests: tokens, instances, operations with errors, aggregated listings in pages, faults
and interruptions, after the published REST API. In Python and not in C like the driver, so that no code is shared.

    gce.py FOLDER [SETTING=VALUE]...    prints its URL; FOLDER keeps its machines (tests/aws/machines.py)

Settings: see SETTINGS. For tests, under /_/ and without a token: POST ask EXPRESSION, settings {...}, interrupt {"name"},
stop {"name"}, rules [...]. A rule: {"action", "nth", "do"}; "do" is "error CODE REASON", "cut before", "cut after", "kill before"
or "kill after": the process whose number is in the file `pidfile`. /computeMetadata/... is the metadata server of the
machine that asks: of espalier's own for a token, of /NAME/... for that instance."""
import http.server
import json
import os
import random
import re
import signal
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aws"))
import machines

TYPES = {"n1-standard-4": (4, 15360, 0), "g2-standard-4": (4, 16384, 1), "a2-highgpu-1g": (12, 87040, 1)}
SETTINGS = {
    "project": "lab", "token": "ya29.test", "zones": "us-central1-a,us-central1-b", "seed": 1,
    "boot": "0",          # LOW:HIGH seconds from the request until it runs, at random
    "key": "",            # public host key file of its machines, published as guest attribute
    "interrupt": "",      # LOW:HIGH seconds after the start of a spot machine, at random
    "stopping": 0.5,      # seconds from the notice of an interruption, or from a deletion, until it is gone
    "capacity": "",       # ZONE=N,...; others: as many as wanted
    "sshd": "",           # see machines.py
    "quota": 100, "page": 2, "pidfile": "", "unreachable": "",
}
FIELDS = {"name", "machineType", "labels", "disks", "networkInterfaces", "metadata", "scheduling", "guestAccelerators",
          "serviceAccounts"}


class Failed(Exception):
    def __init__(self, status, reason, text=""):
        super().__init__(text)
        self.status, self.reason, self.text = status, reason, text or reason


class Cloud:
    def __init__(self, folder, settings):
        self.folder, self.lock = folder, threading.RLock()
        self.set = dict(SETTINGS)
        self.machines, self.operations, self.rules, self.counts = {}, {}, [], {}
        self.made, self.interrupted, self.tokens = 0, 0, set()
        self.change(settings)
        self.random = random.Random(int(self.set["seed"]))

    def change(self, settings):
        for name, value in settings.items():
            self.set[name] = type(SETTINGS[name])(value)

    def draw(self, name):
        low, _, high = self.set[name].partition(":")
        return self.random.uniform(float(low), float(high or low))

    def tick(self):
        with self.lock:
            now = time.time()
            for m in list(self.machines.values()):
                if m["status"] == "STAGING" and now >= m["runs"]:
                    m["status"] = "RUNNING"
                    script = {i["key"]: i["value"] for i in m["body"]["metadata"]["items"]}["startup-script"]
                    machines.start(self.folder, m["name"], m["address"], script.encode(), self.set["sshd"])
                    if m["spot"] and self.set["interrupt"]:
                        m["taken"] = now + self.draw("interrupt")
                if m["status"] == "RUNNING" and now >= m["taken"]:
                    self.interrupt(m)
                if m["status"] == "RUNNING" and machines.is_off(self.folder, m["name"]):
                    self.stop(m)
                if now >= m["ends"]:
                    machines.end(self.folder, m["name"], m["address"])
                    del self.machines[m["zone"], m["name"]]

    def interrupt(self, m):
        self.interrupted += 1
        m["preempted"], m["status"], m["ends"] = True, "STOPPING", time.time() + self.set["stopping"]

    def stop(self, m):
        m["status"] = "TERMINATED"
        machines.end(self.folder, m["name"], m["address"])

    def report(self):
        self.tick()
        with self.lock:
            return {"running": len(self.machines), "made": self.made, "tokens": len(self.tokens), "requests": self.counts,
                    "interrupted": self.interrupted, "zones": sorted({z for z, _ in self.tokens}),
                    "machines": [self.show(m) for m in self.machines.values()]}

    # ---- actions ----

    def insert(self, zone, body):
        scheduling, now = body["scheduling"], time.time()
        if set(body) - FIELDS or not re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", body["name"]):
            raise Failed(400, "invalid", "Invalid value for field")
        if scheduling["onHostMaintenance"] != "TERMINATE" or scheduling["automaticRestart"] is not False:
            raise Failed(400, "invalid", "Scheduling must be preemptible")
        kind = re.fullmatch("zones/%s/machineTypes/(.+)" % zone, body["machineType"])[1]
        if kind not in TYPES or not body["disks"][0]["initializeParams"]["sourceImage"].startswith("projects/debian-cloud/"):
            raise Failed(404, "notFound", "The resource was not found")
        if (zone, body["name"]) in self.machines:
            raise Failed(409, "alreadyExists", "The resource '%s' already exists" % body["name"])
        there = sum(m["zone"] == zone for m in self.machines.values())
        room = dict(one.split("=") for one in filter(None, self.set["capacity"].split(","))).get(zone)
        self.tokens.add((zone, body["labels"]["espalier-token"]))
        if room is not None and there >= int(room):
            return self.operation(now, "ZONE_RESOURCE_POOL_EXHAUSTED", "The zone '%s' does not have enough resources" % zone)
        if len(self.machines) >= self.set["quota"]:
            return self.operation(now, "QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: %d" % self.set["quota"])
        self.made += 1
        runs = now + self.draw("boot")
        self.machines[zone, body["name"]] = {
            "name": body["name"], "zone": zone, "body": body, "status": "STAGING", "runs": runs, "taken": 1e18, "ends": 1e18,
            "spot": scheduling["provisioningModel"] == "SPOT", "preempted": False,
            "address": "127.77.%d.%d" % (self.made >> 8, self.made & 255), "at": now}
        return self.operation(runs, None, None)

    def operation(self, done, code, text):
        name = "operation-%d" % (len(self.operations) + 1)
        self.operations[name] = (done, code, text)
        return self.show_operation(name)

    def show_operation(self, name):
        if name not in self.operations:
            raise Failed(404, "notFound")
        done, code, text = self.operations[name]
        op = {"kind": "compute#operation", "name": name, "status": "DONE" if time.time() >= done else "RUNNING"}
        if code and op["status"] == "DONE":
            op["error"] = {"errors": [{"code": code, "message": text}]}
        return op

    def show(self, m):
        network = {"networkIP": m["address"]}
        if "accessConfigs" in m["body"]["networkInterfaces"][0]:
            network["accessConfigs"] = [{"natIP": m["address"]}] if m["status"] == "RUNNING" else [{}]
        base = "https://www.googleapis.com/compute/v1/projects/%s/zones/%s" % (self.set["project"], m["zone"])
        return {"name": m["name"], "zone": base, "status": m["status"], "labels": m["body"]["labels"],
                "machineType": "%s/machineTypes/%s" % (base, m["body"]["machineType"].split("/")[-1]),
                "scheduling": m["body"]["scheduling"], "networkInterfaces": [network],
                "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000-08:00", time.gmtime(m["at"] - 8 * 3600))}

    def listing(self, query):
        found = re.fullmatch(r"labels\.(espalier-run)(=|:\*)(.*)", query["filter"])
        if not found:
            raise Failed(400, "invalid", "Invalid filter")
        rows = [m for m in self.machines.values() if found[2] == ":*" or m["body"]["labels"][found[1]] == found[3]]
        begin = int(query.get("pageToken", "at/0=").split("/")[1].rstrip("="))
        items = {"zones/" + z: {"warning": {"code": "NO_RESULTS_ON_PAGE"}} for z in self.set["zones"].split(",")}
        for m in rows[begin:begin + self.set["page"]]:
            part = items["zones/" + m["zone"]]
            part.pop("warning", None)
            part.setdefault("instances", []).append(self.show(m))
        if self.set["unreachable"]:
            items["zones/" + self.set["unreachable"]] = {"warning": {"code": "UNREACHABLE"}}
        more = begin + self.set["page"] < len(rows)
        return {"items": items, **({"nextPageToken": "at/%d=" % (begin + self.set["page"])} if more else {})}

    def instance(self, method, zone, name, rest):
        m = self.machines.get((zone, name))
        if m is None:
            raise Failed(404, "notFound", "The resource '%s' was not found" % name)
        if method == "DELETE":
            m["status"], m["ends"] = "STOPPING", min(m["ends"], time.time() + self.set["stopping"])
            return self.operation(m["ends"], None, None)
        if not rest:
            return self.show(m)
        if m["status"] != "RUNNING" or not self.set["key"]:
            raise Failed(404, "notFound")
        with open(self.set["key"]) as file:
            kind, key = file.read().split()[:2]
        return {"queryValue": {"items": [{"namespace": "hostkeys", "key": kind, "value": key}]}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud = None

    def log_message(self, *_):
        pass

    def answer(self, status, text, kind="application/json"):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def act(self, action, do):
        """What the rules say of this request; it is counted."""
        cloud = self.cloud
        cloud.counts[action] = cloud.counts.get(action, 0) + 1
        for rule in cloud.rules:
            if rule.get("action", action) == action and rule.get("nth", cloud.counts[action]) == cloud.counts[action]:
                do = rule["do"]
        return do

    def kill(self):
        with open(self.cloud.set["pidfile"]) as file:
            os.kill(int(file.read()), signal.SIGKILL)

    def route(self, method, path, query, body):
        cloud, root = self.cloud, "/projects/%s/" % self.cloud.set["project"]
        if re.fullmatch("/projects/debian-cloud/global/images/.+", path):
            return "image", lambda: {"name": path.split("/")[-1]}
        if path == root + "aggregated/instances":
            return "list", lambda: cloud.listing(query)
        found = re.fullmatch(root + r"zones/([a-z0-9-]+)/(machineTypes|instances|operations)(?:/([^/]+))?(?:/([A-Za-z]+))?", path)
        if not found or found[1] not in cloud.set["zones"].split(","):
            raise Failed(404, "notFound", "The resource '%s' was not found" % path)
        zone, kind, name, rest = found.groups()
        if kind == "machineTypes" and name in TYPES:
            cpus, memory, gpus = TYPES[name]
            return "type", lambda: {"name": name, "guestCpus": cpus, "memoryMb": memory, **(
                {"accelerators": [{"guestAcceleratorCount": gpus}]} if gpus else {})}
        if kind == "instances" and method == "POST" and name is None:
            return "insert", lambda: cloud.insert(zone, json.loads(body))
        if kind == "instances" and name:
            return {"DELETE": "delete"}.get(method, "keys" if rest else "get"), lambda: cloud.instance(method, zone, name, rest)
        if kind == "operations" and name and rest == "wait" and method == "POST":
            time.sleep(min(20, max(0, cloud.operations.get(name, (0,))[0] - time.time())))
            return "wait", lambda: cloud.show_operation(name)
        raise Failed(404, "notFound", "The resource '%s' was not found" % path)

    def serve(self, method):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        if path.startswith("/_/"):
            return self.control(path[3:], body)
        if "/computeMetadata/" in path:
            return self.metadata(path)
        do = ""
        try:
            if self.headers.get("Authorization") != "Bearer " + self.cloud.set["token"]:
                raise Failed(401, "authError", "Request had invalid authentication credentials.")
            action, perform = self.route(method, path, dict(urllib.parse.parse_qsl(query)), body)
            with self.cloud.lock:
                do = self.act(action, "")
                if do == "kill before":
                    self.kill()
                if do in ("cut before", "kill before"):
                    self.close_connection = True
                    return None
                if do.startswith("error "):
                    raise Failed(int(do.split()[1]), do.split()[2], "by the script")
                self.cloud.tick()
                result = perform()
                if do == "kill after":
                    self.kill()
            if do in ("cut after", "kill after"):
                self.close_connection = True
                return None
            return self.answer(200, json.dumps(result))
        except Failed as error:
            return self.answer(error.status, json.dumps({"error": {
                "code": error.status, "message": error.text, "errors": [{"reason": error.reason, "message": error.text}]}}))
        except (ValueError, KeyError, TypeError) as error:
            return self.answer(400, json.dumps({"error": {"code": 400, "message": repr(error), "errors": [{"reason": "invalid"}]}}))

    def metadata(self, path):
        """Of an instance, /NAME/computeMetadata/v1/instance/preempted; else a token of the service account."""
        if self.headers.get("Metadata-Flavor") != "Google":
            return self.answer(403, "")
        if path.endswith("/service-accounts/default/token"):
            return self.answer(200, json.dumps({"access_token": self.cloud.set["token"], "expires_in": 3599, "token_type": "Bearer"}))
        for m in list(self.cloud.machines.values()):
            if path == "/%s/computeMetadata/v1/instance/preempted" % m["name"]:
                self.cloud.counts["preempted"] = self.cloud.counts.get("preempted", 0) + 1
                return self.answer(200, "TRUE" if m["preempted"] else "FALSE", "text/plain")
        return self.answer(404, "")

    def control(self, what, body):
        cloud = self.cloud
        if what == "ask":
            return self.answer(200, "%s\n" % eval(body.decode(), {"s": json.loads(json.dumps(cloud.report()))}), "text/plain")
        value = json.loads(body or b"{}")
        with cloud.lock:
            if what == "settings":
                cloud.change(value)
            elif what == "rules":
                cloud.rules, cloud.counts = value, {}
            else:
                for m in cloud.machines.values():
                    if m["name"].endswith(value["name"]):
                        getattr(cloud, {"interrupt": "interrupt", "stop": "stop"}[what])(m)
            cloud.tick()
        return self.answer(200, "{}\n")

    def do_GET(self):
        self.serve("GET")

    def do_POST(self):
        self.serve("POST")

    def do_DELETE(self):
        self.serve("DELETE")


def main():
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder, exist_ok=True)
    cloud = Cloud(folder, dict(one.split("=", 1) for one in sys.argv[2:]))

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """A client that goes away is no error here."""
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(*_)

    Handler.cloud = cloud
    server = Server(("127.0.0.1", 0), Handler)

    def move():
        while True:
            cloud.tick()
            time.sleep(0.05)

    threading.Thread(target=move, daemon=True).start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("http://127.0.0.1:%d" % server.server_address[1], flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            signal.pause()
    finally:
        for m in list(cloud.machines.values()):
            machines.end(folder, m["name"], m["address"])


if __name__ == "__main__":
    main()
