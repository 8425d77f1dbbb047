# SPDX-License-Identifier: MIT
"""The Python binding of libdriftfit, on the CPU."""
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

import driftd_fit
from driftd_fit import Fitter, converged, fit, search

SIDE = 11


def spots(count, side=SIDE, dtype=np.uint16, seed=1):
    """Noisy images and the (x, y, sigma, amplitude, background) they were drawn from."""
    random = np.random.default_rng(seed)
    truth = np.column_stack([random.uniform(side / 2 - 1, side / 2, (count, 2)),
                             random.uniform(1.1, 1.8, count), random.uniform(300, 900, count),
                             np.full(count, 50.0)])
    y, x = np.mgrid[:side, :side]
    x0, y0, sigma, amplitude, background = truth.T[:, :, None, None]
    mean = amplitude * np.exp(-((x - x0)**2 + (y - y0)**2) / (2 * sigma**2)) + background
    return random.poisson(mean).clip(0, np.iinfo(dtype).max if dtype != np.float32 else None
                                     ).astype(dtype), truth


def gaussian(p, side=SIDE):
    """p: x, y, sigma_x, sigma_y, amplitude, background, in the order of PARAMETERS."""
    y, x = np.mgrid[:side, :side]
    return p[4] * np.exp(-(x - p[0])**2 / (2 * p[2]**2) - (y - p[1])**2 / (2 * p[3]**2)) + p[5]


def ellipses(count, seed=1):
    """Photons, and the parameters they were drawn from."""
    random = np.random.default_rng(seed)
    truth = np.column_stack([random.uniform(4, 6, (count, 2)), random.uniform(1.1, 1.9, (count, 2)),
                             random.uniform(150, 500, count), random.uniform(5, 20, count)])
    return random.poisson([gaussian(p) for p in truth]).astype(np.float32), truth


def parameters_of(fits):
    return np.column_stack([fits[name] for name in driftd_fit.PARAMETERS]).astype(float)


def can_have_gpu() -> bool:
    """A GPU is there, and the library was built for some."""
    try:
        Fitter("cuda")
    except driftd_fit.FitError as error:
        return os.path.exists("/dev/nvidia0") and "no CUDA back end" not in str(error)
    return True


class AllParameters(unittest.TestCase):
    def test_every_model_and_estimator_knows_its_errors(self):
        images, truth = ellipses(1000)
        for model in ("circular", "elliptical"):
            if model == "circular":
                truth[:, 3] = truth[:, 2]
                random = np.random.default_rng(5)
                images = random.poisson([gaussian(p) for p in truth]).astype(np.float32)
            for estimator in driftd_fit.ESTIMATORS:
                variances = np.array([gaussian(p) for p in truth]) \
                    if estimator == "weighted_least_squares" else None
                fits = fit(images, model, estimator, variances=variances, backend="cpu", gain=1.0)
                self.assertGreater(converged(fits).mean(), 0.99)
                fits, true = fits[converged(fits)], truth[converged(fits)]
                for j, name in enumerate(driftd_fit.PARAMETERS):
                    error = (fits[name] - true[:, j]) / fits[f"{name}_sd"]
                    with self.subTest(model=model, estimator=estimator, parameter=name):
                        self.assertLess(abs(error.mean()), 0.35)
                        # 0.1: 4 sigma of the rms of 1000 fits.
                        self.assertLess(abs(np.sqrt((error**2).mean()) - 1), 0.12)

    def test_agrees_with_scipy(self):
        try:
            from scipy.optimize import least_squares, minimize
        except ImportError:
            self.skipTest("SKIPPED: python3-scipy is not installed")
        images, truth = ellipses(12)
        variances = np.array([gaussian(p) for p in truth])
        ours = {"least_squares": {}, "weighted_least_squares": {"variances": variances},
                "poisson": {}}
        ours = {name: parameters_of(fit(images, "elliptical", name, min_decrease=1e-7,
                                        backend="cpu", **more)) for name, more in ours.items()}
        for i, image in enumerate(images):
            def deviance(p):
                h = np.maximum(gaussian(p * truth[i]), 1e-9)
                return 2 * (h - image - image * np.log(h / np.maximum(image, 1e-9))).sum()
            exact = {"xtol": 1e-14, "ftol": 1e-14, "x_scale": truth[i]}
            theirs = {
                "least_squares": least_squares(
                    lambda p: (gaussian(p) - image).ravel(), truth[i], **exact).x,
                "weighted_least_squares": least_squares(
                    lambda p: ((gaussian(p) - image) / np.sqrt(variances[i])).ravel(), truth[i],
                    **exact).x,
                "poisson": truth[i] * minimize(
                    deviance, np.ones(6), method="Nelder-Mead",
                    options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 20000, "maxfev": 20000}).x}
            for name, found in theirs.items():
                self.assertLess(np.abs(ours[name][i, :4] - found[:4]).max(), 3e-3, name)

    def test_implicit_and_plain_least_squares_find_the_same(self):
        images, _ = ellipses(200)
        a, b = (parameters_of(fit(images, "elliptical", e, min_decrease=1e-7, backend="cpu"))
                for e in ("implicit", "least_squares"))
        np.testing.assert_allclose(a[:, :4], b[:, :4], atol=2e-3)

    def test_fixed_parameters_keep_their_start_values(self):
        images, truth = ellipses(50)
        start, levels = truth[:, :4] * 1.02, truth[:, 4:] * 1.05
        given = np.column_stack([start, levels]).astype(np.float32)
        for j, name in enumerate(driftd_fit.PARAMETERS):
            fits = fit(images, "elliptical", "poisson", start=start, levels=levels, fixed=[name],
                       backend="cpu")
            # The background is searched less the pixels' mean, and so has its rounding.
            np.testing.assert_allclose(fits[name], given[:, j], err_msg=name,
                                       rtol=0, atol=1e-5 if name == "background" else 0)
            self.assertTrue((fits[f"{name}_sd"] == 0).all(), name)
            self.assertGreater(converged(fits).mean(), 0.95)
        both = fit(images, "elliptical", "least_squares", start=start, fixed="sigma_x",
                   backend="cpu")
        self.assertTrue((both["sigma_x"] == given[:, 2]).all())

    def test_bounds_of_all_and_of_each(self):
        images, truth = ellipses(50)
        limit = (truth[:, 0] - 0.3).astype(np.float32)
        fits = fit(images, "elliptical", "least_squares", backend="cpu", spots_only=False,
                   bounds={"x": (-np.inf, limit), "sigma_x": (1.3, 1.6)})
        self.assertTrue((fits["x"] == limit).all())
        self.assertTrue(((fits["sigma_x"] >= np.float32(1.3))
                         & (fits["sigma_x"] <= np.float32(1.6))).all())

    def test_variances_of_one_camera_for_all_images(self):
        images, _ = ellipses(20)
        variances = np.random.default_rng(3).uniform(1, 50, (SIDE, SIDE))
        one = fit(images, estimator="poisson", variances=variances, backend="cpu")
        each = fit(images, estimator="poisson", variances=np.repeat([variances], 20, 0),
                   backend="cpu")
        self.assertTrue((one == each).all())

    def test_any_minimum_will_do(self):
        images = 1000 - spots(20)[0].astype(np.float32)
        self.assertFalse(converged(fit(images, backend="cpu")).any())
        self.assertTrue(converged(fit(images, backend="cpu", spots_only=False)).all())

    def test_blocks_of_a_large_batch_take_their_own_arrays(self):
        few, truth = ellipses(64)
        repeats = 3000  # more than a block
        images = np.tile(few, (repeats, 1, 1))
        limit = np.tile(truth[:, 0] - 0.2, repeats)
        seen = []
        fits = fit(images, "elliptical", "poisson", start=np.tile(truth[:, :4], (repeats, 1)),
                   levels=np.tile(truth[:, 4:], (repeats, 1)), bounds={"x": (0, limit)},
                   variances=np.tile(few + 1, (repeats, 1, 1)), backend="cpu",
                   progress=lambda done, n: seen.append(done))
        self.assertGreater(len(seen), 1)
        self.assertTrue((fits[:64] == fits[-64:]).all())


class Searches(unittest.TestCase):
    def test_finds_what_a_fit_finds(self):
        images, truth = ellipses(300)
        for model, estimator in (("elliptical", "implicit"), ("circular", "poisson")):
            fits = fit(images, model, estimator, backend="cpu")
            found, swarm = search(images, model, estimator, backend="cpu")
            self.assertTrue(converged(found).all())
            # Where two ways to a minimum may stop: docs/internals/fitter.md, Accuracy.
            np.testing.assert_allclose(found["x"], fits["x"], atol=5e-3)
            np.testing.assert_allclose(found["sigma_y"], fits["sigma_y"], atol=5e-3)
            self.assertEqual(swarm.dtype, driftd_fit.SWARM_REPORT)
            self.assertLess(np.median(np.abs(swarm["x"] - truth[:, 0])), 0.1)
            self.assertTrue((swarm["x_spread"] > 0).all())
            self.assertTrue((swarm["chi_square"] > 0).all())

    def test_finds_the_spot_that_a_bright_pixel_hides_from_a_fit(self):
        images, truth = ellipses(200)
        images[:, 0, 0] = 5000
        variances = np.ones((SIDE, SIDE))
        variances[0, :4] = 1e12  # four, so that none is left out of a fit's start value
        how = {"variances": variances, "spots_only": False, "backend": "cpu",
               "bounds": {"x": (2, 8), "y": (2, 8), "sigma_x": (1, 3), "sigma_y": (1, 3)}}

        def share(fits):
            off = np.hypot(fits["x"] - truth[:, 0], fits["y"] - truth[:, 1])
            return (converged(fits) & (off < 0.3)).mean()

        self.assertGreater(share(search(images, "elliptical", "weighted_least_squares", **how)[0]),
                           0.9)
        self.assertLess(share(fit(images, "elliptical", "weighted_least_squares", **how)), 0.2)

    def test_seed_and_number_of_an_image_decide_alone(self):
        images, _ = ellipses(40)
        how = {"iterations": 5, "particles": 64, "backend": "cpu"}
        fits, swarm = search(images, seed=2**63, **how)
        for threads in (1, 3):
            again = search(images, seed=2**63, threads=threads, **how)
            self.assertTrue((again[0] == fits).all() and (again[1] == swarm).all())
        rest = search(images[15:], seed=2**63, first_image=15, **how)
        self.assertTrue((rest[0] == fits[15:]).all() and (rest[1] == swarm[15:]).all())
        self.assertFalse((search(images, seed=1, **how)[1]["x"] == swarm["x"]).any())

    def test_progress_and_cancelling(self):
        images = np.tile(ellipses(100)[0], (50, 1, 1))  # more than a block
        how = {"iterations": 2, "particles": 16, "backend": "cpu"}
        seen = []
        blocks = search(images, progress=lambda done, n: seen.append(done), **how)
        self.assertGreater(len(seen), 1)
        self.assertEqual(seen[-1], len(images))
        whole = search(images, **how)
        self.assertTrue((blocks[0] == whole[0]).all() and (blocks[1] == whole[1]).all())
        fits, swarm = search(images, progress=lambda done, n: True, **how)
        self.assertTrue(converged(fits)[0])
        self.assertFalse(converged(fits)[-1])
        self.assertTrue(np.isnan(swarm["chi_square"][-1]))

    def test_bounds_of_each_are_the_domain(self):
        images, truth = ellipses(50)
        limit = (truth[:, 0] - 1).astype(np.float32)
        _, swarm = search(images, "elliptical", "least_squares", spots_only=False, backend="cpu",
                          bounds={"x": (-np.inf, limit), "sigma_x": (1.3, 1.6)})
        self.assertTrue((swarm["x"] <= limit).all())
        self.assertTrue((swarm["sigma_x"] <= np.float32(1.6)).all())

    def test_mistakes_say_what_is_allowed(self):
        good, _ = spots(2)
        cases = [
            (ValueError, "whole multiples of 16", dict(particles=100)),
            (ValueError, "iterations is 0", dict(iterations=0)),
            (ValueError, "max_velocity is 2", dict(max_velocity=2)),
            (ValueError, r"seed is -1; allowed are whole numbers 0 to 2\*\*64 - 1$", dict(seed=-1)),
            (ValueError, r"first_image is 18446744073709551616; allowed are whole numbers 0 to",
             dict(first_image=2**64)),
            (ValueError, "particles is 4294967312; allowed are whole numbers 16 to 1024$",
             dict(particles=2**32 + 16)),
            (ValueError, "iterations is 4294967301; allowed are whole numbers 1 to 1000$",
             dict(iterations=2**32 + 5)),
            (ValueError, "spread_of_last is -4294967290; allowed are whole numbers 2 to 32$",
             dict(spread_of_last=6 - 2**32)),
            (TypeError, "particles is 32.0, a float; allowed are whole numbers 16 to 1024$",
             dict(particles=32.0)),
            (TypeError, "seed is None", dict(seed=None)),
            (ValueError, "start values", dict(estimator="poisson", fixed=["x"])),
            (TypeError, "unknown option 'start'", dict(start=np.ones((2, 3)))),
            (TypeError, "max_iterations", dict(max_iteration=3)),
        ]
        for error, text, arguments in cases:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                search(good, backend="cpu", **arguments)

    @unittest.skipUnless(can_have_gpu(), "there is no GPU, or no CUDA back end")
    def test_a_gpu_searches_too(self):
        images, truth = spots(200)
        calls = []
        fits, found = search(images, backend="cuda", progress=lambda *n: calls.append(n))
        self.assertEqual(calls[-1], (200, 200))
        on_cpu, _ = search(images, backend="cpu")
        np.testing.assert_allclose(fits["x"], on_cpu["x"], atol=2e-3)
        self.assertLess(np.median(np.abs(found["x"] - truth[:, 0])), 0.1)


class Clipped(unittest.TestCase):
    def warnings_of(self, images, **more):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            fit(images, backend="cpu", **more)
        return [str(warning.message) for warning in seen]

    def test_spots_that_are_clipped_are_told(self):
        images, _ = spots(300)
        most = int(images.max())
        for dtype in (np.uint16, np.float32):
            self.assertEqual(self.warnings_of(images.astype(dtype)), [])
            text, = self.warnings_of(np.minimum(images, 300).astype(dtype))
            self.assertRegex(text, "9.% of the images have 3 neighbouring pixels or more of exactly 300 at the top")
        self.assertEqual(self.warnings_of(np.minimum(images, 300), saturation=300), [])
        self.assertEqual(self.warnings_of(np.minimum(images, 60)), [])  # few counts
        text, = self.warnings_of(np.minimum(images, 255).astype(np.uint8))
        self.assertIn("saturation=255 would leave none: only less light helps", text)
        text, = self.warnings_of(np.minimum(images, 500))
        told = int((images[::3].max(axis=(1, 2)) >= 500).sum())
        self.assertIn(f"saturation=500 makes bad_input of the {told} of 100 that reach it", text)
        fits = fit(np.minimum(images, 500)[::3], backend="cpu", saturation=500)  # as is advised
        self.assertEqual((~converged(fits)).sum(), told)
        self.assertEqual(self.warnings_of(np.full((9, 9, 9), 200, np.uint8)), [])
        self.assertEqual(self.warnings_of(np.empty((0, 9, 9), np.uint8)), [])
        one = np.minimum(images[images.max(axis=(1, 2)).argmax()], 300)
        self.assertEqual(len(self.warnings_of(one)), 1)
        self.assertEqual(self.warnings_of(np.full((4, 9, 9), np.nan, np.float32)), [])
        self.assertGreater(most, 600)
        hot = np.minimum(images, 300)
        hot[::7, 1, 2] = 4000 + np.arange(len(hot[::7]))  # one brighter pixel beside
        self.assertIn("exactly 300", *self.warnings_of(hot))
        text, = self.warnings_of((np.minimum(images, 300) / np.float32(4095)).astype(np.float32))
        level = float(text.split("saturation=")[1].split()[0])
        self.assertEqual(np.float32(level), np.float32(300) / np.float32(4095))

    def test_a_few_flat_tops_below_the_tops_of_most_others_are_chance(self):
        images, _ = spots(100)
        for level, told in (512, False), (511, True):  # full scale of 9 bits
            some = images.copy()
            bright = np.argsort(some.max(axis=(1, 2)))[-3:]
            some[bright] = np.minimum(some[bright], level)
            with self.subTest(level=level):
                self.assertGreater((some.max(axis=(1, 2)) > 512).sum(), 3)
                self.assertEqual(len(self.warnings_of(some)), told)

    def test_hot_pixels_and_tracks_of_particles_are_no_clipped_spots(self):
        images, _ = spots(300)
        random = np.random.default_rng(2)
        for level in (1300, 4095, 65535):
            for name, (rows, columns) in {
                    "apart": ((1, 1, 7), (1, 9, 2)), "row": (1, (2, 3, 4)), "column": ((7, 8, 9), 9),
                    "row through the spot": (5, (3, 4, 5)), "corner": ((1, 1, 2), (1, 2, 1)), "block": ((1, 1, 2, 2), (1, 2, 1, 2))}.items():
                with self.subTest(name, level=level):
                    hot = images.copy()
                    hot[:, rows, columns] = level
                    self.assertEqual(self.warnings_of(hot), [])
        tracks = images.copy()
        for image in tracks:
            y, x, angle = *random.uniform(2, 9, 2), random.uniform(0, 7)
            along = np.arange(0, random.uniform(3, 8), 0.2)
            rows, columns = (y + along * np.sin(angle)).astype(int), (x + along * np.cos(angle)).astype(int)
            there = (rows >= 0) & (rows < SIDE) & (columns >= 0) & (columns < SIDE)
            image[rows[there], columns[there]] = 4095
        self.assertEqual(self.warnings_of(tracks), [])

    def test_beads_with_a_flat_top_are_not(self):
        y, x = np.mgrid[:19, :19]
        random = np.random.default_rng(5)
        for power, width in ((6, 3), (8, 4), (16, 3), (16, 5), (60, 4), (400, 4)):  # the last ones: an edge
            beads = np.array([1000 * np.exp(-(np.hypot(x - px, y - py) / width)**power) + 100
                              for px, py in random.uniform(8.5, 9.5, (40, 2))])
            for kind in (beads.astype(np.float32), beads.round().astype(np.uint16), (beads / 5).round().astype(np.uint8)):
                with self.subTest(power=power, width=width, dtype=kind.dtype):
                    self.assertEqual(self.warnings_of(kind), [])

    def test_spots_without_noise_are_not(self):
        y, x = np.mgrid[:10, :10]
        for place in ((3, 5), (4.5, 4.5), (4.5, 5), (4, 4.5)):  # the same on all their sides
            spot = 900 * np.exp(-((x - place[0])**2 + (y - place[1])**2) / 4.5) + 30
            for dtype in (np.float32, np.uint16):
                with self.subTest(place=place, dtype=dtype):
                    self.assertEqual(self.warnings_of(spot.astype(dtype)), [])
                    self.assertEqual(self.warnings_of(np.repeat(spot.astype(dtype)[None], 100, axis=0)), [])

    def test_of_frames_too(self):
        frame = np.random.default_rng(3).poisson(20, (60, 60)).astype(np.uint16)
        images, _ = spots(9)
        places = np.array([[x, y] for x in (10, 30, 50) for y in (10, 30, 50)])
        for (x, y), image in zip(places, images):
            frame[y - 5:y + 6, x - 5:x + 6] = np.minimum(image, 300)
        with self.assertWarnsRegex(RuntimeWarning, "of exactly 300 at the top"):
            driftd_fit.fit_frames(frame, places, 11, backend="cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            driftd_fit.fit_frames(frame, places, 11, backend="cpu", saturation=300)
            driftd_fit.fit_frames(frame, places[:0], 11, backend="cpu")

    def test_a_fitter_does_not_look_at_every_call(self):
        images = np.minimum(spots(20)[0], 300)
        with warnings.catch_warnings(record=True) as seen, Fitter("cpu") as fitter:
            warnings.simplefilter("always")
            for _ in range(20):
                fitter.fit(images)
        self.assertEqual(len(seen), 5)


class NegativeLight(unittest.TestCase):
    def warnings_of(self, function, *arguments, **more):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            function(*arguments, backend="cpu", **more)
        return [str(warning.message) for warning in seen]

    def test_a_background_below_the_offset_is_told(self):
        images, _ = spots(100)  # a background of 50
        for offset, told in ((0, False), (40, False), (50, False), (70, True), (100, True)):
            with self.subTest(offset=offset):
                texts = self.warnings_of(fit, images, gain=1, offset=offset)
                self.assertEqual(len(texts), told)
        self.assertRegex(*self.warnings_of(fit, images, gain=1, offset=70),
                         "9.% of the pixels at the images' edges are below the offset, 70: there is no negative light")
        self.assertEqual(len(self.warnings_of(fit, images, offset=70)), 1)
        self.assertEqual(len(self.warnings_of(search, images[:3], offset=70)), 1)
        dark = images.astype(np.float32) - 100
        self.assertEqual(self.warnings_of(fit, dark), [])  # neither gain nor offset: nothing is made of it
        self.assertEqual(len(self.warnings_of(fit, dark, estimator="poisson")), 1)
        self.assertEqual(self.warnings_of(fit, images[:0], gain=1, offset=70), [])

    def test_in_frames_too_and_of_a_map(self):
        frame = np.random.default_rng(3).poisson(20, (60, 50)).astype(np.uint16)
        images, _ = spots(4)
        places = np.array([[x, y] for x in (10, 40) for y in (10, 50)])
        for (x, y), image in zip(places, images):
            frame[y - 5:y + 6, x - 5:x + 6] = image
        for offset, told in ((40, 0), (75, 1)):
            offsets = np.full(frame.shape, 0, np.float32)
            for x, y in places:
                offsets[y - 5:y + 6, x - 5:x + 6] = offset
            self.assertEqual(len(self.warnings_of(driftd_fit.fit_frames, frame, places, 11, offset=offset)), told)
            texts = self.warnings_of(driftd_fit.fit_frames, frame, places, 11, offset_map=offsets)
            self.assertEqual(len(texts), told)
        self.assertIn("below the offset_map: ", texts[0])


class Fits(unittest.TestCase):
    def test_finds_the_spots(self):
        for dtype in (np.uint16, np.float32):
            images, truth = spots(500, dtype=dtype)
            fits = fit(images, backend="cpu", gain=1.0)
            self.assertEqual(fits.shape, (500,))
            self.assertTrue(converged(fits).all())
            for column, name in enumerate(("x", "y", "sigma_x")):
                error = (fits[name] - truth[:, column]) / fits[f"{name}_sd"]
                self.assertLess(abs(error.mean()), 0.3, name)
                self.assertLess(abs(np.sqrt((error**2).mean()) - 1), 0.15, name)

    def test_x_counts_columns(self):
        images, truth = spots(1)
        a = fit(images[0], backend="cpu")[0]
        b = fit(np.ascontiguousarray(images[0].T), backend="cpu")[0]
        self.assertAlmostEqual(float(a["x"]), float(b["y"]), places=4)

    def test_agrees_with_scipy(self):
        try:
            from scipy.optimize import least_squares
        except ImportError:
            self.skipTest("SKIPPED: python3-scipy is not installed")
        images, truth = spots(20)
        y, x = np.mgrid[:SIDE, :SIDE]
        for image, start, ours in zip(images, truth, fit(images, backend="cpu")):
            def residuals(p):
                model = p[3] * np.exp(-((x - p[0])**2 + (y - p[1])**2) / (2 * p[2]**2)) + p[4]
                return (model - image).ravel()
            found = least_squares(residuals, start, xtol=1e-12, ftol=1e-12).x
            self.assertAlmostEqual(ours["x"], found[0], delta=2e-3)
            self.assertAlmostEqual(ours["y"], found[1], delta=2e-3)
            self.assertAlmostEqual(ours["sigma_x"], found[2], delta=2e-3)

    def test_starts_and_strides_change_nothing_but_the_way(self):
        images, truth = spots(50)
        cold = fit(images, backend="cpu")
        warm = fit(images, start=truth[:, :3], backend="cpu")
        self.assertLess(np.abs(cold["x"] - warm["x"]).max(), 5e-3)
        self.assertLess(warm["iterations"].mean(), cold["iterations"].mean())
        every_other = fit(np.repeat(images, 2, axis=0)[::2], backend="cpu")
        self.assertTrue((every_other == cold).all())

    def test_threads_change_no_bit(self):
        images, _ = spots(1000)
        one = fit(images, backend="cpu", threads=1)
        self.assertTrue((one == fit(images, backend="cpu", threads=3)).all())

    def test_bad_pixels_are_named_not_fitted(self):
        images, _ = spots(3, dtype=np.float32)
        images[1, 5, 5] = np.nan
        status = [driftd_fit.STATUS[s] for s in fit(images, backend="cpu")["status"]]
        self.assertEqual(status[1], "bad_input")
        self.assertTrue(status[0].startswith("converged"))

    def test_gain_turns_residuals_into_photons(self):
        images, _ = spots(200)
        without = fit(images, backend="cpu")
        with_gain = fit(images, backend="cpu", gain=1.0)
        self.assertTrue((without["x"] == with_gain["x"]).all())
        self.assertFalse((without["x_sd"] == with_gain["x_sd"]).all())

    def test_what_an_emccd_adds_to_the_noise_is_told(self):
        """Pixels as such a camera makes them: of n photons a gamma distributed signal of variance 2 n."""
        random, side, n = np.random.default_rng(5), 11, 4000
        y, x = np.mgrid[:side, :side]
        expected = 20 + 300 * np.exp(-((x - 5.2) ** 2 + (y - 4.9) ** 2) / (2 * 1.3**2))
        images = (random.gamma(np.maximum(random.poisson(expected, (n, side, side)), 1e-9)) * 5.0).astype(np.float32)
        for estimator, margin in (("poisson", 0.05), ("implicit", 0.05)):
            told = {excess: fit(images, estimator=estimator, backend="cpu", gain=0.2, excess_noise=excess)
                    for excess in (1, 2)}
            for excess, ratio in ((1, np.sqrt(2)), (2, 1)):
                good = told[excess][converged(told[excess])]
                self.assertGreater(good.size, 0.99 * n)
                self.assertAlmostEqual(good["x"].std() / np.median(good["x_sd"]) / ratio, 1, delta=margin)
        with self.assertRaisesRegex(ValueError, "excess_noise is 0.5; allowed are 1 to 16"):
            fit(images[:1], backend="cpu", excess_noise=0.5)

    def test_sigma_is_the_spots_own_where_pixels_are_integrated(self):
        """Spots as sums over 21 x 21 places of each pixel."""
        side, fine, sigma = 9, 21, 0.8
        at = (np.arange(side * fine) + 0.5) / fine - 0.5
        profiles = [np.exp(-(at - centre) ** 2 / (2 * sigma**2)).reshape(side, fine).mean(1)
                    for centre in (4.2, 3.7)]
        images = (20 + 500 * profiles[1][:, None] * profiles[0])[None].astype(np.float32)
        for estimator in ("implicit", "least_squares", "poisson"):
            for model in driftd_fit.MODELS:
                told = {integrated: fit(images, model, estimator, backend="cpu", integrated=integrated)[0]
                        for integrated in (False, True)}
                self.assertAlmostEqual(told[True]["sigma_x"], sigma, delta=1e-3)
                self.assertAlmostEqual(told[True]["amplitude"], 500, delta=1)
                self.assertAlmostEqual(told[False]["sigma_x"], sigma + 1 / (24 * sigma), delta=5e-3)
                self.assertAlmostEqual(told[True]["x"], 4.2, delta=1e-3)
        with self.assertRaisesRegex(ValueError, "integrated is 2; allowed are whole numbers 0 to 1"):
            fit(images, backend="cpu", integrated=2)

    def test_saturation_is_in_pixel_units(self):
        images = spots(2)[0].astype(np.float32) / 2000  # all below 1
        self.assertTrue(converged(fit(images, backend="cpu", saturation=0.9)).all())
        images[1, 5, 5] = 0.95
        self.assertEqual(list(converged(fit(images, backend="cpu", saturation=0.9))), [True, False])
        with self.assertRaisesRegex(ValueError, "saturation"):
            fit(images, backend="cpu", saturation=float("nan"))

    def test_no_images(self):
        self.assertEqual(fit(np.zeros((0, 9, 9), np.uint8), backend="cpu").shape, (0,))

    def test_progress_and_cancelling(self):
        images = np.repeat(spots(1)[0], 300_000, axis=0)
        calls = []
        with Fitter("cpu") as fitter:
            fitter.fit(images, progress=lambda done, n: calls.append((done, n)))
            self.assertGreater(len(calls), 1)
            self.assertEqual(calls[-1], (300_000, 300_000))
            some = fitter.fit(images, progress=lambda done, n: True)
            self.assertTrue(converged(some)[0])
            self.assertFalse(converged(some)[-1])
            with self.assertRaises(ZeroDivisionError):
                fitter.fit(images, progress=lambda done, n: 1 / 0)
            for wrong in (fitter.close, lambda: fitter.fit(images[:1])):
                with self.assertRaisesRegex(RuntimeError, "this Fitter is fitting"):
                    fitter.fit(images, progress=lambda done, n: wrong())
            self.assertTrue(converged(fitter.fit(images[:1]))[0])
            many = np.repeat(images, 10, axis=0)
            for inside in (True, False):  # of progress, or while C fits
                seen = []
                interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
                interrupt.start()
                with self.subTest(inside=inside), self.assertRaises(KeyboardInterrupt):
                    fitter.fit(many, progress=lambda done, n: seen.append(done) or (inside and time.sleep(5)))
                interrupt.join()
                self.assertLess(len(seen), 20)  # blocks, of 23
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            with self.assertRaises(KeyError), Fitter("cpu") as other:
                other._fitting = True  # as by another thread
                raise KeyError
            other._fitting = False

    def test_mistakes_say_what_is_allowed(self):
        good, _ = spots(2)
        cases = [
            (TypeError, "float64", dict(images=good.astype(float))),
            (ValueError, r"\(2, 11, 9\)", dict(images=good[:, :, :9])),
            (ValueError, r"\(n, side, side\)", dict(images=np.zeros((2, 2, 9, 9), np.uint8))),
            (ValueError, "4 to 64", dict(images=np.zeros((1, 3, 3), np.uint8))),
            (ValueError, "circular", dict(images=good, model="square")),
            (ValueError, "implicit", dict(images=good, estimator="guess")),
            (ValueError, "auto, cpu, cuda", dict(images=good, backend="tpu")),
            (TypeError, "max_iterations", dict(images=good, max_iteration=3)),
            (ValueError, "max_iterations is 0; allowed are whole numbers 1 to 255$",
             dict(images=good, max_iterations=0)),
            (ValueError, "max_iterations is 4294967301; allowed are whole numbers 1 to 255$",
             dict(images=good, max_iterations=2**32 + 5)),
            (ValueError, "spots_only is 4294967296; allowed are whole numbers 0 to 1$",
             dict(images=good, spots_only=2**32)),
            (ValueError, "threads is 1000000000000; allowed are whole numbers 0 to 1024$",
             dict(images=good, threads=10**12)),
            (ValueError, "threads is -1", dict(images=good, threads=-1)),
            (ValueError, "a device is 4294967296; allowed are whole numbers 0 to 1023$",
             dict(images=good, devices=[0, 2**32])),
            (ValueError, "lambda_start is 0; allowed are 1e-09 to 1e[+]09$",
             dict(images=good, lambda_start=0)),
            (ValueError, r"\(2, 3\)", dict(images=good, start=np.zeros((1, 3)))),
            (ValueError, r"\(2, 2\) of amplitude, background",
             dict(images=good, estimator="poisson", levels=np.zeros((2, 3)))),
            (ValueError, r"\(2, 11, 11\) and \(11, 11\)",
             dict(images=good, estimator="poisson", variances=np.ones(2))),
            (ValueError, "sigma_x, sigma_y", dict(images=good, estimator="poisson", fixed=["s"])),
            (ValueError, "sigma_x, sigma_y",
             dict(images=good, estimator="poisson", bounds={"s": (0, 1)})),
            (ValueError, "number and", dict(images=good, estimator="poisson",
                                            bounds={"x": (0, [1, 2, 3])})),
            (ValueError, "lower, upper", dict(images=good, estimator="poisson",
                                              bounds={"x": (0, 1, 2)})),
            (ValueError, "fixes", dict(images=good, fixed=["x"], start=np.ones((2, 3)))),
            (ValueError, "variances", dict(images=good, estimator="weighted_least_squares")),
            (ValueError, "variances of the pixels are given, which this estimator does not use",
             dict(images=good, variances=np.ones(good.shape))),
            (ValueError, "variances of the pixels are given, which this estimator does not use",
             dict(images=good, estimator="least_squares", variances=np.ones(good.shape))),
            (ValueError, "sigma_y is fixed, and the model has none",
             dict(images=good, estimator="poisson", fixed=["sigma_y"], start=np.ones((2, 3)))),
            (ValueError, "bounds: of sigma_y, which the circular model has not",
             dict(images=good, estimator="poisson", bounds={"sigma_y": (1, 3)})),
            (ValueError, "bounds: of sigma_y, which the circular model has not",
             dict(images=good, estimator="poisson", bounds={"sigma_y": (1, [3, 4])})),
        ]
        for error, text, arguments in cases:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                fit(**{"backend": "cpu", **arguments})

    def test_another_kind_of_thing_is_a_type_error_with_the_cure(self):
        good, _ = spots(2)
        poisson = {"images": good, "estimator": "poisson"}
        for text, given in (
                (r"images are float64; .*images.astype\(numpy.float32\)$",
                 dict(images=good.astype(float))),
                (r"images are int32; .*images.astype\(numpy.uint16\) where they are 0 to 65535, else",
                 dict(images=good.astype(np.int32))),
                (r"images are >u2; .*images.astype\(numpy.uint16\)$", dict(images=good.astype(">u2"))),
                ("images are bool; ", dict(images=good > 60)),
                (r"images: a list; .*numpy.asarray\(images, numpy.float32\)$",
                 dict(images=good.tolist())),
                ("images: a list of object; allowed are arrays of numbers of one length",
                 dict(images=[[1, 2], [3]])),
                ("images: a single value, 5; ", dict(images=5)),
                ("images: a NoneType of object", dict(images=None)),
                (r"images: a masked array; its mask would be ignored. Give images.data",
                 dict(images=np.ma.masked_greater(good, 300))),
                ("start: a masked array", dict(images=good, start=np.ma.ones((2, 3)))),
                ("variances: a masked array",
                 dict(poisson, variances=np.ma.ones((SIDE, SIDE)))),
                ("a bound of x: a masked array", dict(poisson, bounds={"x": (0, np.ma.ones(2))})),
                ("model is 1, an int; allowed are the names circular, elliptical, rotated$",
                 dict(images=good, model=1)),
                ("gain is '4', a str; allowed are None, 0, 1e-12 to 1e[+]12$",
                 dict(images=good, gain="4")),
                ("offset is None, a NoneType; allowed are finite numbers$",
                 dict(images=good, offset=None)),
                ("read_noise is array", dict(images=good, read_noise=np.ones(2))),
                ("max_iterations is 20.0, a float", dict(images=good, max_iterations=20.0)),
                ("bounds: a list; allowed is a mapping", dict(poisson, bounds=[(0, 1)])),
                ("progress is 3; allowed is a function", dict(images=good, progress=3))):
            with self.subTest(text), self.assertRaisesRegex(TypeError, text):
                fit(**{"backend": "cpu", **given})

    def test_values_that_make_no_sense_are_refused_by_name(self):
        good, _ = spots(3)
        each = np.array([0.5, 4, 5])
        for text, given in (
                ("gain is -4; allowed are None, 0, 1e-12 to 1e[+]12$", dict(gain=-4)),
                ("gain is nan; ", dict(gain=float("nan"))), ("gain is inf; ", dict(gain=np.inf)),
                ("gain is 1e[+]30; ", dict(gain=1e30)), ("gain is 1e-30; ", dict(gain=1e-30)),
                ("read_noise is -1; allowed are 0 or more$", dict(read_noise=-1)),
                ("offset is inf; allowed are finite numbers$", dict(offset=np.inf)),
                ("saturation is -1; ", dict(saturation=-1)),
                ("min_background is nan; allowed are numbers$", dict(min_background=np.nan)),
                ("bounds of sigma_x are 2 and 1; allowed are a lower one and one not below it$",
                 dict(bounds={"sigma_x": (2, 1)})),
                ("bounds of y are nan and 1; ", dict(bounds={"y": (np.nan, 1)})),
                ("bounds of x of image 1 are 4 and 3; ", dict(bounds={"x": (each, 5 - each // 2)})),
                ("bounds of x of image 2 are 5 and 4.5; ", dict(bounds={"x": (each, 4.5)})),
                ("bounds of x are 5; allowed are two: lower, upper$", dict(bounds={"x": 5}))):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                fit(good, estimator="poisson", backend="cpu", **given)
        unknown = fit(good, backend="cpu")
        for gain in None, 0, 0.0, np.float32(0):
            self.assertTrue((fit(good, backend="cpu", gain=gain) == unknown).all())
        self.assertTrue((fit(good, backend="cpu", gain=np.float64(2), saturation=np.inf,
                             max_iterations=np.int64(20), min_background=-np.inf)
                         == fit(good, backend="cpu", gain=2)).all())

    def test_help_names_every_parameter_and_option(self):
        for function, options in ((fit, driftd_fit.arguments.FIT_OPTIONS),
                                  (search, driftd_fit.arguments.SWARM_OPTIONS)):
            for name in [*inspect.signature(function).parameters, *options]:
                self.assertRegex(function.__doc__, rf"\b{name}\b", function.__name__)
            self.assertNotIn("driftfit.h", function.__doc__)
        self.assertEqual({name for name, _ in driftd_fit.libdriftfit.Options._fields_}
                         - {"size", "model", "estimator", "fixed", "lower", "upper"},
                         set(driftd_fit.arguments.FIT_OPTIONS))
        self.assertEqual({name for name, _ in driftd_fit.libdriftfit.SwarmOptions._fields_}
                         - {"size"}, set(driftd_fit.arguments.SWARM_OPTIONS))

    def test_failures_are_usual_exceptions(self):
        self.assertTrue(issubclass(driftd_fit.FitError, RuntimeError))
        self.assertTrue(issubclass(driftd_fit.LibraryMissing, ImportError))

    @unittest.skipIf(can_have_gpu(), "there is a GPU")
    def test_a_gpu_that_is_not_there(self):
        with self.assertRaisesRegex(driftd_fit.FitError, "CUDA"):
            Fitter("cuda")
        automatic = Fitter("auto")
        self.assertEqual(automatic.backend, "cpu")
        self.assertIn("CUDA: ", automatic.backend_reason)
        self.assertEqual(Fitter("cpu").backend_reason, "the CPU was asked for")

    def test_driftd_has_them_too(self):
        try:
            import driftd
        except ImportError:
            self.skipTest("python3-zmq is not installed")
        images, _ = ellipses(20)
        how = {"gain": 2.0, "backend": "cpu"}
        self.assertTrue((driftd.fit(images, "elliptical", "poisson", **how)
                         == fit(images, "elliptical", "poisson", **how)).all())
        how.update(particles=64, seed=7)
        for ours, theirs in zip(driftd.search(images, "elliptical", **how),
                                search(images, "elliptical", **how)):
            self.assertTrue((ours == theirs).all())

    def test_only_its_own_names_are_exported(self):
        names = subprocess.run(["nm", "-D", "--defined-only", os.environ["DRIFTFIT_LIBRARY"]],
                               capture_output=True, text=True, check=True).stdout.split("\n")
        symbols = [line.split()[2] for line in names if line and " A " not in line]
        later = {"driftfit_fit_images": ".1", "driftfit_search": ".2",
                 "driftfit_default_swarm_options": ".2", "driftfit_backend_reason": ".3",
                 "driftfit_fit_frames": ".4", "driftfit_allocate_pinned": ".5",
                 "driftfit_free_pinned": ".5"}
        for symbol in symbols:
            name, version = symbol.split("@@")
            self.assertRegex(name, r"^driftfit_\w+$")
            self.assertEqual(version, "DRIFTFIT_1" + later.pop(name, ""), name)
        self.assertEqual(later, {})


if __name__ == "__main__":
    unittest.main()
