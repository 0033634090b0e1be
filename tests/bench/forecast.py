#!/usr/bin/env python3
"""How good forecasts are: simulated runs of many kinds, each looked at after 25, 50 and 75 % of its journal.

	forecast.py [--espalier PROGRAM] [--seeds N] [--output FILE.md]

Each run is played to its end; then `espalier forecast --at` sees only a first part of its journal, and the truth is
compared with its bands of 80 %.  Writes the table of docs/results/forecast.md.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
golden = os.path.join(here, '..', 'golden')


def algorithm(text):
    return 'algorithm={ %s }' % text


def allocator(text):
    return 'allocator={ %s }' % text


MORE = 'algorithm.trials=81'
SPOT = ('cloud={ use="sim"; nodes_max=4; offers=({ name="box"; gpus=4; provision="15s"; init="5s"; price=3.0; '
        'market="spot"; notice="10s"; hazard_hour=20.0; }); }')
BILLED = ('cloud={ use="sim"; nodes_max=3; offers=({ name="box"; gpus=4; provision="15s"; init="5s"; price=12.0; '
          'billing_step="60s"; minimum_charge="2m"; billed_from="request"; }); }')
SLOW = 'trial.profile={ iteration={ dist="lognormal"; mean="60s"; sd="30s"; }; start="20s"; checkpoint="5s"; }'
CRASHES = 'faults = ( { kind = "crash-rate"; probability = 0.02; } );\n'
# name, configuration, assignments, fault script
CASES = [
    ('sha', 'noisy.cfg', [], None),
    ('sha, 81 trials', 'noisy.cfg', [MORE], None),
    ('sha, slow iterations', 'noisy.cfg', [MORE, SLOW], None),
    ('sha, incremental', 'noisy.cfg', [algorithm('use="sha"; trials=32; iterations_max=50; eta=2; '
                                                 'rungs="incremental";')], None),
    ('sha, static', 'noisy.cfg', [MORE, allocator('use="static"; gpus=8;')], None),
    ('sha, fluid', 'noisy.cfg', [MORE, allocator('use="fluid";'), 'placer.use="pack"'], None),
    ('sha, packed', 'noisy.cfg', [MORE, allocator('use="fair"; packing=2; gpus=4;'), 'placer.use="pack"'], None),
    ('sha, planned exactly', 'search.cfg', [allocator('use="elastic-exact";'), 'experiment.deadline="150s"'], None),
    ('sha, planned greedily', 'noisy.cfg', [allocator('use="elastic-greedy"; gpus_max=16;'),
                                            'experiment.deadline="10m"'], None),
    ('sha, planned plainly', 'search.cfg', [allocator('use="naive-elastic"; gpus_max=12;'),
                                            'experiment.deadline="10m"'], None),
    ('hyperband', 'noisy.cfg', [algorithm('use="hyperband"; iterations_max=9;')], None),
    ('hyperband, overlapping', 'noisy.cfg', [algorithm('use="hyperband"; iterations_max=9; order="overlap"; '
                                                       'passes=2;')], None),
    ('bohb', 'noisy.cfg', [algorithm('use="bohb"; iterations_max=9; passes=3;')], None),
    ('asha', 'noisy.cfg', [algorithm('use="asha"; trials=60; iterations_max=27;')], None),
    ('asha, stopping', 'noisy.cfg', [algorithm('use="asha"; trials=30; iterations_max=27; mode="stopping"; '
                                               'brackets=2;')], None),
    ('pbt', 'noisy.cfg', [algorithm('use="pbt"; population=8; iterations_max=12; interval=3;')], None),
    ('tpe', 'noisy.cfg', [algorithm('use="tpe"; trials=60; iterations_max=6;')], None),
    ('median', 'noisy.cfg', [algorithm('use="median"; trials=40; iterations_max=12; trials_min=3;')], None),
    ('random', 'noisy.cfg', [algorithm('use="random"; trials=60; iterations_max=6;')], None),
    ('random, budget', 'noisy.cfg', [algorithm('use="random"; iterations_max=6;'), 'experiment.budget=2.0'], None),
    ('random, deadline', 'noisy.cfg', [algorithm('use="random"; trials=60; iterations_max=9;'),
                                       'experiment.deadline="9m"'], None),
    ('sobol, scattered', 'noisy.cfg', [algorithm('use="sobol"; trials=40; iterations_max=6;'),
                                       'placer.use="scatter"'], None),
    ('sha, target', 'noisy.cfg', [MORE, 'experiment.target=0.3'], None),
    ('sha, failing', 'noisy.cfg', [MORE, 'trial.retries=5'], CRASHES),
    ('asha, failing', 'noisy.cfg', [algorithm('use="asha"; trials=40; iterations_max=9;'), 'trial.retries=5'],
     CRASHES),
    ('sha, spot', 'noisy.cfg', [MORE, SPOT, 'trial.checkpoint_every="20s"'], None),
    ('random, spot', 'noisy.cfg', [algorithm('use="random"; trials=40; iterations_max=9;'), SPOT,
                                   'trial.checkpoint_every="20s"'], None),
    ('sha, minimum charge', 'noisy.cfg', [MORE, BILLED], None),
]


def run(argv, env, **more):
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **more)


def summary_of(text):
    for line in reversed(text.splitlines()):
        if line.startswith('{'):
            data = json.loads(line)
            if data.get('event') == 'summary':
                return data
    return None


def play(program, env, work, case, seed):
    """One run and its forecasts; yields a dict for each."""
    name, config, sets, faults = case
    folder = os.path.join(work, 'run')
    shutil.rmtree(folder, ignore_errors=True)
    argv = [program, 'simulate', os.path.join(golden, config), '--seed', str(seed), '--dir', folder, '--json']
    for text in sets:
        argv += ['--set', text]
    if faults:
        path = os.path.join(work, 'faults.cfg')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(faults)
        argv += ['--faults', path]
    done = run(argv, env)
    truth = summary_of(done.stdout)
    if truth is None:
        sys.exit('%s, seed %d: %s' % (name, seed, done.stderr.strip()))
    for at in (25, 50, 75):
        begun = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = run([program, 'forecast', folder, '--at', str(at), '--json'], env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        row = {'case': name, 'seed': seed, 'at': at, 'wall': time.monotonic() - begun,
               'cpu': after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
               'end': truth['jct_s'], 'cost': truth['cost_usd'], 'status': truth['status'],
               'best': truth.get('best_ever', {}).get('metric') if truth.get('best_ever') else None,
               'trials': truth['trials'], 'forecast': None}
        if said.returncode == 0:
            row['forecast'] = json.loads(said.stdout)
        else:
            row['why'] = said.stderr.strip()
        yield row


def inside(band, value):
    slack = 1e-9 * max(abs(value), 1)
    return band['low'] - slack <= value <= band['high'] + slack


def share(rows, test):
    rows = [row for row in rows if row['forecast']]
    return '%.0f' % (100 * sum(test(row) for row in rows) / len(rows)) if rows else '-'


def ends_inside(row):
    return inside(row['forecast']['ends_s'], row['end'])


def costs_inside(row):
    return inside(row['forecast']['cost_usd'], row['cost'])


def best_inside(row):
    band = row['forecast']['best']
    return row['best'] is not None and inside(band, row['best'])


def error(row, band, truth):
    return abs(row['forecast'][band]['mid'] - row[truth]) / row[truth] if row[truth] else 0


def width(row, band):
    value = row['forecast'][band]
    return (value['high'] - value['low']) / value['mid'] if value['mid'] else 0


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float('nan')


def line(name, rows):
    good = [row for row in rows if row['forecast']]
    known = [row for row in good if row['forecast']['best']['low'] is not None]
    return '| %s | %d | %s | %s | %s of %d | %.1f %% | %.0f %% | %.1f %% | %.0f %% |' % (
        name, len(good), share(rows, ends_inside), share(rows, costs_inside), share(known, best_inside), len(known),
        100 * median([error(row, 'ends_s', 'end') for row in good]),
        100 * median([width(row, 'ends_s') for row in good]),
        100 * median([error(row, 'cost_usd', 'cost') for row in good]),
        100 * median([width(row, 'cost_usd') for row in good]))


HEAD = ['| | forecasts | end inside | cost inside | best inside | error of the end | width of its band | error of the '
        'cost | width of its band |', '|---|---|---|---|---|---|---|---|---|']


def table(rows):
    lines = HEAD + [line('**all**', rows)]
    lines += [line('after %d %%' % at, [row for row in rows if row['at'] == at]) for at in (25, 50, 75)]
    lines += ['', *HEAD]
    for case in dict.fromkeys(row['case'] for row in rows):
        lines.append(line(case, [row for row in rows if row['case'] == case]))
    none = [row for row in rows if not row['forecast']]
    lines += ['', 'Without a forecast: %d of %d.' % (len(none), len(rows))]
    lines += ['- %s, seed %d, after %d %%: %s' % (row['case'], row['seed'], row['at'], row['why']) for row in none[:9]]
    lines += ['', 'Processor time of a forecast, replay included: median %.0f ms, at most %.0f ms.' % (
        1000 * median([row['cpu'] for row in rows]), 1000 * max(row['cpu'] for row in rows))]
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--espalier', default=os.environ.get('ESPALIER', 'espalier'))
    parser.add_argument('--seeds', type=int, default=4)
    parser.add_argument('--only', default='')
    parser.add_argument('--output')
    parser.add_argument('--rows', help='also write every forecast to this file, a line of JSON each')
    args = parser.parse_args()
    env = dict(os.environ, LC_ALL='C.UTF-8', TERM='dumb', TZ='UTC')
    rows = []
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as work:
        for case in CASES:
            for seed in range(1, args.seeds + 1):
                if args.only in case[0]:
                    rows += play(args.espalier, env, work, case, seed)
    if args.rows:
        with open(args.rows, 'w', encoding='utf-8') as file:
            file.writelines(json.dumps(row) + '\n' for row in rows)
    text = table(rows)
    if args.output:
        with open(args.output, 'w', encoding='utf-8') as file:
            file.write(text)
    else:
        print(text, end='')


if __name__ == '__main__':
    main()
