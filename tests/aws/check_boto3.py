"""A conversation of boto3 with the stand-in: real serializers, parsers and signatures. Run by check-boto3.sh."""
import os
import shutil
import sys
import tempfile

import boto3
import botocore.exceptions
from botocore.config import Config

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ec2

folder = tempfile.mkdtemp()
cloud = ec2.Cloud(folder, {"speed": 0.0, "keys": "AKIDTEST:secret:TOKEN/+="})
server = ec2.serve(cloud)
done = []


def client(service, secret="secret"):
    return boto3.client(service, region_name="eu-central-1", endpoint_url="http://127.0.0.1:%d" % server.server_address[1],
                        aws_access_key_id="AKIDTEST", aws_secret_access_key=secret, aws_session_token="TOKEN/+=",
                        config=Config(retries={"total_max_attempts": 1}))


def check(name, holds):
    print("ok" if holds else "not ok", "-", name)
    done.append(holds)


def refused(name, code, call, **parameters):
    try:
        call(**parameters)
        check(name, False)
    except botocore.exceptions.ClientError as error:
        check("%s: %s" % (name, code), error.response["Error"]["Code"] == code)


ask = client("ec2")
check("sts GetCallerIdentity", client("sts").get_caller_identity()["Account"] == "123456789012")
check("ssm GetParameter", client("ssm").get_parameter(Name="/test/image")["Parameter"]["Value"] == "ami-00000001")
refused("another secret key", "SignatureDoesNotMatch", client("ec2", "other").describe_instances)
check("DescribeSubnets", len(ask.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]) == 3)
types = ask.describe_instance_types(InstanceTypes=["g5.xlarge"])["InstanceTypes"][0]
check("DescribeInstanceTypes", types["GpuInfo"]["Gpus"][0]["Count"] == 1 and types["VCpuInfo"]["DefaultVCpus"] == 4)
wish = dict(
    ImageId="ami-00000001", InstanceType="g5.xlarge", MinCount=1, MaxCount=1, SubnetId="subnet-0000000b", KeyName="tune",
    SecurityGroupIds=["sg-00000001"], UserData="#!/bin/sh\n", InstanceInitiatedShutdownBehavior="terminate",
    MetadataOptions={"HttpTokens": "required", "HttpEndpoint": "enabled"},
    InstanceMarketOptions={"MarketType": "spot", "SpotOptions": {
        "SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate", "MaxPrice": "1.0"}},
    TagSpecifications=[{"ResourceType": kind, "Tags": [{"Key": "espalier:run", "Value": "ü & <plum>"}]}
                       for kind in ("instance", "volume", "spot-instances-request")])
made = [ask.run_instances(ClientToken="t-%d" % i, **wish)["Instances"][0] for i in range(12)]
check("RunInstances", len({m["InstanceId"] for m in made}) == 12 and made[0]["InstanceLifecycle"] == "spot")
check("RunInstances again", ask.run_instances(ClientToken="t-3", **wish)["Instances"][0]["InstanceId"] == made[3]["InstanceId"])
refused("another image", "IdempotentParameterMismatch", ask.run_instances, ClientToken="t-3", **dict(wish, KeyName="other"))
refused("DryRun", "DryRunOperation", ask.run_instances, ClientToken="t-99", DryRun=True, **wish)
pages = ask.get_paginator("describe_instances").paginate(
    Filters=[{"Name": "tag:espalier:run", "Values": ["ü & <plum>"]}], PaginationConfig={"PageSize": 5})
found = [m for page in pages for r in page["Reservations"] for m in r["Instances"]]
check("DescribeInstances by tag, in pages", {m["InstanceId"] for m in found} == {m["InstanceId"] for m in made})
check("its times", found[0]["LaunchTime"].timestamp() == int(cloud.now()))
cloud.interrupt(cloud.machines[made[0]["InstanceId"]], True)
status = {r["InstanceId"]: r["Status"]["Code"] for page in ask.get_paginator("describe_spot_instance_requests").paginate(
    PaginationConfig={"PageSize": 5}) for r in page["SpotInstanceRequests"]}
check("DescribeSpotInstanceRequests", status[made[0]["InstanceId"]] == "instance-terminated-no-capacity" and
      status[made[1]["InstanceId"]] == "fulfilled")
check("DescribeSpotPriceHistory", ask.describe_spot_price_history(InstanceTypes=["g5.xlarge"])["SpotPriceHistory"] == [])
refused("an id that does not exist", "InvalidInstanceID.NotFound", ask.describe_instances, InstanceIds=["i-0"])
ended = ask.terminate_instances(InstanceIds=[m["InstanceId"] for m in made])["TerminatingInstances"]
check("TerminateInstances", len(ended) == 12 and ended[0]["CurrentState"]["Name"] == "shutting-down")
server.shutdown()
shutil.rmtree(folder, ignore_errors=True)
print("%d of %d; boto3 %s" % (sum(done), len(done), boto3.__version__))
sys.exit(not all(done))
