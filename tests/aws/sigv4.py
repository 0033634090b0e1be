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


def verify_url(method, path, query, headers, keys, region, now):
    """A presigned URL: the signature is among the parameters, and needs no keys of the sender."""
    def refuse(code, status, text):
        raise Refused(code, status, text)

    given = dict(query)
    names = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
    if len(given) != len(query) or not all("X-Amz-" + n in given for n in names) or \
            given["X-Amz-Algorithm"] != "AWS4-HMAC-SHA256":
        refuse("AuthorizationQueryParametersError", 400, "a parameter of the signature is missing, or there twice")
    key, _, scope = given["X-Amz-Credential"].partition("/")
    parts = scope.split("/")
    if key not in keys:
        refuse("InvalidAccessKeyId", 403, "The AWS Access Key Id you provided does not exist in our records.")
    secret, token, ends = keys[key]
    when, seconds = given["X-Amz-Date"], int(given["X-Amz-Expires"])
    if len(parts) != 4 or parts != [when[:8], region, "s3", "aws4_request"]:
        refuse("AuthorizationQueryParametersError", 400, "the credential is scoped to " + scope)
    if not 0 < seconds <= 604800:
        refuse("AuthorizationQueryParametersError", 400, "X-Amz-Expires must be less than a week")
    signed = given["X-Amz-SignedHeaders"].split(";")
    must = {"host"} | {n for n in headers if n.startswith("x-amz-")}
    if signed != sorted(set(signed)) or not must <= set(signed):
        refuse("AccessDenied", 403, "There were headers present in the request which were not signed")
    if not set(signed) <= set(headers):
        refuse("SignatureDoesNotMatch", 403, "a signed header was not sent")
    rest = [(k, v) for k, v in query if k != "X-Amz-Signature"]
    canonical = canonical_request(method, path, rest, headers, signed, "UNSIGNED-PAYLOAD")
    if not hmac.compare_digest(sign(secret, when, scope, canonical), given["X-Amz-Signature"]):
        refuse("SignatureDoesNotMatch", 403, "The request signature we calculated does not match the signature you provided.")
    if given.get("X-Amz-Security-Token") != token:
        refuse("InvalidToken", 400, "The provided token is malformed or otherwise invalid.")
    if token is not None and ends is not None and now > ends:
        refuse("ExpiredToken", 400, "The provided token has expired.")
    begun = calendar.timegm(time.strptime(when, "%Y%m%dT%H%M%SZ"))
    if now > begun + seconds:
        refuse("AccessDenied", 403, "Request has expired")
    if begun > now + 900:
        refuse("AccessDenied", 403, "Request is not yet valid")
