# SPDX-License-Identifier: MIT
"""Piezoconcept's USB interface: five-letter commands.

Sources: micro-manager PIEZOCONCEPT (VERS_, INFO_, INFOX "L,<travel>", MOVEX "50.000u", "Ok", _RAZ_);
OzoraIso/PiezoConcept_stage_manipulation Piezo_concept_LF2.py (115200 8N1, MOXYZ and MRXYZ with a unit at
each number, GET_X that ends in "m", GEXYZ, REOFF, RE_ON, INFOS, SERIE). There is no servo, busy or error
query. Not documented: the text of an error (anything but "Ok" is one for both sources; --error-text), the
lines of GEXYZ and INFOS (guessed from what the Python program waits for).
"""
from __future__ import annotations

import re

from .controller import Controller, line_length

UNITS_NM = {b"n": 1.0, b"u": 1e3}
VALUE = re.compile(rb"(-?\d+(?:\.\d*)?)([nu])")
SPEAKING = (b"INFOS", b"SERIE")  #: answered after REOFF, too


class Piezoconcept(Controller):
    kind = "piezoconcept"
    title = "Piezoconcept USB interface"
    axes = ("X", "Y", "Z")
    resolution_nm = -1.0  # travel / 65535
    baud_tcp = baud_pty = 115200
    servo_at_power_on = True  # it has none to switch
    longest = 256

    def __init__(self, stage, journal, options) -> None:
        super().__init__(stage, journal, options)
        self.speaks = True

    def power_on(self, now_ns: int) -> None:
        self.speaks = True

    def servo_off(self, axis: int | None = None) -> bytes:
        """It has no servo to tell of: the stage no longer follows, and it goes on saying Ok."""
        self.stage.frozen = True
        return b""

    def frame_length(self, buffer: bytearray) -> int:
        return line_length(buffer, 0x0A, self.longest)

    def handle(self, frame: bytes, received_ns: int, now_ns: int) -> bytes:
        if frame[-1:] != b"\n":
            self.journal.mistake(f"{len(frame)} bytes without a line feed")
            return self._error("command too long")
        name, _, rest = frame[:-1].partition(b" ")
        words = rest.split(b" ") if rest else []
        answer = self._answer(name, words, received_ns, now_ns)
        return answer if self.speaks or name in SPEAKING else b""

    def _answer(self, name: bytes, words, received_ns: int, now_ns: int) -> bytes:
        axes = [axis.name.encode() for axis in self.stage.axes]
        if name[:4] == b"MOVE" and name[4:] in axes:
            return self._move([axes.index(name[4:])], words, False, received_ns, now_ns)
        if name[:4] == b"MOVR" and name[4:] in axes:
            return self._move([axes.index(name[4:])], words, True, received_ns, now_ns)
        if name in (b"MOXYZ", b"MRXYZ"):
            return self._move([0, 1, 2], words, name == b"MRXYZ", received_ns, now_ns)
        if words:
            return self._mistake(f"{name.decode(errors='replace')} takes no argument")
        if name[:4] == b"GET_" and name[4:] in axes:
            return self._place(axes.index(name[4:]), now_ns) + b"\n"
        if name[:4] == b"INFO" and name[4:] in axes:
            axis = self.stage.axes[axes.index(name[4:])]
            return b"L,%g\n" % ((axis.high_nm - axis.low_nm) / 1e3)
        command = {b"GEXYZ": self._places, b"VERS_": lambda now: b"Version 3.1.1\n",
                   b"INFO_": lambda now: b"Piezoconcept product :\nLF2.100 emulated\n",
                   b"SERIE": lambda now: b"00000001\n", b"INFOS": self._infos,
                   b"REOFF": self._reoff, b"RE_ON": self._re_on, b"_RAZ_": self._raz,
                   b"STOPP": self._stop}.get(name)
        if command is None:
            return self._mistake(f"unknown command {name!r}")
        return command(now_ns)

    def _mistake(self, text: str) -> bytes:
        self.journal.mistake(text)
        return self._error("unknown command")

    def _error(self, text: str) -> bytes:
        return (self.options.error_text or f"Error, {text}").encode() + b"\n"

    def _move(self, indices, words, relative: bool, received_ns: int, now_ns: int) -> bytes:
        if len(words) != len(indices):
            return self._mistake(f"{len(words)} numbers for {len(indices)} axes")
        targets = []
        for index, word in zip(indices, words):
            value = VALUE.fullmatch(word)
            if value is None:
                return self._mistake(f"{word!r} is no number with the unit n or u")
            nm = float(value[1]) * UNITS_NM[value[2]]
            targets.append((index, nm + (self.stage.axes[index].target_nm if relative else 0)))
        if any(not self.stage.axes[index].legal(nm) for index, nm in targets):
            self.journal.refuse()
            return self._error("out of range")
        if not self.go(targets, received_ns, now_ns):
            return self._error("busy")
        return b"Ok\n"

    def _place(self, index: int, now_ns: int) -> bytes:
        return b"%.4f um" % (self.stage.measured_nm(now_ns)[index] / 1e3)

    def _places(self, now_ns: int) -> bytes:
        names = (b"First", b"Second", b"Third")
        places = self.stage.measured_nm(now_ns)
        return b"".join(b"%s Axis : %.4f um\n" % (name, nm / 1e3)
                        for name, nm in zip(names, places))

    def _infos(self, now_ns: int) -> bytes:
        lines = [b"Piezoconcept product : LF2.100 emulated", b"Serial number : 00000001"]
        lines += [b"Travel range %s : %g um" % (axis.name.encode(), (axis.high_nm - axis.low_nm) / 1e3)
                  for axis in self.stage.axes]
        return b"\n".join(lines) + b"\n"

    def _reoff(self, now_ns: int) -> bytes:
        self.speaks = False
        return b""

    def _re_on(self, now_ns: int) -> bytes:
        self.speaks = True
        return b"Ok\n"

    def _raz(self, now_ns: int) -> bytes:
        """All outputs to 0 V: the lower end."""
        self.stage.move([(i, axis.low_nm) for i, axis in enumerate(self.stage.axes)], now_ns)
        return b"Ok\n"

    def _stop(self, now_ns: int) -> bytes:
        self.stage.halt(range(len(self.stage.axes)), now_ns)
        return b"Ok\n"
