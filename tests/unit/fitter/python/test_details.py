# SPDX-License-Identifier: MIT
"""The rotated model and the details of fits, angles and covariances, through driftd_fit on the CPU."""
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

import driftd_fit
from driftd_fit import converged, fit, search


class Details(unittest.TestCase):
    @staticmethod
    def ellipses(count=400, angle=0.4):
        random = np.random.default_rng(3)
        y, x = np.mgrid[:13, :13]
        u, v = x - 6.2, y - 5.9
        a, b = (u * np.cos(angle) + v * np.sin(angle)) / 1.7, (v * np.cos(angle) - u * np.sin(angle)) / 1.1
        mean = 500 * np.exp(-(a**2 + b**2) / 2) + 20
        return random.poisson(mean, (count, 13, 13)).astype(np.uint16)

    def test_angles_and_covariances_are_right(self):
        images = self.ellipses()
        details = np.empty(len(images), driftd_fit.DETAILS)
        fits = fit(images, "rotated", "poisson", gain=1, details=details)
        self.assertTrue(converged(fits).all())
        self.assertAlmostEqual(details["angle"].mean(), 0.4, delta=0.005)
        errors = np.column_stack([np.column_stack([fits[name] for name in driftd_fit.PARAMETERS]).astype(float), details["angle"]])
        errors -= [6.2, 5.9, 1.7, 1.1, 500, 20, 0.4]
        squares = np.einsum("ni,nij,nj->n", errors, np.linalg.inv(details["covariance"].astype(float)),
                            errors)
        self.assertAlmostEqual(squares.mean() / 7, 1, delta=0.1)  # 2 / sqrt(2 * 7 * 400)
        np.testing.assert_allclose(np.sqrt(details["covariance"][:, 6, 6]), details["angle_sd"], rtol=1e-5)

    def test_of_the_other_models(self):
        images = self.ellipses(50, 0)
        for model in ("circular", "elliptical"):
            details = np.empty(50, driftd_fit.DETAILS)
            fits = fit(images, model, details=details)
            np.testing.assert_allclose(np.sqrt(details["covariance"][:, 0, 0]), fits["x_sd"], rtol=2e-3)
            self.assertTrue((details["covariance"][:, 6] == 0).all())
            self.assertTrue((details["angle"] == 0).all())

    def test_a_fixed_angle_and_the_nearest_one(self):
        images = self.ellipses(20)
        start = np.tile(np.float32([6, 6, 1.5, 1.2]), (20, 1))
        details = np.empty(20, driftd_fit.DETAILS)
        fit(images, "rotated", "least_squares", start, angles=np.full(20, 0.3), fixed=("angle",),
            details=details)
        self.assertTrue((details["angle"] == np.float32(0.3)).all())
        fits = fit(images, "rotated", "least_squares", start, angles=np.full(20, 0.4 + np.pi / 2),
                   details=details)
        self.assertAlmostEqual(details["angle"].mean(), 0.4 + np.pi / 2, delta=0.02)
        self.assertAlmostEqual(fits["sigma_y"].mean(), 1.7, delta=0.05)

    def test_long_ellipses_are_right_or_refused(self):
        y, x = np.mgrid[:48, :48]
        for angle in (0, 0.4, np.pi / 4):
            for ratio in (8, 12, 16):
                u, v = x - 24, y - 23.5
                a, b = (u * np.cos(angle) + v * np.sin(angle)) / ratio, v * np.cos(angle) - u * np.sin(angle)
                images = (500 * np.exp(-(a**2 + b**2) / 2) + 20).astype(np.float32)[None]
                for bounds in ({}, {"sigma_x": (0.4, 24)}):
                    details = np.empty(1, driftd_fit.DETAILS)
                    one = fit(images, "rotated", "poisson", gain=1, bounds=bounds, details=details)[0]
                    self.assertLessEqual(one["status"], 2)
                    narrow, wide = sorted((one["sigma_x"], one["sigma_y"]))  # at 45 degrees both are near
                    self.assertAlmostEqual(wide, ratio, delta=0.02)
                    self.assertAlmostEqual(narrow, 1, delta=2e-3)

    def test_far_angles_and_round_spots_with_bounds(self):
        images = self.ellipses(5)
        start = np.tile(np.float32([6, 6, 1.5, 1.2]), (5, 1))
        for angle in (-5000.0, 3000.3, 1e4):
            for bounds in ({}, {"sigma_x": (0.4, 6)}):
                fits = fit(images, "rotated", "poisson", start, gain=1, angles=np.full(5, angle), bounds=bounds)
                self.assertTrue(converged(fits).all())
                np.testing.assert_allclose(np.sort([fits["sigma_x"], fits["sigma_y"]], 0).mean(1), [1.1, 1.7],
                                           atol=0.06)
        y, x = np.mgrid[:13, :13]
        round_ = (500 * np.exp(-((x - 6)**2 + (y - 6.2)**2) / 4.5) + 20).astype(np.float32)[None]
        for bounds in ({}, {"sigma_x": (0.5, 4)}, {"sigma_x": (1.5, 1.5), "sigma_y": (1.5, 1.5)}):
            for estimator in ("least_squares", "poisson"):
                details = np.empty(1, driftd_fit.DETAILS)
                one = fit(round_, "rotated", estimator, gain=1, bounds=bounds, details=details)[0]
                with self.subTest(bounds=bounds, estimator=estimator):
                    self.assertLessEqual(one["status"], 2)
                    self.assertAlmostEqual(one["sigma_y"], 1.5, delta=1e-3)
                    self.assertTrue(0 < one["x_sd"] < 0.1)
                    self.assertFalse(details["angle_sd"][0] < 1)

    def test_fixed_may_be_any_sequence(self):
        images = self.ellipses(3)
        start = np.tile(np.float32([6, 6, 1.5, 1.2]), (3, 1))
        for fixed in (iter(("x",)), np.array(["x"]), ["x"], "x"):
            self.assertTrue((fit(images, "rotated", "poisson", start, fixed=fixed)["x"] == 6).all())

    def test_of_a_swarm(self):
        images = self.ellipses(50)
        details = np.empty(50, driftd_fit.DETAILS)
        fits, _ = search(images, "rotated", "poisson", gain=1, details=details)
        self.assertTrue(converged(fits).all())
        self.assertAlmostEqual(details["angle"].mean(), 0.4, delta=0.02)
        np.testing.assert_allclose(np.sqrt(details["covariance"][:, 0, 0]), fits["x_sd"], rtol=1e-3)

    def test_frames(self):
        images = self.ellipses(20)
        by_image, by_frame = (np.empty(20, driftd_fit.DETAILS) for _ in range(2))
        fit(images, "rotated", details=by_image)
        places = np.column_stack([np.full(20, 6), np.full(20, 6), np.arange(20)])
        driftd_fit.fit_frames(images, places, 13, "rotated", details=by_frame)
        self.assertEqual(by_image.tobytes(), by_frame.tobytes())

    def test_what_is_not_done_is_nan(self):
        details = np.zeros(300000, driftd_fit.DETAILS)
        images = np.tile(self.ellipses(10), (30000, 1, 1))
        fits = fit(images, details=details, progress=lambda done, n: True)
        done = fits["status"] != driftd_fit.STATUS.index("bad_input")
        self.assertTrue(0 < done.sum() < 300000)
        self.assertTrue(np.isfinite(details["covariance"][done, 0, 0]).all())
        self.assertTrue(np.isnan(details["covariance"][~done]).all())

    def test_mistakes(self):
        images = self.ellipses(5)
        start = np.tile(np.float32([6, 6, 1.5, 1.2]), (5, 1))
        details = np.empty(5, driftd_fit.DETAILS)
        for text, kind, named in (
                ("angles are given, which only the rotated", ValueError, {"angles": np.zeros(5), "start": start}),
                ("angle to start from needs", ValueError, {"angles": np.zeros(5), "model": "rotated"}),
                (r"angles have shape \(4,\)", ValueError, {"angles": np.zeros(4), "start": start}),
                ("details is an array of shape", TypeError, {"details": details[:4]}),
                ("details is a list", TypeError, {"details": [1]}),
                ("the circular model has no angle", ValueError,
                 {"fixed": "angle", "estimator": "poisson", "start": start}),
                ("details shares memory", ValueError,
                 {"details": details, "out": details.view(np.uint8)[:5 * 56].view(driftd_fit.RESULT)})):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                fit(images, **named)


if __name__ == "__main__":
    unittest.main()
