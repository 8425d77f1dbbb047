# SPDX-License-Identifier: MIT
"""Cameras below ten frames a second, and a camera that is away while the sample drifts far."""
import unittest

from judge import CONFIG, DEMO, Record, SLOW, changed, new_rig

RATE_HZ = 5
QUIET = changed(DEMO, ("    settling_nm: 200 ", "    settling_nm: 0 "),
                ("    settling_nm: -150\n", "    settling_nm: 0\n"))


class SlowCameras(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def locks(self, **camera):
        rig = self.rig
        rig.start_sim(QUIET, rate_hz=RATE_HZ)
        rig.start_daemon(rig.config(**{**CONFIG, "camera": {**CONFIG["camera"], **camera},
                                       "lock": {"reference_frames": 10}}))
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        record = Record(rig).collect(2 * SLOW)
        record.clear()
        record.collect(5 * SLOW)
        status = rig.status()
        if rig.is_virtual:
            self.assertEqual((status["state"], record.states), ("locked", []))
        self.assertIn(status["state"], ("locked", "holding"))  # a busy machine may hold just then
        self.assertEqual([e for e in record.states if e["state"] == "lost"], [])
        self.assertAlmostEqual(status["camera"]["rate_hz"], RATE_HZ, delta=0.2 * RATE_HZ)
        # 4 nm/s: 0.8 nm a frame, of which 0.3 is corrected at a time, and what vibrates meanwhile.
        self.assertLess(record.farthest_nm(record.place_nm()), rig.bound(3.5, 8))

    def test_free_running_at_its_own_rate(self):
        self.locks(frame_rate_hz=0)

    def test_at_a_rate_that_is_set(self):
        self.locks(frame_rate_hz=RATE_HZ, stall_timeout_ms=700)

    def test_with_a_hardware_trigger(self):
        self.locks(frame_rate_hz=0, trigger="hardware")

    def test_away_while_the_sample_drifts_farther_than_it_may_jump(self):
        # 40 s at 1.6 nm/s, ten times as fast.
        rig = self.rig
        scenario = changed(QUIET, ("    linear_nm_per_s: 4\n", "    linear_nm_per_s: 16\n"),
                           ("    linear_nm_per_s: -3\n", "    linear_nm_per_s: -11\n"))
        rig.start_locked(scenario, **{**CONFIG, "lock": {
            "max_jump_nm": 30, "max_drift_nm_per_s": 20, "hold_timeout_s": 30 * SLOW}})
        record = Record(rig).collect(1 * SLOW)
        place_nm = record.place_nm(from_ns=record.truth[-1]["time_ns"] - 5e8 * SLOW)
        rig.fault("vanish", seconds=4)
        rig.wait_state("holding")
        rig.wait_state("locked")
        record.collect(1 * SLOW)
        record.clear()
        back_nm = record.collect(1 * SLOW).place_nm()
        for axis in "xy":
            self.assertLess(abs(back_nm[axis] - place_nm[axis]), rig.bound(0.5, 5))
        rig.wait_state("locked")


if __name__ == "__main__":
    unittest.main()
