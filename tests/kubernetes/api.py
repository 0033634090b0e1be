"""A stand-in of a Kubernetes API server for tests: pods are local processes.

api.py FOLDER [SETTING=VALUE]...

It listens on the Unix socket FOLDER/api; the stand-in of kubectl beside this file speaks to it.
Settings, which `kubectl set SETTING=VALUE` changes later:

  capacity=N     pods that find a node; others wait as unschedulable
  refuse=N       the next N requests get 429, with text that is not JSON
  fail=VERB:CODE:N       the next N requests of this kind ("create", "delete", ...) get this code, or none (0)
  lose=N         the next N creates are done, but their answers are lost
  expire=N       the next N watches get the event ERROR with code 410
  away=1         no request is answered, and watches end
  quota=1        creates are refused by a quota
  kill=VERB:WHEN the next request of this kind kills the process in FOLDER/driver, "before" or "after" it is done
  deny=VERB:RESOURCE     a right that is missing ("create:pods/exec")
  token=TEXT     what FOLDER/token must hold; others get 401
  pull=REASON:MESSAGE    why containers do not start
  beside=STATE   of containers beside that of trials: "running" (the default; they outlive it, and the pod with them),
                 "waiting" or "terminated"
  sidecar=NAME   a container that a webhook adds, unless an annotation forbids it
  nodes=N        nodes node-0, node-1 ..., with room for one pod each; the first free one gets the next pod. Without it each
                 pod has a node of its own
  bad=A,B        the numbers of the only nodes to which `pull` and `admit` apply
  admit=REASON:MESSAGE   why a kubelet refuses pods, which fail
  delay=SECONDS  until a container runs on its node
  half=1         every second pod that is created finds no node
  tide=SECONDS:N for so long the capacity is as set, for so long N, and so on; what is too much is preempted
  event=TYPE:REASON:MESSAGE      that is recorded of pods which wait
  scale=SECONDS:N        so long after a pod found no node there are N more nodes; the event says so
  finalizer=1    objects of pods stay when they are deleted
  namespaces=A,B         that exist ("default" unless it is set)
  ahead=SECONDS  of the server's clock
  page=N         most pods in an answer
  stuck=1        a pod that is deleted with a grace period fails, and stays until it is deleted without one

`kubectl oom POD` kills its container as the kernel does, `kubectl fail POD REASON MESSAGE` lets a kubelet end it ("Evicted").
`kubectl state` prints what it knows; `kubectl evict POD SECONDS`, `kubectl make POD LABEL=VALUE...`, `kubectl replace POD` (by
another one of the same name), `kubectl lose-node POD` (its node dies), `kubectl end POD` (its first process is killed) and
`kubectl delete-namespace` are what others do.
"""
import datetime
import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

FOLDER = os.path.abspath(sys.argv[1])
LOCK = threading.Condition()
PODS, EVENTS = {}, []
COUNTS = {"creates": 0, "deletes": 0, "lists": 0, "watches": 0, "made": 0, "most": 0, "stuck": 0, "looks": 0}
SETTINGS = {"capacity": "100"}
VERSION = [100]
GROWN, BEGUN = {}, time.time()
HELD = {}    # uid: from when a pod had its node, and until when (None: it has it)
GONE = object()


def utc(after=0):
    return clock(after).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(after=0):
    now = datetime.datetime.now(datetime.timezone.utc)
    return now + datetime.timedelta(seconds=after + int(SETTINGS.get("ahead", "0")))


def once(name):
    """Is this one of the next N?"""
    left = int(SETTINGS.get(name, "0"))
    if left > 0:
        SETTINGS[name] = str(left - 1)
    return left > 0


def struck(verb):
    """The code that this request gets instead of an answer; None: it is answered."""
    kind, code, left = SETTINGS.get("fail", "::0").split(":")
    if kind != verb or int(left) <= 0:
        return None
    SETTINGS["fail"] = f"{kind}:{code}:{int(left) - 1}"
    return int(code)


def kill_driver():
    del SETTINGS["kill"]
    with open(f"{FOLDER}/driver", encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    return GONE


def emit(kind, pod):
    VERSION[0] += 1
    pod["metadata"]["resourceVersion"] = str(VERSION[0])
    EVENTS.append((VERSION[0], kind, json.dumps(pod)))
    if kind == "DELETED" and pod["metadata"]["uid"] in HELD:
        HELD[pod["metadata"]["uid"]][1] = time.time()
    LOCK.notify_all()


def processes(name):
    mark = f"ESPALIER_POD={FOLDER}/pods/{name}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    yield int(pid)
        except OSError:
            pass


def end_processes(name):
    for _ in range(100):
        found = list(processes(name))
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not found:
            return
        time.sleep(0.02)


def terms_of(body):
    """Of which one must hold for its node."""
    rules = body["spec"].get("affinity", {}).get("nodeAffinity", {})
    return rules.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])


def end_group(pod):
    """All processes of its container at once, as the kernel does it."""
    for pid in processes(pod.name_):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


class Pod(threading.Thread):
    def __init__(self, body):
        super().__init__(daemon=True)
        self.body = body
        self.name_ = body["metadata"]["name"]
        self.first, self.until, self.signaled, self.lost, self.grace = None, None, False, False, None
        self.node, self.placed, self.killed = None, None, None
        self.events = [("Normal", "Created", "made by a test")]
        self.starved = bool(SETTINGS.get("half")) and COUNTS["made"] % 2 == 1
        containers = body["spec"]["containers"]
        self.container = next((c for c in containers if c["name"] == "espalier"), containers[0])

    def status(self, **more):
        self.body["status"].update(more)
        emit("MODIFIED", self.body)

    def delete(self, grace):
        """With the lock held. A node that is lost removes nothing."""
        meta = self.body["metadata"]
        until = time.time() + grace
        self.grace = grace
        if grace == 0:
            self.lost = False
        if self.until is not None and self.until <= until:
            return
        self.until = until
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = utc(grace), grace
        emit("MODIFIED", self.body)

    def statuses(self, **state):
        """Of all containers; this is that of trials."""
        others = {"running": {"running": {}}, "waiting": {"waiting": {"reason": "ErrImagePull"}},
                  "terminated": {"terminated": {"exitCode": 1}}}[SETTINGS.get("beside", "running")]
        return [{"name": c["name"], "state": state if c is self.container else others} for c in self.body["spec"]["containers"]]

    def forbidden(self):
        """The nodes that its affinity excludes, as names."""
        terms = terms_of(self.body)
        return set.intersection(*[{f["values"][0] for f in term.get("matchFields", [])} for term in terms]) if terms else set()

    def record(self, kind, reason, message):
        """With the lock held: an event."""
        if (kind, reason, message) not in self.events:
            self.events.append((kind, reason, message))

    def place(self):
        """With the lock held: the scheduler. 1 if it has a node."""
        if self.node is not None:
            return 1
        others = [p for p in PODS.values() if p is not self and p.node is not None and not p.is_over()]
        count = int(SETTINGS.get("nodes", "1000")) + grown()
        taken, away = {p.node for p in others}, self.forbidden()
        free = [n for n in range(count) if n not in taken and f"node-{n}" not in away]
        if not free or len(others) >= capacity() or self.starved:
            if not self.body["status"].get("conditions"):
                unmatched = sum(1 for n in range(count) if f"node-{n}" in away)
                self.status(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                         "message": f"0/{SETTINGS.get('nodes', SETTINGS['capacity'])} nodes are available: " + (
                                             f"{unmatched} node(s) didn't match Pod's node affinity/selector, " if unmatched else "")
                                         + "too few GPUs."}])
            if SETTINGS.get("scale"):
                GROWN.setdefault("from", time.time())
                self.record("Normal", "TriggeredScaleUp", "pod triggered scale-up: [{gpus 1->2 (max: 4)}]")
            return 0
        self.node, self.placed = free[0], time.time()
        HELD[self.body["metadata"]["uid"]] = [self.placed, None]
        COUNTS[f"node-{self.node}"] = COUNTS.get(f"node-{self.node}", 0) + 1
        self.body["spec"]["nodeName"] = f"node-{self.node}"
        self.record("Normal", "Scheduled", f"Successfully assigned default/{self.name_} to node-{self.node}")
        self.status(conditions=[{"type": "PodScheduled", "status": "True"}])
        return 1

    def is_over(self):
        return self.body["status"]["phase"] in ("Failed", "Succeeded")

    def is_bad(self):
        return "bad" not in SETTINGS or str(self.node) in SETTINGS["bad"].split(",")

    def begin(self):
        """With the lock held: the scheduler and the kubelet."""
        if not self.place() or self.is_over():
            return
        if SETTINGS.get("event"):
            self.record(*SETTINGS["event"].split(":", 2))
        if SETTINGS.get("admit") and self.is_bad():
            reason, message = SETTINGS["admit"].split(":", 1)
            self.status(phase="Failed", reason=reason, message=message, startTime=utc())
            return
        if time.time() - self.placed < float(SETTINGS.get("delay", "0")):
            return
        if SETTINGS.get("pull") and self.is_bad():
            reason, message = SETTINGS["pull"].split(":", 1)
            waiting = self.statuses(waiting={"reason": reason, "message": message})
            if self.body["status"].get("containerStatuses") != waiting:
                self.status(containerStatuses=waiting)
            return
        home = f"{FOLDER}/pods/{self.name_}"
        os.makedirs(home, exist_ok=True)
        log = open(f"{home}/log", "wb")
        self.first = subprocess.Popen(self.container["command"], env=environment(self.name_), cwd=home, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log, start_new_session=True)
        running = sum(1 for p in PODS.values() if p.first is not None and p.first.poll() is None)
        COUNTS["most"] = max(COUNTS["most"], running)
        self.status(phase="Running", startTime=utc(), podIP="127.0.0.1",
                    conditions=[{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
                    containerStatuses=self.statuses(running={"startedAt": utc()}))

    def ended(self):
        """Its first process has: with which state, as the kubelet reports it. A pod ends with the last of its containers."""
        code = self.first.returncode
        if self.killed and self.killed[0]:
            return {"phase": "Failed", "reason": self.killed[0], "message": self.killed[1], "containerStatuses": self.statuses(
                terminated={"exitCode": 137, "reason": "Error"})}
        why = "OOMKilled" if self.killed else "Error" if code else "Completed"
        more = {"containerStatuses": self.statuses(terminated={"exitCode": 137 if self.killed else code, "reason": why})}
        beside = len(self.body["spec"]["containers"]) > 1 and SETTINGS.get("beside", "running") != "terminated"
        return more if beside else {"phase": "Failed" if code else "Succeeded", **more}

    def lose_node(self):
        """With the lock held: its processes are gone, and the API server hears of it as of a silent node."""
        self.lost = True
        end_processes(self.name_)
        self.status(conditions=[{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}])

    def finish(self, **more):
        end_processes(self.name_)
        if self.first is not None:
            self.first.wait()
        with LOCK:
            if more:
                self.status(**more)

    def run(self):
        limit = self.body["spec"].get("activeDeadlineSeconds")
        begun, over = time.time(), False
        while True:
            time.sleep(0.05)
            with LOCK:
                if self.until is None and self.first is None and not over:
                    self.begin()
                if self.until is not None and not self.signaled:
                    self.signaled = True
                    if self.first is not None and self.first.poll() is None:
                        self.first.terminate()
            if self.lost:
                continue
            ended = self.first is not None and self.first.poll() is not None
            if self.until is not None and (self.first is None or ended or time.time() >= self.until):
                if not SETTINGS.get("stuck") or self.first is None or self.grace == 0:
                    break
                if not over:
                    over = True
                    COUNTS["stuck"] += 1
                    self.finish(phase="Failed", containerStatuses=self.statuses(waiting={"reason": "ContainerCreating"}))
                continue
            if over:
                continue
            if PODS.get(self.name_) is not self:
                return  # replaced
            if ended:
                over = True
                self.finish(**self.ended())
            elif limit is not None and self.first is not None and time.time() - begun > limit:
                over = True
                self.finish(phase="Failed", reason="DeadlineExceeded")
        self.finish()
        if SETTINGS.get("finalizer"):
            with LOCK:
                self.status(phase="Succeeded")
            while SETTINGS.get("finalizer"):
                time.sleep(0.05)
        with LOCK:
            del PODS[self.name_]
            emit("DELETED", self.body)


def grown():
    """Nodes that the autoscaler has added."""
    seconds, count = SETTINGS.get("scale", "0:0").split(":")
    return int(count) if "from" in GROWN and time.time() - GROWN["from"] >= float(seconds) else 0


def capacity():
    """Pods that may have a node now."""
    full = int(SETTINGS["capacity"])
    if "tide" not in SETTINGS:
        return full
    seconds, low = SETTINGS["tide"].split(":")
    return int(low) if int((time.time() - BEGUN) / float(seconds)) % 2 else full


def preempt():
    """What is above the tide is taken away, the newest first."""
    while True:
        time.sleep(0.1)
        with LOCK:
            held = [p for p in PODS.values() if p.node is not None and p.until is None and not p.is_over()]
            for pod in held[capacity():]:
                COUNTS["preempted"] = COUNTS.get("preempted", 0) + 1
                pod.delete(int(pod.body["spec"].get("terminationGracePeriodSeconds", 30)))


def environment(name):
    home = f"{FOLDER}/pods/{name}"
    return {"PATH": os.environ["PATH"], "HOME": home, "ESPALIER_POD": home,
            **{k: v for k, v in os.environ.items() if k in ("STEP", "FAIL")}}


def make(body, namespace="default"):
    """With the lock held."""
    meta = body["metadata"]
    meta["namespace"] = namespace
    meta.update(uid=str(uuid.uuid4()), creationTimestamp=utc())
    body["status"] = {"phase": "Pending"}
    pod = PODS[meta["name"]] = Pod(body)
    COUNTS["made"] += 1
    emit("ADDED", body)
    pod.start()
    return pod


def failure(code, reason, message, **details):
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason,
                  "details": details, "code": code}


def selected(body, query):
    labels = body["metadata"].get("labels", {})
    wanted = [w.split("=", 1) for w in query.get("labelSelector", "").split(",") if w]
    return all(labels.get(k) == v for k, v in wanted)


def namespaces():
    return SETTINGS.get("namespaces", "default").split(",")


def denied(verb, resource):
    return f"{verb}:{resource}" in SETTINGS.get("deny", "").split(",")


def forbidden(verb, resource):
    return failure(403, "Forbidden", f'{resource} is forbidden: User "me" cannot {verb} resource "{resource}" in API group ""'
                   ' in the namespace "default"')


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def date_time_string(self, timestamp=None):
        return clock().strftime("%a, %d %b %Y %H:%M:%S GMT")

    def answer(self, code, body, text=None, headers=()):
        data = (text if text is not None else json.dumps(body)).encode()
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain" if text is not None else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def lose(self):
        self.close_connection = True
        try:
            self.connection.shutdown(2)
        except OSError:
            pass

    def finish(self):
        try:
            super().finish()
        except OSError:
            pass

    def handle_one(self, method):
        split = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(split.query))
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        parts = split.path.strip("/").split("/")
        if parts[0] == "_":
            return self.answer(200, self.control(parts[1:], body))
        with LOCK:
            if SETTINGS.get("away"):
                return self.lose()
            if "token" in SETTINGS and self.headers.get("Authorization") != "Bearer " + SETTINGS["token"]:
                return self.answer(*failure(401, "Unauthorized", "Unauthorized"))
            if once("refuse"):
                return self.answer(429, None, "Too many requests, please try again later.\n", [("Retry-After", "1")])
        if parts[-1] == "selfsubjectaccessreviews":
            wanted = body["spec"]["resourceAttributes"]
            name = wanted["resource"] + ("/" + wanted["subresource"] if wanted.get("subresource") else "")
            body["status"] = {"allowed": not denied(wanted["verb"], name)}
            return self.answer(201, body)
        if parts[:3] == ["api", "v1", "namespaces"] and parts[4] == "events":
            return self.answer(*self.events(query))
        if parts[:3] != ["api", "v1", "namespaces"] or parts[4] != "pods":
            return self.answer(*failure(404, "NotFound", "the server could not find the requested resource"))
        if query.get("watch"):
            return self.watch(query, parts[3])
        with LOCK:
            found = self.pods(method, parts[3], parts[5:], query, body)
        if found is GONE:
            return self.lose()
        return self.answer(*found)

    def pods(self, method, namespace, name, query, body):
        """With the lock held."""
        verb = {"POST": "create", "DELETE": "delete", "GET": "get" if name else "list"}[method]
        killing = SETTINGS.get("kill", "")
        if killing == f"{verb}:before":
            return kill_driver()
        done = self.perform(verb, namespace, name, query, body)
        return kill_driver() if killing == f"{verb}:after" else done

    def perform(self, verb, namespace, name, query, body):
        """With the lock held."""
        code = struck(verb)
        if code is not None:
            return failure(code, "InternalError", "it has been told to fail") if code else GONE
        if denied(verb, "pods"):
            return forbidden(verb, "pods")
        if verb == "list":  # also of a namespace that does not exist
            return self.page(namespace, query)
        if verb == "create":
            return self.create(namespace, query, body)
        pod = PODS.get(name[0])
        if pod is None or pod.body["metadata"]["namespace"] != namespace:
            return failure(404, "NotFound", f'pods "{name[0]}" not found', name=name[0], kind="pods")
        if verb == "get" and pod.until is not None and SETTINGS.get("stuck"):
            COUNTS["looks"] += 1
        if verb == "delete":
            COUNTS["deletes"] += 1
            wanted = ((body or {}).get("preconditions") or {}).get("uid")
            if wanted not in (None, pod.body["metadata"]["uid"]):
                return failure(409, "Conflict", "Precondition failed: UID in precondition")
            pod.delete((body or {}).get("gracePeriodSeconds", 30))
        return 200, pod.body

    def events(self, query):
        if denied("list", "events"):
            return forbidden("list", "events")
        uid = query["fieldSelector"].removeprefix("involvedObject.uid=")
        with LOCK:
            COUNTS["events"] = COUNTS.get("events", 0) + 1
            found = [e for p in PODS.values() if p.body["metadata"]["uid"] == uid for e in enumerate(p.events)]
        return 200, {"kind": "EventList", "items": [
            {"type": kind, "reason": reason, "message": message, "lastTimestamp": f"2026-11-24T04:00:{i:02}Z"}
            for i, (kind, reason, message) in reversed(found)]}

    def page(self, namespace, query):
        """With the lock held."""
        COUNTS["lists"] += 1
        found = [p.body for p in PODS.values() if p.body["metadata"]["namespace"] == namespace and selected(p.body, query)]
        begin = int(query.get("continue", "0"))
        end = begin + min(int(query.get("limit", "500")), int(SETTINGS.get("page", "500")))
        more = {"continue": str(end)} if end < len(found) else {}
        return 200, {"kind": "PodList", "metadata": {"resourceVersion": str(VERSION[0]), **more}, "items": found[begin:end]}

    def create(self, namespace, query, body):
        """With the lock held. Admission comes before what exists."""
        wanted = body["metadata"]["name"]
        if namespace not in namespaces():
            return failure(404, "NotFound", f'namespaces "{namespace}" not found', name=namespace, kind="namespaces")
        if SETTINGS.get("terminating"):
            return failure(403, "Forbidden", f'pods "{wanted}" is forbidden: unable to create new content in namespace'
                           f' {namespace} because it is being terminated', causes=[{"reason": "NamespaceTerminating"}])
        if SETTINGS.get("quota"):
            return failure(403, "Forbidden", f'pods "{wanted}" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=2')
        if SETTINGS.get("policy"):
            return failure(403, "Forbidden", f'pods "{wanted}" is forbidden: violates PodSecurity "restricted:latest"')
        for field in [f for term in terms_of(body) for f in term.get("matchFields", [])]:
            if field["key"] != "metadata.name" or field["operator"] != "NotIn" or len(field["values"]) != 1:
                return failure(422, "Invalid", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
        if "sidecar" in SETTINGS and body["metadata"].get("annotations", {}).get("sidecar.istio.io/inject") != "false":
            body["spec"]["containers"].append({"name": SETTINGS["sidecar"], "image": "mesh"})
        if query.get("dryRun") == "All":
            return 201, body
        COUNTS["creates"] += 1
        if wanted in PODS:
            return failure(409, "AlreadyExists", f'pods "{wanted}" already exists', name=wanted, kind="pods")
        pod = make(body, namespace)
        return GONE if once("lose") else (201, pod.body)

    def watch(self, query, namespace):
        version, ends = int(query["resourceVersion"]), time.time() + float(query.get("timeoutSeconds", 60))
        with LOCK:
            COUNTS["watches"] += 1
            refused = denied("watch", "pods")
            expired = once("expire")
        if refused:
            return self.answer(*forbidden("watch", "pods"))
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        if expired:
            version = None
            self.line("ERROR", failure(410, "Expired", "too old resource version")[1])
        while version is not None and time.time() < ends:
            with LOCK:
                fresh = [e for e in EVENTS if e[0] > version]
                if not fresh:
                    LOCK.wait(1)
                    fresh = [e for e in EVENTS if e[0] > version]
                if SETTINGS.get("away") or SETTINGS.get("cut"):
                    SETTINGS.pop("cut", None)
                    return self.lose()
            for version, kind, text in fresh:
                body = json.loads(text)
                if body["metadata"]["namespace"] == namespace and selected(body, query):
                    self.line(kind, body)
            if not fresh:
                self.line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})
        return None

    def line(self, kind, body):
        data = json.dumps({"type": kind, "object": body}).encode() + b"\n"
        half = len(data) // 2  # a line comes in pieces
        self.wfile.write(data[:half])
        self.wfile.flush()
        self.wfile.write(data[half:])
        self.wfile.flush()

    def control(self, words, body):
        with LOCK:
            if words[0] == "set":
                SETTINGS.update(body)
                for name in [k for k, v in SETTINGS.items() if v == ""]:
                    del SETTINGS[name]
                LOCK.notify_all()
            elif words[0] == "evict":
                if body[0] in PODS:
                    PODS[body[0]].delete(int(body[1]))
            elif words[0] == "end":
                PODS[body[0]].first.kill()
            elif words[0] in ("oom", "fail"):
                pod = PODS.get(body[0])
                if pod is not None and pod.killed is None and pod.first is not None:
                    pod.killed = body[1:] or ["", ""]
                    end_group(pod)
            elif words[0] == "lose-node":
                PODS[body[0]].lose_node()
            elif words[0] == "delete-namespace":
                SETTINGS["terminating"] = "1"
                for pod in PODS.values():
                    pod.delete(1)
            elif words[0] == "make":
                labels = dict(w.split("=") for w in body[1:])
                owner = labels.pop("owner", None)
                make({"metadata": {"name": body[0], "labels": labels, **({"ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "job-uid", "controller": True}]} if owner else {})},
                      "spec": {"containers": [{"name": "other", "command": ["sleep", "1000"]}]}})
            elif words[0] == "replace":
                old = PODS.pop(body[0])
                emit("DELETED", old.body)
                old.first.kill()
                make({"metadata": {"name": body[0], "labels": {}},
                      "spec": {"containers": [{"name": "other", "command": ["sleep", "1000"]}]}})
            elif words[0] != "state":
                raise ValueError(words)
            return {"pods": {n: p.body["status"]["phase"] for n, p in PODS.items()}, "counts": COUNTS, "settings": SETTINGS,
                    "held_s": [round((until or time.time()) - since, 3) for since, until in HELD.values()],
                    "bodies": [p.body for p in PODS.values()]}

    def do_GET(self):
        self.handle_one("GET")

    def do_POST(self):
        self.handle_one("POST")

    def do_DELETE(self):
        self.handle_one("DELETE")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionError, ValueError)):
            super().handle_error(request, client_address)


def main():
    SETTINGS.update(word.split("=", 1) for word in sys.argv[2:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=preempt, daemon=True).start()
    try:
        with Server(f"{FOLDER}/api", Handler) as server:
            server.serve_forever(0.05)
    finally:
        for name in list(PODS):
            end_processes(name)


main()
