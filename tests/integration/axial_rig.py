# SPDX-License-Identifier: MIT
"""A simulated sample whose z a reflected spot tells, with a stage of z: what tests of the lock of z begin with."""
from __future__ import annotations

import math
import unittest

from harness import SOURCE, new_rig

WORLD = (SOURCE / "config/examples/scenario-axial.yaml").read_text()
CAMERA = {"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3}  # the world's
STAGE = {"image_to_stage": "[[1, 0], [0, 1]]"}
# 30 px/um of the world as 31.25, and a stage that is a little faster than it is.
AXIAL = {"method": "reflection", "hold": "true", "reflection": "{x_px: 128, y_px: 243, roi_px: 24, nm_per_px: 32}",
         "stage": "{delay_us: 2500, resonance_hz: 100, damping: 0.7}"}


def rms(values: list) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


class AxialRig(unittest.TestCase):
    def setUp(self):
        self.rig = self.enterContext(new_rig())

    def start(self, lock=None, **axial) -> None:
        self.rig.start_sim(WORLD)
        self.start_daemon(lock, **axial)
        self.wait_seen()

    def start_daemon(self, lock=None, **axial) -> None:
        self.file = self.rig.config(camera=CAMERA, optics={"pixel_size_nm": 100}, stage=STAGE, lock=lock or {},
                                    axial={**AXIAL, **axial})
        self.rig.start_daemon(self.file)

    def wait_seen(self) -> None:
        self.rig.wait_until(lambda s: s["markers"]["used"] and s["axial"]["valid"], "x, y and z are measured")

    def wait_z(self, state: str) -> dict:
        return self.rig.wait_until(lambda s: (s["axial"]["lock"] or {}).get("state") == state,
                                   f"z is {state}")["axial"]["lock"]

    def truth_z(self, seconds: float) -> list:
        return [t["sample_z_nm"] for t in self.rig.truth().collect(seconds)]

    def place_z(self) -> float:
        at = self.truth_z(1)
        return sum(at) / len(at)
