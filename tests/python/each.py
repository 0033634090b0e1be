"""Runs the tests of a file for 46-python.test: a line for each, "ok NAME", "skip NAME", a tab and the reason, or "failed NAME";
what failed is described on standard error."""

import importlib.util
import os
import sys
import unittest


class Result(unittest.TextTestResult):
    def say(self, word, test, reason=""):
        name = getattr(test, "id", lambda: str(test))()
        print(word, name.split(".", 1)[-1] + ("\t" + " ".join(reason.split()) if reason else ""), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skip", test, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("failed", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.say("failed", test)


name = os.path.basename(sys.argv[1])[:-3]
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
spec.loader.exec_module(module)
unittest.TextTestRunner(resultclass=Result).run(unittest.defaultTestLoader.loadTestsFromModule(module))
