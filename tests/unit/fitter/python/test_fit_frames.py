# SPDX-License-Identifier: MIT
"""driftd_fit.fit_frames: ROIs of whole frames, with the maps of a camera."""
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

import driftd_fit
from driftd_fit import converged, fit, fit_frames

HEIGHT, WIDTH, FRAMES = 90, 120, 3
OFFSET = 100


def movie(dtype=np.uint16, seed=1, gain=2.0):
    """Frames of spots 15 px apart, (x, y, frame) of the pixel that each is nearest to, and where it is."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    frames, truth = [], []
    for frame in range(FRAMES):
        photons = np.full((HEIGHT, WIDTH), 3.0)
        for spot_y in range(10, HEIGHT - 8, 15):
            for spot_x in range(10, WIDTH - 8, 15):
                centre = np.array([spot_x, spot_y]) + random.uniform(-0.5, 0.5, 2)
                photons += 150 * np.exp(-((x - centre[0])**2 + (y - centre[1])**2) / (2 * 1.3**2))
                truth.append([*centre, frame])
        frames.append(random.poisson(photons) / gain + OFFSET)
    frames = np.rint(frames) if dtype != np.float32 else np.array(frames)
    return frames.clip(0, 255).astype(dtype), np.rint(truth).astype(int), np.array(truth)


def cut(array, places, side):
    """By hand. A map has no frames."""
    half = side // 2
    return np.array([(array if array.ndim == 2 else array[frame])[y - half:y - half + side,
                                                                  x - half:x - half + side]
                     for x, y, frame in places])


def in_frame(fits, places, side):
    moved = fits.copy()
    for column, name in enumerate("xy"):
        moved[name] += (places[:, column] - side // 2).astype(np.float32)
    return moved


def maps(seed=2):
    random = np.random.default_rng(seed)
    shape = HEIGHT, WIDTH
    return {"gain_map": random.uniform(1.5, 2.5, shape).astype(np.float32),
            "offset_map": random.normal(OFFSET, 3, shape).astype(np.float32),
            "variance_map": random.exponential(4, shape).astype(np.float32)}


class AsCutByHand(unittest.TestCase):
    def check_same(self, ours, by_hand, places, side):
        np.testing.assert_array_equal(ours.view(np.uint8),
                                      in_frame(by_hand, places, side).view(np.uint8))
        self.assertGreater(converged(ours).mean(), 0.9)

    def test_coordinates_of_every_kind(self):
        frames, places, _ = movie()
        expected = fit_frames(frames, places, 9)
        ready = places.astype(np.int32)
        blob = np.zeros(ready.nbytes + 1, np.uint8)
        blob[1:] = ready.ravel().view(np.uint8)
        frozen = ready.copy()
        frozen.flags.writeable = False
        for given in (ready, frozen, np.asfortranarray(ready), np.repeat(ready, 2, 0)[::2], ready.astype(">i4"),
                      ready + np.array([0.3, -0.3, 0]), blob[1:].view(np.int32).reshape(ready.shape), ready.tolist()):
            np.testing.assert_array_equal(fit_frames(frames, given, 9).view(np.uint8), expected.view(np.uint8))
        for frame in (-1, FRAMES):
            ready[7, 2] = frame
            with self.assertRaisesRegex(ValueError, f"frame of 7 is {frame}"):
                fit_frames(frames, ready, 9)

    def test_every_pixel_type_side_and_number_of_threads(self):
        for dtype in driftd_fit.PIXEL_TYPES:
            frames, places, truth = movie(dtype)
            for side in (7, 8, 11):
                by_hand = fit(cut(frames, places, side), backend="cpu", threads=1)
                for threads in (1, 2, 5):
                    with self.subTest(dtype=dtype, side=side, threads=threads):
                        ours = fit_frames(frames, places, side, backend="cpu", threads=threads)
                        self.check_same(ours, by_hand, places, side)
                        self.assertLess(np.median(np.abs(ours["x"] - truth[:, 0])), 0.1)
                        self.assertLess(np.median(np.abs(ours["y"] - truth[:, 1])), 0.1)

    def test_rois_across_lanes(self):
        frames, places, _ = movie()
        middle = places[(abs(places[:, 0] - 60) < 25) & (abs(places[:, 1] - 45) < 10)]
        ours = fit_frames(frames, middle, 34, backend="cpu", spots_only=False)
        np.testing.assert_array_equal(
            ours, in_frame(fit(cut(frames, middle, 34), backend="cpu", spots_only=False), middle, 34))

    def test_maps_are_those_of_the_place(self):
        for dtype in driftd_fit.PIXEL_TYPES:
            frames, places, _ = movie(dtype)
            given = maps()
            gain, offset, variance = (cut(m, places, 9) for m in given.values())
            raw = cut(frames, places, 9).astype(np.float32)
            for estimator in ("implicit", "poisson", "weighted_least_squares"):
                with self.subTest(dtype=dtype, estimator=estimator):
                    known = estimator != "implicit"
                    by_hand = fit((raw - offset) * gain, estimator=estimator, gain=1,
                                  variances=variance * gain**2 if known else None, backend="cpu")
                    more = given if known else given | {"variance_map": None}
                    self.check_same(
                        fit_frames(frames, places, 9, estimator=estimator, backend="cpu", **more),
                        by_hand, places, 9)
            with self.subTest(dtype=dtype, maps="offsets"):
                by_hand = fit(raw - offset, estimator="poisson", gain=2, backend="cpu")
                self.check_same(
                    fit_frames(frames, places, 9, estimator="poisson", gain=2, backend="cpu",
                               offset_map=given["offset_map"]), by_hand, places, 9)
            with self.subTest(dtype=dtype, maps="gains"):
                by_hand = fit((raw - np.float32(OFFSET)) * gain, estimator="poisson", gain=1,
                              excess_noise=2, backend="cpu")
                self.check_same(
                    fit_frames(frames, places, 9, estimator="poisson", offset=OFFSET, backend="cpu",
                               excess_noise=2, gain_map=given["gain_map"]), by_hand, places, 9)
            with self.subTest(dtype=dtype, maps="variances"):
                by_hand = fit(cut(frames, places, 9), estimator="poisson", gain=2, offset=OFFSET,
                              variances=variance, backend="cpu")
                self.check_same(
                    fit_frames(frames, places, 9, estimator="poisson", gain=2, offset=OFFSET,
                               variance_map=given["variance_map"], backend="cpu"), by_hand, places, 9)

    def test_starts_are_the_frames_and_bounds_the_rois(self):
        frames, places, truth = movie()
        sigma = np.full((len(places), 1), 1.3)
        levels = np.column_stack([np.full(len(places), 70.0), np.linspace(98, 103, len(places))])
        single = {"y": (np.full(len(places), 3.2), np.linspace(3.7, 4.5, len(places))), "x": (3.5, 4.6)}
        more = {"estimator": "least_squares", "levels": levels, "fixed": "background", "bounds": single,
                "backend": "cpu"}
        start = np.column_stack([truth[:, :2], sigma]).astype(np.float32)
        shift = (places[:, :2] - 4).astype(np.float32)
        by_hand = fit(cut(frames, places, 9), start=np.column_stack([start[:, :2] - shift, sigma]), **more)
        ours = fit_frames(frames, places, 9, start=start, threads=2, **more)
        self.check_same(ours, by_hand, places, 9)
        self.assertEqual(ours["background"][-1], 103)
        upper = (places[:, 1] - 4 + single["y"][1]).astype(np.float32)
        self.assertTrue((ours["y"] <= upper + 1e-5).all() and (abs(ours["y"] - upper) < 1e-5).sum() > 10)
        fixed = fit_frames(frames, places, 9, start=start, estimator="least_squares",
                           fixed=("x", "y"), backend="cpu")
        np.testing.assert_allclose(fixed["x"], start[:, 0], atol=1e-5)

    def test_frames_of_any_layout(self):
        frames, places, _ = movie()
        expected = fit_frames(frames, places, 9, backend="cpu")
        wide = np.zeros((2 * FRAMES, HEIGHT + 3, WIDTH + 5), np.uint16)
        wide[::2, 2:-1, 4:-1] = frames
        interleaved = np.ascontiguousarray(frames.swapaxes(0, 1)).swapaxes(0, 1)
        turned = np.ascontiguousarray(frames[:, ::-1, ::-1])[:, ::-1, ::-1]
        transposed = np.ascontiguousarray(frames.T).T
        odd = np.zeros(frames.nbytes + 1, np.uint8)[1:].view(np.uint16).reshape(frames.shape)
        odd[:] = frames
        for name, array in {"a view": wide[::2, 2:-1, 4:-1], "interleaved": interleaved, "turned": turned,
                            "transposed": transposed, "of odd addresses": odd}.items():
            with self.subTest(name):
                np.testing.assert_array_equal(fit_frames(array, places, 9, backend="cpu"), expected)
        self.assertIs(driftd_fit.arguments.frames(wide[::2, 2:-1, 4:-1]).base, wide)  # not copied
        first = places[:, 2] == 0
        np.testing.assert_array_equal(
            fit_frames(wide[0, 2:-1, 4:-1], places[first, :2], 9, backend="cpu"), expected[first])
        np.testing.assert_array_equal(
            fit_frames(frames, places + np.array([0.3, -0.4, 0]), 9, backend="cpu"), expected)


class WhatCannotBeFitted(unittest.TestCase):
    def test_rois_that_reach_out_of_the_frame(self):
        frames, places, _ = movie()
        expected = fit_frames(frames, places[:1], 9, backend="cpu")[0]
        near = [[4, 4], [WIDTH - 5, HEIGHT - 5]]  # just inside
        outside = [[3, 40], [40, 3], [WIDTH - 4, 40], [40, HEIGHT - 4], [-1e12, 10], [10, 1e12],
                   [np.nan, 10], [10, np.nan], [np.inf, 10]]
        coordinates = np.array([*places[:1, :2].tolist(), *near, *outside])
        for estimator in driftd_fit.ESTIMATORS:
            with self.subTest(estimator):
                fits = fit_frames(frames[0], coordinates, 9, estimator=estimator, spots_only=False,
                                  variance_map=np.ones((HEIGHT, WIDTH)) if estimator in
                                  ("poisson", "weighted_least_squares") else None, backend="cpu")
                self.assertLess(fits["status"][:3].max(), 5)
                np.testing.assert_array_equal(fits["status"][3:], 5)
                self.assertTrue(np.isnan(fits["x"][3:]).all())
        self.assertEqual(fit_frames(frames[0], coordinates, 9, backend="cpu")[0], expected)

    def test_pixels_without_a_gain_and_saturated_ones(self):
        frames, places, _ = movie()
        expected = fit_frames(frames, places, 9, estimator="poisson", backend="cpu", **maps())
        bad = np.argmax(places[:, 2])  # the first of the last frame; its place is bad in every frame
        x, y, _ = places[bad]
        here = (places[:, :2] == [x, y]).all(axis=1)
        for name, value in (("gain_map", 0), ("gain_map", -1), ("gain_map", np.nan),
                            ("offset_map", np.nan), ("offset_map", np.inf), ("variance_map", -1)):
            given = maps()
            given[name][y + 4, x - 4] = value
            with self.subTest(name, value=value):
                fits = fit_frames(frames, places, 9, estimator="poisson", backend="cpu", **given)
                np.testing.assert_array_equal(fits["status"] == 5, here)
        frames[2, y + 4, x - 4] = 4000
        fits = fit_frames(frames, places, 9, estimator="poisson", saturation=4000, backend="cpu", **maps())
        np.testing.assert_array_equal(np.flatnonzero(fits["status"] == 5), [bad])
        np.testing.assert_array_equal(np.delete(fits, bad), np.delete(expected, bad))
        given["gain_map"] = np.full((HEIGHT, WIDTH), 1000)  # electrons above, pixels below
        fits = fit_frames(frames, places, 9, saturation=4000, backend="cpu", **given | {
            "variance_map": None})
        np.testing.assert_array_equal(np.flatnonzero(fits["status"] == 5), [bad])

    def test_an_infinite_variance_takes_a_pixel_away(self):
        frames, places, truth = movie()
        given = {"variance_map": np.full((HEIGHT, WIDTH), 1.0, np.float32), "gain": 2, "offset": OFFSET,
                 "estimator": "poisson", "backend": "cpu"}
        x, y, _ = places[0]
        frames[0, y + 2, x + 2] += 100
        given["variance_map"][y + 2, x + 2] = np.inf
        fits = fit_frames(frames, places, 9, **given)
        self.assertLess(abs(fits["x"][0] - truth[0, 0]), 5 * fits["x_sd"][0])

    def test_senseless_arguments_say_what_is_allowed(self):
        frames, places, _ = movie()
        plane = np.ones((HEIGHT, WIDTH))
        for error, text, arguments, options in (
                (TypeError, "frames are int32; allowed are uint8", (frames.astype(int).astype(np.int32),
                                                                   places, 9), {}),
                (ValueError, "frames have shape", (frames[None], places, 9), {}),
                (ValueError, "side is 3; allowed are whole numbers 4 to 64", (frames, places, 3), {}),
                (TypeError, "side is 9.0", (frames, places, 9.0), {}),
                (ValueError, "coordinates have shape .*3 frames, .*x, y, frame",
                 (frames, places[:, :2], 9), {}),
                (ValueError, "allowed are, for 1 frame, .*x, y$", (frames[0], places[:, :1], 9), {}),
                (ValueError, "frame of 0 is 0.5; allowed: whole numbers from 0 to 2",
                 (frames, places * 0 + 0.5, 9), {}),
                (ValueError, "frame of 3 is 7; allowed: whole numbers from 0 to 2",
                 (frames, [[10, 10, 0]] * 3 + [[10, 10, 7]], 9), {}),
                (ValueError, "frame of 0 is nan", (frames, places * [1, 1, np.nan], 9), {}),
                (ValueError, "gain_map has shape .*allowed is that of a frame, .90, 120",
                 (frames, places, 9), {"gain_map": plane.T}),
                (ValueError, "gain is 2.* beside a gain_map", (frames, places, 9),
                 {"gain_map": plane, "gain": 2}),
                (ValueError, "offset is 100.* beside an offset_map", (frames, places, 9),
                 {"offset_map": plane, "offset": 100}),
                (ValueError, "weighted least squares needs the variances", (frames, places, 9),
                 {"estimator": "weighted_least_squares"}),
                (ValueError, "width is 8, allowed are 9", (frames[:, :, :8], places, 9), {}),
                (ValueError, "start has shape", (frames, places, 9), {"start": plane}),
                (TypeError, "unknown option 'variances'", (frames, places, 9), {"variances": plane})):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                fit_frames(*arguments, backend="cpu", **options)

    def test_nothing_to_fit_and_progress(self):
        frames, places, _ = movie()
        self.assertEqual(fit_frames(frames, places[:0], 9, backend="cpu").shape, (0,))
        seen = []
        fit_frames(frames, places, 9, progress=lambda *now: seen.append(now), backend="cpu")
        self.assertEqual(seen, [(len(places), len(places))])


if __name__ == "__main__":
    unittest.main()
