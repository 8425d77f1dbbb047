# SPDX-License-Identifier: MIT
"""Calibrating a stage of which the configuration knows nothing, and what a stage's driver tells."""
from __future__ import annotations

import json
import math
import unittest

from harness import BIN, SLOW, driftd, new_rig

# The world: a stage turned by 130 degrees against the camera, mirrored, that moves 1.3 times as far
# as the image's pixel size says, over a sample that drifts and vibrates.
ANGLE = math.radians(130)
SCALE = 1 / 1.3
MATRIX = [[SCALE * math.cos(ANGLE), SCALE * math.sin(ANGLE)],
          [SCALE * math.sin(ANGLE), -SCALE * math.cos(ANGLE)]]
DELAY_MS = 4.0
READOUT_US = 1000  # camera.readout_us, as the daemon has it when nobody tells it
# A frame comes sooner after its exposure than that, how much sooner is the machine's; a command comes late on a busy
# one. Both look like dead time of the stage.
DEAD_US = 1000 * DELAY_MS - READOUT_US, 1000 * DELAY_MS + 1500
# In virtual time (tests/virtual/lab.cpp) the one takes 0.3 ms and the other 0.2.
VIRTUAL_DEAD_US = 1000 * DELAY_MS - READOUT_US + 300 + 200
WORLD = f"""
seed: 5
markers:
  count: 14
  photons: 40000
disturbance:
  x:
    linear_nm_per_s: 3
    random_walk_nm_per_sqrt_s: 1
    sines:
      - {{amplitude_nm: 0.5, frequency_hz: 27}}
  y:
    linear_nm_per_s: -2
    random_walk_nm_per_sqrt_s: 1
stage:
  image_to_stage: {json.dumps(MATRIX[0] + MATRIX[1])}
  frequency_hz: 120
  damping: 0.7
  delay_ms: {DELAY_MS}
"""
IGNORANT = {"stage": {"image_to_stage": "[[1, 0], [0, 1]]", "delay_us": 1000,
                      "time_constant_us": 500},
            "lock": {"max_frame_age_ms": 200 * SLOW}}


class Calibrate(unittest.TestCase):
    def setUp(self):
        self.rig = self.enterContext(new_rig())

    def start(self, **sections) -> None:
        self.rig.start_sim(WORLD)
        self.rig.start_daemon(self.rig.config(**{**IGNORANT, **sections}))
        self.rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "measured")

    def begin(self, **fields) -> dict:
        return self.rig.client.request("calibrate", **fields)[0]

    def calibration(self) -> dict:
        return self.rig.client.request("calibration")[0]

    def wait_over(self, timeout_s: float = 40 * SLOW) -> dict:
        end_ns = self.rig.now_ns() + 1e9 * timeout_s
        while (now := self.calibration())["phase"] in ("quiet", "moving", "returning", "fitting"):
            self.assertLess(self.rig.now_ns(), end_ns, now)
            self.rig.sleep(0.05)
        return now

    def wait_phase(self, phase: str) -> None:
        end_ns = self.rig.now_ns() + 20e9 * SLOW
        while (now := self.calibration())["phase"] != phase:
            self.assertLess(self.rig.now_ns(), end_ns, now)
            self.rig.sleep(0.02)

    def stage_nm(self) -> tuple[float, float]:
        """Where the simulated stage really is."""
        seen = self.rig.truth().collect(0.2 * SLOW)
        return tuple(sum(t[f"stage_{axis}_nm"] for t in seen) / len(seen) for axis in "xy")

    def test_a_stage_that_the_configuration_knows_nothing_of_is_found_and_then_locked(self):
        rig = self.rig
        self.start()
        before = self.stage_nm()
        self.assertEqual(self.calibration()["phase"], "none")
        written = rig.folder / "driftd.yaml.d/stage-calibration.yaml"
        done = rig.run_program([BIN / "driftctl", "--config", rig.folder / "driftd.yaml", "--timeout", "30", "--json",
                                "calibrate", "--write", "--yes", "--seconds", "15"], answer_s=0.5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"Written to {written}.\n", done.stderr)
        over = json.loads(done.stdout)
        self.assertEqual(over["run"], 1)
        after = self.stage_nm()
        self.assertLess(math.dist(before, after), rig.bound(0.5, 5))
        result = over["result"]
        for i in range(2):
            for j in range(2):
                self.assertAlmostEqual(result["image_to_stage"][i][j], MATRIX[i][j],
                                       delta=0.01 * SCALE)
        self.assertTrue(result["mirrored"])
        self.assert_dead_time(result["delay_us"])
        self.assertLess(result["proposal"]["residual_nm"], rig.bound(1, 5))
        self.assertEqual(result["markers"][0]["id"], 1)

        # What was written is in force after a reload, and holds the sample.
        main = (rig.folder / "driftd.yaml").read_text()
        self.hold()
        self.assertEqual((rig.folder / "driftd.yaml").read_text(), main)
        self.assertIn("  image_to_stage: [[", written.read_text())

    def assert_dead_time(self, dead_us: float) -> None:
        self.assertGreater(dead_us, self.rig.bound(VIRTUAL_DEAD_US - 150, DEAD_US[0]))
        self.assertLess(dead_us, self.rig.bound(VIRTUAL_DEAD_US + 150, DEAD_US[1]))

    def hold_as_proposed(self, result: dict, **sections) -> None:
        """What is proposed is taken over while idle, by a reload, and holds the sample."""
        stage = result["proposal"]["stage"]
        self.rig.config(**{**IGNORANT, **sections, "stage": {
            "image_to_stage": json.dumps(stage["image_to_stage"]), "delay_us": stage["delay_us"],
            "time_constant_us": stage["time_constant_us"], "resonance_hz": stage["resonance_hz"],
            "damping": stage["damping"]}})
        self.hold()

    def hold(self) -> None:
        rig = self.rig
        rig.daemon.reload()
        rig.client.lock()
        rig.wait_state("locked")
        rig.wait_still(1.5)
        self.assertEqual(rig.status()["stage"], "following")

    def test_a_readout_that_is_told_wrong_is_found_as_dead_time_and_the_lock_is_as_good(self):
        # As if frames were taken so much earlier than they are: then the stage moves earlier, too.
        too_long_us = 2500
        self.start(camera={"readout_us": READOUT_US + too_long_us})
        self.begin(seconds=15)
        over = self.wait_over()
        self.assertEqual(over["phase"], "done", over)
        self.assert_dead_time(over["result"]["delay_us"] + too_long_us)
        self.hold_as_proposed(over["result"], camera={"readout_us": READOUT_US + too_long_us})

    def test_a_computer_that_has_no_time_to_send_finds_the_same_stage(self):
        if not self.rig.is_virtual:
            self.skipTest("SKIPPED: nothing holds up one thread alone but in virtual time")
        self.start()
        self.begin(seconds=15)
        self.wait_phase("moving")
        for _ in range(60):
            self.rig.sleep(0.15)
            self.rig.hold_corrections(0.05)
        over = self.wait_over()
        self.assertEqual(over["phase"], "done", over)
        result = over["result"]
        for i in range(2):
            for j in range(2):
                self.assertAlmostEqual(result["image_to_stage"][i][j], MATRIX[i][j], delta=0.01 * SCALE)
        self.assert_dead_time(result["delay_us"])

    def test_it_is_refused_where_it_cannot_be(self):
        self.start()
        for fields, text in (({"excursion_nm": 1}, "from 5 to 10000"),
                             ({"excursion_nm": "far"}, "excursion_nm"),
                             ({"seconds": 4}, "from 5 to 300"),
                             ({"excursion_nm": 6000}, "range_limit_nm"),
                             ({"stop": True}, "no calibration"),
                             ({"stop": 1}, "true or false"),
                             ({"angle": 3}, "unknown field")):
            with self.assertRaises(driftd.DriftdError) as refused:
                self.begin(**fields)
            self.assertIn(text, str(refused.exception))
        self.begin(seconds=5)
        with self.assertRaises(driftd.DriftdError) as refused:
            self.begin()
        self.assertEqual(refused.exception.code, "busy")
        for command, said in (("lock", "is being calibrated"), ("reset", "is `calibrating`")):
            with self.assertRaises(driftd.DriftdError) as refused:
                self.rig.client.request(command)
            self.assertIn(said, str(refused.exception))
        self.rig.client.unlock()
        self.rig.client.lock()
        with self.assertRaises(driftd.DriftdError) as refused:
            self.begin()
        self.assertEqual(refused.exception.code, "refused")

    def test_stopped_the_stage_is_back_and_unlocked_it_stays(self):
        self.start()
        before = self.stage_nm()
        begun = self.begin(seconds=20)
        self.assertEqual((begun["run"], begun["excursion_nm"], begun["seconds"]), (1, 100, 20))
        self.assertEqual(self.rig.status()["state"], "calibrating")
        self.wait_phase("moving")
        self.rig.sleep(4 * SLOW)
        self.begin(stop=True)
        over = self.wait_over()
        self.assertEqual(over["phase"], "stopped")
        self.assertIn("back at its start", over["text"])
        self.assertLess(math.dist(before, self.stage_nm()), self.rig.bound(0.2, 2))

        self.begin(seconds=20)
        self.wait_phase("moving")
        self.rig.sleep(4 * SLOW)
        self.rig.client.unlock()
        there = self.stage_nm()
        self.assertEqual(self.wait_over()["phase"], "stopped")
        self.assertEqual(self.rig.status()["state"], "idle")
        self.rig.sleep(1 * SLOW)
        self.assertLess(math.dist(there, self.stage_nm()), self.rig.bound(0.3, 1))

    def test_without_markers_the_stage_goes_back_and_the_reason_is_told(self):
        self.start()
        before = self.stage_nm()
        self.begin(seconds=20)
        self.wait_phase("moving")
        self.rig.sleep(3 * SLOW)
        self.rig.fault("hide_markers", seconds=3)
        over = self.wait_over()
        self.assertEqual(over["phase"], "failed")
        self.assertIn("markers", over["text"])
        self.assertLess(math.dist(before, self.stage_nm()), self.rig.bound(0.2, 2))

    def test_a_dead_stage_is_refused_by_its_name(self):
        self.start()
        self.rig.fault("stage_dead")
        self.begin(seconds=8)
        over = self.wait_over()
        self.assertEqual(over["phase"], "refused", over)
        self.assertIn("did not move", over["text"].lower().replace("does not move", "did not move"))
        self.assertIsNone(over["result"])


class StageDriver(unittest.TestCase):
    """Reports of a driver that is played here; the simulator's own stage moves by corrections."""

    def setUp(self):
        self.rig = self.enterContext(new_rig())

    def report(self, instance: str = "0123456789abcdef", **fields) -> dict:
        return self.rig.client.request("stage", instance=instance, driver="test",
                                       **{"state": "ready", **fields})[0]

    def report_for(self, seconds: float, **fields) -> None:
        end_ns = self.rig.now_ns() + 1e9 * seconds
        while self.rig.now_ns() < end_ns:
            self.report(**fields)
            self.rig.sleep(0.05)

    def test_a_lock_without_a_driver_is_warned_of_or_refused(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config())
        rig.wait_markers()
        reply = rig.client.request("lock")[0]
        self.assertIn("no driver has reported", reply["warning"])
        rig.client.unlock()
        rig.config(stage={"require_driver": "true"})
        rig.daemon.reload()
        with self.assertRaises(driftd.DriftdError) as refused:
            rig.client.lock()
        self.assertIn("no driver has reported", str(refused.exception))
        self.report(state="servo_off", text="axis 1")
        with self.assertRaises(driftd.DriftdError) as refused:
            rig.client.lock()
        self.assertIn("servo off: axis 1", str(refused.exception))
        self.report()
        self.assertNotIn("warning", rig.client.request("lock")[0])

    def test_a_lock_is_held_while_the_driver_says_that_the_stage_does_not_obey(self):
        rig = self.rig
        rig.start_locked()
        self.report_for(0.3)
        self.assertEqual(rig.status()["state"], "locked")
        for state, reason in (("error", "stage_error"), ("limit", "stage_limit"),
                              ("disconnected", "stage_error"), ("stopped", "stage_silent")):
            self.report(state=state, text="so it is")
            held = rig.wait_holding(reason)
            self.assertEqual(held["stage_driver"]["state"], state)
            self.report_for(0.3, state=state, text="so it is")
            self.assertEqual(rig.status()["state"], "holding")
            self.report_for(0.5 * SLOW)
            rig.wait_state("locked")
        rig.wait_holding("stage_silent")  # nothing more is reported
        self.assertEqual(rig.status()["stage_driver"]["state"], "silent")
        self.report_for(0.5 * SLOW)
        rig.wait_state("locked")
        with self.assertRaises(driftd.DriftdError) as refused:
            self.report("fedcba9876543210")
        self.assertEqual(refused.exception.code, "busy")


if __name__ == "__main__":
    unittest.main()
