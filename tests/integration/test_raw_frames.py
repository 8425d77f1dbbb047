# SPDX-License-Identifier: MIT
"""Raw frames in virtual time: which are saved around a hold is known to the frame."""
import unittest

from harness import SLOW, new_rig


class RawFrames(unittest.TestCase):
    def test_they_are_saved_around_each_hold(self):
        rig = new_rig()
        self.addCleanup(rig.close)
        rig.start_sim()
        rig.start_daemon(rig.config(
            camera={"frame_rate_hz": 100},
            record={"directory": rig.folder / "records", "keep_free_mb": 1, "frames_memory_mb": 64,
                    "frames_before_s": 0.5, "frames_after_s": 0.3, "frames_at": "holding"},
            control={"coast_nm": 0}))
        events = rig.subscribe("event")
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        for _ in range(2):  # the thread that saves waits between them
            rig.sleep(1 * SLOW)
            rig.fault("hide_markers", seconds=0.5)
            rig.wait_state("holding")
            rig.wait_state("locked")
            rig.sleep(1 * SLOW)
        saved = [e for _, e in events.drain() if e["code"] == "raw_frames"]
        self.assertEqual([(e["action"], e["why"]) for e in saved], 2 * [("saved", "holding: too few markers")], saved)
        for event in saved:
            self.assertAlmostEqual(event["before_s"], 0.5, delta=0.06)
            self.assertAlmostEqual(event["after_s"], 0.3, delta=0.02)
            self.assertEqual(event["not_kept"], 0)


if __name__ == "__main__":
    unittest.main()
