# SPDX-License-Identifier: MIT
"""driftfit with a camera's maps, written by tifffile: what it refuses, what it finds on a simulated sCMOS camera with hot
pixels, and that it fits what the Python module fits with the same maps. DRIFTFIT_TELL=1 prints what docs/use/driftfit.md tells."""
import os
import pathlib
import re
import sys
import unittest

from driftfit_program import PROGRAM, SOURCE, WithFolder, np, rows_of

try:
    import tifffile
except ImportError:
    print("SKIPPED: python3-tifffile is not installed")
    sys.exit(0)

os.environ.setdefault("DRIFTFIT_LIBRARY", str(pathlib.Path(PROGRAM).resolve().parents[1] / "lib/libdriftfit.so"))
sys.path.insert(0, str(SOURCE / "fitter/python"))
import driftd_fit  # noqa: E402

SIDE, SIGMA = 96, 1.2


class Camera:
    """Maps of an sCMOS camera: gain in e-/ADU, offset in ADU, variance of the read noise in ADU^2."""

    def __init__(self, hot_share: float, seed: int = 1, side: int = SIDE):
        random = np.random.default_rng(seed)
        size = side, side
        self.gain = random.normal(0.5, 0.02, size).astype(np.float32)
        self.offset = random.normal(100, 2, size).astype(np.float32)
        electrons = random.exponential(0.6, size) + 1.4
        self.hot = random.uniform(size=size) < hot_share
        electrons[self.hot] = 10 ** random.uniform(2.5, 4, self.hot.sum())
        self.variance = (electrons / self.gain**2).astype(np.float32)

    def expose(self, photons: np.ndarray, random) -> np.ndarray:
        adu = random.poisson(photons) / self.gain + self.offset
        return np.rint(np.clip(adu + random.normal(0, np.sqrt(self.variance), photons.shape), 0, 65535)).astype(np.uint16)


def spots_on(places, photons: float, background: float, side: int = SIDE) -> np.ndarray:
    """Expected photons of each pixel."""
    y, x = np.mgrid[:side, :side]
    frame = np.full((side, side), float(background))
    for px, py in places:
        frame += photons / (2 * np.pi * SIGMA**2) * np.exp(-((x - px)**2 + (y - py)**2) / (2 * SIGMA**2))
    return frame


def movie(camera: Camera, frames: int, photons: float, background: float):
    """Frames of 16 spots on a jittered grid, and where they are: (frames, 16, 2)."""
    random = np.random.default_rng(7)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).reshape(-1, 2) * 22 + 15
    truth = grid + random.uniform(-3, 3, (frames, 16, 2))
    return np.array([camera.expose(spots_on(t, photons, background), random) for t in truth]), truth


class WithMaps(WithFolder):
    def save(self, name: str, pixels: np.ndarray):
        file = self.folder / f"{name}.tif"
        tifffile.imwrite(file, pixels, photometric="minisblack")
        return file

    def map_options(self, camera: Camera) -> list:
        return ["--gain-map", self.save("gain", camera.gain), "--offset-map", self.save("offset", camera.offset),
                "--variance-map", self.save("variance", camera.variance)]

    def localize(self, stack, *options) -> np.ndarray:
        """Rows of frame (from 0), x and y in px, photons, uncertainty in px."""
        out = self.folder / "spots.csv"
        self.said = self.run_program(stack, "--every-spot", "--estimator", "poisson", "--thunderstorm", out, "--overwrite",
                                     "--backend", "cpu", *options)
        return np.array([[float(r["frame"]) - 1, float(r["x [nm]"]) / 100 - 0.5, float(r["y [nm]"]) / 100 - 0.5,
                          float(r["intensity [photon]"]), float(r["uncertainty_xy [nm]"]) / 100] for r in rows_of(out)])

    def errors(self, found: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """x and y of each localization from the nearest true place of its frame."""
        away = found[:, None, 1:3] - truth[found[:, 0].astype(int)]
        nearest = np.hypot(away[..., 0], away[..., 1]).argmin(1)
        return away[np.arange(len(found)), nearest]


class Found(WithMaps):
    def test_hot_pixels_are_no_spots_and_bias_none(self):
        camera = Camera(0.01)
        frames, truth = movie(camera, 60, 300, 2)
        stack = self.save("stack", frames)
        hot = np.argwhere(camera.hot)[:, ::-1]

        def told(*options):
            """Spots sought, false ones fitted, share found, rms error of x and y beside hot pixels, errors over reported ones."""
            found = self.localize(stack, *options)
            errors = self.errors(found, truth)
            real = np.hypot(*errors.T) < 1
            beside = real & (np.abs(found[:, None, 1:3] - hot).max(2).min(1) < 3)
            of = (int(re.search(r"(\d+) spots found", self.said)[1]), (~real).sum(), real.sum() / truth[..., 0].size,
                  np.sqrt((errors[beside]**2).mean()), np.sqrt((errors[real]**2 / found[real, 4:]**2).mean()))
            if os.environ.get("DRIFTFIT_TELL"):
                print("sought {}, false {}, found {:.3f}, beside hot pixels {:.4f} px, over reported {:.2f}".format(*of))
            return of

        camera_options = ["--gain", 0.5, "--offset", 100, "--read-noise", 1.4]
        sought_before, _, share_before, beside_before, over_before = told(*camera_options)
        sought, false, share, beside, over = told(*self.map_options(camera))
        self.assertGreater(sought_before, truth[..., 0].size + 300)
        self.assertEqual(sought, truth[..., 0].size)
        self.assertEqual(false, 0)
        self.assertLess(share_before, 0.93)
        self.assertGreater(share, 0.99)
        self.assertLess(beside, 0.7 * beside_before)
        self.assertGreater(over_before, 1.2)
        self.assertAlmostEqual(over, 1, delta=0.08)

    @unittest.skipIf(os.environ.get("DRIFTD_SANITIZED"), "the interpreter is not instrumented, the library is")
    def test_what_the_python_module_fits_with_the_same_maps(self):
        camera = Camera(0.005, seed=2)
        camera.variance[40:42, 50] = np.inf
        frames, _ = movie(camera, 10, 1000, 5)
        found = self.localize(self.save("stack", frames), *self.map_options(camera), "--roi", 9)
        self.assertGreater(len(found), 150)
        # The middle of a ROI is a pixel next to the spot, which driftfit does not tell.
        near = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 2), -1).reshape(-1, 2)
        places = np.concatenate([np.rint(found[:, None, 1:3]).astype(int) + near,
                                 np.broadcast_to(found[:, None, :1].astype(int), (len(found), 9, 1))], 2)
        fits = driftd_fit.fit_frames(frames, places.reshape(-1, 3), 9, estimator="poisson", backend="cpu",
                                     gain_map=camera.gain, offset_map=camera.offset, variance_map=camera.variance)
        fits = fits.reshape(len(found), 9)
        off = np.hypot(fits["x"] - found[:, None, 1], fits["y"] - found[:, None, 2])
        best = off.argmin(1)
        self.assertLess(off.min(1).max(), 1e-4)
        of_best = fits[np.arange(len(found)), best]
        photons = 2 * np.pi * of_best["sigma_x"] * of_best["sigma_y"] * of_best["amplitude"]
        np.testing.assert_allclose(photons, found[:, 3], rtol=1e-3)

    def test_a_part_of_the_sensor(self):
        camera = Camera(0.01)
        frames, _ = movie(camera, 4, 800, 5)
        part = self.save("part", np.ascontiguousarray(frames[:, 20:80, 10:90]))
        whole = self.localize(part, *self.map_options(camera), "--map-origin", "10,20")
        for name in "gain", "offset", "variance":
            setattr(camera, name, getattr(camera, name)[20:80, 10:90])
        np.testing.assert_array_equal(whole, self.localize(part, *self.map_options(camera)))
        self.assertGreater(len(whole), 20)

    def test_maps_as_numpy_makes_them(self):
        camera = Camera(0.01)
        frames, _ = movie(camera, 4, 800, 5)
        stack = self.save("part", frames)
        as_floats = self.localize(stack, *self.map_options(camera))
        self.assertGreater(len(as_floats), 20)
        for name in "gain", "offset", "variance":
            pixels = getattr(camera, name).astype(np.float64)
            with tifffile.TiffWriter(self.folder / f"{name}.tif") as out:  # a thumbnail, as viewers have it, before the map
                out.write(np.zeros((9, 9, 3), np.uint8), photometric="rgb", metadata=None, subfiletype=1)
                out.write(pixels, photometric="minisblack", metadata=None)
        maps = [value for name in ("gain", "offset", "variance") for value in (f"--{name}-map", self.folder / f"{name}.tif")]
        np.testing.assert_array_equal(as_floats, self.localize(stack, *maps))

    def test_the_description_tells_of_the_file_and_the_maps(self):
        camera = Camera(0.01)
        frames, _ = movie(camera, 4, 800, 5)
        self.localize(self.save("stack", frames), *self.map_options(camera), "--picasso", self.folder / "s.hdf5")
        text = (self.folder / "s.yaml").read_text()
        for line in ("Data Type: uint16", "Sensitivity: 1", "Baseline: 0", f"Gain Map: {self.folder}/gain.tif",
                     f"Offset Map: {self.folder}/offset.tif", f"Variance Map: {self.folder}/variance.tif"):
            self.assertIn(line + "\n", text)
        read_noise = float(re.search("Read Noise: (.*)", text)[1])
        self.assertAlmostEqual(read_noise, np.sqrt(np.median(camera.variance * camera.gain**2)), places=3)

    def test_one_map_alone_and_whole_numbers(self):
        camera = Camera(0)
        camera.gain[:] = 0.5
        camera.offset = np.rint(camera.offset).astype(np.uint16)
        frames, truth = movie(camera, 10, 1000, 5)
        stack = self.save("stack", frames)
        offset, variance = self.save("offset", camera.offset), self.save("variance", camera.variance)
        for options in (["--offset-map", offset, "--gain", 0.5, "--read-noise", 1.4],
                        ["--variance-map", variance, "--gain", 0.5, "--offset", 100],
                        ["--gain-map", self.save("gain", camera.gain), "--offset", 100]):
            found = self.localize(stack, *options)
            self.assertEqual(len(found), 160, options)
            self.assertLess(np.hypot(*self.errors(found, truth).T).max(), 0.3)
            self.assertAlmostEqual(found[:, 3].mean(), 1000, delta=25)

    def test_markers_are_no_hot_pixels_and_are_followed(self):
        camera = Camera(0.01, seed=3)
        random = np.random.default_rng(5)
        grid = np.array([(20.3, 22.1), (75.6, 19.8), (24.2, 71.5), (70.9, 74.4), (47.1, 48.6)])
        drift = np.column_stack([0.05 * np.arange(40), np.sin(np.arange(40) / 8)])
        frames = np.array([camera.expose(spots_on(grid + d, 3000, 10), random) for d in drift])
        out = self.folder / "drift.txt"
        for estimator in "poisson", "weighted":
            said = self.run_program(self.save("stack", frames), "--drift", out, "--overwrite", "--estimator", estimator,
                                    *self.map_options(camera))
            self.assertIn("40 frames, 5 markers, ", said)
            self.assertIn(f"{camera.hot.sum()} of 9216 pixels are too noisy", said)
            # 0.025 px for a marker: 0.011 px for the five, and the reference's.
            self.assertLess(np.std(np.loadtxt(out) - drift, axis=0).max(), 0.02)

    def test_maps_of_whole_numbers_make_no_spots_of_noise(self):
        random = np.random.default_rng(5)
        counts = (random.poisson(0.05, (40, SIDE, SIDE)) + 100).astype(np.uint16)
        stack = self.save("dark", counts)
        offset = self.save("offset", np.full((SIDE, SIDE), 100, np.uint16))
        gain = self.save("gain", np.full((SIDE, SIDE), 2, np.uint16))
        for maps in ([], ["--offset-map", offset], ["--offset-map", offset, "--gain-map", gain]):
            with self.subTest(maps=maps):
                self.localize(stack, *(maps if "--gain-map" in maps else [*maps, "--gain", 1]))
                self.assertLess(int(re.search(r"(\d+) spots found", self.said)[1]), 10, self.said)

    def test_a_pixel_that_is_gone_may_show_anything(self):
        camera = Camera(0)
        stack, truth = movie(camera, 20, 2000, 5)
        for x, y in ((SIDE // 2, SIDE // 2), *np.rint(truth[0]).astype(int) + [2, 0]):
            camera.variance[y, x], stack[:, y, x] = np.inf, 65535
        kept = self.localize(self.save("movie", stack), *self.map_options(camera), "--saturation", 60000)
        self.assertEqual(len(kept), 320, self.said)
        camera.gain[np.isinf(camera.variance)] = 1e12
        self.assertTrue((self.localize(self.save("movie", stack), *self.map_options(camera)) == kept).all())
        alone = self.localize(self.save("movie", stack), "--variance-map", self.save("variance", camera.variance),
                              "--gain", 0.5, "--offset", 100, "--saturation", 60000)
        self.assertEqual(len(alone), 320, self.said)

    def test_a_saturated_pixel_beside_a_roi_takes_nothing_from_it(self):
        camera = Camera(0)
        stack, truth = movie(camera, 1, 3000, 5)
        stack = np.repeat(stack, 10, 0)
        for x, y in np.rint(truth[0]).astype(int):
            stack[:, y, x + 5] = 65535  # of ROIs of 9 px the first one beside them
        found = self.localize(self.save("movie", stack), *self.map_options(camera), "--roi", 9, "--saturation", 60000)
        self.assertEqual(len(found), 160, self.said)

    def test_saturation_is_that_of_the_pixels_as_they_were(self):
        camera = Camera(0)
        frames, _ = movie(camera, 4, 1000, 5)
        stack = self.save("stack", frames)
        level = int(np.sort(frames.max((1, 2)))[-2]) + 1  # of one frame's brightest spot alone
        every, some = (self.localize(stack, *self.map_options(camera), *more) for more in ([], ["--saturation", level]))
        self.assertEqual(len(some), len(every) - 1)

    def test_clipped_spots_are_told_by_what_the_camera_recorded(self):
        camera = Camera(0)
        frames, _ = movie(camera, 20, 4000, 5)
        offset = self.save("offset", camera.offset)
        for level in 0, 400:
            recorded = np.minimum(frames, level) if level else frames
            recorded[:, 2, 3] = 5000  # a hot pixel
            for name, scale in ("counts", None), ("floats", 1 / 4095), ("int16", 1):
                pixels = (recorded if scale is None else (recorded * scale).astype(np.float32 if scale < 1 else np.int16))
                maps = ["--offset-map", offset if scale != 1 / 4095 else self.save("o", camera.offset / 4095)]
                for options in ([], maps, [*maps, "--gain-map", self.save("gain", camera.gain)]):
                    self.localize(self.save(name, pixels), *options)
                    self.assertEqual("pixels or more of exactly" in self.said, level > 0, (name, options, self.said))
                    if level and scale != 1 / 4095:
                        self.assertIn("of exactly 400 at the top", self.said)

    def test_a_recording_below_its_dark_level_is_told(self):
        camera = Camera(0)
        frames, _ = movie(camera, 4, 2000, 5)
        stack = self.save("stack", frames)
        high = self.save("high", camera.offset + 50)
        for options, text in (
                (["--offset", 99], None), (["--offset", 160], "are below --offset, 160: there is no negative light"),
                (["--offset-map", self.save("offset", camera.offset)], None),
                (["--offset-map", high], "are below --offset-map: there is no negative light"),
                (["--offset-map", high, "--gain-map", self.save("gain", camera.gain)], "are below --offset-map")):
            self.localize(stack, *options)
            self.assertIn(text or "", self.said, options)
            self.assertEqual("negative light" in self.said, text is not None, (options, self.said))
        markers = self.run_program(stack, "--drift", self.folder / "drift.txt", "--offset", 160, "--min-drift-share", 0)
        self.assertIn("of the pixels in frame 0 are below --offset, 160", markers)
        none = self.run_program(stack, "--drift", self.folder / "drift.txt", "--offset", 9000, "--gain", 1, "--estimator",
                                "poisson", "--overwrite", code=1)
        self.assertIn("no marker was found", none)
        self.assertIn("are below --offset, 9000", none)

    def test_an_emccd_knows_its_errors(self):
        """Photons multiplied in a register: gamma-distributed counts."""
        random = np.random.default_rng(9)
        grid = np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).reshape(-1, 2) * 22 + 15
        truth = grid + random.uniform(-3, 3, (40, 16, 2))
        electrons = np.array([random.poisson(spots_on(t, 2000, 5)) for t in truth])
        multiplied = np.where(electrons > 0, random.gamma(np.maximum(electrons, 1), 300), 0)
        counts = multiplied / 15 + 100 + random.normal(0, 2, multiplied.shape)  # 300 a photon, 15 e- a count
        stack = self.save("stack", np.rint(np.clip(counts, 0, 65535)).astype(np.uint16))
        for factor, rms in (2, 1), (1, np.sqrt(2)):
            found = self.localize(stack, "--gain", 0.05, "--offset", 100, "--excess-noise", factor)
            errors = self.errors(found, truth)
            self.assertAlmostEqual(np.sqrt((errors**2 / found[:, 4:]**2).mean()), rms, delta=0.1)
            self.assertAlmostEqual(found[:, 3].mean(), 2000, delta=40)


class Refused(WithMaps):
    def test_maps_that_cannot_be_used_say_why(self):
        camera = Camera(0)
        frames, _ = movie(camera, 1, 800, 5)
        stack = self.save("stack", frames)

        def with_pixel(pixels, value):
            pixels = pixels.copy()
            pixels[3, 5] = pixels[7, 9] = value
            return pixels

        cases = [
            ("gain", camera.gain[:50, :60], "gain.tif: the map of gains has 60 x 50 px, the frames have 96 x 96 px"),
            ("gain", with_pixel(camera.gain, 0), "the gain of the pixel in column 5, row 3 (from 0) is 0 (and 1 more); allowed are"),
            ("gain", with_pixel(camera.gain, np.nan), "is nan"),
            ("gain", with_pixel(camera.gain, np.inf), "is inf"),
            ("gain", with_pixel(camera.gain, -1), "is -1"),
            ("offset", with_pixel(camera.offset, np.nan), "the offset of the pixel in column 5, row 3"),
            ("offset", with_pixel(camera.offset, np.inf), "allowed are finite numbers"),
            ("variance", with_pixel(camera.variance, -2), "the variance of the pixel in column 5, row 3 (from 0) is -2"),
            ("variance", with_pixel(camera.variance, np.nan), "infinity for a pixel that is gone"),
            ("variance", np.full((SIDE, SIDE), np.inf, np.float32), "half of the pixels or more are gone"),
            ("variance", np.stack([camera.variance] * 3), "3 images; a map of variances has one"),
            ("offset", camera.offset.astype(np.int32), "cannot be a map of offsets: page 0: 32-bit pixels of sample format 2; allowed are"),
        ]
        for name, pixels, text in cases:
            file = self.save(name, pixels)
            said = self.run_program(stack, "--every-spot", "-o", self.folder / "o", "--estimator", "poisson",
                                    f"--{name}-map", file, code=1)
            self.assertIn(str(file), said)
            self.assertIn(text, said)
        self.assertEqual(list(self.folder.glob("o_*")), [])
        said = self.run_program(stack, "-o", self.folder / "o", "--gain-map", self.save("gain", camera.gain),
                                "--map-origin", "0,1", code=1)
        self.assertIn("frames of 96 x 96 px with --map-origin 0,1 need one of 96 x 97 px or more", said)
        ones = np.ones((2, SIDE, SIDE), np.float32)
        for name, options, text in (
                ("cut off", {"truncate": True}, "2 images; a map of gains has one"),
                ("channels", {"metadata": {"axes": "CYX"}, "truncate": True}, "has 2 channels: 0, 1; a map of gains has one"),
                ("hyperstack", {"imagej": True, "metadata": {"axes": "CYX"}}, "has 2 channels"),
                ("positions.ome", {"ome": True, "metadata": {"axes": "ZYX"}}, "2 images")):
            file = self.folder / f"{name}.tif"
            tifffile.imwrite(file, ones, **options)
            said = self.run_program(stack, "-o", self.folder / "o", "--gain-map", file, code=1)
            self.assertIn(text, said)
            self.assertNotIn("option", said)
        turned = self.folder / "turned.tif"
        tifffile.imwrite(turned, ones[0], photometric="minisblack", metadata=None, extratags=[(274, "H", 1, 4, True)])
        said = self.run_program(stack, "-o", self.folder / "o", "--gain-map", turned, code=1)
        self.assertIn("(Orientation 4)", said)
        self.assertIn("a map of gains has one image, alone in its file, not packed by what loses, with its first row on top", said)
        colours = self.folder / "colours.tif"
        tifffile.imwrite(colours, np.ones((SIDE, SIDE, 3), np.uint8), photometric="rgb")
        self.assertIn("cannot be a map of gains: page 0: 3 samples a pixel, as colour images have: only grey images can be used",
                      self.run_program(stack, "-o", self.folder / "o", "--gain-map", colours, code=1))
        array = self.folder / "gain.npy"
        np.save(array, camera.gain)
        said = self.run_program(stack, "-o", self.folder / "o", "--gain-map", array, code=1)
        self.assertIn("gain.npy: cannot be a map of gains: is an array of numpy (.npy), which is not read here: save it by tifffile",
                      said)
        text = self.folder / "text.tif"
        text.write_text("no map")
        for file in text, self.folder / "nowhere.tif":
            self.assertIn(str(file), self.run_program(stack, "-o", self.folder / "o", "--gain-map", file, code=1))
        said = self.run_program(stack, "--drift", self.save("gain", camera.gain), "--gain-map", self.folder / "gain.tif",
                                "--overwrite", code=3)
        self.assertIn("is an input", said)


if __name__ == "__main__":
    unittest.main()
