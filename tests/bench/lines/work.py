"""What the programs of this directory train: the same for all tuners, and not counted."""

import json


class Model:
    """Its loss falls with each epoch, most with lr near 0.01 and three layers."""

    def __init__(self, lr, layers):
        self.epoch, self.best = 0, abs(lr - 0.01) * 10 + abs(layers - 3) / 4

    def train(self):
        self.epoch += 1
        return self.best + 1 / self.epoch

    def save(self, path):
        with open(path, "w") as file:
            json.dump(self.epoch, file)

    def load(self, path):
        with open(path) as file:
            self.epoch = json.load(file)


def loss(lr, layers):
    return Model(lr, layers).best
