# SPDX-License-Identifier: MIT
"""The Python binding of libdriftfit, on the CPU."""
import inspect
import os
import signal
import subprocess
import threading
import time
import unittest

from made_spots import SIDE, can_have_gpu, driftd_fit, ellipses, gaussian, np, parameters_of, spots

from driftd_fit import Fitter, converged, fit, search


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
                 "driftfit_free_pinned": ".5", "driftfit_find_spots": ".6", "driftfit_localize": ".6",
                 "driftfit_instruction_set": ".6", "driftfit_use_instruction_set": ".6"}
        for symbol in symbols:
            name, version = symbol.split("@@")
            self.assertRegex(name, r"^driftfit_\w+$")
            self.assertEqual(version, "DRIFTFIT_1" + later.pop(name, ""), name)
        self.assertEqual(later, {})


if __name__ == "__main__":
    unittest.main()
