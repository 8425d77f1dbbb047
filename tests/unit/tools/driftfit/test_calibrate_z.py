#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""driftfit calibrate-z against the truth of pupil images and Picasso's format against numpy."""
import copy
import unittest

from driftfit_program import WithFolder, rows_of  # says what is missing

import numpy as np
import yaml
from pupil_beads import Pupil, World

CAMERA = ["--pixel-nm", 100, "--gain", 0.5, "--offset", 100, "--read-noise", 1.5]


def column(rows, name):
    return np.array([float(row[name]) if row[name] else np.nan for row in rows])


class CalibrateZ(WithFolder):
    def calibrate(self, world, step_nm, *more, code=0, roi=13):
        stack = self.write_raw(world.frames)
        table = [] if "--table" in more else ["--table", self.folder / "table.csv"]
        files = ["-o", self.folder / "curve.yaml", *table, "--overwrite"]
        camera = CAMERA[:2] + CAMERA[4:] if "--gain" in more else CAMERA
        return self.run_program("calibrate-z", stack, "--step-nm", step_nm, *camera, "--roi", roi, *files, *more, code=code)

    def errors(self, world, held_out=None):
        """(true z from the curve's zero, error, sd) of each reading; each bead's own offset is taken out, as a lock's
        reference does."""
        rows = [row for row in rows_of(self.folder / "table.csv") if held_out is None or row["held_out"] == held_out]
        x, y = column(rows, "x_px"), column(rows, "y_px")
        bead = np.array([np.argmin(np.hypot(*(world.places - (a, b)).T)) for a, b in zip(x, y)])
        frame = column(rows, "frame").astype(int)
        truth = world.z_nm[frame] + world.heights[bead]
        read, sd = column(rows, "z_read_nm"), column(rows, "z_sd_nm")
        error = read - truth
        for b in np.unique(bead):
            error[bead == b] -= np.nanmedian(error[bead == b])
        good = np.isfinite(error)
        return read[good], error[good], sd[good]

    def check_reading(self, world, held_out=None, rms_nm=12.0, slope=0.03):
        z, error, sd = self.errors(world, held_out)
        near = np.abs(z) < 250
        self.assertGreater(near.sum(), 40)
        self.assertLess(np.std(error[near]), rms_nm)
        self.assertLess(abs(np.polyfit(z[near], error[near], 1)[0]), slope)
        return np.std(error[near]) / np.median(sd[near])

    def test_astigmatism_is_calibrated_by_its_truth_and_its_sd_is_honest(self):
        world = World(Pupil(0.075), np.arange(-600, 601, 25), seed=2)
        said = self.calibrate(world, 25)
        self.assertIn("9 beads of 9", said)
        self.assertIn("even steps by the curve of the odd ones", said)
        ratio = self.check_reading(world, rms_nm=7)
        self.assertGreater(ratio, 0.8)
        self.assertLess(ratio, 1.25)
        curve = yaml.safe_load((self.folder / "curve.yaml").read_text())
        self.assertEqual(curve["method"], "astigmatic")
        self.assertGreater(curve["scatter_factor"], 1)
        for knot in curve["knots"]:
            self.assertEqual(knot[3], curve["scatter_factor"])
        self.assertLess(curve["range_nm"][0], -300)
        self.assertGreater(curve["range_nm"][1], 300)
        self.assertIn("<svg", (self.folder / "curve.svg").read_text())

    def test_either_sign_of_astigmatism_and_either_direction_of_the_stage(self):
        for astigmatism, step in ((-0.08, 40), (0.08, -40)):
            with self.subTest(astigmatism=astigmatism, step=step):
                z = np.arange(-600, 601, 40) * np.sign(step)
                world = World(Pupil(astigmatism), z, seed=3)
                self.calibrate(world, step)
                self.check_reading(world, rms_nm=9)

    def test_aberrations_and_few_photons_leave_the_scale_right(self):
        world = World(Pupil(0.075, coma=0.02, spherical=0.02), np.arange(-600, 601, 25), photons=6e3, seed=4)
        self.calibrate(world, 25)
        ratio = self.check_reading(world, rms_nm=25, slope=0.04)
        self.assertGreater(ratio, 0.75)
        self.assertLess(ratio, 1.3)

    def test_planes_that_the_curve_was_made_without_are_read(self):
        world = World(Pupil(0.075), np.arange(-600, 601, 50), seed=5)
        self.calibrate(world, 50, "--planes", "odd")
        self.check_reading(world, held_out="1", rms_nm=9)

    def test_defocus_is_calibrated_on_one_side(self):
        world = World(Pupil(0.0), np.arange(0, 901, 30), seed=6, heights_nm=20)
        said = self.calibrate(world, 30, "--method", "defocus", roi=17)
        self.assertIn("lock at", said)
        z, error, sd = self.errors(world)
        near = (z > 300) & (z < 600)
        self.assertGreater(near.sum(), 40)
        self.assertLess(np.std(error[near]), 12)
        self.assertLess(abs(np.polyfit(z[near], error[near], 1)[0]), 0.05)

    def test_picasso_has_the_curve_as_polynomials_that_numpy_evaluates(self):
        world = World(Pupil(0.075), np.arange(-600, 601, 25), seed=2)
        said = self.calibrate(world, 25, "--picasso", self.folder / "picasso.yaml")
        off = float(said.split("polynomials are at most ")[1].split()[0])
        picasso = yaml.safe_load((self.folder / "picasso.yaml").read_text())
        curve = yaml.safe_load((self.folder / "curve.yaml").read_text())
        self.assertEqual(len(picasso["X Coefficients"]), 7)
        self.assertTrue(all(isinstance(c, float) for c in picasso["X Coefficients"] + picasso["Y Coefficients"]))
        z, x, y = np.array([knot[:3] for knot in curve["knots"]]).T
        low, high = curve["range_nm"]
        inside = (z > low) & (z < high)
        slope = np.gradient(x - y, z)
        apart = (np.polyval(picasso["X Coefficients"], z) - np.polyval(picasso["Y Coefficients"], z)
                 - np.sqrt(x**2 - 1 / 12) + np.sqrt(y**2 - 1 / 12))
        self.assertLess(np.max(np.abs(apart / slope)[inside]), off + 0.5)
        self.assertLess(off, 10)

    def test_what_makes_no_curve_is_refused_with_the_reason_and_the_cure(self):
        whole = World(Pupil(0.075), np.arange(-600, 601, 50), seed=7)

        def refusal(world, *more, step=50, code=1):
            return self.calibrate(world, step, *more, code=code)

        no_lens = World(Pupil(0.0), np.arange(-500, 501, 50), seed=7, heights_nm=0)
        self.assertRegex(refusal(no_lens), "cross nowhere|do not grow apart|look alike|slope")
        one_side = World(Pupil(0.075), np.arange(150, 651, 50), seed=7, heights_nm=20)
        self.assertRegex(refusal(one_side), "cross nowhere.*both sides|do not grow apart.*Take planes on both sides")
        few = World(Pupil(0.075), [-50.0, 0.0], seed=7)
        self.assertIn("needed are 3", refusal(few))
        dark = World(Pupil(0.075), np.arange(-300, 301, 50), photons=1, seed=7)
        self.assertIn("no bead is found", refusal(dark))
        self.assertIn("--step-nm is 0", refusal(whole, step=0, code=2))
        self.assertIn("--picasso is for", refusal(whole, "--method", "defocus", "--picasso", "p.yaml", code=2))
        uneven = World(Pupil(0.075), np.arange(-600, 601, 50) + 60.0 * (np.arange(25) % 2), seed=7)
        self.assertRegex(refusal(uneven), "even steps of --step-nm")
        self.assertFalse((self.folder / "curve.yaml").exists())

    def test_planes_that_were_lost_where_a_lock_may_go_are_found(self):
        whole = World(Pupil(0.075), np.arange(-500, 501, 25), seed=11)
        for lost in ((30, 31, 32), (30, 31), (8, 9, 10)):  # from 215 nm above the crossing, and below it
            with self.subTest(lost=lost):
                gap = copy.copy(whole)
                gap.frames = np.delete(whole.frames, lost, axis=0)
                self.assertRegex(self.calibrate(gap, 25, code=1), "the plane of frame .* a plane missing")
        self.calibrate(whole, 25)

    def test_the_curve_of_bright_beads_reads_dim_ones(self):
        planes = np.arange(-500, 501, 25)
        dim = World(Pupil(0.075), planes, photons=3e3, seed=12)
        self.calibrate(dim, 25)
        rows = rows_of(self.folder / "table.csv")  # whose widths alone are used
        bright = World(Pupil(0.075), planes, photons=3e4, seed=11)
        said = self.calibrate(bright, 25)
        self.assertIn("9 beads of 9", said)
        self.assertIn("3 curves of dimmer markers", said)
        curve = yaml.safe_load((self.folder / "curve.yaml").read_text())
        zero = float(said.split("crossing: sigma ")[1].split("px, ")[1].split(" nm")[0])
        zero += planes[0] + np.mean(bright.heights)  # those of its beads are about their mean
        curves = [np.array(knots).T for knots in (curve["knots"], *curve["dimmer"])]
        for knots in curves:
            self.assertTrue(np.all(np.isfinite(knots)))
        self.assertTrue(all(np.all(b[4] > a[4]) for a, b in zip(curves, curves[1:])))
        self.assertTrue(all(np.all((knots[3] > 0.5) & (knots[3] < 4)) for knots in curves))
        widths = np.column_stack([column(rows, "sigma_x_px"), column(rows, "sigma_y_px")])
        frame = column(rows, "frame").astype(int)
        x, y = column(rows, "x_px"), column(rows, "y_px")
        bead = np.array([np.argmin(np.hypot(*(dim.places - (a, b)).T)) for a, b in zip(x, y)])
        truth = planes[frame] + dim.heights[bead] - zero
        grid = np.arange(*curve["range_nm"])

        def read(knots):
            """z by one curve, a share of either width alike in weight, and how dim its fits are there."""
            at = np.array([np.interp(grid, knots[0], knots[k]) for k in (1, 2)])
            z = grid[np.argmin(((widths[:, :, None] / at - 1) ** 2).sum(axis=1), axis=1)]
            return z, np.interp(z, knots[0], knots[4])

        told = column(rows, "dimness")
        readings = [read(knots) for knots in curves]
        z = readings[0][0].copy()
        for (z_bright, least), (z_dim, most) in zip(readings, readings[1:]):
            share = np.clip(np.log(told / least) / np.log(most / least), 0, 1)
            z = np.where(told >= least, z_bright + share * (z_dim - z_bright), z)
        for low, high in ((-250, -150), (-150, -50), (-50, 50), (50, 150), (150, 250)):
            here = (truth > low) & (truth < high)
            error, by_one = z[here] - truth[here], readings[0][0][here] - truth[here]
            self.assertGreater(here.sum(), 20)
            sd_of_mean = np.std(error) / np.sqrt(here.sum())
            self.assertLess(abs(np.mean(error)), 4 * sd_of_mean)
            if low != -50:  # at the crossing no curve is off
                self.assertGreater(abs(np.mean(by_one)), 6 * sd_of_mean)

    def test_a_single_uneven_step_is_refused_however_many_beads_there_are(self):
        fine, coarse = np.arange(-600, 601, 25), np.arange(-600, 601, 50)
        faults = (("one step of 50 nm", np.delete(fine, 22), 25), ("one of 125 nm", np.delete(fine, slice(20, 24)), 25),
                  ("three of 0", np.sort([*fine, 0, 0, 0]), 25), ("one of 200 nm", np.delete(coarse, slice(9, 12)), 50),
                  ("one of 0", np.sort([*coarse, 0]), 50))
        picks = self.folder / "one.csv"
        for name, z, step in faults:
            world = World(Pupil(0.075), z, jump_px=0)
            with self.subTest(name):
                self.assertRegex(self.calibrate(world, step, code=1), "even steps of --step-nm")
            if name == "one step of 50 nm":
                continue  # one bead's own noise is as large
            with self.subTest(name, beads=1):
                x, y = world.places[4]
                picks.write_text(f"x_px,y_px\n{x},{y}\n")
                self.assertRegex(self.calibrate(world, step, "--picks", picks, code=1), "even steps of --step-nm")

    def test_beads_whose_tops_are_cut_off_are_refused_with_what_is_left(self):
        world = World(Pupil(0.075), np.arange(-600, 601, 50), seed=7)
        world.frames = np.minimum(world.frames, 1500)
        self.assertRegex(self.calibrate(world, 50, code=1),
                         r"exactly 1500 .* less light .*--saturation 1500 would leave out \d+ of 225 images")
        said = self.calibrate(world, 50, "--saturation", 1500, code=1)
        self.assertRegex(said, "reach --saturation")
        self.assertIn("less light", said)
        world.frames = np.maximum(world.frames, 200)
        self.assertRegex(self.calibrate(world, 50, "--saturation", 200, code=1),
                         "25 of 25 planes searched have pixels that reach --saturation 200")
        few = World(Pupil(0.075), np.arange(-600, 601, 50), seed=7)
        few.frames[:, few.places[0].astype(int)[1], few.places[0].astype(int)[0]] = 60000  # of one bead alone
        self.calibrate(few, 50, "--saturation", 60000)

    def test_a_stack_out_of_focus_on_both_sides_names_the_frame_between_them(self):
        both = World(Pupil(0.0), np.arange(-800, 801, 50), heights_nm=0)
        said = self.calibrate(both, 50, "--method", "defocus", code=1, roi=17)
        frame = int(said.split("--first-frame ")[1].split()[0])
        self.assertLess(abs(frame - 16), 2)
        for side in "--first-frame", "--last-frame":
            self.assertIn(side, said)
            self.assertIn("lock at", self.calibrate(both, 50, "--method", "defocus", side, frame, roi=15))

    def test_a_gain_that_is_not_the_cameras_is_told(self):
        world = World(Pupil(0.075), np.arange(-600, 601, 50), seed=7)
        self.assertNotIn("warning", self.calibrate(world, 50))
        said = self.calibrate(world, 50, "--gain", 50)
        self.assertRegex(said, r"warning: readings scatter 1\d\.\d times as much as the fits tell.*--gain")

    def test_two_results_of_one_name_are_refused(self):
        world = World(Pupil(0.075), np.arange(-600, 601, 50), seed=7)
        curve = self.folder / "curve.yaml"
        for more in (("--picasso", curve), ("--picasso", curve.with_suffix(".svg")),
                     ("--table", self.folder / ".." / self.folder.name / "curve.svg")):
            self.assertIn("is named for two results", self.calibrate(world, 50, *more, code=2))
        self.assertFalse(curve.exists())

    def test_bleaching_is_told(self):
        world = World(Pupil(0.075), np.arange(-500, 501, 25), seed=8, bleach=0.4)
        self.assertRegex(self.calibrate(world, 25), "beads are .* dimmer above the crossing")


if __name__ == "__main__":
    unittest.main()
