#!/usr/bin/env python3
"""TAP: the executor's owners (docs/architecture.md).  Each struct of core/exec belongs to the owner in whose
header it is; only that owner's files write its members.  Calls between owners go down only.  The name of a
function says its owner."""
import os
import re
import sys

TOP = os.environ.get('abs_top_srcdir') or os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
EXEC = os.path.join(TOP, 'core', 'exec')
# From the lowest to the highest; all use `desk`, which has no struct: what it writes belongs to the round.
LEVELS = ['desk', 'cluster', 'items', 'gangs', 'searches', 'round']
ALSO = {'answers': 'desk', 'effects': 'desk', 'questions': 'round'}
WHOLE = {'event.h', 'event.c', 'effect.h', 'executor.h', 'questions.h', 'state.h'}  # shared by all
ASSIGNED = re.compile(r'\s*(=(?!=)|\+\+|--|(?:[-+*/|&^%]|<<|>>)=)')
CHAIN = re.compile(r'(?<![\w.>])([A-Za-z_]\w*)((?:\s*(?:->|\.)\s*\w+|\[[^][]*(?:\[[^][]*\][^][]*)*\])+)')
DECLARED = re.compile(r'struct (espl__\w+)[\s*]*((?:(?!struct|const|enum)\w+(?:\[[^]]*\])?(?:\s*=\s*[^,;]*)?,?[\s*]*)+)')
STEP = re.compile(r'(->|\.)\s*(\w+)|\[')
# How the functions of an owner begin; those of executor.h, questions.h and event.h are the executor's.
PREFIXES = {'desk': 'exec answers', 'cluster': 'cluster lease', 'items': 'item items inner tier tiers outcomes list',
            'gangs': 'gang gangs', 'searches': 'search searches trial config group clone job jobs', 'round': 'round'}
OUTSIDE = ('executor.h', 'questions.h', 'event.h')
WRITERS = {'ESPL__GROW', 'memset', 'memcpy', 'memmove', 'free', 'qsort'}


def strip(text):
    """Without comments and strings; lines stay where they are."""
    text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group(0).count('\n'), text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def read_files():
    sources = {}
    for name in sorted(os.listdir(EXEC)):
        if name.endswith(('.c', '.h')):
            with open(os.path.join(EXEC, name), encoding='utf-8') as file:
                sources[name] = strip(file.read())
    return sources


def find_owner(name):
    stem = name.rsplit('.', 1)[0]
    if name in WHOLE:
        return None
    return ALSO.get(stem) or next((o for o in LEVELS if stem == o or stem.startswith(o + '_')), '?')


def read_structs(sources):
    """struct -> (owner, {member: (struct of its type or None, it is a pointer)})"""
    structs = {}
    headers = dict(sources)
    with open(os.path.join(TOP, 'core', 'model', 'trials.h'), encoding='utf-8') as file:
        headers['trials.h'] = strip(file.read())
    for name, text in headers.items():
        if not name.endswith('.h'):
            continue
        owner = None if name == 'trials.h' else find_owner(name)
        for match in re.finditer(r'^struct (espl__\w+) \{(.*?)^\};', text, re.M | re.S):
            members = {}
            for line in match.group(2).split(';'):
                kind = re.search(r'struct (espl__\w+)', line)
                for part in re.sub(r'^.*?(?=[\w*]+(?:\[[^]]*\])*\s*(?:,|$))', '', line.strip(), flags=re.S).split(','):
                    found = re.search(r'(\w+)(?:\[[^]]*\])*\s*$', part)
                    if found:
                        members[found.group(1)] = (kind and kind.group(1), '*' in part)
            structs[match.group(1)] = (owner, members)
    return structs


def split_functions(text):
    """(first line, head and body) of each function; the name is in the first column."""
    for match in re.finditer(r'^[a-z]\w*\([^;{}]*\)\n\{.*?^\}', text, re.M | re.S):
        yield text.count('\n', 0, match.start()) + 1, match.group(0)


def read_constness():
    """function -> [the parameter points to const or is no pointer]"""
    known = {}
    for folder in ('base', 'core'):
        for path, _, names in os.walk(os.path.join(TOP, folder)):
            for name in names:
                if not name.endswith(('.c', '.h')):
                    continue
                with open(os.path.join(path, name), encoding='utf-8') as file:
                    text = strip(file.read())
                for match in re.finditer(r'\b([a-z]\w*)\(((?:[^()]|\([^()]*\))*)\)(?:\s*ESPL_\w+\([^)]*\))?\s*[;{]', text):
                    parts = match.group(2).split(',')
                    if all(re.match(r'\s*(const|struct|enum|void|char|double|float|int|u?int\w+|size_t|espl_\w+|\.\.\.)\b', p)
                           or p.strip() == '...' for p in parts):
                        known[match.group(1)] = ['const' in p.split('*')[0] or '*' not in p for p in parts]
    return known


def find_call(text, at):
    """The function in whose argument list `at` lies, and the number of the argument."""
    depth, number = 0, 0
    for i in range(at - 1, -1, -1):
        c = text[i]
        if c in ')]':
            depth += 1
        elif c in '([' and depth:
            depth -= 1
        elif c == '(':
            name = re.search(r'(\w+)\s*$', text[:i])
            return (name.group(1) if name else '', number)
        elif c == ',' and not depth:
            number += 1
        elif c in ';{}':
            break
    return '', 0


def is_written(body, match, owner, known, homes):
    """Whether what the match names is assigned, or its address given to someone who may write there: a
    variable that is not const, or a function that takes no const and is none of its owner's."""
    if ASSIGNED.match(body, match.end()) or re.search(r'(\+\+|--)\s*\(?$', body[:match.start()]):
        return True
    before = body[:match.start()].rstrip()
    name, number = find_call(body, match.start())
    if name in WRITERS and number == 0:
        return True
    if not before.endswith('&') or before.endswith('&&') or homes.get(name) == owner:
        return False
    if name in known:
        return number < len(known[name]) and not known[name][number]
    if name and name not in ('if', 'while', 'for', 'return', 'switch'):
        return True
    made = re.search(r'(?:^|[;{}(,])\s*((?:const )?struct \w+ \*+)?(\w+)\s*=(?:[^;{}=]|==)*&$', before)
    if not made:
        return False
    kind = made.group(1) or (re.search(r'((?:const )?struct \w+ \*+)(?:\w+(?: = [^,;]*)?, \*)*%s\b'
                                       % made.group(2), body) or [0, ''])[1]
    return kind.startswith('struct')


def check_writes(sources, structs, known):
    homes = {}
    for name, text in sources.items():
        for function in re.findall(r'^(espl__\w+)\([^;{}]*\)\n\{', text, re.M):
            homes[function] = find_owner(name)
    wrong = []
    for name, text in sources.items():
        mine = find_owner(name)
        mine = 'round' if mine == 'desk' else mine
        for line, body in split_functions(text):
            types = {}
            for kind, names in DECLARED.findall(body):
                for variable in re.findall(r'(?:^|,)[\s*]*(\w+)', names):
                    types[variable] = kind
            for match in CHAIN.finditer(body):
                now, owned = types.get(match.group(1)), None
                for step in STEP.finditer(match.group(2)):
                    if not step.group(2):
                        continue
                    if now not in structs or step.group(2) not in structs[now][1]:
                        if step.group(1) == '->':
                            owned = None
                        now = None
                        continue
                    owner, members = structs[now]
                    if step.group(1) == '->' or owner:
                        owned = owner and (owner, now, step.group(2))
                    now = members[step.group(2)][0]
                # a pointer to such a struct is followed wherever it goes
                whole = now in structs and structs[now][0] and body[:match.start()].endswith('&')
                if owned and owned[0] != mine and not whole and is_written(body, match, owned[0], known, homes):
                    wrong.append('%s:%d writes %s.%s of %s' % (
                        name, line + body.count('\n', 0, match.start()), owned[1], owned[2], owned[0]))
    return wrong


def check_calls(sources):
    at = {}
    for name, text in sources.items():
        if name.endswith('.c'):
            for function in re.findall(r'^(espl__\w+)\([^;]*?\)\n\{', text, re.M):
                at[function] = name
    wrong = set()
    for name, text in sources.items():
        if not find_owner(name):
            continue
        for word in re.findall(r'\bespl__\w+', text):
            if word in at and find_owner(at[word]) and name.endswith('.c') and \
               LEVELS.index(find_owner(at[word])) > LEVELS.index(find_owner(name)):
                wrong.add('%s calls %s (%s)' % (name, word, at[word]))
    return sorted(wrong)


def check_names(sources):
    outside = {word for name in OUTSIDE for word in re.findall(r'\bespl__\w+', sources[name])}
    for name, text in sources.items():
        prefixes = PREFIXES.get(find_owner(name), '').split()
        for function in re.findall(r'^(espl__\w+)\([^;{}]*\)\n\{', text, re.M):
            if name.endswith('.c') and function not in outside and function[6:].split('_')[0] not in prefixes:
                yield '%s: %s' % (name, function)


def report(number, name, offenders):
    print('%s %d - %s' % ('not ok' if offenders else 'ok', number, name))
    for line in offenders:
        print('# ' + line)
    return bool(offenders)


def main():
    sources = read_files()
    structs = read_structs(sources)
    owned = [s for s in structs if structs[s][0]]
    print('1..5')
    failed = report(1, 'the structs of the five owners are found',
                    [o for o in LEVELS[1:] if not any(structs[s][0] == o for s in owned)])
    failed |= report(2, 'each file belongs to an owner', [n for n in sources if find_owner(n) == '?'])
    failed |= report(3, 'an owner alone writes its structs', check_writes(sources, structs, read_constness()))
    failed |= report(4, 'calls between owners go down', check_calls(sources))
    failed |= report(5, "the name of a function says its owner", list(check_names(sources)))
    return 1 if failed else 0


sys.exit(main())
