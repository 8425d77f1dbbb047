# SPDX-License-Identifier: MIT
"""A daemon that is really killed (SIGKILL), before a stage that driftd-stage moves: what lay on the disk brings the
sample back. In real time only; what may fail is told with ample room, since test_resume.py judges by nanometres."""
import unittest

from judge import CONFIG, SLOW, Record
from kill_in_lock import STEP_NM, commanded_steps, problem_of
from lock_rig import LockRig

NEAR_NM = 30  #: the sample was 760 nm away


class Killed(unittest.TestCase):  # tier: full
    def setUp(self):
        self.rig = LockRig(None, 500 / SLOW)
        self.addCleanup(self.rig.close)

    def place_nm(self, seconds: float) -> dict[str, float]:
        self.record.update().clear()
        return self.record.collect(seconds * SLOW).place_nm()

    def test_killed_with_a_driver_it_asks_and_goes_back_by_command(self):
        rig = self.rig
        rig.start_world()
        file = rig.config(camera={"readout_us": 300, "frame_rate_hz": 500 / SLOW, "start_without_camera": "true"},
                          stage=CONFIG["stage"], control=CONFIG["control"],
                          lock={"resume": "ask", "max_frame_age_ms": 20 * SLOW})
        rig.start_daemon(file)
        rig.start_driver()
        rig.wait_driver("ready")
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        self.record = Record(rig)
        rig.sleep(1.2 * SLOW)
        before = self.place_nm(0.5)
        rig.daemon.kill()
        self.assertEqual(problem_of(next((rig.folder / "state").glob("*.state"))), "")
        rig.fault("step", x_nm=700, y_nm=-300)
        rig.start_daemon(file)
        rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None, "how far it moved")
        rig.wait_driver("ready")
        away = self.place_nm(0.3)
        told = rig.status()["interrupted"]
        for axis in "xy":
            self.assertAlmostEqual(told[f"moved_{axis}_nm"], away[axis] - before[axis], delta=NEAR_NM)
        self.record.clear()
        rig.client.lock(resume=True)
        rig.wait_state("locked")
        end_ns = rig.now_ns() + 20e9 * SLOW
        steps = []
        while True:
            self.record.collect(0.5 * SLOW)
            steps += commanded_steps(self.record.truth)
            place = self.record.place_nm(self.record.truth[-1]["time_ns"] - 0.2e9)
            if max(abs(place[axis] - before[axis]) for axis in "xy") < NEAR_NM:
                break
            self.assertLess(rig.now_ns(), end_ns, f"{place} for {before}\n{rig.said()}")
            self.record.clear()
        # Between two frames a busy simulator takes more than one correction; the jump would be the way.
        self.assertLess(max(steps), 10 * STEP_NM)


if __name__ == "__main__":
    unittest.main()
