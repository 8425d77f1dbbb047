# SPDX-License-Identifier: MIT
"""z from the widths of markers, of a simulated sample that does not move in z: what is published, when there is none,
and that x and y do not depend on it."""
import math
import pathlib
import subprocess
import sys
import unittest

from harness import BIN, SOURCE, new_rig

sys.path[:0] = [str(SOURCE / "tests/fault"), str(SOURCE / "tests/unit/tools/driftfit")]
from judge import CONFIG, DEMO, changed  # noqa: E402

Z_KEYS = ("z_nm", "z_sd_nm", "frame_z_nm", "frame_z_sd_nm", "witness_z_nm")
CAMERA = {"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3}  # the demo's


def width_px(z_nm: float, focus_nm: float) -> float:
    """Huang et al., Science 2008, as a camera's pixels widen it."""
    return math.hypot(1.1 * math.sqrt(1 + ((z_nm - focus_nm) / 350) ** 2), 1 / math.sqrt(12))


def write_curve(file: pathlib.Path, scatter_factor: float = 1, roi_px: int = 13) -> None:
    knots = "".join(f"  - [{z}, {width_px(z, 220):.6f}, {width_px(z, -220):.6f}]\n" for z in range(-700, 701, 50))
    file.write_text(f"axial_curve: 1\nmethod: astigmatic\nmodel: elliptical\nestimator: poisson\nroi_px: {roi_px}\n"
                    f"pixel_size_nm: 100\nscatter_factor: {scatter_factor}\nrange_nm: [-500, 500]\nknots:\n{knots}")


def sections(rig) -> dict:
    file = rig.folder / "curve.yaml"
    if not file.exists():
        write_curve(file)
    return {**CONFIG, "camera": {**CONFIG["camera"], **CAMERA},
            "axial": {"method": "astigmatic", "curve": f'"{file}"'}}


def world(z_nm: float) -> str:
    """The demo's, at a height, behind a cylinder lens."""
    sigmas = [1.1 * math.sqrt(1 + ((z_nm - focus) / 350) ** 2) for focus in (220, -220)]
    return changed(DEMO, ("  sigma_px: 1.3 ", f"  sigma_px: {sigmas[0]}\n  sigma_y_px: {sigmas[1]}\n  # "))


class Axial(unittest.TestCase):
    def positions(self, rig, seconds: float) -> list:
        return [message for _, message in rig.subscribe("position").drain(seconds)]

    def test_z_is_read_within_its_sd_beside_a_lock_of_x_and_y(self):
        for z_nm in (-150, 0, 200):
            with self.subTest(z_nm=z_nm), new_rig() as rig:
                rig.start_locked(world(z_nm), **sections(rig))
                status = rig.status()
                self.assertEqual(status["fitter"]["estimator"], "poisson")
                self.assertEqual(status["fitter"]["estimator_reason"], "axial.method is `astigmatic`")
                self.assertEqual(status["fitter"]["roi_px"], 13)
                seen = self.positions(rig, 1)
                self.assertGreater(len(seen), 300)
                for p in seen:
                    self.assertTrue(p["valid"])
                    self.assertIsNotNone(p["z_nm"])
                mean_nm = sum(p["z_nm"] for p in seen) / len(seen)
                variance_nm2 = sum((p["z_nm"] - mean_nm) ** 2 for p in seen) / (len(seen) - 1)
                told_nm2 = sum(p["z_sd_nm"] ** 2 for p in seen) / len(seen)
                self.assertLess(abs(mean_nm), 4 * math.sqrt(told_nm2))
                self.assertAlmostEqual(math.sqrt(variance_nm2 / told_nm2), 1, delta=0.2)
                axial = rig.status()["axial"]
                self.assertEqual((axial["method"], axial["valid"], axial["text"]), ("astigmatic", True, ""))
                self.assertAlmostEqual(axial["distance_from_crossing_nm"], z_nm, delta=10)
                self.assertEqual(bool(axial["warning"]), abs(z_nm) > 100)
                self.assertGreaterEqual(axial["markers_used"], 10)
                rig.wait_still(1.5)

    def test_widths_of_no_place_are_no_z_and_x_and_y_go_on(self):
        with new_rig() as rig:
            rig.start_locked(changed(DEMO, ("sigma_px: 1.3", "sigma_px: 2.0")), **sections(rig))
            for p in self.positions(rig, 0.5):
                self.assertTrue(p["valid"])
                for key in Z_KEYS:
                    self.assertIsNone(p[key])
            axial = rig.status()["axial"]
            self.assertFalse(axial["valid"])
            self.assertEqual(axial["reason"], "unclear")
            self.assertIn("0 of ", axial["text"])
            rig.wait_still(1.5)

    def test_another_curve_is_taken_while_idle_alone(self):
        with new_rig() as rig:
            rig.start_locked(world(0), **sections(rig))
            before = rig.status()["axial"]["sd_nm"]
            write_curve(rig.folder / "curve.yaml", scatter_factor=2)
            with self.assertRaises(Exception) as refused:
                rig.client.request("reload")
            self.assertIn("the lock must be idle", str(refused.exception))
            rig.client.unlock()
            rig.sleep(0.1)
            write_curve(rig.folder / "curve.yaml", roi_px=15)
            with self.assertRaises(Exception) as refused:
                rig.client.request("reload")
            self.assertIn("fitter.roi_px", str(refused.exception))  # which a curve of another ROI would change
            write_curve(rig.folder / "curve.yaml", scatter_factor=2)
            rig.client.request("reload")
            rig.sleep(1)
            self.assertAlmostEqual(rig.status()["axial"]["sd_nm"] / before, 2, delta=0.5)

    def test_a_flat_configuration_has_no_z(self):
        with new_rig() as rig:
            rig.start_locked(**CONFIG)
            for p in self.positions(rig, 0.2):
                self.assertEqual([p[key] for key in Z_KEYS], [None] * len(Z_KEYS))
            self.assertIsNone(rig.status()["axial"])
            marker = rig.client.markers()[0]
            for key in ("sigma_x_px", "sigma_y_px", "z_nm", "z_sd_nm", "dz_nm", "residual_z_nm", "z_reason"):
                self.assertIsNone(marker[key])


def numpy_or_skip(test: unittest.TestCase) -> None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        test.skipTest("SKIPPED: python3-numpy is not installed")


def calibrated(rig) -> dict:
    """By the curves of a stack of beads behind the pupil, of 3e4 photons."""
    import numpy as np
    from pupil_beads import Pupil, World
    stack = World(Pupil(0.075), np.arange(-500, 501, 25), photons=3e4, seed=11).frames
    file = rig.folder / "stack.raw"
    stack.tofile(file)
    planes, height, width = stack.shape
    file.with_suffix(".yaml").write_text(f"Width: {width}\nHeight: {height}\nFrames: {planes}\n"
                                         f"Data Type: {stack.dtype}\nByte Order: '<'\n")
    subprocess.run([BIN / "driftfit", "calibrate-z", file, "--step-nm", "25", "--pixel-nm", "100", "--roi", "13",
                    "--gain", "0.5", "--offset", "100", "--read-noise", "1.5", "-o", rig.folder / "curve.yaml"],
                   check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return sections(rig)


MOVING = ("disturbance:", "disturbance:\n  z:\n    linear_nm_per_s: 10\n    random_walk_nm_per_sqrt_s: 2\n    sines:\n"
                          "      - {amplitude_nm: 30, frequency_hz: 0.5}\n     ")
BEHIND_A_LENS = changed(DEMO, MOVING, ("  sigma_px: 1.3 ", "  shape: width_curve\n  # "),
                        ("  min_distance_px: 32", "  height_spread_nm: 60\n  min_distance_px: 32"))
PUPIL = ("  sigma_px: 1.3 ", "  shape: pupil\n  pupil: {numerical_aperture: 1.4, index: 1.518, wavelength_nm: 800, "
         "astigmatism_waves: 0.075}\n  # ")
BEHIND_A_PUPIL = changed(DEMO, MOVING, PUPIL, ("  photons: 30000 ", "  photons: 3000 "))
REFLECTED = changed(DEMO, MOVING) + ("\nreflection:\n  photons: 200000\n  x_px: 128\n  y_px: 226\n  px_per_um: 25\n"
                                     "  direction_deg: 90\n  sigma_px: 2\n")


@unittest.skipUnless((SOURCE / "simulator/reflected_spot.hpp").exists(), "SKIPPED: the simulator has two dimensions")
class ByTruth(unittest.TestCase):
    """Of a sample that moves in z, z is what it is told to be uncertain by from the truth."""

    def check(self, world: str, most_sd_nm: float, sections_of) -> None:
        with new_rig() as rig:
            rig.start_locked(world, **sections_of(rig))
            truth, positions = rig.truth(), rig.subscribe("position")
            rig.sleep(4)
            true_nm = {t["frame_id"]: t["sample_z_nm"] for t in truth.drain()}
            pairs = [(p, true_nm[p["frame_id"]]) for p in (p for _, p in positions.drain()) if p["frame_id"] in true_nm]
            self.assertGreater(len(pairs), 1500)
            self.assertTrue(all(p["z_nm"] is not None for p, _ in pairs))
            offsets_nm = [p["z_nm"] - z for p, z in pairs]
            zero_nm = sum(offsets_nm) / len(offsets_nm)  # the truth has another
            told_nm = math.sqrt(sum(p["z_sd_nm"] ** 2 for p, _ in pairs) / len(pairs))
            real_nm = math.sqrt(sum((o - zero_nm) ** 2 for o in offsets_nm) / len(offsets_nm))
            self.assertGreater(max(z for _, z in pairs) - min(z for _, z in pairs), 60)
            self.assertLess(told_nm, most_sd_nm)
            self.assertAlmostEqual(real_nm / told_nm, 1, delta=0.25)
            self.assertLess(max(abs(o - zero_nm) for o in offsets_nm), 6 * told_nm)
            rig.wait_still(1.5)

    def test_by_widths(self):
        self.check(BEHIND_A_LENS, 2, sections)

    def test_by_a_reflected_spot(self):
        def reflection(rig) -> dict:
            return {**CONFIG, "camera": {**CONFIG["camera"], **CAMERA},
                    "axial": {"method": "reflection",
                              "reflection": "{x_px: 128, y_px: 226, roi_px: 48, nm_per_px: 40, angle_deg: 90}"}}
        self.check(REFLECTED, 0.6, reflection)

    def test_dim_markers_by_the_curves_of_a_stack_of_bright_beads(self):
        """By the curve of the bright ones alone they go 0.65 of the way."""
        numpy_or_skip(self)
        self.check(BEHIND_A_PUPIL, 8, calibrated)

class OutOfFocus(unittest.TestCase):
    """Behind a pupil the bright middle of the rings has the widths of a marker in focus."""

    def read(self, rig, seconds: float) -> list:
        """z of the frames from now on."""
        rig.sleep(0.1)
        positions = rig.subscribe("position")
        return [message["z_nm"] for _, message in positions.drain(seconds)]

    def assert_no_z(self, seen: list) -> None:
        told = [z for z in seen if z is not None]
        self.assertGreater(len(seen), 10)
        self.assertEqual(len(told), 0, f"of {len(seen)}, {sum(told) / max(1, len(told)):.1f} nm in the mean")

    def test_a_jump_far_out_of_focus_is_no_z(self):
        numpy_or_skip(self)
        with new_rig() as rig:
            rig.start_locked(changed(DEMO, PUPIL), **calibrated(rig))
            for away_nm in (1200, 1300, 1400, 1600, -1100, -1200, -1300, -1500):
                with self.subTest(away_nm=away_nm):
                    before = [z for z in self.read(rig, 0.3) if z is not None]
                    self.assertGreater(len(before), 10)
                    rig.fault("step", z_nm=away_nm)
                    self.assert_no_z(self.read(rig, 0.5))
                    rig.fault("step", z_nm=-away_nm)

    def test_a_lock_far_out_of_focus_has_no_z(self):
        numpy_or_skip(self)
        with new_rig() as rig:
            rig.start_locked(changed(DEMO, PUPIL), **calibrated(rig))
            for away_nm in (1300, -1200):
                with self.subTest(away_nm=away_nm):
                    rig.client.unlock()
                    rig.fault("step", z_nm=away_nm)
                    rig.sleep(0.2)
                    rig.client.lock()
                    self.assert_no_z(self.read(rig, 1))
                    axial = rig.status()["axial"]
                    self.assertEqual(axial["valid"], False)
                    rig.fault("step", z_nm=-away_nm)


if __name__ == "__main__":
    unittest.main()
