# SPDX-License-Identifier: MIT
"""The spots' width and the ROI are chosen from the image: a configuration that says nothing of them."""
import math
import sys
import unittest

from harness import SOURCE, new_rig

sys.path.insert(0, str(SOURCE / "tests/fault"))
from judge import CONFIG, DEMO, changed  # noqa: E402


class Sizes(unittest.TestCase):
    def test_spots_of_another_width_are_locked_with_a_roi_that_suits_them(self):
        for sigma_px, least, most in ((0.9, 9, 11), (2.4, 21, 27)):
            with self.subTest(sigma_px=sigma_px), new_rig() as rig:
                scenario = changed(DEMO, ("sigma_px: 1.3", f"sigma_px: {sigma_px}"))
                rig.start_locked(scenario, **CONFIG)
                fitter = rig.status()["fitter"]
                # A pixel's width widens the smaller one by 5 %.
                measured_px = math.hypot(sigma_px, 1 / math.sqrt(12))
                self.assertAlmostEqual(fitter["spot_sigma_px"] / measured_px, 1, delta=0.05)
                self.assertGreaterEqual(fitter["roi_px"], least)
                self.assertLessEqual(fitter["roi_px"], most)
                self.assertIn("the median of 1", fitter["size_reason"])  # of 16 or nearly so many
                self.assertEqual(rig.daemon.text().count("spot_size_chosen"), 1)
                frame, _ = rig.client.snapshot()
                self.assertEqual({roi["side_px"] for roi in frame["rois"]}, {fitter["roi_px"]})
                rig.wait_still(1.5)
                # A search on command chooses anew, for the loop that runs.
                rig.client.unlock()
                found, _ = rig.client.find_markers()
                self.assertGreaterEqual(len(found), 10)
                rig.client.lock()
                rig.wait_state("locked")
                rig.wait_still(1.5)

    def test_a_size_that_is_given_is_kept(self):
        with new_rig() as rig:
            rig.start_locked(**CONFIG, optics={"spot_sigma_px": 1.3}, fitter={"roi_px": 15})
            fitter = rig.status()["fitter"]
            self.assertEqual((fitter["roi_px"], fitter["spot_sigma_px"], fitter["size_reason"]),
                             (15, None, ""))
            rig.wait_still(1.5)


if __name__ == "__main__":
    unittest.main()
