# SPDX-License-Identifier: MIT
"""The stage of a running driftd-sim, through its --stage-input (simulator/README.md)."""
from __future__ import annotations

import socket

ANSWER_S = 0.05  #: driftd-sim answers between two frames


class SimulatedStage:
    """A socket to driftd-sim. Failures are counted and said once; the simulator may come back.

    Parameters
    ----------
    letters : str
        Which of its axes are moved: ``xy``, ``xyz``, or ``z``, its focus stage alone.
    """

    def __init__(self, path: str, say, letters: str = "xy") -> None:
        self.path = path
        self.letters = letters
        self.failures = 0
        self._say = say
        self._last = [0.0] * len(letters)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("")  # an abstract address of its own, to be answered at
        self._socket.settimeout(ANSWER_S)
        self._reached = True

    def move(self, places_nm) -> None:
        word = "focus" if self.letters == "z" else "move"
        self._send(" ".join([word, *(f"{nm:.4f}" for nm in places_nm)]).encode())

    def read(self) -> list[float]:
        """Where it truly is; where it last was when nobody answers."""
        self._drain()
        if self._send(b"read"):
            try:
                words = self._socket.recv(256).split()
                places = dict(zip("xyz", map(float, words)))
                if "z" in self.letters and len(words) < 6:
                    raise ValueError("it has no focus stage")
                self._last = [places[letter] for letter in self.letters]
            except (TimeoutError, ValueError, KeyError) as error:
                self._failed(f"no place from driftd-sim: {error}")
        return self._last

    def _drain(self) -> None:
        """Late answers to earlier questions."""
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(256)
        except BlockingIOError:
            self._socket.settimeout(ANSWER_S)

    def _send(self, text: bytes) -> bool:
        try:
            self._socket.sendto(text, self.path)
        except OSError as error:
            self._failed(f"driftd-sim is not reached at {self.path}: {error.strerror}")
            return False
        self._reached = True
        return True

    def _failed(self, text: str) -> None:
        self.failures += 1
        if self._reached:
            self._say(text)
        self._reached = False
