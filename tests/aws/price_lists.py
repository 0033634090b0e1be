"""AWS's public price lists, as far as `espalier aws-prices` reads them; prints its URL. In the path
/offers/v1.0/aws/AmazonEC2/current/REGION/index.csv the region says what is wrong with the list."""
import http.server
import sys

PATH = "/offers/v1.0/aws/AmazonEC2/current/%s/index.csv"
HEAD = ['"FormatVersion","v1.0"', '"Disclaimer","For information only, see ""the pages"" on http://aws.amazon.com."',
        '"Publication Date","2026-09-12T22:53:08Z"', '"Version","20260912225308"', '"OfferCode","AmazonEC2"']
COLUMNS = ["SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange", "EndingRange",
           "Unit", "PricePerUnit", "Currency", "LeaseContractLength", "Product Family", "serviceCode", "Location",
           "Location Type", "Instance Type", "vCPU", "Memory", "Tenancy", "Operating System", "License Model", "usageType",
           "operation", "CapacityStatus", "GPU", "MarketOption", "Pre Installed S/W", "Region Code", "serviceName"]
LINE = {"SKU": "4C7N4APU9GEUZ6H6", "TermType": "OnDemand", "PriceDescription": 'Linux, "on demand", an hour', "Unit": "Hrs",
        "Currency": "USD", "Product Family": "Compute Instance", "Location Type": "AWS Region", "Tenancy": "Shared",
        "Operating System": "Linux", "CapacityStatus": "Used", "MarketOption": "OnDemand", "Pre Installed S/W": "NA"}
GOOD = [("g5.xlarge", "1.0060000000", {}), ("c5.xlarge", "0.1700000000", {"Pre Installed S/W": ""}),
        ("p5.48xlarge", "55.0400005000", {"MarketOption": ""}),
        ("c5.metal", "4.0800000000", {"Product Family": "Compute Instance (bare metal)", "Tenancy": "Dedicated"}),
        ("g5.xlarge", "1.0060000000", {"SKU": "again"})]
OTHER = [{"Operating System": "Windows"}, {"TermType": "Reserved"}, {"Tenancy": "Dedicated"}, {"MarketOption": "CapacityBlock"},
         {"CapacityStatus": "UnusedCapacityReservation"}, {"Pre Installed S/W": "SQL Std"}, {"Location Type": "AWS Local Zone"},
         {"Unit": "Quantity"}, {"Product Family": "Storage"}, {"Region Code": "us-east-1"}, {"PricePerUnit": "0.0000000000"}]


def line(region, kind, usd, more):
    fields = {**LINE, "Instance Type": kind, "PricePerUnit": usd, "Region Code": region, **more}
    return ",".join('"%s"' % fields[c].replace('"', '""') if c in fields else "" for c in COLUMNS)


def lines(region):
    yield from (h.replace("Publication Date", "Day") if region == "eu-dateless-1" else h for h in HEAD)
    yield ",".join('"%s"' % c for c in COLUMNS if region != "eu-changed-1" or c != "CapacityStatus")
    for _ in range(250000 if region == "eu-long-1" else 0):
        yield line(region, "g5.xlarge", "7.0000000000", {"Operating System": "Windows"})
    for kind, usd, more in GOOD if region not in ("eu-empty-1", "eu-euro-1", "eu-price-1") else []:
        yield line(region, kind, usd, more)
        for one in OTHER:
            yield line(region, kind, one.get("PricePerUnit", "9.9900000000"), {k: v for k, v in one.items() if k != "PricePerUnit"})
    if region == "eu-two-1":
        yield line(region, "c5.xlarge", "0.1800000000", {})
    if region == "eu-euro-1":
        yield line(region, "c5.xlarge", "0.1800000000", {"Currency": "EUR"})
    if region == "eu-price-1":
        yield line(region, "c5.xlarge", "free", {})
    if region == "eu-short-1":
        yield line(region, "c5.xlarge", "0.1700000000", {}).rpartition(",")[0]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        region = self.path.split("/")[-2]
        if self.path != PATH % region or region in ("eu-none-1", "eu-moved-1"):
            self.send_response(404 if region != "eu-moved-1" else 302)
            self.send_header("Location", PATH % "eu-central-1")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(200)
        if region in ("eu-sized-1", "eu-endless-1"):
            whole = "".join(one + "\n" for one in lines(region)).encode()
            if region == "eu-sized-1":
                self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole)
            self.close_connection = True
            return None
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        part = b""
        for one in lines(region):
            part += one.encode() + b"\n"
            if len(part) > 30000:
                self.chunk(part)
                part = b""
        if region == "eu-open-1":
            part = part[:-1]    # the last line has no end
        self.chunk(part)
        if region == "eu-cut-1":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print("http://127.0.0.1:%d" % server.server_address[1], flush=True)
sys.stdout.close()
server.serve_forever()
