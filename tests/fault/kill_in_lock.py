#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills the daemon at random moments of lock, starts it again with `lock.resume: always`, and judges by the
simulator's truth: does the stage jump, is the state ever corrupt, how soon is it locked again, and where.
Not a test of CI: some 4 s a time, 1.5 s of which the camera takes to notice that its master is dead.

  tests/fault/kill_in_lock.py [--times 200] [--seed 1] [--rate 500] [--driver]   --driver: driftd-stage moves the stage
"""
import argparse
import datetime
import pathlib
import random
import re
import sys
import time
import zlib

from judge import CONFIG, Record

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from lock_rig import LockRig  # noqa: E402

STEP_NM = CONFIG["control"]["step_limit_nm"]
WHEN = re.compile(r"^(\S+ \S+) \w+ (.*)$", re.MULTILINE)


def log_times(text: str) -> dict[str, float]:
    """Wall-clock time of the first line of each event, and of becoming locked."""
    times: dict[str, float] = {}
    for stamp, line in WHEN.findall(text):
        when = datetime.datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f").timestamp()
        times.setdefault(line.partition(":")[0], when)
        if line.startswith("state_changed: locked"):
            times.setdefault("locked", when)
    return times


def problem_of(file: pathlib.Path) -> str:
    """What is wrong with the state file; "" where nothing is."""
    if not file.exists():
        return "no file"
    head, _, body = file.read_bytes().partition(b"\n")
    if head != b"driftd-lock 1 %08x %d" % (zlib.crc32(body), len(body)):
        return f"{head!r} before {len(body)} bytes with {zlib.crc32(body):08x}"
    return ""


def commanded_steps(truth: list[dict]) -> list[float]:
    """The largest step of either axis between any two frames in a row."""
    return [max(abs(b[f"commanded_{a}_nm"] - a_[f"commanded_{a}_nm"]) for a in "xy")
            for a_, b in zip(truth, truth[1:])]


class Trial:
    def __init__(self, rig: LockRig, driver: bool, rate_hz: float):
        self.rig = rig
        self.config = {"camera": {"readout_us": 300, "frame_rate_hz": rate_hz, "start_without_camera": "true"},
                       "stage": CONFIG["stage"], "control": CONFIG["control"], "lock": {"resume": "always"}}
        self.rig.start_world(own_stage=not driver)
        self.file = self.rig.config(**self.config)
        self.rig.start_daemon(self.file)
        if driver:
            self.rig.start_driver()
        self.rig.wait_markers()
        self.rig.client.lock()
        self.rig.wait_state("locked")
        self.record = Record(self.rig)
        self.record.collect(1.5)
        self.record.clear()
        self.place = self.record.collect(1.0).place_nm()
        while self.record.states:  # a busy machine held it meanwhile
            self.rig.wait_state("locked")
            self.record.collect(1.0).clear()
            self.place = self.record.collect(1.0).place_nm()
        self.state = next((self.rig.folder / "state").glob("*.state"))

    def kill(self, after_s: float) -> dict:
        """Locked for so long, then killed, started, and locked again."""
        rig, record = self.rig, self.record
        record.collect(after_s)
        rig.daemon.child.kill()
        rig.daemon.child.wait()
        killed = time.time()
        problem = problem_of(self.state)
        rig.start_daemon(self.file)
        rig.wait_state("locked")
        steps = commanded_steps(record.update().truth)
        times = log_times(rig.daemon.text())
        record.clear()
        record.collect(0.35)  # on its way back, and settled
        steps += commanded_steps(record.truth)
        record.clear()
        place = record.collect(0.3).place_nm()
        steps += commanded_steps(record.truth)
        record.clear()
        held = "state_changed: holding" in rig.daemon.text()  # a busy machine's stale frames
        return {"problem": problem, "held": held, "ignored": "state_ignored" in times, "step_nm": max(steps),
                "off_nm": max(abs(place[a] - self.place[a]) for a in "xy"),
                "camera_s": times["camera_connected"] - killed,
                "seen_s": times["locked"] - times["camera_connected"],
                "locked_s": times["locked"] - killed}


def row(name: str, values: list[float], unit: str) -> str:
    values = sorted(values)
    return (f"| {name} | {values[len(values) // 2]:.2f} | {values[int(0.99 * (len(values) - 1))]:.2f} | "
            f"{values[-1]:.2f} | {unit} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=500, help="frames/s")
    parser.add_argument("--driver", action="store_true")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    rig = LockRig(None, options.rate)
    seen: list[dict] = []
    try:
        trial = Trial(rig, options.driver, options.rate)
        while len(seen) < options.times:
            seen.append(trial.kill(chance.uniform(0, 1.2)))
            print(len(seen), seen[-1], flush=True)
    finally:
        rig.close()
        bad = [s for s in seen if s["problem"] or s["ignored"]]
        print(f"\n{len(seen)} kills, state corrupt or ignored: {len(bad)}, steps above {STEP_NM} nm: "
              f"{sum(s['step_nm'] > STEP_NM + 1e-3 for s in seen)}, not within 2 s of the camera: "
              f"{sum(s['seen_s'] > 2 for s in seen)}, afterwards held for a while (not in the row of "
              f"places): {sum(s['held'] for s in seen)}")
        if seen:
            print("| figure | median | p99 | largest | |\n| --- | --- | --- | --- | --- |")
            print(row("largest step that the stage was told", [s["step_nm"] for s in seen], "nm"))
            print(row("place held afterwards, from the one before all kills",
                      [s["off_nm"] for s in seen if not s["held"]], "nm"))
            print(row("killed to camera connected", [s["camera_s"] for s in seen], "s"))
            print(row("camera connected to locked", [s["seen_s"] for s in seen], "s"))
            print(row("killed to locked", [s["locked_s"] for s in seen], "s"))
    good = not bad and all(s["step_nm"] <= STEP_NM + 1e-3 and s["seen_s"] <= 2 for s in seen)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
