# SPDX-License-Identifier: MIT
"""driftd-web before a daemon with the simulator: what it streams, and commands."""
from __future__ import annotations

import pathlib
import socket
import struct
import time
import unittest

from harness import DEADLINE_S, SLOW, new_rig
from web_client import Tab, Web


class Stream(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start(self, *arguments, **config: dict) -> Web:
        self.rig.start_sim()
        file = self.rig.config(**config)
        self.rig.start_daemon(file)
        self.rig.wait_markers()
        return Web(self.rig, self.rig.folder, "--config", file, *arguments)

    def tab(self, web: Web) -> Tab:
        return self.rig.enter_context(web.tab())

    def pass_time(self) -> None:
        if self.rig.is_virtual:  # else it passes by itself, and a tab that slept would be a slow one
            self.rig.sleep(0.05)

    def test_what_the_daemon_publishes_is_streamed(self):
        web = self.start("--operate")
        tab = self.tab(web)
        hello = tab.wait_kind("hello")[0]
        self.assertEqual((hello["instance"], hello["role"], hello["config"]["pixel_size_nm"]), ("driftd", "operate", 100))
        tab.wait_kind("status")  # it has found the daemon
        status, reply = web.post({"command": {"command": "lock"}}, hello["csrf"])
        self.assertEqual((status, reply["ok"], reply["state"]), (200, True, "referencing"))
        self.assertNotIn("id", reply)
        tab.wait(lambda h: h["kind"] == "event" and any(e.get("state") == "locked" for e in h["events"]), "locked",
                 self.pass_time)
        seen = tab.wait(lambda h: h["kind"] == "status" and h["status"]["state"] == "locked", "locked", self.pass_time)[0]
        self.assertIn("latency_us", seen["status"])
        samples = tab.wait(lambda h: h["kind"] == "samples" and h["state"] and h["state"][-1] == "locked" and
                           h["correction_nm"][0][-1] is not None, "samples", self.pass_time)[0]
        lengths = {len(samples[k]) for k in ("t_s", "state", "in_lock")}
        for name in ("drift_nm", "residual_nm", "correction_nm", "witness_nm", "set_nm"):
            lengths |= {len(axis) for axis in samples[name]}
        self.assertEqual(len(lengths), 1, samples)
        self.assertTrue(all(b - a > 0.044 for a, b in zip(samples["t_s"], samples["t_s"][1:])), samples["t_s"])
        markers = tab.wait_kind("markers", self.pass_time)[0]
        self.assertGreater(len(markers["markers"]), 5)
        self.assertIsNone(markers["markers"][0]["photons"])  # of no known gain
        history = tab.wait(lambda h: h["kind"] == "history" and h.get("append"), "ten seconds", self.pass_time)[0]
        self.assertLessEqual(history["min"]["drift_nm"][0][-1], history["max"]["drift_nm"][0][-1])
        self.assertIsNotNone(history["min"]["correction_nm"][1][-1])
        tab.want(spectrum=True)
        spectrum = tab.wait_kind("spectrum", self.pass_time)[0]
        # Frames come later by 2 % while a line is verified.
        self.assertAlmostEqual(spectrum["rate_hz"], 500 / SLOW, delta=self.rig.bound(11, 100))
        self.assertEqual(len(spectrum["density_nm2_per_hz"][0]), len(spectrum["density_nm2_per_hz"][1]))
        # One who comes later finds it all.
        late = self.tab(web)
        self.assertTrue(late.wait_kind("advice")[0]["advice"][0]["text"])
        self.assertIn("locked", [e.get("state") for e in late.wait_kind("event")[0]["events"]])
        whole = late.wait_kind("history")[0]
        self.assertNotIn("append", whole)
        self.assertEqual(whole["max"]["drift_nm"][0][-1], history["max"]["drift_nm"][0][-1])

    def test_the_picture_is_what_a_snapshot_shows(self):
        web = self.start()
        tab = self.tab(web)
        tab.want(images=True)
        header, payload = tab.wait_kind("image", self.pass_time)
        self.assertEqual((header["width"], header["height"], header["bin"]), (128, 128, 2))  # of a link that is not known yet
        self.assertEqual(len(payload), 2 * 128 * 128)
        pixels = struct.unpack(f"<{128 * 128}H", payload)
        self.assertEqual(sum(header["histogram"]), 256 * 256)
        self.assertEqual(header["max_value"], 4095)
        # Each marker is brighter than what is around it, where it is said to be.
        median = sorted(pixels)[len(pixels) // 2]
        markers = tab.wait_kind("markers", self.pass_time)[0]["markers"]
        for marker in markers:
            x = round((marker["x_px"] - header["offset_x_px"] - header["x0"] + 0.5) / header["bin"] - 0.5)
            y = round((marker["y_px"] - header["offset_y_px"] - header["y0"] + 0.5) / header["bin"] - 0.5)
            self.assertGreater(pixels[128 * y + x], median + 100, marker)
        # A part of it, as it is.
        tab.want(region=[40, 60, 100, 50])
        header, payload = tab.wait(lambda h: h["kind"] == "image" and h["width"] == 100, "a region", self.pass_time)
        self.assertEqual((header["x0"], header["y0"], header["height"], len(payload)), (40, 60, 50, 2 * 100 * 50))
        part = struct.unpack("<5000H", payload)
        self.assertLess(abs(sum(part) / 5000 - sum(pixels[128 * y + x] for y in range(30, 55) for x in range(20, 70)) / 1250), 20)
        tab.want(images=False)

    def test_a_daemon_goes_and_comes_again(self):
        web = self.start()
        tab = self.tab(web)
        tab.wait_kind("status")
        self.rig.daemon.stop()
        gone = tab.wait_kind("gone")[0]
        self.assertIn("driftd", gone["reason"])
        late = self.tab(web)
        self.assertIn("driftd", late.wait_kind("gone")[0]["reason"])  # that it is silent, or that nobody listens by now
        with web.tab() as other:
            token = other.wait_kind("hello")[0]["csrf"]
        self.assertEqual(web.post({"command": {"command": "status"}}, token)[0], 502)
        self.rig.start_daemon(self.rig.folder / "driftd.yaml")
        tab.wait_kind("status", self.pass_time)

    def test_a_daemon_that_listens_elsewhere_after_its_start_is_found(self):
        web = self.start()
        tab = self.tab(web)
        tab.wait_kind("status")
        self.rig.daemon.stop()
        tab.wait_kind("gone")
        elsewhere = {name: f"ipc://{self.rig.folder}/other-{name}" for name in ("publish", "corrections", "commands")}
        self.rig.start_daemon(self.rig.config(wire=elsewhere))
        tab.wait_kind("status", self.pass_time)

    def test_a_tab_that_was_slow_sees_the_newest_picture_soon(self):
        web = self.start()
        slow = self.rig.enter_context(web.tab(sockopt=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)]))
        other = self.tab(web)
        slow.want(images=True)
        other.want(images=True)
        for _ in range(6):
            newest = other.wait_kind("image", self.pass_time)[0]["frame_id"]
        waited = 0
        while slow.wait_kind("image", self.pass_time)[0]["frame_id"] < newest:
            waited += 1
        self.assertLess(waited, 3)

    def test_a_deaf_tab_is_dropped_and_others_go_on(self):  # tier: full
        web = self.start()
        deaf = [self.tab(web) for _ in range(5)]
        for one in deaf:
            one.want(images=True)
        tab = self.tab(web)
        tab.want(images=True)
        end = time.monotonic() + DEADLINE_S
        opened = lambda: len(list(pathlib.Path(f"/proc/{web.process.child.pid}/fd").iterdir()))  # noqa: E731
        tab.wait_kind("image", self.pass_time)  # it has opened all that it needs of the daemon
        before = opened()
        while opened() > before - 5:
            self.assertLess(time.monotonic(), end, "the deaf are still there")
            tab.wait_kind("image", self.pass_time)
        tab.wait_kind("image", self.pass_time)
        self.assertLess(web.rss_kb(), 80_000 if SLOW == 1 else 800_000)  # sanitizers keep what was freed


if __name__ == "__main__":
    unittest.main()
