# SPDX-License-Identifier: MIT
"""Searches by a swarm, through the Python binding, on the CPU."""
import unittest

from made_spots import SIDE, can_have_gpu, driftd_fit, ellipses, np, spots

from driftd_fit import converged, fit, search


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


if __name__ == "__main__":
    unittest.main()
