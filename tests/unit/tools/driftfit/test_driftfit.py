# SPDX-License-Identifier: MIT
"""The program driftfit with stacks drawn here with a known drift."""
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

try:
    import tifffile
except ImportError:
    tifffile = None

from driftfit_program import PLACES, PROGRAM, WithFolder, drifting, h5py, np, rows_of, tiff_of


class Synthetic(WithFolder):
    def test_numbers_are_written_as_they_are_read(self):
        stack, _ = drifting(1)
        out = self.folder / "out"
        said = self.run_program(self.write_raw(stack), "-o", out, "--gain", 0.46, "--read-noise", 1.1, "--offset", 100)
        self.assertIn("1 frame, 5 markers, 5 of 5 fits good, drift in 1 frame (", said)
        lines = (self.folder / "out_locs.yaml").read_text().splitlines()
        for line in ("Sensitivity: 0.46", "Read Noise: 1.1", "Baseline: 100"):
            self.assertIn(line, lines)

    def clipped(self, level: int, brighter: list[int], frames: int = 20):
        """Five markers, some of them twice as bright, cut off at a level."""
        stack, drift = drifting(frames)
        shown = np.zeros((frames, 5), bool)
        shown[:, brighter] = True
        more, _ = drifting(frames, seed=2, shown=shown)
        return self.write_raw(np.minimum(stack + more - 120, level).astype(stack.dtype)), drift

    def test_clipped_markers_are_told_and_what_is_advised_leads_on(self):
        out = self.folder / "out"
        told = "at the top of their spot: spots that are clipped fit too wide; "
        self.assertNotIn(told, self.run_program(self.clipped(65535, [1, 2])[0], "-o", out))
        file, drift = self.clipped(3100, [1, 2])
        for search in [], ["--every-spot"]:
            said = self.run_program(file, "-o", out, "--overwrite", *search)
            self.assertIn(told + "--saturation 3100 leaves ", said)
            if search:
                self.assertIn("leaves out the 40 of 100 spots that reach it", said)
            else:
                self.assertIn("leaves them out, and 3 of 5 markers with a drift in 20 of 20 frames", said)
            said = self.run_program(file, "-o", out, "--overwrite", "--saturation", 3100, *search)
            self.assertNotIn("clipped", said)
            self.assertIn("60 localizations" if search else "3 markers, 60 of 60 fits good, drift in 20 frames", said)
        self.run_program(file, "-o", out, "--overwrite", "--saturation", 3100)
        self.assertLess(np.abs(np.loadtxt(f"{out}_drift.txt") - drift).max(), 0.03)

    def test_where_all_are_clipped_nothing_is_advised_that_would_leave_none(self):
        file, _ = self.clipped(1500, [])
        out = self.folder / "out"
        said = self.run_program(file, "-o", out)
        self.assertIn("clipped fit too wide; less light or a shorter exposure helps (--saturation 1500 would leave a "
                      "drift in 0 of 20 frames)", said)
        said = self.run_program(file, "--every-spot", "-o", out, "--overwrite")
        self.assertIn("helps (--saturation 1500 would leave none)", said)
        # Who does it all the same is told why, and what leads on.
        maps = self.folder / "offset.tif"
        if tifffile is not None:
            tifffile.imwrite(maps, np.full((96, 96), 100, np.float32))
        for more in [], *([["--offset-map", maps]] if tifffile is not None else []):
            said = self.run_program(file, "-o", out, "--overwrite", "--saturation", 1500, *more, code=1)
            self.assertIn("saturated", said)
            self.assertIn("what may help: a --saturation above 1500, or none: no spot that reaches it is taken", said)
        self.run_program(file, "-o", out, "--overwrite", "--saturation", 1501)

    def test_drift_of_found_markers(self):
        stack, drift = drifting(120)
        out = self.folder / "out"
        said = self.run_program(self.write_raw(stack), "-o", out, "--gain", 1, "--offset", 100)
        self.assertIn("120 frames, 5 markers, 600 of 600 fits good, drift in 120 frames", said)
        trace = np.loadtxt(f"{out}_drift.txt")
        self.assertEqual(trace.shape, (120, 2))
        # sigma / sqrt(photons) is 0.0075 px for a marker, 0.0034 px for five, and once more for the
        # reference: four of these.
        self.assertLess(np.abs(trace - drift).max(), 0.02)
        self.assertLess(np.std(trace - drift, axis=0).max(), 0.006)
        with open(f"{out}_drift.txt", "rb") as file:
            self.assertTrue(file.readline().endswith(b"e+00\r\n"))
        table = rows_of(f"{out}_drift.csv")
        self.assertEqual([int(r["frame"]) for r in table], list(range(120)))
        for r, (x, y) in zip(table, trace):
            self.assertAlmostEqual(float(r["x_nm"]), 100 * x, places=3)
            self.assertAlmostEqual(float(r["y_nm"]), 100 * y, places=3)
        spots = rows_of(f"{out}_thunderstorm.csv")
        self.assertEqual(len(spots), 600)
        photons = np.array([float(r["intensity [photon]"]) for r in spots])
        self.assertAlmostEqual(photons.mean(), 2 * np.pi * 1.3**2 * 2800, delta=100)
        self.assertAlmostEqual(np.mean([float(r["offset [photon]"]) for r in spots]), 20, delta=1)
        last = [r for r in spots if r["frame"] == "120"]
        found = sorted((float(r["x [nm]"]) / 100 - 0.5, float(r["y [nm]"]) / 100 - 0.5) for r in last)
        expected = sorted(map(tuple, PLACES + drift[-1]))
        self.assertLess(np.abs(np.array(found) - np.array(expected)).max(), 0.04)

    def test_picks_reference_and_range(self):
        stack, drift = drifting(60)
        picks = self.folder / "picks.yaml"
        picks.write_text(f"Shape: Circle\nDiameter (nm): 300\nCenters: {(PLACES + 1).tolist()}\n")
        out = self.folder / "drift.txt"
        self.run_program(self.write_raw(stack), "--picks", picks, "--first-frame", 10,
                         "--last-frame", 49, "--reference", 30, "--drift", out)
        trace = np.loadtxt(out)
        self.assertEqual(len(trace), 60)
        self.assertEqual(tuple(trace[30]), (0, 0))
        error = trace - (drift - drift[30])
        self.assertLess(np.abs(error[10:50]).max(), 0.02)
        self.assertTrue((trace[:10] == trace[10]).all() and (trace[50:] == trace[49]).all())

    def test_every_spot_on_any_number_of_threads(self):
        stack, drift = drifting(40)
        for search in "peak", "swarm":
            results = []
            for threads in 1, 3:
                out = self.folder / f"{search}{threads}.csv"
                self.run_program(self.write_raw(stack), "--every-spot", "--thunderstorm", out,
                                 "--search", search, "--threads", threads)
                results.append(out.read_text())
            self.assertEqual(results[0], results[1])
            spots = rows_of(out)
            self.assertEqual(len(spots), 5 * 40)
            for r in spots:
                place = np.array([float(r["x [nm]"]), float(r["y [nm]"])]) / 100 - 0.5
                offset = place - PLACES - drift[int(r["frame"]) - 1]
                self.assertLess(np.hypot(*offset.T).min(), 0.05)

    def test_a_movie_of_several_blocks_is_read_in_order(self):
        """35 MB: a block is 8 MiB, read while the one before is searched and the one before that written."""
        stack, drift = drifting(41)
        movie = np.tile(stack, (47, 1, 1))
        out = self.folder / "spots.csv"
        said = self.run_program(self.write_raw(movie), "--every-spot", "--thunderstorm", out, "--threads", 2)
        self.assertIn(f"{len(movie)} frames, {5 * len(movie)} spots found", said)
        spots = rows_of(out)
        frames = np.array([int(r["frame"]) for r in spots])
        self.assertTrue((frames == np.repeat(np.arange(1, len(movie) + 1), 5)).all())
        found = np.array([[float(r["x [nm]"]), float(r["y [nm]"])] for r in spots]) / 100 - 0.5
        expected = PLACES[None] + drift[(frames - 1) % 41][:, None]
        self.assertLess(np.hypot(*(found[:, None] - expected).T).min(axis=0).max(), 0.05)

    @unittest.skipIf(h5py is None, "python3-h5py is not installed")
    def test_hdf5_in_and_out(self):
        stack, drift = drifting(20)
        with h5py.File(self.folder / "stack.h5", "w") as file:
            file.create_dataset("movie/images", data=stack, chunks=(1, 96, 96), compression="gzip")
            file.create_dataset("time", data=np.arange(20))
        out = self.folder / "out"
        self.run_program(self.folder / "stack.h5", "-o", out, "--pixel-nm", 108)
        with h5py.File(f"{out}_locs.hdf5") as file:
            locs = file["locs"][:]
        self.assertEqual(locs.dtype.names, ("frame", "x", "y", "photons", "sx", "sy", "bg", "lpx",
                                            "lpy", "ellipticity", "net_gradient", "group"))
        self.assertEqual(locs.dtype["frame"], np.dtype("<u4"))
        self.assertEqual(locs.dtype["x"], np.dtype("<f4"))
        self.assertEqual(len(locs), 100)
        self.assertTrue((np.diff(locs["frame"].astype(int)) >= 0).all())
        trace = np.loadtxt(f"{out}_drift.txt")
        for group in range(5):  # Picasso's way to apply a drift makes each marker stand still
            one = locs[locs["group"] == group]
            self.assertLess(np.std(one["x"] - trace[one["frame"], 0]), 0.02)
            self.assertLess(np.std(one["y"] - trace[one["frame"], 1]), 0.02)
        self.assertLess(np.abs(trace - drift).max(), 0.02)
        description = pathlib.Path(f"{out}_locs.yaml").read_text()
        for line in "Width: 96", "Height: 96", "Frames: 20", "Pixelsize: 108", "Box Size: 13":
            self.assertIn(line + "\n", description)

    def test_floating_point_pixels_of_any_unit(self):
        stack, drift = drifting(20)
        scaled = (stack * 1e-4 - 0.3).astype(np.float32)
        out = self.folder / "d.txt"
        self.run_program(self.write_raw(scaled), "--drift", out)
        self.assertLess(np.abs(np.loadtxt(out) - drift).max(), 0.02)

    def test_models_and_estimators_agree_or_are_refused(self):
        stack, drift = drifting(10)
        file = self.write_raw(stack)
        for model in "circular", "elliptical":
            for estimator in "implicit", "least-squares", "weighted", "poisson":
                out = self.folder / f"{model}-{estimator}.txt"
                done = subprocess.run([PROGRAM, file, "--drift", out, "--model", model, "--estimator",
                                       estimator, "--gain", "1", "--offset", "100"],
                                      capture_output=True, text=True)
                if done.returncode == 4:  # by the fitting library, of which this is no test
                    self.assertIn("driftfit: fitter: ", done.stderr)
                    self.assertFalse(out.exists())
                else:
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertLess(np.abs(np.loadtxt(out) - drift).max(), 0.02)

    def test_a_dark_frame_is_bridged(self):
        stack, drift = drifting(30)
        stack[12] = 100
        out = self.folder / "out"
        self.run_program(self.write_raw(stack), "-o", out)
        self.assertEqual(rows_of(f"{out}_drift.csv")[12], {
            "frame": "12", "x_px": "", "y_px": "", "x_nm": "", "y_nm": "", "x_sd_nm": "",
            "y_sd_nm": "", "markers": "0",
            "missing": "0 of 5 markers; 3 needed; 5 saturated or without contrast"})
        trace = np.loadtxt(f"{out}_drift.txt")
        self.assertTrue(np.allclose(trace[12], (trace[11] + trace[13]) / 2))
        self.assertLess(np.abs(trace - drift).max(), 0.025)  # five standard deviations


class Gaps(WithFolder):
    """Frames without a drift are told, written, and never filled in silence."""

    def results(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir() if p.name.startswith("out"))

    def blinking(self, share: float, frames: int = 60):
        """Three markers, each there in a share of the frames and all in the first."""
        shown = np.zeros((frames, 5), bool)
        shown[:, :3] = np.random.default_rng(3).random((frames, 3)) < share
        shown[0, :3] = True
        stack, drift = drifting(frames, shown=shown)
        return self.write_raw(stack), drift, shown.sum(1)

    def test_three_blinking_markers_give_no_file_that_looks_right(self):
        file, _, there = self.blinking(0.4)
        self.assertLess((there == 3).sum(), 10)
        said = self.run_program(file, "-o", self.folder / "out", code=5)
        self.assertIn(f"no drift in {(there < 3).sum()} of 60 frames: ", said)
        self.assertIn("3 of 3 markers are needed", said)
        self.assertIn(f"--min-markers 1: {(there >= 1).sum()} of 60 frames have a drift then", said)
        self.assertIn("nothing was written, as --min-drift-share is 0.5", said)
        self.assertEqual(self.results(), [])

    def test_with_fewer_markers_the_drift_is_right_and_gaps_are_told(self):
        file, drift, there = self.blinking(0.5)
        done = subprocess.run([PROGRAM, file, "-q", "-o", self.folder / "out", "--min-markers", "1"],
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        gaps = (there == 0).sum()
        self.assertGreater(gaps, 60 * 0.05)
        self.assertIn(f"warning: no drift in {gaps} of 60 frames: ", done.stderr)
        self.assertIn("out_drift.txt has numbers interpolated there", done.stderr)
        for row, truth, markers in zip(rows_of(self.folder / "out_drift.csv"), drift - drift[0], there):
            self.assertEqual(row["markers"] == "0", markers == 0)
            self.assertEqual(row["missing"].startswith("0 of 3 markers; 1 needed;"), markers == 0)
            if markers:  # one marker: 0.0075 px in its frame, its place and the reference
                self.assertLess(abs(float(row["x_px"]) - truth[0]), 0.05)
                self.assertLess(abs(float(row["y_px"]) - truth[1]), 0.05)

    def test_a_jump_of_the_drift_is_warned_of(self):
        stack, _ = drifting(40)
        stack[23:] = np.roll(stack[23:], 4, axis=1)  # rows: along y
        for columns, warned in ("--drift", True), ("--thunderstorm", False):
            done = subprocess.run([PROGRAM, self.write_raw(stack), "-q", "--overwrite", columns,
                                   self.folder / "out.txt"], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("jumps by 4.0 px between frames 22 and 23" in done.stderr, warned)

    def odd_frame(self, dark: list[int], off, frames: int = 100, at: int = 30):
        """Three markers; in one frame some are dark and a brighter speck lies beside the third."""
        shown = np.zeros((frames, 5), bool)
        shown[:, :3] = True
        shown[at, dark] = False
        stack, drift = drifting(frames, shown=shown)
        y, x = np.mgrid[:96, :96]
        px, py = PLACES[2] + drift[at] + off
        speck = 6000 * np.exp(-((x - px)**2 + (y - py)**2) / (2 * 1.3**2))
        stack[at] += np.random.default_rng(2).poisson(speck).astype(np.uint16)
        return self.write_raw(stack), drift

    def drawn(self, own, *arguments, code=0):
        """Three markers that also go their own way: own(marker, frame) is x and y."""
        random, (y, x) = np.random.default_rng(4), np.mgrid[:64, :80]
        drift = np.column_stack([np.linspace(0, 1, 100), np.linspace(0, -0.5, 100)])
        stack = np.empty((100, 64, 80), np.uint16)
        for frame, (dx, dy) in enumerate(drift):
            mean = np.full((64, 80), 100.0)
            for marker, (px, py) in enumerate(self.OF_OWN):
                ax, ay = own(marker, frame)
                mean += 750 * np.exp(-((x - px - dx - ax)**2 + (y - py - dy - ay)**2) / (2 * 1.3**2))
            stack[frame] = random.poisson(mean)
        file = self.folder / "own.tif"
        file.write_bytes(tiff_of(stack, ""))
        done = subprocess.run([PROGRAM, file, "--drift-csv", self.folder / "d.csv", "--overwrite", *arguments],
                              capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            return done.stderr, []
        rows = rows_of(self.folder / "d.csv")
        off = [np.hypot(float(row["x_px"]) - dx, float(row["y_px"]) - dy) for row, (dx, dy) in zip(rows, drift)
               if row["x_px"]]
        return done.stderr, off

    OF_OWN = ((15, 14), (50, 20), (30, 45))

    def test_a_marker_that_slips_costs_no_drift_and_is_named(self):
        for slip, frame in (0.3, 50), (1.5, 50), (2.5, 20), (3, 80):
            said, off = self.drawn(lambda marker, t, slip=slip, frame=frame: (slip if marker == 0 and t >= frame else 0, 0))
            self.assertGreaterEqual(len(off), 94)  # five until one beyond the reach is taken back
            self.assertLess(max(off), 0.1)
            told = re.search(r"warning: marker \d at 15.0, 14.0 is ([0-9.]+) px from where it was from frame (\d+) on", said)
            self.assertTrue(told, said)
            self.assertAlmostEqual(float(told[1]), slip, delta=0.05)
            self.assertLessEqual(abs(int(told[2]) - frame), 5)
        said, off = self.drawn(lambda marker, t: (1 if marker == 0 and t >= 30 else 0, 0.7 if marker == 2 and t >= 60 else 0))
        self.assertEqual(len(off), 100)
        self.assertLess(max(off), 0.1)
        self.assertIn("from frame 30 on", said)
        self.assertIn("from frame 60 on", said)
        self.assertEqual(self.drawn(lambda marker, t: (0, 0))[0], "")

    def test_a_marker_that_creeps_is_named_and_outvoted(self):
        for most_px in 0.5, 0.8, 1.0, 1.5:
            for arguments in [], ["--min-markers", "2"]:
                said, off = self.drawn(lambda marker, t, rate=most_px / 100: (rate * t if marker == 1 else 0, 0), *arguments)
                told = re.search(r"marker \d at (?:50.0|49.9), 20.0 and markers \d, \d move apart by up to ([0-9.]+)", said)
                self.assertTrue(told, said)
                self.assertAlmostEqual(float(told[1]), most_px, delta=0.15 * most_px)
                self.assertNotIn("no drift", said)
                self.assertEqual(len(off), 100)
                self.assertLess(max(off), 0.15)

    def test_of_a_marker_that_creeps_far_what_is_advised_helps(self):
        for most_px, code in (3, 0), (8, 5):
            with self.subTest(most_px=most_px):
                def creeps(marker, t, rate=most_px / 100):
                    return rate * t if marker == 1 else 0, 0
                said, off = self.drawn(creeps, code=code)
                self.assertIn("they do not agree", said)
                self.assertIn("--min-markers 2: 100 of 100 frames have a drift then", said)
                self.assertIn("that are there all the time and move together", said)
                said, off = self.drawn(creeps, "--min-markers", "2")
                self.assertEqual(len(off), 100)
                self.assertLess(max(off), 0.15)
                self.assertIn("the drift is that of the latter, which are more", said)
                picks = self.folder / "picks.csv"
                picks.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in (self.OF_OWN[0], self.OF_OWN[2])))
                said, off = self.drawn(creeps, "--picks", picks)
                self.assertEqual((said, len(off)), ("", 100))

    def test_of_two_that_contradict_fewer_markers_are_not_advised(self):
        picks = self.folder / "picks.csv"
        picks.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in self.OF_OWN[:2]))
        def slips(marker, t):
            return 2 if marker == 1 and t >= 60 else 0, 0
        said, off = self.drawn(slips, "--picks", picks)
        self.assertIn("no drift in 40 of 100 frames: 60 to 99", said)
        self.assertNotIn("--min-markers", said)
        self.assertIn("nobody can tell which stayed with the sample", said)
        self.assertEqual(len(self.drawn(slips, "--picks", picks, "--min-markers", "1")[1]), len(off))  # nor would they help

    def test_a_hop_is_told_with_the_frames_it_lies_between(self):
        said, _ = self.drawn(lambda marker, t: (0, 6 if marker == 0 and t >= 40 else 0))
        told = re.search(r"is ([0-9.]+) px from where it was from frame (\d+) on, and was seen there last in frame (\d+)", said)
        self.assertTrue(told, said)
        self.assertAlmostEqual(float(told[1]), 6, delta=0.1)
        self.assertEqual(int(told[3]), 39)
        self.assertGreater(int(told[2]), 40)

    def test_one_odd_frame_costs_that_frame_alone(self):
        for dark, off in ([0], (5, 0)), ([1], (-3, 4)), ([0, 1], (0, -5)), ([2], (4, 0)), ([0, 2], (0, 4)):
            with self.subTest(f"{dark} dark, a speck at {off}"):
                file, drift = self.odd_frame(dark, off)
                out = self.folder / "out"
                said = self.run_program(file, "-o", out, "--overwrite")
                self.assertIn("no drift in 1 of 100 frames: 30\n", said)
                rows = rows_of(f"{out}_drift.csv")
                self.assertEqual([r["frame"] for r in rows if r["markers"] == "0"], ["30"])
                there = np.array([[r["x_px"], r["y_px"]] for r in rows if r["markers"] != "0"], float)
                truth = np.delete(drift - drift[0], 30, axis=0)
                self.assertLess(np.abs(there - truth).max(), 0.05)

    def test_markers_that_are_seldom_found_are_named(self):
        shown = np.ones((60, 5), bool)
        shown[9:40, 3] = False
        stack, _ = drifting(60, shown=shown)
        picks = self.folder / "picks.csv"
        picks.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in PLACES))
        said = self.run_program(self.write_raw(stack), "--picks", picks, "--drift", self.folder / "out.txt")
        self.assertIn("marker 3 at 70.9, 74.4 was found in 29 of 60 frames: 31 not fitted\n", said)
        self.assertEqual(said.count("was found in"), 1)

    def test_the_shares_are_options(self):
        file, _, there = self.blinking(0.6)
        share = (there == 3).mean()
        out = self.folder / "out"
        said = self.run_program(file, "-o", out, "--min-drift-share", share + 0.01, code=5)
        self.assertIn("--min-drift-share is", said)
        for warn_below, warned in (share + 0.01, True), (share - 0.01, False):
            done = subprocess.run([PROGRAM, file, "-o", out, "--overwrite", "--min-drift-share",
                                   str(share - 0.01), "--warn-drift-share", str(warn_below)],
                                  capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("warning" in done.stderr, warned)
            self.assertEqual("no drift in" in done.stdout, not warned)
        # Localizations alone are what they are.
        said = self.run_program(file, "--thunderstorm", self.folder / "out.csv",
                                "--min-drift-share", 1, code=2)
        self.assertIn("--min-drift-share is for the drift, which is not asked for", said)

    def test_markers_are_sought_in_later_frames_where_the_first_is_empty(self):
        for dark in 1, 9, 41:
            shown = np.ones((60, 5), bool)
            shown[:dark] = False
            stack, drift = drifting(60, shown=shown)
            out = self.folder / f"out{dark}"
            said = self.run_program(self.write_raw(stack), "-o", out, "--min-drift-share", 0.2)
            # Sought in each of 32 frames, then at distances of a sixteenth.
            found = int(said.split("5 markers found in frame ")[1].split(",")[0])
            self.assertIn(found - dark, [0] if dark < 32 else [0, 1])
            table = rows_of(f"{out}_drift.csv")
            self.assertEqual([int(r["markers"]) > 2 for r in table],
                             [False] * found + [True] * (60 - found))
            self.assertEqual(table[0]["missing"], "0 of 5 markers; 3 needed; 5 not sought yet")
            off = np.loadtxt(f"{out}_drift.txt")[found:] - (drift - drift[found])[found:]
            self.assertLess(np.abs(off).max(), 0.02)

    def test_a_reference_without_markers_names_one_that_has_them(self):
        shown = np.ones((20, 5), bool)
        shown[:3, 1:] = False
        stack, _ = drifting(20, shown=shown)
        picks = self.folder / "picks.csv"
        picks.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in PLACES))
        file, arguments = self.write_raw(stack), ("--picks", picks, "-o", self.folder / "out")
        said = self.run_program(file, *arguments, "--reference", 2, code=1)
        self.assertIn("in the reference frame 2; what may help:\n  --min-markers 1: 20 of 20 frames have a drift "
                      "then\n  --reference 3: 17 of 20 frames have a drift then\n  --picks: ", said)
        self.assertEqual(self.results(), [])
        self.run_program(file, *arguments, "--reference", 2, "--min-markers", 1)  # as is advised, the one or the other
        self.run_program(file, *arguments, "--reference", 3, "--overwrite")

    def test_advice_that_is_followed_to_the_letter_writes_a_drift(self):
        shown = np.zeros((20, 5), bool)
        shown[[0, 1, 2, 9], :3] = True
        shown[4:8, 0] = True
        stack, _ = drifting(20, shown=shown)
        file, table = self.write_raw(stack), self.folder / "out.csv"
        for asked, code in ([], 5), (["--reference", "6"], 1), (["--min-markers", "2", "--reference", "5"], 1):
            said = self.run_program(file, "--drift-csv", table, *asked, code=code)
            advised = re.findall(r"^  (--.*): (\d+) of 20 frames have a drift then$", said, re.MULTILINE)
            self.assertEqual(len(advised), 2 if code == 1 else 1, said)
            for options, frames in advised:
                given = dict(zip(asked[::2], asked[1::2]))
                given.update(zip(options.split()[::2], options.split()[1::2]))
                self.run_program(file, "--drift-csv", table, "--overwrite", *(text for pair in given.items() for text in pair))
                self.assertEqual(sum(row["x_px"] != "" for row in rows_of(table)), int(frames))
            table.unlink()

    def test_a_reference_that_none_agree_in_is_told_what_would_do(self):
        def scattered(marker, t):
            return ((2.4, 0), (-2.3, 0), (0, -2.1))[marker] if t == 30 else (0, 0)
        said, _ = self.drawn(scattered, "--reference", "30", code=5)
        self.assertIn("  --reference 0: 99 of 100 frames have a drift then\n", said)
        self.assertNotIn("--min-markers", said)
        self.assertEqual(len(self.drawn(scattered, "--reference", "0")[1]), 99)
        for fewer in "2", "1":  # nor would they help
            self.drawn(scattered, "--reference", "30", "--min-markers", fewer, code=5)

    def test_one_frame_and_one_marker_are_told_in_the_singular(self):
        stack, _ = drifting(2)
        picks = self.folder / "picks.csv"
        picks.write_text("x,y\n" + "{},{}\n".format(*PLACES[0]))
        stack[1] = 100
        said = self.run_program(self.write_raw(stack), "--picks", picks, "--drift", self.folder / "out.txt")
        self.assertIn("2 frames, 1 marker, 1 of 2 fits good, drift in 1 frame (", said)
        self.assertIn("was found in 1 of 2 frames: 1 saturated", said)
        said = self.run_program(self.write_raw(stack), "--picks", picks, "--drift", self.folder / "out.txt",
                                "--overwrite", "--min-drift-share", "0.6", code=5)
        self.assertIn("1 of 1 marker is needed; in this frame, of 1 in all 1 saturated", said)


class Choices(WithFolder):
    def two_channels(self):
        """OME-TIFF whose second channel drifts the other way than the first."""
        there, drift = drifting(40)
        pages = [page for pair in zip(there, there[:, ::-1, ::-1]) for page in pair]
        xml = ('<OME><Image><Pixels DimensionOrder="XYCZT" SizeX="96" SizeY="96" SizeZ="1" SizeC="2" '
               'SizeT="40"><Channel Name="Cy5"/><Channel Name="GFP"/><TiffData/></Pixels></Image></OME>')
        file = self.folder / "s.ome.tif"
        file.write_bytes(tiff_of(pages, xml))
        return file, drift

    def test_two_channels_are_not_one_movie(self):
        file, drift = self.two_channels()
        out = self.folder / "out.txt"
        said = self.run_program(file, "--drift", out, code=1)
        self.assertIn("has 2 channels: 0 (Cy5), 1 (GFP); choose one by the option --channel", said)
        self.assertFalse(out.exists())
        for channel, sign in (0, 1), (1, -1):
            said = self.run_program(file, "--drift", out, "--overwrite", "--channel", channel)
            self.assertIn(f"s.ome.tif: channel {channel}\n40 frames, 5 markers", said)
            self.assertLess(np.abs(np.loadtxt(out) - sign * drift).max(), 0.03)

    def test_the_times_of_frames_stand_beside_the_drift(self):
        stack, _ = drifting(6)
        times_s = [0.0, 0.1, 0.25, 0.375, 1.0, 1.125]
        file = self.folder / "s.ome.tif"
        out = self.folder / "out.csv"
        by_hand = "".join(f'<Plane TheZ="0" TheC="0" TheT="{t}" DeltaT="{1000 * s}" DeltaTUnit="ms"/>'
                          for t, s in enumerate(times_s) if t != 3)
        file.write_bytes(tiff_of(stack, (
            '<OME><Image><Pixels DimensionOrder="XYCZT" SizeX="96" SizeY="96" SizeZ="1" SizeC="1" SizeT="6">'
            f'<TiffData/>{by_hand}</Pixels></Image></OME>')))
        self.run_program(file, "--drift-csv", out, "--first-frame", 1)
        self.assertEqual([r["time_s"] for r in rows_of(out)],
                         ["0.100000000", "0.250000000", "", "1.000000000", "1.125000000"])
        if tifffile is None:
            print("without tifffile's own file: python3-tifffile is not installed")
        else:
            tifffile.imwrite(file, stack, ome=True, photometric="minisblack", metadata={
                "axes": "TYX", "Plane": {"DeltaT": times_s, "DeltaTUnit": ["s"] * 6}})
            self.run_program(file, "--drift-csv", out, "--overwrite")
            self.assertEqual([float(r["time_s"]) for r in rows_of(out)], times_s)
        self.run_program(self.write_raw(stack), "--drift-csv", out, "--overwrite")
        self.assertNotIn("time_s", rows_of(out)[0])

    @unittest.skipIf(tifffile is None, "python3-tifffile is not installed")
    def test_the_times_of_micro_manager_stand_beside_the_drift(self):
        stack, _ = drifting(5)
        file, out = self.folder / "s.tif", self.folder / "out.csv"
        told = ['"ElapsedTime-ms": 125.5', '"ElapsedTime-ms":"250"', '"Exposure-ms": 10', '"ElapsedTime-ms" : 3.75e2', '"ElapsedTime-ms": null']
        with tifffile.TiffWriter(file) as writer:
            for page, time in zip(stack, told):
                writer.write(page, photometric="minisblack", metadata=None, contiguous=False,
                             extratags=[(51123, 2, None, '{"PixelType": "GRAY16", ' + time + ', "Width": 96}', True)])
        self.run_program(file, "--drift-csv", out)
        self.assertEqual([r["time_s"] for r in rows_of(out)], ["0.125500000", "0.250000000", "", "0.375000000", ""])

    def test_times_of_others_and_frames_without_are_no_times(self):
        stack, _ = drifting(5)
        file, out = self.folder / "s.tif", self.folder / "out.csv"
        others = '"UserData": {"a": "\\"}", "Trigger": [{"ElapsedTime-ms": 7}]}, "Comment": "\\"ElapsedTime-ms\\": 8, {"'

        def times_of(told):
            with tifffile.TiffWriter(file) as writer:
                for page, time in zip(stack, told):
                    writer.write(page, photometric="minisblack", metadata=None, contiguous=False,
                                 extratags=[(51123, 2, None, "{" + others + ("," + time if time else "") + "}", True)])
            said = self.run_program(file, "--drift-csv", out, "--overwrite")
            return [r.get("time_s") for r in rows_of(out)], said

        times, said = times_of([None, *('"ElapsedTime-ms": %d' % (100 * t) for t in range(1, 5))])
        self.assertEqual(times, ["", "0.100000000", "0.200000000", "0.300000000", "0.400000000"])
        self.assertIn("of 1 frame the metadata have no time", said)
        self.assertEqual(times_of([None] * 5)[0], [None] * 5)

    def test_a_page_for_two_frames_is_one_measurement(self):
        stack, drift = drifting(40)
        page = [t if t % 8 != 5 else t - 2 for t in range(40)]  # frames 5, 13, 21, 29, 37
        blocks = "".join(f'<TiffData FirstT="{t}" IFD="{p}"/>' for t, p in enumerate(page))
        file = self.folder / "s.ome.tif"
        file.write_bytes(tiff_of(stack, (
            '<OME><Image><Pixels DimensionOrder="XYCZT" SizeX="96" SizeY="96" SizeZ="1" SizeC="1" '
            f'SizeT="40">{blocks}</Pixels></Image></OME>')))
        out = self.folder / "out"
        said = self.run_program(file, "-o", out, "--warn-drift-share", "0.8")
        self.assertIn("5 frames are the page of an earlier one", said)
        self.assertIn("no drift in 5 of 40 frames: 5, 13, 21, 29, 37", said)
        rows = rows_of(f"{out}_drift.csv")
        self.assertEqual([r["missing"] for r in rows if r["frame"] in ("5", "37")],
                         ["0 of 5 markers; 3 needed; 5 not recorded (the page of an earlier frame)"] * 2)
        self.assertLess(np.abs(np.loadtxt(f"{out}_drift.txt") - drift).max(), 0.03)
        self.run_program(file, "--every-spot", "--thunderstorm", self.folder / "t.csv")
        for table in f"{out}_thunderstorm.csv", self.folder / "t.csv":
            frames = [int(r["frame"]) - 1 for r in rows_of(table)]
            self.assertEqual(sorted(set(frames)), [t for t in range(40) if page[t] == t])
            self.assertEqual(len(frames), 5 * 35)

    def test_a_truncated_stack_is_used_as_far_as_it_goes_when_asked(self):
        stack, drift = drifting(30)
        whole = {"s.tif": tiff_of(stack, ""), "s.raw": stack.tobytes()}
        if h5py is not None:
            with h5py.File(self.folder / "s.h5", "w") as file:
                file["images"] = stack
            whole["s.h5"] = (self.folder / "s.h5").read_bytes()
        self.write_raw(stack, "s.raw")  # for its description
        for name, content in whole.items():
            with self.subTest(name):
                (self.folder / name).write_bytes(content[:len(content) * 7 // 10])
                out = self.folder / f"{name}.txt"
                said = self.run_program(self.folder / name, "--drift", out, code=1)
                self.assertIn("is truncated: ", said)
                self.assertIn("the option --allow-truncated takes what is there", said)
                self.assertFalse(out.exists())
                said = self.run_program(self.folder / name, "--drift", out, "--allow-truncated")
                frames = int(said.split("is truncated: ")[1].split()[0])
                self.assertIn(frames, (20, 21))
                self.assertIn(f"\n{frames} frames, 5 markers", said)
                trace = np.loadtxt(out)
                self.assertEqual(len(trace), frames)
                self.assertLess(np.abs(trace - drift[:frames]).max(), 0.02)

    @unittest.skipIf(h5py is None, "python3-h5py is not installed")
    def test_frames_that_were_never_written(self):
        stack, drift = drifting(25)
        out = self.folder / "out.txt"
        for chunk in (10, 96, 96), None:
            with h5py.File(self.folder / "s.h5", "w") as file:
                images = file.create_dataset("images", (40, 96, 96), stack.dtype, chunks=chunk)
                images[:25] = stack
            if chunk:
                said = self.run_program(self.folder / "s.h5", "--drift", out, code=1)
                self.assertIn("is truncated: 25 of 40 frames are whole", said)
            else:
                said = self.run_program(self.folder / "s.h5", "--drift", out, "--overwrite",
                                        "--warn-drift-share", 0.5)
                self.assertIn("its last 15 of 40 frames hold the fill value alone", said)
            said = self.run_program(self.folder / "s.h5", "--drift", out, "--overwrite",
                                    "--last-frame", 24)
            self.assertNotIn("fill value", said)
            self.assertIn("25 frames, 5 markers", said)
            self.assertLess(np.abs(np.loadtxt(out)[:25] - drift).max(), 0.02)


class Manners(WithFolder):
    def left(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir())

    def test_exit_codes_and_no_partial_results(self):
        stack, _ = drifting(4)
        file = self.write_raw(stack)
        before = self.left()
        out = self.folder / "out"
        for code, arguments, text in (
                (2, [], "stack"),
                (2, [file], "no result is asked for"),
                (2, [file, "-o", out, "--roi", "65"], "roi"),
                (2, [file, "-o", out, "--last-frame", "9"], "has 0 to 3"),
                (1, [self.folder / "none.tif", "-o", out], "none.tif: no such file"),
                (1, [file, "-o", out, "--width", "95"], "not a whole number of frames"),
                (1, [file, "-o", out, "--picks", self.folder / "none.csv"], "none.csv"),
                (1, [file, "-o", out, "--min-snr", "1e6"], "no marker was found"),
                (3, [file, "-o", self.folder / "none/out"], "there is no folder"),
                (4, [file, "-o", out, "--backend", "cuda", "--devices", "99"], "CUDA")):
            self.assertIn(text, self.run_program(*arguments, code=code), arguments)
            self.assertEqual(self.left(), before, arguments)

    def test_older_results_are_kept_unless_told_otherwise(self):
        stack, _ = drifting(4)
        file = self.write_raw(stack)
        out = self.folder / "d.txt"
        out.write_text("older")
        self.assertIn("--overwrite", self.run_program(file, "--drift", out, code=3))
        self.assertEqual(out.read_text(), "older")
        self.run_program(file, "--drift", out, "--overwrite")
        self.assertEqual(len(np.loadtxt(out)), 4)

    def test_the_description_is_utf_8_whatever_the_name(self):
        stack, _ = drifting(4)
        file = self.folder / os.fsdecode(b"\xff\xe4.raw")
        file.write_bytes(stack.astype("<u2").tobytes())
        self.run_program(file, "--width", 96, "--height", 96, "--type", "u16", "-o", self.folder / "out")
        self.assertIn("/??.raw\n", (self.folder / "out_locs.yaml").read_bytes().decode("utf-8"))

    def test_a_device_or_pipe_is_no_older_result(self):
        stack, _ = drifting(4)
        file = self.write_raw(stack)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assertIn("pipe: is a device, pipe or socket", self.run_program(file, "--drift", pipe, "--overwrite", code=3))
        self.assertTrue(pipe.is_fifo())

    def test_progress_only_when_asked_for_or_seen(self):
        stack, _ = drifting(4)
        file = self.write_raw(stack)
        for option, shown in ((None, False), ("--progress", True), ("--no-progress", False)):
            done = subprocess.run([PROGRAM, file, "-q", "--overwrite", "--drift", self.folder / "d",
                                   *([option] if option else [])], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("frames" in done.stderr, shown, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_interrupted_leaves_nothing(self):
        file = self.folder / "large.raw"
        with open(file, "wb") as out:  # sparse: 100,000 frames without spots
            out.truncate(100_000 * 256 * 256 * 2)
        child = subprocess.Popen([PROGRAM, file, "--width", "256", "--height", "256", "--type",
                                  "u16", "--every-spot", "-o", self.folder / "out"],
                                 stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 30
        while len(self.left()) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        self.assertIn("interrupted", child.communicate(timeout=60)[1])
        self.assertEqual(child.returncode, 130)
        self.assertEqual(self.left(), ["large.raw"])


if __name__ == "__main__":
    unittest.main()
