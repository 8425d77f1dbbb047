# SPDX-License-Identifier: MIT
"""A lock that the daemon's end interrupted: found again, gone back to, and never by a jump of the stage."""
import unittest

from judge import CONFIG, FRAME_STEP_NM, SLOW, Record
from harness import BIN, held_nm, new_rig, protocol
from kill_in_lock import STEP_NM, commanded_steps, log_times, problem_of


class Resume(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start_locked(self, resume, lock=None, **environment):
        rig = self.rig
        rig.start_sim()
        self.file = rig.config(
            camera={"readout_us": 300, "frame_rate_hz": 500 / SLOW, "start_without_camera": "true"},
            stage=CONFIG["stage"], control=CONFIG["control"],
            lock={"resume": resume, "max_frame_age_ms": 20 * SLOW, **(lock or {})})
        rig.start_daemon(self.file, **environment)
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        self.record = Record(rig).collect(1.2 * SLOW)
        self.record.clear()
        self.place = self.record.collect(0.5 * SLOW).place_nm()
        self.record.clear()

    def assert_kept(self):
        self.assertEqual(problem_of(next((self.rig.folder / "state").glob("*.state"))), "")

    def driftctl(self, *arguments):
        done = self.rig.run_program([BIN / "driftctl", "--config", self.file, *arguments])
        self.assertEqual(done.returncode, 0, done.stderr)
        return " ".join(done.stdout.split())

    def assert_back(self, at_once=1):
        """At the place of before all, without a step above the limit since it was last asked.

        In real time a busy simulator takes `at_once` corrections between two frames: of a long way, each is a
        whole step. The jump that this is about would be the way."""
        step_nm = self.rig.bound(FRAME_STEP_NM, STEP_NM) + 1e-3
        self.record.collect(0.7 * SLOW)
        self.assertLessEqual(max(commanded_steps(self.record.truth)), self.rig.bound(1, at_once) * step_nm)
        self.record.clear()
        place = self.record.collect(0.5 * SLOW).place_nm()
        for axis in "xy":
            self.assertLess(abs(place[axis] - self.place[axis]), self.rig.bound(0.3, held_nm(3)),
                            self.rig.daemon.text())
        self.assertLessEqual(max(commanded_steps(self.record.truth)), step_nm)

    def test_killed_or_restarted_it_goes_back(self):
        self.start_locked("always")
        for kill in (True, False):
            self.rig.daemon.kill() if kill else self.rig.daemon.stop()
            self.assert_kept()
            begin_ns = self.rig.now_ns()
            self.rig.start_daemon(self.file)
            self.rig.wait_state("locked")
            self.rig.daemon.wait_for("lock_resumed")
            text = self.rig.daemon.text()
            if self.rig.is_virtual:
                self.assertLess(self.rig.now_ns() - begin_ns, 0.3e9, text)
            else:
                times = log_times(text)
                self.assertLess(times["locked"] - times["camera_connected"], 2 * SLOW, text)
            self.assert_back()
            self.assertIsNone(self.rig.status()["interrupted"])

    def test_it_asks_and_goes_back_by_command(self):
        self.start_locked("ask")
        self.rig.daemon.kill()
        self.assert_kept()
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

    def test_a_lost_lock_is_gone_back_to_like_an_interrupted_one(self):
        rig = self.rig
        self.start_locked("ask", lock={"hold_timeout_s": 1.5 * SLOW})
        self.driftctl("move", "60", "-30", "--wait")  # where it was moved to is where it was held
        self.record.update().clear()
        self.place = self.record.collect(0.3 * SLOW).place_nm()
        for number in (1, 2):  # the second was resumed before
            rig.fault("hide_markers", seconds=2.5 * SLOW)
            rig.wait_state("lost")
            rig.fault("step", x_nm=70, y_nm=-50)
            status = rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None, "markers")
            told = status["interrupted"]
            self.assertEqual(protocol.differences(protocol.examples()["interrupted"], told), [])
            self.assertEqual((status["state"], told["interrupted_lock_id"]), ("lost", number))
            self.assertIn("lost", told["text"])
            self.assertIn("driftctl lock --resume", self.driftctl("status"))
            self.record.update().clear()
            away = self.record.collect(0.3 * SLOW).place_nm()
            told = rig.status()["interrupted"]
            for axis in "xy":
                self.assertAlmostEqual(told[f"moved_{axis}_nm"], away[axis] - self.place[axis], delta=held_nm(6))
            self.record.clear()
            self.driftctl("lock", "--resume")
            rig.wait_state("locked")
            self.assert_back()
            self.assertIsNone(rig.status()["interrupted"])
        # Lost, and then the daemon's end: offered by the next one as before.
        rig.fault("hide_markers", seconds=2.5 * SLOW)
        rig.wait_state("lost")
        rig.daemon.stop()
        self.assert_kept()
        rig.start_daemon(self.file)
        rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None, "markers")
        self.driftctl("lock", "--resume")
        rig.wait_state("locked")
        self.assert_back()

    def test_a_sample_that_moved_too_far_is_not_followed(self):
        self.start_locked("always")
        self.rig.daemon.stop()
        self.assert_kept()
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
        self.rig.sleep(2.5)
        self.rig.daemon.wait_for("state_not_written")
        self.assertEqual(self.rig.status()["state"], "locked")
        self.assertEqual(self.rig.daemon.text().count("state_not_written"), 1, self.rig.daemon.text())


if __name__ == "__main__":
    unittest.main()
