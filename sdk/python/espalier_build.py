"""The build backend of the package (PEP 517 and 660), with the standard library alone.

`make wheel` calls build_wheel with {"program": DIR, "platform": TAG}: the contents of DIR (bin,
lib, libexec) become espalier/_program in the wheel, and TAG says which systems they are for.
"""

import base64
import gzip
import hashlib
import io
import os
import tarfile
import zipfile

try:
    import tomllib
except ImportError:                            # Python before 3.11
    import tomli as tomllib

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "pyproject.toml"), "rb") as _file:
    project = tomllib.load(_file)["project"]
stem = "%s-%s" % (project["name"], project["version"])
info = stem + ".dist-info"


def _read(*path):
    with open(os.path.join(here, *path), "rb") as file:
        return file.read()


def _texts():
    """The license; in the source tree it is two directories up."""
    return [(name, _read(name if os.path.exists(os.path.join(here, name)) else os.path.join("..", "..", name)))
            for name in ("LICENSE", "NOTICE")]


def _metadata():
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + project["version"],
             "Summary: " + project["description"], "License: " + project["license"],
             "License-File: LICENSE", "License-File: NOTICE",
             "Keywords: " + ",".join(project["keywords"]), "Requires-Python: " + project["requires-python"]]
    lines += ["Classifier: " + text for text in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append("Provides-Extra: " + extra)
        lines += ["Requires-Dist: %s; extra == '%s'" % (need, extra) for need in needs]
    lines += ["Description-Content-Type: text/markdown", "", _read(project["readme"]).decode()]
    return "\n".join(lines).encode()


def _sources():
    """The package's files, as relative paths."""
    names = ["espalier_trial.py"]
    for folder, folders, files in os.walk(os.path.join(here, "espalier")):
        folders[:] = [name for name in folders if name not in ("__pycache__", "_program")]
        names += [os.path.relpath(os.path.join(folder, name), here) for name in files]
    return sorted(name for name in names if name.endswith((".py", ".pyi", "py.typed")))


def _pack(folder, files, program, tag):
    """Writes a wheel; files is a list of (name, bytes, mode)."""
    files = files + [(info + "/licenses/" + name, data, 0o644) for name, data in _texts()] + [
        (info + "/METADATA", _metadata(), 0o644),
        (info + "/WHEEL", ("Wheel-Version: 1.0\nGenerator: espalier_build\nRoot-Is-Purelib: %s\nTag: %s\n"
                           % ("false" if program else "true", tag)).encode(), 0o644)]
    if program:
        files.append((info + "/entry_points.txt",
                      b"[console_scripts]\nespalier = espalier.__main__:main\n", 0o644))
    record = "".join("%s,sha256=%s,%d\n" % (
        name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data))
        for name, data, _ in files)
    files.append((info + "/RECORD", (record + info + "/RECORD,,\n").encode(), 0o644))
    wheel = "%s-%s.whl" % (stem, tag)
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name)      # of 1980: the same files make the same wheel
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    files = [(name, _read(name), 0o644) for name in _sources()]
    program = settings.get("program")
    for folder, _, names in os.walk(program) if program else ():
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                files.append((os.path.join("espalier", "_program", os.path.relpath(path, program)), file.read(),
                              0o755 if os.access(path, os.X_OK) else 0o644))
    return _pack(wheel_directory, files, program,
                 "py3-none-" + settings["platform"] if program else "py3-none-any")


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _pack(wheel_directory, [("__editable__espalier.pth", here.encode() + b"\n", 0o644)], None,
                 "py3-none-any")


def build_sdist(sdist_directory, config_settings=None):
    names = ["pyproject.toml", "README.md", "espalier_build.py"] + _sources()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as out:
        for name, data in [("PKG-INFO", _metadata())] + _texts() + [(name, _read(name)) for name in names]:
            entry = tarfile.TarInfo(stem + "/" + name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    with open(os.path.join(sdist_directory, stem + ".tar.gz"), "wb") as file:
        file.write(gzip.compress(made.getvalue(), mtime=0))
    return stem + ".tar.gz"
