# SPDX-License-Identifier: MIT
"""A camera that shows no markers, Aravis' own fake GigE Vision camera, and cameras as others left them."""
import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from harness import BIN, DEADLINE_S, SOURCE, CalmRig, Process, driftd


def port_is_free() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        try:
            port.bind(("127.0.0.1", 3956))
        except OSError:
            return False
    return True


class NoMarkers(unittest.TestCase):
    def have_the_address(self) -> None:
        """Only one such camera at a time has 127.0.0.1: tests/unit/camera/test_aravis_gige.cpp keeps to this, too."""
        file = (pathlib.Path(tempfile.gettempdir()) / f"driftd_gvcp_127.0.0.1_{os.getuid()}").open("a")
        self.addCleanup(file.close)
        fcntl.flock(file, fcntl.LOCK_EX)
        end = time.monotonic() + DEADLINE_S
        while not port_is_free():
            if time.monotonic() > end:
                self.skipTest("SKIPPED: port 3956 of 127.0.0.1 is taken")
            time.sleep(0.1)

    def test_finds_none_says_so_and_locks_nothing(self):
        rig = CalmRig()
        self.addCleanup(rig.close)
        camera = shutil.which("arv-fake-gv-camera-0.8")
        if camera is None:
            self.skipTest("arv-fake-gv-camera-0.8 is not installed (package aravis-tools)")
        self.have_the_address()
        with Process("fake", [camera, "-i", "lo", "-s", "FAKE01"], rig.folder) as fake:
            end = time.monotonic() + DEADLINE_S
            while port_is_free():
                self.assertIsNone(fake.child.poll(), fake.text())
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)
            # It takes an interface, not an address: 127.0.0.1.
            file = rig.config(camera={"id": '"127.0.0.1"', "pixel_format": "Mono8", "frame_rate_hz": 50,
                                      "exposure_us": 5000,
                                      # Its images are made pixel by pixel: on a busy machine it pauses.
                                      "stall_timeout_ms": 20_000},
                              lock={"at_start": "true"})
            rig.start_daemon(file)
            rig.daemon.wait_for("markers_not_found")
            positions = rig.subscribe("position", "correction")
            status = rig.wait_until(lambda s: s["camera"]["frames"] > 20, "frames")
            self.assertEqual(status["state"], "idle")
            self.assertEqual(status["markers"]["tracking"], 0)
            with self.assertRaisesRegex(driftd.DriftdError, "no markers"):
                rig.client.lock()
            topic, position = positions.receive(DEADLINE_S)
            self.assertEqual(topic, "position")
            self.assertFalse(position["valid"])
            self.assertEqual(rig.daemon.text().count("markers_not_found"), 1)
            self.assertEqual(rig.daemon.stop(), 0)


class LeftByOthers(unittest.TestCase):
    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)

    def start_sim(self, camera: str) -> None:
        demo = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
        self.rig.start_sim(demo.replace("\ncamera:\n", f"\ncamera:\n  {camera}\n", 1))

    def test_a_mirrored_binned_camera_of_another_dialect_is_set_right_said_and_locked(self):
        self.is_set_right()  # mirrored, the stage would seem not to follow

    def test_a_mirrored_binned_camera_of_another_dialect_is_held_still(self):  # tier: full
        self.is_set_right(still_nm=5)

    def is_set_right(self, still_nm: float = float("inf")) -> None:
        rig = self.rig
        self.start_sim("left_over: {binning_x: 2, binning_y: 4, reverse_x: true}\n"
                       "  dialect: {names: legacy, gain: factor, rate_gate: mode_basic}")
        rig.start_daemon(rig.config(camera={"region_width_px": 250}))
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        # Commands that a busy computer holds up for 40 ms are a stage that stands still, for moments.
        status = rig.wait_until(lambda s: (s["state"], s["stage"]) == ("locked", "following") and
                                s["loop"]["corrections"] > 100 and s["drift"]["rms_x_nm"] < still_nm,
                                "a held sample")
        notes = {note["key"]: note for note in status["camera"]["notes"]}
        self.assertEqual(notes["ReverseX"]["text"], "ReverseX was true; set to false")
        self.assertEqual(notes["BinningVertical"]["text"], "BinningVertical was 4; set to 1")
        self.assertNotIn("ReverseY", notes)
        width = notes["region_width_px"]
        self.assertEqual((width["asked"], width["got"], width["severity"]), ("250", "248", "warning"))
        said = subprocess.run([BIN / "driftctl", "--commands", rig.commands, "status"],
                              capture_output=True, text=True, check=True).stdout
        self.assertIn("region_width_px: asked 250, has 248", said)
        self.assertEqual(rig.daemon.stop(), 0)

    def test_a_gain_is_set_while_it_sends_where_the_camera_counts_it_as_a_factor(self):
        rig = self.rig
        self.start_sim("dialect: {names: legacy, gain: factor}")
        rig.start_daemon(rig.config())
        rig.wait_markers()
        now = rig.client.exposure(gain_db=6, exposure_us=500)
        self.assertAlmostEqual(now["gain_db"], 6, delta=0.1)
        self.assertAlmostEqual(now["exposure_us"], 500, delta=1)
        self.assertAlmostEqual(now["gain_range_db"][1], 24.08, delta=0.1)

    def test_a_gain_in_steps_of_the_cameras_own_is_refused_and_the_exposure_is_set(self):
        rig = self.rig
        self.start_sim("dialect: {gain: raw}")
        rig.start_daemon(rig.config())
        rig.wait_markers()
        with self.assertRaisesRegex(driftd.DriftdError, "this camera has no gain that can be set here"):
            rig.client.exposure(gain_db=6)
        now = rig.client.exposure(exposure_us=500)
        self.assertAlmostEqual(now["exposure_us"], 500, delta=1)
        self.assertIsNone(now["gain_db"])
        self.assertIsNone(now["gain_range_db"])

    def test_a_region_beyond_the_sensor_ends_the_daemon_with_both_numbers(self):
        rig = self.rig
        self.start_sim("")
        daemon = rig.start_daemon(rig.config(camera={"region_x_px": 200, "region_width_px": 128}), wait="")
        self.assertEqual(daemon.child.wait(DEADLINE_S), 3)
        self.assertIn("region_x_px 200 with region_width_px 128 needs 328 columns, and the camera has 256",
                      daemon.text())

    def test_a_region_of_a_few_columns_ends_the_daemon(self):
        rig = self.rig
        self.start_sim("")
        daemon = rig.start_daemon(rig.config(camera={"region_x_px": 248}), wait="")
        self.assertEqual(daemon.child.wait(DEADLINE_S), 3)
        self.assertIn("an image of 8 x 256 px has no room for a marker: it needs 13 px each way",
                      daemon.text())


if __name__ == "__main__":
    unittest.main()
