# SPDX-License-Identifier: MIT
"""A lock that the daemon's end interrupted: found again, gone back to, and never by a jump of the stage."""
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from judge import CONFIG, SLOW, Record

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import BIN, held_nm, protocol  # noqa: E402
from kill_in_lock import STEP_NM, commanded_steps, log_times, problem_of  # noqa: E402
from lock_rig import LockRig  # noqa: E402


class Resume(unittest.TestCase):
    def setUp(self):
        self.rig = LockRig(None, 500 / SLOW)
        self.addCleanup(self.rig.close)

    def start_locked(self, resume, driver=False, **environment):
        rig = self.rig
        rig.start_world(own_stage=not driver)
        self.file = rig.config(
            camera={"readout_us": 300, "frame_rate_hz": 500 / SLOW, "start_without_camera": "true"},
            stage=CONFIG["stage"], control=CONFIG["control"],
            lock={"resume": resume, "max_frame_age_ms": 20 * SLOW})
        rig.start_daemon(self.file, **environment)
        if driver:
            rig.start_driver()
            rig.wait_driver("ready")
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        self.record = Record(rig).collect(1.2 * SLOW)
        self.record.clear()
        self.place = self.record.collect(0.5 * SLOW).place_nm()
        self.record.clear()

    def end(self, sig):
        """The daemon is gone; so is the camera's lease, where it could say good-bye."""
        self.rig.daemon.child.send_signal(sig)
        self.rig.daemon.child.wait(30 * SLOW)
        self.assertEqual(problem_of(next((self.rig.folder / "state").glob("*.state"))), "")

    def driftctl(self, *arguments):
        done = subprocess.run([BIN / "driftctl", "--config", self.file, *arguments], capture_output=True,
                              text=True, timeout=30 * SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return " ".join(done.stdout.split())

    def assert_back(self, at_once=1):
        """At the place of before all, without a step above the limit since it was last asked.

        A busy simulator takes two or three corrections between two frames: of a long way, each is a whole
        step. The jump that this is about would be the way."""
        self.record.collect(0.7 * SLOW)
        self.assertLessEqual(max(commanded_steps(self.record.truth)), at_once * STEP_NM + 1e-3)
        self.record.clear()
        place = self.record.collect(0.5 * SLOW).place_nm()
        for axis in "xy":
            self.assertLess(abs(place[axis] - self.place[axis]), held_nm(3), self.rig.daemon.text())
        self.assertLessEqual(max(commanded_steps(self.record.truth)), STEP_NM + 1e-3)

    def test_killed_or_restarted_it_goes_back(self):
        self.start_locked("always")
        for sig in (signal.SIGKILL, signal.SIGTERM):
            self.end(sig)
            self.rig.start_daemon(self.file)
            self.rig.wait_state("locked")
            self.rig.daemon.wait_for("lock_resumed")
            text = self.rig.daemon.text()
            times = log_times(text)
            # On a machine that is not busy 0.2 s.
            self.assertLess(times["locked"] - times["camera_connected"], 2 * SLOW, text)
            self.assert_back()
            self.assertIsNone(self.rig.status()["interrupted"])

    def test_it_asks_and_goes_back_by_command_with_a_driver(self):
        self.start_locked("ask", driver=True)
        self.end(signal.SIGKILL)
        self.rig.start_daemon(self.file)
        status = self.rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None,
                                     "how far it moved")
        self.assertEqual(protocol.differences(protocol.examples()["interrupted"], status["interrupted"]), [])
        self.assertEqual(status["state"], "idle")
        self.assertIn("driftctl lock --resume", self.driftctl("status"))
        # What it says is what the truth says.
        self.record.update().clear()
        away = self.record.collect(0.3 * SLOW).place_nm()
        told = self.rig.status()["interrupted"]
        for axis in "xy":
            self.assertAlmostEqual(told[f"moved_{axis}_nm"], away[axis] - self.place[axis], delta=held_nm(6))
        self.assertIn("state:", self.driftctl("lock", "--resume"))
        self.rig.wait_state("locked")
        self.assert_back()
        # What is ended is not interrupted.
        self.driftctl("unlock")
        self.rig.wait_until(lambda _: not list((self.rig.folder / "state").glob("*.state")), "forgotten")
        self.assertEqual(self.rig.daemon.stop(), 0)
        self.rig.start_daemon(self.file)
        self.assertIsNone(self.rig.wait_markers()["interrupted"])

    def test_a_sample_that_moved_too_far_is_not_followed(self):
        self.start_locked("always")
        self.end(signal.SIGTERM)
        self.rig.fault("step", x_nm=700, y_nm=-300)  # lock.max_jump_nm is 100
        self.rig.start_daemon(self.file)
        self.rig.daemon.wait_for("does not go back by itself")
        commanded = commanded_steps(self.record.update().truth)[-1]
        self.record.clear()
        self.record.collect(1 * SLOW)
        self.assertEqual(max(commanded_steps(self.record.truth)), 0, commanded)
        self.assertEqual(self.rig.status()["state"], "idle")
        self.rig.client.lock(resume=True)  # the range reaches so far
        self.rig.wait_state("locked")
        self.assert_back(at_once=5)

    def test_without_a_place_for_the_state_it_is_told_once_and_the_lock_goes_on(self):
        (self.rig.folder / "in-the-way").write_text("")
        self.start_locked("always", STATE_DIRECTORY=str(self.rig.folder / "in-the-way"))
        time.sleep(2.5)
        self.assertEqual(self.rig.status()["state"], "locked")
        self.assertEqual(self.rig.daemon.text().count("state_not_written"), 1, self.rig.daemon.text())


if __name__ == "__main__":
    unittest.main()
