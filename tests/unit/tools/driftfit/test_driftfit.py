# SPDX-License-Identifier: MIT
"""The program driftfit with stacks drawn here with a known drift."""
import os
import pathlib
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

    def running(self, *more, **how):
        """A run that has begun to write results, of 100,000 frames without spots."""
        file = self.folder / "large.raw"
        with open(file, "wb") as out:  # sparse
            out.truncate(100_000 * 256 * 256 * 2)
        child = subprocess.Popen([PROGRAM, file, "--width", "256", "--height", "256", "--type",
                                  "u16", "--every-spot", "-o", self.folder / "out", *more],
                                 stderr=subprocess.PIPE, text=True, **how)
        end = time.monotonic() + 30
        while len(self.left()) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return child

    def test_interrupted_or_hung_up_leaves_nothing(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(number):
                child = self.running()
                child.send_signal(number)
                self.assertIn("interrupted", child.communicate(timeout=60)[1])
                self.assertEqual(child.returncode, 130)
                self.assertEqual(self.left(), ["large.raw"])

    def test_under_nohup_a_hangup_ends_nothing(self):
        child = self.running(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        child.send_signal(signal.SIGHUP)
        time.sleep(0.3)  # some blocks
        self.assertIsNone(child.poll())
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)

    def test_results_are_written_though_nobody_reads_what_is_said(self):
        stack, _ = drifting(60)
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run([PROGRAM, self.write_raw(stack), "--progress", "--every-spot", "-o", self.folder / "out"],
                                  stdout=write, stderr=write)
        finally:
            os.close(write)
        self.assertEqual(done.returncode, 0)
        self.assertEqual([name for name in self.left() if name.startswith((".", "out"))],
                         ["out_locs.hdf5", "out_locs.yaml", "out_thunderstorm.csv"])


if __name__ == "__main__":
    unittest.main()
