#!/usr/bin/env python3
"""Random pools in which experiments have allocators of their own: each ends, and every fifth is replayed to the byte.

usage: inner_pools.py ESPALIER FIRST COUNT: the seeds; works in the current folder, and leaves what went wrong there.
"""
import json
import os
import random
import shutil
import subprocess
import sys

OUTER = ['use = "fair";', 'use = "fair"; resize = "always";', 'use = "greedy";', 'use = "greedy"; events = true;', 'use = "milp";',
         'use = "milp"; policy = "paper";', 'use = "fluid";', 'use = "fifo";', 'use = "static";', 'use = "fifo"; take = "most";']
INNER = ['use = "fair";', 'use = "fair"; packing = 3;', 'use = "fair"; resize = "always";', 'use = "greedy";', 'use = "milp";',
         'use = "milp"; engine = "marginal";', 'use = "fluid";', 'use = "fluid"; mode = "paper";', 'use = "fifo";',
         'use = "static";', 'use = "static"; gpus = 3;', 'use = "elastic_greedy";']
SEARCH = ['use = "sha"; trials = %d; iterations_max = 9; eta = 3;', 'use = "random"; trials = %d; iterations_max = 5;',
          'use = "asha"; trials = %d; iterations_max = 9; eta = 3;', 'use = "hyperband"; iterations_max = 9; eta = 3;',
          'use = "bohb"; iterations_max = 9; trials = %d;']
PROFILE = ('profile = { iteration = { mean = "4s"; sd = "1s"; }; scaling = ((1, 1.0), (2, 1.9), (4, 3.4)); '
           'packing = ((1, 1.0), (2, 1.6), (3, 1.9)); start = "2s"; checkpoint = "500ms"; %s };')
EXPERIMENT = '''experiment = { name = "e%d"; metric = "loss"; goal = "minimize"; seed = %d; inner = %s; %s %s };
trial = { trainable = "branin"; gpus_min = %d; %s packing_max = %d; colocate = %s; checkpoint = %s; retries = 3;
  %s };
space = { x1 = { type = "real"; low = -5.0; high = 10.0; }; x2 = { type = "real"; low = 0.0; high = 15.0; }; };
algorithm = { %s };
allocator = { %s };
'''
POOL = '''experiment = { name = "pool"; seed = %d; };
experiments = ( %s );
%s
allocator = { %s };
placer = { use = "%s"; };
cloud = { use = "sim"; nodes_max = %d; offers = ( { name = "n"; gpus = %d; price = 1.0; provision = "%ds"; } ); };
'''


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def experiment(r, folder, number):
    search = r.choice(SEARCH)
    search = search % r.randint(3, 40) if "%d" in search else search
    least = r.choice([1, 1, 1, 2])
    pauses = "asha" in search or "bohb" in search	# they go on from checkpoints
    write("%s/e%d.cfg" % (folder, number), EXPERIMENT % (
        number, r.randint(0, 99), r.choice(["true", "true", "true", "false"]),
        r.choice(["", "", "gpus_max = %d;" % r.randint(2, 8)]), r.choice(["", "", "", 'deadline = "2m";']), least,
        r.choice(["", "gpus_max = %d;" % r.randint(least, 6)]), r.choice([1, 1, 3]), r.choice(["true", "false"]),
        "true" if pauses else r.choice(["true", "true", "false"]),
        r.choice(["", PROFILE % r.choice(["", 'resize = "300ms";'])]), search, r.choice(INNER)))
    return '{ file = "e%d.cfg"; arrives = "%ds"; weight = %d.0; }' % (number, r.choice([0, 0, 20, 60]), r.choice([1, 1, 3]))


def jobs(r, folder):
    if r.random() < 0.5:
        return ""
    at, rows = 0, "job,arrives_s,work_s,nodes_min,nodes_max\n"
    for number in range(r.randint(1, 6)):
        at += r.randint(0, 40)
        rows += "j%d,%d,%d,1,%d\n" % (number, at, r.randint(10, 300), r.choice([1, 2, 4]))
    write(folder + "/jobs.csv", rows)
    return ('workload = { trace = "jobs.csv"; iteration = "10s"; }; trial = { profile = { iteration = "1s"; %s }; };'
            % r.choice(["", 'resize = "200ms";']))


def faults(r, folder):
    """Of nodes that keep a GPU at least: a trial that needs two on one node must find them."""
    list_ = [r.choice(['{ kind = "node-lost"; node = %d; at = "%ds"; }' % (r.randint(0, 3), r.randint(1, 120)),
                       '{ kind = "gpu-lost"; node = 0; gpu = 0; at = "%ds"; }' % r.randint(1, 120),
                       '{ kind = "no-capacity"; from = "5s"; to = "45s"; }']) for _ in range(r.choice([0, 0, 1, 3]))]
    if not list_:
        return []
    write(folder + "/faults.cfg", "faults = ( %s );\n" % ", ".join(list_))
    return ["--faults", folder + "/faults.cfg"]


def one(espalier, seed):
    """What is wrong with it, or None."""
    r = random.Random(seed)
    folder = "inner-%d" % seed
    os.makedirs(folder)
    entries = ", ".join(experiment(r, folder, number) for number in range(r.randint(1, 4)))
    write(folder + "/pool.cfg", POOL % (seed, entries, jobs(r, folder), r.choice(OUTER), r.choice(["scatter", "colocate", "pack"]),
                                        r.randint(2, 4), r.choice([2, 3, 4]), r.choice([0, 15])))
    run = folder + "/run"
    p = subprocess.run([espalier, "simulate", folder + "/pool.cfg", "--json", "--dir", run] + faults(r, folder),
                       capture_output=True, text=True, timeout=120)
    if p.returncode != 0 or "misbehaves" in p.stderr:
        return "exit status %d: %s" % (p.returncode, p.stderr.strip())
    last = json.loads(p.stdout.strip().split("\n")[-1])
    odd = ["%s %s" % (e["name"], e["status"]) for e in last["experiments"] if e["status"] not in ("done", "deadline")]
    if last["status"] != "done" or odd:
        return "%s: %s" % (last["status"], ", ".join(odd))
    if seed % 5 == 0:
        with open(run + "/journal", "rb") as file:
            before = file.read()
        p = subprocess.run([espalier, "resume", run], capture_output=True, text=True, timeout=120)
        with open(run + "/journal", "rb") as file:
            if p.returncode != 0 or file.read() != before:
                return "it does not replay: " + p.stderr.strip()
    shutil.rmtree(folder)
    return None


bad = 0
for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    wrong = one(sys.argv[1], seed)
    if wrong is not None:
        print("seed %d: %s" % (seed, wrong))
        bad += 1
print("%s pools, %d go wrong" % (sys.argv[3], bad))
sys.exit(bad > 0)
