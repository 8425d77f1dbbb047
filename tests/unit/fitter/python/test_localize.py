# SPDX-License-Identifier: MIT
"""Spots found and fitted in whole frames from Python: what driftfit --every-spot writes, to the bit; against a search
written here with numpy; and what is refused. DRIFTFIT is the program."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from made_spots import driftd_fit, np

try:
    import h5py
except ImportError:
    h5py = None
try:
    import tifffile
except ImportError:
    tifffile = None

PROGRAM = os.environ.get("DRIFTFIT")
HEIGHT, WIDTH = 70, 97


def drawn(count: int = 9, seed: int = 5):
    """Frames of some ten spots on a dark level that differs between pixels."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    mean = np.full((count, HEIGHT, WIDTH), 30.0)
    for frame in mean:
        for px, py, light in zip(random.uniform(0, WIDTH, 10), random.uniform(0, HEIGHT, 10), random.uniform(200, 2000, 10)):
            frame += light * np.exp(-((x - px)**2 + (y - py)**2) / (2 * 1.3**2))
    return (100 + random.poisson(mean)).astype(np.uint16)


def maps(seed: int = 6):
    random = np.random.default_rng(seed)
    made = {"gain_map": random.uniform(0.4, 0.5, (HEIGHT, WIDTH)), "offset_map": random.uniform(95, 105, (HEIGHT, WIDTH)),
            "variance_map": random.uniform(2, 4, (HEIGHT, WIDTH))}
    hot = random.choice(HEIGHT * WIDTH, 60, replace=False)
    made["variance_map"].flat[hot[:40]] = 4000
    made["variance_map"].flat[hot[40:]] = np.inf
    return {name: one.astype(np.float32) for name, one in made.items()}


class AsTheProgram(unittest.TestCase):
    def setUp(self):
        if not PROGRAM or h5py is None:
            self.skipTest("SKIPPED: python3-h5py is not installed" if PROGRAM else "SKIPPED: DRIFTFIT names no program")
        folder = tempfile.TemporaryDirectory(prefix="localize-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, frames, *arguments):
        frames.tofile(self.folder / "s.raw")
        kind = {"uint8": "u8", "uint16": "u16", "float32": "f32"}[str(frames.dtype)]
        done = subprocess.run([PROGRAM, self.folder / "s.raw", "--width", str(WIDTH), "--height", str(HEIGHT), "--type", kind,
                               "--every-spot", "--overwrite", "--backend", "cpu", "-o", self.folder / "o",
                               *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.folder / "o_locs.hdf5") as file:
            return file["locs"][:]

    def assert_same(self, locs, expected):
        self.assertEqual(locs.dtype, expected.dtype)
        self.assertGreater(len(expected), 10)
        self.assertEqual(locs.tobytes(), expected.tobytes())

    def test_every_model_estimator_and_side(self):
        frames = drawn()
        for more in ({}, {"side": 8, "model": "elliptical", "estimator": "least_squares", "gain": 0.46, "offset": 100.0},
                     {"side": 7, "estimator": "poisson", "gain": 0.46, "offset": 100.0, "read_noise": 1.5, "integrated": True},
                     {"estimator": "poisson", "gain": 0.2, "offset": 100.0, "excess_noise": 2.0},
                     {"side": 7, "estimator": "weighted_least_squares", "gain": 0.46, "offset": 100.0, "read_noise": 1.5},
                     {"estimator": "weighted_least_squares", "model": "elliptical"},
                     {"saturation": 900.0, "min_net_gradient": 1500.0}):
            with self.subTest(more):
                words = []
                for name, value in more.items():
                    name = {"side": "roi"}.get(name, name)
                    words += ["--integrated"] if name == "integrated" else [
                        f"--{name.replace('_', '-')}", str(value).replace("weighted_least_squares", "weighted").replace("_", "-")]
                for threads in 1, 3:
                    self.assert_same(driftd_fit.localize(frames, backend="cpu", threads=threads, **more),
                                     self.program(frames, *words))

    def test_every_type_of_pixel_and_views_with_gaps(self):
        frames = drawn()
        for dtype in np.uint8, np.float32:
            some = np.minimum(frames, 255).astype(dtype)
            self.assert_same(driftd_fit.localize(some, backend="cpu"), self.program(some))
        expected = self.program(frames)
        wide = np.zeros((2 * len(frames), HEIGHT + 3, WIDTH + 5), np.uint16)
        wide[::2, 1:-2, 4:-1] = frames
        self.assert_same(driftd_fit.localize(wide[::2, 1:-2, 4:-1], backend="cpu"), expected)
        self.assert_same(driftd_fit.localize(frames[:, ::-1][:, ::-1], backend="cpu"), expected)

    def test_frames_count_on_from_the_first(self):
        frames = drawn()
        expected = self.program(frames)
        parts = [driftd_fit.localize(frames[a:b], first=a, backend="cpu") for a, b in ((0, 4), (4, 5), (5, 5), (5, 9))]
        self.assert_same(np.concatenate(parts), expected)

    def test_maps_with_hot_pixels_and_those_that_are_gone(self):
        if tifffile is None:
            self.skipTest("SKIPPED: python3-tifffile is not installed")
        made = maps()
        for name, one in made.items():
            tifffile.imwrite(self.folder / f"{name}.tif", one)
        for names in (("gain_map", "offset_map", "variance_map"), ("variance_map",), ("offset_map",), ("gain_map",)):
            with self.subTest(names):
                options = {} if "gain_map" in names else {"gain": 0.45}
                if "offset_map" not in names:
                    options["offset"] = 100.0
                estimator = "poisson" if "variance_map" in names else "implicit"
                words = [w for name in names for w in (f"--{name.replace('_', '-')}", self.folder / f"{name}.tif")]
                words += [w for name, value in options.items() for w in (f"--{name}", value)]
                locs = driftd_fit.localize(drawn(), 9, estimator=estimator, backend="cpu", saturation=1500.0, **options,
                                           **{name: made[name] for name in names})
                self.assert_same(locs, self.program(drawn(), "--estimator", estimator, "--saturation", 1500, *words))


class Told(unittest.TestCase):
    def test_places_scatter_as_told_whatever_the_angle(self):
        """By the weights of a fit that has the spot's angle, too."""
        random = np.random.default_rng(11)
        y, x = np.mgrid[:25, :25]
        places = 12 + random.uniform(-0.5, 0.5, (800, 2))
        for degrees in 0, 45, 120:
            cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
            means = [3 + 300 * np.exp(-(((x - px) * cosine + (y - py) * sine) / 2.6)**2 / 2
                                      - (((y - py) * cosine - (x - px) * sine) / 1.1)**2 / 2) for px, py in places]
            frames = random.poisson(means).astype(np.uint16)
            for estimator in "weighted_least_squares", "poisson":
                with self.subTest(degrees=degrees, estimator=estimator):
                    locs = driftd_fit.localize(frames, 15, "rotated", estimator, gain=1, read_noise=1, backend="cpu")
                    locs = locs[np.hypot(locs["x"] - 12, locs["y"] - 12) < 2]
                    self.assertGreater(len(locs), 780)
                    for axis, column in ("x", 0), ("y", 1):
                        scatter = np.std(locs[axis] - places[locs["frame"], column])
                        self.assertAlmostEqual(scatter / np.sqrt(np.mean(locs[f"lp{axis}"]**2)), 1, delta=0.12)


class Found(unittest.TestCase):
    def expected(self, frame, box, least):
        """Pixels that are the largest of their box, and the net gradient of that."""
        half, found = box // 2, []
        image = frame.astype(float)
        padded = np.pad(image, 1, mode="edge")
        gx = (padded[1:-1, 2:] - padded[1:-1, :-2])
        gy = (padded[2:, 1:-1] - padded[:-2, 1:-1])
        v, u = np.mgrid[-half:half + 1, -half:half + 1]
        distance = np.hypot(u, v)
        distance[half, half] = 1
        for y in range(half, frame.shape[0] - half):
            for x in range(half, frame.shape[1] - half):
                part = np.s_[y - half:y + half + 1, x - half:x + half + 1]
                if np.argmax(frame[part]) != box * box // 2:
                    continue
                gradient = -(gx[part] * u / distance + gy[part] * v / distance).sum()
                if gradient > least:
                    found.append((x, y, gradient))
        return found

    def test_agrees_with_numpy(self):
        frames = drawn(4)
        for box in 3, 7, 9:
            spots = driftd_fit.find_spots(frames, box, 800)
            self.assertEqual(spots.dtype, driftd_fit.SPOT)
            expected = [(x, y, k, g) for k, frame in enumerate(frames) for x, y, g in self.expected(frame, box, 800)]
            self.assertGreater(len(expected), 10)
            self.assertEqual(spots[["x", "y", "frame"]].tolist(), [e[:3] for e in expected])
            np.testing.assert_allclose(spots["net_gradient"], [e[3] for e in expected], rtol=1e-5)

    def test_as_many_spots_as_a_frame_can_hold(self):
        """Noise has a largest pixel in each place that there is room for, or nearly."""
        frames = np.random.default_rng(8).normal(0, 1, (5, 41, 43)).astype(np.float32)
        expected = sum(len(self.expected(frame, 3, 1e-6)) for frame in frames)
        self.assertGreater(expected, 5 * 41 * 43 / 12)
        self.assertEqual(len(driftd_fit.find_spots(frames, 3, 1e-6)), expected)

    def test_no_frames_and_no_spots(self):
        for frames in np.zeros((0, 20, 20), np.uint16), np.zeros((3, 20, 20), np.uint16):
            self.assertEqual(len(driftd_fit.find_spots(frames, 7)), 0)
            locs = driftd_fit.localize(frames, backend="cpu")
            self.assertEqual((len(locs), locs.dtype), (0, driftd_fit.LOCALIZATION))
        self.assertEqual(len(driftd_fit.find_spots(np.zeros((2, 5, 5), np.uint8), 7)), 0)


class Refused(unittest.TestCase):
    def test_what_makes_no_sense(self):
        frames = drawn(1)
        bad = maps()
        bad["gain_map"][3, 4] = 0
        gone = {"variance_map": np.full((HEIGHT, WIDTH), np.inf, np.float32)}
        for call, error, told in (
                (lambda: driftd_fit.find_spots(frames, 4), ValueError, "box is 4; allowed are odd whole numbers 3 to 63"),
                (lambda: driftd_fit.find_spots(frames, 65), ValueError, "box is 65; allowed are whole numbers 3 to 63"),
                (lambda: driftd_fit.find_spots(frames, 7, -1), ValueError, "min_net_gradient is -1"),
                (lambda: driftd_fit.find_spots(frames, 7, np.nan), ValueError, "min_net_gradient is nan"),
                (lambda: driftd_fit.localize(frames, 3), ValueError, "side is 3; allowed are whole numbers 4 to 64"),
                (lambda: driftd_fit.localize(np.zeros((1, 8, 30), np.uint16), 9), ValueError, "height is 8, allowed are 9 to"),
                (lambda: driftd_fit.localize(frames, max_iterations=0), ValueError, "max_iterations is 0"),
                (lambda: driftd_fit.localize(frames, first=-1), ValueError, "first is -1; allowed are whole numbers 0 to 4294967295"),
                (lambda: driftd_fit.localize(drawn(3), first=2**32 - 2), ValueError,
                 "first + 3 frames - 1 is 4294967296; allowed are whole numbers 0 to 4294967295"),
                (lambda: driftd_fit.localize(frames, side=9, gain_map=bad["gain_map"]), ValueError,
                 "gain_map is 0.000000 in column 4, row 3"),
                (lambda: driftd_fit.localize(frames, estimator="poisson", **gone), ValueError, "half of the pixels"),
                (lambda: driftd_fit.localize(frames, gain=2, gain_map=maps()["gain_map"]), ValueError, "beside a gain_map"),
                (lambda: driftd_fit.localize(frames, offset_map=np.zeros((3, 3))), ValueError, "offset_map has shape (3, 3)"),
                (lambda: driftd_fit.localize(frames.astype(np.int32)), TypeError, "frames"),
                (lambda: driftd_fit.use_instruction_set("mmx"), ValueError, "'mmx' cannot be had: this processor")):
            with self.subTest(told):
                with self.assertRaises(error) as raised:
                    call()
                self.assertIn(told, str(raised.exception))

    def test_an_instruction_set_is_chosen_for_the_process(self):
        best = driftd_fit.instruction_set()
        self.addCleanup(driftd_fit.use_instruction_set, "auto")
        driftd_fit.use_instruction_set("baseline")
        self.assertEqual(driftd_fit.instruction_set(), "baseline")
        self.assertGreater(len(driftd_fit.localize(drawn(2), backend="cpu")), 5)
        driftd_fit.use_instruction_set("auto")
        self.assertEqual(driftd_fit.instruction_set(), best)


class OnGpu(unittest.TestCase):
    def setUp(self):
        try:
            self.gpu = driftd_fit.Fitter("cuda")
        except driftd_fit.FitError as error:
            self.skipTest(f"SKIPPED: {error}")
        self.addCleanup(self.gpu.close)

    def test_spots_are_those_of_the_cpu_with_every_map_and_fits_agree(self):
        frames, made = drawn(40), maps()
        wide = np.zeros((40, HEIGHT + 3, WIDTH + 5), np.uint16)
        wide[:, 1:-2, 4:-1] = frames
        for some in frames, wide[:, 1:-2, 4:-1], np.minimum(frames, 255).astype(np.uint8), frames.astype(np.float32):
            for names in (), ("variance_map",), ("gain_map", "offset_map", "variance_map"):
                with self.subTest(names, dtype=some.dtype):
                    given = {name: made[name] for name in names}
                    more = given | ({} if "gain_map" in names else {"gain": 0.45, "offset": 100.0})
                    spots = self.gpu.find_spots(some, 9, **given)
                    self.assertEqual(spots.tobytes(), driftd_fit.find_spots(some, 9, backend="cpu", **given).tobytes())
                    for estimator in ("poisson", "weighted_least_squares") if names else ("implicit", "least_squares"):
                        locs = self.gpu.localize(some, 9, estimator=estimator, **more)
                        cpu = driftd_fit.localize(some, 9, estimator=estimator, backend="cpu", **more)
                        self.assertGreater(len(cpu), 50)
                        np.testing.assert_array_equal(locs[["frame", "net_gradient"]], cpu[["frame", "net_gradient"]])
                        for axis in "xy":
                            self.assertLess((np.abs(locs[axis] - cpu[axis]) / cpu[f"lp{axis}"]).max(), 0.05)
        self.assertEqual(self.gpu.backend, "cuda")


if __name__ == "__main__":
    unittest.main()
