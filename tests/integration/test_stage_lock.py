# SPDX-License-Identifier: MIT
"""The whole chain with driftd-stage in it: simulator, daemon, driver, simulated stage."""
import subprocess
import time
import unittest

import harness
from harness import BIN, SLOW, SOURCE


class StageLock(unittest.TestCase):
    def setUp(self):
        help_text = subprocess.run([BIN / "driftd-sim", "--help"], capture_output=True, text=True).stdout
        if "--stage-input" not in help_text:
            self.skipTest("SKIPPED: driftd-sim has no --stage-input")
        self.rig = harness.CalmRig()
        self.addCleanup(self.rig.close)

    def start_sim_and_daemon(self, rate_hz):
        rig = self.rig
        rig.sim = rig.enter_context(harness.Process("sim", [
            BIN / "driftd-sim", "--scenario", SOURCE / "config/examples/scenario-demo.yaml",
            "--address", rig.address, "--stage-input", rig.folder / "input",
            "--truth", rig.truth_endpoint, "--control", rig.control_endpoint,
            "--rate", str(rate_hz / SLOW)], rig.folder))
        rig.sim.wait_for("driftd-sim ready")
        rig.start_daemon(rig.config(camera={"frame_rate_hz": rate_hz / SLOW},
                                    stage={"require_driver": "true"}))
        rig.wait_markers()

    def start_stage(self) -> harness.Process:
        rig = self.rig
        file = rig.folder / "stage.yaml"
        file.write_text(f"controller: {{driver: simulator, device: {rig.folder}/input}}\n"
                        "x: {axis: x}\ny: {axis: 'y'}\nrealtime: {mode: 'off'}\n"
                        f"daemon: {{corrections: '{rig.corrections}', commands: '{rig.commands}'}}\n")
        process = rig.enter_context(harness.Process(
            f"stage{time.monotonic_ns()}", [BIN / "driftd-stage", "--config", file], rig.folder))
        process.wait_for("driftd-stage ready")
        return process

    def test_a_lock_lives_through_a_restart_of_its_driver(self):
        """How still it is held, the case below shows."""
        self.lives_through_a_restart(rate_hz=100)

    def test_a_still_lock_lives_through_a_restart_of_its_driver(self):  # tier: full
        self.lives_through_a_restart(rate_hz=200, still_nm=1)

    def lives_through_a_restart(self, rate_hz, still_nm=None):
        rig = self.rig
        self.start_sim_and_daemon(rate_hz)
        with self.assertRaises(harness.driftd.DriftdError):
            rig.client.lock()  # stage.require_driver
        stage = self.start_stage()
        rig.wait_until(lambda s: (s["stage_driver"] or {}).get("state") == "ready", "a driver")
        rig.client.lock()
        rig.wait_state("locked")
        if still_nm:
            rig.wait_still(still_nm)
        rig.wait_until(lambda s: s["state"] == "locked" and s["stage_driver"]["carried_out"] > 100, "moves")
        with rig.truth() as truth:
            self.assertEqual(stage.stop(), 0)
            rig.wait_until(lambda s: s["state"] == "holding" and
                           s["stage_driver"]["state"] == "stopped", "held without a driver")
            self.start_stage()
            rig.wait_state("locked")
            time.sleep(1)
            places = [(t["commanded_x_nm"], t["commanded_y_nm"]) for t in truth.drain()]
        for before, after in zip(places, places[1:]):
            for a, b in zip(before, after):
                self.assertLess(abs(a - b), 100)  # the default step_limit_nm
        if still_nm:
            rig.wait_still(still_nm)


if __name__ == "__main__":
    unittest.main()
