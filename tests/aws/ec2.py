"""A stand-in of EC2 for tests: Signature Version 4, client tokens, lags, pages, faults, prices, interruptions and a
bill, after the published API. It is in Python and not in C like the driver, so that no code and no habit is shared.

    ec2.py FOLDER [SETTING=VALUE]...    prints its URL; FOLDER keeps its state and its machines

Settings: see SETTINGS. For tests, under /_/ and without signature: GET state; POST advance {"seconds"},
settings {...}, interrupt {"id", "notice"}, finish {"id", "why"}, rebalance {"id"}, rekey {"id"}, rules [...],
imds/ID/... is the metadata address of a machine.
A rule: {"action", "nth", "do"}, where a RunInstances that is a dry run has the action "DryRun"; "do" is "error CODE STATUS", "cut before", "cut after", "slow S", "half", "garbage",
"kill before" or "kill after": the process whose number is in the file `pidfile`."""
import base64
import calendar
import contextlib
import hashlib
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
from xml.sax.saxutils import escape

import machines
import sigv4

VERSIONS = {"ec2": "2016-11-15", "sts": "2011-06-15"}
TYPES = {   # vCPUs, MiB, GPUs, name of the GPU, its MiB, USD per hour on demand in micro-dollars
    "m5.large": (2, 8192, 0, "", 0, 96000),
    "c5.xlarge": (4, 8192, 0, "", 0, 170000),
    "g5.xlarge": (4, 16384, 1, "A10G", 22888, 1006000),
    "p4d.24xlarge": (96, 1179648, 8, "A100", 40960, 32772600),
}
QUOTAS = {"L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
          "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
          "L-DB2E81BA": "Running On-Demand G and VT instances", "L-3819A6DF": "All G and VT Spot Instance Requests",
          "L-417A185B": "Running On-Demand P instances", "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests"}
SETTINGS = {
    "region": "eu-central-1", "keys": "AKIDTEST:secret-of-test", "seed": 1, "speed": 1.0, "clock": 0.0, "page": 5,
    "boot": "0",          # LOW:HIGH seconds from the request until it runs, at random
    "late": "0",          # LOW:HIGH seconds that an interrupted machine runs beyond its two minutes, at random
    "describe_lag": 0.0, "tag_lag": 0.0, "stale": 0, "forget": 3600.0, "skew": 300.0, "ending": 1.0,
    "interrupt": "",      # LOW:HIGH seconds after the start of a spot machine, at random
    "no_notice": 0, "capacity": "",   # "TYPE/ZONE/MARKET=N,..."; others: as many as wanted
    "tide": 0.0,          # for so many seconds `capacity` holds, for as many it is 0, and so on; machines that are there stay
    "half": 0,            # 1: every second request for a machine is refused for lack of capacity
    "refuse": "",         # ZONE=CODE:STATUS,...: why requests for machines are refused there
    "launch": "",         # ZONE=CODE,...: why machines end before they run ("Client.InternalError": a key of KMS without grant)
    "stuck": "",          # ZONE,...: machines there stay pending
    "bad": "",            # ZONE,...: ssh answers at no machine there
    "quota": 100000,      # vCPUs
    "quotas": "",         # CODE=VCPUS,...: what Service Quotas says, if it is not that
    "prices": "",         # file of lines TIME,TYPE,ZONE,USD; TIME in seconds from the start of the stand-in
    "images": "ami-00000001", "faults": 0.0,   # share of requests with a random fault
    "pidfile": "", "port": 0, "spot_as": "spot",
    "sshd": "", "deaf": 0,    # see machines.py
    "billed": "",         # "shown": from when an answer last showed the machine pending, so that the bill can be known exactly
    "missing": "",        # TYPE/ZONE,...: this zone does not have the type
    "denied": "",         # ACTION,...: without permission
}
PARAMETERS = {   # besides Action and Version
    "RunInstances": r"ImageId|InstanceType|M(in|ax)Count|ClientToken|SubnetId|SecurityGroupId\.\d+|KeyName|UserData|"
                    r"InstanceInitiatedShutdownBehavior|DryRun|Placement\.AvailabilityZone|"
                    r"IamInstanceProfile\.(Name|Arn)|"
                    r"InstanceMarketOptions\.(MarketType|SpotOptions\.(MaxPrice|SpotInstanceType|"
                    r"InstanceInterruptionBehavior))|MetadataOptions\.(HttpTokens|HttpPutResponseHopLimit|HttpEndpoint)|"
                    r"TagSpecification\.\d+\.(ResourceType|Tag\.\d+\.(Key|Value))|"
                    r"BlockDeviceMapping\.\d+\.(DeviceName|Ebs\.(VolumeSize|VolumeType|DeleteOnTermination))",
    "DescribeInstances": r"InstanceId\.\d+|Filter\.\d+\.(Name|Value\.\d+)|MaxResults|NextToken",
    "TerminateInstances": r"InstanceId\.\d+",
    "DescribeSpotInstanceRequests": r"SpotInstanceRequestId\.\d+|Filter\.\d+\.(Name|Value\.\d+)|MaxResults|NextToken",
    "DescribeSpotPriceHistory": r"InstanceType\.\d+|ProductDescription\.\d+|AvailabilityZone|StartTime|EndTime|"
                                r"MaxResults|NextToken",
    "DescribeInstanceTypes": r"InstanceType\.\d+",
    "DescribeInstanceTypeOfferings": r"LocationType|Filter\.\d+\.(Name|Value\.\d+)|MaxResults|NextToken",
    "DescribeSubnets": r"SubnetId\.\d+|Filter\.\d+\.(Name|Value\.\d+)",
    "GetCallerIdentity": r"",
}


class Failed(Exception):
    def __init__(self, code, status, text=""):
        super().__init__(text)
        self.code, self.status, self.text = code, status, text or code


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


def from_stamp(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


class Cloud:
    def __init__(self, folder, settings):
        self.folder, self.lock = folder, threading.RLock()
        self.set = dict(SETTINGS)
        self.machines, self.tokens, self.rules = {}, {}, []
        self.counts, self.pages, self.seen, self.showing = {}, {}, set(), []
        self.frozen, self.asked = None, 0
        self.clock = self.start = time.time()
        self.real = time.monotonic()
        self.change(settings)
        self.random = random.Random(int(self.set["seed"]))
        self.log_path = os.path.join(folder, "log")
        self.recall()
        self.log = open(self.log_path, "a")
        self.note("start", {"at": self.start})

    def change(self, settings):
        with self.lock:
            self.clock, self.real = self.now() - self.set["clock"], time.monotonic()
            for name, value in settings.items():
                if name not in SETTINGS:
                    raise ValueError("no such setting: " + name)
                self.set[name] = type(SETTINGS[name])(value)
            self.keys = {}
            for one in self.set["keys"].split(","):
                key, secret, *more = one.split(":")
                self.keys[key] = (secret, more[0] if more else None, float(more[1]) if len(more) > 1 else None)
            self.prices = {}
            if self.set["prices"]:
                with open(self.set["prices"]) as file:
                    for line in file:
                        at, kind, zone, usd = line.strip().split(",")
                        whole, _, part = usd.partition(".")
                        self.prices.setdefault((kind, zone), []).append(
                            (int(self.start + float(at)), int(whole) * 10**6 + int((part + "000000")[:6])))

    # ---- what survives the stand-in ----

    def note(self, kind, value):
        self.log.write(json.dumps([kind, self.now(), value]) + "\n")
        self.log.flush()

    def recall(self):
        if not os.path.exists(self.log_path):
            return
        with open(self.log_path) as file:
            for line in file:
                kind, now, value = json.loads(line)
                self.clock, self.real = now - self.set["clock"], time.monotonic()
                if kind == "machine":
                    self.machines[value["id"]] = value
                elif kind == "token":
                    self.tokens[tuple(value[0])] = value[1]
                elif kind == "start":
                    self.start = value["at"]
        self.change({})

    # ---- time ----

    def now(self):
        """It stands while a request is answered. clock: by how much it is ahead of the clock of this machine."""
        if self.frozen is not None:
            return self.frozen
        return self.clock + (time.monotonic() - self.real) * self.set["speed"] + self.set["clock"]

    @contextlib.contextmanager
    def still(self):
        self.frozen = self.now()
        try:
            yield
        finally:
            self.frozen = None

    def draw(self, name):
        low, _, high = self.set[name].partition(":")
        return int(self.random.uniform(float(low), float(high or low)))

    def state(self, m):
        now = self.now()
        if m["end"] is not None and now >= m["end"]:
            return "terminated" if now >= m["end"] + self.set["ending"] else "shutting-down"
        return "running" if now >= m["running"] else "pending"

    def tick(self):
        with self.lock:
            for m in list(self.machines.values()):
                name, now = m["id"], int(self.now())
                state = self.state(m)
                if state == "running" and name not in self.seen:
                    self.seen.add(name)
                    machines.start(self.folder, name, m["address"], base64.b64decode(m["user_data"]),
                                   "" if m["zone"] in self.by_zone("bad") else self.set["sshd"], bool(self.set["deaf"]))
                if state == "running" and m["end"] is None and machines.is_off(self.folder, name):
                    self.finish(m, now, "Client.InstanceInitiatedShutdown")
                if m["interrupt"] is not None and m["notice"] is None and m["end"] is None and now >= m["interrupt"]:
                    self.interrupt(m, not self.set["no_notice"])
                if m["notice"] is not None and m["end"] is None and now >= m["notice"] + 120 + m["late"]:
                    self.finish(m, m["notice"] + 120 + m["late"], "Server.SpotInstanceTermination")
                if m["end"] is not None and not m["gone"]:
                    m["gone"] = True
                    self.note("machine", m)
                    machines.end(self.folder, name, m["address"])

    def finish(self, m, at, why):
        m["end"], m["why"] = at, why
        if m["spot"] and m["notice"] is None and why != "Server.SpotInstanceTermination":
            m["status"], m["status_at"] = "instance-terminated-by-user", at
        self.note("machine", m)

    def interrupt(self, m, notice):
        at = int(self.now())
        m["status"], m["status_at"] = "instance-terminated-no-capacity", at
        if notice:
            m["notice"] = at
            self.note("machine", m)
        else:
            self.finish(m, at, "Server.SpotInstanceTermination")

    # ---- money ----

    def price(self, m, at):
        """At this instant, and how long it holds."""
        price, until = TYPES[m["type"]][5], None
        if m["spot"]:
            price = price * 3 // 10
            for begin, usd in self.prices.get((m["type"], m["zone"]), []):
                if begin <= at:
                    price = usd
                elif until is None:
                    until = begin
        return price, until

    def bill(self, m):
        """(gross, refund) in micro-dollars: whole seconds, at least 60, at the prices of the time."""
        end = m["end"] if m["end"] is not None else int(self.now())
        begin = m["shown"].get("pending", m["launch"]) if self.set["billed"] == "shown" else m["running"]
        return self.charge(m, begin, end) if end >= m["running"] else (0, 0)

    def as_shown(self, m):
        """The same as far as answers showed it: from the last that showed the machine pending, until the first that
        showed its end, unless EC2 tells the end.  More than the bill, but for a machine that ran less than a minute: it
        pays for a minute either way, and where the price changes in that minute the earlier one may be the cheaper."""
        shown, end = m["shown"], m["end"]
        if end is None or not m["why"].startswith("Client.User"):
            end = shown.get("end", int(self.now()))
        return self.charge(m, shown.get("pending", m["launch"]), end)

    def charge(self, m, begin, end):
        free = m["spot"] and m["why"] == "Server.SpotInstanceTermination" and end - begin < 3600
        at, end = begin, max(end, begin + 60)
        total, length = 0, end - at
        while at < end:
            price, until = self.price(m, at)
            stop = min(end, until) if until is not None else end
            total += price * (stop - at)
            at = stop
        gross = (total + 1800) // 3600
        return gross, gross if free else 0

    def show(self):
        """What the answer that is sent now shows of machines: until when pending, since when running and ended."""
        for m, state in self.showing:
            if state != "pending":
                m["shown"].setdefault(state, int(self.now()))
            elif "running" not in m["shown"]:
                m["shown"][state] = int(self.now())

    def report(self):
        with self.lock:
            self.tick()
            bills = [self.bill(m) for m in self.machines.values()]
            range_of = [sorted((g - r, b[0] - b[1])) for (g, r), b in zip(map(self.as_shown, self.machines.values()), bills)]
            zones = {}
            for (token, zone) in self.tokens:
                zones.setdefault(token, set()).add(zone)
            return {
                "now": self.now(), "made": len(self.machines), "tokens": len(zones),
                "running": sum(self.state(m) in ("pending", "running") for m in self.machines.values()),
                "zones_of_a_token": max([len(z) for z in zones.values()], default=0),
                "gross": sum(b[0] for b in bills), "refunds": sum(b[1] for b in bills),
                "bill": sum(b[0] - b[1] for b in bills),
                "least": sum(r[0] for r in range_of), "most": sum(r[1] for r in range_of), "interrupted": sum(
                    m["why"] == "Server.SpotInstanceTermination" for m in self.machines.values()),
                "requests": self.counts, "machines": [
                    dict(m, user_data=None, state=self.state(m)) for m in self.machines.values()],
            }

    # ---- actions ----

    def zone_of(self, subnet):
        zone = self.set["region"] + subnet[-1]
        if not re.fullmatch(r"subnet-0000000[abc]", subnet):
            raise Failed("InvalidSubnetID.NotFound", 400, "The subnet ID '%s' does not exist" % subnet)
        return zone

    def run_instances(self, p):
        spot = p.get("InstanceMarketOptions.MarketType") == "spot"
        zone, kind = self.zone_of(p.get("SubnetId", "")), p.get("InstanceType", "")
        if p.get("MinCount") != "1" or p.get("MaxCount") != "1":
            raise Failed("InvalidParameterValue", 400, "this stand-in makes one machine a request")
        if kind not in TYPES:
            raise Failed("InvalidParameterValue", 400, "Invalid value '%s' for InstanceType." % kind)
        if p.get("ImageId") not in self.set["images"].split(","):
            raise Failed("InvalidAMIID.NotFound", 400, "The image id '[%s]' does not exist" % p.get("ImageId"))
        user_data = base64.b64decode(p.get("UserData", ""), validate=True)
        if len(user_data) > 16384:
            raise Failed("InvalidParameterValue", 400, "User data is limited to 16384 bytes")
        token = (p.get("ClientToken") or os.urandom(8).hex(), zone)
        digest = hashlib.sha256(repr(sorted(p.items())).encode()).hexdigest()
        if p.get("DryRun") == "true":
            self.check_dry_run(p, kind, zone, spot)
            raise Failed("DryRunOperation", 412, "Request would have succeeded, but DryRun flag is set.")
        if token in self.tokens:
            known, name = self.tokens[token]
            if known != digest:
                raise Failed("IdempotentParameterMismatch", 400, "Arguments on this idempotent request are inconsistent")
            return self.reservation([self.machines[name]])
        self.check_names(p)
        self.check_room(kind, zone, spot, p)
        tags = {}
        for name, value in p.items():
            found = re.fullmatch(r"(TagSpecification\.\d+)\.Tag\.(\d+)\.Key", name)
            if found and p.get(found[1] + ".ResourceType") == "instance":
                tags[value] = p.get("%s.Tag.%s.Value" % (found[1], found[2]), "")
        number = len(self.machines) + 1
        now = int(self.now())
        m = {"id": "i-%017x" % number, "token": token[0], "zone": zone, "subnet": p["SubnetId"], "type": kind,
             "spot": spot, "tags": tags, "launch": now, "running": now + self.draw("boot"), "end": None, "why": "",
             "late": self.draw("late"), "shown": {},
             "image": p["ImageId"], "request": "sir-%08x" % number, "status": "fulfilled", "status_at": now,
             "notice": None, "interrupt": None, "gone": False, "address": "127.77.%d.%d" % (number >> 8, number & 255),
             "user_data": p.get("UserData", ""), "max_price": p.get("InstanceMarketOptions.SpotOptions.MaxPrice")}
        if zone in self.by_zone("stuck"):
            m["running"] = now + 10**9
        if zone in self.by_zone("launch"):
            m["running"], m["end"], m["why"] = now + 10**9, now + 1, self.by_zone("launch")[zone]
        if spot and self.set["interrupt"]:
            low, high = map(float, self.set["interrupt"].split(":"))
            m["interrupt"] = m["running"] + self.random.uniform(low, high)
        m["spot"] = spot and self.set["spot_as"] == "spot"
        self.machines[m["id"]] = m
        self.tokens[token] = [digest, m["id"]]
        self.note("machine", m)
        self.note("token", [token, self.tokens[token]])
        return self.reservation([m])

    def check_dry_run(self, p, kind, zone, spot):
        """What EC2 may find before it looks for a machine."""
        if p.get("ClientToken", "").startswith("espl-"):
            raise Failed("InvalidParameterCombination", 400, "here a dry run has no token of a lease")
        if "%s/%s" % (kind, zone) in self.set["missing"].split(","):
            raise Failed("Unsupported", 400, "Your requested instance type (%s) is not supported in your requested "
                         "Availability Zone (%s)." % (kind, zone))
        self.check_names(p)
        if TYPES[kind][0] > self.set["quota"]:
            if spot:
                raise Failed("MaxSpotInstanceCountExceeded", 400, "Max spot instance count exceeded")
            raise Failed("VcpuLimitExceeded", 400, "You have requested more vCPU capacity than your current limit")

    def check_names(self, p):
        group, key = p.get("SecurityGroupId.1", "sg-00000001"), p.get("KeyName", "tune")
        if group not in ("sg-00000001", "sg-0123456789abcdef0"):
            raise Failed("InvalidGroup.NotFound", 400, "The security group '%s' does not exist" % group)
        if key != "tune":
            raise Failed("InvalidKeyPair.NotFound", 400, "The key pair '%s' does not exist" % key)

    def by_zone(self, name):
        """Of a setting "ZONE=VALUE,...": by the zone's whole name; "ZONE,...": 1."""
        return {self.set["region"] + one.partition("=")[0]: one.partition("=")[2] or "1" for one in filter(None, self.set[name].split(","))}

    def check_room(self, kind, zone, spot, p):
        live = [m for m in self.machines.values() if self.state(m) in ("pending", "running")]
        refused = self.by_zone("refuse").get(zone)
        if refused:
            raise Failed(refused.split(":")[0], int(refused.split(":")[1]), "by the script")
        self.asked += 1
        ebb = self.set["tide"] > 0 and int((self.now() - self.start) / self.set["tide"]) % 2
        if ebb or (self.set["half"] and self.asked % 2 == 0):
            raise Failed("InsufficientInstanceCapacity", 500, "We currently do not have sufficient capacity in " + zone)
        for one in filter(None, self.set["capacity"].split(",")):
            where, _, count = one.partition("=")
            if where == "%s/%s/%s" % (kind, zone, "spot" if spot else "on-demand") and sum(
                    m["type"] == kind and m["zone"] == zone and m["spot"] == spot for m in live) >= int(count):
                raise Failed("InsufficientInstanceCapacity", 500, "There is no Spot capacity available that matches "
                             "your request." if spot else "We currently do not have sufficient capacity in " + zone)
        if sum(TYPES[m["type"]][0] for m in live) + TYPES[kind][0] > self.set["quota"]:
            if spot:
                raise Failed("MaxSpotInstanceCountExceeded", 400, "Max spot instance count exceeded")
            raise Failed("VcpuLimitExceeded", 400, "You have requested more vCPU capacity than your current limit")
        most = p.get("InstanceMarketOptions.SpotOptions.MaxPrice")
        probe = {"type": kind, "zone": zone, "spot": True}
        if spot and most and float(most) * 1e6 < self.price(probe, int(self.now()))[0]:
            raise Failed("SpotMaxPriceTooLow", 400, "Your Spot request price of %s is lower than the minimum required "
                         "Spot request fulfillment price." % most)

    def item(self, m):
        state = self.state(m)
        if state == "running" and int(self.set["stale"]) and "running" in m["shown"] and ("stale", m["id"]) not in self.seen:
            self.seen.add(("stale", m["id"]))
            state = "pending"    # an answer of the past
        self.showing.append((m, "end" if state in ("shutting-down", "terminated") else state))
        codes = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
        item = {"instanceId": m["id"], "imageId": m["image"], "instanceType": m["type"], "clientToken": m["token"],
                "instanceState": {"code": 256 + codes[state], "name": state}, "launchTime": stamp(m["launch"]),
                "placement": {"availabilityZone": m["zone"], "tenancy": "default"}, "subnetId": m["subnet"],
                "privateIpAddress": m["address"], "productCodes": [], "surprise%d" % self.random.randrange(3): {"a": "b"},
                "tagSet": [{"key": k, "value": v} for k, v in m["tags"].items()], "reason": ""}
        if m["spot"]:
            item.update(instanceLifecycle="spot", spotInstanceRequestId=m["request"])
        if state == "running":
            item["ipAddress"] = m["address"]
        if m["end"] is not None and state in ("shutting-down", "terminated"):
            item["stateReason"] = {"code": m["why"], "message": m["why"] + ": it has ended"}
            item["reason"] = m["why"]
            if m["why"].startswith("Client.User"):
                item["reason"] = "User initiated (%s)" % time.strftime("%Y-%m-%d %H:%M:%S GMT", time.gmtime(m["end"]))
        return item

    def reservation(self, found):
        return {"reservationId": "r-1", "ownerId": "123456789012", "groupSet": [],
                "instancesSet": [self.item(m) for m in found]}

    def filters(self, p):
        found = {}
        for name, value in p.items():
            one = re.fullmatch(r"(Filter\.\d+)\.Name", name)
            if one:
                found[value] = [v for k, v in p.items() if k.startswith(one[1] + ".Value.")]
        return found

    def page(self, p, things, ids):
        """One page of things, and the token of the next. Ids are told at once."""
        if ids:
            if "MaxResults" in p:
                raise Failed("InvalidParameterCombination", 400, "MaxResults is not allowed together with ids")
            return things, ""
        if "NextToken" in p:
            if p["NextToken"] not in self.pages:
                raise Failed("InvalidNextToken", 400)
            things = self.pages.pop(p["NextToken"])
        most = int(p.get("MaxResults", 1000))
        if not 5 <= most <= 1000:
            raise Failed("InvalidMaxResults", 400)
        most = 0 if self.random.random() < 0.1 else min(most, int(self.set["page"]))
        now, rest = things[:most], things[most:]
        if not rest:
            return now, ""
        token = "next/+=" + os.urandom(400).hex()
        self.pages[token] = rest
        return now, token

    def visible(self, m):
        now = self.now()
        return now >= m["launch"] + self.set["describe_lag"] and (
            m["end"] is None or now < m["end"] + self.set["forget"])

    def chosen(self, m, filters):
        lag = self.now() < m["launch"] + self.set["tag_lag"]
        values = {"client-token": m["token"], "instance-state-name": self.state(m), "instance-id": m["id"],
                  "instance-lifecycle": "spot" if m["spot"] else "", "spot-instance-request-id": m["request"]}
        for name, wanted in filters.items():
            if name.startswith("tag:"):
                if lag or m["tags"].get(name[4:]) not in wanted:
                    return False
            elif name == "tag-key":
                if lag or not set(wanted) & set(m["tags"]):
                    return False
            elif name not in values:
                raise Failed("InvalidParameterValue", 400, "The filter '%s' is invalid" % name)
            elif values[name] not in wanted:
                return False
        return True

    def listed(self, p, name):
        ids = [v for k, v in p.items() if k.startswith(name + ".")]
        return ids

    def describe_instances(self, p):
        ids = self.listed(p, "InstanceId")
        found = [m for m in self.machines.values() if self.visible(m) and self.chosen(m, self.filters(p))]
        if ids:
            found = [m for m in found if m["id"] in ids]
            if len(found) < len(ids):
                raise Failed("InvalidInstanceID.NotFound", 400, "The instance IDs '%s' do not exist" % ", ".join(ids))
        self.random.shuffle(found)
        now, token = self.page(p, found, ids)
        return {"reservationSet": [self.reservation([m]) for m in now], "nextToken": token}

    def terminate_instances(self, p):
        ids = self.listed(p, "InstanceId")
        if not all(i in self.machines and self.visible(self.machines[i]) for i in ids) or not ids:
            raise Failed("InvalidInstanceID.NotFound", 400, "The instance IDs '%s' do not exist" % ", ".join(ids))
        answer, codes = [], {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
        for i in ids:
            before = self.state(self.machines[i])
            if self.machines[i]["end"] is None:
                self.finish(self.machines[i], int(self.now()), "Client.UserInitiatedShutdown")
            answer.append({"instanceId": i, "previousState": {"code": codes[before], "name": before},
                           "currentState": {"code": 32, "name": self.state(self.machines[i])}})
        self.tick()
        return {"instancesSet": answer}

    def describe_spot_instance_requests(self, p):
        ids = self.listed(p, "SpotInstanceRequestId")
        filters = self.filters(p)
        if set(filters) - {"tag:espalier:run", "state", "instance-id"}:
            raise Failed("InvalidParameterValue", 400, "a filter is invalid")
        filters.pop("state", None)
        found = [m for m in self.machines.values() if m["spot"] and self.visible(m) and self.chosen(m, filters) and
                 (not ids or m["request"] in ids)]
        now, token = self.page(p, found, ids)
        return {"spotInstanceRequestSet": [{
            "spotInstanceRequestId": m["request"], "instanceId": m["id"], "type": "one-time",
            "state": "active" if m["end"] is None else "closed", "spotPrice": "1.006000",
            "launchedAvailabilityZone": m["zone"], "status": {"code": m["status"], "message": "see the manual",
                                                              "updateTime": stamp(m["status_at"])}} for m in now],
            "nextToken": token}

    def describe_spot_price_history(self, p):
        kinds = self.listed(p, "InstanceType")
        begin = from_stamp(p["StartTime"]) if "StartTime" in p else 0
        rows = []
        for (kind, zone), series in self.prices.items():
            if kind not in kinds or p.get("AvailabilityZone", zone) != zone:
                continue
            held = [s for s in series if s[0] <= begin][-1:]
            for at, usd in held + [s for s in series if begin < s[0] <= self.now()]:
                rows.append({"instanceType": kind, "availabilityZone": zone, "timestamp": stamp(at),
                             "productDescription": "Linux/UNIX", "spotPrice": "%d.%06d" % divmod(usd, 10**6)})
        rows.sort(key=lambda r: r["timestamp"], reverse=True)
        now, token = self.page(p, rows, False)
        return {"spotPriceHistorySet": now, "nextToken": token}

    def describe_instance_types(self, p):
        kinds = self.listed(p, "InstanceType")
        for kind in kinds:
            if kind not in TYPES:
                raise Failed("InvalidInstanceType", 400, "The following supplied instance types do not exist: [%s]" % kind)
        items = []
        for kind in kinds:
            cpus, memory, gpus, name, gpu_memory, _ = TYPES[kind]
            item = {"instanceType": kind, "vCpuInfo": {"defaultVCpus": cpus}, "memoryInfo": {"sizeInMiB": memory}}
            if gpus:
                item["gpuInfo"] = {"gpus": [{"name": name, "count": gpus, "memoryInfo": {"sizeInMiB": gpu_memory}}]}
            items.append(item)
        return {"instanceTypeSet": items, "nextToken": ""}

    def describe_instance_type_offerings(self, p):
        kinds = self.filters(p).get("instance-type", TYPES)
        if p.get("LocationType") != "availability-zone":
            raise Failed("InvalidParameterValue", 400, "this stand-in knows zones")
        rows = [{"instanceType": kind, "locationType": "availability-zone", "location": self.set["region"] + zone}
                for kind in kinds if kind in TYPES for zone in "abc"
                if "%s/%s%s" % (kind, self.set["region"], zone) not in self.set["missing"].split(",")]
        self.random.shuffle(rows)
        now, token = self.page(p, rows, False)
        return {"instanceTypeOfferingSet": now, "nextToken": token}

    def describe_subnets(self, p):
        ids, filters = self.listed(p, "SubnetId"), self.filters(p)
        if set(filters) - {"default-for-az"}:
            raise Failed("InvalidParameterValue", 400, "a filter is invalid")
        for i in ids:
            self.zone_of(i)
        return {"subnetSet": [{"subnetId": "subnet-0000000" + z, "availabilityZone": self.set["region"] + z,
                               "availabilityZoneId": "euc1-az" + z, "defaultForAz": "true"}
                              for z in "cab" if not ids or "subnet-0000000" + z in ids]}

    def get_caller_identity(self, _):
        return {"GetCallerIdentityResult": {"Arn": "arn:aws:iam::123456789012:user/test", "UserId": "AIDA",
                                            "Account": "123456789012"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud = date = None

    def date_time_string(self, timestamp=None):
        """EC2's clock; of an answer that shows machines, the time of what it shows."""
        now, self.date = self.date or self.cloud.now(), None
        return super().date_time_string(now)

    def log_message(self, *_):
        pass

    def xml(self, name, value):
        if isinstance(value, dict):
            items = list(value.items())
            self.cloud.random.shuffle(items)    # no order is promised
            inner = "".join(self.xml(k, v) for k, v in items)
        elif isinstance(value, list):
            inner = "".join(self.xml("item", v) for v in value)
        else:
            inner = escape(str(value))
        return "<%s>%s</%s>" % (name, inner, name)

    def answer(self, status, text, kind="text/xml;charset=UTF-8", part=None):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data if part is None else data[:part])
        self.wfile.flush()
        if part is not None:
            self.close_connection = True

    def cut(self):
        self.close_connection = True

    def fault(self, action):
        """What the rules say of this request."""
        cloud = self.cloud
        counts = cloud.counts
        counts[action] = counts.get(action, 0) + 1
        counts["all"] = counts.get("all", 0) + 1
        for rule in cloud.rules:
            name = rule.get("action", "all")
            if name in ("all", action) and rule.get("nth", counts[name]) == counts[name]:
                return rule["do"]
        if cloud.random.random() < cloud.set["faults"]:
            return cloud.random.choice(("error RequestLimitExceeded 503", "error InternalError 500", "cut before",
                                        "cut after", "half", "garbage", "error Unavailable 503", "slow 0.5"))
        return ""

    def kill(self):
        with open(self.cloud.set["pidfile"]) as file:
            os.kill(int(file.read()), signal.SIGKILL)

    def act(self, service, p):
        """One request: (status, document), or None if the answer is lost."""
        cloud = self.cloud
        action, version = p.pop("Action", ""), p.pop("Version", "")
        with cloud.lock:
            do = self.fault("DryRun" if p.get("DryRun") == "true" else action)
            word = do.split()
            if do == "cut before":
                return None
            if do == "kill before":
                self.kill()
                return None
            if do.startswith("error"):
                raise Failed(word[1], int(word[2]), "by the script")
            if do == "garbage":
                return 500, "<html>Sorry</html" + "x" * 100000, None
        if word[:1] == ["slow"]:
            time.sleep(float(word[1]))
        with cloud.lock, cloud.still():
            if action not in PARAMETERS or (service == "sts") != (action == "GetCallerIdentity"):
                raise Failed("InvalidAction", 400, "The action %s is not valid for this web service." % action)
            if version != VERSIONS[service]:
                raise Failed("InvalidAction", 400, "The version %s is not known" % version)
            for name in p:
                if not re.fullmatch(PARAMETERS[action], name):
                    raise Failed("UnknownParameter", 400, "The parameter %s is not recognized" % name)
            if action in cloud.set["denied"].split(","):
                raise Failed("UnauthorizedOperation", 403, "You are not authorized to perform this operation. "
                             "Encoded authorization failure message: 4GIOHlTkIaWHQD0Q0m6X")
            cloud.tick()
            cloud.showing, self.date = [], cloud.now()
            result = getattr(cloud, re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower())(p)
            result.setdefault("requestId" if service == "ec2" else "ResponseMetadata", "59dbff89-35bd-4eac-99ed-be587EXAMPLE")
            text = self.xml(action + "Response", result)
            if do == "kill after":
                self.kill()
            elif do not in ("cut after", "half"):
                cloud.show()
        if do in ("cut after", "kill after"):
            return None
        return 200, text, (len(text) // 2 if do == "half" else None)

    def get_parameter(self, body):
        self.cloud.counts["GetParameter"] = self.cloud.counts.get("GetParameter", 0) + 1
        name = json.loads(body)["Name"]
        if self.headers.get("X-Amz-Target") != "AmazonSSM.GetParameter" or name != "/test/image":
            return self.answer(400, json.dumps({"__type": "ParameterNotFound", "message": "no " + name}),
                               "application/x-amz-json-1.1")
        return self.answer(200, json.dumps({"Parameter": {"Name": name, "Value": "ami-00000001", "Version": 1}}),
                           "application/x-amz-json-1.1")

    def get_service_quota(self, body):
        """In vCPUs: as RunInstances counts them, or `quotas`."""
        cloud = self.cloud
        cloud.counts["GetServiceQuota"] = cloud.counts.get("GetServiceQuota", 0) + 1
        asked, kind = json.loads(body), "application/x-amz-json-1.1"
        known = dict(one.split("=") for one in filter(None, cloud.set["quotas"].split(",")))
        if self.headers.get("X-Amz-Target") != "ServiceQuotasV20190624.GetServiceQuota":
            return self.answer(400, json.dumps({"__type": "UnknownOperationException"}), kind)
        if "GetServiceQuota" in cloud.set["denied"].split(","):
            return self.answer(400, json.dumps({"__type": "AccessDeniedException", "Message": "User: arn:aws:iam::"
                                                "123456789012:user/test is not authorized"}), kind)
        if asked["ServiceCode"] != "ec2" or asked["QuotaCode"] not in QUOTAS:
            return self.answer(400, json.dumps({"__type": "NoSuchResourceException", "Message": "no such quota"}), kind)
        return self.answer(200, json.dumps({"Quota": {
            "ServiceCode": "ec2", "QuotaCode": asked["QuotaCode"], "QuotaName": QUOTAS[asked["QuotaCode"]],
            "Value": float(known.get(asked["QuotaCode"], cloud.set["quota"])), "Unit": "None", "Adjustable": True}}), kind)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        if path.startswith("/_/"):
            return self.control(path[3:], body)
        headers = {k.lower(): v for k, v in self.headers.items()}
        try:
            service = sigv4.verify("POST", path, urllib.parse.parse_qsl(query, True), headers, body, self.cloud.keys,
                                   self.cloud.set["region"], ("ec2", "sts", "ssm", "servicequotas"), time.time() + self.cloud.set["clock"],
                                   self.cloud.set["skew"])
            if service == "ssm":
                return self.get_parameter(body)
            if service == "servicequotas":
                return self.get_service_quota(body)
            pairs = urllib.parse.parse_qsl(body.decode(), True, True)
            if len(dict(pairs)) != len(pairs):
                raise Failed("InvalidParameterCombination", 400, "a parameter is there twice")
            said = self.act(service, dict(pairs))
            return self.answer(said[0], said[1], part=said[2]) if said else self.cut()
        except (Failed, sigv4.Refused) as error:
            return self.answer(error.status, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + self.xml("Response", {
                "Errors": {"Error": {"Code": error.code, "Message": error.text}}, "RequestID": "ea966190-f9aa-478e"}))
        except (ValueError, KeyError) as error:
            return self.answer(400, self.xml("Response", {"Errors": {"Error": {
                "Code": "InvalidParameterValue", "Message": repr(error)}}, "RequestID": "1"}))

    def control(self, what, body):
        if what == "ask":  # a test's expression of what is known, so that a poll costs no process
            return self.answer(200, "%s\n" % eval(body.decode(), {"s": json.loads(json.dumps(self.cloud.report()))}), "text/plain")
        cloud, value = self.cloud, json.loads(body or b"{}")
        with cloud.lock:
            if what == "advance":
                cloud.clock += value["seconds"]
                cloud.note("advance", {})
            elif what == "settings":
                cloud.change(value)
            elif what == "interrupt":
                cloud.interrupt(cloud.machines[value["id"]], value.get("notice", True))
            elif what == "finish":
                cloud.finish(cloud.machines[value["id"]], int(cloud.now()), value["why"])
            elif what == "rebalance":
                cloud.machines[value["id"]]["rebalance"] = cloud.now()
            elif what == "rekey":
                machines.rekey(cloud.folder, value["id"], cloud.machines[value["id"]]["address"], cloud.set["sshd"])
            elif what == "rules":
                cloud.rules, cloud.counts = value, {}
            else:
                return self.answer(404, "no such control\n")
            cloud.tick()
        return self.answer(200, "{}\n", "application/json")

    def do_PUT(self):
        if re.fullmatch(r"/_/imds/i-[0-9a-f]+/latest/api/token", self.path) and "X-aws-ec2-metadata-token-ttl-seconds" in self.headers:
            return self.answer(200, "token-of-imds", "text/plain")
        return self.answer(400, "")

    def do_GET(self):
        if self.path == "/_/state":
            return self.answer(200, json.dumps(self.cloud.report()) + "\n", "application/json")
        found = re.fullmatch(r"/_/imds/(i-[0-9a-f]+)/latest/meta-data/(.*)", self.path)
        if not found or found[1] not in self.cloud.machines:
            return self.answer(404, "")
        if self.headers.get("X-aws-ec2-metadata-token") != "token-of-imds":
            return self.answer(401, "")
        m = self.cloud.machines[found[1]]
        if found[2] == "instance-id":
            return self.answer(200, m["id"], "text/plain")
        if found[2] == "events/recommendations/rebalance" and m.get("rebalance") is not None:
            return self.answer(200, json.dumps({"noticeTime": stamp(m["rebalance"])[:19] + "Z"}))
        if found[2] == "spot/instance-action" and m["notice"] is not None:
            return self.answer(200, json.dumps({"action": "terminate", "time": stamp(m["notice"] + 120)[:19] + "Z"}))
        return self.answer(404, "")


def serve(cloud):
    """The listener, and the thread that moves time."""
    class Bound(Handler):
        pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):
            """A client that goes away is no error here."""
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(*_)

    Bound.cloud = cloud
    server = Server(("127.0.0.1", int(cloud.set["port"])), Bound)
    server.daemon_threads = True

    def move():
        while True:
            cloud.tick()
            time.sleep(0.05)

    threading.Thread(target=move, daemon=True).start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder, exist_ok=True)
    cloud = Cloud(folder, dict(one.split("=", 1) for one in sys.argv[2:]))
    server = serve(cloud)
    print("http://127.0.0.1:%d" % server.server_address[1], flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            signal.pause()
    finally:
        for m in cloud.machines.values():
            machines.end(folder, m["id"], m["address"])


if __name__ == "__main__":
    main()
