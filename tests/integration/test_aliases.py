# SPDX-License-Identifier: MIT
"""A line that the camera shows as it is beside one above half its frame rate: the lock learns which is which by a frame
rate that is a little lower for a while, and moves the sample by neither. Judged by the simulator's truth."""
import cmath
import math
import unittest

from axial_rig import AXIAL, CAMERA, STAGE, WORLD, AxialRig
from harness import BIN, new_rig

RATE_HZ, TRUE_HZ, FAST_HZ = 100, 12.0, 93.0
SEEN_HZ = RATE_HZ - FAST_HZ
AXIS = f"{{sines: [{{amplitude_nm: 1.5, frequency_hz: {TRUE_HZ}}}, {{amplitude_nm: 1.5, frequency_hz: {FAST_HZ}}}]}}"
SCENARIO = f"""
seed: 7
optics: {{pixel_size_nm: 100, sigma_px: 1.3}}
camera: {{width_px: 256, height_px: 256, rate_hz: {RATE_HZ}, exposure_us: 1000, background_e: 20, offset_adu: 100,
         gain_e_per_adu: 4, read_noise_e: 3, full_well_e: 16000, bit_depth: 12}}
markers: {{count: 16, photons: 30000, photons_spread: 0.3, min_distance_px: 32, border_px: 28}}
disturbance:
  x: {AXIS}
  y: {AXIS}
stage: {{image_to_stage: [0.992546, 0.121869, 0.121869, -0.992546], frequency_hz: 150, damping: 0.7, delay_ms: 2.5,
        noise_nm: 0.1, quantisation_nm: 0.05, range_nm: 100000}}
"""


class Aliases(unittest.TestCase):
    def start(self, **control) -> None:
        self.rig = rig = new_rig()
        self.addCleanup(rig.close)
        rig.start_sim(SCENARIO, rate_hz=RATE_HZ)
        rig.start_daemon(rig.config(camera={"frame_rate_hz": RATE_HZ}, control={"law": "observer", **control}))
        rig.wait_markers()
        rig.client.lock()

    def lines(self) -> list[dict]:
        """Of both axes, those that matter."""
        return [line for axis in self.rig.status()["control"]["axes"] for line in axis["lines"]
                if line["amplitude_nm"] > 0.5]

    def is_known(self) -> bool:
        lines = self.lines()
        return len(lines) == 4 and all(line["verified"] for line in lines)

    def moved_nm(self, seconds: float) -> tuple[float, float]:
        """The sample's amplitude at the frequency of the line that is there, and the stage's where the other one is
        seen: the truth, too, is told once a frame."""
        truth = self.rig.truth()
        rates = []
        for _ in range(round(seconds)):
            self.rig.sleep(1)
            rates.append(self.rig.status()["camera"]["rate_hz"])
        seen = truth.drain()
        for rate_hz in rates:
            self.assertAlmostEqual(rate_hz, RATE_HZ, delta=0.5)

        def amplitude_nm(hz: float, places_nm: list) -> float:
            turned = (nm * cmath.exp(-2j * math.pi * hz * 1e-9 * t["time_ns"]) for t, nm in zip(seen, places_nm))
            return 2 * abs(sum(turned)) / len(seen)

        return (amplitude_nm(TRUE_HZ, [t["sample_x_nm"] for t in seen]),
                amplitude_nm(SEEN_HZ, [t["sample_x_nm"] - t["disturbance_x_nm"] for t in seen]))

    def ctl(self, *arguments) -> str:
        done = self.rig.run_program(
            [BIN / "driftctl", "--commands", self.rig.commands, "--publish", self.rig.publish, *arguments])
        return " ".join((done.stdout + done.stderr).split())

    def is_slower(self) -> bool:
        return self.rig.status()["camera"]["rate_hz"] < 0.99 * RATE_HZ

    def wait(self, for_what, seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            if for_what():
                return
            self.rig.sleep(0.1)
        self.fail(f"not within {seconds} s: {self.lines()}")

    def test_a_lock_that_ends_leaves_the_frame_rate_as_it_was(self):
        self.start()
        self.wait(self.is_slower, 20)
        self.rig.client.unlock()
        self.wait(lambda: self.rig.status()["camera"]["rate_hz"] > 0.997 * RATE_HZ, 5)
        self.rig.sleep(5)
        self.assertFalse(self.is_slower())

    def test_which_is_which(self):
        self.start()
        self.wait(self.is_slower, 20)
        self.wait(self.is_known, 20)
        for line in self.lines():
            is_alias = abs(line["frequency_hz"] - SEEN_HZ) < 1
            self.assertEqual(line["followed"], not is_alias, line)
            self.assertAlmostEqual(line["alias_of_hz"] or line["frequency_hz"], FAST_HZ if is_alias else TRUE_HZ,
                                   delta=0.3)
        self.rig.sleep(3)
        there_nm, alias_nm = self.moved_nm(10)
        self.assertLess(there_nm, 0.3)  # of 1.5
        self.assertLess(alias_nm, 0.15)
        status = self.ctl("status")
        self.assertRegex(status, r"12\.0 Hz \d\.\d+ nm \(verified\)")
        self.assertRegex(status, r"7\.0 Hz \d\.\d+ nm \(an alias of 93\.0 Hz: not followed\)")
        self.assertIn("an alias of 93.0 Hz", self.ctl("advise"))
        self.assertEqual(self.rig.status()["camera"]["clock"], {"trust": "trusted", "steps": 0, "jumps": 0})
        self.assertNotRegex(self.rig.daemon.text(), "(?m)^(warning|error)")

    def test_by_a_rate_that_stays_all_are_followed(self):
        self.start(verify_lines="false")
        self.rig.sleep(12)
        lines = self.lines()
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertEqual((line["followed"], line["verified"], line["alias_of_hz"]), (True, False, None))
        there_nm, alias_nm = self.moved_nm(5)
        self.assertLess(there_nm, 0.3)
        self.assertGreater(alias_nm, 0.5)


class AxialAliases(AxialRig):
    """Of z, beside x and y in which there is nothing to ask."""

    def lines(self) -> list[dict]:
        return [line for axis in self.rig.status()["axial"]["lock"]["control"]["axes"] for line in axis["lines"]
                if line["amplitude_nm"] > 0.7]

    def amplitude_nm(self, hz: float, key: str) -> float:
        seen = self.rig.truth().collect(10)
        return 2 * abs(sum(t[key] * cmath.exp(-2j * math.pi * hz * 1e-9 * t["time_ns"]) for t in seen)) / len(seen)

    def start_shaken(self) -> None:
        sines, rest = WORLD.split("    sines:\n")[0], WORLD[WORLD.index("\nstage:"):]
        world = sines.replace("rate_hz: 500", f"rate_hz: {RATE_HZ}") + "".join(
            f"    {line}\n" for line in ("sines:", f"  - {{amplitude_nm: 2, frequency_hz: {TRUE_HZ}}}",
                                        f"  - {{amplitude_nm: 2, frequency_hz: {FAST_HZ}}}")) + rest
        self.rig.start_sim(world, rate_hz=RATE_HZ)
        self.file = self.rig.config(camera={**CAMERA, "frame_rate_hz": RATE_HZ}, optics={"pixel_size_nm": 100},
                                    stage=STAGE, control={"law": "observer"}, axial=AXIAL)
        self.rig.start_daemon(self.file)
        self.wait_seen()
        self.rig.client.lock()

    def test_a_lock_of_z_follows_no_alias_either(self):
        self.start_shaken()
        self.rig.wait_until(lambda _: len(self.lines()) == 2 and all(line["verified"] for line in self.lines()),
                            "both are told apart", timeout_s=60)
        for line in self.lines():
            is_alias = abs(line["frequency_hz"] - SEEN_HZ) < 1
            self.assertEqual(line["followed"], not is_alias, line)
            self.assertAlmostEqual(line["alias_of_hz"] or line["frequency_hz"], FAST_HZ if is_alias else TRUE_HZ, delta=0.3)
        self.rig.sleep(3)
        self.assertEqual(self.rig.status()["axial"]["lock"]["state"], "locked")
        self.assertLess(self.amplitude_nm(TRUE_HZ, "sample_z_nm"), 0.6)  # of 2

    def test_nor_one_that_begins_anew_after_it_was_unlocked_in_the_middle_of_a_test(self):
        self.start_shaken()
        self.rig.wait_until(lambda s: s["camera"]["rate_hz"] < 0.99 * RATE_HZ, "slower frames", timeout_s=30)
        self.rig.client.request("unlock", axes="z")
        self.rig.sleep(6)
        self.rig.client.request("lock", axes="z")
        slower = 0
        for _ in range(150):
            self.rig.sleep(0.1)
            slower += self.rig.status()["camera"]["rate_hz"] < 0.99 * RATE_HZ
            for line in self.lines():
                self.assertFalse(line["followed"] and abs(line["frequency_hz"] - SEEN_HZ) < 1, line)
        self.assertTrue(all(line["verified"] for line in self.lines()), self.lines())
        self.assertLess(slower, 90)  # tests of two seconds


if __name__ == "__main__":
    unittest.main()
