"""A plain job of the pool: sleeps as long as it would train, shared among the GPUs that it has."""
import os
import sys
import time

try:
    import espalier_trial as et
except ImportError:  # in the tree it came with
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))
    import espalier_trial as et

run = et.start(params={"work_s": 10, "iteration_s": 1}, iterations=10)  # the arguments are for runs by hand
if run.rank > 0:
    sys.exit(0)  # all ranks leave together, and the others have nothing to do here
for i in run.iterations():
    time.sleep(run.params["iteration_s"] / run.world)
    verdict = run.report(i, {})
    if verdict.save:
        with open(os.path.join(run.save, "state"), "w") as file:
            file.write(str(i))
        run.saved(i)
