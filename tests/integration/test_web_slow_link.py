# SPDX-License-Identifier: MIT
"""driftd-web and a tab behind a link of 20 kB/s: it stays, its state is of now, and pictures are as small as need be."""
from __future__ import annotations

import contextlib
import os
import socket
import statistics
import sys
import threading
import time
import unittest

from harness import SLOW, SOURCE

sys.path[:0] = [str(SOURCE / "tests/unit/clients")]
from fake_daemon import FakeDaemon  # noqa: E402
from protocol import examples  # noqa: E402
from test_web import Case  # noqa: E402
from web_client import Tab, Web  # noqa: E402

SIDE = 512  # pixels of a picture
RATE = 20_000  # bytes a second
SECONDS = 20


class Link:
    """What comes from driftd-web passes at so many bytes a second; what goes to it, at once."""

    def __init__(self, scope: contextlib.ExitStack, port: int, bytes_per_s: float):
        self.port, self._rate = port, bytes_per_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        scope.callback(self._listener.close)
        self.address = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                tab = self._listener.accept()[0]
                web = socket.socket()
                web.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                web.connect(("127.0.0.1", self.port))
                threading.Thread(target=self._pass, args=(tab, web, 0.0), daemon=True).start()
                threading.Thread(target=self._pass, args=(web, tab, 1 / self._rate), daemon=True).start()

    @staticmethod
    def _pass(from_, to, s_per_byte: float) -> None:
        with contextlib.suppress(OSError):
            due = time.monotonic()
            while data := from_.recv(1000):
                to.sendall(data)
                due = max(due, time.monotonic() - 0.1) + len(data) * s_per_byte
                time.sleep(max(0.0, due - time.monotonic()))
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)


class SlowLink(Case):  # tier: full
    def setUp(self):
        super().setUp()
        self.fake = self.enter_context(FakeDaemon())
        pixels = os.urandom(2 * SIDE * SIDE)
        frame = {"frame_id": 1, "width_px": SIDE, "height_px": SIDE, "bits": 16, "offset_x_px": 0, "offset_y_px": 0, "rois": []}
        for command, reply in (("access", [{"roles": "command"}]), ("status", [{"status": self.status()}]), ("snapshot", [{"frame": frame}, pixels])):
            self.fake.replies[command] = lambda reply=reply: [{"ok": True, "id": self.fake.requests[-1]["id"], **reply[0]}, *reply[1:]]
        (self.folder / "lab.yaml").write_text(
            f"wire:\n  publish: {self.fake.publish_endpoint}\n  corrections: {self.fake.corrections_endpoint}\n"
            f"  commands: {self.fake.commands_endpoint}\n")

    def status(self) -> dict:
        return {**examples()["status"], "time_ns": 0}

    def start(self) -> Web:
        return Web(self, self.folder, "--config", self.folder / "lab.yaml")

    def publish(self, done: threading.Event) -> None:
        """Status twice a second, positions fifty times, all by the clock of now."""
        markers = [examples()["markers"]["markers"][0]] * 16
        for turn in range(1_000_000):
            if done.wait(0.02):
                return
            self.fake.publish("position", frame_id=turn, arrival_ns=time.monotonic_ns())
            if turn % 10 == 0:
                self.fake.publish("markers", markers=markers)
            if turn % 25 == 0:
                self.fake.publish("status", time_ns=time.monotonic_ns())

    def test_state_and_plots_go_on_beside_pictures(self):
        web, done = self.start(), threading.Event()
        scope = self.enter_context(contextlib.ExitStack())
        link = Link(scope, web.port, RATE)
        publisher = threading.Thread(target=self.publish, args=(done,))
        scope.callback(publisher.join)
        scope.callback(done.set)
        publisher.start()
        late = {"status": [], "samples": []}
        pictures = []
        with Tab.__new__(Tab) as tab:
            import websocket
            tab.socket = websocket.create_connection(f"ws://127.0.0.1:{link.address[1]}/ws", origin=web.origin, host=web.address, timeout=60)
            tab.want(images=True)
            begin = time.monotonic()
            while time.monotonic() < begin + SECONDS:
                header, payload = tab.receive()  # throws, where it was dropped
                now = time.monotonic()
                if header["kind"] == "status" and header["status"]["time_ns"] > 0:
                    late["status"].append(now - header["status"]["time_ns"] / 1e9)
                if header["kind"] == "samples" and not header.get("past"):
                    late["samples"].append(now - header["t_s"][-1])
                if header["kind"] == "image":
                    pictures.append(len(payload))
        print(f"{RATE / 1e3:g} kB/s: {len(pictures)} pictures of {pictures[0]} to {pictures[-1]} bytes; " + "; ".join(
            f"{len(values)} {kind}, late by {statistics.median(values):.2f} s (median), {max(values):.2f} s (most)" for kind, values in late.items()))
        self.assertGreater(len(pictures), SECONDS / 4 / SLOW)
        self.assertLessEqual(pictures[-1], 10_000)
        for values in late.values():
            self.assertLess(statistics.median(values), 2 * SLOW)
            self.assertLess(max(values), 6 * SLOW)


if __name__ == "__main__":
    unittest.main()
