# SPDX-License-Identifier: MIT
"""driftd-web by clients that were not written with it: Debian's python3-websocket, urllib, and sockets by hand."""
from __future__ import annotations

import json
import os
import pathlib
import select
import socket
import struct
import time
import unittest
import urllib.error
import urllib.request

from harness import BIN, DEADLINE_S, Process

try:
    import websocket
except ImportError as missing:
    raise unittest.SkipTest("SKIPPED: python3-websocket is not here") from missing


class Web:
    """driftd-web on a port of the kernel's choice."""

    def __init__(self, stack, folder: pathlib.Path, *arguments):
        self.process = stack.enter_context(Process(
            "web", [BIN / "driftd-web", "--listen", "127.0.0.1:0", *arguments], folder))
        self.process.wait_for("serving http://")
        self.address = self.process.text().split("serving http://")[1].split("/")[0]
        self.port = int(self.address.split(":")[1])
        self.origin = f"http://{self.address}"

    def tab(self, instance: str = "", **options) -> "Tab":
        return Tab(self, instance, **options)

    def connect(self, timeout_s: float = DEADLINE_S) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def answer(self, request: bytes) -> tuple[int, str]:
        """Status and the whole answer to what is sent; 0 where there is none."""
        with self.connect() as peer:
            peer.sendall(request)
            return read_answer(peer)

    def post(self, body, token: str, **headers: str) -> tuple[int, dict | str]:
        """A command, as the page sends it; a header None is left out."""
        said = {"Content-Type": "application/json", "Origin": self.origin, "X-CSRF-Token": token}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.origin}/api/command", data=json.dumps(body).encode(),
                                         headers={k: v for k, v in said.items() if v is not None})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refused:
            text = refused.read().decode()
            return refused.code, json.loads(text) if text.startswith("{") else text

    def fetch(self, body, token: str) -> bytes:
        """A file that is asked for as a command is."""
        request = urllib.request.Request(f"{self.origin}/api/command", data=json.dumps(body).encode(), headers={
            "Content-Type": "application/json", "Origin": self.origin, "X-CSRF-Token": token})
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
            return reply.read()

    def cpu_s(self) -> float:
        fields = pathlib.Path(f"/proc/{self.process.child.pid}/stat").read_text().split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def rss_kb(self) -> int:
        text = pathlib.Path(f"/proc/{self.process.child.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])


class Tab:
    """A stream, read by python3-websocket."""

    def __init__(self, web: Web, instance: str = "", **options):
        address = f"ws://{web.address}/ws" + (f"?instance={instance}" if instance else "")
        self.socket = websocket.create_connection(address, **{"origin": web.origin, "timeout": DEADLINE_S} | options)

    def receive(self) -> tuple[dict, bytes]:
        message = self.socket.recv()
        (length,) = struct.unpack_from("<I", message)
        return json.loads(message[4:4 + length]), message[4 + length:]

    def wait(self, condition, what: str, pass_time=None) -> tuple[dict, bytes]:
        """The first message for which the condition holds. Where there is none to read virtual time passes, by pass_time()."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            if pass_time and not select.select([self.socket.sock], [], [], 0)[0]:
                pass_time()
                continue
            header, payload = self.receive()
            if condition(header):
                return header, payload
        raise AssertionError(f"never: {what}")

    def wait_kind(self, kind: str, pass_time=None) -> tuple[dict, bytes]:
        return self.wait(lambda header: header["kind"] == kind, kind, pass_time)

    def want(self, **wants) -> None:
        self.socket.send(json.dumps({"want": wants}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def read_answer(peer: socket.socket) -> tuple[int, str]:
    data = b""
    try:
        while piece := peer.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    text = data.decode(errors="replace")
    return (int(text.split()[1]) if text.startswith("HTTP/1.1 ") else 0), text


def get(path: str = "/", host: str = "localhost", method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"] + [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13",
           "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ=="}


def until_let_in(web: Web) -> Tab:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return web.tab()
        except websocket.WebSocketBadStatusException:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
