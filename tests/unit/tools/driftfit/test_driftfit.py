# SPDX-License-Identifier: MIT
"""The program driftfit: a stack drawn here with a known drift, and real recordings against
independent references (skipped without them)."""
import csv
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)
try:
    import h5py
except ImportError:
    h5py = None

SOURCE = pathlib.Path(__file__).resolve().parents[4]
PROGRAM = os.environ.get("DRIFTFIT", str(SOURCE / "build/release/bin/driftfit"))
DATA = pathlib.Path(os.environ.get("DRIFTD_TEST_DATA", SOURCE.parent / "shared/data"))
PLACES = np.array([(20.3, 22.1), (75.6, 19.8), (24.2, 71.5), (70.9, 74.4), (47.1, 48.6)])


def rows_of(file) -> list[dict]:
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def drifting(frames: int, side: int = 96, seed: int = 1, shown=None):
    """Frames of five spots of 3e4 photons with shot noise, and the drift (x, y) they follow.
    `shown` says which spots a frame has (default: all in all)."""
    random = np.random.default_rng(seed)
    t = np.arange(frames)
    drift = np.column_stack([0.05 * t, 1.5 * np.sin(t / 20)])
    y, x = np.mgrid[:side, :side]
    stack = np.empty((frames, side, side), np.uint16)
    for frame, (dx, dy) in enumerate(drift):
        mean = np.full((side, side), 20.0)
        for px, py in PLACES if shown is None else PLACES[shown[frame]]:
            mean += 2800 * np.exp(-((x - px - dx)**2 + (y - py - dy)**2) / (2 * 1.3**2))
        stack[frame] = 100 + random.poisson(mean)
    return stack, drift


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="driftfit-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments, code=0) -> str:
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=100)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code == 0 else done.stderr

    def write_raw(self, stack, name="stack.raw") -> pathlib.Path:
        file = self.folder / name
        stack.tofile(file)
        file.with_suffix(".yaml").write_text(
            f"Width: {stack.shape[2]}\nHeight: {stack.shape[1]}\nFrames: {stack.shape[0]}\n"
            f"Data Type: {stack.dtype}\nByte Order: '<'\n")
        return file


class Synthetic(WithFolder):
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
        self.assertIn(f"--min-markers 1: {(there >= 1).sum()} of 60 frames have so many", said)
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
        said = self.run_program(self.write_raw(stack), "--picks", picks, "--reference", 2, "-o",
                                self.folder / "out", code=1)
        self.assertIn("in the reference frame 2", said)
        self.assertIn("the first with so many is 3", said)
        self.assertEqual(self.results(), [])


def tiff_of(pages, description: str) -> bytes:
    """A little-endian TIFF of 16-bit pages, after the TIFF 6.0 specification; the description is the
    first page's."""
    height, width = pages[0].shape
    out, link = bytearray(b"II*\0\0\0\0\0"), 4
    for i, page in enumerate(pages):
        at = len(out)
        out += page.astype("<u2").tobytes()
        text = description.encode() + b"\0" if i == 0 and description else b""
        entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 16), (259, 3, 1, 1),
                   (262, 3, 1, 1), (273, 4, 1, at), (277, 3, 1, 1), (278, 4, 1, height),
                   (279, 4, 1, 2 * width * height)]
        directory = len(out)
        if text:
            entries.insert(5, (270, 2, len(text), directory + 6 + 12 * (len(entries) + 1)))
        out[link:link + 4] = struct.pack("<I", directory)
        out += struct.pack("<H", len(entries))
        for entry in entries:
            out += struct.pack("<HHII", *entry)
        link = len(out)
        out += b"\0\0\0\0" + text
    return bytes(out)


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


@unittest.skipUnless(DATA.is_dir(), "no recordings")
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


if __name__ == "__main__":
    unittest.main()
