# SPDX-License-Identifier: MIT
"""A driver as a program, which starts driftd-stage (DRIFTD_STAGE), and docs/use/stages-python.md against the code."""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from stage_daemon import StageDaemon, is_of_z, mistakes  # prints SKIPPED and exits without pyzmq

from driftd import stages

SOURCE = pathlib.Path(__file__).resolve().parents[3]
LOOSE = stages.Limits(step_nm=1000, rate_nm_per_s=1e9, range_nm=1e5)


class WithDaemon(unittest.TestCase):
    def setUp(self):
        self.daemon = StageDaemon()
        self.addCleanup(self.daemon.close)

    def carried_out(self, count, step=(3, -4)):
        """Until so many more moves are reported. The rate limit may hold back the first."""
        first = self.daemon.wait_report(lambda r: r["state"] == "ready")["carried_out"]
        end_s = time.monotonic() + 60
        while self.daemon.reports[-1]["carried_out"] < first + count:
            self.assertLess(time.monotonic(), end_s)
            self.daemon.send(step, step)
            time.sleep(0.02)


class Program(WithDaemon):
    """The example, as a program."""

    def run_example(self, *arguments, **environment):
        child = subprocess.Popen(
            [sys.executable, "-B", SOURCE / "clients/python/stage_driver_example.py", "--corrections",
             self.daemon.corrections, "--commands", self.daemon.commands, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE / "clients/python"), **environment})
        self.addCleanup(lambda: (child.poll() is None and child.kill(), child.communicate()))
        return child

    def test_moves_reports_and_ends_by_either_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            child = self.run_example()
            self.carried_out(2)
            child.send_signal(number)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, err)
            self.assertIn(["stage", "1003.000", "1996.000", "nm"], [line.split() for line in out.splitlines()])
            self.assertNotIn("Traceback", err)
            self.assertEqual(self.daemon.wait_stopped()["driver"], "program")
        self.assertEqual(self.daemon.mistakes, [])

    def test_killed_it_leaves_nothing_behind_that_reports(self):
        child = self.run_example()
        self.carried_out(1)
        child.kill()
        self.daemon.wait_stopped()

    def test_what_cannot_be_meant_is_one_sentence(self):
        for arguments, text in ((["--step-limit-nm", "-1"], "step_nm is a number above 0"),
                                (["--x-scale", "1e9"], "x.scale: found 1000000000.0; allowed a number above 0"),
                                (["--commands", "tcp://127.0.0.1:x"], "daemon.commands: found \"tcp://127.0.0.1:x\""),
                                (["--driftd", "/nowhere.yaml"], "/nowhere.yaml"),
                                (["--x-axis", "9"], "axis `9` is to be moved, but the stage has 1 and 2")):
            child = self.run_example(*arguments)
            _, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 1)
            self.assertRegex(err.splitlines()[-1], f"^stage_driver_example.py: .*{re.escape(text)}")
            self.assertNotIn("Traceback", err)

    def test_without_driftd_stage_it_says_what_to_do(self):
        child = self.run_example(DRIFTD_STAGE="/nowhere/driftd-stage")
        out, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, out), (1, ""))
        self.assertRegex(err, "^stage_driver_example.py: /nowhere/driftd-stage is not there, which moves the stage: "
                         "install the package driftd-stage, or .*DRIFTD_STAGE\n$")

    def test_is_about_thirty_lines(self):
        text = (SOURCE / "clients/python/stage_driver_example.py").read_text()
        self.assertLess(len(text.splitlines()), 36)


class Stage(stages.Stage):
    def __init__(self):
        self.place_nm, self.threads, self.stops, self.pauses_s = (1000.0, 2000.0), set(), 0, {}
        self.moves = []

    def connect(self):
        self.threads.add(threading.get_ident())
        return [stages.Axis("a", 0, 1e5), stages.Axis("b")]

    def move_to(self, positions_nm):
        time.sleep(self.pauses_s.get("move_to", 0))
        self.threads.add(threading.get_ident())
        self.place_nm = positions_nm
        self.moves.append(positions_nm)

    def read(self):
        time.sleep(self.pauses_s.get("read", 0))
        self.threads.add(threading.get_ident())
        return self.place_nm

    def stop(self):
        self.stops += 1


class InAThread(WithDaemon):
    """`Driver` within a program of the user's own."""

    def start(self, stage=None, **settings):
        self.stage, self.error = stage or Stage(), None
        self.driver = stages.Driver(self.stage, stages.Settings(self.daemon.corrections, self.daemon.commands,
                                                                **settings))
        self.thread = threading.Thread(target=self._drive)
        self.thread.start()
        self.addCleanup(self.end)

    def _drive(self):
        try:
            self.driver.run()
        except BaseException as error:
            self.error = error

    def end(self):
        self.driver.stop()
        self.thread.join(60)
        self.assertFalse(self.thread.is_alive())
        self.assertEqual(self.daemon.mistakes, [])

    def test_which_axis_which_way_and_how_far(self):
        self.start(limits=LOOSE, x=stages.Direction("b", -1, 2.0), y=stages.Direction("a", 1, 0.5), max_rate_hz=250.0)
        report = self.daemon.wait_report(lambda r: r["state"] == "ready")
        self.assertEqual([axis["name"] for axis in report["axes"]], ["b", "a"])
        self.assertEqual((report["description"], report["max_rate_hz"]), ("python: Stage", 250.0))
        end_s = time.monotonic() + 60
        while not self.stage.moves:  # until it hears
            self.assertLess(time.monotonic(), end_s)
            self.daemon.send((10, 20), (10, 20))
            time.sleep(0.02)
        self.assertEqual(self.stage.moves[0], (1010.0, 1980.0))
        self.end()
        self.assertIsNone(self.error)
        self.assertEqual((self.stage.stops, len(self.stage.threads)), (1, 1))  # one thread owns a stage
        self.daemon.wait_stopped()
        self.assertEqual(self.stage.place_nm, self.stage.moves[-1])

    def test_three_axes_follow_both_topics_and_one_that_nobody_holds_stays(self):
        class Three(Stage):
            def __init__(self):
                super().__init__()
                self.place_nm = [1000.0, 2000.0, 3000.0]

            def connect(self):
                return [stages.Axis("a"), stages.Axis("b"), stages.Axis("c")]

            def move_to(self, positions_nm):
                self.moves.append(positions_nm)
                self.place_nm = [now if nm is None else nm for nm, now in zip(positions_nm, self.place_nm)]

        self.start(Three(), limits=LOOSE, z_limits=LOOSE, axes="xyz", z_ends_nm=(2500, 3500),
                   z=stages.Direction("c", -1))
        report = self.daemon.wait_report(is_of_z)
        self.assertEqual([(axis["min_nm"], axis["max_nm"]) for axis in report["axes"]], [(2500, 3500)])

        def until(place_nm, *sends):
            end_s = time.monotonic() + 60
            while self.stage.place_nm != place_nm:
                self.assertLess(time.monotonic(), end_s, self.stage.place_nm)
                for send, total in sends:
                    send(total)
                time.sleep(0.02)
        until([1010.0, 2020.0, 3000.0], (self.daemon.send, (10, 20)))
        self.assertEqual(self.stage.moves[-1][2], None)
        until([1010.0, 2020.0, 2960.0], (self.daemon.send_axial, 40))
        self.assertEqual(self.stage.moves[-1][:2], (None, None))
        until([1030.0, 2020.0, 2500.0], (self.daemon.send, (30, 20)), (self.daemon.send_axial, 900))
        self.daemon.wait_report(lambda r: is_of_z(r) and r["state"] == "limit")

    def test_a_slow_stage_is_told_and_gets_the_newest(self):
        self.start(limits=LOOSE)
        self.daemon.wait_report(lambda r: r["state"] == "ready")
        self.stage.pauses_s = {"move_to": 0.7}  # longer than driftd-stage waits for a controller's answer
        sent, start_s = 0, time.monotonic()
        while len(self.stage.moves) < 3:
            self.assertLess(time.monotonic() - start_s, 60)
            sent += 1
            self.daemon.send((sent, 0), (1, 0))
            time.sleep(0.005)
        self.assertGreater(self.stage.moves[-1][0] - self.stage.moves[-2][0], 2)  # those between are left out
        self.assertTrue(any(r["state"] == "error" and "owed an answer" in r["text"] for r in self.daemon.reports))
        self.assertFalse(any(r["state"] == "disconnected" for r in self.daemon.reports if r["carried_out"]))

    def test_what_is_as_good_as_no_limit_is_none(self):
        self.start(limits=stages.Limits(1e12, 1e15, 1e12), max_rate_hz=1e9)
        self.daemon.wait_report(lambda r: r["state"] == "ready")

    def test_a_stage_that_can_never_be_driven_ends_it(self):
        self.start(x=stages.Direction("c"))
        self.thread.join(60)
        self.assertIsInstance(self.error, stages.SettingsError)
        self.assertIn("axis `c` is to be moved, but the stage has a and b", str(self.error))
        self.assertEqual(self.stage.stops, 1)

    def test_a_driftd_stage_that_ends_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder, "driftd-stage")
            broken.write_text('#!/bin/sh\n[ "$3" ] || exit 4\n')
            broken.chmod(0o700)
            with unittest.mock.patch.dict(os.environ, DRIFTD_STAGE=str(broken)):
                self.start()
                self.thread.join(60)
        self.assertRegex(str(self.error), "driftd-stage ended with exit code 4")

    def test_settings_that_cannot_be_meant_are_refused(self):
        for wrong in (lambda: stages.Direction(sign=0), lambda: stages.Direction(scale=-1.0),
                      lambda: stages.Limits(step_nm=0), lambda: stages.Direction(scale=float("nan")),
                      lambda: stages.Limits(range_nm=float("inf")), lambda: stages.Settings(max_rate_hz=0),
                      lambda: stages.Settings(axes="xz"), lambda: stages.Settings(axes="xyz")):
            with self.assertRaises(stages.SettingsError):
                wrong()


class Check(WithDaemon):
    def test_the_check_of_reports_can_fail(self):
        driver = stages.Driver(Stage(), stages.Settings(self.daemon.corrections, self.daemon.commands))
        thread = threading.Thread(target=driver.run)
        thread.start()
        try:
            good = self.daemon.wait_report(lambda r: r["state"] == "ready")
        finally:
            driver.stop()
            thread.join(60)
        del good["came_s"]
        self.assertEqual(mistakes(json.dumps(good).encode()), [])
        for wrong in ({"state": "fine"}, {"instance": "x"}, {"axes": {}}, {"carried_out": 1.5}, {"on_target": 1},
                      {"extra": 1}, {"text": None}, {"latency_us": {"n": 0, "p50": 0, "p99": None, "max": None}}):
            with self.subTest(wrong):
                self.assertNotEqual(mistakes(json.dumps({**good, **wrong}).encode()), [])
        with self.assertRaises(ValueError):
            mistakes(json.dumps({**good, "rate_hz": float("nan")}).encode())


class Page(unittest.TestCase):
    """docs/use/stages-python.md against the code."""

    TEXT = (SOURCE / "docs/use/stages-python.md").read_text()

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
        self.assertEqual(set(re.findall("--[a-z][a-z-]+", table)) - {"--help", "--config"},
                         {action.option_strings[0] for action in parser._actions})
        for name in ("step_limit_nm", "rate_limit_nm_per_s", "range_limit_nm", "max_rate_hz"):
            option, default = name.replace("_", "-"), parser.get_default(name)
            self.assertRegex(table, rf"`--{option}` \| .*\({default:g}\) \|")

    def test_it_has_every_state_of_health(self):
        for state in stages.CONDITIONS:
            self.assertIn(f"`{state}`", self.TEXT)


if __name__ == "__main__":
    unittest.main()
