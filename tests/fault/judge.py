# SPDX-License-Identifier: MIT
"""What happened in a test, by the simulator's truth and the daemon's events: times are the messages'
own (CLOCK_MONOTONIC of the one machine), so that a slow test program changes no figure."""
from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import SLOW, SOURCE, Rig, drain, new_rig  # noqa: E402,F401

AXES = "xy"
DEMO = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
# What the daemon believes of the demo's world, as config/examples/simulator.yaml has it.
STAGE = {"image_to_stage": "[[0.992546, 0.121869], [0.121869, -0.992546]]", "delay_us": 2500,
         "time_constant_us": 1500}
CONFIG = {"stage": STAGE, "camera": {"readout_us": 300},
          "control": {"step_limit_nm": 20, "range_limit_nm": 5000}}
# From one of 500 frames/s to the next control.rate_limit_nm_per_s, of 2000, allows less than the step limit.
FRAME_STEP_NM = 4


def changed(text: str, *changes: tuple[str, str]) -> str:
    """A scenario with parts replaced; each must be there."""
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text


def shaken(scenario: str) -> str:
    """The demo's world on a table that a pump and a fan shake as well."""
    lines = "".join(f"\n      - {{amplitude_nm: {amplitude}, frequency_hz: {frequency}}}"
                    for amplitude, frequency in ((2.0, 2.1), (1.0, 17.3), (1.0, 29.7), (0.6, 50)))
    return changed(scenario, ("    sines:                 # what the isolation lets through", "    sines:" + lines),
                   ("    sines:\n      - {amplitude_nm: 0.5", f"    sines:{lines}\n      - {{amplitude_nm: 0.5"))


class Record:
    """Everything that truth and events say from its making on."""

    def __init__(self, rig: Rig):
        self._rig = rig
        self._truth = rig.truth()
        self._events = rig.subscribe("event")
        self.truth: list[dict] = []
        self.states: list[dict] = []
        self.events: list[dict] = []
        end_ns = rig.now_ns() + 10e9 * SLOW
        while not self.update().truth:  # connected; the subscription to events is as old
            assert rig.now_ns() < end_ns, "no truth"
            rig.sleep(0.02)

    def update(self) -> "Record":
        self.truth += self._truth.drain()
        self.events += [e for _, e in drain(self._events, 0)]
        self.states = [e for e in self.events if e["code"] == "state_changed"]
        return self

    def collect(self, seconds: float) -> "Record":
        """Lets `seconds` pass."""
        end_ns = self._rig.now_ns() + 1e9 * seconds
        while self._rig.now_ns() < end_ns:
            self._rig.sleep(0.05)
            self.update()
        return self.update()

    def clear(self) -> None:
        """Forgets what was before now."""
        self.update()
        self.truth, self.states, self.events = self.truth[-1:], [], []

    def place_nm(self, from_ns: float = 0, to_ns: float = float("inf")) -> dict[str, float]:
        """The sample's mean place over a time."""
        seen = [t for t in self.truth if from_ns <= t["time_ns"] <= to_ns]
        return {a: sum(t[f"sample_{a}_nm"] for t in seen) / len(seen) for a in AXES}

    def farthest_nm(self, place_nm: dict[str, float]) -> float:
        """How far the sample was from a place, per axis."""
        return max(abs(t[f"sample_{a}_nm"] - place_nm[a]) for t in self.truth for a in AXES)

    def farthest_beyond_drift_nm(self, place_nm: dict[str, float]) -> float:
        """The same without what the disturbance alone would have done since the record began."""
        worst = 0.0
        for a in AXES:
            start = self.truth[0][f"disturbance_{a}_nm"]
            low = high = place_nm[a]
            for t in self.truth:
                drifted = place_nm[a] + t[f"disturbance_{a}_nm"] - start
                low, high = min(low, drifted), max(high, drifted)
                worst = max(worst, t[f"sample_{a}_nm"] - high, low - t[f"sample_{a}_nm"])
        return worst

    def first_ns(self, condition) -> int:
        """Time of the first truth for which a condition holds."""
        return next(t["time_ns"] for t in self.truth if condition(t))

    def state_ns(self, state: str, reason: str | None = None) -> list[int]:
        """When the lock came into a state."""
        return [e["time_ns"] for e in self.states
                if e["state"] == state and reason in (None, e["reason"])]
