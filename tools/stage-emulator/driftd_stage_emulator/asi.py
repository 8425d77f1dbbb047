# SPDX-License-Identifier: MIT
"""ASI stages: TG-1000 "Tiger", and with --model ms2000 the MS-2000.

Sources: asiimaging.com docs "Quick Start on Serial Commands" (not case-sensitive, a number that is not
given is 0, tenths of micrometres) and "RS-232 Communication" (8N1, CR, no handshake); TG-1000
instruction manual (error codes -1 to -6, -21); micro-manager ASITiger (ASIHub.cpp GetBuildInfo: the
lines of BU X; ASIXYStage.cpp: SL, SU, UM, RS X?, VB Z=; ASIPiezo.cpp: PM, PR), ASIStage (ASIBase.cpp:
V; ASIXYStage.cpp: "/", B, PC, AC, E, WT and how their answers begin).
Not documented: what a number that is none is answered by (-4 here), a target beyond SL and SU (-4), a
move with the motor off (":A", nothing moves), a line feed (unknown command).
"""
from __future__ import annotations

import re

from .controller import Controller, line_length

UNKNOWN, NO_AXIS, MISSING, OUT_OF_RANGE, FAILED, HALTED = -1, -2, -3, -4, -5, -21
TENTHS_NM = 100.0
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)")
#: Settings that are only kept: their defaults and how their answers begin (ASIXYStage.cpp).
KEPT = {"S": (7.5, ":A "), "PC": (0.000006, ":A "), "OS": (0.0, ":A "), "B": (0.04, ":"),
        "AC": (70.0, ":"), "E": (0.0004, ":"), "WT": (0.0, ":"), "PR": (2.0, ":A ")}
LONG = {"MOVE": "M", "MOVREL": "R", "WHERE": "W", "STATUS": "/", "HALT": "\\", "RDSTAT": "RS",
        "RDSBYTE": "RS", "SETLOW": "SL", "SETUP": "SU", "SPEED": "S", "MOTCTRL": "MC", "VERSION": "V",
        "BUILD": "BU", "BACKLASH": "B", "ACCEL": "AC", "ERROR": "E", "WAIT": "WT", "PCROS": "PC",
        "HERE": "H", "UNITS": "UM"}


class Asi(Controller):
    kind = "asi"
    title = "ASI Tiger or MS-2000"
    axes = ("X", "Y")
    range_nm = (-5e6, 5e6)
    resolution_nm = 10.0
    baud_tcp = baud_pty = 115200
    servo_at_power_on = True  # motors are enabled (MC)
    longest = 512

    def __init__(self, stage, journal, options) -> None:
        super().__init__(stage, journal, options)
        self.tiger = options.model != "ms2000"
        self.origin_nm = [0.0] * len(stage.axes)
        self._commands = {
            "M": self._move, "R": self._move_relative, "W": self._where, "/": self._status,
            "\\": self._halt, "RS": self._axis_status, "SL": self._limit, "SU": self._limit,
            "MC": self._motor, "PM": self._piezo_mode, "UM": self._units, "VB": self._verbosity,
            "V": self._version, "BU": self._build, "WHO": self._who, "H": self._here, "Z": self._zero,
            "!": self._home}

    def power_on(self, now_ns: int) -> None:
        self.decimals = 0
        self.kept = {name: [value] * len(self.stage.axes) for name, (value, _) in KEPT.items()}

    def frame_length(self, buffer: bytearray) -> int:
        return line_length(buffer, 0x0D, self.longest)

    def handle(self, frame: bytes, received_ns: int, now_ns: int) -> bytes:
        self.received_ns, self.now_ns = received_ns, now_ns
        if frame[-1:] != b"\r":
            self.journal.mistake(f"{len(frame)} bytes without a carriage return")
            return self._error(UNKNOWN)
        if any(byte < 0x20 or byte > 0x7E for byte in frame[:-1]):
            self.journal.mistake(f"a byte that no command has in {frame[:-1]!r}")
            return self._error(UNKNOWN)
        words = frame[:-1].decode().upper().split()
        if not words:
            return self._mistake(UNKNOWN, "an empty line")
        name = words[0]
        if self.tiger and len(name) > 1 and name[0] in "12":  # a card's address before the command
            name = name[1:]
        self.name = LONG.get(name, name)
        if self.name in self.kept and self.name != "PR" or self.name == "PR" and self.options.piezo:
            return self._setting(words[1:])
        command = self._commands.get(self.name)
        if command is None:
            return self._mistake(UNKNOWN, f"unknown command {frame[:-1]!r}")
        return command(words[1:])

    # --- answers ---
    def _ok(self, text: str = "") -> bytes:
        return f":A {text}\r\n".encode()

    def _error(self, number: int) -> bytes:
        return b":N%d \r\n" % number

    def _mistake(self, number: int, text: str) -> bytes:
        self.journal.mistake(f"{text}: {number}")
        return self._error(number)

    # --- arguments ---
    def _axes_of(self, words, mark: str):
        """Axes and the text behind `mark`, "" without one; an answer when they are wrong."""
        if not words:
            return self._mistake(MISSING, f"{self.name} without an axis"), []
        parsed = []
        for word in words:
            letter, found, value = word.partition(mark)
            index = self.stage.named(letter)
            if index < 0:
                return self._mistake(NO_AXIS, f"no axis {letter!r}"), []
            parsed.append((index, value if found else ""))
        return b"", parsed

    def _values(self, words):
        """"X=1 Y=2"; a number that is not given is 0."""
        wrong, parsed = self._axes_of(words, "=")
        values = []
        for index, text in parsed:
            if text and not NUMBER.fullmatch(text):
                return self._mistake(OUT_OF_RANGE, f"{text!r} is no number"), []
            values.append((index, float(text or 0)))
        return wrong, values

    def _query(self, words) -> int | None:
        """The axis of "X?"."""
        if len(words) == 1 and words[0].endswith("?"):
            index = self.stage.named(words[0][:-1])
            return index if index >= 0 else None
        return None

    # --- moves ---
    def _move(self, words) -> bytes:
        wrong, values = self._values(words)
        return wrong or self._go([(i, self.origin_nm[i] + v * TENTHS_NM) for i, v in values])

    def _move_relative(self, words) -> bytes:
        wrong, values = self._values(words)
        return wrong or self._go(
            [(i, self.stage.axes[i].target_nm + v * TENTHS_NM) for i, v in values])

    def _home(self, words) -> bytes:
        wrong, parsed = self._axes_of(words, "=")
        return wrong or self._go([(i, self.origin_nm[i]) for i, _ in parsed])

    def _go(self, targets) -> bytes:
        if any(not self.stage.axes[i].legal(nm) for i, nm in targets):
            self.journal.refuse()
            return self._error(OUT_OF_RANGE)
        if any(not self.stage.axes[i].servo for i, _ in targets):
            self.journal.refuse()
            return self._ok()
        if not self.go(targets, self.received_ns, self.now_ns):
            return self._error(FAILED)
        return self._ok()

    def _halt(self, words) -> bytes:
        """"-21: serial command halted by the HALT command" when something moved."""
        moving = self._any_moving()
        self.stage.halt(range(len(self.stage.axes)), self.now_ns)
        return self._error(HALTED) if moving else self._ok()

    def _here(self, words) -> bytes:
        """The place is given another name."""
        wrong, values = self._values(words)
        for index, value in values:
            self.origin_nm[index] = self.stage.axes[index].target_nm - value * TENTHS_NM
        return wrong or self._ok()

    def _zero(self, words) -> bytes:
        self.origin_nm = [axis.target_nm for axis in self.stage.axes]
        return self._ok()

    # --- questions ---
    def _where(self, words) -> bytes:
        wrong, parsed = self._axes_of(words, "=")
        if wrong:
            return wrong
        places = self.stage.measured_nm(self.now_ns)
        return self._ok(" ".join(f"{(places[i] - self.origin_nm[i]) / TENTHS_NM:.{self.decimals}f}"
                                 for i, _ in parsed))

    def _any_moving(self) -> bool:
        return any(self.stage.moving(i, self.now_ns) for i in range(len(self.stage.axes)))

    def _status(self, words) -> bytes:
        return b"B\r\n" if self._any_moving() else b"N\r\n"

    def _axis_status(self, words) -> bytes:
        index = self._query(words)
        if index is not None and self.tiger:
            return self._ok("B" if self.stage.moving(index, self.now_ns) else "N")
        wrong, parsed = self._axes_of(words, "=")
        if wrong:
            return wrong
        # Bit 0 busy, bit 1 enabled, bit 2 motor active, bit 3 joystick (ASI docs, RDSBYTE).
        return self._ok(" ".join(
            str((5 if self.stage.moving(i, self.now_ns) else 0) + 2 * self.stage.axes[i].servo + 8)
            for i, _ in parsed))

    def _limit(self, words) -> bytes:
        lower = self.name == "SL"
        index = self._query(words)
        if index is not None:
            axis = self.stage.axes[index]
            return self._ok(f"{axis.name}={(axis.low_nm if lower else axis.high_nm) / 1e6:.6f}")
        wrong, values = self._values(words)
        for index, value in values:
            setattr(self.stage.axes[index], "low_nm" if lower else "high_nm", value * 1e6)
        return wrong or self._ok()

    def _units(self, words) -> bytes:
        """Counts of a number in a millimetre."""
        index = self._query(words)
        if index is None:
            return self._mistake(NO_AXIS, f"UM {' '.join(words)}")
        return f":{self.stage.axes[index].name}=10000.000000 \r\n".encode()

    def _setting(self, words) -> bytes:
        begin = KEPT[self.name][1]
        index = self._query(words)
        if index is not None:
            value = self.kept[self.name][index]
            return f"{begin}{self.stage.axes[index].name}={value:.6f} \r\n".encode()
        wrong, values = self._values(words)
        for index, value in values:
            self.kept[self.name][index] = value
        return wrong or self._ok()

    def _motor(self, words) -> bytes:
        index = self._query(words)
        if index is not None:
            return self._ok(str(int(self.stage.axes[index].servo)))
        for word in words:
            index = self.stage.named(word[:-1])
            if index < 0 or word[-1] not in "+-":
                return self._mistake(NO_AXIS, f"MC {word}")
            self.stage.axes[index].servo = word[-1] == "+"
        return self._ok() if words else self._mistake(MISSING, "MC without an axis")

    def _piezo_mode(self, words) -> bytes:
        """0: the controller moves it, closed loop."""
        index = self._query(words)
        if not self.options.piezo:
            return self._mistake(UNKNOWN, "PM of an axis that is no piezo")
        if index is None:
            return self._mistake(NO_AXIS, f"PM {' '.join(words)}")
        return self._ok(f"{self.stage.axes[index].name}=0")

    def _verbosity(self, words) -> bytes:
        for word in words:
            letter, _, value = word.partition("=")
            if letter not in ("F", "Z") or not value.isdigit():
                return self._mistake(OUT_OF_RANGE, f"VB {word}")
            if letter == "Z":
                self.decimals = min(int(value), 3)
            elif value != "0":
                return self._mistake(OUT_OF_RANGE, "VB F other than 0 is another reply syntax, not emulated")
        return self._ok()

    def _version(self, words) -> bytes:
        return self._ok("v3.40" if self.tiger else "Version: USB-9.2n")

    def _build(self, words) -> bytes:
        """CR ends each line; only the last has a line feed (ASIHub.cpp, GetBuildInfo)."""
        if not self.tiger:
            return b"STD_XY\r\n"
        letters = " ".join(axis.name for axis in self.stage.axes)
        count = len(self.stage.axes)
        types = " ".join(["p" if self.options.piezo else "x"] * count)
        lines = ["TIGER_COMM", f"Motor Axes: {letters}", f"Axis Types: {types}",
                 "Axis Addr: " + " ".join(["1"] * count), "Hex Addr: " + " ".join(["31"] * count),
                 "Axis Props: " + " ".join(["0"] * count)]
        return "\r".join(lines).encode() + b"\r\n"

    def _who(self, words) -> bytes:
        return (b"At 30: Comm v3.40 TIGER_COMM\rAt 31: " +
                b",".join(b"%s:%s" % (axis.name.encode(), b"Piezo" if self.options.piezo else b"XYMotor")
                          for axis in self.stage.axes) + b" v3.40 STD_XY\r\n")
