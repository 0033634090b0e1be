"""The package finds the program, and runs it."""

import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import espalier
import espalier.trial
import espalier_trial
from espalier import program


class Program(unittest.TestCase):
    def test_version(self):
        said = subprocess.run([sys.executable, "-m", "espalier", "--version"], stdout=subprocess.PIPE, check=True,
                              universal_newlines=True).stdout
        self.assertIn(espalier.__version__, said.split()[1])
        with open(os.path.join(os.environ["SOURCE"], "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn('\nversion = "%s"\n' % espalier.__version__, file.read())

    def test_exit_status(self):
        self.assertEqual(subprocess.run([sys.executable, "-m", "espalier", "nosuch"], stderr=subprocess.DEVNULL,
                                        check=False).returncode, 2)

    def test_absent(self):
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            del os.environ["ESPALIER"]
            with self.assertRaisesRegex(FileNotFoundError, "ESPALIER can name it"):
                program.find()

    def test_named_by_itself(self):
        """The command of a wheel that $ESPALIER names does not become itself, again and again."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "espalier")
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!%s\nfrom espalier.__main__ import main\nmain()\n" % sys.executable)
            os.chmod(path, 0o755)
            for env in (dict(os.environ, ESPALIER=path, PATH="/nonexistent"), dict(os.environ, ESPALIER="", PATH=folder)):
                done = subprocess.run([path, "--version"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                                      check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"ESPALIER can name it", done.stderr)

    def test_trial_is_the_helper(self):
        self.assertIs(espalier.trial.start, espalier_trial.start)

    def test_no_such_name(self):
        with self.assertRaises(AttributeError):
            espalier.nosuch


if __name__ == "__main__":
    unittest.main()
