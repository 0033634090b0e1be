import espalier

print(espalier.load("resume").trials().sort_values("metric"))
