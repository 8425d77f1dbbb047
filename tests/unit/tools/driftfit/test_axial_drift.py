#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""driftfit --axial-curve against the truth of pupil images, read by numpy, pandas and h5py."""
import unittest

from driftfit_program import WithFolder, h5py, rows_of  # says what is missing

import numpy as np
import yaml
from pupil_beads import CROP, Pupil, World

CAMERA = ["--gain", 0.5, "--offset", 100, "--read-noise", 1.5]
PIXEL_NM, SIDE, ROI = 100.0, 168, 13
PUPIL = Pupil(0.075)
GRID = np.array([32.0, 84.0, 136.0])
PLACES = np.column_stack([np.tile(GRID, 3), np.repeat(GRID, 3)]) + np.random.default_rng(5).uniform(-1, 1, (9, 2))
HEIGHTS = np.array([0.0, 60.0, -80.0, 30.0, -40.0, 700.0, 20.0, -20.0, 50.0])
OUT_OF_RANGE, DIM = 5, 7


class Movie:
    """Nine markers that drift in x, y (px) and, in steps of 30 nm, z; one lies out of the curve's range, one is dim."""

    def __init__(self, frames, photons=3e4, dim=600.0, seed=21, markers=range(9), z_nm=None):
        random = np.random.default_rng(seed)
        t = np.arange(frames)
        self.x_px, self.y_px = 0.04 * t, -0.03 * t + 0.3 * np.sin(t / 5)
        self.z_nm = 30.0 * (np.abs((t // 2 + 5) % 20 - 10) - 5) if z_nm is None else np.broadcast_to(z_nm, frames)
        self.markers = list(markers)
        self.frames = np.empty((frames, SIDE, SIDE), np.uint16)
        half = CROP // 2
        for i in t:
            mean = np.full((SIDE, SIDE), 20.0)
            for m in self.markers:
                x, y = PLACES[m] + (self.x_px[i], self.y_px[i])
                left, top = int(round(x)), int(round(y))
                mean[top - half:top + half + 1, left - half:left + half + 1] += (
                    (dim if m == DIM else photons) * PUPIL.spot(x - left, y - top, self.z_nm[i] + HEIGHTS[m]))
            electrons = random.poisson(mean) + random.normal(0, 1.5, mean.shape)
            self.frames[i] = np.clip(np.round(100 + electrons / 0.5), 0, 65535)


class AxialDrift(WithFolder):
    @classmethod
    def setUpClass(cls):
        cls.calibration = World(PUPIL, np.arange(-450, 451, 25), seed=3, jump_px=1.0).frames

    def curve(self, *more):
        stack = self.write_raw(self.calibration, "beads.raw")
        self.run_program("calibrate-z", stack, "--step-nm", 25, *CAMERA, "--pixel-nm", PIXEL_NM, "--roi", ROI, "-o",
                         self.folder / "curve.yaml", "-q", *more)
        return self.folder / "curve.yaml"

    def picks(self, markers):
        file = self.folder / "picks.csv"
        file.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in PLACES[markers]))
        return file

    def fit(self, movie, curve, *more, code=0):
        return self.run_program(self.write_raw(movie.frames), "--axial-curve", curve, *CAMERA, "--picks",
                                self.picks(movie.markers), "-o", self.folder / "out", "--overwrite", *more, code=code)

    def drift(self):
        return np.genfromtxt(self.folder / "out_drift.csv", delimiter=",", names=True, usecols=range(12))

    def test_drift_in_z_is_the_truth_beside_that_in_x_and_y_and_its_sd_is_honest(self):
        movie = Movie(40)
        said = self.fit(movie, self.curve())
        drift = self.drift()
        error = drift["z_nm"] - (movie.z_nm - movie.z_nm[0])
        self.assertEqual(len(error), 40)
        self.assertLess(np.std(error), 4)
        self.assertLess(abs(np.mean(error)), 5)  # of the first frame, whose z is 0
        self.assertLess(abs(np.polyfit(movie.z_nm, error, 1)[0]), 0.03)
        # All markers share the curve's scale, which is right here: the rest is what scatters.
        scatter_nm2 = drift["z_sd_nm"] ** 2 - (0.0233 * drift["z_nm"]) ** 2
        self.assertGreater(np.min(scatter_nm2), 0.1)
        ratio = np.std(error) / np.sqrt(np.median(scatter_nm2))
        self.assertGreater(ratio, 0.65)
        self.assertLess(ratio, 1.4)
        self.assertEqual(drift["z_nm"][0], 0)
        self.assertTrue(np.all((drift["z_markers"] >= 6) & (drift["z_markers"] <= 8)))
        for axis, truth in (("x_px", movie.x_px), ("y_px", movie.y_px)):
            self.assertLess(np.std(drift[axis] - truth), 0.02)
        self.assertRegex(said, rf"\nmarker {OUT_OF_RANGE} at 136, 83 px: z read of 0 of \d+ fits; \d+ out of the curve's range")
        three = np.loadtxt(self.folder / "out_drift.txt")
        self.assertEqual(three.shape, (40, 3))
        np.testing.assert_allclose(three[:, 2], drift["z_nm"], atol=1e-4)

    def test_markers_that_have_no_z_have_none_in_any_file(self):
        if h5py is None:
            self.skipTest("python3-h5py is not installed")
        movie = Movie(12)
        self.fit(movie, self.curve())
        with h5py.File(self.folder / "out_locs.hdf5") as file:
            locs = file["locs"][:]
        rows = rows_of(self.folder / "out_thunderstorm.csv")
        self.assertEqual(len(locs), len(rows))
        for name, values in (("z [nm]", locs["z"]), ("uncertainty_z [nm]", locs["lpz"])):
            told = np.array([float(row[name]) if row[name] else np.nan for row in rows])
            np.testing.assert_allclose(told, values, atol=1e-3)
        np.testing.assert_array_equal(np.isnan(locs["z"]), np.isnan(locs["lpz"]))
        self.assertTrue(np.all(np.isnan(locs["z"][locs["group"] == OUT_OF_RANGE])))
        self.assertFalse(np.any(locs["z"] == 0))
        bright = (locs["group"] != OUT_OF_RANGE) & (locs["group"] != DIM)
        self.assertTrue(np.all(np.isfinite(locs["z"][bright])))
        truth = movie.z_nm[locs["frame"]] + HEIGHTS[locs["group"]]
        error = (locs["z"] - truth)[bright]
        self.assertLess(np.std(error), 12)
        dim = (locs["group"] == DIM) & np.isfinite(locs["z"])
        self.assertGreater(dim.sum(), 4)
        self.assertGreater(np.min(locs["lpz"][dim]), 5 * np.median(locs["lpz"][bright]))
        told = list(yaml.safe_load_all((self.folder / "out_locs.yaml").read_text()))[1]
        self.assertEqual(told["Z Calibration Path"], str(self.folder / "curve.yaml"))
        self.assertEqual(told["Z Read"], int(np.isfinite(locs["z"]).sum()))
        self.assertEqual(told["Z Out Of Range"] + told["Z Unclear"] + told["Z Too Dim"] + told["Z Implausible"],
                         int(np.isnan(locs["z"]).sum()))

    def test_a_frame_without_z_says_so_and_keeps_x_and_y(self):
        movie = Movie(16, z_nm=np.where(np.arange(16) == 9, 650.0, 0.0), markers=(0, 1, 3, 6))
        said = self.fit(movie, self.curve(), "--warn-drift-share", 0.9)
        self.assertRegex(said, r"z has a drift in 15 of 16 frames; frame 9: z of ")
        frame = rows_of(self.folder / "out_drift.csv")[9]
        self.assertNotIn(None, frame)  # no commas but those between columns
        self.assertEqual(frame["missing"], "")
        self.assertAlmostEqual(float(frame["x_px"]), movie.x_px[9], delta=0.1)
        self.assertEqual((frame["z_nm"], frame["z_sd_nm"], frame["z_markers"]), ("", "", "0"))
        self.assertRegex(frame["z_missing"], r"z of \d of 4 markers read; 3 needed; .*")
        z_nm = np.loadtxt(self.folder / "out_drift.txt")[:, 2]
        self.assertAlmostEqual(z_nm[9], 0.5 * (z_nm[8] + z_nm[10]), places=6)

    def test_rings_far_out_of_focus_and_markers_with_company_have_no_z(self):
        far = np.where(np.arange(20) >= 10, 1300.0, 0.0)
        markers = [0, 1, 3, 4, 6, 7, 8]
        near_m = 3
        self.fit(Movie(20, z_nm=far, dim=3e4, markers=markers), self.curve(), "--warn-drift-share", 0)
        z = np.genfromtxt(self.folder / "out_thunderstorm.csv", delimiter=",", names=True)
        beyond = z["frame"] > z["frame"].min() + 9
        self.assertTrue(np.any(beyond))
        self.assertEqual(np.isfinite(z["z_nm"][beyond]).sum(), 0)

        movie = Movie(20, z_nm=0.0, dim=3e4, markers=markers)
        random = np.random.default_rng(8)
        for i in range(10, 20):
            x, y = PLACES[near_m] + (movie.x_px[i] + 1.5, movie.y_px[i])
            left, top, half = int(round(x)), int(round(y)), CROP // 2
            light = random.poisson(1.5e4 * PUPIL.spot(x - left, y - top, HEIGHTS[near_m]))
            movie.frames[i][top - half:top + half + 1, left - half:left + half + 1] += np.round(light / 0.5).astype(np.uint16)
        self.fit(movie, self.folder / "curve.yaml")
        z = np.genfromtxt(self.folder / "out_thunderstorm.csv", delimiter=",", names=True)
        late = z["frame"] > z["frame"].min() + 9
        near = np.hypot(z["x_nm"] / PIXEL_NM - PLACES[near_m][0], z["y_nm"] / PIXEL_NM - PLACES[near_m][1]) < 8
        self.assertTrue(np.any(late & near))
        self.assertEqual(np.isfinite(z["z_nm"][late & near]).sum(), 0)
        self.assertTrue(np.all(np.isfinite(z["z_nm"][~near])))

    def test_where_too_few_have_z_nothing_is_written_and_what_helps_is_told(self):
        curve = self.curve()
        far = Movie(8, z_nm=650.0, markers=(0, 1, 3, 6))
        said = self.fit(far, curve, code=5)
        self.assertRegex(said, r"z has a drift in \d of 8 frames; frame 0: z of \d of 4 markers read; ")
        self.assertIn("without --axial-curve the drift is of x and y alone", said)
        self.assertEqual(list(self.folder.glob("out_*")), [])
        movie = Movie(8, z_nm=-150.0, markers=(0, 1, OUT_OF_RANGE))
        self.assertIn("--min-markers 2: z in 8 frames", self.fit(movie, curve, "--min-markers", 3, code=5))
        later = Movie(8, z_nm=np.where(np.arange(8) == 2, 650.0, 0.0), markers=(0, 1, 3, 6))
        self.assertIn("--reference 0: z in 7 frames", self.fit(later, curve, "--reference", 2, code=5))

    def test_a_curve_of_other_fits_is_refused_with_the_reason(self):
        curve, movie = self.curve(), Movie(4)
        for options, reason in ((("--roi", 11), "ROI's side is 13 px, the fits' 11 px"),
                                (("--model", "circular"), "its model is elliptical, the fits' circular"),
                                (("--estimator", "least-squares"), "its estimator is "),
                                (("--integrated",), "the fits' integrated over pixels"),
                                (("--pixel-nm", 120), "its pixel size is 100")):
            with self.subTest(options=options):
                self.assertIn(reason, self.fit(movie, curve, *options, code=2))
        stack = self.write_raw(movie.frames)
        out = ["-o", self.folder / "out"]
        self.assertIn("--gain says", self.run_program(stack, "--axial-curve", curve, *out, code=2))
        self.assertIn("--every-spot follows none",
                      self.run_program(stack, "--axial-curve", curve, *CAMERA, "--every-spot", *out, code=2))
        (self.folder / "no.yaml").write_text("a: 1\n")
        self.assertIn("is no curve of widths", self.fit(movie, self.folder / "no.yaml", code=1))
        self.fit(movie, curve, "--roi", ROI, "--model", "elliptical", "--estimator", "poisson", "--pixel-nm", 100)
        told = list(yaml.safe_load_all((self.folder / "out_locs.yaml").read_text()))[1]
        self.assertEqual((told["Box Size"], told["Pixelsize"], told["Fit method"]), (13, 100, "poisson, elliptical"))
        before = curve.read_bytes()
        self.assertIn(str(curve), self.fit(movie, curve, "--drift", curve, code=3))
        self.assertEqual(curve.read_bytes(), before)

    def test_without_a_curve_no_file_has_a_column_of_z(self):
        movie = Movie(4)
        self.run_program(self.write_raw(movie.frames), *CAMERA, "--picks", self.picks(movie.markers), "-o",
                         self.folder / "out")
        for name in ("out_thunderstorm.csv", "out_drift.csv"):
            self.assertFalse([key for key in rows_of(self.folder / name)[0] if key.startswith("z") or "_z" in key])
        self.assertEqual(np.loadtxt(self.folder / "out_drift.txt").shape, (4, 2))
        self.assertNotIn("Z ", (self.folder / "out_locs.yaml").read_text())
        if h5py is not None:
            with h5py.File(self.folder / "out_locs.hdf5") as file:
                self.assertEqual(file["locs"].dtype.names[-1], "group")

    def test_markers_are_found_by_themselves_and_picassos_calibration_is_taken(self):
        movie = Movie(20)
        self.curve("--picasso", self.folder / "picasso.yaml")
        said = self.run_program(self.write_raw(movie.frames), "--axial-curve", self.folder / "picasso.yaml", *CAMERA,
                                "--roi", ROI, "--pixel-nm", PIXEL_NM, "-o", self.folder / "out")
        self.assertRegex(said, "20 frames, [789] markers")
        drift = self.drift()
        error = drift["z_nm"] - (movie.z_nm - movie.z_nm[0])
        self.assertLess(np.std(error), 8)  # its polynomials are some nm off the curve
        stack = self.folder / "stack.raw"
        self.assertIn("its model is elliptical", self.run_program(
            stack, "--axial-curve", self.folder / "picasso.yaml", "--model", "circular", "-o", self.folder / "o", code=2))

    def test_markers_out_of_focus_have_z_by_their_one_width(self):
        pupil = Pupil(0.0)
        stack = self.write_raw(World(pupil, np.arange(0, 901, 30), seed=6, heights_nm=20).frames, "beads.raw")
        curve = self.folder / "defocus.yaml"
        self.run_program("calibrate-z", stack, "--step-nm", 30, *CAMERA, "--pixel-nm", PIXEL_NM, "--roi", 17, "--method",
                         "defocus", "-o", curve)
        world = World(pupil, 450 + 30.0 * (np.arange(12) % 4), seed=9, heights_nm=20, jump_px=0.5)
        picks = self.folder / "picks.csv"
        picks.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in world.places))
        self.run_program(self.write_raw(world.frames), "--axial-curve", curve, *CAMERA, "--picks", picks, "-o",
                         self.folder / "out")
        error = self.drift()["z_nm"] - (world.z_nm - world.z_nm[0])
        self.assertLess(np.std(error), 6)
        row = rows_of(self.folder / "out_thunderstorm.csv")[0]  # Picasso's import_ts wants both beside a z
        self.assertEqual(row["sigma1 [nm]"], row["sigma2 [nm]"])


if __name__ == "__main__":
    unittest.main()
