"""The package finds the program, and runs it."""

import os
import subprocess
import sys
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

    def test_trial_is_the_helper(self):
        self.assertIs(espalier.trial.start, espalier_trial.start)

    def test_no_such_name(self):
        with self.assertRaises(AttributeError):
            espalier.nosuch


if __name__ == "__main__":
    unittest.main()
