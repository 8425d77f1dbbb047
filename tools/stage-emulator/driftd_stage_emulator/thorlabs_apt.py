# SPDX-License-Identifier: MIT
"""Thorlabs piezo controllers, APT protocol: a BPC303 of two bays, or with --model kpz101 a K-Cube.

Source: "Thorlabs Motion Controllers Host-Controller Communications Protocol", Introduction (header:
id, parameters or length, destination, source; 0x80 marks data; host 0x01, rack 0x11, bays 0x21 on,
single 0x50) and the sections named by the messages below (MGMSG_HW_*, MGMSG_RACK_*, MGMSG_MOD_*,
MGMSG_PZ_*); checked against yaq-project/thorlabs-apt-protocol parsing.py (MIT), which decodes the
answers. Sets are not answered. Moves in open loop and while zeroing are ignored; updates stop after 50
without MGMSG_PZ_ACK_PZSTATUSUPDATE.
Not documented: what a wrong frame or an unknown message is answered by (nothing here, it is logged),
a position beyond 32767 (ignored and logged), one beyond a range set by a fault (--beyond).
"""
from __future__ import annotations

import struct

from .controller import Controller

HOST, RACK, BAY, SINGLE = 0x01, 0x11, 0x21, 0x50
FULL = 32767
OPEN, CLOSED, OPEN_SMOOTH, CLOSED_SMOOTH = 1, 2, 3, 4
UPDATE_NS = 100_000_000
UPDATES_WITHOUT_ACK = 50
ZERO_NS = 2_000_000_000
LONGEST = 255

CONNECTED, ZEROED, ZEROING, STRAIN_GAUGE = 0x1, 0x10, 0x20, 0x100
CLOSED_BIT, V150, ACTIVE, ENABLED = 0x400, 0x4000, 0x20000000, 0x80000000


class Channel:
    """What a bay remembers besides its axis."""

    def __init__(self) -> None:
        self.mode = OPEN
        self.enabled = True
        self.zeroed = False
        self.zeroing_until_ns = 0
        self.volts = 0
        self.gains = (100, 80)


class ThorlabsApt(Controller):
    kind = "thorlabs_apt"
    title = "Thorlabs BPC303 or KPZ101, APT"
    axes = ("1", "2")
    range_nm = (0.0, 20_000.0)
    resolution_nm = -1.0  # travel / 32767
    baud_tcp = baud_pty = 115200
    longest = LONGEST + 6

    def __init__(self, stage, journal, options) -> None:
        super().__init__(stage, journal, options)
        self.rack = options.model != "kpz101"
        if not self.rack:
            del stage.axes[1:]
        self.travel_nm = [axis.high_nm - axis.low_nm for axis in stage.axes]
        self.bottom_nm = [axis.low_nm for axis in stage.axes]
        self.channels = [Channel() for _ in stage.axes]
        self.updates_ns = None  #: when the next status goes out unasked
        self.unacknowledged = 0
        self._wrong = 0
        self._messages = {
            0x0002: None, 0x0223: None,
            0x0005: self._info, 0x0011: self._start, 0x0012: self._stop, 0x0060: self._bay_used,
            0x0210: self._enable, 0x0211: self._enabled, 0x0640: self._set_mode, 0x0641: self._mode,
            0x0643: self._set_volts, 0x0644: self._volts, 0x0646: self._move, 0x0647: self._position,
            0x0650: self._travel, 0x0655: self._set_gains, 0x0656: self._gains, 0x0658: self._zero,
            0x065B: self._bits, 0x0660: self._status, 0x0662: self._acknowledge}
        self._data_lengths = {0x0643: 4, 0x0646: 4, 0x0655: 6}  #: of the messages that carry data

    def power_on(self, now_ns: int) -> None:
        self.channels = [Channel() for _ in self.stage.axes]
        for axis, channel in zip(self.stage.axes, self.channels):
            channel.mode = CLOSED if axis.servo else OPEN
        self.updates_ns = None

    def client_gone(self) -> None:
        self.updates_ns = None

    def set_error(self, number: int) -> bytes:
        """MGMSG_HW_RICHRESPONSE, unasked: message 0, a code, 64 characters."""
        notes = f"error {number} (emulated)".encode().ljust(64, b"\0")
        return self._data(0x0081, struct.pack("<HH", 0, number & 0xFFFF) + notes, self._own(0))

    def set_servos(self, axis: int | None, on: bool) -> None:
        for channel in self.channels if axis is None else [self.channels[axis]]:
            channel.mode = CLOSED if on else OPEN
        super().set_servos(axis, on)

    # --- frames ---
    def frame_length(self, buffer: bytearray) -> int:
        if len(buffer) < 6:
            return 0
        message, length, destination, source = struct.unpack_from("<HHBB", buffer)
        if message not in self._messages or source != HOST:
            return 1
        if not destination & 0x80:
            return 6
        if length > LONGEST:
            return 1
        return 6 + length if len(buffer) >= 6 + length else 0

    def handle(self, frame: bytes, received_ns: int, now_ns: int) -> bytes:
        if len(frame) < 6:
            self._wrong += 1
            if self._wrong == 1:  # of a run of them
                self.journal.mistake(f"byte 0x{frame[0]:02X} begins no message known from a host")
            return b""
        self._wrong = 0
        self.received_ns, self.now_ns = received_ns, now_ns
        message, length, destination, _ = struct.unpack_from("<HHBB", frame)
        has_data = bool(destination & 0x80)
        destination &= 0x7F
        if has_data != (message in self._data_lengths):
            return self._mistake(message, f"has {'data' if has_data else 'no data'}")
        if has_data and length != self._data_lengths[message]:
            return self._mistake(message, f"has {length} bytes of data")
        if destination not in self._destinations():
            return self._mistake(message, f"goes to 0x{destination:02X}, where nobody is")
        handler = self._messages[message]
        if handler is None:
            return b""
        if message in (0x0005, 0x0060, 0x0011, 0x0012, 0x0662):
            return handler(destination, frame)
        index = destination - BAY if self.rack else 0
        if destination == RACK:
            return self._mistake(message, "goes to the rack, not to a bay")
        channel = struct.unpack_from("<H", frame, 6)[0] if has_data else frame[2]
        if channel != 1:
            return self._mistake(message, f"names channel {channel}; a bay has channel 1")
        self._finish_zero(index)
        return handler(index, frame)

    def _destinations(self) -> list[int]:
        if not self.rack:
            return [SINGLE]
        return [RACK] + [BAY + i for i in range(len(self.stage.axes))]

    def _mistake(self, message: int, text: str) -> bytes:
        self.journal.mistake(f"message 0x{message:04X} {text}")
        return b""

    def _own(self, index: int) -> int:
        return BAY + index if self.rack else SINGLE

    @staticmethod
    def _short(message: int, one: int, two: int, source: int) -> bytes:
        return struct.pack("<HBBBB", message, one, two, HOST, source)

    @staticmethod
    def _data(message: int, data: bytes, source: int) -> bytes:
        return struct.pack("<HHBB", message, len(data), HOST | 0x80, source) + data

    # --- the device ---
    def _info(self, destination: int, frame: bytes) -> bytes:
        """MGMSG_HW_GET_INFO: serial, model, type, firmware, notes, hardware, modification, channels."""
        model, serial = (b"BPC303", 71000001) if self.rack else (b"KPZ101", 29000001)
        channels = len(self.stage.axes) if destination == RACK else 1
        data = struct.pack("<l8sH4B48s12sHHH", serial, model, 45,
                           3, 2, 1, 0, b"driftd stage emulator", b"", 1, 1, channels)
        return self._data(0x0006, data, destination)

    def _bay_used(self, destination: int, frame: bytes) -> bytes:
        """Bays count from 0; 1 occupied, 2 empty."""
        return self._short(0x0061, frame[2], 1 if frame[2] < len(self.stage.axes) else 2, destination)

    def _start(self, destination: int, frame: bytes) -> bytes:
        self.updates_ns = self.now_ns + UPDATE_NS
        self.unacknowledged = 0
        return b""

    def _stop(self, destination: int, frame: bytes) -> bytes:
        self.updates_ns = None
        return b""

    def _acknowledge(self, destination: int, frame: bytes) -> bytes:
        self.unacknowledged = 0
        return b""

    def next_event_ns(self) -> int | None:
        return self.updates_ns

    def tick(self, now_ns: int) -> bytes:
        if self.updates_ns is None or now_ns < self.updates_ns:
            return b""
        self.updates_ns += UPDATE_NS
        self.unacknowledged += 1
        if self.unacknowledged > UPDATES_WITHOUT_ACK:
            self.updates_ns = None
            return b""
        self.now_ns = now_ns
        for index in range(len(self.stage.axes)):
            self._finish_zero(index)
        return b"".join(self._status(index, b"") for index in range(len(self.stage.axes)))

    # --- a bay ---
    def _enable(self, index: int, frame: bytes) -> bytes:
        if frame[3] not in (1, 2):
            return self._mistake(0x0210, f"asks for state {frame[3]}")
        self.channels[index].enabled = frame[3] == 1
        return b""

    def _enabled(self, index: int, frame: bytes) -> bytes:
        return self._short(0x0212, 1, 1 if self.channels[index].enabled else 2, self._own(index))

    def _set_mode(self, index: int, frame: bytes) -> bytes:
        mode = frame[3]
        if mode not in (OPEN, CLOSED, OPEN_SMOOTH, CLOSED_SMOOTH):
            return self._mistake(0x0640, f"asks for mode {mode}")
        self.channels[index].mode = mode
        axis = self.stage.axes[index]
        closed = mode in (CLOSED, CLOSED_SMOOTH)
        if closed and not axis.servo:  # it regulates to where it is
            self.stage.halt([index], self.now_ns)
        axis.servo = closed
        return b""

    def _mode(self, index: int, frame: bytes) -> bytes:
        return self._short(0x0642, 1, self.channels[index].mode, self._own(index))

    def _set_volts(self, index: int, frame: bytes) -> bytes:
        """Open loop: +-32767 of the voltage; here the same share of the travel."""
        channel = self.channels[index]
        channel.volts = struct.unpack_from("<h", frame, 8)[0]
        if not self.stage.axes[index].servo and channel.enabled:
            share = max(0, channel.volts) / FULL
            self.stage.move([(index, self.bottom_nm[index] + share * self.travel_nm[index])],
                            self.now_ns)
        return b""

    def _volts(self, index: int, frame: bytes) -> bytes:
        return self._data(0x0645, struct.pack("<Hh", 1, self.channels[index].volts), self._own(index))

    def _move(self, index: int, frame: bytes) -> bytes:
        """MGMSG_PZ_SET_OUTPUTPOS: 0 to 32767 of the travel; in closed loop only."""
        position, = struct.unpack_from("<H", frame, 8)
        if position > FULL:
            return self._mistake(0x0646, f"asks for {position} of {FULL}")
        channel, axis = self.channels[index], self.stage.axes[index]
        nm = self.within(index, self.bottom_nm[index] + position * self.travel_nm[index] / FULL)
        if not axis.servo or not channel.enabled or channel.zeroing_until_ns or nm is None:
            self.journal.refuse()
        else:
            self.go([(index, nm)], self.received_ns, self.now_ns)
        return b""

    def _counts(self, index: int) -> int:
        nm = self.stage.measured_nm(self.now_ns)[index]
        counts = round((nm - self.bottom_nm[index]) * FULL / self.travel_nm[index])
        return max(-FULL - 1, min(FULL, counts))

    def _position(self, index: int, frame: bytes) -> bytes:
        return self._data(0x0648, struct.pack("<Hh", 1, self._counts(index)), self._own(index))

    def _travel(self, index: int, frame: bytes) -> bytes:
        """The travel in units of 100 nm."""
        return self._data(0x0651, struct.pack("<HH", 1, round(self.travel_nm[index] / 100)),
                          self._own(index))

    def _set_gains(self, index: int, frame: bytes) -> bytes:
        self.channels[index].gains = struct.unpack_from("<HH", frame, 8)
        return b""

    def _gains(self, index: int, frame: bytes) -> bytes:
        return self._data(0x0657, struct.pack("<HHH", 1, *self.channels[index].gains), self._own(index))

    def _zero(self, index: int, frame: bytes) -> bytes:
        """MGMSG_PZ_SET_ZERO: to 0 V, which takes seconds, and what is read there is 0 from then on."""
        self.channels[index].zeroing_until_ns = self.now_ns + ZERO_NS
        self.stage.move([(index, self.bottom_nm[index])], self.now_ns)
        return b""

    def _finish_zero(self, index: int) -> None:
        channel = self.channels[index]
        if channel.zeroing_until_ns and self.now_ns >= channel.zeroing_until_ns:
            channel.zeroing_until_ns = 0
            channel.zeroed = True

    def _status_bits(self, index: int) -> int:
        channel = self.channels[index]
        bits = CONNECTED | STRAIN_GAUGE | V150 | ACTIVE
        bits |= ZEROED if channel.zeroed else 0
        bits |= ZEROING if channel.zeroing_until_ns else 0
        bits |= CLOSED_BIT if channel.mode in (CLOSED, CLOSED_SMOOTH) else 0
        return bits | (ENABLED if channel.enabled else 0)

    def _bits(self, index: int, frame: bytes) -> bytes:
        return self._data(0x065C, struct.pack("<HL", 1, self._status_bits(index)), self._own(index))

    def _status(self, index: int, frame: bytes) -> bytes:
        counts = self._counts(index)
        return self._data(0x0661, struct.pack("<HhhL", 1, counts, counts, self._status_bits(index)),
                          self._own(index))
