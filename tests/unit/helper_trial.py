"""A trial that is a Python program with the helper; run by test_worker."""
import os

import espalier_trial as et

run = et.start()
print("lr %g opt %s from '%s'" % (run.params["lr"], run.params["opt"], run.checkpoint), flush=True)
for i in run.iterations():
    verdict = run.report(i, {"loss": 1 / 3, "odd": float("nan")})
    if verdict.save:
        with open(os.path.join(run.save, "model"), "w") as f:
            f.write("%d\n" % i)
        run.saved(i)
