"""The cloud aws against moto's EC2: whether another implementation accepts its requests. Run by check-moto.sh.

moto checks neither signatures nor tokens and interrupts no machine, so this shows the form of the requests alone. Its
machines are rows of a table: ssh never reaches one, and each search is interrupted while it waits.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

import boto3
import moto.ec2.utils
from moto.server import ThreadedMotoServer

# moto stores the token of a request, but does not know the filter.
moto.ec2.utils.filter_dict_attribute_mapping.setdefault("client-token", "client_token")
REGION = "eu-central-1"
espalier = sys.argv[1]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
url = "http://%s:%d" % server.get_host_and_port()
keys = dict(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_SESSION_TOKEN="test")
ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test")
folder = tempfile.TemporaryDirectory()
done = []


def check(name, holds, text=""):
    print("ok" if holds else "not ok", "-", name, flush=True)
    if not holds:
        print(text)
    done.append(holds)


def run(*words):
    return subprocess.run([espalier, *words], cwd=folder.name, env=dict(os.environ, **keys), capture_output=True, text=True, timeout=120)


def machines():
    listed = ec2.describe_instances(Filters=[{"Name": "tag-key", "Values": ["espalier:run"]}])
    return [m for r in listed["Reservations"] for m in r["Instances"]]


def wait(holds):
    until = time.time() + 60
    while time.time() < until and not holds():
        time.sleep(0.2)
    return holds()


def write(market):
    with open(os.path.join(folder.name, market + ".cfg"), "w") as file:
        file.write("""
experiment = { name = "moto"; metric = "value"; goal = "maximize"; seed = 1; };
trial = { command = [ "true" ]; gpus_max = 1; };
space = { x = { type = "real"; low = 0.0; high = 1.0; }; };
algorithm = { use = "random"; trials = 2; iterations_max = 5; };
allocator = { use = "static"; gpus = 1; };
cloud = { use = "aws"; region = "%s"; endpoint = "%s"; ssh = ( "false" ); poll = "1s"; settle = "2s"; key_name = "tune";
  image = "ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"; tags = ( { key = "team"; value = "a b"; } );
  offers = ( { type = "m5.large"; zone = "a"; market = "%s"; nodes_max = 2; price_hour = 0.115; gpus = 1; gpu_type = "cpu"; } ); };
""" % (REGION, url, market))


ec2.create_key_pair(KeyName="tune")
for market in ("spot", "on-demand"):
    write(market)
    shown = run("check", market + ".cfg")
    check(market + ": check asks about keys, subnets, types, zones, image and the request",
          shown.returncode == 0 and all(m["State"]["Name"] == "terminated" for m in machines()), shown.stderr)
    with open(os.path.join(folder.name, "errors"), "w+") as errors:
        driver = subprocess.Popen([espalier, "run", market + ".cfg", "--dir", market + ".run"], cwd=folder.name,
                                  env=dict(os.environ, **keys), stdout=errors, stderr=errors)
        leased = wait(lambda: any(m["State"]["Name"] == "running" for m in machines()))
        errors.seek(0)
        check(market + ": RunInstances makes a machine", leased, errors.read())
        first = next((m for m in machines() if m["State"]["Name"] == "running"), {})
        tags = {t["Key"]: t["Value"] for t in first.get("Tags", [])}
        check(market + ": with its type, zone, market, key and tags",
              (first.get("InstanceType"), first.get("Placement", {}).get("AvailabilityZone"), first.get("KeyName"), tags.get("team"),
               first.get("InstanceLifecycle", "on-demand")) == ("m5.large", REGION + "a", "tune", "a b", market) and
              {"espalier:run", "espalier:token", "espalier:driver"} <= set(tags), str(first))
        nodes = run("nodes", market + ".run")
        check(market + ": nodes lists it", nodes.returncode == 0 and first.get("InstanceId", "?") in nodes.stdout, nodes.stdout + nodes.stderr)
        driver.send_signal(signal.SIGINT)
        ended = wait(lambda: driver.poll() is not None)
        errors.seek(0)
        check(market + ": an interrupt ends the search, and TerminateInstances its machine",
              ended and all(m["State"]["Name"] == "terminated" for m in machines()), errors.read())
        if not ended:
            driver.kill()
    left = run("nodes", market + ".run")
    check(market + ": nodes lists none", left.stdout == "no machines\n", left.stdout + left.stderr)
    ec2.terminate_instances(InstanceIds=[m["InstanceId"] for m in machines()])
server.stop()
print("%d of %d; moto %s, boto3 %s" % (sum(done), len(done), moto.__version__, boto3.__version__))
sys.exit(0 if all(done) else 1)
