"""runs.py: writes the configurations whose pages the tests of the browser look at."""

CLOUD = 'cloud = { use = "sim"; offers = ( { name = "big"; gpus = 4; price = %s; provision = "15s"; } ); nodes_max = 4; };\n'
HEAD = 'experiment = { name = "%s"; metric = "%s"; goal = "minimize"; seed = 3; };\n'
TRIAL = """trial = { trainable = "%s"; gpus_max = 4; retries = 0;
  profile = { iteration = { mean = "4s"; }; scaling = ( (1, 1.0), (2, 1.9), (4, 3.4) ); start = "2s"; }; };
allocator = { use = "fair"; };
"""
BRANIN = ['x1 = { type = "real"; low = -5.0; high = 10.0; };', 'x2 = { type = "real"; low = 0.0; high = 15.0; };']


def config(name, space, algorithm, trainable="branin", price="12.24", metric="loss"):
    return HEAD % (name, metric) + TRIAL % trainable + "space = { %s };\nalgorithm = { %s };\n" % ("\n  ".join(space), algorithm) + \
        CLOUD % price


def asha(trials):
    return 'use = "asha"; trials = %d; iterations_min = 1; iterations_max = 9; eta = 3;' % trials


def many_parameters():
    """Sixty, of every type, one of them active only sometimes."""
    kinds = ['type = "real"; scale = "log"; low = 1e-5; high = 1.0;', 'type = "int"; low = 1; high = 64;',
             'type = "choice"; values = [ "plain", "with a longer name", "third" ];', 'type = "real"; low = 0.0; high = 1.0;',
             'type = "ordinal"; values = [ "small", "medium", "large" ];', 'type = "real"; scale = "reverse-log"; low = 0.9; high = 0.9999;']
    names = ["learning_rate", "layers", "optimizer", "dropout", "size", "momentum", "the_name_of_this_one_is_rather_long"]
    list = ["%s_%d = { %s };" % (names[i % len(names)], i, kinds[i % len(kinds)]) for i in range(57)]
    list.append('sometimes = { type = "real"; low = 0.0; high = 1.0; when = { optimizer_2 = "plain"; }; };')
    return BRANIN + list


# name: text of its configuration, and of its faults
RUNS = {
    "few": (config("few trials", BRANIN, asha(5)), None),
    "some": (config("some trials", BRANIN + ['kind = { type = "choice"; values = [ "plain", "odd" ]; };'], asha(500)), None),
    "many": (config("many trials", BRANIN, asha(50000)), None),
    "one": (config("one parameter", ['lr = { type = "real"; scale = "log"; low = 1e-4; high = 1.0; };'],
                   'use = "random"; trials = 40; iterations_max = 6;', "quadratic", "0.0"), None),
    "wide": (config("sixty parameters", many_parameters(), 'use = "sha"; trials = 81; iterations_min = 1; iterations_max = 27; eta = 3;'), None),
    "faulty": (config("failures", BRANIN, asha(60)),
               'faults = ( { kind = "crash-rate"; probability = 0.1; }, { kind = "nan"; trial = 4; iteration = 1; },\n'
               '  { kind = "nan"; trial = 9; iteration = 1; }, { kind = "notice"; at = "41s"; node = 1; notice = "3s"; } );\n'),
    "hopeless": (config("nothing but failures", BRANIN, asha(6)), 'faults = ( { kind = "crash-rate"; probability = 1.0; } );\n'),
}
