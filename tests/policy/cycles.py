#!/usr/bin/env python3
"""TAP: no file calls upward between directories, the files of a directory call each other in no circle
but those that cycles.txt lists with a reason, and a function that no other file uses is static."""
import collections
import os
import re
import sys

TOP = os.environ.get('abs_top_srcdir') or os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
ORDER = ['base', 'config', 'plugin', 'model', 'forecast', 'policy', 'exec', 'run']
WORD = re.compile(r'\bespl__\w+')


def read_sources():
    """The C files of the program, without comments and strings."""
    sources = {}
    for part in ('base', 'core', 'node', 'driver'):
        for folder, _, names in os.walk(os.path.join(TOP, part)):
            for name in names:
                if not name.endswith('.c'):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding='utf-8') as file:
                    text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
                sources[os.path.relpath(path, TOP)] = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return sources


def find_owners(sources):
    """function -> the file that defines it; a definition's name is in the first column.  What a header
    defines inline belongs to the file of that name."""
    owners = {}
    for file, text in sources.items():
        texts = [text]
        header = os.path.join(TOP, file[:-1] + 'h')
        if os.path.exists(header):
            with open(header, encoding='utf-8') as inlines:
                texts.append(inlines.read())
        owners.update((name, file) for one in texts for name in re.findall(r'^(espl__\w+)\([^;{]*\)\s*(?:/\*.*\*/)?\n\{', one, flags=re.M))
    return owners


def find_calls(sources, owner):
    """file -> files that define what it names"""
    return {file: {owner[w] for w in WORD.findall(text) if w in owner} - {file}
            for file, text in sources.items()}


def find_private(sources, owner):
    """Functions that only a header names besides their own file, once: to declare them."""
    used = collections.Counter()
    for part in ('base', 'core', 'node', 'driver', 'sdk', 'plugins', 'lab', 'tests'):
        for directory, _, names in os.walk(os.path.join(TOP, part)):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name), TOP)
                if name.endswith(('.c', '.h', '.cu', '.cc')):
                    with open(os.path.join(TOP, path), encoding='utf-8') as file:
                        words = WORD.findall(re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S))
                    used.update(w for w in words if owner.get(w) != path)
    return ['%s: %s' % (owner[w], w) for w in sorted(owner) if used[w] <= 1]


def rank(file):
    parts = file.split('/')
    if parts[0] == 'base':
        return 0
    if parts[0] == 'core':
        return ORDER.index(parts[1]) if parts[1] in ORDER else 0
    return len(ORDER) + (parts[0] == 'driver')


def find_cycles(files, calls):
    """The strongly connected sets of two files or more (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(calls[v]):
            if w not in files:
                continue
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while not group or group[-1] != v:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for v in sorted(files):
        if v not in index:
            visit(v)
    return found


def read_listed():
    """folder -> [files that may call each other in a circle], and lines without a reason."""
    listed, bad = [], []
    with open(os.path.join(TOP, 'tests', 'policy', 'cycles.txt'), encoding='utf-8') as file:
        for line in file:
            if line.startswith('#') or not line.strip():
                continue
            head, colon, reason = line.partition(':')
            folder, *names = head.split()
            if not colon or not reason.strip() or len(names) < 2:
                bad.append(line.strip())
            listed.append({folder + '/' + name for name in names})
    return listed, bad


def report(number, name, offenders):
    print('%s %d - %s' % ('not ok' if offenders else 'ok', number, name))
    for line in offenders[:30]:
        print('# ' + line)
    return bool(offenders)


def main():
    sys.setrecursionlimit(10000)
    sources = read_sources()
    owner = find_owners(sources)
    calls = find_calls(sources, owner)
    listed, wrong = read_listed()
    cycles = []
    for folder in sorted({os.path.dirname(file) for file in sources}):
        cycles += find_cycles({f for f in sources if os.path.dirname(f) == folder}, calls)
    if '--list' in sys.argv:
        for group in cycles:
            print(os.path.dirname(group[0]), *map(os.path.basename, group))
        return 0
    print('1..5')
    edges = sum(map(len, calls.values()))
    failed = report(1, 'the sources and their calls are found',
                    [] if edges > 300 else ['only %d calls between files' % edges])
    up = ['%s calls %s' % (f, o) for f in sorted(calls) for o in sorted(calls[f]) if rank(o) > rank(f)]
    failed |= report(2, 'no call goes upward between directories', up)
    failed |= report(3, 'no circle of calls but those listed',
                     [' '.join(g) for g in cycles if not any(set(g) <= few for few in listed)])
    wrong += ['no such circle: ' + ' '.join(sorted(few)) for few in listed
              if not any(set(g) <= few for g in cycles)]
    failed |= report(4, 'what is listed has a reason and is there', wrong)
    failed |= report(5, 'a function that no other file uses is static', find_private(sources, owner))
    return 1 if failed else 0


sys.exit(main())
