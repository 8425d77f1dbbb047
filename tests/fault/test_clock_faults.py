# SPDX-License-Identifier: MIT
"""A camera whose clock is wrong: the lock goes on, and it is said."""
import re
import unittest

from judge import CONFIG, DEMO, Record, SLOW, changed, drain, new_rig


class ClockFaults(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def trusted(self, status):
        return status["camera"]["clock"]["trust"] == "trusted"

    def start_locked(self, scenario=None):
        self.rig.start_locked(scenario, **CONFIG)
        return Record(self.rig)

    def start_locked_with(self, line):
        """On a camera whose scenario has this line."""
        return self.start_locked(changed(
            DEMO, ("  read_noise_e: 3\n", f"  read_noise_e: 3\n  {line}\n")))

    def assert_locked(self, record):
        """Locked over the next seconds, and the sample held still."""
        record.collect(1 * SLOW)
        record.clear()
        self.rig.wait_still(1.5)
        self.rig.wait_state("locked")
        record.update()

    def step(self, shift_s):
        rig = self.rig
        record = self.start_locked()
        rig.wait_until(self.trusted, "a trusted clock")
        corrections = rig.subscribe("correction")
        corrections.receive(5 * SLOW)
        stale = rig.status()["loop"]["stale"]
        rig.fault("clock_step", shift_s=shift_s)
        # Followed; or, where a busy machine withholds frames just then, left unused until it is steady.
        rig.wait_until(lambda s: self.trusted(s) and (s["camera"]["clock"]["steps"] == 1 or
                                                      "like real time again" in rig.daemon.text()),
                       "followed")
        self.assert_locked(record)
        # Corrections went on, but for a second at most.
        sent = [c["sent_ns"] for _, c in drain(corrections, 0.1)]
        self.assertLess(max(b - a for a, b in zip(sent, sent[1:])), rig.bound(0.02e9, 1e9 * SLOW))
        status = rig.status()
        self.assertLess(status["loop"]["stale"] - stale, rig.bound(5, 500))  # a second's; once: 80 minutes'
        self.assertIn(status["camera"]["clock"]["steps"], (1,) if rig.is_virtual else (0, 1))
        self.assertIn("camera_clock", rig.daemon.text())

    def test_a_second_back(self):
        self.step(-1)

    def test_a_second_ahead(self):
        self.step(1)

    def test_a_jump_for_one_frame(self):
        rig = self.rig
        record = self.start_locked()
        rig.wait_until(self.trusted, "a trusted clock")
        stale = rig.status()["loop"]["stale"]
        end_ns = rig.now_ns() + 10e9 * SLOW
        for shift_s in (1, -1):
            jumps = rig.status()["camera"]["clock"]["jumps"]
            # A busy machine may lose just that frame.
            while rig.status()["camera"]["clock"]["jumps"] == jumps:
                self.assertLess(rig.now_ns(), end_ns)
                rig.fault("clock_jump", shift_s=shift_s)
                record.collect(0.2 * SLOW)
        self.assert_locked(record)
        status = rig.status()
        self.assertEqual(status["camera"]["clock"]["steps"], 0)
        self.assertLess(status["loop"]["stale"] - stale, rig.bound(5, 500))

    def test_250_ppm_fast_and_slow(self):
        for factor in (1.00025, 0.99975):
            with self.subTest(factor=factor), new_rig() as rig:
                self.rig = rig
                record = self.start_locked_with(f"clock_rate: {factor}")
                rig.wait_until(self.trusted, "a trusted clock")
                self.assert_locked(record)
                rig.wait_until(self.trusted, "a trusted clock")
                clock = rig.status()["camera"]["clock"]
                self.assertEqual((clock["steps"], clock["jumps"]), (0, 0))

    def test_ticks_of_another_length(self):
        for factor in (0.125, 8):
            with self.subTest(factor=factor), new_rig() as rig:
                self.rig = rig
                record = self.start_locked_with(f"clock_rate: {factor}")
                rig.wait_until(lambda s: s["camera"]["clock"]["trust"] == "unusable", "unusable")
                self.assert_locked(record)

    def assert_found_slow(self, record, factor):
        """The daemon asks the camera, says so, and goes on locked."""
        rig = self.rig
        rig.wait_until(lambda s: s["camera"]["clock"]["trust"] == "unusable", "unusable")
        rig.daemon.wait_for("% slow")  # said by another thread than the one that answers
        said = re.search(r"it is ([\d.]+) % slow", rig.daemon.text())
        # A busy machine leaves some doubt.
        self.assertAlmostEqual(float(said.group(1)) / 100 / (1 - factor), 1, delta=rig.bound(0.05, 0.5))
        rig.wait_state("locked")
        self.assertEqual(record.update().state_ns("lost"), [])
        self.assert_locked(record)

    def test_slow_from_the_start(self):
        for factor in (0.98, 0.998):
            with self.subTest(factor=factor), new_rig() as rig:
                self.rig = rig
                record = self.start_locked_with(f"clock_rate: {factor}")
                self.assert_found_slow(record, factor)

    def test_slow_from_some_time_on(self):
        rig = self.rig
        record = self.start_locked()
        rig.wait_until(self.trusted, "a trusted clock")
        rig.fault("clock_rate", factor=0.98)
        self.assert_found_slow(record, 0.98)

    def test_no_clock(self):
        record = self.start_locked_with("clock_absent: true")
        self.assertEqual(self.rig.status()["camera"]["clock"]["trust"], "absent")
        self.assert_locked(record)

    def test_a_clock_that_stops_and_goes_on(self):
        rig = self.rig
        record = self.start_locked()
        rig.wait_until(self.trusted, "a trusted clock")
        rig.fault("clock_rate", factor=0)
        rig.wait_until(lambda s: s["camera"]["clock"]["trust"] == "unusable", "unusable")
        self.assert_locked(record)
        rig.fault("clock_rate", factor=1)
        rig.wait_until(self.trusted, "a trusted clock")
        self.assert_locked(record)


if __name__ == "__main__":
    unittest.main()
