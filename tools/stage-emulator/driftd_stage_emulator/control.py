# SPDX-License-Identifier: MIT
"""The control channel: faults and counts, by UNIX datagrams. One command a datagram, one answer each."""
from __future__ import annotations

import json
import os
import socket
import stat

COMMANDS = ("unplug S", "servo_off [AXIS]", "servo_on [AXIS]", "restart [S]", "range LOW HIGH", "error N", "mute S", "garbage [N]",
            "latency MS [JITTER_MS]", "stats [N]")


class Control:
    """Owned by the emulator's loop."""

    def __init__(self, path: str, emulator) -> None:
        self._path, self._emulator = path, emulator
        if os.path.lexists(path):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise OSError(f"{path} is there and is no socket")
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.setblocking(False)

    def close(self) -> None:
        self.socket.close()
        if os.path.lexists(self._path):
            os.unlink(self._path)

    def serve(self, now_ns: int) -> None:
        try:
            data, sender = self.socket.recvfrom(1024)
        except BlockingIOError:
            return
        try:
            answer = self._carry_out(data.decode(errors="replace").split(), now_ns)
        except (ValueError, IndexError, TypeError):
            answer = "error: expected one of " + ", ".join(COMMANDS)
        if sender:
            try:
                self.socket.sendto(answer.encode(), sender)
            except OSError as error:
                self._emulator.journal.say(f"no answer to {sender}: {error.strerror}")

    def _carry_out(self, words: list[str], now_ns: int) -> str:
        name, values = words[0], [float(word) for word in words[1:]]
        if name == "stats":
            return json.dumps(self._emulator.report(now_ns, int(values[0]) if values else 1000))
        if name == "unplug":
            self._emulator.unplug(_one(values), now_ns)
        elif name == "restart":
            self._emulator.restart(values[0] if values else 1.0, now_ns)
        elif name == "mute":
            self._emulator.mute(_one(values), now_ns)
        elif name == "garbage":
            self._emulator.garbage(int(values[0]) if values else 16, now_ns)
        elif name == "latency":
            self._emulator.set_latency(values[0], values[1] if len(values) > 1 else 0.0)
        elif name == "range":
            low_nm, high_nm = values
            for axis in self._emulator.stage.axes:
                axis.low_nm, axis.high_nm = low_nm, high_nm
        elif name == "error":
            self._emulator.say_unasked(self._emulator.controller.set_error(int(_one(values))), now_ns)
        elif name == "servo_off":
            self._emulator.say_unasked(self._emulator.controller.servo_off(_axis(values)), now_ns)
        elif name == "servo_on":
            self._emulator.controller.set_servos(_axis(values), True)
        else:
            raise ValueError(name)
        return "ok"


def _axis(values: list[float]) -> int | None:
    return int(_one(values)) - 1 if values else None


def _one(values: list[float]) -> float:
    value, = values
    return value
