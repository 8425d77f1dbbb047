# SPDX-License-Identifier: MIT
"""The whole chain over every emulated controller: it locks as still as with the simulator's own stage, and
each fault holds the lock for its reason, moves nothing by more than a step, and ends as docs/measured/faults.md says.
All of it takes four minutes; `Wiring` shows quickly that the programs find each other, on any machine."""
from __future__ import annotations

import signal
import subprocess
import time
import unittest

from harness import BIN, SLOW
from lock_rig import CONTROLLERS, LIBRARY, SCENARIO, VENDOR, LockRig

RATE_HZ = 200 / SLOW
STEP_NM = 40  #: driftd-stage's step_limit_nm; driftd's own is 20, and two of its steps may come at once
STILL_NM = 1.5  #: rms; not held, the sample moves by 10 nm and more in such a time
# A machine that delays frames, corrections or the emulator may hold the lock just before; and a stage that
# stopped, or went elsewhere, may be seen to before its driver has said so.
FIRST = ("stage_not_following", "implausible_jump", "stale_frame", "no_frames")


class ControllerTest(unittest.TestCase):
    def start(self, name: str, *emulator, drift_nm_per_s: float | None = None, wait_locked: bool = True,
              rate_hz: float = RATE_HZ, **sections) -> LockRig:
        """Locked through a controller. `drift_nm_per_s`: of the image's x, in place of the scenario's."""
        controller = CONTROLLERS[name]
        self.rig = rig = LockRig(controller, rate_hz)
        self.addCleanup(rig.close)
        scenario = SCENARIO
        if drift_nm_per_s is not None:
            text = SCENARIO.read_text()
            self.assertEqual(text.count("linear_nm_per_s: 4\n"), 1)
            scenario = rig.folder / "scenario.yaml"
            scenario.write_text(text.replace("linear_nm_per_s: 4\n", f"linear_nm_per_s: {drift_nm_per_s}\n"))
        rig.start_world(scenario)
        rig.start_emulator(*emulator)
        self.sections = {"lock": {"max_frame_age_ms": 100 * SLOW, "reference_frames": 100,
                                  "hold_timeout_s": 40 * SLOW, **sections.pop("lock", {})}, **sections}
        self.start_driver()
        rig.start_daemon_for(controller.wire_us, **self.sections)
        rig.wait_driver("ready")
        self.resets: list[tuple[int, list[float]]] = []
        if wait_locked:
            self.lock()
        return rig

    def start_driver(self) -> None:
        self.rig.start_driver(f", step_limit_nm: {STEP_NM}", "connection: {reconnect_max_ms: 500}\n")

    def lock(self):
        self.rig.client.lock()
        self.rig.wait_state("locked")
        time.sleep(0.5)

    def wait(self, condition, what: str) -> dict:
        """The first status for which `condition` holds. A lock that a busy machine lost before the fault came
        is taken again."""
        def holds(status: dict) -> bool:
            if condition(status):
                return True
            if status["state"] == "lost" and status["stage_driver"]["state"] == "ready":
                self.lock()
            return False
        return self.rig.wait_until(holds, what)

    def wait_held(self, reason: str, *driver: str) -> dict:
        """Held for this reason, while the driver says one of `driver`."""
        return self.wait(lambda s: s["state"] == "holding" and s["reason"] in (reason, *FIRST) and
                         (not driver or s["stage_driver"]["state"] in driver), f"held: {reason}, {driver}")

    def restart_of_controller(self, seconds: float = 1) -> None:
        """A power cycle, which takes the stage elsewhere without any correction."""
        self.rig.ask(f"restart {seconds}")
        stats = self.rig.ask("stats 0")
        self.resets.append((time.monotonic_ns(), stats["target_nm"][:2]))

    def assert_steps(self) -> None:
        """No move of the controller's record is longer than the step limit, and there are moves."""
        stats = self.rig.ask("stats 3000")
        self.assertEqual(stats["syntax_errors"], 0, stats["last_syntax_error"])
        resets = list(self.resets)
        before, count = None, 0
        for at_ns, target in zip(stats["moves_ns"], stats["targets_nm"]):
            while resets and resets[0][0] <= at_ns:
                before = resets.pop(0)[1]
            if before:
                far = max(abs(a - b) for a, b in zip(target, before))
                self.assertLess(far, STEP_NM + 2, f"{before} to {target}\n{self.rig.said()}")
                count += 1
            before = target[:2]
        self.assertGreater(count, 20)

    def assert_locked_again(self) -> None:
        rig = self.rig
        rig.wait_state("locked")
        rig.wait_still(STILL_NM)
        self.assert_steps()


class Wiring(ControllerTest):
    """Locks with a slow camera and long time-outs: whether they hold at all, not how still."""

    def wired(self, name: str) -> LockRig:
        rig = self.start(name, rate_hz=50 / SLOW, camera={"frame_rate_hz": 50 / SLOW, "stall_timeout_ms": 10_000},
                         lock={"max_frame_age_ms": 2000, "reference_frames": 20, "reference_timeout_s": 60,
                               "hold_timeout_s": 120})
        rig.wait_until(lambda s: s["state"] == "locked" and s["stage_driver"]["carried_out"] > 100, "moves")
        return rig

    def test_pi_by_tcp_unplugged(self):
        rig = self.wired("pi_tcp")
        rig.ask("unplug 1")
        self.wait_held("stage_error", "disconnected")
        rig.wait_driver("ready")
        rig.wait_state("locked")
        self.assert_steps()

    def test_thorlabs_on_a_serial_line(self):
        self.wired("thorlabs")
        self.assert_steps()


class Locks(ControllerTest):  # tier: full
    def locks(self, name: str) -> None:
        rig = self.start(name)
        rig.wait_still(STILL_NM)
        driver = rig.wait_driver("ready")
        self.assertGreater(driver["carried_out"], 20)
        self.assertEqual(driver["refused"], 0)
        # Where the sensors show the stage is where the corrections wanted it.
        self.assertLess(driver["off_nm"], 20)
        self.assert_steps()

    def test_pi_by_tcp(self):
        self.locks("pi_tcp")

    def test_pi_by_a_serial_line(self):
        self.locks("pi_serial")

    def test_lc400(self):
        self.locks("lc400")

    def test_asi(self):
        self.locks("asi")

    def test_piezoconcept(self):
        self.locks("piezoconcept")

    def test_thorlabs(self):
        self.locks("thorlabs")

    def test_a_vendors_library(self):
        self.assertTrue(LIBRARY.exists(), "build target driftd_simulated_stage_library")
        rig = LockRig(VENDOR, RATE_HZ)
        self.addCleanup(rig.close)
        rig.start_world()
        rig.start_driver()
        rig.start_daemon_for(lock={"max_frame_age_ms": 100 * SLOW})
        self.assertEqual(rig.wait_driver("ready")["description"].split(";")[0], "simulated stage by a library")
        rig.client.lock()
        rig.wait_state("locked")
        rig.wait_still(STILL_NM)

    def test_calibrated_first(self):
        """Calibrates with a configuration that knows nothing of the stage."""
        ignorant = {"image_to_stage": "[[1, 0], [0, 1]]", "delay_us": 1000, "time_constant_us": 500}
        rig = self.start("lc400", wait_locked=False, stage=ignorant)
        said = []
        for _ in range(3):  # refused where a busy machine let the stage stand still
            done = subprocess.run([BIN / "driftctl", "--config", rig.folder / "driftd.yaml", "calibrate",
                                   "--write", "--yes", "--seconds", "8"], capture_output=True, text=True)
            said.append(done.stderr.splitlines()[-1])
            if done.returncode == 0:
                break
        self.assertEqual(done.returncode, 0, f"{said}\n{rig.said()}")
        rig.daemon.child.send_signal(signal.SIGHUP)
        rig.daemon.wait_for("configuration_reloaded")
        self.lock()
        rig.wait_still(STILL_NM)
        self.assert_steps()


class Unplugged(ControllerTest):  # tier: full
    """The controller is away for 3 s: the lock is held (stage_error) at once, and resumes by itself."""

    def unplugged(self, name: str) -> None:
        rig = self.start(name)
        rig.ask(f"unplug {3 * SLOW}")
        self.wait_held("stage_error", "disconnected")
        moves = rig.ask("stats 0")["moves"]
        time.sleep(1 * SLOW)
        self.assertEqual(rig.ask("stats 0")["moves"], moves)
        rig.wait_driver("ready")
        self.assert_locked_again()

    def test_pi_by_tcp(self):
        self.unplugged("pi_tcp")

    def test_pi_by_a_serial_line(self):
        self.unplugged("pi_serial")

    def test_lc400(self):
        self.unplugged("lc400")

    def test_asi(self):
        self.unplugged("asi")

    def test_piezoconcept(self):
        self.unplugged("piezoconcept")

    def test_thorlabs(self):
        self.unplugged("thorlabs")


class ServoLost(ControllerTest):  # tier: full
    """The lock is held (stage_error); the driver switches no servo on until it is started anew, then it resumes."""

    def servo_lost(self, name: str) -> None:
        rig = self.start(name)
        rig.ask("servo_off")
        status = self.wait_held("stage_error", "servo_off")
        self.assertTrue(status["stage_driver"]["text"])
        time.sleep(0.5)
        self.assertEqual(rig.status()["state"], "holding")
        self.assertFalse(any(rig.ask("stats 0")["servo"][:2]))
        self.assertEqual(rig.driver.stop(), 0)
        self.start_driver()  # its file says switch_servo_on
        rig.wait_driver("ready")
        self.assert_locked_again()

    def test_pi_by_tcp(self):
        self.servo_lost("pi_tcp")

    def test_pi_by_a_serial_line(self):
        self.servo_lost("pi_serial")

    def test_lc400(self):
        self.servo_lost("lc400")

    def test_asi(self):
        self.servo_lost("asi")

    def test_thorlabs(self):
        self.servo_lost("thorlabs")

    def test_piezoconcept_which_cannot_tell(self):
        rig = self.start("piezoconcept")
        rig.ask("servo_off")  # answers stay Ok, the stage follows no more
        self.wait_held("stage_not_following")
        self.assert_steps()


class RangeReached(ControllerTest):  # tier: full
    """The lock is held (stage_limit) at the travel's end, lost after lock.hold_timeout_s, and asks for a command."""

    def range_reached(self, name: str, low_nm: float = 0) -> None:
        rig = self.start(name, "--range", low_nm, low_nm + 20000, "--zero", low_nm + 100, low_nm + 10000,
                         drift_nm_per_s=60, lock={"hold_timeout_s": 4 * SLOW})
        status = self.wait_held("stage_limit", "limit")
        self.assertIn("x", status["stage_driver"]["text"])
        self.assertGreaterEqual(rig.ask("stats 0")["target_nm"][0], low_nm - 0.01)
        rig.wait_state("lost")
        self.assert_steps()
        # A command brings it back: the stage is let off its limit when the lock is over.
        rig.client.unlock()
        rig.wait_driver("ready")

    def test_pi_by_tcp(self):
        self.range_reached("pi_tcp")

    def test_lc400(self):
        self.range_reached("lc400", -10000)

    def test_asi(self):
        self.range_reached("asi", -10000)

    def test_piezoconcept(self):
        self.range_reached("piezoconcept")

    def test_thorlabs(self):
        self.range_reached("thorlabs")


class PowerCycled(ControllerTest):  # tier: full
    """The lock is held (stage_error, or implausible_jump); the driver follows from where the stage came to be. The
    sample is there, too: farther than lock.max_jump_nm, so the lock is lost, and asks."""

    def power_cycled(self, name: str) -> None:
        rig = self.start(name, drift_nm_per_s=100, lock={"hold_timeout_s": 5 * SLOW})
        self.wait(lambda s: s["state"] == "locked" and abs(s["drift"]["total_x_nm"]) > 300, "300 nm away")
        self.restart_of_controller()
        self.wait_held("stage_error", "disconnected")
        rig.wait_driver("ready")
        status = rig.wait_until(lambda s: s["state"] == "lost", "lost")
        self.assertEqual(status["stage_driver"]["state"], "ready")
        moves = rig.ask("stats 0")["moves"]
        rig.client.lock()
        rig.wait_state("locked")
        rig.wait_until(lambda s: rig.ask("stats 0")["moves"] > moves + 20, "moves")
        self.assert_steps()

    def test_pi_by_tcp(self):
        self.power_cycled("pi_tcp")

    def test_pi_by_a_serial_line(self):
        self.power_cycled("pi_serial")

    def test_lc400(self):
        self.power_cycled("lc400")

    def test_asi(self):
        self.power_cycled("asi")

    def test_piezoconcept(self):
        self.power_cycled("piezoconcept")

    def test_thorlabs(self):
        self.power_cycled("thorlabs")

    def test_in_place_it_resumes(self):
        rig = self.start("pi_tcp")
        self.restart_of_controller()
        self.wait_held("stage_error", "disconnected")
        rig.wait_driver("ready")
        self.assert_locked_again()


class Programs(ControllerTest):  # tier: full
    def killed(self, name: str) -> None:
        rig = self.start(name)
        rig.driver.child.kill()
        rig.driver.child.wait()
        self.wait_held("stage_silent", "silent")
        self.start_driver()
        rig.wait_driver("ready")
        self.assert_locked_again()

    def test_a_driver_killed_in_mid_lock(self):
        self.killed("pi_tcp")

    def test_a_driver_killed_on_a_serial_line(self):
        self.killed("thorlabs")

    def test_the_daemon_restarted(self):
        rig = self.start("pi_tcp")
        self.assertEqual(rig.daemon.stop(), 0)
        moves = rig.ask("stats 0")["moves"]
        time.sleep(0.5)
        self.assertEqual(rig.ask("stats 0")["moves"], moves)
        rig.start_daemon_for(**self.sections)
        rig.wait_driver("ready")
        self.assertEqual(rig.status()["state"], "idle")
        self.lock()
        self.assert_locked_again()

    def test_two_drivers(self):
        rig = self.start("pi_tcp")
        second = rig.folder / "second.yaml"
        second.write_text(f"controller: {{driver: simulator, device: {rig.folder}/input}}\n"
                          f"x: {{axis: x, step_limit_nm: {STEP_NM}}}\ny: {{axis: 'y', step_limit_nm: {STEP_NM}}}\n"
                          f"daemon: {{corrections: '{rig.corrections}', commands: '{rig.commands}'}}\n")
        process = rig.run("second", BIN / "driftd-stage", "--config", second)
        process.wait_for("another driver reports")
        rig.wait_still(STILL_NM)
        self.assertEqual(rig.wait_driver("ready")["driver"], "pi_gcs2")
        with rig.truth() as truth:
            self.assertEqual(rig.driver.stop(), 0)
            rig.wait_until(lambda s: (s["stage_driver"] or {}).get("driver") == "simulator", "the second")
            rig.wait_state("locked")
            time.sleep(1)
            places = [(t["commanded_x_nm"], t["commanded_y_nm"]) for t in truth.drain()]
        far = max(abs(a - b) for one, next_ in zip(places, places[1:]) for a, b in zip(one, next_))
        # Two frames, because the truth of one may be lost.
        self.assertLess(far, 2 * STEP_NM)
        self.assert_locked_again()


if __name__ == "__main__":
    unittest.main()
