#!/usr/bin/env python3
"""espalier-warm KIND ENTRY: imports what a script imports, then forks a trial for each request.

Started by espalier-agent with the interpreter, its options, the environment and the working directory of the trials.
KIND is "file" (ENTRY: a script) or "module" (ENTRY: the name behind -m).  Descriptor 3 is a socket to the agent:

    from here  "ready TEXT"    imported; requests are taken from now on
               "no REASON"     nothing can be forked from here, and it ends: trials start cold
               "changed FILE"  the same, but another process would read that file anew
    to here    a request: a memfd with its words, and the descriptors of the trial

Imported is only what the script would import before anything else that it does, and only what is installed: the
standard library and what is in site-packages.  The user's own modules are read for their imports, and not run.

A request becomes two processes, or three.  This one forks the supervisor, which forks the rank, which will run the script,
and becomes espalier-agent --supervise, which does for the rank all that it does for any other.  If the trial's output is
read, the rank forks the script's process in turn, and becomes espalier-listen.  A process keeps its children when it becomes
another.  We wait for none (SIGCHLD is ignored here); when we end, supervisors belong to the nearest subreaper above, our own.
"""
import _signal
import os
import sys

FRESH = {name: value for name, value in globals().items() if name in (
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__annotations__", "__builtins__", "__cached__",
    "__file__")}  # what the interpreter gave to __main__
CONTROL = 3
KILL = 9
NO_FORK, NO_FOLDER, NO_LIMIT, NO_EXEC = 3, 4, 5, 6  # enum espl__sup_what
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
KIND, ENTRY = sys.argv[1], sys.argv[2]
STANDARD = os.path.dirname(os.path.realpath(os.__file__))


class Refused(Exception):
    """Trials cannot be forked from this process."""


class Changed(Exception):
    """A file is no longer what it was when it was imported."""


# ---- what to import ----------------------------------------------------------------------------------------------

def is_installed(path):
    path = os.path.realpath(path)
    return path.startswith(STANDARD + os.sep) or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


def list_imports(write):
    """Runs in a process of its own, so that no module that it needs is in ours."""
    import ast
    import importlib.util

    seen = set()

    class Stop(Exception):
        """From here on the script does more than import."""

    def source_of(name):
        """The file of one of the user's own modules, None if there is none."""
        places, parts = sys.path, name.split(".")
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            for place in places:
                base = os.path.join(place or os.getcwd(), part)
                if os.path.isfile(os.path.join(base, "__init__.py")):
                    if last:
                        return os.path.join(base, "__init__.py")
                    places = [base]
                    break
                if last and os.path.isfile(base + ".py"):
                    return base + ".py"
            else:
                return None
        return None

    def where(top):
        """"installed", "own", or None: there is no such module."""
        if top in sys.builtin_module_names:
            return "installed"
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        if spec.origin in ("built-in", "frozen"):
            return "installed"
        places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
        return "installed" if places and all(is_installed(place) for place in places) else "own"

    def take_own(name):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            file = source_of(part)
            if file is not None:
                read_file(file, part if file.endswith("__init__.py") else part.rpartition(".")[0])

    def take(name, members):
        kind = where(name.partition(".")[0])
        if kind == "installed":
            write("import %s %s" % (name, ",".join(members)))
        elif kind == "own":
            take_own(name)
            for member in members:
                if source_of(name + "." + member) is not None:
                    take_own(name + "." + member)
        return kind is not None

    def dotted(node):
        if isinstance(node, ast.Attribute):
            return dotted(node.value) + "." + node.attr
        return node.id if isinstance(node, ast.Name) else "?"

    def is_quiet(node):
        """Calls that later imports do not notice."""
        calls = [dotted(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)]
        return all(name in ("logging.getLogger", "getLogger", "Path", "pathlib.Path", "TypeVar", "namedtuple",
                            "collections.namedtuple", "warnings.filterwarnings", "warnings.simplefilter",
                            "filterwarnings", "simplefilter") or name.startswith("os.path.") for name in calls)

    def is_plain(target):
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(is_plain(one) for one in target.elts)
        return isinstance(target, ast.Name)

    def walk(statements, package):
        for node in statements:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if not take(alias.name, []):
                        raise Stop
            elif isinstance(node, ast.ImportFrom):
                name = node.module or ""
                if node.level > 0:
                    above = package.split(".")[:len(package.split(".")) - node.level + 1] if package else []
                    name = ".".join(above + ([name] if name else []))
                if name != "__future__" and (not name or not take(name, [alias.name for alias in node.names])):
                    raise Stop
            elif isinstance(node, ast.Try):
                try_imports(node, package)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if not all(is_plain(target) for target in targets) or not is_quiet(node):
                    raise Stop
            elif isinstance(node, ast.Expr):
                if not isinstance(node.value, ast.Constant) and not (
                        isinstance(node.value, ast.Call) and is_quiet(node)):
                    raise Stop
            elif isinstance(node, ast.If):
                if dotted(node.test) not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                    raise Stop
            elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)):
                raise Stop

    def try_imports(node, package):
        """try: import a; except ImportError: a = None.  What comes instead of `a` is not imported here."""
        handled = [statement for handler in node.handlers for statement in handler.body]
        if not all(isinstance(one, (ast.Import, ast.ImportFrom, ast.Pass, ast.Raise)) or
                   (isinstance(one, ast.Assign) and is_quiet(one)) for one in handled) or node.finalbody:
            raise Stop
        for one in node.body:
            if isinstance(one, ast.Import) and not all(where(a.name.partition(".")[0]) for a in one.names):
                return
            if isinstance(one, ast.ImportFrom) and one.level == 0 and where(one.module.partition(".")[0]) is None:
                return
            walk([one], package)
        walk(node.orelse, package)

    def read_file(path, package):
        path = os.path.abspath(path)
        if path in seen:
            return
        seen.add(path)
        write("file " + path)
        with open(path, "rb") as file:
            walk(ast.parse(file.read()).body, package)

    try:
        if KIND == "file":
            read_file(ENTRY, "")
            return
        take(ENTRY.partition(".")[0], []) if "." in ENTRY else None
        if where(ENTRY.partition(".")[0]) == "own":
            take_own(ENTRY)
            main = source_of(ENTRY + ".__main__")
            if main is not None:
                read_file(main, ENTRY)
        else:  # an installed program: what its package imports, and what its main module does
            spec = importlib.util.find_spec(ENTRY)
            if spec is not None and spec.submodule_search_locations is not None:
                write("import %s " % ENTRY)
                spec = importlib.util.find_spec(ENTRY + ".__main__")
            if spec is not None and spec.has_location:
                read_file(spec.origin, spec.parent)
    except (Stop, SyntaxError, ImportError, ValueError, OSError):
        pass  # the script itself says what is wrong with it


def ask_imports():
    """The lines of list_imports."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(into, "w") as file:
                list_imports(lambda line: print(line, file=file))
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as file:
        lines = file.read().splitlines()
    os.waitpid(child, 0)
    return lines


# ---- the imports, and what they left -----------------------------------------------------------------------------

class Watch:
    """What imports read that is different in each trial: variables and arguments.  Files that they leave."""

    def __init__(self):
        self.names, self.all, self.argv, self.made, self.on = {}, None, None, None, True


WATCH = Watch()


def reader():
    """The module that is being imported and reads; the machinery of imports and os.py are not meant."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name not in ("os", "collections.abc", "_collections_abc", "__main__", "tempfile") and not name.startswith("importlib"):
            return name
        frame = frame.f_back
    return "?"


class WatchedEnvironment(os._Environ):
    def __getitem__(self, name):
        if WATCH.on:
            WATCH.names.setdefault(name, reader())
        return os._Environ.__getitem__(self, name)

    def __iter__(self):
        if WATCH.on and WATCH.all is None:
            WATCH.all = reader()
        return os._Environ.__iter__(self)


class WatchedArguments(list):
    def __getitem__(self, at):
        if WATCH.on and WATCH.argv is None and at != 0:
            WATCH.argv = reader()
        return list.__getitem__(self, at)

    def __iter__(self):
        if WATCH.on and WATCH.argv is None:
            WATCH.argv = reader()
        return list.__iter__(self)

    def __len__(self):
        if WATCH.on and WATCH.argv is None:
            WATCH.argv = reader()
        return list.__len__(self)


def watch_files(event, args):
    if WATCH.on and event in ("tempfile.mkdtemp", "tempfile.mkstemp") and WATCH.made is None:
        WATCH.made = reader()


def import_all(lines):
    for line in lines:
        if not line.startswith("import "):
            continue
        name, _, members = line[7:].partition(" ")
        members = [one for one in members.split(",") if one]
        try:
            module = __import__(name, {}, {}, members, 0)
            for one in members:
                if one != "*":
                    getattr(module, one, None)
        except BaseException as error:
            raise Refused("importing %s failed: %s: %s" % (name, type(error).__name__, error)) from None


def count_threads():
    return len(os.listdir("/proc/self/task"))


def check_threads():
    """Pools of threads that a fork ends and that begin anew, as OpenBLAS's, may exist: a first fork ends them."""
    import time

    if len(sys._current_frames()) > 1:
        names = [t.name for t in sys.modules["threading"].enumerate()[1:]] if "threading" in sys.modules else []
        raise Refused("an import started a Python thread%s" % "".join(" '%s'" % name for name in names[:1]))
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    for _ in range(50):
        if count_threads() == 1:
            return
        time.sleep(0.002)
    raise Refused("an import started %d native threads, which a fork does not copy" % (count_threads() - 1))


def check_descriptors():
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # that of the listing
        if target.startswith("/dev/nvidia"):
            raise Refused("an import opened the GPU (%s)" % target)
        if int(name) > CONTROL and target not in ("/dev/null", "/dev/urandom", "/dev/random"):
            raise Refused("an import left %s open" % target)


def check_memory(files):
    """Memory that forks would share, and libraries, which are files that may change."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            words = line.split(None, 5)
            path = words[5].strip() if len(words) > 5 else ""
            if "/libcuda.so" in path:
                raise Refused("an import loaded the driver of the GPU (%s)" % path)
            if words[1][1] == "w" and words[1][3] == "s":
                raise Refused("an import shares memory (%s)" % path)
            if path.startswith("/") and ".so" in path:
                files.add(path)


def check_rest():
    torch = sys.modules.get("torch")
    if getattr(getattr(torch, "cuda", None), "is_initialized", bool)():
        raise Refused("an import initialized CUDA")
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        raise Refused("an import left a child process")
    except ChildProcessError:
        pass
    if _signal.getitimer(_signal.ITIMER_REAL)[0] > 0:
        raise Refused("an import set an alarm")
    if _signal.getsignal(_signal.SIGCHLD) is None:
        raise Refused("an import handles SIGCHLD in native code")
    if WATCH.all is not None:
        raise Refused("module %s reads the whole environment when it is imported" % WATCH.all)
    if WATCH.argv is not None:
        raise Refused("module %s reads the command line when it is imported" % WATCH.argv)
    if WATCH.made is not None:
        raise Refused("module %s makes a temporary file when it is imported" % WATCH.made)


def loaded_files(files):
    """Of each module, its file; none is the user's own."""
    here = [os.path.realpath(place) + os.sep for place in {os.getcwd(), sys.path[0] or os.getcwd()}]
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or module is MAIN:  # multiprocessing gives it a second name
            continue
        if not is_installed(file) and any(os.path.realpath(file).startswith(place) for place in here):
            raise Refused("an import runs %s, which is not installed" % file)
        files.add(file)


def state_of(path):
    try:
        st = os.stat(path)
    except OSError:
        return None
    return st.st_mtime_ns, st.st_size, st.st_ino


def prepare():
    """Imports everything.  What the children need to know of it."""
    lines = ask_imports()
    files = {line[5:] for line in lines if line.startswith("file ")}
    before = dict(os.environ)
    os.environ.__class__ = WatchedEnvironment
    sys.argv = WatchedArguments([ENTRY if KIND == "file" else "-m"])
    sys.addaudithook(watch_files)
    import_all(lines)
    WATCH.on = False
    os.environ.__class__ = os._Environ
    loaded_files(files)
    if KIND == "module":
        import runpy  # noqa: F401: as python -m does
    import ctypes

    check_threads()
    check_descriptors()
    check_memory(files)
    check_rest()
    after = dict(os.environ)
    changes = {name: after.get(name) for name in set(before) | set(after) if before.get(name) != after.get(name)}
    for file in (sys.stdout, sys.stderr):
        if file is not None:
            file.flush()
    states = {path: state_of(path) for path in files}
    return {"libc": ctypes.CDLL(None, use_errno=True), "before": before, "changes": changes,
            "sigchld": _signal.getsignal(_signal.SIGCHLD), "reads": {name: by for name, by in WATCH.names.items()},
            "files": {path: state for path, state in states.items() if state is not None},
            "count": sum(line.startswith("import ") for line in lines)}


# ---- a trial -----------------------------------------------------------------------------------------------------

class Request:
    """The words of one; see agent_warm.c, put_request."""

    def __init__(self, data, fds):
        words = data.split(b"\0")
        self.agent, self.dir, self.name = words[:3]
        self.anywhere, self.file_max, self.log_limit, self.reports, self.listens_to, skip, listens, args = (
            int(word) for word in words[3:11])
        at = 11
        self.listen = words[at:at + listens]
        self.argv = [os.fsdecode(word) for word in words[at + listens:at + listens + args]]
        self.skip = skip
        self.env = {}
        for word in words[at + listens + args:-1]:
            name, _, value = word.partition(b"=")
            self.env[os.fsdecode(name)] = os.fsdecode(value)
        self.link, self.log, self.channel = fds[:3]
        self.report = fds[3] if self.reports else -1


def check_request(known, request):
    for path, state in known["files"].items():
        if state_of(path) != state:
            raise Changed(path)
    for name, by in known["reads"].items():
        if request.env.get(name) != known["before"].get(name):
            raise Refused("module %s reads %s when it is imported" % (by, name))
    for name in known["changes"]:
        if request.env.get(name) != known["before"].get(name):
            raise Refused("an import sets %s" % name)


def fail(pipe, what, code):
    os.write(pipe, what.to_bytes(4, sys.byteorder, signed=True) + code.to_bytes(4, sys.byteorder, signed=True))
    os._exit(127)


def set_environment(known, request):
    wanted = dict(request.env)
    for name, value in known["changes"].items():
        if value is None:
            wanted.pop(name, None)
        else:
            wanted[name] = value
    for name in list(os.environ):
        if name not in wanted:
            del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def close_all_but(keep):
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in keep:
            try:
                os.close(fd)
            except OSError:
                pass  # that of the listing


def become_listener(known, request, pipe):
    """In the rank: forks the script's process, which returns, and becomes espalier-listen."""
    rank = os.getpid()
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        known["libc"].prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0)
        if os.getppid() != rank:
            os._exit(127)
        os.dup2(into, request.listens_to)
        request.env.pop("ESPALIER_REPORT_FD", None)
        return
    try:
        os.setpgid(child, child)
    except OSError:
        pass  # it was quicker
    os.set_inheritable(out, True)
    words = [request.listen[0], b"--child", b"%d" % child, b"%d" % out] + request.listen[1:]
    os.close(into)
    try:
        os.execve(words[0], words, request.env)
    except OSError as error:
        fail(pipe, NO_EXEC, error.errno)


def become_rank(known, request, supervisor, go, pipe):
    """Returns in the process that is to run the script."""
    import fcntl

    os.setsid()
    known["libc"].prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0)
    if os.getppid() != supervisor or os.read(go, 1) == b"":
        os._exit(127)
    if request.file_max > 0:
        import ctypes

        limit = (ctypes.c_uint64 * 2)(request.file_max, request.file_max)
        if known["libc"].prlimit64(0, 1, limit, None) != 0:
            fail(pipe, NO_LIMIT, ctypes.get_errno())
    try:
        os.chdir(request.dir)
    except OSError as error:
        if not request.anywhere:
            fail(pipe, NO_FOLDER, error.errno)
        os.chdir("/")
    out, report, pipe = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) if fd >= 0 else -1
                         for fd in (request.log, request.report, pipe))
    os.dup2(out, 1)
    os.dup2(out, 2)
    if report >= 0:
        os.dup2(report, CONTROL)
    close_all_but({CONTROL, pipe} if report >= 0 else {pipe})
    if request.listen:
        become_listener(known, request, pipe)
        close_all_but(())
    else:
        os.close(pipe)
    known["libc"].prctl(PR_SET_NAME, request.name, 0, 0, 0)
    set_environment(known, request)


def become_supervisor(known, request):
    """Returns in the process that is to run the script."""
    os.setsid()
    known["libc"].prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    me = os.getpid()
    wait, go = os.pipe()
    said, pipe = os.pipe()
    tap, log = -1, request.log
    if request.log_limit > 0:
        tap, request.log = os.pipe()
    rank = os.fork()
    if rank == 0:
        os.close(go)
        become_rank(known, request, me, wait, pipe)
        return
    keep = [request.link, log, tap, request.channel, go, said]
    close_all_but(keep)
    for fd in keep:
        if fd >= 0:
            os.set_inheritable(fd, True)
    os.chdir("/")
    os.execv(request.agent, [b"espalier-agent", b"--supervise"] + [b"%d" % n for n in keep + [rank, request.log_limit]])


def fork_trial(known, request, fds):
    """Returns True in the process that is to run the script, else False."""
    if os.fork() > 0:
        for fd in fds:
            os.close(fd)
        return False
    try:
        _signal.signal(_signal.SIGCHLD, known["sigchld"])
        become_supervisor(known, request)
        return True
    except BaseException:
        os._exit(127)  # the agent sees the end of the link, and starts the trial cold


def serve(known):
    """Returns the request in the process that is to run it."""
    import _socket

    control = _socket.socket(fileno=CONTROL)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    while True:
        word, anc, _, _ = control.recvmsg(16, 256)
        if not word:
            os._exit(0)
        fds = []
        for level, kind, data in anc:
            fds += [int.from_bytes(data[i:i + 4], sys.byteorder) for i in range(0, len(data) - 3, 4)]
        os.lseek(fds[0], 0, os.SEEK_SET)
        data = b""
        while True:
            more = os.read(fds[0], 1 << 20)
            if not more:
                break
            data += more
        request = Request(data, fds[1:])
        try:
            check_request(known, request)
        except Changed as error:
            say("changed %s" % error)
        except Refused as error:
            say("no %s" % error)
        if fork_trial(known, request, fds):
            control.detach()
            return request


def say(text):
    """The last word, unless it is "ready"."""
    data = os.fsencode(text)[:1000]
    try:
        os.write(CONTROL, data)
    except OSError:
        pass  # the agent is gone
    if not text.startswith("ready"):
        os._exit(1)


# ---- the script --------------------------------------------------------------------------------------------------

def make_main():
    """A new __main__, as the interpreter makes it."""
    main = type(sys)("__main__")
    main.__dict__.clear()
    main.__dict__.update(FRESH)
    main.__dict__["__doc__"] = None
    if "__annotations__" in FRESH:
        main.__dict__["__annotations__"] = {}
    if KIND == "file":
        path = ENTRY if ENTRY.startswith("/") else os.getcwd() + "/" + ENTRY
        main.__dict__["__file__"] = path
        main.__dict__["__loader__"] = type(FRESH["__loader__"])("__main__", path)
    else:
        for name in ("__file__", "__cached__"):
            main.__dict__.pop(name, None)
    return main


def hide_frames(hook, ours):
    """Of a traceback, the frames of this file."""
    def show(kind, value, trace):
        while trace is not None and trace.tb_frame.f_globals is ours:
            trace = trace.tb_next
        hook(kind, value.with_traceback(trace), trace)
    return show


def become_fresh(request):
    import gc

    gc.unfreeze()
    sys.argv = [ENTRY if KIND == "file" else "-m"] + request.argv[request.skip:]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = request.argv
    random = sys.modules.get("numpy.random")  # Python's own generator seeds itself after a fork
    if random is not None:
        random.seed()


def begin():
    """Up to the fork; returns in the trial."""
    import gc
    import time

    begun = time.monotonic()
    try:
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = os.path.dirname(os.path.realpath(ENTRY)) if KIND == "file" else os.getcwd()
        else:
            raise Refused("the interpreter was started with a safe path")
        known = prepare()
    except Refused as error:
        say("no %s" % error)
    gc.collect()
    gc.freeze()
    say("ready %d imports in %.1f s" % (known["count"], time.monotonic() - begun))
    return serve(known)


if sys.version_info < (3, 9):
    say("no Python is older than 3.9")
OURS = sys.modules["__main__"]  # keeps what these functions need
MAIN = sys.modules["__main__"] = make_main()
become_fresh(begin())
if KIND == "file":
    try:
        with open(MAIN.__file__, "rb") as SOURCE:
            CODE = SOURCE.read()
        exec(compile(CODE, MAIN.__file__, "exec", dont_inherit=True), MAIN.__dict__)
    except BaseException:
        sys.excepthook = hide_frames(sys.excepthook, globals())
        raise
else:
    try:
        import runpy

        runpy._run_module_as_main(ENTRY)
    except BaseException:
        sys.excepthook = hide_frames(sys.excepthook, globals())
        raise
