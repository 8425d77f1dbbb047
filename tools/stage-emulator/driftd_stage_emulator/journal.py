# SPDX-License-Identifier: MIT
"""What an emulated controller noticed: moves with their times, refusals, mistakes of its client."""
from __future__ import annotations

import collections
import sys

KEPT = 20000  #: newest moves


class StrictError(Exception):
    """A client's mistake under --strict: the emulator ends."""


class Journal:
    def __init__(self, kind: str, strict: bool = False) -> None:
        self.kind = kind
        self.strict = strict
        self.moves = 0
        self.refused = 0
        self.frames = 0
        self.clients = 0
        self.mistakes = 0
        self.last_mistake = ""
        self._kept = collections.deque(maxlen=KEPT)

    def move(self, received_ns: int, targets_nm) -> None:
        """A move that is carried out. `received_ns`: its last byte was there."""
        self.moves += 1
        self._kept.append((received_ns, list(targets_nm)))

    def refuse(self) -> None:
        """A well-formed move that the controller does not carry out."""
        self.refused += 1

    def mistake(self, text: str) -> None:
        """The client broke the protocol. @raises StrictError with --strict"""
        self.mistakes += 1
        self.last_mistake = text
        self.say(text)
        if self.strict:
            raise StrictError(text)

    def say(self, text: str) -> None:
        print(f"driftd-stage-emulator: {self.kind}: {text}", file=sys.stderr, flush=True)

    def report(self, now_ns: int, count: int) -> dict:
        newest = list(self._kept)[-count:] if count else []
        second = sum(1 for stamp, _ in self._kept if stamp > now_ns - 1_000_000_000)
        return {"kind": self.kind, "moves": self.moves, "moves_per_s": second,
                "refused": self.refused, "frames": self.frames, "clients": self.clients,
                "syntax_errors": self.mistakes, "last_syntax_error": self.last_mistake,
                "moves_ns": [stamp for stamp, _ in newest],
                "targets_nm": [targets for _, targets in newest]}
