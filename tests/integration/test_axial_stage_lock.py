# SPDX-License-Identifier: MIT
"""x, y and z held through one emulated controller, by driftd and driftd-stage: what is wrong with an axis holds its own lock
alone, and is over with it."""
from __future__ import annotations

import unittest

from axial_rig import AXIAL, CAMERA, rms
from harness import SLOW, SOURCE
from lock_rig import CONTROLLERS, LockRig

RATE_HZ = 100 / SLOW
#: Where the emulated axis of z stands, and ends that leave a lock its room.
Z = "z: {axis: '3', min_nm: 48000, max_nm: 52000}"
STILL_NM = 3  #: rms; not held, the sample moves by 10 nm and more in such a time


class OneController(unittest.TestCase):  # tier: full
    def setUp(self):
        self.rig = rig = self.enterContext(LockRig(CONTROLLERS["pi_tcp"], RATE_HZ))
        rig.start_world(SOURCE / "config/examples/scenario-axial.yaml")
        rig.start_emulator("--axes", "1,2,3", "--sim-axes", "xyz", "--zero", "50000", "50000", "50000")
        rig.start_driver("", f"motion: {{axes: xyz}}\n{Z}\nconnection: {{reconnect_max_ms: 500}}\n")
        rig.start_daemon_for(
            camera={**CAMERA, "frame_rate_hz": RATE_HZ}, optics={"pixel_size_nm": 100},
            stage={"image_to_stage": "[[1, 0], [0, 1]]", "delay_us": 2500}, axial=AXIAL,
            lock={"max_frame_age_ms": 200 * SLOW, "reference_frames": 50, "hold_timeout_s": 60 * SLOW})
        self.wait({"xy": "ready", "z": "ready"}, self.drivers)
        rig.client.request("lock")
        self.wait({"xy": "locked", "z": "locked"}, self.locks)

    def drivers(self) -> dict:
        status = self.rig.status()
        told = {"xy": status["stage_driver"], "z": status["axial"]["lock"]["stage_driver"]}
        return {group: (driver or {}).get("state") for group, driver in told.items()}

    def locks(self) -> dict:
        status = self.rig.status()
        return {"xy": status["state"], "z": status["axial"]["lock"]["state"]}

    def wait(self, wanted: dict, asked) -> None:
        self.rig.wait_until(lambda s: asked() == wanted, f"{wanted}, {self.rig.said()}")

    def test_a_servo_that_is_off_holds_its_lock_alone(self):
        for axis, ill, well in (("3", "z", "xy"), ("1", "xy", "z"), ("3", "z", "xy")):
            with self.subTest(axis=axis):
                events = self.rig.subscribe("event")
                self.rig.ask(f"servo_off {axis}")
                self.wait({ill: "holding", well: "locked"}, self.locks)
                status = self.rig.status()
                self.assertEqual((status["axial"]["lock"] if ill == "z" else status)["reason"], "stage_error")
                self.assertIn(self.drivers()[ill], ("servo_off", "error"))
                self.assertEqual(self.drivers()[well], "ready")
                self.rig.sleep(1)
                self.assertEqual(self.locks(), {ill: "holding", well: "locked"})
                self.rig.ask(f"servo_on {axis}")
                self.wait({ill: "locked", well: "locked"}, self.locks)
                # A busy computer may hold both for want of frames.
                changed = {event["code"] for _, event in events.drain() if "stage" in event.get("text", "")}
                changed &= {"state_changed", "axial_state_changed"}
                self.assertEqual(changed, {"axial_state_changed" if ill == "z" else "state_changed"})
        self.rig.sleep(2)
        for axis in "xyz":
            self.assertLess(rms([t[f"sample_{axis}_nm"] for t in self.rig.truth().collect(2)]), STILL_NM, axis)

    def test_a_driver_that_is_gone_holds_both_and_both_go_on(self):
        self.assertEqual(self.rig.driver.stop(), 0)
        self.wait({"xy": "holding", "z": "holding"}, self.locks)
        self.rig.start_driver("", f"motion: {{axes: xyz}}\n{Z}\n")
        self.wait({"xy": "locked", "z": "locked"}, self.locks)


if __name__ == "__main__":
    unittest.main()
