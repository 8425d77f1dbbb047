# SPDX-License-Identifier: MIT
"""An emulated stage controller of a test's own, and a client's connection to it."""
from __future__ import annotations

import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import tty
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = SOURCE / "tools/stage-emulator/driftd-stage-emulator"
BIN = pathlib.Path(os.environ.get("DRIFTD_BIN", SOURCE / "build/release/bin"))
SLOW = float(os.environ.get("DRIFTD_TEST_SLOWNESS", "1"))
PATIENCE_S = 300  #: reached only by what never comes, however busy the machine is
MS = 1_000_000  #: in ns
sys.path.insert(0, str(PROGRAM.parent))


class Emulated:
    """A running emulator with a client's connection to it. Its axes are where they are sent, at once and
    without noise: how late a busy machine lets a test look changes nothing."""

    def __init__(self, test: unittest.TestCase, kind: str, *arguments, pty: bool = False,
                 connect: bool = True):
        self.folder = pathlib.Path(test.enter(tempfile.TemporaryDirectory(prefix="driftd-emulator-")))
        self.control_path = self.folder / "control"
        self.link = self.folder / "tty"
        wire = ["--pty", self.link] if pty else ["--listen", "127.0.0.1:0"]
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [str(each) for each in (sys.executable, PROGRAM, kind, *wire, "--control", self.control_path,
                                        "--noise", "0", "--tau-ms", "0", *arguments)],
                stdout=subprocess.PIPE, stderr=log, text=True)
        test.addCleanup(self.stop)
        self.ready = self.child.stdout.readline()
        test.assertIn(f"driftd-stage-emulator ready: {kind} at ", self.ready, self.text())
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        test.addCleanup(self.control.close)
        self.control.bind("")
        self.control.settimeout(PATIENCE_S)
        self.control.connect(str(self.control_path))
        self.port = 0 if pty else int(re.search(r"tcp://127\.0\.0\.1:(\d+)", self.ready)[1])
        self.wire = None
        test.addCleanup(self.hang_up)
        if connect:
            self.connect(*(["B115200"] if pty else []))

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> int:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        code = self.child.wait(PATIENCE_S)
        self.child.stdout.close()
        return code

    def hang_up(self) -> None:
        if self.wire is not None:
            os.close(self.wire)
            self.wire = None

    def connect(self, speed: str = "") -> None:
        """The client's end as a file descriptor."""
        self.hang_up()
        if not self.port:
            self.wire = os.open(self.link, os.O_RDWR | os.O_NOCTTY)
            tty.setraw(self.wire)
            attributes = termios.tcgetattr(self.wire)
            attributes[4] = attributes[5] = getattr(termios, speed)
            termios.tcsetattr(self.wire, termios.TCSANOW, attributes)
            return
        self.wire = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S).detach()
        os.set_blocking(self.wire, True)

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.wire, data):]

    def receive(self, wait_s: float) -> bytes | None:
        """The bytes that come next. b"": the other end closed. None: nothing came."""
        if not select.select([self.wire], [], [], wait_s)[0]:
            return None
        try:
            return os.read(self.wire, 4096)
        except OSError:  # a pty that is gone; a connection that was reset
            return b""

    def ask(self, data: bytes, end: bytes = b"\n", count: int = 1) -> bytes:
        """Sends, and waits for an answer that ends in `end` and has `count` of them."""
        self.send(data)
        answer, deadline = b"", time.monotonic() + PATIENCE_S
        while not (answer.endswith(end) and answer.count(end) >= count):
            more = self.receive(max(0.0, deadline - time.monotonic()))
            if not more:
                raise AssertionError(f"{data!r} was answered by {answer!r} only\n{self.text()}")
            answer += more
        return answer

    def ask_bytes(self, data: bytes, length: int) -> bytes:
        self.send(data)
        answer, deadline = b"", time.monotonic() + PATIENCE_S
        while len(answer) < length:
            more = self.receive(max(0.0, deadline - time.monotonic()))
            if not more:
                raise AssertionError(f"{data!r} was answered by {answer!r} only\n{self.text()}")
            answer += more
        return answer

    def fault(self, text: str) -> str:
        self.control.send(text.encode())
        return self.control.recv(1 << 20).decode()

    def stats(self, count: int = 1000) -> dict:
        return json.loads(self.fault(f"stats {count}"))

    def wait_stats(self, condition, what: str) -> dict:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(stats := self.stats()):
            if time.monotonic() > deadline:
                raise AssertionError(f"never: {what}: {stats}\n{self.text()}")
            time.sleep(0.01)
        return stats


class EmulatorTest(unittest.TestCase):
    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def emulated(self, kind: str, *arguments, **keywords) -> Emulated:
        return Emulated(self, kind, *arguments, **keywords)

    def assert_silent(self, device: Emulated) -> None:
        """Nothing came for longer than any answer takes on loopback."""
        self.assertIsNone(device.receive(0.05 * SLOW))
