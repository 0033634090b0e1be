#!/usr/bin/env python3
"""A trial as a program: one hidden layer on Fashion-MNIST, with NumPy alone.

espalier starts it with a configuration, reads a report after every pass over the images, and
answers each: continue, save, or end.  The program can continue from what it saved, on this machine
or another.  Run by hand (python3 train.py) it trains one configuration and prints its reports.
"""
import gzip
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

try:
    import espalier_trial as et
except ImportError:  # run from a source tree that is not installed
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.join(here, "..", "..", "sdk", "python"))
    import espalier_trial as et

DATA = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
TRAIN, VALIDATE, BATCH = 20000, 2000, 50


def read_idx(name, offset, shape):
    with gzip.open(os.path.join(DATA, name)) as file:
        data = np.frombuffer(file.read(), dtype=np.uint8, offset=offset)
    return data.reshape(shape)


def load():
    images = read_idx("train-images-idx3-ubyte.gz", 16, (-1, 784))
    labels = read_idx("train-labels-idx1-ubyte.gz", 8, (-1,))
    x = lambda part: (part.astype(np.float32) / 255 - 0.286) / 0.353
    return (x(images[:TRAIN]), labels[:TRAIN].astype(int),
            x(images[-VALIDATE:]), labels[-VALIDATE:].astype(int))


def fresh(hidden, rng):
    w1 = rng.normal(0, np.sqrt(2 / 784), (784, hidden))
    w2 = rng.normal(0, np.sqrt(1 / hidden), (hidden, 10))
    weights = [w1, np.zeros(hidden), w2, np.zeros(10)]
    weights = [w.astype(np.float32) for w in weights]
    return weights, [np.zeros_like(w) for w in weights]


def forward(weights, x, activation):
    w1, b1, w2, b2 = weights
    h = x @ w1 + b1
    h = np.maximum(h, 0) if activation == "relu" else np.tanh(h)
    z = h @ w2 + b2
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z)
    return h, p / p.sum(axis=1, keepdims=True)


def train(weights, velocity, x, y, order, params):
    """One pass over the images; the mean loss."""
    loss, activation = 0.0, params["activation"]
    for start in range(0, len(order), BATCH):
        at = order[start:start + BATCH]
        h, p = forward(weights, x[at], activation)
        loss -= np.log(p[np.arange(len(at)), y[at]] + 1e-30).sum()
        p[np.arange(len(at)), y[at]] -= 1
        p /= len(at)
        back = p @ weights[2].T
        back *= (h > 0) if activation == "relu" else (1 - h * h)
        gradients = [x[at].T @ back, back.sum(axis=0), h.T @ p, p.sum(axis=0)]
        for w, v, g in zip(weights, velocity, gradients):
            v *= params["momentum"]
            v += g
            w -= np.float32(params["learning_rate"]) * v
    return loss / len(order)


def main():
    run = et.start(params={"learning_rate": 0.05, "momentum": 0.9, "hidden": 64,
                           "activation": "relu"}, iterations=3)     # by hand; else not looked at
    params = run.params
    x, y, x_check, y_check = load()
    seed = int(os.environ.get("ESPALIER_TRIAL", "0"))
    weights, velocity = fresh(params["hidden"], np.random.default_rng(seed))
    if run.checkpoint:
        with np.load(os.path.join(run.checkpoint, "state.npz")) as state:
            weights = [state["w%d" % i] for i in range(4)]
            velocity = [state["v%d" % i] for i in range(4)]
    iteration = run.iteration
    while True:
        iteration += 1
        # The order follows from the iteration alone, so a restored trial goes on as it would have.
        order = np.random.default_rng([seed, iteration]).permutation(TRAIN)
        loss = train(weights, velocity, x, y, order, params)
        right = forward(weights, x_check, params["activation"])[1].argmax(axis=1) == y_check
        verdict = run.report(iteration, {"val_accuracy": float(right.mean()),
                                         "train_loss": float(loss)})
        if verdict.save:
            arrays = {"w%d" % i: w for i, w in enumerate(weights)}
            arrays.update({"v%d" % i: v for i, v in enumerate(velocity)})
            np.savez(os.path.join(run.save, "state.npz"), **arrays)
            run.saved(iteration)
        if verdict.end:
            break


if __name__ == "__main__":
    main()
