# SPDX-License-Identifier: MIT
"""The program driftfit with real recordings against independent references."""
import os
import pathlib
import sys
import unittest

from driftfit_program import SOURCE, WithFolder, h5py, np, rows_of

DATA = pathlib.Path(os.environ.get("DRIFTD_TEST_DATA", SOURCE.parent / "shared/data"))
if not DATA.is_dir():
    print(f"SKIPPED: no recordings in {DATA} (set DRIFTD_TEST_DATA)")
    sys.exit(0)


class Recordings(WithFolder):
    def reference(self, name: str) -> list[dict]:
        return [r for r in rows_of(DATA / name) if r.get("ok", "1") == "1"]

    def picks_at(self, fits: str, frame: int) -> pathlib.Path:
        file = self.folder / "picks.csv"
        file.write_text("x,y\n" + "".join(f"{r['x']},{r['y']}\n" for r in self.reference(fits)
                                          if int(r["frame"]) == frame))
        return file

    def distances(self, table, fits: str, pixel_nm: float = 100) -> dict[int, list[float]]:
        """From each reference fit to the nearest localization of its frame, px, by frame."""
        ours: dict[int, list] = {}
        for r in rows_of(table):
            place = float(r["x [nm]"]) / pixel_nm - 0.5, float(r["y [nm]"]) / pixel_nm - 0.5
            ours.setdefault(int(r["frame"]) - 1, []).append(place)
        result: dict[int, list[float]] = {}
        for r in self.reference(fits):
            frame = int(r["frame"])
            here = np.array(ours.get(frame, [(-99, -99)])) - (float(r["x"]), float(r["y"]))
            result.setdefault(frame, []).append(np.hypot(*here.T).min())
        return result

    def compare_drift(self, table, reference: str, frames, limit_px: float):
        ours = {int(r["frame"]): r for r in rows_of(table)}
        for r in self.reference(reference):
            if int(r["frame"]) not in frames:
                continue
            for axis in "xy":
                off = float(ours[int(r["frame"])][f"{axis}_px"]) - float(r[f"d{axis}"])
                self.assertLess(abs(off), limit_px, (r["frame"], axis))

    def test_beads_through_focus(self):
        out = self.folder / "z"
        self.run_program(DATA / "psfextractor_zstack/zstack_34x512x512_u8.tif", "--picks",
                         self.picks_at("ref_zstack_fits.csv", 11), "--first-frame", 11,
                         "--last-frame", 20, "--reference", 16, "--pixel-nm", 108, "--roi", 13,
                         "-o", out)
        # Each bead moves by 0.1 px its own way, which a robust mean weighs differently: 0.02 px for
        # thirty where they are in focus, some three times that where they are not.
        self.compare_drift(f"{out}_drift.csv", "ref_zstack_drift.csv", range(15, 19), 0.03)
        self.compare_drift(f"{out}_drift.csv", "ref_zstack_drift.csv", range(11, 20), 0.1)
        off = self.distances(f"{out}_thunderstorm.csv", "ref_zstack_fits.csv", 108)
        for frame in 16, 17, 18:  # mostly the same ROIs as the reference's
            self.assertLess(max(off[frame]), 0.01, frame)
        for frame in 12, 13, 15:  # ROIs may differ by a pixel, and so by the beads' rings
            self.assertLess(max(off[frame]), 0.1, frame)

    def test_found_beads_in_clean_slices(self):
        out = self.folder / "d.csv"
        # Nothing told but the frames: the spots' width and the ROI are found in the first image.
        said = self.run_program(DATA / "psfextractor_zstack/zstack_34x512x512_u8.tif",
                                "--first-frame", 15, "--last-frame", 18, "--reference", 16,
                                "--drift-csv", out)
        self.assertRegex(said, r"sigma 2\.\d+ px, the median of \d+ spots")
        self.compare_drift(out, "ref_zstack_drift.csv", range(16, 19), 0.03)
        self.compare_drift(out, "ref_zstack_drift.csv", range(15, 16), 0.1)  # leaves the focus

    def test_stuck_particles(self):
        out = self.folder / "s"
        self.run_program(DATA / "trackpy_stuck/stuck.tif", "--picks",
                         self.picks_at("ref_stuck_fits.csv", 0), "--roi", 9, "-o", out)
        # The mean of the 41 has a standard error of 0.019 px, and its weights are others than the
        # reference's, which come from the common variance of all pixels.
        self.compare_drift(f"{out}_drift.csv", "ref_stuck_drift.csv", range(5), 0.013)
        off = self.distances(f"{out}_thunderstorm.csv", "ref_stuck_fits.csv")
        self.assertEqual(sum(map(len, off.values())), 205)
        self.assertLess(max(map(max, off.values())), 0.01)
        self.assertLess(np.median(sum(off.values(), [])), 1e-4)
        self.run_program(DATA / "trackpy_stuck/stuck.tif", "--drift-csv", f"{out}_found.csv")
        # The reference is the mean of 41 particles, each of which moves by 0.13 px (sd). This is of 16.
        self.compare_drift(f"{out}_found.csv", "ref_stuck_drift.csv", range(5), 0.08)
        self.run_program(DATA / "trackpy_stuck/stuck.tif", "--max-markers", 64, "--drift-csv",
                         f"{out}_most.csv")
        self.compare_drift(f"{out}_most.csv", "ref_stuck_drift.csv", range(5), 0.025)

    def localize_picasso(self) -> pathlib.Path:
        out = self.folder / "p"
        said = self.run_program(DATA / "picasso/testdata.raw", "--width", 32, "--height", 32,
                                "--type", "u16", "--every-spot", "--roi", 7, "--min-net-gradient",
                                5000, "-o", out)
        self.assertIn("564 spots found, 564 localizations", said)
        return out

    def test_picasso_spots_against_independent_fits(self):
        out = self.localize_picasso()
        off = sum(self.distances(f"{out}_thunderstorm.csv", "ref_picasso_fits.csv").values(), [])
        self.assertEqual(len(off), 564)
        self.assertLess(max(off), 0.005)
        self.assertLess(np.median(off), 5e-4)

    def check_odd(self, name: str, frames: int, *options):
        """Five beads on 100 counts, each at its place, moving by (0.02, -0.01) px a frame."""
        out = self.folder / "odd"
        self.run_program(DATA / "odd" / name, *options, "-o", out, "--overwrite", "--warn-drift-share", 1)
        drift = rows_of(f"{out}_drift.csv")
        self.assertEqual(len(drift), frames)
        self.assertAlmostEqual(float(drift[-1]["x_px"]), 0.02 * (frames - 1), delta=0.03)
        self.assertAlmostEqual(float(drift[-1]["y_px"]), -0.01 * (frames - 1), delta=0.03)
        first = [r for r in rows_of(f"{out}_thunderstorm.csv") if r["frame"] == "1"]
        for r in first:
            self.assertAlmostEqual(float(r["offset [photon]"]), 100, delta=3)
        return np.array(sorted((float(r["x [nm]"]) / 100 - 0.5, float(r["y [nm]"]) / 100 - 0.5) for r in first))

    @unittest.skipUnless((DATA / "odd").is_dir(), f"no {DATA / 'odd'}")
    def test_structures_that_were_misread(self):
        beads = np.array(sorted([(20.3, 18.7), (62.1, 24.4), (41.8, 47.6), (15.2, 66.9), (72.7, 70.3)]))
        for name in "shaped_truncated.tif", "metamorph.stk", "movie.mat", "imagej_signed.tif":
            np.testing.assert_allclose(self.check_odd(name, 40), beads, atol=0.05)
        for name in "nd_two_channels/nd_NDTiffStack.tif", "nd_two_channels", "shaped_tcyx.tif":
            self.assertIn("has 2 channels", self.run_program(DATA / "odd" / name, "-o", self.folder / "o", code=1))
            np.testing.assert_allclose(self.check_odd(name, 20, "--channel", 0), beads, atol=0.05)
            np.testing.assert_allclose(self.check_odd(name, 20, "--channel", 1), beads + (3.2, -2.1), atol=0.08)
        self.assertIn("32000 (lzf)", self.run_program(DATA / "odd/lzf.h5", "-o", self.folder / "o", code=1))

    def test_the_times_of_ndtiff_stand_beside_the_drift(self):
        out = self.folder / "o.csv"
        for channel, options in (0, []), (1, ["--gain", 2]):
            self.run_program(DATA / "odd/nd_two_channels", "--channel", channel, "--drift-csv", out, "--overwrite", *options)
            times_s = [float(row["time_s"]) for row in rows_of(out)]
            np.testing.assert_allclose(times_s, 0.01 * channel + 0.02 * np.arange(20), atol=1e-9)

    @unittest.skipIf(h5py is None, "python3-h5py is not installed")
    def test_picasso_spots_are_those_that_picasso_found(self):
        out = self.localize_picasso()
        with h5py.File(f"{out}_locs.hdf5") as ours, \
                h5py.File(DATA / "picasso/testdata_locs.hdf5") as theirs:
            ours, theirs = (locs[np.lexsort((locs["net_gradient"], locs["frame"]))]
                            for locs in (ours["locs"][:], theirs["locs"][:]))
        self.assertTrue((ours["frame"] == theirs["frame"]).all())
        for name in "x", "y":
            off = ours[name] - theirs[name]
            # Picasso integrates over pixels and maximizes a likelihood: rms 0.007 px.
            self.assertLess(np.abs(off).max(), 0.05)
            self.assertLess(off.std(), 0.01)
            self.assertLess(abs(off.mean()), 1e-3)
        self.assertLess(np.abs(ours["net_gradient"] / theirs["net_gradient"] - 1).max(), 1e-5)

    def test_a_curve_of_z_reads_the_planes_that_it_was_made_without(self):
        stack = DATA / "psfextractor_zstack/zstack_34x512x512_u8.tif"
        # Where the widths' difference goes one way in the whole stack: slices 16 to 19. A curve of every other slice alone
        # does not see that it turns back at 16. Without --gain, three planes.
        for planes, held_out in (("odd", 18), ("even", 17)):
            with self.subTest(planes=planes):
                self.run_program("calibrate-z", stack, "--step-nm", 300, "--pixel-nm", 108, "--planes", planes,
                                 "--table", self.folder / "table.csv", "--overwrite")
                rows = [r for r in rows_of(self.folder / "table.csv") if int(r["frame"]) == held_out]
                self.assertTrue(all(r["held_out"] == "1" for r in rows))
                error = np.array([float(r["z_read_nm"] or "nan") - float(r["z_nm"]) for r in rows])
                self.assertGreater(np.isfinite(error).sum(), 25)
                self.assertLess(abs(np.nanmedian(error)), 30)  # 10 % of the spacing


if __name__ == "__main__":
    unittest.main()
