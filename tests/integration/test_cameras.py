# SPDX-License-Identifier: MIT
"""A camera that shows no markers: Aravis' own fake GigE Vision camera."""
import shutil
import time
import unittest

from harness import Process, Rig, driftd


class NoMarkers(unittest.TestCase):
    def test_finds_none_says_so_and_locks_nothing(self):
        rig = Rig()
        self.addCleanup(rig.close)
        camera = shutil.which("arv-fake-gv-camera-0.8")
        if camera is None:
            self.skipTest("arv-fake-gv-camera-0.8 is not installed (package aravis-tools)")
        with Process("fake", [camera, "-i", "lo", "-s", "FAKE01"], rig.folder) as fake:
            time.sleep(0.5)
            self.assertIsNone(fake.child.poll(), fake.text())
            # It takes an interface, not an address: 127.0.0.1, which no other test uses.
            file = rig.config(camera={"id": '"127.0.0.1"', "pixel_format": "Mono8", "frame_rate_hz": 50,
                                      "exposure_us": 5000}, lock={"at_start": "true"})
            rig.start_daemon(file)
            rig.daemon.wait_for("markers_not_found")
            positions = rig.subscribe("position", "correction")
            status = rig.wait_until(lambda s: s["camera"]["frames"] > 50, "frames")
            self.assertEqual(status["state"], "idle")
            self.assertEqual(status["markers"]["tracking"], 0)
            with self.assertRaisesRegex(driftd.DriftdError, "no markers"):
                rig.client.lock()
            topic, position = positions.receive(5)
            self.assertEqual(topic, "position")
            self.assertFalse(position["valid"])
            self.assertEqual(rig.daemon.text().count("markers_not_found"), 1)
            self.assertEqual(rig.daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
