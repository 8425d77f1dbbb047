#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures, fault by fault, how soon the lock holds and is back, for docs/measured/faults.md.

    DRIFTD_BIN=build/release/bin tests/fault/recovery_times.py

Prints a line for each fault: when the lock held, for what, when it was locked again (both from the moment the
fault began), and how far the sample was off at most in that time, by the simulator's truth.
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import Rig, drain  # noqa: E402

LIMITS = {"step_limit_nm": 20, "rate_limit_nm_per_s": 2000, "range_limit_nm": 5000}
# What it is called, the simulator's command with its fields, and what the daemon's configuration adds.
FAULTS = [
    ("camera away for 2 s", ("vanish", {"seconds": 2}), {}),
    ("markers hidden for 1 s", ("hide_markers", {"seconds": 1}), {}),
    ("a fifth of the frames lost, 2 s", ("drop_frames", {"share": 0.2, "seconds": 2}), {}),
    ("a fifth of the frames corrupted, 2 s", ("corrupt_frames", {"share": 0.2, "seconds": 2}), {}),
    ("a step of 40 nm", ("step", {"x_nm": 40, "y_nm": 0}), {"lock": {"max_jump_nm": 100}}),
    ("a jump of 150 nm, not to be followed", ("step", {"x_nm": 150, "y_nm": 0}),
     {"lock": {"max_jump_nm": 50, "hold_timeout_s": 1}}),
    ("a jump of 3 um, out of all ROIs", ("step", {"x_nm": 2500, "y_nm": -1800}),
     {"lock": {"max_jump_nm": 4000}}),
    ("beyond a range of 50 nm", ("step", {"x_nm": 70, "y_nm": 0}),
     {"control": {"range_limit_nm": 50}, "lock": {"hold_timeout_s": 2}}),
]


def measure(name, fault, config):
    command, fields = fault
    with Rig() as rig:
        config = {**config, "control": {**LIMITS, **config.get("control", {})}}
        rig.start_locked(**config)
        events = rig.subscribe("event")
        truth = rig.truth()
        time.sleep(2)
        drain(events, 0)
        before = truth.drain()[-500:]
        zero = [sum(t[f"sample_{a}_nm"] for t in before) / len(before) for a in "xy"]
        begin = time.monotonic()
        rig.fault(command, **fields)
        said, end = [], begin + 6
        while time.monotonic() < end:
            try:
                _, event = events.receive(0.1)
            except TimeoutError:
                continue
            if event["code"] == "state_changed":
                said.append((time.monotonic() - begin, event["state"], event["reason"]))
        off = [max(abs(t[f"sample_{a}_nm"] - z) for a, z in zip("xy", zero)) for t in truth.drain()]
        back = next((i for i in range(len(off)) if max(off[i:]) < 5), None)
        words = "; ".join(f"{state} ({reason}) after {at:.2f} s" for at, state, reason in said)
        settled = f"within 5 nm from {back / 500:.2f} s on" if back is not None else "not back"
        print(f"{name}: {words or 'locked all the time'}; at most {max(off):.1f} nm off, {settled}", flush=True)


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for row in FAULTS:
        if not wanted or any(w in row[0] for w in wanted):
            measure(*row)
