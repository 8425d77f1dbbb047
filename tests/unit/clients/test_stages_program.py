# SPDX-License-Identifier: MIT
"""A driver as a program, and docs/stages-python.md against the code."""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from stage_daemon import StageDaemon  # prints SKIPPED and exits without pyzmq

from driftd import stages

SOURCE = pathlib.Path(__file__).resolve().parents[3]
SLOW = float(os.environ.get("DRIFTD_TEST_SLOWNESS", "1"))


class Program(unittest.TestCase):
    """The example, as a program."""

    def setUp(self):
        self.daemon = StageDaemon()
        self.addCleanup(self.daemon.close)

    def run_example(self, *arguments):
        child = subprocess.Popen(
            [sys.executable, "-B", SOURCE / "clients/python/stage_driver_example.py", "--corrections",
             self.daemon.corrections, "--commands", self.daemon.commands, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE / "clients/python")})
        self.addCleanup(lambda: (child.poll() is None and child.kill(), child.communicate()))
        return child

    def test_moves_reports_and_ends_by_either_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            child = self.run_example()
            seen = len(self.daemon.reports)
            # The rate limit may hold back the first, which comes right after the place was found.
            while not any(r["carried_out"] > 1 for r in self.daemon.reports[seen:]):
                self.assertIsNone(child.poll())
                self.daemon.send((3, -4), (3, -4))
                time.sleep(0.02)
            child.send_signal(number)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, err)
            self.assertIn(["stage", "1003.000", "1996.000", "nm"], [line.split() for line in out.splitlines()])
            self.assertNotIn("Traceback", err)
            self.daemon.wait_stopped()
        self.assertEqual(self.daemon.mistakes, [])

    def test_what_cannot_be_meant_is_one_sentence(self):
        for arguments, text in ((["--x-axis", "9"], "x is to be axis `9`, but the stage has 1 and 2"),
                                (["--step-limit-nm", "-1"], "step_nm is a number above 0"),
                                (["--commands", "tcp://127.0.0.1:x"], "cannot be connected to"),
                                (["--driftd", "/nowhere.yaml"], "/nowhere.yaml")):
            child = self.run_example(*arguments)
            _, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 1)
            self.assertRegex(err.splitlines()[-1], f"^stage_driver_example.py: .*{re.escape(text)}")
            self.assertNotIn("Traceback", err)

    def test_is_about_thirty_lines(self):
        text = (SOURCE / "clients/python/stage_driver_example.py").read_text()
        self.assertLess(len(text.splitlines()), 36)


class Page(unittest.TestCase):
    """docs/stages-python.md against the code."""

    TEXT = (SOURCE / "docs/stages-python.md").read_text()

    def test_its_example_is_a_stage(self):
        [code] = re.findall("```python\n(.*?)```", self.TEXT, re.DOTALL)
        names = {"__name__": "page"}
        exec(code, names)
        stage = names["MyStage"]()
        self.assertEqual(len(stage.connect()), 2)
        stage.move_to((1.0, 2.0))
        self.assertEqual(stage.connect() and stage.read(), (1.0, 2.0))  # connecting moves nothing

    def test_it_has_every_option_with_its_default_and_no_other(self):
        parser = argparse.ArgumentParser(add_help=False)
        stages.add_options(parser)
        table = self.TEXT.split("## The calls")[0]
        self.assertEqual(set(re.findall("--[a-z][a-z-]+", table)) - {"--help"},
                         {action.option_strings[0] for action in parser._actions})
        for name in ("step_limit_nm", "rate_limit_nm_per_s", "range_limit_nm", "max_rate_hz"):
            option, default = name.replace("_", "-"), parser.get_default(name)
            self.assertRegex(table, rf"`--{option}` \| .*\({default:g}\) \|")

    def test_it_has_every_state(self):
        for state in (*stages.CONDITIONS, "disconnected", "stopped"):
            self.assertIn(f"`{state}`", self.TEXT.split("## What is reported")[1])


if __name__ == "__main__":
    unittest.main()
