#!/usr/bin/env python3
"""Turns published traces of GPU clusters into the CSV that a pool's `workload.trace` reads.

    convert.py philly   philly.csv[.xz]                    Microsoft's Philly, one row a job
    convert.py pollux   workload.csv --profiles FOLDER     Pollux' workloads, with its measured speeds
    convert.py tiresias 60_job.csv                         Tiresias' testbed

A node of the trace is one GPU.  -o names the CSV (else standard output).  Rows come out in order of arrival, the first at
0 s.  What is left out or cut down is said on standard error.

Work.  `gpu-time` takes GPUs times duration for the seconds that the job needs on one GPU, as if it had scaled perfectly;
`speed` takes the duration times the speed that `--doubling` gives so many GPUs, so that a run on the GPUs asked for lasts as long
as it did.  Pollux' workloads name no duration: there work is the measured time of a step on one GPU times the steps to the
end, and each job's speeds are those measured for its application and batch size; with `--batch best` for the batch that is
soonest at the end on so many GPUs, elastic or not: the steps to the same statistical progress are measured for each batch.
"""
import argparse
import csv
import datetime
import io
import lzma
import math
import os
import sys


class Wrong(Exception):
    """The user's mistake: its text is all they need."""


def rows_of(path):
    opener = lzma.open if path.endswith(".xz") else open
    with io.TextIOWrapper(opener(path, "rb"), encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file, restval="")    # of a row that is cut short the rest is empty, not None


def speed(gpus, doubling):
    return gpus * doubling ** math.log2(gpus) if gpus > 0 else 0


def work_of(duration, gpus, args):
    return duration * (gpus if args.work == "gpu-time" else speed(gpus, args.doubling))


class Job:
    def __init__(self, name, arrives, work, asked, scaling=""):
        self.name, self.arrives, self.work, self.asked, self.scaling = name, arrives, work, asked, scaling


# ---- Philly ---------------------------------------------------------------------------------------

def philly(args):
    jobs, idle = [], 0
    for number, row in enumerate(rows_of(args.file), 1):
        at = datetime.datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S")
        gpus, duration = int(row["num_gpus"]), float(row["duration"])
        if gpus < 1 or duration <= 0:
            idle += 1
            continue
        jobs.append(Job(f"philly-{number}", at.timestamp(), work_of(duration, gpus, args), gpus))
    if idle:
        print(f"{idle} jobs without GPUs or duration are left out", file=sys.stderr)
    return jobs


# ---- Pollux -----------------------------------------------------------------------------------------

class Application:
    """Measured step times, by GPUs on nodes of four and batch per GPU; steps to the end, by batch."""

    def __init__(self, folder, widths):
        self.folder = folder
        self.times = {}         # GPUs -> [(batch per GPU, step time, part of it in sync)]
        for row in rows_of(os.path.join(folder, "placements.csv")):
            nodes = [int(digit) for digit in row["placement"]]
            gpus = sum(nodes)
            if gpus in widths and len(nodes) == max(1, gpus // 4):
                self.times.setdefault(gpus, []).append(
                    (int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])))
        for gpus in widths:
            if gpus not in self.times:
                raise Wrong(f"{folder}: no measurement of {gpus} GPUs")
            self.times[gpus].sort()
        self.counts = self.read_counts()

    def step(self, batch, gpus):
        """Seconds of a step with this batch on so many GPUs; what does not fit into memory is accumulated."""
        points = self.times[gpus]
        local, most = batch / gpus, points[-1][0]
        passes = max(1, math.ceil(local / most))
        local /= passes
        if local <= points[0][0]:
            time, sync = points[0][1:]
        else:
            above = next(i for i, p in enumerate(points) if p[0] >= local)
            (x0, t0, s0), (x1, t1, s1) = points[above - 1], points[above]
            part = (local - x0) / (x1 - x0)
            time, sync = t0 + part * (t1 - t0), s0 + part * (s1 - s0)
        return passes * (time - sync) + sync

    def read_counts(self):
        """Steps to the end by batch: however large the batch, the last row is the same statistical progress."""
        counts = []
        for name in os.listdir(self.folder):
            if name.startswith("validation-") and name.endswith(".csv"):
                last = None
                for last in rows_of(os.path.join(self.folder, name)):
                    pass
                if last is None:
                    raise Wrong(f"{os.path.join(self.folder, name)}: there is no row in it")
                counts.append((int(name[11:-4]), int(float(last["iteration"]))))
        return sorted(counts)

    def steps(self, batch):
        """Steps to the end; between two measured batches in proportion to the logarithm."""
        exact = dict(self.counts).get(batch)
        if exact is not None:
            return exact
        below = [c for c in self.counts if c[0] < batch]
        above = [c for c in self.counts if c[0] > batch]
        if not below or not above:
            raise Wrong(f"{self.folder}: no validation with a batch near {batch}")
        (b0, n0), (b1, n1) = below[-1], above[0]
        part = math.log(batch / b0) / math.log(b1 / b0)
        return round(math.exp(math.log(n0) + part * math.log(n1 / n0)))

    def training(self, gpus, batches):
        """Seconds to the end on so many GPUs with whichever of these batches is soonest there."""
        return min(self.step(batch, gpus) * self.steps(batch) for batch in batches)


def pollux(args):
    if args.profiles is None:
        raise Wrong("pollux needs --profiles: the folder with a folder for each application")
    widths = [1 << k for k in range(int(math.log2(args.most)) + 1)]
    applications, jobs = {}, []
    for row in rows_of(args.file):
        name, batch = row["application"], int(row["batch_size"])
        if name not in applications:
            folder = os.path.join(args.profiles, name)
            if not os.path.isdir(folder):
                raise Wrong(f"there is no profile of '{name}' in {args.profiles}")
            applications[name] = Application(folder, widths)
        app = applications[name]
        batches = {batch} if args.batch == "asked" else {batch}.union(b for b, _ in app.counts)
        alone = app.training(1, batches)
        scaling = " ".join(f"{w}:{alone / app.training(w, batches):.5g}" if w > 1 else "1:1" for w in widths)
        jobs.append(Job(row["name"], float(row["time"]), alone, int(row["num_replicas"]), scaling))
    return jobs


# ---- Tiresias ---------------------------------------------------------------------------------------

def tiresias(args):
    return [Job(f"{row['model_name']}-{row['job_id']}", float(row["submit_time"]),
                work_of(float(row["duration"]), int(row["num_gpu"]), args), int(row["num_gpu"]))
            for row in rows_of(args.file)]


# ---- the trace --------------------------------------------------------------------------------------

def check(jobs, args):
    if not jobs:
        raise Wrong(f"{args.file}: there is no job in it")
    for job in jobs:
        if not (0 < job.work < math.inf and job.asked > 0):
            raise Wrong(f"{args.file}: job '{job.name}': {job.work:g} s of work on {job.asked} GPUs")


def write(jobs, args, file):
    jobs.sort(key=lambda job: job.arrives)      # stable: rows of the same instant stay in order
    if args.first is not None:
        jobs = jobs[:args.first]
    wide = sum(job.asked > args.most for job in jobs)
    if wide:
        print(f"{wide} jobs asked for more than {args.most} GPUs: their nodes_max is {args.most}, "
              "their nodes_asked what they asked for", file=sys.stderr)
    out = csv.writer(file, lineterminator="\n")
    scaling = any(job.scaling for job in jobs)
    out.writerow(["job", "arrives_s", "work_s", "nodes_min", "nodes_max", "nodes_asked"] + ["scaling"] * scaling)
    for job in jobs:
        out.writerow([job.name, f"{job.arrives - jobs[0].arrives:.10g}", f"{job.work:.10g}", 1, args.most, job.asked]
                     + [job.scaling] * scaling)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["philly", "pollux", "tiresias"])
    parser.add_argument("file")
    parser.add_argument("--profiles", metavar="FOLDER", help="pollux: measured speeds, a folder for each application")
    parser.add_argument("--batch", choices=["asked", "best"], default="asked",
                        help="pollux: keep the batch asked for, or take the best one for each number of GPUs (asked)")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N jobs by arrival")
    parser.add_argument("--most", type=int, default=16, metavar="GPUS", help="of an elastic job (16)")
    parser.add_argument("--work", choices=["gpu-time", "speed"], default="gpu-time")
    parser.add_argument("--doubling", type=float, default=0.8, help="speed per GPU that a doubling keeps (0.8)")
    parser.add_argument("-o", metavar="CSV", dest="output")
    args = parser.parse_args()
    try:
        if args.most < 1 or args.most & (args.most - 1):
            raise Wrong("--most is a power of two")
        if args.first is not None and args.first < 1:
            raise Wrong("--first is at least 1")
        if args.kind != "pollux" and (args.batch != "asked" or args.profiles is not None):
            raise Wrong(f"--batch and --profiles are of pollux, not of {args.kind}")
        jobs = {"philly": philly, "pollux": pollux, "tiresias": tiresias}[args.kind](args)
        check(jobs, args)
        if args.output is None:
            write(jobs, args, sys.stdout)
        else:
            with open(args.output, "w", encoding="utf-8", newline="") as file:
                write(jobs, args, file)
    except KeyError as missing:
        sys.exit(f"convert.py: {args.file}: no column {missing}: is this a trace of {args.kind}?")
    except (Wrong, OSError, ValueError, lzma.LZMAError) as error:
        sys.exit(f"convert.py: {error}")


if __name__ == "__main__":
    main()
