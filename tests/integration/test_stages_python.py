# SPDX-License-Identifier: MIT
"""A driver in Python, which starts driftd-stage, between the daemon and the simulator's stage, judged by the truth."""
import signal
import subprocess
import sys
import threading
import time
import unittest

from harness import BIN, SLOW, SOURCE, CalmRig, Process, Rig

from simulated_stage import SimulatedStage

STEP_LIMIT_NM = 20  # the daemon's and the driver's
WITHOUT = "--stage-input" not in subprocess.run([BIN / "driftd-sim", "--help"], capture_output=True,
                                                text=True).stdout


class Commanded(threading.Thread):
    """Where the stage is sent, asked a thousand times a second."""

    def __init__(self, path):
        super().__init__()
        self._stage = SimulatedStage(path)
        self._stage.connect()
        self._over = threading.Event()
        self.targets = []
        self.start()

    def run(self):
        while not self._over.wait(0.001):
            self._stage._socket.send(b"read")
            target = tuple(self._stage.parse(self._stage._socket.recv(256))[2:])
            if not self.targets or self.targets[-1] != target:
                self.targets.append(target)

    def stop(self):
        self._over.set()
        self.join()
        self._stage.close()

    def largest_step_nm(self):
        return max(max(abs(a - b) for a, b in zip(*pair)) for pair in zip(self.targets, self.targets[1:]))


@unittest.skipIf(WITHOUT, "SKIPPED: this driftd-sim has no --stage-input")
class PythonDriver(unittest.TestCase):
    def start(self, rig: Rig, rate_hz: float) -> None:
        self.rig = rig
        self.addCleanup(rig.close)
        self.path = str(rig.folder / "stage")
        rig.sim = rig.enter_context(Process(
            "sim", [BIN / "driftd-sim", "--scenario", SOURCE / "config/examples/scenario-demo.yaml",
                    "--address", rig.address, "--stage-input", self.path, "--truth", rig.truth_endpoint,
                    "--control", rig.control_endpoint, "--rate", str(rate_hz / SLOW)], rig.folder))
        rig.sim.wait_for("driftd-sim ready")
        rig.start_daemon(rig.config(control={"step_limit_nm": STEP_LIMIT_NM}))
        self.start_driver()
        rig.wait_markers()

    def start_driver(self):
        self.driver = self.rig.enter_context(Process(
            "driver", [sys.executable, "-B", SOURCE / "tests/support/simulated_stage.py", self.path,
                       "--corrections", self.rig.corrections, "--commands", self.rig.commands,
                       "--step-limit-nm", str(STEP_LIMIT_NM)],
            self.rig.folder, PYTHONPATH=str(SOURCE / "clients/python"), DRIFTD_STAGE=str(BIN / "driftd-stage")))
        self.driver.wait_for("connected to")

    def lock(self):
        self.rig.client.lock()
        self.rig.wait_state("locked")

    def test_carries_a_lock_out(self):
        """How still it is held, the cases of the full tier show."""
        self.start(CalmRig(), 100)
        self.lock()
        self.rig.wait_until(lambda s: s["state"] == "locked" and s["stage_driver"]["carried_out"] > 100, "moves")
        self.assertEqual(self.driver.stop(), 0)

    def test_a_driver_that_dies_starts_again_where_it_was(self):
        self.start(CalmRig(), 100)
        self.lock()
        commanded = Commanded(self.path)
        self.addCleanup(commanded.stop)
        self.wait_corrections(100)
        self.driver.stop(signal.SIGKILL)
        self.start_driver()
        self.rig.wait_state("locked")
        self.wait_corrections(100)
        self.assertGreater(len(commanded.targets), 20)
        # Some steps may come between two looks on a busy machine.
        self.assertLessEqual(commanded.largest_step_nm(), 5 * STEP_LIMIT_NM)

    def wait_corrections(self, count: int) -> None:
        sent = self.rig.status()["loop"]["corrections"]
        self.rig.wait_until(lambda s: s["loop"]["corrections"] > sent + count / SLOW, "corrections")

    def test_holds_the_sample_still(self):  # tier: full
        self.start(Rig(), 500)
        self.lock()
        time.sleep(1.5 * SLOW)
        self.rig.wait_still(1.5)  # the scenario's own floor is 0.6 nm; unlocked it is 80 nm
        self.assertEqual(self.driver.stop(), 0)

    def test_a_driver_that_dies_stands_still_or_starts_again_never_jumps(self):  # tier: full
        self.start(Rig(), 500)
        self.lock()
        commanded = Commanded(self.path)
        self.addCleanup(commanded.stop)
        time.sleep(1.0 * SLOW)
        for _ in range(2):
            self.driver.stop(signal.SIGKILL)
            time.sleep(0.5)
            self.start_driver()
            self.rig.wait_state("locked")
            time.sleep(0.5)
        self.driver.child.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        self.driver.child.send_signal(signal.SIGCONT)
        self.rig.wait_state("locked")
        self.rig.client.unlock()
        self.lock()  # another zero
        self.rig.wait_still(1.5)
        self.assertGreater(len(commanded.targets), 200 / SLOW)
        # Two steps may come between two looks on a busy machine.
        self.assertLessEqual(commanded.largest_step_nm(), 2 * STEP_LIMIT_NM)


if __name__ == "__main__":
    unittest.main()
