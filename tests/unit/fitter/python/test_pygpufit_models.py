# SPDX-License-Identifier: MIT
"""Gpufit's GAUSS_2D_ROTATED, CAUCHY_2D_ELLIPTIC, GAUSS_1D and LINEAR_1D on driftd's libGpufit."""
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

from pygpufit import gpufit as gf
from test_pygpufit import CONVERGED, LSE, MLE, SINGULAR_HESSIAN, deviance, fitted, optimize

ROTATED, CAUCHY = gf.ModelID.GAUSS_2D_ROTATED, gf.ModelID.CAUCHY_2D_ELLIPTIC
LINE, STRAIGHT = gf.ModelID.GAUSS_1D, gf.ModelID.LINEAR_1D


def rotated(parameters, side=13):
    """Gpufit's formula (its gauss_2d_rotated.cuh): (n, 7) parameters to (n, side * side) values."""
    p = np.atleast_2d(np.asarray(parameters, float)).T[:, :, None, None]
    y, x = np.mgrid[:side, :side]
    cosine, sine = np.cos(p[6]), np.sin(p[6])
    a = (x - p[1]) * cosine - (y - p[2]) * sine
    b = (x - p[1]) * sine + (y - p[2]) * cosine
    return (p[0] * np.exp(-(a**2 / p[3]**2 + b**2 / p[4]**2) / 2) + p[5]).reshape(p.shape[1], -1)


def rotated_spots(count, seed=5):
    random = np.random.default_rng(seed)
    wide, narrow = random.uniform(1.7, 2.1, count), random.uniform(1.0, 1.3, count)
    turned = random.random(count) < 0.5
    truth = np.column_stack([random.uniform(400, 800, count), *random.uniform(5.5, 6.5, (2, count)),
                             np.where(turned, narrow, wide), np.where(turned, wide, narrow),
                             np.full(count, 20.0), random.uniform(-9, 9, count)])
    data = random.poisson(rotated(truth)).astype(np.float32)
    start = truth + random.uniform(-0.2, 0.2, truth.shape) * [100, 1, 1, 1, 1, 10, 1]
    return data, truth, start.astype(np.float32)


class Rotated(unittest.TestCase):
    def test_every_parameter_is_gpufits_of_any_number_of_turns(self):
        for estimator in (LSE, MLE):
            data, truth, start = rotated_spots(500)
            found = fitted(data, start, ROTATED, estimator_id=estimator)[0]
            error = np.abs(found - truth)
            with self.subTest(estimator=estimator):
                self.assertLess(error[:, 1:5].mean(), 0.04)
                self.assertLess(error[:, 6].max(), 0.5)
                self.assertLess(error[:, 6].mean(), 0.05)

    def test_least_squares_is_scipys(self):
        if optimize is None:
            self.skipTest("SKIPPED: python3-scipy is not installed")
        data, truth, start = rotated_spots(15)
        types = np.zeros(7, np.int32)
        types[3] = gf.ConstraintType.LOWER  # far away: only the way of searching differs
        bounds = np.zeros((15, 14), np.float32)
        bounds[:, 6] = 0.5
        for constrained in ({}, {"constraints": bounds, "constraint_types": types}):
            found, _, chi, _, _ = fitted(data, start, ROTATED, **constrained)
            for i in range(len(data)):
                best = optimize.least_squares(lambda p: rotated(p)[0] - data[i], truth[i],
                                              x_scale=np.abs(truth[i]), ftol=1e-14, xtol=1e-14)
                self.assertLess(np.abs(found[i] - best.x)[1:5].max(), 2e-3)
                self.assertLess(abs(found[i, 6] - best.x[6]), 3e-3)
                self.assertAlmostEqual(chi[i] / (2 * best.cost), 1, delta=1e-4)

    def test_what_is_not_fitted_stays(self):
        data, truth, start = rotated_spots(50)
        for kept in range(7):
            to_fit = np.ones(7, np.int32)
            to_fit[kept] = 0
            found, states, chi, _, _ = gf.fit(data, None, ROTATED, start, 1e-6, 100, to_fit)
            self.assertTrue((found[:, kept] == start[:, kept]).all())
            self.assertGreater((states == CONVERGED).mean(), 0.95)
            free = fitted(data, start, ROTATED)[2]
            self.assertTrue((chi[states == CONVERGED] >= free[states == CONVERGED] * (1 - 1e-5)).all())

    def test_a_constrained_rotation_stays_within(self):
        data, truth, start = rotated_spots(50)
        start[:, 6] = truth[:, 6]
        bounds = np.zeros((50, 14), np.float32)
        bounds[:, 12], bounds[:, 13] = truth[:, 6] - 0.5, truth[:, 6] - 0.2
        types = np.array([0, 0, 0, 0, 0, 0, 3], np.int32)
        found, states = gf.fit_constrained(data, None, ROTATED, start, bounds, types, 1e-6, 100)[:2]
        self.assertGreater((states == CONVERGED).mean(), 0.95)
        self.assertTrue((found[:, 6] <= bounds[:, 13]).all())
        self.assertTrue((found[:, 6] >= bounds[:, 12]).all())
        self.assertGreater((found[:, 6] == bounds[:, 13]).mean(), 0.9)

    def test_a_wide_constraint_of_the_rotation_holds(self):
        truth = [500, 7, 7, 1.2, 2.4, 10, -1.5]
        data = rotated(truth, 15).astype(np.float32)
        types, bounds = np.array([0, 0, 0, 0, 0, 0, 3], np.int32), np.zeros((1, 14), np.float32)
        for low, high, first in ((-4, 4, -3.9), (-4, 4, 10), (-6, 6, 5), (-9, -6, -7.5)):
            bounds[0, 12:] = low, high
            start = np.array([[400, 7, 7, 1.2, 2.4, 10, first]], np.float32)
            found = fitted(data, start, ROTATED, constraints=bounds, constraint_types=types)[0][0]
            self.assertTrue(low <= found[6] <= high, (low, high, first, found))
            if (low, high) != (-9, -6):
                np.testing.assert_allclose(rotated(found, 15)[0], data[0], atol=1)

    def test_constraints_of_the_others_alone_leave_the_nearest_rotation(self):
        data, truth, start = rotated_spots(20)
        types, bounds = np.array([1, 0, 0, 0, 0, 0, 0], np.int32), np.zeros((20, 14), np.float32)
        start[:, 3:5], start[:, 6] = 1.4, 0
        free = fitted(data, start, ROTATED)[0]
        found = fitted(data, start, ROTATED, constraints=bounds, constraint_types=types)[0]
        np.testing.assert_allclose(found, free, rtol=1e-2, atol=1e-2)
        self.assertLessEqual(np.abs(found[:, 6]).max(), np.pi / 4 + 1e-3)

    def test_odd_initial_values(self):
        truth = np.array([500, 7, 7, 1.2, 2.4, 10, 0.3])
        data = rotated(truth, 15).astype(np.float32)
        for place, odd in ((6, np.nan), (6, np.inf), (6, 3000.3), (3, 1e-20), (4, 1e25), (3, 0), (3, np.nan)):
            start = truth.astype(np.float32)[None].copy()
            start[0, place] = odd
            found = fitted(data, start, ROTATED)[0]
            with self.subTest(place=place, odd=odd):
                np.testing.assert_allclose(rotated(found, 15)[0], data[0], atol=1)

    def test_a_round_start_finds_the_rotation(self):
        data, truth, start = rotated_spots(100)
        start[:, 3] = start[:, 4] = 1.4
        start[:, 6] = 0
        found = fitted(data, start, ROTATED)[0]
        np.testing.assert_allclose(rotated(found), rotated(truth), atol=60)


def cauchy(parameters, side=13):
    """Gpufit's formula (its cauchy_2d_elliptic.cuh): (n, 6) parameters to (n, side * side) values."""
    p = np.atleast_2d(np.asarray(parameters, float)).T[:, :, None, None]
    y, x = np.mgrid[:side, :side]
    values = p[0] / (1 + ((x - p[1]) / p[3])**2) / (1 + ((y - p[2]) / p[4])**2) + p[5]
    return values.reshape(p.shape[1], -1)


class Cauchy(unittest.TestCase):
    def spots(self, count, side=13, seed=8):
        random = np.random.default_rng(seed)
        middle = (side - 1) / 2
        truth = np.column_stack([random.uniform(400, 800, count),
                                 *random.uniform(middle - 0.7, middle + 0.7, (2, count)),
                                 *random.uniform(0.9, side / 8, (2, count)), np.full(count, 20.0)])
        start = truth * random.uniform(0.85, 1.15, truth.shape)
        start[:, 1:3] = truth[:, 1:3] + truth[:, 3:5] * random.uniform(-0.4, 0.4, (count, 2))
        return random.poisson(cauchy(truth, side)).astype(np.float32), truth, start.astype(np.float32)

    def test_images_without_noise_are_found_as_they_are(self):
        for side in (9, 13, 32, 40, 64):
            _, truth, start = self.spots(40, side)
            clean = cauchy(truth, side).astype(np.float32)
            for estimator in (LSE, MLE):
                found = fitted(clean, start, CAUCHY, estimator_id=estimator)[0]
                np.testing.assert_allclose(found, truth, rtol=2e-4, err_msg=f"{side} {estimator}")

    def test_minima_are_at_their_least_and_right_on_the_average(self):
        for estimator in (LSE, MLE):
            data, truth, start = self.spots(400)
            found, _, chi, _, _ = fitted(data, start, CAUCHY, estimator_id=estimator)
            found = found.astype(float)
            of = (lambda p: ((cauchy(p) - data)**2).sum(1)) if estimator == LSE else (
                lambda p: deviance(data, cauchy(p)))
            np.testing.assert_allclose(chi, of(found), rtol=1e-4)
            spread = (found - truth).std(0)
            for j in range(6):
                self.assertLess(abs((found - truth)[:, j].mean()), 0.2 * spread[j])
                for sign in (-1, 1):
                    beside = found.copy()
                    beside[:, j] += sign * 0.1 * spread[j]
                    self.assertTrue((of(beside) > of(found)).all(), (estimator, j))

    def test_what_is_fixed_or_constrained(self):
        data, truth, start = self.spots(30)
        for kept in range(6):
            to_fit = np.array([j != kept for j in range(6)], np.int32)
            found = gf.fit(data, None, CAUCHY, start, 1e-6, 100, to_fit)[0]
            self.assertTrue((found[:, kept] == start[:, kept]).all())
        bounds = np.zeros((30, 12), np.float32)
        bounds[:, 9] = truth[:, 4] * 0.8
        found = fitted(data, start, CAUCHY, constraints=bounds,
                       constraint_types=np.array([0, 0, 0, 0, 2, 0], np.int32))[0]
        self.assertTrue((found[:, 4] == bounds[:, 9]).all())


def line(parameters, points, places=None):
    """Gpufit's formula (its gauss_1d.cuh): (n, 4) parameters to (n, points) values."""
    p = np.atleast_2d(np.asarray(parameters, float)).T[:, :, None]
    x = np.arange(points) if places is None else places
    return p[0] * np.exp(-(x - p[1])**2 / (2 * p[2]**2)) + p[3]


def lines(count, points, seed=6):
    random = np.random.default_rng(seed)
    sigma = random.uniform(1.5, max(1.6, points / 10), count)
    truth = np.column_stack([random.uniform(400, 900, count), random.uniform(0.4, 0.6, count) * points,
                             sigma, random.uniform(10, 30, count)])
    start = truth * random.uniform(0.9, 1.1, truth.shape)
    start[:, 1] = truth[:, 1] + random.uniform(-0.5, 0.5, count) * sigma
    return random.poisson(line(truth, points)).astype(np.float32), truth, start.astype(np.float32)


class Lines(unittest.TestCase):
    #: That fill a square, and that do not, up to the most.
    POINTS = (16, 20, 49, 50, 101, 1000, 1024, 4095, 4096)

    def test_least_squares_is_scipys(self):
        if optimize is None:
            self.skipTest("SKIPPED: python3-scipy is not installed")
        for points in self.POINTS:
            for weighted in (False, True):
                data, truth, start = lines(6, points)
                weights = (1 / line(truth, points)).astype(np.float32) if weighted else None
                found, _, chi, _, _ = fitted(data, start, LINE, weights)
                for i in range(len(data)):
                    root = np.sqrt(weights[i]) if weighted else 1
                    best = optimize.least_squares(
                        lambda p: (line(p, points)[0] - data[i]) * root, truth[i], x_scale=truth[i],
                        ftol=1e-14, xtol=1e-14)
                    with self.subTest(points=points, weighted=weighted):
                        self.assertLess(np.abs(found[i, 1:3] - best.x[1:3]).max(), 3e-3 * best.x[2])
                        self.assertAlmostEqual(chi[i] / (2 * best.cost), 1, delta=2e-4)

    def test_the_likelihood_is_at_its_least(self):
        for points in self.POINTS:
            data, truth, start = lines(50, points)
            found, _, chi, _, _ = fitted(data, start, LINE, estimator_id=MLE)
            found = found.astype(float)
            np.testing.assert_allclose(chi, deviance(data, line(found, points)), rtol=2e-3)
            best = deviance(data, line(found, points))
            for j, step in ((0, 0.05 * found[:, 0]), (1, 0.1 * found[:, 2]), (2, 0.1 * found[:, 2]), (3, 1)):
                for sign in (-1, 1):
                    beside = found.copy()
                    beside[:, j] += sign * step
                    self.assertTrue((deviance(data, line(beside, points)) > best).all(), (points, j))

    def test_what_is_fixed_or_constrained(self):
        data, truth, start = lines(20, 50)
        found = fitted(data, start, LINE, parameters_to_fit=np.array([1, 1, 0, 1], np.int32))[0]
        self.assertTrue((found[:, 2] == start[:, 2]).all())
        bounds = np.zeros((20, 8), np.float32)
        bounds[:, 5] = truth[:, 2] * 0.7
        found = fitted(data, start, LINE, constraints=bounds,
                       constraint_types=np.array([0, 0, 2, 0], np.int32))[0]
        self.assertTrue((found[:, 2] == bounds[:, 5]).all())

    def test_a_place_beyond_the_first_row_and_what_cannot_be_begun(self):
        data = line([500, 77.3, 6, 20], 101).astype(np.float32)
        found = fitted(data, np.array([[400, 75, 4, 10]], np.float32), LINE)[0][0]
        np.testing.assert_allclose(found, [500, 77.3, 6, 20], rtol=1e-4)
        for odd in ([400, 75, 0, 10], [400, np.nan, 4, 10], [400, 75, np.nan, 10]):
            start = np.array([odd], np.float32)
            found, states = gf.fit(data, None, LINE, start)[:2]
            self.assertEqual(states[0], SINGULAR_HESSIAN)
            np.testing.assert_array_equal(found, start)

    def test_place_and_width_end_with_the_points(self):
        for points, place, sigma in ((5, 8, 2.5), (26, 30, 4), (50, 20, 80)):
            data = line([500, place, sigma, 20], points).astype(np.float32)
            start = np.array([[400, points / 2, points / 4, 10]], np.float32)
            found = gf.fit(data, None, LINE, start, 1e-6, 100)[0][0]
            self.assertLessEqual(found[1], points - 0.5)
            self.assertLessEqual(found[2], points / 2)

    def test_points_of_small_weights_count(self):
        data, truth, start = lines(6, 30)
        weights = np.ones_like(data)
        weights[:, 11] = 1 / 40
        found, _, chi, _, _ = fitted(data, start, LINE, weights)
        np.testing.assert_allclose(chi, (weights * (line(found, 30) - data)**2).sum(1), rtol=1e-4)

    def test_the_fewest_points(self):
        for weights in (None, np.ones((1, 5), np.float32)):
            data = line([500, 2.2, 1.1, 20], 5).astype(np.float32)
            found = fitted(data, np.array([[400, 2, 1, 10]], np.float32), LINE, weights)[0][0]
            np.testing.assert_allclose(found, [500, 2.2, 1.1, 20], rtol=5e-3)

    def test_points_may_have_places_of_their_own(self):
        """Wavelengths in metres, uneven; the same for all fits, or each its own, in any order."""
        random = np.random.default_rng(9)
        count = 90
        for points in (49, 60, 1000):
            one = np.sort(random.uniform(500e-9, 600e-9, points))
            each = random.uniform(500e-9, 600e-9, (count, points))
            for places in (one, each):
                sigma = random.uniform(6e-9, 15e-9, count)
                truth = np.column_stack([random.uniform(400, 900, count), random.uniform(530e-9, 570e-9, count),
                                         sigma, np.full(count, 20.0)])
                start = truth * random.uniform(0.9, 1.1, truth.shape)
                start[:, 1] = truth[:, 1] + 0.4 * sigma
                start, info = start.astype(np.float32), places.astype(np.float32)
                clean = line(truth, points, info.astype(float)).astype(np.float32)
                for estimator in (LSE, MLE):
                    found = fitted(clean, start, LINE, estimator_id=estimator, user_info=info)[0]
                    np.testing.assert_allclose(found, truth, rtol=1e-3)
                bounds = np.zeros((count, 8), np.float32)
                bounds[:, 2] = truth[:, 1] + 2e-9
                found = fitted(clean, start, LINE, user_info=info, constraints=bounds,
                               constraint_types=np.array([0, 1, 0, 0], np.int32))[0]
                np.testing.assert_allclose(found[:, 1], bounds[:, 2], rtol=1e-6)
                found = fitted(clean, start, LINE, user_info=info,
                               parameters_to_fit=np.array([1, 1, 0, 1], np.int32))[0]
                self.assertTrue((found[:, 2] == start[:, 2]).all())

    def test_places_that_are_the_numbers_change_nothing(self):
        data, truth, start = lines(70, 50)
        there = fitted(data, start, LINE, user_info=np.arange(50, dtype=np.float32))
        for a, b in zip(there[:4], fitted(data, start, LINE)[:4]):
            np.testing.assert_array_equal(a, b)

    def test_places_that_are_none(self):
        data, truth, start = lines(3, 50)
        places = np.tile(np.arange(50, dtype=np.float32), (3, 1))
        places[1] = 7
        places[2, 4] = np.nan
        found, states = gf.fit(data, None, LINE, start, user_info=places)[:2]
        self.assertEqual(list(states), [CONVERGED, SINGULAR_HESSIAN, SINGULAR_HESSIAN])
        self.assertTrue((found[1:] == start[1:]).all())
        with self.assertRaisesRegex(RuntimeError, "user_info has shape"):
            gf.fit(data, None, LINE, start, user_info=places[:2])

    def test_mistakes(self):
        data, truth, start = lines(2, 50)
        for text, points in (("n_points is 4, fitted in one dimension are 5 to 4096", 4), ("n_points is 4097", 4097)):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                gf.fit(np.zeros((2, points), np.float32), None, LINE, start)
        data[1, 3] = np.nan
        states = gf.fit(data, None, LINE, start)[1]
        self.assertEqual(list(states), [CONVERGED, SINGULAR_HESSIAN])


class Straight(unittest.TestCase):
    def lines(self, count, points, seed=10):
        random = np.random.default_rng(seed)
        x = random.uniform(-3, 5, points).astype(np.float32)
        truth = np.column_stack([random.uniform(50, 90, count), random.uniform(-9, 9, count)])
        data = random.poisson(truth[:, :1] + truth[:, 1:] * x).astype(np.float32)
        return data, truth, x

    def test_squares_are_numpys(self):
        random = np.random.default_rng(11)
        for points in (2, 3, 50, 5000):
            data, _, x = self.lines(100, points)
            for weights in (None, random.uniform(0.1, 3, data.shape).astype(np.float32)):
                found, states, chi, _, _ = gf.fit(data, weights, STRAIGHT, np.ones((100, 2), np.float32),
                                                  user_info=x)
                self.assertTrue((states == CONVERGED).all())
                for i in range(100):
                    w = np.ones(points) if weights is None else weights[i].astype(float)
                    slope, offset = np.polyfit(x.astype(float), data[i].astype(float), 1, w=np.sqrt(w))
                    np.testing.assert_allclose(found[i], [offset, slope], rtol=1e-3, atol=1e-3)
                    left = (w * (offset + slope * x - data[i])**2).sum()
                    self.assertLess(abs(chi[i] - left), 1e-3 * left + 1e-6)

    def least(self, x, data, found, of):
        for j in range(2):
            for step in (-1e-2, 1e-2):
                beside = found.astype(float)
                beside[:, j] += step
                self.assertTrue((of(beside) > of(found.astype(float))).all())

    def test_the_likelihood_is_at_its_least(self):
        for points in (20, 300):
            data, truth, x = self.lines(200, points)
            start = np.zeros((200, 2), np.float32)
            found, states, chi, _, _ = gf.fit(data, None, STRAIGHT, start, 1e-9, 50, None, MLE, x)
            self.assertTrue((states == CONVERGED).all())
            def of(p):
                return deviance(data, p[:, :1] + p[:, 1:] * x.astype(float))
            np.testing.assert_allclose(chi, of(found.astype(float)), rtol=1e-4)
            self.least(x, data, found, of)

    def test_what_is_fixed_or_constrained_is_at_its_least_there(self):
        data, truth, x = self.lines(100, 40)
        start = truth.astype(np.float32) * np.float32(0.9)
        for estimator in (LSE, MLE):
            for kept in range(2):
                to_fit = np.array([kept != 0, kept != 1], np.int32)
                found, states, chi = gf.fit(data, None, STRAIGHT, start, 1e-9, 50, to_fit, estimator, x)[:3]
                self.assertTrue((states == CONVERGED).all())
                self.assertTrue((found[:, kept] == start[:, kept]).all())
                bounds = np.zeros((100, 4), np.float32)
                bounds[:, 2 * kept] = bounds[:, 2 * kept + 1] = start[:, kept]
                types = np.array([3 * (kept == 0), 3 * (kept == 1)], np.int32)
                same, _, as_well = gf.fit_constrained(data, None, STRAIGHT, start, bounds, types, 1e-9, 50,
                                                      None, estimator, x)[:3]
                np.testing.assert_allclose(same, found, rtol=1e-5)
                np.testing.assert_allclose(chi, as_well, rtol=1e-5)
        bounds = np.tile(np.array([0, 60, -2, 2], np.float32), (100, 1))
        found = gf.fit_constrained(data, None, STRAIGHT, start, bounds, np.full(2, 3, np.int32), user_info=x)[0]
        self.assertTrue(((found >= bounds[:, [0, 2]]) & (found <= bounds[:, [1, 3]])).all())
        grid = np.array([(o, s) for o in np.linspace(0, 60, 241) for s in np.linspace(-2, 2, 161)])
        for i in range(20):
            left = (((grid[:, :1] + grid[:, 1:] * x) - data[i])**2).sum(1)
            mine = ((found[i, 0] + found[i, 1] * x.astype(float) - data[i])**2).sum()
            self.assertLessEqual(mine, left.min() * (1 + 1e-6))

    def test_a_line_that_reaches_zero_and_points_without_counts(self):
        data = np.maximum(np.arange(30) - 10, 0).astype(np.float32)[None]
        start = np.ones((1, 2), np.float32)
        found, states, chi, _, _ = gf.fit(data, None, STRAIGHT, start, 1e-6, 200, None, MLE)
        self.assertEqual(states[0], CONVERGED)
        self.assertTrue(np.isfinite(chi[0]) and np.isfinite(found).all())
        found, states = gf.fit(np.zeros_like(data), None, STRAIGHT, start, estimator_id=MLE)[:2]
        self.assertEqual(states[0], SINGULAR_HESSIAN)

    def test_what_cannot_be_fitted(self):
        data, _, x = self.lines(4, 20)
        weights = np.ones_like(data)
        data[1, 3] = np.nan
        weights[2, 3] = -1
        weights[3, 1:] = 0
        start = np.ones((4, 2), np.float32)
        found, states, chi, iterations, _ = gf.fit(data, weights, STRAIGHT, start, user_info=x)
        self.assertEqual(list(states), [CONVERGED] + [SINGULAR_HESSIAN] * 3)
        self.assertTrue((found[1:] == start[1:]).all() and np.isnan(chi[1:]).all())
        states = gf.fit(data[:1], None, STRAIGHT, start[:1], user_info=np.full(20, 3, np.float32))[1]
        self.assertEqual(states[0], SINGULAR_HESSIAN)
        with self.assertRaisesRegex(RuntimeError, "n_points is 1, a straight line"):
            gf.fit(data[:, :1].copy(), None, STRAIGHT, start)


if __name__ == "__main__":
    unittest.main()
