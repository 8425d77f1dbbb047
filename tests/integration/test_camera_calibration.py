# SPDX-License-Identifier: MIT
"""`driftctl calibrate camera` and `driftctl snapshot --every` on the whole: simulator, daemon, program."""
import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import threading
import time
import unittest

from harness import BIN, DEADLINE_S, SLOW, SOURCE, CalmRig

LIGHT = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
DARK = LIGHT.replace("background_e: 20", "background_e: 0").replace("count: 16", "count: 0")
GAIN, OFFSET, READ_NOISE = 4, 100, 3  # of that scenario, at 12 bits


class CameraCalibration(unittest.TestCase):
    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)
        self.file = None

    def driftctl(self, *arguments, code: int = 0, **options) -> subprocess.CompletedProcess:
        done = subprocess.run([BIN / "driftctl", "--config", self.file, "--timeout", "30", *arguments],
                              capture_output=True, text=True, timeout=DEADLINE_S, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def start(self, scenario: str, **camera: str) -> None:
        """The simulator with that world; the daemon, if there is none yet, or else as it is."""
        if self.rig.sim:
            self.rig.sim.stop()
            self.rig.wait_until(lambda s: not s["camera"]["connected"], "camera away")
        self.rig.start_sim(scenario, rate_hz=200 / SLOW)
        if not self.rig.daemon:
            self.file = self.rig.config(camera={"frame_rate_hz": 200 / SLOW, "stall_timeout_ms": 1000, **camera})
            self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: s["camera"]["connected"] and s["camera"]["rate_hz"], "frames")

    def measured(self, *arguments, frames: int = 320) -> dict:
        return json.loads(self.driftctl("--json", "calibrate", "camera", "--frames", str(frames), *arguments).stdout)

    def check(self, found: dict, adu_per_level: float) -> None:
        self.assertAlmostEqual(found["gain_e_per_adu"] * adu_per_level / GAIN, 1, delta=0.02)
        self.assertLess(abs(found["offset_adu"] / adu_per_level - OFFSET), 1)
        self.assertAlmostEqual(found["read_noise_e"] / READ_NOISE, 1, delta=0.1)

    def both(self, adu_per_level: float, **camera: str) -> dict:
        aligned = "  dialect: {left_aligned: true}\n" if adu_per_level > 1 else ""
        after = "  bit_depth: 12\n"
        dark = self.rig.folder / "dark.json"
        self.start(DARK.replace(after, after + aligned), **camera)
        alone = self.measured("--dark-only", "--dark-result", dark)
        self.assertIsNone(alone["gain_e_per_adu"])
        self.start(LIGHT.replace(after, after + aligned))
        found = self.measured("--dark-result", dark)
        self.check(found, adu_per_level)
        return found

    def test_the_simulators_camera_in_a_packed_format(self):
        found = self.both(1, pixel_format="Mono12p")
        self.assertEqual(found["warnings"], [])
        self.assertIsNone(found["saturation_adu"])
        # People see the same, beside what the configuration says, and without a dark series the truth.
        maps = self.rig.folder / "maps.npy"
        text = self.driftctl("calibrate", "camera", "--frames", "320", "--maps", maps).stdout
        self.assertIn("not set", text)
        self.assertIn("Light alone does not tell the offset", text)
        data = maps.read_bytes()
        self.assertTrue(data.startswith(b"\x93NUMPY\x01\x00"))
        header = struct.unpack("<H", data[8:10])[0]
        self.assertIn(b"'shape': (2, 256, 256)", data[10:10 + header])
        self.assertEqual(len(data), 10 + header + 2 * 256 * 256 * 4)
        values = struct.unpack(f"<{2 * 256 * 256}f", data[10 + header:])
        self.assertAlmostEqual(sorted(values[:65536])[32768], 105, delta=0.5)  # 20 e- of background
        self.assertAlmostEqual(sorted(values[65536:])[32768], 29 / 16 + 1 / 12, delta=0.05)

    def test_values_are_written_where_the_offset_is_known(self):
        self.start(DARK)
        dark = self.rig.folder / "dark.json"
        self.measured("--dark-only", "--dark-result", dark, frames=64)
        self.start(LIGHT)
        before = self.file.read_text()
        drop_ins = self.rig.folder / f"{self.file.name}.d"
        alone = self.driftctl("calibrate", "camera", "--frames", "64", "--write", code=4)
        self.assertIn("gain", alone.stdout)
        self.assertIn("a gain without an offset is worse than none", alone.stderr)

        write = ["calibrate", "camera", "--frames", "64", "--dark-result", dark, "--write"]
        self.assertIn("Nothing was written.", self.on_terminal(b"n\n", *write))
        self.assertFalse(drop_ins.exists())
        written = drop_ins / "camera-calibration.yaml"
        said = self.driftctl(*write).stderr  # nobody is there to ask
        self.assertIn(f"Written to {written}.\nRestart driftd: it takes over camera.offset_adu, ", said)
        for key in ("gain_e_per_adu", "offset_adu", "read_noise_e"):
            self.assertRegex(written.read_text(), f"\n  {key}: [0-9.]+\n")
        self.assertRegex(written.read_text(), "\n# Camera: driftd driftd-sim SIM01 at ")
        self.assertEqual(self.file.read_text(), before)

        # With that offset the light may do without a dark series, and it stays.
        written.write_text(re.sub("gain_e_per_adu: .*", "gain_e_per_adu: 7", written.read_text()))
        self.driftctl("calibrate", "camera", "--frames", "64", "--write")
        self.assertRegex(written.read_text(), "\n  gain_e_per_adu: [34]")
        self.assertRegex(written.read_text(), "\n  offset_adu: [0-9.]+  # of an earlier calibration\n")

    def test_values_are_those_of_the_gain_that_they_were_measured_at(self):
        """The camera's gain is changed over the wire: after driftd's next start it would be the configured one again."""
        self.start(DARK, gain_db=0, gain_e_per_adu=4)
        dark = self.rig.folder / "dark.json"
        found = self.measured("--dark-only", "--dark-result", dark, frames=64)
        self.assertEqual((found["gain_db"], found["configured"]["gain_db"]), (0, 0))
        self.assertNotIn("gain_db", found["proposal"]["camera"])
        self.rig.client.exposure(gain_db=6)
        refused = self.driftctl("calibrate", "camera", "--frames", "64", "--dark-result", dark, code=4)
        self.assertRegex(refused.stderr, "a gain of 0 dB; the camera has .* and 6 dB now: measure the dark anew")
        said = self.driftctl("calibrate", "camera", "--dark-only", "--frames", "64", "--write", "--yes")
        self.assertIn("  gain_db: 6\n", said.stdout)
        written = self.rig.folder / f"{self.file.name}.d/camera-calibration.yaml"
        self.assertIn("\n  gain_db: 6\n", written.read_text())
        self.assertIn("\n  offset_adu: ", written.read_text())

    def test_nothing_is_written_after_ctrl_c_and_frames_end(self):
        self.start(DARK)
        before = self.file.read_text()
        master, slave = pty.openpty()  # where it counts the frames
        self.addCleanup(os.close, master)
        writer = subprocess.Popen([BIN / "driftctl", "--config", self.file, "--timeout", "30", "calibrate", "camera",
                                   "--dark-only", "--seconds", "600", "--write", "--yes"], stdout=slave, stderr=slave)
        self.addCleanup(writer.kill)
        os.close(slave)
        said = b""
        while not any(int(count) >= 64 for count in re.findall(rb": (\d+) frames", said)):  # fewer are too few
            said += os.read(master, 4096)
        writer.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(master, 4096):
                said += data
        self.assertEqual(writer.wait(DEADLINE_S), 4, said)
        self.assertIn(b"interrupted; nothing was written", said)
        self.assertEqual(self.file.read_text(), before)
        found = json.loads(self.driftctl("--json", "calibrate", "camera", "--dark-only", "--frames", "64",
                                         "--seconds", "60").stdout)
        self.assertEqual(found["dark"]["frames"], 64)

    def on_terminal(self, answer: bytes, *arguments) -> str:
        """Runs it on a terminal and types the answer at the question."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen([BIN / "driftctl", "--config", self.file, *arguments],
                                   stdin=slave, stdout=slave, stderr=slave)
        self.addCleanup(process.kill)
        os.close(slave)
        seen = b""
        while True:
            try:
                seen += os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if b"[y/N] " in seen and answer:
                os.write(master, answer)
                answer = b""
        self.assertEqual(process.wait(DEADLINE_S), 0, seen)
        return seen.decode()

    def test_left_aligned_levels_in_mono16(self):  # tier: full
        found = self.both(16, pixel_format="Mono16")
        self.assertEqual(found["saturation_adu"], 65520)
        self.assertIn("left aligned", " ".join(found["warnings"]))

    def test_a_dark_series_of_the_light_is_refused_and_the_question_waits_for_enter(self):
        self.start(LIGHT)
        self.assertIn("not dark", self.driftctl("calibrate", "camera", "--dark", input="\n\n", code=4).stderr)
        self.assertIn("ended before", self.driftctl("calibrate", "camera", "--dark", input="", code=4).stderr)
        self.driftctl("calibrate", "camera", "--frames", "10", code=2)
        self.assertIn("cannot read", self.driftctl("calibrate", "camera", "--dark-result",
                                                   self.rig.folder / "none.json", code=4).stderr)

    def test_a_picture_is_kept_fresh_while_the_daemon_restarts(self):
        self.start(LIGHT)
        picture = self.rig.folder / "pictures/now.png"
        picture.parent.mkdir()
        with (self.rig.folder / "said.txt").open("w+") as said:
            keeper = subprocess.Popen([BIN / "driftctl", "--config", self.file, "--timeout", "30", "snapshot",
                                       "--every", "0.1", picture], stdout=said, stderr=said)
            self.addCleanup(keeper.kill)
            over = threading.Event()
            broken = []

            def look() -> None:
                """Whoever reads at any moment gets a whole picture."""
                while not over.is_set():
                    if picture.exists():
                        data = picture.read_bytes()
                        if not (data.startswith(b"\x89PNG") and data.endswith(b"IEND\xaeB`\x82")):
                            broken.append(len(data))
                    time.sleep(0.0005)

            reader = threading.Thread(target=look)
            reader.start()
            try:
                self.fresh(picture)
                self.fresh(picture)
                self.rig.daemon.stop()
                time.sleep(1)
                away = picture.stat().st_mtime_ns
                time.sleep(0.5)
                self.assertEqual(picture.stat().st_mtime_ns, away)
                self.rig.start_daemon(self.file)
                self.fresh(picture)
            finally:
                over.set()
                reader.join()
            keeper.send_signal(signal.SIGINT)
            self.assertEqual(keeper.wait(DEADLINE_S), 0)
            said.seek(0)
            lines = said.read().splitlines()
        self.assertEqual(broken, [])
        self.assertEqual(os.listdir(picture.parent), ["now.png"])
        self.assertEqual(lines.pop(0), f"Drawing to {picture} every 0.1 s. Ctrl-C ends it.")
        self.assertIn(len(lines), (0, 2), lines)  # 0: a picture asked for at the end waited through it
        for away_line, back_line in zip(lines[::2], lines[1::2]):
            self.assertIn("stays as it is", away_line)
            self.assertIn("come again", back_line)

    def fresh(self, picture: pathlib.Path) -> None:
        """Waits for a newer picture."""
        before = picture.stat().st_mtime_ns if picture.exists() else 0
        end = time.monotonic() + DEADLINE_S
        while not picture.exists() or picture.stat().st_mtime_ns == before:
            self.assertLess(time.monotonic(), end, "no newer picture")
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
