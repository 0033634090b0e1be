"""A stand-in of S3 for tests: Signature Version 4 in headers and in URLs, multipart uploads, CRC-32C checksums,
conditional writes, listings, and faults, after the published API.

    s3.py [SETTING=VALUE]...    prints its URL; buckets are in the path

For tests, under /_/ and without signature: GET state; POST rules [...] and settings {...}. A rule is {"op", "nth", "do"};
"op" as in `Handler.name_of`, or "all"; "do" is "error CODE STATUS", "expired", "cut before", "cut after", "half", "garbage",
"slow S", or "kill before" and "kill after": the process whose number is in the file `pidfile`."""
import base64
import calendar
import functools
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

import sigv4

SETTINGS = {
    "region": "eu-central-1", "keys": "AKIDTEST:secret-of-test", "bucket": "pears", "account": "123456789012",
    "theirs": "theirs",          # a bucket of another account
    "elsewhere": "elsewhere",    # a bucket in us-west-2
    "seed": 1, "faults": 0.0, "part_least": 5 << 20, "pidfile": "", "port": 0, "host": "127.0.0.1", "checksums": 1,
    "page": 7, "lifetime": 604800,
    "versioning": "",            # "Enabled" or "Suspended"
    "deny": "",                  # operations that the keys may not do, with commas between them
    "lock": 0,                   # 1: a bucket with Object Lock
    "ahead": 0,                  # seconds that its clock is ahead of that of this machine
}
CRC = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ 0x82f63b78 if byte & 1 else byte >> 1
    CRC.append(byte)


BLOCK = 65536
SKIP = [1 << bit for bit in range(32)]    # what becomes of each bit of the state behind BLOCK zero bytes


def skip(value, table):
    out = 0
    for bit in range(32):
        if value >> bit & 1:
            out ^= table[bit]
    return out


SKIP = [value >> 8 ^ CRC[value & 255] for value in SKIP]
for _ in range(16):
    SKIP = [skip(value, SKIP) for value in SKIP]


@functools.lru_cache(64)
def state_of(block):
    """The state behind a block from 0: equal blocks are looked at once."""
    value = 0
    for byte in block:
        value = value >> 8 ^ CRC[(value ^ byte) & 255]
    return value


def crc32c(data):
    value, whole = 0xffffffff, len(data) // BLOCK * BLOCK
    for at in range(0, whole, BLOCK):
        value = skip(value, SKIP) ^ state_of(data[at:at + BLOCK])
    for byte in data[whole:]:
        value = value >> 8 ^ CRC[(value ^ byte) & 255]
    return base64.b64encode((value ^ 0xffffffff).to_bytes(4, "big")).decode()


class Failed(Exception):
    def __init__(self, code, status, text="", headers=None):
        super().__init__(text)
        self.code, self.status, self.text, self.headers = code, status, text or code, headers or {}


class Store:
    def __init__(self, settings):
        self.lock = threading.RLock()
        self.set = dict(SETTINGS)
        self.objects, self.uploads, self.counts, self.rules, self.log = {}, {}, {}, [], []
        self.versions = {}           # of each key, the oldest first: (id, body); the body of a delete marker is None
        self.most, self.now = 0, 0
        self.change(settings)
        self.random = random.Random(int(self.set["seed"]))

    def change(self, settings):
        for name, value in settings.items():
            if name not in SETTINGS:
                raise ValueError("no such setting: " + name)
            self.set[name] = type(SETTINGS[name])(value)
        self.keys = {}
        for one in self.set["keys"].split(","):
            key, secret, *more = one.split(":")
            self.keys[key] = (secret, more[0] if more else None, float(more[1]) if len(more) > 1 else None)

    def add_version(self, key, body):
        """A new object, or (None) a delete marker; the headers of the answer."""
        how, here = self.set["versioning"], self.versions.setdefault(key, [])
        name = os.urandom(8).hex() if how == "Enabled" else "null"
        if name == "null":
            here[:] = [one for one in here if one[0] != "null"]
        if body is not None or how:
            here.append((name, body))
        self.show(key)
        return {"x-amz-version-id": name} if how else {}

    def remove_version(self, key, name):
        found = [one for one in self.versions.get(key, []) if one[0] == name]
        self.versions[key] = [one for one in self.versions.get(key, []) if one[0] != name]
        self.show(key)
        return {"x-amz-version-id": name, **({"x-amz-delete-marker": "true"} if found and found[0][1] is None else {})}

    def show(self, key):
        """What a request without a version sees."""
        here = self.versions[key]
        self.objects.pop(key, None)
        if here and here[-1][1] is not None:
            self.objects[key] = here[-1][1]
        if not here:
            del self.versions[key]

    def time(self):
        return time.time() + int(self.set["ahead"])

    def report(self):
        return {"versions": sum(map(len, self.versions.values())),
                "counts": self.counts, "uploads": len(self.uploads), "at_once": self.most,
                "objects": {key: len(value) for key, value in self.objects.items()}, "faults": self.log}

    def fault_of(self, op):
        self.counts[op] = self.counts.get(op, 0) + 1
        self.counts["all"] = self.counts.get("all", 0) + 1
        for rule in self.rules:
            if rule["op"] in (op, "all") and self.counts[rule["op"]] in (
                    rule["nth"] if isinstance(rule["nth"], list) else [rule["nth"]]):
                return rule["do"]
        if self.random.random() < self.set["faults"]:
            return self.random.choice(("error SlowDown 503", "error InternalError 500", "cut before", "cut after", "half",
                                       "expired"))
        return ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=None, part=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if part is None else body[:part])
        if part is not None:
            self.wfile.flush()
            self.cut()

    def cut(self):
        self.close_connection = True
        self.connection.close()

    def fail(self, error):
        body = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code><Message>%s</Message>' \
               "<RequestId>0</RequestId></Error>" % (error.code, escape(error.text))
        self.answer(error.status, body.encode(), dict({"Content-Type": "application/xml"},
                                                      **getattr(error, "headers", {})))

    def name_of(self, key, query):
        if not key:
            if "versioning" in query:
                return "GetVersioning"
            return "ListUploads" if "uploads" in query else "ListObjects" if "list-type" in query else "HeadBucket"
        if self.command == "PUT":
            return "UploadPart" if "uploadId" in query else "PutObject"
        if self.command == "POST":
            return "CreateUpload" if "uploads" in query else "CompleteUpload"
        if self.command == "DELETE":
            return "AbortUpload" if "uploadId" in query else "DeleteVersion" if "versionId" in query else "DeleteObject"
        return "GetObject"

    def kill(self):
        with open(self.store.set["pidfile"]) as file:
            os.kill(int(file.read()), signal.SIGKILL)

    def handle_one(self):
        store = self.store
        path, _, text = self.path.partition("?")
        headers = {k.lower(): v for k, v in self.headers.items()}
        size = int(headers.get("content-length") or 0)
        if path.startswith("/_/"):
            return self.control(path[3:], self.rfile.read(size))
        pairs = urllib.parse.parse_qsl(text, True)
        query = dict(pairs)
        bucket, _, key = urllib.parse.unquote(path[1:]).partition("/")
        op = self.name_of(key, query)
        with store.lock:
            do = store.fault_of(op)
            if do:
                store.log.append([op, do])
        word = do.split()
        if do == "half" and self.command == "PUT":
            self.rfile.read(size // 2)
            return self.cut()
        if word[:1] == ["slow"]:
            time.sleep(float(word[1]))
        body = self.rfile.read(size)
        if do == "kill before":
            self.kill()
            return self.cut()
        if do == "cut before":
            return self.cut()
        try:
            if do.startswith("error"):
                raise Failed(word[1], int(word[2]), "by the script")
            if do == "expired" and "X-Amz-Signature" in query:
                raise Failed("AccessDenied", 403, "Request has expired")
            if "X-Amz-Signature" in query:
                sigv4.verify_url(self.command, path, pairs, headers, store.keys, store.set["region"], store.time())
                if op == "PutObject" and "if-none-match" not in query["X-Amz-SignedHeaders"].split(";"):
                    raise Failed("AccessDenied", 403, "this URL could overwrite what is there")
                if int(query["X-Amz-Expires"]) > store.set["lifetime"]:
                    raise Failed("AccessDenied", 403, "this URL would live too long")
            else:
                self.check_clock(headers)
                sigv4.verify(self.command, path, pairs, headers, body, store.keys, store.set["region"], ("s3",),
                             store.time(), 900)
                if "x-amz-content-sha256" not in headers:
                    raise Failed("InvalidRequest", 400, "Missing required header for this request: x-amz-content-sha256")
            self.find_bucket(bucket, headers)
            if op in store.set["deny"].split(","):
                raise Failed("AccessDenied", 403, "User: me is not authorized to perform: s3:" + op)
            with store.lock:
                status, answer, more = getattr(self, re.sub(r"(?<!^)(?=[A-Z])", "_", op).lower())(
                    "%s/%s" % (bucket, key), {k: v for k, v in query.items() if not k.startswith("X-Amz-")}, headers, body)
            if do == "kill after":
                self.kill()
            if do in ("cut after", "kill after"):
                return self.cut()
            if do == "garbage":  # of something that is not S3
                return self.answer(200, b"<html>Sorry</html>")
            return self.answer(status, answer, more, len(answer) // 2 if do == "half" and len(answer) > 1 else None)
        except (Failed, sigv4.Refused) as error:
            return self.fail(error)

    def do_GET(self):
        with self.store.lock:
            self.store.now += 1
            self.store.most = max(self.store.most, self.store.now)
        try:
            self.handle_one()
        finally:
            with self.store.lock:
                self.store.now -= 1

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def find_bucket(self, bucket, headers):
        store = self.store
        if bucket == store.set["elsewhere"]:
            raise Failed("PermanentRedirect", 301, "The bucket you are attempting to access must be addressed using the "
                         "specified endpoint.", {"x-amz-bucket-region": "us-west-2"})
        if bucket == store.set["theirs"]:
            raise Failed("AccessDenied", 403, "Access Denied")
        if bucket != store.set["bucket"]:
            raise Failed("NoSuchBucket", 404, "The specified bucket does not exist")
        if headers.get("x-amz-expected-bucket-owner", store.set["account"]) != store.set["account"]:
            raise Failed("AccessDenied", 403, "Access Denied")

    def check_clock(self, headers):
        try:
            seconds = calendar.timegm(time.strptime(headers.get("x-amz-date", ""), "%Y%m%dT%H%M%SZ"))
        except ValueError:
            return  # verify refuses it
        if abs(self.store.time() - seconds) > 900:
            raise Failed("RequestTimeTooSkewed", 403, "The difference between the request time and the current time is too large.")

    def date_time_string(self, timestamp=None):
        return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.store.time()))

    def check_sum(self, headers, body):
        sent = headers.get("x-amz-checksum-crc32c")
        if sent is not None and not self.store.set["checksums"]:
            raise Failed("NotImplemented", 501, "Header 'x-amz-checksum-crc32c' not implemented")
        if sent is not None and sent != crc32c(body):
            raise Failed("BadDigest", 400, "The CRC32C you specified did not match the calculated checksum.")
        return sent

    # ---- operations: (status, body, headers) ----

    def put_object(self, key, _, headers, body):
        self.check_sum(headers, body)
        if headers.get("if-none-match") == "*" and key in self.store.objects:
            raise Failed("PreconditionFailed", 412, "At least one of the pre-conditions you specified did not hold")
        if self.store.set["lock"]:
            raise Failed("InvalidRequest", 400, "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with "
                         "Object Lock parameters")
        return 200, b"", {"ETag": '"%s"' % hashlib.md5(body).hexdigest(), **self.store.add_version(key, body)}

    def get_object(self, key, _, headers, __):
        here = self.store.versions.get(key, [])
        version = {"x-amz-version-id": here[-1][0]} if here and self.store.set["versioning"] else {}
        if key not in self.store.objects:
            raise Failed("NoSuchKey", 404, "The specified key does not exist.",
                         {**version, **({"x-amz-delete-marker": "true"} if here else {})})
        body = self.store.objects[key]
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if not found:
            return 200, body, version
        first, last = int(found[1]), min(int(found[2] or len(body)), len(body) - 1)
        if first >= len(body):
            raise Failed("InvalidRange", 416)
        return 206, body[first:last + 1], {"Content-Range": "bytes %d-%d/%d" % (first, last, len(body)), **version}

    def get_versioning(self, *_):
        how = self.store.set["versioning"]
        return 200, ("<VersioningConfiguration>%s</VersioningConfiguration>" % ("<Status>%s</Status>" % how if how else "")).encode(), {}

    def delete_object(self, key, *_):
        more = self.store.add_version(key, None)
        return 204, b"", {**more, **({"x-amz-delete-marker": "true"} if more else {})}

    def delete_version(self, key, query, *_):
        return 204, b"", self.store.remove_version(key, query["versionId"])

    def create_upload(self, key, _, headers, __):
        name = "up/%s+=" % os.urandom(6).hex()
        self.store.uploads[name] = (key, headers.get("x-amz-checksum-algorithm"), {})
        return 200, ("<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>" %
                     name).encode(), {}

    def upload_of(self, key, query):
        if self.store.uploads.get(query["uploadId"], (None,))[0] != key:
            raise Failed("NoSuchUpload", 404, "The specified multipart upload does not exist.")
        return self.store.uploads[query["uploadId"]]

    def upload_part(self, key, query, headers, body):
        _, algorithm, parts = self.upload_of(key, query)
        number = int(query["partNumber"])
        if not 1 <= number <= 10000:
            raise Failed("InvalidArgument", 400)
        crc = self.check_sum(headers, body)
        if (algorithm == "CRC32C") != (crc is not None):
            raise Failed("InvalidRequest", 400, "Checksum Type mismatch occurred")
        tag = '"%s"' % hashlib.md5(body).hexdigest()
        parts[number] = (tag, crc, body)
        return 200, b"", {"ETag": tag}

    def complete_upload(self, key, query, _, body):
        __, ___, parts = self.upload_of(key, query)
        given = re.findall(r"<Part><ETag>(.*?)</ETag><PartNumber>(\d+)</PartNumber>(?:<ChecksumCRC32C>(.*?)"
                           r"</ChecksumCRC32C>)?</Part>", body.decode())
        if [int(n) for _, n, _ in given] != sorted(parts):
            raise Failed("InvalidPart", 400, "One or more of the specified parts could not be found.")
        for tag, number, crc in given:
            tag = tag.replace("&#34;", '"').replace("&quot;", '"')
            if parts[int(number)][:2] != (tag, crc or None):
                raise Failed("InvalidPart", 400, "A part has another ETag or checksum")
            if int(number) < len(given) and len(parts[int(number)][2]) < self.store.set["part_least"]:
                raise Failed("EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed size")
        more = self.store.add_version(key, b"".join(parts[n][2] for n in sorted(parts)))
        del self.store.uploads[query["uploadId"]]
        return 200, b"\n <CompleteMultipartUploadResult><ETag>&quot;x-2&quot;</ETag></CompleteMultipartUploadResult>", more

    def abort_upload(self, key, query, *_):
        self.upload_of(key, query)
        del self.store.uploads[query["uploadId"]]
        return 204, b"", {}

    def list_objects(self, bucket, query, *_):
        keys = sorted(k[len(bucket):] for k in self.store.objects if k.startswith(bucket + query.get("prefix", "")))
        after = query.get("continuation-token", "")
        keys = [k for k in keys if k > after[5:]] if after else keys
        now, more = keys[:self.store.set["page"]], len(keys) > self.store.set["page"]
        xml = "<ListBucketResult><IsTruncated>%s</IsTruncated>%s%s</ListBucketResult>" % (
            "true" if more else "false", "<NextContinuationToken>%s</NextContinuationToken>" % escape("t/+=&" + now[-1])
            if more else "", "".join("<Contents><Key>%s</Key><Size>1</Size></Contents>" % urllib.parse.quote(k) for k in now))
        return 200, xml.encode(), {}

    def list_uploads(self, bucket, query, *_):
        xml = "".join("<Upload><Key>%s</Key><UploadId>%s</UploadId></Upload>" % (urllib.parse.quote(u[0][len(bucket):]), n)
                      for n, u in self.store.uploads.items() if u[0].startswith(bucket + query.get("prefix", "")))
        return 200, ("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>%s</ListMultipartUploadsResult>" %
                     xml).encode(), {}

    # ---- for tests ----

    def control(self, what, body):
        with self.store.lock:
            if what == "state":
                return self.answer(200, json.dumps(self.store.report()).encode())
            if what == "ask":  # a test's expression of what is known, so that a poll costs no process
                return self.answer(200, ("%s\n" % eval(body.decode(), {"s": json.loads(json.dumps(self.store.report()))})).encode())
            if what == "rules":
                self.store.rules, self.store.counts = json.loads(body), {}
            elif what == "settings":
                self.store.change(json.loads(body))
            else:
                return self.answer(404)
        return self.answer(200, b"{}")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that goes away, or was cut off, is no error here."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ValueError, OSError)):
            super().handle_error(*_)


def main():
    store = Store(dict(one.split("=", 1) for one in sys.argv[1:]))
    Handler.store = store
    server = Server((store.set["host"], int(store.set["port"])), Handler)
    print("http://%s:%d" % (store.set["host"], server.server_address[1]), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main()
