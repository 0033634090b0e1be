import espalier
from work import loss

space = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 4)}
best = espalier.minimize(lambda params: loss(**params), space, trials=9)
print(best.params, best.value)
