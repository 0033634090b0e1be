"""AWS Signature Version 4, as the stand-in checks it. Written from the published rules alone: it shares nothing
with the signer of espalier, so that one is a check of the other."""
import calendar
import hashlib
import hmac
import time
import urllib.parse


class Refused(Exception):
    def __init__(self, code, status, text):
        super().__init__(text)
        self.code, self.status, self.text = code, status, text


def quote(text):
    return urllib.parse.quote(text, safe="-_.~")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def sign(secret, when, scope, canonical):
    """The signature of a canonical request; scope is DATE/REGION/SERVICE/aws4_request."""
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    return mac(key, "\n".join(("AWS4-HMAC-SHA256", when, scope, digest(canonical.encode())))).hex()


def canonical_request(method, path, query, headers, names, body_hash):
    """query: pairs, decoded; headers: by lowercase name; names: those signed."""
    pairs = sorted((quote(k), quote(v)) for k, v in query)
    lines = "".join("%s:%s\n" % (n, " ".join(headers[n].split())) for n in names)
    return "\n".join((method, path or "/", "&".join("%s=%s" % p for p in pairs), lines, ";".join(names), body_hash))


def verify(method, path, query, headers, body, keys, region, services, now, skew):
    """keys: {id: (secret, session token or None, end of the session or None)}. Returns the service."""
    def refuse(code, status, text):
        raise Refused(code, status, text)

    given = headers.get("authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        refuse("AuthFailure", 401, "the request has no signature")
    fields = {}
    for part in given[len("AWS4-HMAC-SHA256 "):].split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in fields:
            refuse("IncompleteSignature", 400, "Authorization cannot be read")
        fields[name] = value
    if set(fields) != {"Credential", "SignedHeaders", "Signature"}:
        refuse("IncompleteSignature", 400, "Authorization has other fields")
    key, _, scope = fields["Credential"].partition("/")
    if key not in keys:
        refuse("AuthFailure", 401, "AWS was not able to validate the provided access credentials")
    secret, token, ends = keys[key]
    when = headers.get("x-amz-date", "")
    try:
        seconds = calendar.timegm(time.strptime(when, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        refuse("IncompleteSignature", 400, "no X-Amz-Date")
    parts = scope.split("/")
    if len(parts) != 4 or parts[0] != when[:8] or parts[1] != region or parts[2] not in services or \
            parts[3] != "aws4_request":
        refuse("SignatureDoesNotMatch", 403, "Credential should be scoped to a valid region and service, not " + scope)
    names = fields["SignedHeaders"].split(";")
    must = {"host"} | {n for n in headers if n.startswith("x-amz-")}
    if "content-type" in headers:
        must.add("content-type")
    if names != sorted(set(names)) or not must <= set(names) or not set(names) <= set(headers):
        refuse("SignatureDoesNotMatch", 403, "SignedHeaders is not what it must be: " + fields["SignedHeaders"])
    body_hash = digest(body)
    if headers.get("x-amz-content-sha256", body_hash) != body_hash:
        refuse("XAmzContentSHA256Mismatch", 400, "the body is not what was signed")
    canonical = canonical_request(method, path, query, headers, names, body_hash)
    if not hmac.compare_digest(sign(secret, when, scope, canonical), fields["Signature"]):
        refuse("SignatureDoesNotMatch", 403, "The request signature we calculated does not match the signature you provided.")
    if token is not None and ends is not None and now > ends:
        refuse("ExpiredToken", 400, "The security token included in the request is expired")
    if headers.get("x-amz-security-token") != token:
        refuse("AuthFailure", 401, "AWS was not able to validate the provided access credentials")
    if abs(now - seconds) > skew:
        refuse("AuthFailure", 401, "AWS was not able to validate the provided access credentials")
    return parts[2]
