"""Tests of the stand-in itself. Its signer is checked with vectors of which botocore makes the same signatures."""
import base64
import email.utils
import http.client
import json
import os
import shutil
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ec2
import sigv4

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
RUN = {"ImageId": "ami-00000001", "InstanceType": "g5.xlarge", "MinCount": "1", "MaxCount": "1", "ClientToken": "t-1",
       "SubnetId": "subnet-0000000a", "TagSpecification.1.ResourceType": "instance",
       "TagSpecification.1.Tag.1.Key": "espalier:run", "TagSpecification.1.Tag.1.Value": "plum"}
SPOT = dict(RUN, **{"InstanceMarketOptions.MarketType": "spot"})


class Vectors(unittest.TestCase):
    def test_post(self):
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8",
                   "host": "ec2.us-east-1.amazonaws.com", "x-amz-date": "20260102T030405Z"}
        body = sigv4.digest(b"Action=DescribeRegions&Version=2016-11-15")
        for token, wanted in ((None, "c6176c01436eb7b4ccdb6b0b0d3cd6b387014541ac53c1827957657cbba9ce7c"),
                              ("TOKEN/+=", "1e7d93316c9900b3eaa4977fab966ec045c61377fc62484db2e224d39ce1fd22")):
            if token:
                headers["x-amz-security-token"] = token
            text = sigv4.canonical_request("POST", "/", [], headers, sorted(headers), body)
            self.assertEqual(sigv4.sign(SECRET, "20260102T030405Z", "20260102/us-east-1/ec2/aws4_request", text), wanted)

    def test_query(self):
        scope = "20260102/us-east-1/s3/aws4_request"
        query = [("partNumber", "3"), ("uploadId", "U/x"), ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
                 ("X-Amz-Credential", "AKIDEXAMPLE/" + scope), ("X-Amz-Date", "20260102T030405Z"),
                 ("X-Amz-Expires", "3600"), ("X-Amz-SignedHeaders", "host"), ("X-Amz-Security-Token", "TOKEN/+=")]
        text = sigv4.canonical_request("PUT", "/bucket/run/a%20b%3Dc%2Bd%281%29", query,
                                       {"host": "s3.us-east-1.amazonaws.com"}, ["host"], "UNSIGNED-PAYLOAD")
        self.assertEqual(sigv4.sign(SECRET, "20260102T030405Z", scope, text),
                         "f4ac535b117d77ede165ac8b84f9f75b343750e250388fafa83a858838a3f828")


class StandIn(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.begin()

    def begin(self, **settings):
        self.cloud = ec2.Cloud(self.folder, dict({"speed": 0.0, "keys": "AKIDEXAMPLE:" + SECRET}, **settings))
        self.server = ec2.serve(self.cloud)

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        self.cloud.set["speed"] = 0.0

    def tearDown(self):
        self.end()
        for m in self.cloud.machines.values():
            ec2.machines.end(self.folder, m["id"], m["address"])
        shutil.rmtree(self.folder, ignore_errors=True)

    def control(self, what, value):
        urllib.request.urlopen("http://127.0.0.1:%d/_/%s" % (self.server.server_address[1], what),
                               json.dumps(value).encode() if value is not None else None).read()

    def state(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/_/state" % self.server.server_address[1]) as answer:
            return json.load(answer)

    def ask(self, action, parameters=None, service="ec2", late=0, change=None, extra=None):
        """(status, error code or "", document)"""
        port = self.server.server_address[1]
        body = urllib.parse.urlencode(dict({"Action": action, "Version": ec2.VERSIONS[service]}, **(parameters or {})),
                                      quote_via=urllib.parse.quote).encode()
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - late))
        headers = dict({"content-type": "application/x-www-form-urlencoded; charset=utf-8",
                        "host": "127.0.0.1:%d" % port, "x-amz-date": when}, **(extra or {}))
        names = sorted(headers)
        scope = "%s/eu-central-1/%s/aws4_request" % (when[:8], service)
        text = sigv4.canonical_request("POST", "/", [], headers, names, sigv4.digest(body))
        headers["authorization"] = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/%s, SignedHeaders=%s, Signature=%s" % (
            scope, ";".join(names), sigv4.sign(SECRET, when, scope, text))
        body, headers = change(body, headers) if change else (body, headers)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        tree = xml.fromstring(answer.read())
        connection.close()
        return answer.status, tree.findtext(".//Code", ""), tree

    def run_one(self, parameters):
        status, code, tree = self.ask("RunInstances", parameters)
        self.assertEqual((status, code), (200, ""))
        return tree.findtext(".//instanceId")

    def listed(self, action="DescribeInstances", parameters=None, path=".//instanceId"):
        found, token = [], None
        while token != "":
            more = {"NextToken": token} if token else {}
            status, code, tree = self.ask(action, dict({"MaxResults": "5"}, **(parameters or {}), **more))
            self.assertEqual((status, code), (200, ""))
            found += [e.text for e in tree.iterfind(path)]
            token = tree.findtext("nextToken") or ""
        return found

    def test_signature(self):
        self.assertEqual(self.ask("GetCallerIdentity", service="sts")[0], 200)
        for wrong in (lambda b, h: (b + b"&x=1", h), lambda b, h: (b, dict(h, **{"x-amz-more": "1"})),
                      lambda b, h: (b, dict(h, **{"x-amz-date": "20260102T030405Z"}))):
            self.assertIn(self.ask("DescribeInstances", change=wrong)[1], ("SignatureDoesNotMatch",))
        self.assertEqual(self.ask("DescribeInstances", late=400)[1], "AuthFailure")
        self.assertEqual(self.ask("DescribeInstances", extra={"x-amz-security-token": "t"})[1], "AuthFailure")
        self.assertEqual(self.ask("DescribeInstances", change=lambda b, h: (b, dict(h, authorization="")))[1], "AuthFailure")

    def test_unknown_words(self):
        self.assertEqual(self.ask("RunInstances", dict(RUN, SecurityGroupIds="sg-1"))[1], "UnknownParameter")
        self.assertEqual(self.ask("StopInstances")[1], "InvalidAction")
        self.assertEqual(self.ask("DescribeInstances", {"Version": "2014-01-01"})[1], "InvalidAction")

    def test_tokens(self):
        first = self.run_one(RUN)
        self.assertEqual(self.run_one(RUN), first)
        self.assertEqual(self.ask("RunInstances", dict(RUN, UserData="eA=="))[1], "IdempotentParameterMismatch")
        self.assertNotEqual(self.run_one(dict(RUN, SubnetId="subnet-0000000b")), first)
        self.assertEqual(self.state()["zones_of_a_token"], 2)

    def test_lags_and_pages(self):
        made = [self.run_one(dict(RUN, ClientToken="t-%d" % i)) for i in range(12)]
        self.assertEqual(sorted(self.listed()), sorted(made))
        self.assertEqual(sorted(self.listed(parameters={"Filter.1.Name": "tag:espalier:run", "Filter.1.Value.1": "plum"})),
                         sorted(made))
        self.assertEqual(self.listed(parameters={"Filter.1.Name": "client-token", "Filter.1.Value.1": "t-3"}), [made[3]])
        self.control("settings", {"describe_lag": 10, "tag_lag": 20})
        self.assertEqual(self.ask("DescribeInstances", {"InstanceId.1": made[0]})[1], "InvalidInstanceID.NotFound")
        self.control("advance", {"seconds": 11})
        self.assertEqual(self.ask("DescribeInstances", {"InstanceId.1": made[0]})[0], 200)
        self.assertEqual(self.listed(parameters={"Filter.1.Name": "tag-key", "Filter.1.Value.1": "espalier:run"}), [])

    def test_capacity_quota_and_price(self):
        self.control("settings", {"capacity": "g5.xlarge/eu-central-1a/spot=1", "quota": 8})
        self.run_one(SPOT)
        status, code, _ = self.ask("RunInstances", dict(SPOT, ClientToken="t-2"))
        self.assertEqual((status, code), (500, "InsufficientInstanceCapacity"))
        self.run_one(dict(RUN, ClientToken="t-3"))
        self.assertEqual(self.ask("RunInstances", dict(RUN, ClientToken="t-4"))[1], "VcpuLimitExceeded")
        self.control("settings", {"quota": 800})
        cheap = dict(SPOT, SubnetId="subnet-0000000b", ClientToken="t-5")
        cheap["InstanceMarketOptions.SpotOptions.MaxPrice"] = "0.01"
        self.assertEqual(self.ask("RunInstances", cheap)[1], "SpotMaxPriceTooLow")

    def test_faults(self):
        self.control("rules", [{"action": "RunInstances", "nth": 1, "do": "cut after"},
                               {"action": "RunInstances", "nth": 3, "do": "cut before"},
                               {"action": "RunInstances", "nth": 4, "do": "error InternalError 500"}])
        with self.assertRaises(http.client.HTTPException):
            self.ask("RunInstances", RUN)
        self.run_one(RUN)
        self.assertEqual(self.state()["made"], 1)
        with self.assertRaises(http.client.HTTPException):
            self.ask("RunInstances", dict(RUN, ClientToken="t-2"))
        self.assertEqual(self.ask("RunInstances", RUN)[1], "InternalError")
        self.assertEqual(self.state()["made"], 1)

    def test_all_or_none(self):
        one = self.run_one(RUN)
        self.assertEqual(self.ask("TerminateInstances", {"InstanceId.1": one, "InstanceId.2": "i-0"})[0], 400)
        self.assertEqual(self.state()["running"], 1)
        self.assertEqual(self.ask("TerminateInstances", {"InstanceId.1": one})[0], 200)
        self.assertEqual(self.ask("TerminateInstances", {"InstanceId.1": one})[0], 200)
        self.assertEqual(self.state()["running"], 0)

    def test_bill(self):
        prices = os.path.join(self.folder, "prices")
        with open(prices, "w") as file:
            file.write("-100,g5.xlarge,eu-central-1a,0.36\n100,g5.xlarge,eu-central-1a,0.72\n")
        self.control("settings", {"prices": prices})
        self.assertEqual(self.listed("DescribeSpotPriceHistory", {"InstanceType.1": "g5.xlarge", "StartTime":
                                     ec2.stamp(self.cloud.now())}, ".//spotPrice"), ["0.360000"])
        short, spot, kept = self.run_one(RUN), self.run_one(dict(SPOT, ClientToken="s")), self.run_one(dict(SPOT, ClientToken="k"))
        self.ask("TerminateInstances", {"InstanceId.1": short})
        began = self.cloud.machines[spot]["launch"] - int(self.cloud.start)
        self.control("advance", {"seconds": 200})
        self.control("interrupt", {"id": spot})
        _, _, tree = self.ask("DescribeSpotInstanceRequests")
        self.assertIn("instance-terminated-no-capacity", [e.text for e in tree.iterfind(".//status/code")])
        self.assertEqual(self.state()["running"], 2)    # the notice comes two minutes before the end
        self.control("advance", {"seconds": 121})
        self.control("interrupt", {"id": kept, "notice": False})
        self.control("advance", {"seconds": 4000})
        bills = {m["id"]: self.cloud.bill(m) for m in self.cloud.machines.values()}
        self.assertEqual(bills[short], ((1006000 * 60 + 1800) // 3600, 0))    # at least a minute
        self.assertEqual(bills[spot], (100 * (100 - began) + 200 * (220 + began), ) * 2)   # the first hour is free
        self.assertEqual(bills[kept][0], bills[kept][1])
        late = self.run_one(dict(SPOT, ClientToken="late"))
        self.control("advance", {"seconds": 3500})
        self.control("interrupt", {"id": late})
        self.control("advance", {"seconds": 130})
        self.assertEqual(self.cloud.bill(self.cloud.machines[late]), (200 * 3620, 0))

    def test_times_that_are_shown(self):
        self.control("settings", {"boot": "20:20", "late": "5:5"})
        one = self.run_one(SPOT)
        for seconds in (12, 10, 100):
            self.control("advance", {"seconds": seconds})
            self.listed()
        self.control("interrupt", {"id": one})
        for seconds in (124, 4):
            self.control("advance", {"seconds": seconds})
            self.listed()
        m, began = self.cloud.machines[one], self.cloud.machines[one]["launch"]
        self.assertEqual((m["running"], m["end"]), (began + 20, began + 247))
        self.assertEqual(m["shown"], {"pending": began + 12, "running": began + 22, "end": began + 250})
        m["spot"] = False    # else it is free
        self.assertEqual(self.cloud.bill(m), ((1006000 * 227 + 1800) // 3600, 0))
        self.assertEqual(self.cloud.as_shown(m), ((1006000 * 238 + 1800) // 3600, 0))

    def test_clock(self):
        self.control("settings", {"clock": 100000})
        with urllib.request.urlopen("http://127.0.0.1:%d/_/state" % self.server.server_address[1]) as answer:
            date = email.utils.mktime_tz(email.utils.parsedate_tz(answer.headers["Date"]))
        self.assertEqual(date, int(self.cloud.now()))
        self.assertEqual(self.ask("DescribeInstances")[1], "AuthFailure")
        self.assertEqual(self.ask("DescribeInstances", late=-100000)[1], "")

    def test_machines(self):
        script = b"#!/bin/sh\n(sleep 60 & sleep 0.2; pgrep -x sleep && poweroff) &\n"
        one = self.run_one(dict(RUN, UserData=base64.b64encode(script).decode()))
        for _ in range(100):
            if self.state()["running"] == 0:
                break
            time.sleep(0.05)
        self.assertEqual(self.cloud.machines[one]["why"], "Client.InstanceInitiatedShutdown")
        self.assertEqual(list(ec2.machines.processes(self.folder, one)), [])

    def test_memory(self):
        first = self.run_one(RUN)
        self.control("advance", {"seconds": 50})
        now = self.cloud.now()
        self.end()
        self.begin()
        self.assertEqual(self.run_one(RUN), first)
        self.assertAlmostEqual(self.cloud.now(), now)
        self.assertEqual(self.state()["running"], 1)


if __name__ == "__main__":
    unittest.main()
