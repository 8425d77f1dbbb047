# SPDX-License-Identifier: MIT
"""nPoint LC400 (and LC403): 32-bit memory behind frames of 6 or 10 bytes.

Sources: epics-motor/motorNPoint nPointApp/src (LC400MotorDriver.cpp: readSingle, writeSingle,
writeArray, readArray; LC400MemoryAddr.h: registers); micro-manager nPoint (nPC400Ctrl.cpp: channels at
0x118303A0, inverted; nPC400Channel.cpp: +-524287 counts, the unit as a character);
pystxmcontrol drivers/nptController.py (0x1182906C, gains as doubles, "page 29 of NPoint manual").
Not documented and therefore a parameter or a choice: a target beyond the range (--beyond clamp or
ignore; nobody found an error register), a wrong frame (dropped byte by byte and logged), an address that
is not known (reads 0, writes are dropped, both logged), a target in open loop (noted, not followed). The unit
of the range is a number to motorNPoint and a character to nPC400Channel.cpp: --unit-code 0 or 48 is um.
"""
from __future__ import annotations

import struct

from .controller import Controller

END = 0x55
READ, WRITE, WRITE_NEXT, READ_ARRAY = 0xA0, 0xA2, 0xA3, 0xA4
LENGTHS = {READ: 6, WRITE: 10, WRITE_NEXT: 6, READ_ARRAY: 10}
LONGEST_ARRAY = 1024

CHANNEL, CHANNEL_STEP = 0x11831000, 0x1000
UNIT, RANGE, SERVO = 0x044, 0x078, 0x084
TARGET, POSITION = 0x218, 0x334
GAINS = {0x720: 0.0, 0x728: 150.0, 0x730: 0.0}  #: P, I, D, doubles
WAVEFORM = (0x1F4, 0x1F8, 0x200, 0x204, 0x208, 0xB10, 0xD50, 0xD54)  #: kept, without effect
FIRMWARE, CHANNELS, TRAJECTORY_RUNS = 0x11830028, 0x118303A0, 0x1182906C
FIRMWARE_TEXT = b"LC403 V1.10 emul".ljust(20, b"\0")
STEPS = 1048574  #: counts over the range: -524287 to 524287


class Lc400(Controller):
    kind = "lc400"
    title = "nPoint LC400"
    axes = ("1", "2")
    range_nm = (-50_000.0, 50_000.0)
    resolution_nm = 0.0  # the counts are
    baud_tcp = 3_000_000
    baud_pty = 230400

    def __init__(self, stage, journal, options) -> None:
        super().__init__(stage, journal, options)
        # The range register and the counts belong to the device, whatever a fault does to its limits.
        self.travel_nm = [axis.high_nm - axis.low_nm for axis in stage.axes]
        self.middle_nm = [(axis.high_nm + axis.low_nm) / 2 for axis in stage.axes]
        self.next_address = None
        self.memory: dict[int, int] = {}
        self._wrong = 0

    def power_on(self, now_ns: int) -> None:
        self.memory.clear()
        self.next_address = None
        for index in range(len(self.stage.axes)):
            base = CHANNEL + index * CHANNEL_STEP
            self.memory[base + RANGE] = round(self.travel_nm[index] / 1e3)  # um
            self.memory[base + UNIT] = self.options.unit_code
            for offset, gain in GAINS.items():
                low, high = struct.unpack("<II", struct.pack("<d", gain))
                self.memory[base + offset], self.memory[base + offset + 4] = low, high
            for offset in WAVEFORM:
                self.memory[base + offset] = 0
        for at in range(0, len(FIRMWARE_TEXT), 4):
            self.memory[FIRMWARE + at], = struct.unpack_from("<I", FIRMWARE_TEXT, at)
        self.memory[CHANNELS] = ~((1 << len(self.stage.axes)) - 1) & 0x3F
        self.memory[TRAJECTORY_RUNS] = 0

    # --- frames ---
    def frame_length(self, buffer: bytearray) -> int:
        if not buffer:
            return 0
        length = LENGTHS.get(buffer[0])
        if length is None:
            return 1
        if len(buffer) < length:
            return 0
        return length if buffer[length - 1] == END else 1

    def handle(self, frame: bytes, received_ns: int, now_ns: int) -> bytes:
        if len(frame) == 1:
            self._wrong += 1
            if self._wrong == 1:  # of a run of them
                self.journal.mistake(f"byte 0x{frame[0]:02X} begins no frame that ends in 0x55")
            return b""
        self._wrong = 0
        command, = frame[:1]
        if command == WRITE_NEXT:
            if self.next_address is None:
                self.journal.mistake("0xA3 without 0xA2 before it")
                return b""
            self._write(self.next_address, frame[1:5], received_ns, now_ns)
            self.next_address += 4
            return b""
        address, = struct.unpack_from("<I", frame, 1)
        self.next_address = None
        if command == READ:
            return frame[:5] + self._read(address, now_ns) + bytes([END])
        if command == WRITE:
            self._write(address, frame[5:9], received_ns, now_ns)
            self.next_address = address + 4
            return b""
        count, = struct.unpack_from("<I", frame, 5)
        if not 1 <= count <= LONGEST_ARRAY:
            self.journal.mistake(f"an array of {count} values")
            return b""
        values = b"".join(self._read(address + 4 * i, now_ns) for i in range(count))
        return frame[:5] + values + bytes([END])

    # --- memory ---
    def _of_channel(self, address: int) -> tuple[int, int]:
        """Channel and offset; -1: of none."""
        index, offset = divmod(address - CHANNEL, CHANNEL_STEP)
        return (index, offset) if 0 <= index < len(self.stage.axes) else (-1, 0)

    def _read(self, address: int, now_ns: int) -> bytes:
        index, offset = self._of_channel(address)
        if index >= 0:
            axis = self.stage.axes[index]
            if offset == TARGET:
                return self._counts(index, axis.target_nm)
            if offset == POSITION:
                return self._counts(index, self.stage.measured_nm(now_ns)[index])
            if offset == SERVO:
                return struct.pack("<i", axis.servo)
        if address not in self.memory:
            self.journal.mistake(f"nothing is known at address 0x{address:08X}: read as 0")
        return struct.pack("<I", self.memory.get(address, 0))

    def _write(self, address: int, raw: bytes, received_ns: int, now_ns: int) -> None:
        index, offset = self._of_channel(address)
        value, = struct.unpack("<i", raw)
        if index >= 0 and offset == TARGET:
            self._target(index, value, received_ns, now_ns)
        elif index >= 0 and offset == SERVO:
            self._servo(index, value, now_ns)
        elif index >= 0 and address in self.memory and offset not in (UNIT, RANGE):
            self.memory[address] = value & 0xFFFFFFFF
        else:
            self.journal.mistake(f"nothing is to be written at address 0x{address:08X}")

    def _servo(self, index: int, value: int, now_ns: int) -> None:
        if value not in (0, 1):
            self.journal.mistake(f"servo of channel {index + 1} to {value}")
            return
        axis = self.stage.axes[index]
        switched_on = value and not axis.servo
        axis.servo = bool(value)
        if switched_on:  # it regulates to the target that stands there
            self.stage.move([(index, axis.target_nm)], now_ns)

    def _target(self, index: int, counts: int, received_ns: int, now_ns: int) -> None:
        axis = self.stage.axes[index]
        nm = self.within(index, self.middle_nm[index] + counts * self.travel_nm[index] / STEPS)
        if nm is None:
            self.journal.refuse()
        elif not axis.servo:
            self.stage.hold_target(index, nm)
            self.journal.refuse()
        else:
            self.go([(index, nm)], received_ns, now_ns)

    def _counts(self, index: int, nm: float) -> bytes:
        return struct.pack("<i", round((nm - self.middle_nm[index]) * STEPS / self.travel_nm[index]))
