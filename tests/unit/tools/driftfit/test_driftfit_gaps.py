# SPDX-License-Identifier: MIT
"""Frames of which driftfit tells no drift, or a doubtful one, and what it says then."""
import re
import subprocess
import unittest

from driftfit_program import PLACES, PROGRAM, WithFolder, drifting, np, rows_of, tiff_of


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


if __name__ == "__main__":
    unittest.main()
