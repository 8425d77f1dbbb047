# SPDX-License-Identifier: MIT
"""Real recordings through the real daemon to a real subscriber, against independent references."""
import csv
import os
import pathlib
import statistics
import struct
import unittest

from harness import DEADLINE_S, SOURCE, Rig, drain, driftd

DATA = pathlib.Path(os.environ.get("DRIFTD_TEST_DATA", SOURCE.parent / "shared/data"))


def reference(file: str) -> dict[int, tuple[float, float]]:
    with open(DATA / file, newline="") as rows:
        return {int(r["frame"]): (float(r["dx"]), float(r["dy"])) for r in csv.DictReader(rows)}


class Recordings(unittest.TestCase):
    def setUp(self):
        self.rig = Rig()
        self.addCleanup(self.rig.close)

    def spots(self, frames: int, side: int) -> pathlib.Path:
        """A recording of four spots that move by 0.1 px in frame 150."""
        file = self.rig.folder / "spots.raw"
        with open(file, "wb") as out:
            for frame in range(frames):
                shift = 0.1 if frame >= 150 else 0.0
                pixels = []
                for y in range(side):
                    for x in range(side):
                        value = 100 + (x * 7 + y * 13 + frame) % 5
                        for cx, cy in ((16, 16), (48, 17), (17, 47), (46, 48)):
                            d2 = (x - cx - shift) ** 2 + (y - cy) ** 2
                            if d2 < 50:
                                value += int(2000 * 2.718281828 ** (-d2 / 3.38))
                        pixels.append(value)
                out.write(struct.pack(f"<{side * side}H", *pixels))
        return file

    def write_config(self, replay: dict, **sections) -> pathlib.Path:
        file = self.rig.config(camera={"source": "replay"}, stage={},
                               replay={"on_end": "stop", **replay}, **sections)
        # A recording has no camera: the camera's own keys would be mistakes.
        text = file.read_text().split("\n")
        file.write_text("\n".join(line for line in text if not line.startswith(
            ("  id:", "  frame_rate_hz:", "  packet_size", "  exposure_us"))))
        return file

    def replay(self, frames: int, replay: dict, **sections) -> list[dict]:
        """The positions, of which there are `frames`."""
        rig = self.rig
        file = self.write_config({"wait_for_subscriber_s": 60, "pace": "fast", **replay}, **sections)
        positions = rig.subscribe("position")
        daemon = rig.start_daemon(file, wait="")
        self.assertEqual(daemon.child.wait(DEADLINE_S), 0, daemon.text())
        return self.all_of(positions, frames)

    @staticmethod
    def all_of(positions, frames: int) -> list[dict]:
        """So many, and any more that there are."""
        return [p for _, p in [positions.receive(DEADLINE_S) for _ in range(frames)] + drain(positions)]

    def compare(self, positions, frames, truth, pixel_nm, limit_px=0.1):
        """Drift against the reference, both relative to their mean over the frames compared."""
        self.assertEqual([p["frame_id"] for p in positions], list(frames))
        self.assertTrue(all(p["valid"] for p in positions))
        for axis, column in (("x", 0), ("y", 1)):
            ours = [p[f"{axis}_nm"] / pixel_nm for p in positions]
            theirs = [truth[f][column] for f in frames]
            shift = statistics.mean(ours) - statistics.mean(theirs)
            worst = max(abs(o - t - shift) for o, t in zip(ours, theirs))
            self.assertLess(worst, limit_px, f"{axis}: {ours} against {theirs}")

    # Nothing but the pixel size is told: the spots' width and the ROI are found in the first image.

    @unittest.skipUnless(DATA.is_dir(), "no recordings")
    def test_beads_in_clean_slices(self):
        # Slice 19 is so far out of focus that its drift depends on the ROI, by 0.2 px between 13 and 23 px.
        frames = range(15, 19)
        positions = self.replay(
            len(frames), {"path": DATA / "psfextractor_zstack/zstack_34x512x512_u8.tif", "first_frame": 15,
                          "last_frame": 18},
            optics={"pixel_size_nm": 108},
            # The stack runs through focus: widths and brightness change, and each bead moves a little
            # its own way (0.1 px, by the reference), which is no reason to leave it out.
            drift={"max_width_change": 3, "max_brightness_change": 10, "outlier_floor_nm": 30})
        self.compare(positions, frames, reference("ref_zstack_drift.csv"), 108)

    @unittest.skipUnless(DATA.is_dir(), "no recordings")
    def test_stuck_particles(self):
        positions = self.replay(
            5, {"path": DATA / "trackpy_stuck/stuck.tif"},
            optics={"pixel_size_nm": 100})
        self.compare(positions, range(5), reference("ref_stuck_drift.csv"), 100)

    def test_one_position_for_each_frame_and_then_the_end(self):
        frames, side = 300, 64
        file = self.spots(frames, side)
        positions = self.replay(
            frames, {"path": file, "format": "raw_u16", "width_px": side, "height_px": side},
            optics={"pixel_size_nm": 100})
        self.assertEqual([p["frame_id"] for p in positions], list(range(frames)))
        self.assertEqual([p for p in positions if not p["valid"]], [])
        before = statistics.mean(p["x_nm"] for p in positions[20:140])
        after = statistics.mean(p["x_nm"] for p in positions[160:])
        self.assertAlmostEqual(after - before, 10, delta=0.3)
        self.assertIn("the recording is over", self.rig.daemon.text())

    def test_a_truncated_recording_that_may_be_is_said_to_be(self):
        side = 64
        file = self.spots(20, side)
        os.truncate(file, 2 * side * side * 20 - 100)
        positions = self.replay(19, {"path": file, "format": "raw_u16", "width_px": side,
                                     "height_px": side, "allow_truncated": True},
                                optics={"pixel_size_nm": 100})
        self.assertEqual([p["frame_id"] for p in positions], list(range(19)))
        self.assertIn("is truncated: 19 whole frames", self.rig.daemon.text())

    def test_commands_are_answered_while_a_recording_waits_for_a_subscriber(self):
        rig, frames, side = self.rig, 40, 64
        file = self.write_config(
            {"path": self.spots(frames, side), "format": "raw_u16", "width_px": side,
             "height_px": side, "pace": "fast", "wait_for_subscriber_s": 60},
            optics={"pixel_size_nm": 100})
        daemon = rig.start_daemon(file)
        daemon.wait_for("markers_found")
        self.assertEqual(rig.client.unlock(), "idle")
        self.assertEqual(rig.client.reset(), "idle")
        for _ in range(2):  # of the first frame, as long as it is held
            frame, pixels = rig.client.snapshot()
            self.assertEqual((frame["frame_id"], pixels.shape), (0, (side, side)))
        with self.assertRaisesRegex(driftd.DriftdError, "cannot be held still"):
            rig.client.lock()
        self.assertEqual(rig.status()["camera"]["frames"], 1)
        positions = rig.subscribe("position")
        self.assertEqual(daemon.child.wait(DEADLINE_S), 0, daemon.text())
        self.assertEqual([p["frame_id"] for p in self.all_of(positions, frames)], list(range(frames)))

    def test_an_hdf5_dataset_gives_the_positions_of_the_same_pixels(self):
        try:
            import h5py
            import numpy as np
        except ImportError:
            self.skipTest("SKIPPED: python3-h5py is not installed")
        frames, width, height = 60, 72, 56
        y, x = np.mgrid[:height, :width]
        stack = np.empty((frames, height, width), np.uint16)
        for frame in range(frames):
            stack[frame] = 100 + (x * 7 + y * 13 + frame) % 5
            for cx, cy in ((16, 15), (52, 17), (18, 40), (50, 41)):
                d2 = (x - cx - 0.002 * frame) ** 2 + (y - cy + 0.001 * frame) ** 2
                stack[frame] += (2000 * np.exp(-d2 / 3.38)).astype(np.uint16)
        stack.astype("<u2").tofile(self.rig.folder / "spots.raw")
        with h5py.File(self.rig.folder / "spots.h5", "w") as file:
            file.create_dataset("run/frames", data=stack.astype(">u2"), compression="gzip")
            file.create_dataset("run/dark", data=np.zeros((2, height, width), np.uint8))
        raw = self.replay(frames, {"path": self.rig.folder / "spots.raw", "format": "raw_u16",
                           "width_px": width, "height_px": height}, optics={"pixel_size_nm": 100})
        folder = self.rig.folder
        self.rig = Rig()  # the first one's subscriber would let the recording begin at once
        self.addCleanup(self.rig.close)
        hdf5 = self.replay(frames, {"path": folder / "spots.h5", "format": "hdf5",
                            "dataset": "/run/frames"}, optics={"pixel_size_nm": 100})
        self.assertEqual([p["frame_id"] for p in hdf5], list(range(frames)))
        self.assertGreater(hdf5[-1]["x_nm"] - hdf5[0]["x_nm"], 5)
        self.assertLess(hdf5[-1]["y_nm"] - hdf5[0]["y_nm"], -2)
        for name in ("x_nm", "y_nm"):
            self.assertEqual([p[name] for p in hdf5], [p[name] for p in raw])


if __name__ == "__main__":
    unittest.main()
