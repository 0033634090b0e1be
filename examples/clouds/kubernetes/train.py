"""Fits a polynomial to noisy points by gradient descent, with nothing but Python. The trial of search.cfg."""
import json
import os
import random

import espalier_trial as et

run = et.start(params={"learning_rate": 0.03, "batch_size": 32}, iterations=9)  # for runs by hand
rate, batch = run.params["learning_rate"], run.params["batch_size"]
numbers = random.Random(1)
points = []
for _ in range(1200):
    x = numbers.uniform(-1, 1)
    powers = [x ** k for k in range(6)]
    points.append((powers, 3 * x ** 4 - x ** 3 - 2 * x ** 2 + x + numbers.gauss(0, 0.1)))
train, valid = points[:1000], points[1000:]
weights = [0.0] * 6
if run.checkpoint:  # the trial was paused, or its pod was taken away
    with open(os.path.join(run.checkpoint, "weights.json"), encoding="ascii") as file:
        weights = json.load(file)


def error(powers, y):
    return sum(w * p for w, p in zip(weights, powers)) - y


for epoch in run.iterations():
    for begin in range(0, len(train), batch):
        part = train[begin:begin + batch]
        errors = [error(powers, y) for powers, y in part]
        for k in range(6):
            weights[k] -= rate * sum(e * powers[k] for e, (powers, _) in zip(errors, part)) / len(part)
    verdict = run.report(epoch, {"loss": sum(error(powers, y) ** 2 for powers, y in valid) / len(valid)})
    if verdict.save:
        with open(os.path.join(run.save, "weights.json"), "w", encoding="ascii") as file:
            json.dump(weights, file)
        run.saved(epoch)
