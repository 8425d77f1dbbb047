# SPDX-License-Identifier: MIT
"""PI controllers that speak GCS 2.0: a digital piezo controller, or with --reference a motor controller.

Sources: PI user manual MS249E (C-863), 8.1 "Format" (command lines, answers of several lines, axis
names), 8.7 "Error Codes"; epics-motor/motorPIGCS2 pigcs2App/src (PIGCSPiezoController: STP sets error
10, unknown queries stay unanswered); micro-manager PI_GCS_2 (PIGCSCommands.cpp: the single bytes 5 and
7, ONL, TPC?); PYME piezo_e709.py, piezo_c867.py (LF, SVO, MOV, ERR?). What a controller does with CR or
with a control byte inside a line is not documented: refused here.
"""
from __future__ import annotations

import re

from .controller import Controller, line_length

SYNTAX, UNKNOWN, TOO_LONG, NO_SERVO, OUT_OF_LIMITS, STOPPED = 1, 2, 3, 5, 7, 10
NO_AXIS, OUT_OF_RANGE, TWICE, COUNT, NO_NUMBER, NOT_WHILE_MOVING = 15, 17, 22, 24, 25, 93
SERVO_SWITCHED_OFF = 1024

SINGLE_BYTES = (4, 5, 7, 8, 9, 24)
NUMBER = re.compile(rb"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
REFERENCE_NS = 1_000_000_000


class PiGcs2(Controller):
    kind = "pi_gcs2"
    title = "PI, GCS 2.0 (E-709, E-727, E-754 ...)"
    baud_tcp = 0
    baud_pty = 115200
    longest = 512

    def __init__(self, stage, journal, options) -> None:
        super().__init__(stage, journal, options)
        self.unit_nm = {"um": 1e3, "mm": 1e6}[options.unit]
        self.digits = {"um": 4, "mm": 7}[options.unit]  # 0.1 nm
        self.error = 0
        self.velocity = {}
        self.referencing_until_ns = 0
        self._commands = {
            b"*IDN?": self._idn, b"CSV?": lambda words: b"2.0\n", b"SAI?": self._names,
            b"VER?": lambda words: b"FW_ARM: V2.0.0\n", b"TPC?": lambda words: b"0\n",
            b"ERR?": self._take_error, b"MOV": self._mov, b"MVR": self._mvr, b"SVO": self._svo,
            b"VEL": self._vel, b"STP": self._stp, b"HLT": self._hlt, b"FRF": self._frf,
            b"MOV?": self._query(lambda i: self._number(self.stage.axes[i].target_nm)),
            b"POS?": self._positions,
            b"SVO?": self._query(lambda i: b"%d" % self.stage.axes[i].servo),
            b"ONT?": self._query(lambda i: b"%d" % self.stage.on_target(i, self.now_ns)),
            b"OVF?": self._query(lambda i: b"0"),
            b"TMN?": self._query(lambda i: self._number(self.stage.axes[i].low_nm)),
            b"TMX?": self._query(lambda i: self._number(self.stage.axes[i].high_nm)),
            b"PUN?": self._query(lambda i: options.unit.encode()),
            b"VEL?": self._query(lambda i: b"%.4f" % self.velocity.get(i, 1000.0)),
        }
        if options.reference:
            self._commands[b"FRF?"] = self._query(lambda i: b"%d" % self.stage.axes[i].referenced)
            self._commands[b"TRS?"] = self._query(lambda i: b"1")
        else:
            del self._commands[b"FRF"]

    def power_on(self, now_ns: int) -> None:
        self.error = 0
        self.referencing_until_ns = 0
        for axis in self.stage.axes:
            axis.referenced = not self.options.reference

    def set_error(self, number: int) -> bytes:
        self.error = number
        return b""

    def servo_off(self, axis: int | None = None) -> bytes:
        self.error = SERVO_SWITCHED_OFF
        return super().servo_off(axis)

    def frame_length(self, buffer: bytearray) -> int:
        if buffer and buffer[0] in SINGLE_BYTES:
            return 1
        return line_length(buffer, 0x0A, self.longest) if buffer else 0

    def handle(self, frame: bytes, received_ns: int, now_ns: int) -> bytes:
        self.received_ns, self.now_ns = received_ns, now_ns
        self._finish_reference()
        if len(frame) == 1 and frame[0] in SINGLE_BYTES:
            return self._single(frame[0])
        if frame[-1:] != b"\n":
            return self._refuse(TOO_LONG, f"{len(frame)} bytes without a line feed")
        line = frame[:-1]
        if any(byte < 0x20 or byte > 0x7E for byte in line):
            return self._refuse(SYNTAX, f"a byte that no command has in {line!r}")
        if line != line.strip(b" "):
            # MM's PIController sends "FRF 1 " so; blanks at the end are borne, at the start not.
            if line.startswith(b" "):
                return self._refuse(SYNTAX, f"a blank before {line!r}")
        words = line.split()
        if not words:
            return self._refuse(SYNTAX, "an empty line")
        command = self._commands.get(words[0])
        if command is None:
            return self._refuse(UNKNOWN, f"unknown command {line!r}")
        return command(words[1:])

    # --- errors ---
    def _refuse(self, number: int, text: str) -> bytes:
        """A mistake of the client's."""
        self.error = number
        self.journal.mistake(f"{text}: error {number}")
        return b""

    def _deny(self, number: int) -> bytes:
        """A well-formed command that is not carried out now."""
        self.error = number
        self.journal.refuse()
        return b""

    def _take_error(self, words) -> bytes:
        if words:
            return self._refuse(COUNT, "ERR? takes no argument")
        number, self.error = self.error, 0
        return b"%d\n" % number

    # --- answers ---
    def _number(self, nm: float) -> bytes:
        return b"%.*f" % (self.digits, nm / self.unit_nm)

    def _lines(self, indices, values) -> bytes:
        """All but the last end in a blank (MS249E, 8.1)."""
        names = [self.stage.axes[i].name.encode() for i in indices]
        return b" \n".join(name + b"=" + value for name, value in zip(names, values)) + b"\n"

    def _indices(self, words) -> list[int] | None:
        """The axes named, all of them without a name. None: refused."""
        if not words:
            return list(range(len(self.stage.axes)))
        indices = [self.stage.named(word.decode()) for word in words]
        if -1 in indices:
            self._refuse(NO_AXIS, f"no axis {words[indices.index(-1)].decode()}")
            return None
        return indices

    def _query(self, value):
        def answer(words) -> bytes:
            indices = self._indices(words)
            return b"" if indices is None else self._lines(indices, [value(i) for i in indices])
        return answer

    def _positions(self, words) -> bytes:
        indices = self._indices(words)
        if indices is None:
            return b""
        places = self.stage.measured_nm(self.now_ns)
        return self._lines(indices, [self._number(places[i]) for i in indices])

    def _idn(self, words) -> bytes:
        model = self.options.model or ("C-867" if self.options.reference else "E-727")
        return f"(c)2013-2021 Physik Instrumente (PI) GmbH & Co. KG, {model}, 0123456789, 2.0.0.0\n".encode()

    def _names(self, words) -> bytes:
        if words not in ([], [b"ALL"]):
            return self._refuse(OUT_OF_RANGE, f"SAI? of {words!r}")
        return b" \n".join(axis.name.encode() for axis in self.stage.axes) + b"\n"

    def _single(self, byte: int) -> bytes:
        if byte == 5:
            mask = sum(1 << i for i in range(len(self.stage.axes)) if self._is_moving(i))
            return b"%X\n" % mask
        if byte == 7:
            return (b"\xb0" if self.referencing_until_ns else b"\xb1") + b"\n"
        if byte in (4, 8, 9):  # status register, macro running, wave generator running
            return b"0\n"
        return self._stp([])

    def _is_moving(self, index: int) -> bool:
        return self.stage.axes[index].servo and self.stage.moving(index, self.now_ns)

    # --- commands ---
    def _pairs(self, words) -> list[tuple[int, float]] | None:
        """"axis value axis value". None: refused."""
        if not words or len(words) % 2:
            self._refuse(COUNT, f"{len(words)} arguments where pairs are expected")
            return None
        indices = self._indices(words[::2])
        if indices is None:
            return None
        if len(set(indices)) != len(indices):
            self._refuse(TWICE, "an axis is named twice")
            return None
        for word in words[1::2]:
            if not NUMBER.fullmatch(word):
                self._refuse(NO_NUMBER, f"{word!r} is no number")
                return None
        return [(i, float(word)) for i, word in zip(indices, words[1::2])]

    def _mov(self, words) -> bytes:
        pairs = self._pairs(words)
        return b"" if pairs is None else self._go([(i, v * self.unit_nm) for i, v in pairs])

    def _mvr(self, words) -> bytes:
        pairs = self._pairs(words)
        if pairs is None:
            return b""
        return self._go([(i, self.stage.axes[i].target_nm + v * self.unit_nm) for i, v in pairs])

    def _go(self, targets) -> bytes:
        """All axes or none (MS249E, 8.1)."""
        axes = [self.stage.axes[i] for i, _ in targets]
        if any(not axis.servo or not axis.referenced for axis in axes):
            return self._deny(NO_SERVO)
        if any(not axis.legal(nm) for axis, (_, nm) in zip(axes, targets)):
            return self._deny(OUT_OF_LIMITS)
        if not self.go(targets, self.received_ns, self.now_ns):
            self.error = NOT_WHILE_MOVING
        return b""

    def _svo(self, words) -> bytes:
        pairs = self._pairs(words)
        if pairs is None:
            return b""
        if any(value not in (0, 1) for _, value in pairs):
            return self._refuse(OUT_OF_RANGE, "SVO takes 0 or 1")
        for index, value in pairs:
            axis = self.stage.axes[index]
            if value and not axis.servo:  # it regulates to where it is
                self.stage.halt([index], self.now_ns)
            axis.servo = bool(value)
        return b""

    def _vel(self, words) -> bytes:
        pairs = self._pairs(words)
        self.velocity.update(pairs or [])
        return b""

    def _stp(self, words) -> bytes:
        """Halting sets error 10 (MS249E 8.7; PIGCSPiezoController::haltAxis expects it)."""
        self.stage.halt(range(len(self.stage.axes)), self.now_ns)
        self.error = STOPPED
        return b""

    def _hlt(self, words) -> bytes:
        indices = self._indices(words)
        if indices is not None:
            self.stage.halt(indices, self.now_ns)
            self.error = STOPPED
        return b""

    # --- referencing, of motor controllers ---
    def _frf(self, words) -> bytes:
        indices = self._indices(words)
        if indices is not None:
            self.referencing_until_ns = self.now_ns + REFERENCE_NS
            self._to_reference = indices
        return b""

    def _finish_reference(self) -> None:
        if self.referencing_until_ns and self.now_ns >= self.referencing_until_ns:
            self.referencing_until_ns = 0
            for index in self._to_reference:
                self.stage.axes[index].referenced = True
