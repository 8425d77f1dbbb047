# SPDX-License-Identifier: MIT
"""Programs written for pyGpufit, on driftd's libGpufit."""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

from pygpufit import gpufit as gf

try:
    from scipy import optimize
except ImportError:
    optimize = None

CIRCULAR, ELLIPTIC = gf.ModelID.GAUSS_2D, gf.ModelID.GAUSS_2D_ELLIPTIC
LSE, MLE = gf.EstimatorID.LSE, gf.EstimatorID.MLE
SIDE = 11
CONVERGED, MAX_ITERATION, SINGULAR_HESSIAN = 0, 1, 2
DATA = pathlib.Path(os.environ.get("DRIFTD_TEST_DATA")
                    or pathlib.Path(__file__).resolve().parents[5] / "shared/data")


def model(parameters, side=SIDE):
    """Gpufit's formulas: (n, 5 or 6) parameters to (n, side * side) values."""
    p = np.atleast_2d(np.asarray(parameters, float)).T[:, :, None, None]
    y, x = np.mgrid[:side, :side]
    arg = (x - p[1])**2 / (2 * p[3]**2) + (y - p[2])**2 / (2 * p[-2]**2)
    return (p[0] * np.exp(-arg) + p[-1]).reshape(p.shape[1], -1)


def deviance(data, values):
    logs = np.where(data > 0, data * np.log(values / np.where(data > 0, data, 1)), 0)
    return 2 * (values - data - logs).sum(1)


def spots(count, model_id=CIRCULAR, seed=1):
    """Data with Poisson noise, the truth, and start values off by some tenths."""
    random = np.random.default_rng(seed)
    columns = [random.uniform(200, 800, count), *random.uniform(4, 6, (2, count)),
               *random.uniform(1.1, 1.8, (1 if model_id == CIRCULAR else 2, count)),
               np.full(count, 20.0)]
    truth = np.column_stack(columns)
    data = random.poisson(model(truth)).astype(np.float32)
    start = (truth * random.uniform(0.85, 1.15, truth.shape)).astype(np.float32)
    return data, truth, start


def fitted(data, start, model_id=CIRCULAR, weights=None, **more):
    """As fit_constrained, at a tolerance where only rounding is left; checks that all converged."""
    arguments = {"tolerance": 1e-6, "max_number_iterations": 100, **more}
    result = gf.fit_constrained(data, weights, model_id, start, **arguments)
    assert (result[1] == CONVERGED).all(), np.unique(result[1], return_counts=True)
    return result


class Fits(unittest.TestCase):
    def test_both_models_and_estimators_find_the_truth(self):
        for model_id in (CIRCULAR, ELLIPTIC):
            for estimator in (LSE, MLE):
                data, truth, start = spots(500, model_id)
                found, _, _, iterations, seconds = fitted(data, start, model_id,
                                                          estimator_id=estimator)
                error = found - truth
                with self.subTest(model=model_id, estimator=estimator):
                    # 0.02 px: the Cramer-Rao bound is about sigma / sqrt(photons) = 0.03.
                    self.assertLess(np.abs(np.median(error[:, 1:-1], axis=0)).max(), 0.01)
                    self.assertLess(np.abs(error[:, 1:-1]).mean(), 0.05)
                    self.assertLess(abs(error[:, -1].mean()), 0.3)
                    self.assertGreater(iterations.min(), 0)
                    self.assertGreater(seconds, 0)

    def test_least_squares_is_scipys(self):
        if optimize is None:
            self.skipTest("SKIPPED: python3-scipy is not installed")
        for model_id in (CIRCULAR, ELLIPTIC):
            for weighted in (False, True):
                data, truth, start = spots(15, model_id)
                weights = (1 / model(truth)).astype(np.float32) if weighted else None
                found, _, chi, _, _ = fitted(data, start, model_id, weights)
                for i in range(len(data)):
                    root = np.sqrt(weights[i]) if weighted else 1
                    best = optimize.least_squares(
                        lambda p: (model(p)[0] - data[i]) * root, truth[i], x_scale=truth[i],
                        ftol=1e-14, xtol=1e-14)
                    self.assertLess(np.abs(found[i, 1:-1] - best.x[1:-1]).max(), 2e-3)
                    self.assertAlmostEqual(chi[i] / (2 * best.cost), 1, delta=1e-4)

    def test_likelihood_is_scipys(self):
        if optimize is None:
            self.skipTest("SKIPPED: python3-scipy is not installed")
        data, truth, start = spots(15, ELLIPTIC)
        found, _, chi, _, _ = fitted(data, start, ELLIPTIC, estimator_id=MLE)
        for i in range(len(data)):
            best = optimize.minimize(
                lambda p: deviance(data[i:i + 1], np.maximum(model(p * truth[i]), 1e-9))[0],
                np.ones(6), method="Nelder-Mead",
                options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 20000, "maxfev": 20000})
            self.assertLess(np.abs(found[i, 1:-1] - (best.x * truth[i])[1:-1]).max(), 3e-3)
            self.assertAlmostEqual(chi[i] / best.fun, 1, delta=1e-4)

    def test_chi_square_is_that_of_the_documented_formulas(self):
        data, truth, start = spots(100)
        data[:, 3] = 0  # no logarithm
        weights = np.random.default_rng(2).uniform(0.5, 2, data.shape).astype(np.float32)
        found, _, chi, _, _ = fitted(data, start)
        np.testing.assert_allclose(chi, ((model(found) - data)**2).sum(1), rtol=1e-4)
        found, _, chi, _, _ = fitted(data, start, weights=weights)
        np.testing.assert_allclose(chi, (weights * (model(found) - data)**2).sum(1), rtol=1e-4)
        found, _, chi, _, _ = fitted(data, start, estimator_id=MLE)
        np.testing.assert_allclose(chi, deviance(data, model(found)), rtol=1e-3)

    def test_x_counts_columns(self):
        data = model([300, 3, 6, 1.2, 1.7, 10]).astype(np.float32)
        start = np.array([[250, 4, 5, 1.5, 1.5, 5]], np.float32)
        found = fitted(data, start, ELLIPTIC)[0][0]
        np.testing.assert_allclose(found, [300, 3, 6, 1.2, 1.7, 10], rtol=1e-3)

    def test_a_point_of_weight_zero_has_no_say(self):
        data, _, start = spots(20)
        weights = np.ones_like(data)
        weights[:, 60] = 0
        spoiled = data.copy()
        spoiled[:, 60] += 5000
        np.testing.assert_allclose(fitted(spoiled, start, weights=weights)[0],
                                   fitted(data, start, weights=weights)[0], rtol=2e-3)

    def test_weights_do_nothing_to_the_likelihood(self):
        data, _, start = spots(20)
        weights = np.random.default_rng(3).uniform(0.1, 9, data.shape).astype(np.float32)
        a = fitted(data, start, weights=weights, estimator_id=MLE)[0]
        self.assertTrue((a == fitted(data, start, estimator_id=MLE)[0]).all())

    def test_large_batches_are_the_sum_of_small_ones(self):
        data, _, start = spots(40000, seed=4)
        whole = gf.fit(data, None, CIRCULAR, start)
        part = gf.fit(data[30000:30100], None, CIRCULAR, start[30000:30100])
        for a, b in zip(whole[:4], part[:4]):
            self.assertTrue((a[30000:30100] == b).all())
        none = gf.fit(data[:0], None, CIRCULAR, start[:0])
        self.assertEqual(none[0].shape, (0, 5))


class ParametersToFit(unittest.TestCase):
    def test_the_others_keep_their_initial_values(self):
        data, truth, start = spots(50, ELLIPTIC)
        for kept in range(6):
            to_fit = np.ones(6, np.int32)
            to_fit[kept] = 0
            found, _, chi, _, _ = fitted(data, start, ELLIPTIC, parameters_to_fit=to_fit)
            self.assertTrue((found[:, kept] == start[:, kept]).all())
            free = fitted(data, start, ELLIPTIC)[2]
            self.assertTrue((chi >= free * (1 - 1e-5)).all())

    def test_what_is_fitted_is_at_its_minimum(self):
        data, truth, start = spots(30)
        start[:, 3] = truth[:, 3] * 1.2
        for estimator, value in ((LSE, lambda p: ((model(p) - data)**2).sum(1)),
                                 (MLE, lambda p: deviance(data, model(p)))):
            found = fitted(data, start, parameters_to_fit=np.array([1, 1, 1, 0, 1], np.int32),
                           estimator_id=estimator)[0].astype(float)
            best = value(found)
            for j, step in ((0, 5), (1, 0.03), (2, 0.03), (4, 1)):
                for sign in (-1, 1):
                    beside = found.copy()
                    beside[:, j] += sign * step
                    self.assertTrue((value(beside) > best).all(), (estimator, j))

    def test_none_to_fit_evaluates_the_initial_values(self):
        data, _, start = spots(10)
        found, states, chi, _, _ = gf.fit(data, None, CIRCULAR, start,
                                          parameters_to_fit=np.zeros(5, np.int32))
        self.assertTrue((found == start).all())
        self.assertTrue((states == CONVERGED).all())
        np.testing.assert_allclose(chi, ((model(start) - data)**2).sum(1), rtol=1e-4)


class Constraints(unittest.TestCase):
    def bounds(self, start, which, lower, upper):
        bounds = np.zeros((len(start), 2 * start.shape[1]), np.float32)
        bounds[:, 2 * which], bounds[:, 2 * which + 1] = lower, upper
        return bounds

    def test_types(self):
        data, truth, start = spots(50)
        sigma = 3
        free = fitted(data, start)[0]
        for kind, low, high in ((gf.ConstraintType.LOWER, 1.5, 9),
                                (gf.ConstraintType.UPPER, 9, 1.4),
                                (gf.ConstraintType.LOWER_UPPER, 1.3, 1.5),
                                (gf.ConstraintType.FREE, 9, 9)):
            types = np.zeros(5, np.int32)
            types[sigma] = kind
            found = fitted(data, start, constraint_types=types,
                           constraints=self.bounds(start, sigma, low, high))[0][:, sigma]
            if kind & gf.ConstraintType.LOWER:
                self.assertGreaterEqual(found.min(), np.float32(low))
            if kind & gf.ConstraintType.UPPER:
                self.assertLessEqual(found.max(), np.float32(high))
            inside = np.ones(len(data), bool)
            if kind & gf.ConstraintType.LOWER:
                inside &= free[:, sigma] > low + 0.01
            if kind & gf.ConstraintType.UPPER:
                inside &= free[:, sigma] < high - 0.01
            self.assertTrue(inside.any())
            np.testing.assert_allclose(found[inside], free[inside, sigma], atol=3e-3)

    def test_every_fit_has_its_own(self):
        data, truth, start = spots(50)
        limit = (truth[:, 1] - 0.5).astype(np.float32)
        types = np.array([0, gf.ConstraintType.UPPER, 0, 0, 0], np.int32)
        found = fitted(data, start, constraint_types=types,
                       constraints=self.bounds(start, 1, 0, limit))[0]
        self.assertTrue((found[:, 1] == limit).all())

    def test_what_is_not_fitted_is_not_constrained(self):
        data, _, start = spots(10)
        found = fitted(data, start, constraint_types=np.array([0, 0, 0, 3, 0], np.int32),
                       constraints=self.bounds(start, 3, 5, 6),
                       parameters_to_fit=np.array([1, 1, 1, 0, 1], np.int32))[0]
        self.assertTrue((found[:, 3] == start[:, 3]).all())

    def test_a_lower_above_an_upper_is_no_fit(self):
        data, _, start = spots(3)
        bounds = self.bounds(start, 3, 1, 2)
        bounds[1, 6:8] = 2, 1
        states = gf.fit_constrained(data, None, CIRCULAR, start, bounds,
                                    np.array([0, 0, 0, 3, 0], np.int32))[1]
        self.assertEqual(list(states), [CONVERGED, SINGULAR_HESSIAN, CONVERGED])


class States(unittest.TestCase):
    def test_iterations_run_out(self):
        data, _, start = spots(50)
        _, states, _, iterations, _ = gf.fit(data, None, CIRCULAR, start, 1e-6, 1)
        self.assertTrue((states == MAX_ITERATION).all())
        self.assertTrue((iterations == 1).all())

    def test_more_iterations_than_ours_has_are_no_mistake(self):
        data, _, start = spots(5)
        for most in (1000, 2**31 - 1):
            self.assertTrue((gf.fit(data, None, CIRCULAR, start, 1e-6, most)[1] == CONVERGED).all())

    def test_a_tighter_tolerance_takes_more_iterations(self):
        data, _, start = spots(200)
        loose, tight = (gf.fit(data, None, CIRCULAR, start, t, 100)[3].mean() for t in (1e-1, 1e-6))
        self.assertLess(loose, tight)

    def test_points_that_are_no_numbers(self):
        for spoil in (np.nan, np.inf):
            data, _, start = spots(3)
            data[1, 7] = spoil
            for estimator in (LSE, MLE):
                found, states, chi, iterations, _ = gf.fit(data, None, CIRCULAR, start,
                                                           estimator_id=estimator)
                self.assertEqual(list(states), [CONVERGED, SINGULAR_HESSIAN, CONVERGED])
                self.assertTrue((found[1] == start[1]).all())
                self.assertTrue(np.isnan(chi[1]))
                self.assertEqual(iterations[1], 0)

    def test_equal_points_are_no_spot(self):
        data, _, start = spots(2)
        data[1] = 7
        found, states = gf.fit(data, None, CIRCULAR, start)[:2]
        self.assertEqual(list(states), [CONVERGED, SINGULAR_HESSIAN])
        self.assertTrue((found[1] == start[1]).all())

    def test_fewer_points_of_weight_than_parameters_are_no_fit(self):
        data, _, start = spots(8)
        for kept, parameters in ((None, 5), (3, 4)):
            to_fit = np.array([j != kept for j in range(5)], np.int32)
            weights = np.zeros_like(data)
            for i in range(8):
                weights[i, 48:48 + i] = 1
            found, states, chi = gf.fit(data, weights, CIRCULAR, start, 1e-4, 20, to_fit)[:3]
            self.assertTrue((states[:parameters] == SINGULAR_HESSIAN).all(), states)
            self.assertTrue((states[parameters:] != SINGULAR_HESSIAN).all(), states)
            self.assertTrue((found[:parameters] == start[:parameters]).all())
            self.assertTrue(np.isnan(chi[:parameters]).all())

    def test_any_minimum_counts(self):
        """A dip is no spot, and fitted: Gpufit has no opinion of what it fits."""
        data, truth, start = spots(20)
        dip, start = 1000 - data, start.copy()
        start[:, 0] *= -1
        start[:, 4] = 1000 - start[:, 4]
        found = fitted(dip, start)[0]
        self.assertTrue((found[:, 0] < 0).all())
        self.assertLess(np.abs(found[:, 1:3] - truth[:, 1:3]).mean(), 0.05)

    def test_negative_points_count_as_none_to_the_likelihood(self):
        data, _, start = spots(20)
        data[:, :5] = -2
        a = fitted(data, start, estimator_id=MLE)[0]
        data[:, :5] = 0
        np.testing.assert_allclose(a, fitted(data, start, estimator_id=MLE)[0], rtol=1e-3,
                                   atol=1e-3)


class Mistakes(unittest.TestCase):
    def test_they_say_what_is_allowed(self):
        data, _, start = spots(2)
        circular = (data, None, CIRCULAR, start)
        cases = [
            ("model_id is 6, fitted are 0", (data, None, gf.ModelID.FLETCHER_POWELL, start), {}),
            ("5 parameters, the model has 2", (data, None, gf.ModelID.LINEAR_1D, start), {}),
            ("model_id is 99", (data, None, 99, start), {}),
            ("5 parameters, the model has 6", (data, None, ELLIPTIC, start), {}),
            ("n_points is 120", (np.ascontiguousarray(data[:, :120]), None, CIRCULAR, start), {}),
            ("data has shape", (data[0], None, CIRCULAR, start), {}),
            ("data is float64", (data.astype(float), None, CIRCULAR, start), {}),
            ("data is not C-contiguous", (data[:, ::2], None, CIRCULAR, start), {}),
            ("initial_parameters has shape", (data, None, CIRCULAR, start[:1]), {}),
            ("weights has shape", (data, data[:1], CIRCULAR, start), {}),
            ("constraints has shape", circular, {"constraints": start}),
            ("constraint type is 4", circular, {"constraints": np.zeros((2, 10), np.float32),
                                                "constraint_types": np.full(5, 4, np.int32)}),
            ("parameters_to_fit is int64", circular, {"parameters_to_fit": np.ones(5, np.int64)}),
            ("estimator_id is 2", circular, {"estimator_id": 2}),
            ("max_number_iterations is 4294967299; its 32 bits hold", circular,
             {"max_number_iterations": 2**32 + 3}),
            ("max_number_iterations is 2147483648; its 32 bits hold", circular,
             {"max_number_iterations": 2**31}),
            ("model_id is 4294967297; its 32 bits hold", (data, None, 2**32 + 1, start), {}),
            ("estimator_id is -4294967296; its 32 bits hold", circular, {"estimator_id": -2**32}),
            ("max_n_iterations is 0", circular, {"max_number_iterations": 0}),
            ("tolerance is not a number", circular, {"tolerance": float("nan")}),
            ("user_info has shape", circular, {"user_info": np.zeros(4, np.float32)}),
            ("this model has none", circular, {"user_info": np.zeros(data.shape[1], np.float32)}),
        ]
        for text, positional, named in cases:
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                gf.fit_constrained(*positional, **named)

    def test_an_error_is_its_threads_own(self):
        data, _, start = spots(1)
        with self.assertRaises(RuntimeError):
            gf.fit(data, None, gf.ModelID.BROWN_DENNIS, start)
        self.assertIn(b"model_id is 7", gf.get_last_error())
        seen = []
        other = threading.Thread(target=lambda: seen.append(gf.get_last_error()))
        other.start()
        other.join()
        self.assertEqual(seen, [b""])

    def test_a_library_that_is_not_there_is_an_import_error(self):
        said = subprocess.run(
            [sys.executable, "-c", "try:\n  from pygpufit import gpufit\n"
             "except ImportError as error:\n  print('not installed:', error)"],
            env={**os.environ, "GPUFIT_LIBRARY": "/nowhere/libGpufit.so"}, capture_output=True,
            text=True, check=True).stdout
        self.assertIn("not installed: /nowhere/libGpufit.so", said)


class Gpus(unittest.TestCase):
    def test_whether_there_is_one(self):
        runtime, driver = gf.get_cuda_version()
        self.assertEqual(len(runtime), 2)
        if gf.cuda_available():
            self.assertGreater(min(runtime, driver), (0, 0))
        else:
            self.assertIn(b"CPU", gf.get_last_error())

    def test_the_user_may_let_programs_go_on_without(self):
        said = subprocess.run(
            [sys.executable, "-c", "from pygpufit import gpufit; print(gpufit.cuda_available())"],
            env={**os.environ, "GPUFIT_ALLOW_CPU": "1"}, capture_output=True, text=True,
            check=True).stdout
        self.assertEqual(said, "True\n")

    @unittest.skipUnless(shutil.which("cc"), "SKIPPED: no C compiler")
    def test_a_program_for_double_precision_does_not_compile(self):
        header = pathlib.Path(__file__).resolve().parents[4] / "fitter/gpufit/gpufit.h"
        for language in ("c99", "c11", "c++98", "c++17"):
            for defined, said in (((), None), (["-DREAL=float"], None),
                                  (["-DREAL=double"], "takes.REAL.as.float"),
                                  (["-DGPUFIT_DOUBLE"], "single precision")):
                done = subprocess.run(
                    ["cc", "-x", "c++" if "+" in language else "c", f"-std={language}", "-pedantic",
                     "-Wall", "-Werror", "-fsyntax-only", *defined, "-"],
                    input=f'#include "{header}"\nint main(void) {{ return 0; }}\n',
                    capture_output=True, text=True, check=False)
                with self.subTest(language=language, defined=defined):
                    self.assertEqual(done.returncode == 0, said is None, done.stderr)
                    self.assertRegex(done.stderr, said or "^$")

    def test_names_that_programs_look_for(self):
        from pygpufit import version
        self.assertRegex(version.__version__, rf"^{version.__version_short__}\.\d+$")
        self.assertEqual(version.__version__, version.__version_full__)
        for kind, ids in ((gf.ModelID, range(15)), (gf.EstimatorID, (0, 1)),
                          (gf.ConstraintType, range(4)), (gf.Status, (0, 1))):
            self.assertEqual([i for i in range(-1, 20) if gf._valid_id(kind, i)], list(ids))
        self.assertFalse(gf._valid_id(gf.ModelID, gf.ModelID.__name__))
        self.assertFalse(gf._valid_id(gf.ModelID, gf.ModelID.__module__))

    def test_only_gpufits_names_are_exported(self):
        names = subprocess.run(["nm", "-D", "--defined-only", os.environ["GPUFIT_LIBRARY"]],
                               capture_output=True, text=True, check=True).stdout.split("\n")
        self.assertEqual(sorted(line.split()[2] for line in names if line), [
            "gpufit", "gpufit_constrained", "gpufit_constrained_cuda_interface",
            "gpufit_constrained_portable_interface", "gpufit_cuda_available",
            "gpufit_cuda_interface", "gpufit_get_cuda_version", "gpufit_get_last_error",
            "gpufit_portable_interface"])


class GpufitsOwnTests(unittest.TestCase):
    def test_vectors(self):
        path = DATA / "ref_gpufit_vectors.csv"
        if not path.exists():
            self.skipTest(f"SKIPPED: no {path} (set DRIFTD_TEST_DATA)")
        models = {"GAUSS_2D": CIRCULAR, "GAUSS_2D_ELLIPTIC": ELLIPTIC}
        tried = 0
        lines = iter([line for line in path.read_text().splitlines() if line[0] != "#"])
        for line in lines:
            name, size, true, initial, tolerance, most, rule = line.split(",")
            side = int(size.split("x")[0])
            rows = [[float(v) for v in next(lines).split(",")] for _ in range(side)]
            model_id = models.get(name.split("(")[0])
            if model_id is None:
                continue
            data = np.array(rows, np.float32).reshape(1, -1)
            truth = np.array([float(v.split("=")[1]) for v in true.split()])
            start = np.array([[float(v) for v in initial.split()]], np.float32)
            found, states, chi, iterations, _ = gf.fit(data, None, model_id, start,
                                                       float(tolerance), int(most))
            with self.subTest(name):
                self.assertEqual(states[0], CONVERGED)
                self.assertLess(chi[0], 1e-6)
                self.assertLessEqual(iterations[0], int(most))
                if "true" in rule:
                    self.assertLess((np.abs(found[0] - truth) / np.maximum(truth, 1)).max(), 1e-6)
            tried += 1
        self.assertEqual(tried, 3)


    def test_a_line_of_five_points(self):
        """Gauss_Fit_1D.cpp, whose points all have the weight 1."""
        truth = np.array([4, 2, 0.5, 1])
        data = (4 * np.exp(-(np.arange(5) - 2)**2 / (2 * 0.25)) + 1).astype(np.float32)[None]
        start = np.array([[2, 1.5, 0.3, 0]], np.float32)
        for weights in (None, np.ones_like(data)):
            found, states, chi, iterations, _ = gf.fit(data, weights, gf.ModelID.GAUSS_1D, start, 1e-3, 10)
            self.assertEqual(states[0], CONVERGED)
            self.assertLess(chi[0], 1e-6)
            self.assertLessEqual(iterations[0], 10)
            self.assertLess(np.abs(found[0] - truth).max(), 1e-6)

    def test_the_cauchy_profile(self):
        """Cauchy_Fit_2D_Elliptic.cpp: its formula, on 5 x 5 points."""
        y, x = np.mgrid[:5, :5]
        truth = np.array([4, 2, 2, 0.4, 0.6, 1])
        data = truth[0] / (1 + ((x - 2) / 0.4)**2) / (1 + ((y - 2) / 0.6)**2) + 1
        found, states, chi, iterations, _ = gf.fit(
            data.astype(np.float32).reshape(1, -1), None, gf.ModelID.CAUCHY_2D_ELLIPTIC,
            np.array([[2, 1.8, 2.2, 0.5, 0.5, 0]], np.float32), 1e-3, 10)
        self.assertEqual(states[0], CONVERGED)
        self.assertLess(chi[0], 1e-6)
        self.assertLess(np.abs(found[0] - truth).max(), 1e-6)

    def test_a_straight_line_of_two_points(self):
        """Linear_Fit_1D.cpp"""
        found, states, chi, _, _ = gf.fit(np.array([[0, 1]], np.float32), np.ones((1, 2), np.float32),
                                          gf.ModelID.LINEAR_1D, np.array([[1, 0]], np.float32), 1e-3, 10)
        self.assertEqual(states[0], CONVERGED)
        self.assertLess(chi[0], 1e-6)
        np.testing.assert_allclose(found, [[0, 1]], atol=1e-6)


class Clean(unittest.TestCase):
    """Images without noise, in any unit."""

    UNITS = (1e8, 1, 1e-2, 1e-4, 1e-8)

    def test_they_are_fitted_to_the_rounding_of_their_points(self):
        for model_id in (CIRCULAR, ELLIPTIC):
            _, truth, start = spots(300, model_id)
            levels = [0, -1]
            for unit, estimator, tolerance in itertools.product(self.UNITS, (LSE, MLE), (1e-3, 1e-6)):
                scaled, begin = truth.copy(), start.copy()
                for array in (scaled, begin):
                    array[:, levels] *= unit / 800
                for weights in (None, np.ones((300, SIDE**2), np.float32)):
                    found, states, _, iterations, _ = gf.fit(
                        model(scaled).astype(np.float32), weights, model_id, begin, tolerance, 50, None,
                        estimator)
                    with self.subTest(model=model_id, unit=unit, estimator=estimator, tolerance=tolerance):
                        self.assertTrue((states == CONVERGED).all(), np.unique(states))
                        self.assertLess(np.abs(found - scaled)[:, 1:-1].max(), 2e-5)
                        self.assertLess(np.abs(found / scaled - 1)[:, 0].max(), 3e-5)
                        self.assertLess(iterations.max(), 13)

    def test_chi_square_of_the_likelihood_is_in_the_unit_of_the_points(self):
        data, _, start = spots(50)
        expected = gf.fit(data, None, CIRCULAR, start, 1e-6, 50, None, MLE)[2]
        small = start.copy()
        small[:, [0, 4]] /= 1e4
        found, states, chi, _, _ = gf.fit(data / np.float32(1e4), None, CIRCULAR, small, 1e-6, 50, None, MLE)
        self.assertTrue((states == CONVERGED).all())
        np.testing.assert_allclose(chi * 1e4, expected, rtol=1e-3)


class Programs(unittest.TestCase):
    """What programs do with pyGpufit, call for call."""

    def picasso(self, spots_3d):
        """Picasso's least-squares fit on a GPU: positions and photons of a stack of spots."""
        size = spots_3d.shape[1]
        start = np.empty((len(spots_3d), 6), np.float32)
        start[:, 0] = spots_3d.max((1, 2)) - spots_3d.min((1, 2))
        start[:, 1:3] = size / 2 - 0.5
        start[:, 3:5] = max(size / 5, 1)
        start[:, 5] = spots_3d.min((1, 2))
        spots_3d.shape = (len(spots_3d), size * size)
        parameters, states, chi_squares, number_iterations, exec_time = gf.fit(
            spots_3d, None, gf.ModelID.GAUSS_2D_ELLIPTIC, start, tolerance=1e-2,
            max_number_iterations=20)
        parameters[:, 0] *= 2.0 * np.pi * parameters[:, 3] * parameters[:, 4]
        return parameters, states

    def test_picasso_on_simulated_molecules(self):
        random = np.random.default_rng(7)
        truth = np.column_stack([random.uniform(100, 400, 2000), random.normal(3, 0.3, 2000),
                                 random.normal(3, 0.3, 2000), random.uniform(0.9, 1.2, 2000),
                                 random.uniform(0.9, 1.2, 2000), np.full(2000, 10.0)])
        images = random.poisson(model(truth, 7)).astype(np.float32).reshape(-1, 7, 7)
        found, states = self.picasso(images)
        self.assertGreater((states == 0).mean(), 0.99)
        photons = truth[:, 0] * 2 * np.pi * truth[:, 3] * truth[:, 4]
        error = found[:, 1] - truth[:, 1]
        self.assertLess(abs(np.median(error)), 0.01)
        # 1.4: what least squares loses to the bound sigma / sqrt(photons), with background.
        self.assertLess(np.median(np.abs(error) * np.sqrt(photons) / truth[:, 3]), 0.67 * 1.5)
        self.assertLess(abs(np.median(found[:, 0] / photons) - 1), 0.02)

    def test_picasso_on_its_own_recording(self):
        folder = DATA / "picasso"
        if not folder.exists():
            self.skipTest(f"SKIPPED: no {folder} (set DRIFTD_TEST_DATA)")
        frames = np.fromfile(folder / "testdata.raw", "<u2").reshape(-1, 32, 32)
        rows = np.genfromtxt(DATA / "ref_picasso_fits.csv", delimiter=",", names=True)
        rows = rows[(rows["ok"] == 1) & (rows["roi_w"] == 7)]
        self.assertGreater(len(rows), 400)
        cut = [frames[int(r["frame"]), int(r["roi_y"]):int(r["roi_y"]) + 7,
                      int(r["roi_x"]):int(r["roi_x"]) + 7] for r in rows]
        found, states = self.picasso(np.array(cut, np.float32))
        self.assertGreater((states == 0).mean(), 0.99)
        # Picasso's tolerance of 1e-2 leaves sqrt(2 * 1e-2) standard deviations.
        error = np.hypot(found[:, 1] + rows["roi_x"] - rows["x"],
                         found[:, 2] + rows["roi_y"] - rows["y"])[states == 0]
        self.assertLess(np.median(error), 0.005)
        self.assertLess(np.quantile(error, 0.98), 0.05)

    def test_a_program_like_gpufits_example(self):
        fits, side = 1000, 12
        true = np.array((10, 5.5, 5.5, 3, 10), np.float32)
        random = np.random.default_rng(0)
        start = np.tile(true, (fits, 1))
        start[:, (1, 2)] += true[3] * random.uniform(-0.2, 0.2, (fits, 2)).astype(np.float32)
        start[:, (0, 3, 4)] *= random.uniform(0.8, 1.2, (fits, 3)).astype(np.float32)
        data = random.poisson(np.tile(model(true, side), (fits, 1))).astype(np.float32)
        parameters, states, _, iterations, _ = gf.fit(
            data, None, gf.ModelID.GAUSS_2D, start, 0.0001, 20, None, gf.EstimatorID.MLE, None)
        converged = states == 0
        self.assertGreater(converged.mean(), 0.95)
        # The likelihood's own bias at 10 counts: 7 % of the amplitude, by scipy, too.
        self.assertLess(np.abs(np.median(parameters[converged], axis=0) / true - 1).max(), 0.1)
        self.assertLess(iterations[converged].mean(), 15)


if __name__ == "__main__":
    unittest.main()
