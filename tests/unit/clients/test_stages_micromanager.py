# SPDX-License-Identifier: MIT
"""driftd.stages.micromanager over a stand-in for Micro-Manager's core (tests/support/fake_mmcore.py).

With DRIFTD_MM_ADAPTERS, the folder of Micro-Manager's DemoCamera adapter, and `pymmcore` installed, the
stand-in is held against the real core, and the driver runs over that, too.
"""
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

from stage_daemon import StageDaemon  # prints SKIPPED and exits without pyzmq

import fake_mmcore
from driftd import stages
from driftd.stages import micromanager

SOURCE = pathlib.Path(__file__).resolve().parents[3]
SLOW = float(os.environ.get("DRIFTD_TEST_SLOWNESS", "1"))
ADAPTERS = os.environ.get("DRIFTD_MM_ADAPTERS")
CONFIG = """# a comment
Property,Core,Initialize,0
Device,DHub,DemoCamera,DHub
Device,XY,DemoCamera,DXYStage
Device,PX,DemoCamera,DStage
Device,PY,DemoCamera,DStage
Property,Core,Initialize,1
Property,Core,XYStage,XY
"""
#: Calls, and what the real core does with them: the kind of its result, or the error and how it begins.
CALLS = [
    ("getXYPosition", ("nope",), RuntimeError('No device with label "nope"')),
    ("getXYPosition", (None,), RuntimeError("Null device label")),
    ("getXYPosition", (5,), TypeError("Wrong number or type of arguments for overloaded")),
    ("getXYPosition", ("PX",), RuntimeError('Device "PX" is of the wrong type for the requested operation')),
    ("getXYPosition", ("XY",), list), ("getXYPosition", (), list),
    ("getPosition", ("PX",), float),
    ("getPosition", ("XY",), RuntimeError('Device "XY" is of the wrong type for the requested operation')),
    ("getPosition", (), RuntimeError('No device with label ""')),
    ("setXYPosition", ("XY", 1, 2), type(None)), ("setXYPosition", (1.0, 2.0), type(None)),
    ("setXYPosition", ("XY", 1.0, "2"), TypeError("Wrong number or type of arguments for overloaded")),
    ("setXYPosition", ("XY", 1.0), TypeError("Wrong number or type of arguments for overloaded")),
    ("setXYPosition", (b"XY", 1.0, 1.0), TypeError("Wrong number or type of arguments for overloaded")),
    ("setXYPosition", ("XY", (1.0, 2.0)), TypeError("Wrong number or type of arguments for overloaded")),
    ("setXYPosition", ("PX", 1.0, 1.0), RuntimeError('Device "PX" is of the wrong type')),
    ("setPosition", ("PX", 5.1234567), type(None)), ("setPosition", ("PX", 1), type(None)),
    ("setPosition", ("PX", 1e9), RuntimeError('Error in device "PX": Position out of range (103)')),
    ("setPosition", ("PX", "1"), TypeError("Wrong number or type of arguments for overloaded")),
    ("setPosition", ("PX", None), TypeError("Wrong number or type of arguments for overloaded")),
    ("setPosition", ("XY", 1.0), RuntimeError('Device "XY" is of the wrong type')),
    ("setPosition", ("nope", 1.0), RuntimeError('No device with label "nope"')),
    ("deviceBusy", ("XY",), bool), ("deviceBusy", ("PX",), bool), ("deviceBusy", ("Core",), bool),
    ("deviceBusy", ("nope",), RuntimeError('No device with label "nope"')),
    ("deviceBusy", (3,), TypeError("in method 'CMMCore_deviceBusy', argument 2 of type 'char const *'")),
    ("deviceBusy", (), TypeError("")),
    ("getLoadedDevices", (), tuple),
    ("getLoadedDevicesOfType", (6,), tuple), ("getLoadedDevicesOfType", (99,), tuple),
    ("getLoadedDevicesOfType", ("6",), TypeError("in method 'CMMCore_getLoadedDevicesOfType', argument 2")),
    ("getXYStageDevice", (), str), ("getFocusDevice", (), str),
    ("getDeviceLibrary", ("XY",), str), ("getDeviceName", ("XY",), str),
    ("getDeviceName", ("nope",), RuntimeError('No device with label "nope"')),
    ("getVersionInfo", (), str),
    ("loadSystemConfiguration", (pathlib.Path("/x"),), TypeError("in method 'CMMCore_loadSystemConfig")),
    ("loadSystemConfiguration", (None,), RuntimeError("Null filename")),
    ("setDeviceAdapterSearchPaths", ([pathlib.Path("/x")],), TypeError("in method 'CMMCore_setDeviceAdapt")),
    ("moveTo", ("XY",), AttributeError("")),
    ("loadSystemConfiguration", ("/nowhere.cfg",), OSError('"/nowhere.cfg": File open failed.')),
]


class WithConfig(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "MMConfig.cfg"
        self.config.write_text(CONFIG)
        core = fake_mmcore.CMMCore
        core.test_calls, core.test_failing, core.test_slow_s, core.test_busy_s = [], {}, 0.0, 0.001

    def cores(self):
        """The stand-in, and the real one where there is one."""
        yield "stand-in", fake_mmcore.CMMCore()
        if ADAPTERS:
            core = micromanager.load_core()
            core.setDeviceAdapterSearchPaths([ADAPTERS])
            yield "real", core


class StandIn(WithConfig):
    def test_does_what_the_core_does(self):
        for name, core in self.cores():
            core.loadSystemConfiguration(str(self.config))
            for method, arguments, expected in CALLS:
                with self.subTest(f"{name} {method}{arguments}"):
                    try:
                        result = getattr(core, method)(*arguments)
                    except Exception as error:
                        self.assertIs(type(error), type(expected))
                        self.assertTrue(str(error).startswith(str(expected)), str(error))
                    else:
                        self.assertIs(type(result), expected)

    def test_places_are_kept_and_rounded_as_in_the_core(self):
        for name, core in self.cores():
            with self.subTest(name):
                core.loadSystemConfiguration(str(self.config))
                core.setPosition("PX", 5.1234567)
                self.assertEqual(core.getPosition("PX"), 5.1234567)
                core.setXYPosition("XY", 1.0, 2.0)
                time.sleep(0.3)
                for um, expected in zip(core.getXYPosition("XY"), (1.005, 1.995)):
                    self.assertAlmostEqual(um, expected)
                core.unloadAllDevices()
                self.assertEqual(core.getLoadedDevices(), ("Core",))
                self.assertEqual(core.getXYStageDevice(), "")


class Calls(WithConfig):
    def stage(self, core=None, **options):
        stage = micromanager.MicroManagerStage(self.config, core=core or fake_mmcore.CMMCore(), **options)
        return stage, stage.connect()

    def test_an_xy_stage(self):
        for name, core in self.cores():
            for xy in ("XY", None):  # None: the one that the configuration names
                with self.subTest(f"{name} {xy}"):
                    stage, axes = self.stage(core, xy=xy, travel_um=(-50, 50), resolution_nm=15)
                    self.assertEqual(axes, [stages.Axis("X", -50_000, 50_000, 15),
                                            stages.Axis("Y", -50_000, 50_000, 15)])
                    stage.move_to((1005.0, -300.0))
                    time.sleep(0.3)
                    self.assertEqual([round(nm) // 15 * 15 for nm in stage.read()], [1005, -300])
                    self.assertTrue(stage.health().on_target)
                    self.assertEqual(stage.description(), "DemoCamera DXYStage `XY`, MMCore version 12.5.0")
                    stage._core.unloadAllDevices()

    def test_two_stages_of_one_axis(self):
        for name, core in self.cores():
            with self.subTest(name):
                stage, axes = self.stage(core, stages=("PX", "PY"))
                self.assertEqual([axis.name for axis in axes], ["PX", "PY"])
                self.assertIsNone(axes[0].min_nm)
                stage.move_to((12.3456, -78.9))
                for nm, expected in zip(stage.read(), (12.3456, -78.9)):
                    self.assertAlmostEqual(nm, expected, places=9)
                with self.assertRaisesRegex(stages.Refused, "Position out of range"):
                    stage.move_to((1e9, 0))
                with self.assertRaisesRegex(RuntimeError, "Position out of range"):  # one of them went
                    stage.move_to((0, 1e9))

    def test_a_focus_drive(self):
        self.config.write_text(CONFIG.replace("Property,Core,Initialize,1\n",
                                              "Device,PZ,DemoCamera,DStage\nProperty,Core,Initialize,1\n"))
        for name, core in self.cores():
            with self.subTest(name):
                stage, axes = self.stage(core, axes="z", focus="PZ", travel_um=(-50, 50))
                self.assertEqual(axes, [stages.Axis("PZ")])  # the travel is that of x and y
                stage.move_to((12.3456,))
                self.assertAlmostEqual(stage.read()[0], 12.3456, places=9)
                with self.assertRaisesRegex(stages.Refused, "Position out of range"):
                    stage.move_to((1e9,))
                stage, axes = self.stage(core, axes="xyz", stages=("PX", "PY"), focus="PZ")
                self.assertEqual([axis.name for axis in axes], ["PX", "PY", "PZ"])
                stage.move_to((1.0, 2.0, 3.0))
                stage.move_to((4.0, 5.0, None))
                self.assertEqual([round(nm, 6) for nm in stage.read()], [4, 5, 3])
                stage.move_to((None, None, 6.0))
                self.assertEqual([round(nm, 6) for nm in stage.read()], [4, 5, 6])
                with self.assertRaisesRegex(RuntimeError, "Position out of range"):  # x and y went
                    stage.move_to((7.0, 8.0, 1e9))
                stage, axes = self.stage(core, axes="xyz", focus="PZ")  # the configuration's own XY stage
                self.assertEqual([axis.name for axis in axes], ["X", "Y", "PZ"])
                self.assertIn("`PZ`", stage.description())
                core.unloadAllDevices()

    def test_connecting_moves_nothing_and_nothing_ever_waits(self):
        stage, _ = self.stage(xy="XY", adapters=["/adapters"])
        self.assertNotIn("setXYPosition", [call[0] for call in fake_mmcore.CMMCore.test_calls])
        self.assertIn(("setDeviceAdapterSearchPaths", ["/adapters"]), fake_mmcore.CMMCore.test_calls)
        fake_mmcore.CMMCore.test_busy_s = 10
        stage.move_to((100, 100))
        self.assertEqual(stage.health(), stages.Health(on_target=False))
        start_s = time.monotonic()
        stage.move_to((200, 200))
        self.assertLess(time.monotonic() - start_s, 5)

    def test_a_stage_that_does_not_rest_on_rounding_says_so(self):
        self.assertIn("rounds to steps", self.stage(xy="XY")[0].description())
        self.assertNotIn("rounds", self.stage(stages=("PX", "PY"))[0].description())

    def test_connecting_again_loads_only_what_does_not_answer(self):
        stage, _ = self.stage(stages=("PX", "PY"))
        stage.connect()

        def loads():
            return sum(call[0] == "loadSystemConfiguration" for call in fake_mmcore.CMMCore.test_calls)

        self.assertEqual(loads(), 1)
        fake_mmcore.CMMCore.test_failing = {"PY": "no answer (10)"}
        with self.assertRaisesRegex(RuntimeError, "no answer"):
            stage.connect()
        fake_mmcore.CMMCore.test_failing = {}
        stage.connect()
        self.assertEqual(loads(), 3)

    def test_what_can_never_work_is_one_sentence(self):
        for options, text in (
                ({"xy": "PX"}, "device `PX` is no XY stage; XY stages there: XY"),
                ({"stages": ("PX", "XY")}, "device `XY` is no stage of one axis; .* there: PX, PY"),
                ({"stages": ("PX", "PZ")}, "there is no device `PZ`; stages of one axis there: PX, PY"),
                ({"stages": ("PX", "PX")}, "two stages of one axis are needed"),
                ({"xy": "XY", "stages": ("PX", "PY")}, "not both"),
                ({"focus": "PX"}, "axes are xy: a focus drive is for xyz or z"),
                ({"axes": "z", "xy": "XY"}, "axes are z: .* a stage in x and y for xy or xyz"),
                ({"axes": "xyz", "stages": ("PX", "PY"), "focus": "PY"}, "stage `PY` is no focus drive and"),
                ({"axes": "z"}, "names no focus device of its own: say which; .*: PX, PY"),
                ({"axes": "z", "focus": "XY"}, "device `XY` is no stage of one axis"),
                ({"travel_um": (5, 5)}, "a travel of 5 to 5 um is none")):
            with self.assertRaisesRegex(stages.SettingsError, text):
                self.stage(**options)
        self.config.write_text(CONFIG.replace("Property,Core,XYStage,XY\n", ""))
        with self.assertRaisesRegex(stages.SettingsError, "names no XY stage of its own: say which; .*: XY"):
            self.stage()
        self.config.unlink()
        with self.assertRaisesRegex(stages.SettingsError, "there is no file .*MMConfig.cfg"):
            self.stage()
        with self.assertRaisesRegex(stages.SettingsError, "or a core that has its devices"):
            micromanager.MicroManagerStage()

    def test_a_core_that_has_its_devices_already(self):
        core = fake_mmcore.CMMCore()
        core.loadSystemConfiguration(str(self.config))
        stage = micromanager.MicroManagerStage(core=core, stages=("PX", "PY"))
        stage.connect()
        stage.move_to((5.0, 6.0))
        self.assertEqual(core.getPosition("PY"), 0.006)
        self.assertNotIn(("unloadAllDevices",), core.test_calls)


class Driving(WithConfig):
    """The whole driver over each core."""

    def test_follows_refuses_and_comes_back(self):
        for name, core in self.cores():
            with self.subTest(name):
                daemon = StageDaemon()
                self.addCleanup(daemon.close)
                stage = micromanager.MicroManagerStage(self.config, stages=("PX", "PY"), core=core)
                driver = stages.Driver(stage, stages.Settings(daemon.corrections, daemon.commands,
                                                              limits=stages.Limits(1e6, 1e12, 1e9)))
                thread = threading.Thread(target=driver.run)
                thread.start()
                try:
                    self.drive(daemon, core)
                finally:
                    driver.stop()
                    thread.join(10)
                self.assertEqual(daemon.mistakes, [])
                daemon.wait_stopped()

    def until(self, daemon, condition, **correction):
        """Sends until a report shows it."""
        seen, end_s = len(daemon.reports), time.monotonic() + 60
        while time.monotonic() < end_s:
            daemon.send(**correction)
            time.sleep(0.02)
            for report in daemon.reports[seen:]:
                if condition(report):
                    return report
        raise AssertionError(f"never; the last: {daemon.reports[-1]}")

    def drive(self, daemon, core):
        daemon.wait_report(lambda r: r["state"] == "ready", 10 * SLOW)
        report = self.until(daemon, lambda r: r["total_y_nm"] == -4.25, total=(3.5, -4.25))
        self.assertEqual([axis["name"] for axis in report["axes"]], ["PX", "PY"])
        self.assertAlmostEqual(core.getPosition("PX"), 0.0035)
        report = self.until(daemon, lambda r: r["state"] == "error", total=(4e5, 0))  # beyond 300 um
        self.assertRegex(report["text"], r"Position out of range \(103\)")
        self.assertGreater(report["refused"], 0)
        # Its devices vanish: they are loaded anew, at 0, where the stage then stays.
        core.unloadAllDevices()
        self.until(daemon, lambda r: r["state"] == "ready" and r["total_x_nm"] == 9.0, total=(9.0, 0))
        self.assertAlmostEqual(core.getPosition("PX"), 0.009)

    def test_a_device_that_fails_is_gone_until_it_answers(self):
        daemon = StageDaemon()
        self.addCleanup(daemon.close)
        driver = stages.Driver(micromanager.MicroManagerStage(self.config, core=fake_mmcore.CMMCore()),
                               stages.Settings(daemon.corrections, daemon.commands))
        thread = threading.Thread(target=driver.run)
        thread.start()
        try:
            daemon.wait_report(lambda r: r["state"] == "ready")
            fake_mmcore.CMMCore.test_failing = {"XY": "Serial command failed (14)"}
            report = daemon.wait_report(lambda r: r["state"] == "disconnected")
            self.assertIn("Serial command failed (14)", report["text"])
            fake_mmcore.CMMCore.test_failing = {}
            daemon.wait_report(lambda r: r["state"] == "ready")
        finally:
            driver.stop()
            thread.join(10)
        self.assertEqual(daemon.mistakes, [])


class Program(WithConfig):
    def start(self, *arguments, pymmcore="from fake_mmcore import *\n"):
        if pymmcore is not None:
            (self.folder / "pymmcore.py").write_text(pymmcore)
        path = f"{self.folder}:{SOURCE}/clients/python:{SOURCE}/tests/support"
        child = subprocess.Popen([sys.executable, "-B", "-m", "driftd.stages.micromanager",
                                  "--config", self.config, *arguments],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": path})
        self.addCleanup(lambda: (child.poll() is None and child.kill(), child.communicate()))
        return child

    def test_runs_and_ends(self):
        daemon = StageDaemon()
        self.addCleanup(daemon.close)
        child = self.start("--stages", "PX", "PY", "--corrections", daemon.corrections,
                           "--commands", daemon.commands, "--travel-um", "0", "100", "--x-sign", "-1")
        report = daemon.wait_report(lambda r: r["state"] == "ready", 20 * SLOW)
        self.assertTrue(report["description"].startswith("micromanager: DemoCamera DStage `PX`"), report)
        self.assertEqual([(a["name"], a["min_nm"], a["max_nm"]) for a in report["axes"]],
                         [("PX", 0.0, 100_000.0), ("PY", 0.0, 100_000.0)])
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, err)
        daemon.wait_stopped()

    def test_without_pymmcore_it_says_what_to_do(self):
        child = self.start(pymmcore="raise ImportError(\"No module named 'pymmcore'\")\n")
        _, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)
        self.assertRegex(err, "^driftd.stages.micromanager: no Micro-Manager core: No module named "
                         "'pymmcore'. `pip install pymmcore`, in the Python that runs this "
                         f".{re.escape(sys.executable)}")
        self.assertEqual(len(err.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
