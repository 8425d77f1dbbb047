# SPDX-License-Identifier: MIT
"""Whether the standard deviations that a calibration tells are those of its errors: over worlds drawn at random, in
images whose pixels differ in gain and offset as those of cameras do."""
from __future__ import annotations

import json
import math
import random
import unittest

from harness import new_rig

WORLDS = 200
RATE_HZ, SECONDS = 100, 20


def world(seed: int) -> tuple[str, list[list[float]]]:
    """A scenario, and the matrix that its stage has."""
    draw = random.Random(seed)
    angle, scale = draw.uniform(0, 2 * math.pi), math.exp(draw.uniform(math.log(0.5), math.log(2)))
    side = draw.choice((-1, 1))
    matrix = [[scale * math.cos(angle), -side * scale * math.sin(angle)],
              [scale * math.sin(angle), side * scale * math.cos(angle)]]
    axes = "".join(f"""
  {axis}:
    linear_nm_per_s: {draw.uniform(-5, 5):.3f}
    random_walk_nm_per_sqrt_s: {draw.uniform(0.2, 2):.3f}
    sines:
      - {{amplitude_nm: {draw.uniform(0, 1):.3f}, frequency_hz: {draw.uniform(1, 30):.3f}}}""" for axis in "xy")
    return f"""
seed: {seed}
camera:
  offset_pattern_adu: {draw.uniform(0, 1):.3f}
  gain_pattern: {draw.uniform(0, 0.01):.5f}
markers:
  count: {draw.randint(8, 20)}
  photons: {math.exp(draw.uniform(math.log(1e4), math.log(6e4))):.0f}
disturbance:{axes}
stage:
  image_to_stage: {json.dumps(matrix[0] + matrix[1])}
  frequency_hz: {math.exp(draw.uniform(math.log(10), math.log(200))):.2f}
  damping: {draw.uniform(0.5, 1):.3f}
  delay_ms: {draw.uniform(1, 8):.3f}
""", matrix


def calibrated(seed: int) -> list[float]:
    """The error of each element of the matrix, in standard deviations as told."""
    scenario, matrix = world(seed)
    with new_rig() as rig:
        rig.start_sim(scenario, rate_hz=RATE_HZ)
        rig.start_daemon(rig.config(camera={"frame_rate_hz": RATE_HZ, "stall_timeout_ms": 5000},
                                    stage={"delay_us": 1000, "time_constant_us": 500},
                                    lock={"max_frame_age_ms": 1000}))
        rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "measured")
        rig.client.request("calibrate", seconds=SECONDS)
        while (now := rig.client.request("calibration")[0])["phase"] in ("quiet", "moving", "returning", "fitting"):
            rig.sleep(0.2)
        assert now["phase"] == "done", (seed, now)
        found, sd = now["result"]["image_to_stage"], now["result"]["image_to_stage_sd"]
        return [(found[i][j] - matrix[i][j]) / sd[i][j] for i in range(2) for j in range(2)]


class Coverage(unittest.TestCase):
    def test_the_matrix_errs_by_what_is_told(self):  # tier: full
        errors = [error for seed in range(1, WORLDS + 1) for error in calibrated(seed)]
        rms = math.sqrt(sum(error ** 2 for error in errors) / len(errors))
        within = sum(abs(error) < 1 for error in errors) / len(errors)
        print(f"{len(errors)} elements: error / standard deviation, rms {rms:.3f}; {100 * within:.1f} % within one")
        self.assertAlmostEqual(rms, 1, delta=0.2)
        self.assertAlmostEqual(within, 0.683, delta=0.2 * 0.683)


if __name__ == "__main__":
    unittest.main()
