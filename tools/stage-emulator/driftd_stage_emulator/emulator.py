# SPDX-License-Identifier: MIT
"""The loop: bytes in at the line's pace, frames carried out one after the other, answers out at its pace.

A frame counts as received when its last byte has passed the line, however late this program wakes; it is
carried out after the controller's latency, and not before the frame ahead of it. Reading pauses while
`buffer` bytes wait, as a serial port's buffer would make a client wait.
"""
from __future__ import annotations

import collections
import random
import select
import time

from .transport import Gone, Line

RETRY_NS = 1_000_000


class Emulator:
    """Owns link, controller and stage. `run` goes on until something is raised."""

    def __init__(self, link, controller, stage, journal, options, baud: int) -> None:
        self.link, self.controller, self.stage, self.journal = link, controller, stage, journal
        self._baud = baud
        self._buffer_limit = options.buffer
        self._random = random.Random(options.seed)
        self._power_on_nm = options.power_on_nm
        self.set_latency(options.latency_ms, options.jitter_ms)
        self.control = None
        self._up = False
        self._back_ns: int | None = None
        self._mute_until_ns = 0
        self._wire_reset()

    # --- life ---
    def start(self, servo_on: bool) -> None:
        self.link.open()
        self._up = True
        self._power_on(time.monotonic_ns(), servo_on)

    def close(self) -> None:
        self.link.close()
        if self.control is not None:
            self.control.close()

    def _power_on(self, now_ns: int, servo_on: bool) -> None:
        self.stage.frozen = False
        for axis in self.stage.axes:
            axis.servo = servo_on
        self.stage.place_at_once(self._power_on_nm, now_ns)
        self.controller.power_on(now_ns)

    def _wire_reset(self) -> None:
        """Nothing is under way in either direction."""
        self._buffer = bytearray()
        self._waiting = collections.deque()  # (received, frame)
        self._waiting_bytes = 0
        self._begun_ns: float | None = None  # when the first of them will have been carried out
        self._busy_until_ns = 0.0
        self._outbox = collections.deque()  # (due, bytes)
        self._inward, self._outward = Line(self._baud), Line(self._baud)

    # --- faults ---
    def unplug(self, seconds: float, now_ns: int) -> None:
        self.link.close()
        self._up = False
        self._back_ns = now_ns + round(seconds * 1e9)
        self._client_gone()

    def restart(self, seconds: float, now_ns: int) -> None:
        """A power cycle: servos as the device has them at power-on, whatever --servo-on said."""
        self.unplug(seconds, now_ns)
        self._power_on(now_ns, self.controller.servo_at_power_on)

    def mute(self, seconds: float, now_ns: int) -> None:
        self._mute_until_ns = now_ns + round(seconds * 1e9)

    def garbage(self, count: int, now_ns: int) -> None:
        self.say_unasked(self._random.randbytes(count), now_ns)

    def set_latency(self, latency_ms: float, jitter_ms: float) -> None:
        self._latency_ns, self._jitter_ns = latency_ms * 1e6, jitter_ms * 1e6

    def say_unasked(self, data: bytes, now_ns: int) -> None:
        if data and now_ns >= self._mute_until_ns:
            self._outbox.append((self._outward.pass_bytes(len(data), now_ns), data))

    def report(self, now_ns: int, count: int) -> dict:
        self.journal.clients = self.link.clients
        report = self.journal.report(now_ns, count)
        report["link"] = self.link.name if self._up else None
        report["waiting_bytes"] = self._waiting_bytes + len(self._buffer)
        report["servo"] = [axis.servo for axis in self.stage.axes]
        report["target_nm"] = [axis.target_nm for axis in self.stage.axes]
        report["sim_failures"] = self.stage.sim.failures if self.stage.sim else 0
        return report

    # --- the loop ---
    def run(self) -> None:
        while True:
            due_ns = self._step(time.monotonic_ns())
            listened = self.link.descriptors(self._waiting_bytes < self._buffer_limit) if self._up else []
            if self.control is not None:
                listened.append(self.control.socket)
            # As far as a change of the clock or of a fault may hide, or a signal right before select().
            timeout = 1.0
            if due_ns is not None:
                timeout = min(timeout, max(0.0, (due_ns - time.monotonic_ns()) * 1e-9))
            readable, _, _ = select.select(listened, [], [], timeout)
            now_ns = time.monotonic_ns()
            for each in readable:
                if self.control is not None and each is self.control.socket:
                    self.control.serve(now_ns)
                elif self._up:
                    self._receive(each, now_ns)

    def _step(self, now_ns: int) -> float | None:
        """Does all that is due. @return when the next is, in ns"""
        if self._back_ns is not None and now_ns >= self._back_ns:
            self._back_ns = None
            self.link.open()
            self._up = True
        self.stage.advance(now_ns)
        self._carry_out(now_ns)
        tick_ns = self.controller.next_event_ns()
        if tick_ns is not None and now_ns >= tick_ns:
            self.say_unasked(self.controller.tick(now_ns), now_ns)
        self._send(now_ns)
        due = [self._back_ns, self._begun_ns, self._outbox[0][0] if self._outbox else None,
               self.controller.next_event_ns(), self.stage.next_event_ns(now_ns)]
        due = [each for each in due if each is not None]
        return min(due) if due else None

    def _client_gone(self) -> None:
        self._wire_reset()
        self.controller.client_gone()

    def _receive(self, each, now_ns: int) -> None:
        try:
            data = self.link.ready(each)
        except Gone:
            self._client_gone()
            return
        if not data:
            return
        wrong = self.link.wrong_baud(self._baud)
        if wrong:
            self.journal.mistake(f"{wrong}: {len(data)} bytes lost")
            return
        self._buffer += data
        self._inward.pass_bytes(len(data), now_ns)
        while length := self.controller.frame_length(self._buffer):
            frame = bytes(self._buffer[:length])
            del self._buffer[:length]
            # The bytes behind it came in the same piece: else it would have been complete before.
            received_ns = self._inward.free_ns - len(self._buffer) * self._inward.byte_ns
            self._waiting.append((received_ns, frame))
            self._waiting_bytes += length
        self._carry_out(time.monotonic_ns())
        self._send(time.monotonic_ns())

    def _carry_out(self, now_ns: int) -> None:
        while self._waiting:
            received_ns, frame = self._waiting[0]
            if self._begun_ns is None:
                jitter_ns = self._random.expovariate(1 / self._jitter_ns) if self._jitter_ns else 0.0
                self._begun_ns = max(received_ns, self._busy_until_ns) + self._latency_ns + jitter_ns
            if self._begun_ns > now_ns:
                return
            self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            self._busy_until_ns, self._begun_ns = self._begun_ns, None
            self.journal.frames += 1
            answer = self.controller.handle(frame, round(received_ns), now_ns)
            if answer and now_ns >= self._mute_until_ns:
                due_ns = self._outward.pass_bytes(len(answer), self._busy_until_ns)
                self._outbox.append((due_ns, answer))

    def _send(self, now_ns: int) -> None:
        while self._outbox and self._outbox[0][0] <= now_ns:
            _, data = self._outbox.popleft()
            sent = self.link.send(data)
            if sent < len(data):
                self._outbox.appendleft((now_ns + RETRY_NS, data[sent:]))
                return
