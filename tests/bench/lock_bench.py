#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The closed loop over the simulator: latency, lost frames and the true residual over many frames.

The simulator images 16 markers in 256x256 pixels at 500 frames/s (config/examples/scenario-demo.yaml)
and sends them as GigE Vision packets over loopback; the daemon locks with 13x13 ROIs and its
corrections move the simulated stage. Everything is from the daemon's status and the simulator's truth.
"""
import argparse
import array
import bisect
import json
import math
import os
import pathlib
import statistics
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/integration"), str(SOURCE / "tests/fault")]
import harness  # noqa: E402
import judge  # noqa: E402

SETTLING_S = 5


def load() -> float:
    return os.getloadavg()[0]


def timer_lateness_us(seconds: float) -> dict:
    """How late this machine wakes an ordinary sleeper with nothing running: the floor of any tail."""
    late = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        due = time.monotonic_ns() + 1_000_000
        time.sleep(0.001)
        late.append((time.monotonic_ns() - due) / 1000)
    late.sort()
    return {"p50": late[len(late) // 2], "p99": late[int(0.99 * len(late))],
            "p99_9": late[int(0.999 * len(late))], "max": late[-1], "n": len(late)}


class Corrections:
    """Every correction and state that the daemon tells, and what is wrong with any of them."""

    def __init__(self, rig: harness.Rig, status: dict, limits_nm: dict):
        self._subscription = rig.subscribe("correction", "event")
        self._limits_nm = limits_nm
        self._changes = [(status["state_since_ns"], status["state"] == "locked")]
        self._sent: list[tuple[int, int]] = []  # when, and of which frame
        self.count = 0
        self.wrong: list[str] = []
        self.states: list[str] = []

    def read(self) -> None:
        for topic, message in harness.drain(self._subscription, 0):
            if topic == "correction":
                self._check(message)
            elif message["code"] == "state_changed":
                self._changes.append((message["since_ns"], message["state"] == "locked"))
                self.states.append(message["text"])

    def _check(self, c: dict) -> None:
        self.count += 1
        numbers = [c[f"{kind}_{axis}_nm"] for kind in ("total", "delta") for axis in "xy"]
        if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in numbers):
            self.wrong.append(f"not finite: {c}")
        elif max(map(abs, numbers[:2])) > self._limits_nm["range"] + 0.01:
            self.wrong.append(f"beyond the range: {c}")
        elif max(map(abs, numbers[2:])) > self._limits_nm["step"] + 0.01:
            self.wrong.append(f"beyond the step: {c}")
        if c["sent_ns"] > c["expires_ns"]:
            self.wrong.append(f"expired when sent: {c}")
        if not c["probe"]:
            self._sent.append((c["sent_ns"], c["frame_id"]))

    def unlocked(self) -> list[str]:
        """The corrections that left while the state was not `locked`."""
        begins = [since_ns for since_ns, _ in self._changes]
        return [f"the correction of frame {frame_id} left while not locked"
                for sent_ns, frame_id in self._sent
                if not self._changes[bisect.bisect_right(begins, sent_ns) - 1][1]]

    def locked_share(self, begin_ns: int, end_ns: int) -> float:
        locked_ns = 0
        ends = [since_ns for since_ns, _ in self._changes[1:]] + [end_ns]
        for (since_ns, locked), until_ns in zip(self._changes, ends):
            if locked:
                locked_ns += max(0, min(until_ns, end_ns) - max(since_ns, begin_ns))
        return locked_ns / (end_ns - begin_ns)


def measure(frames: int, scenario: pathlib.Path | str | None, settings: dict) -> dict:
    result = {"frames_wanted": frames, "cores": os.cpu_count(), "load_before": load(),
              "settings": settings, "idle_timer_lateness_us": timer_lateness_us(5)}
    control = settings.get("control", {})
    limits_nm = {"range": float(control.get("range_limit_nm", 5000)),
                 "step": float(control.get("step_limit_nm", 20))}
    seen = {f"{what}_{axis}_nm": array.array("d") for what in ("sample", "disturbance") for axis in "xy"}
    counts = array.array("q")
    with harness.Rig() as rig:
        rig.start_locked(scenario, **settings)
        time.sleep(SETTLING_S)
        before = rig.status()
        corrections = Corrections(rig, before, limits_nm)
        truth = rig.truth()
        status = before
        while status["camera"]["frames"] - before["camera"]["frames"] < frames:
            time.sleep(0.5)
            for t in truth.drain():
                counts.append(t["frame_count"])
                for name, values in seen.items():
                    values.append(t[name])
            corrections.read()
            status = rig.status()
            if status["state"] in ("lost", "fault"):
                raise SystemExit(f"lock_bench: the lock is {status['state']}: {status['reason']}")
    begin_ns, end_ns = before["time_ns"], status["time_ns"]
    result["frames"] = status["camera"]["frames"] - before["camera"]["frames"]
    result["seconds"] = (end_ns - begin_ns) / 1e9
    result["rate_hz"] = result["frames"] / result["seconds"]
    result["frames_simulated"] = counts[-1] - counts[0] + 1
    for name in ("lost", "incomplete", "superseded", "underruns", "missing_packets",
                 "resent_packets"):
        result[name] = status["camera"][name] - before["camera"][name]
    for name in ("stale", "withheld", "expired", "refused", "queue_dropped"):
        result[name] = status["loop"][name] - before["loop"][name]
    result["corrections_seen"] = corrections.count
    result["corrections_wrong"] = corrections.wrong + corrections.unlocked()
    result["states"] = corrections.states
    result["locked_share"] = corrections.locked_share(begin_ns, end_ns)
    result["camera_clock"] = status["camera"]["clock"]
    result["residual_rms_nm"] = {a: harness.rms(seen[f"sample_{a}_nm"]) for a in "xy"}
    result["residual_max_nm"] = {a: largest(seen[f"sample_{a}_nm"]) for a in "xy"}
    result["minutes_mean_nm"] = {a: minutes_mean(seen[f"sample_{a}_nm"], result["rate_hz"]) for a in "xy"}
    result["unlocked_rms_nm"] = {a: harness.rms(seen[f"disturbance_{a}_nm"]) for a in "xy"}
    result["latency_us"] = status["latency_us"]  # since the start of the daemon
    result["fitter"] = status["fitter"]
    result["realtime"] = status["realtime"]
    result["markers"] = status["markers"]
    return result


def largest(values: array.array) -> float:
    """The largest distance from the median."""
    middle = statistics.median(values)
    return max(abs(v - middle) for v in values)


def minutes_mean(values: array.array, rate_hz: float) -> list[float]:
    """The mean of each minute: what the lock does not see moves it."""
    minute = max(1, round(60 * rate_hz))
    return [statistics.fmean(values[i:i + minute]) for i in range(0, len(values), minute)]


def show(r: dict) -> None:
    print(f"{r['frames']} frames at {r['rate_hz']:.1f} Hz, {r['lost']} lost, {r['superseded']} "
          f"superseded, {r['stale']} stale; {r['fitter']['description']}, {r['cores']} cores, "
          f"load before {r['load_before']:.1f}")
    print(f"{'us':>22}{'p50':>9}{'p99':>9}{'p99.9':>9}{'max':>9}")
    rows = [("idle timer, late by", r["idle_timer_lateness_us"])]
    rows += [("frame to correction" if k == "total" else k, v) for k, v in r["latency_us"].items()]
    for name, v in rows:
        print(f"{name:>22}{v['p50']:9.1f}{v['p99']:9.1f}{v['p99_9']:9.1f}{v['max']:9.1f}")
    for axis in "xy":
        print(f"{axis}: true residual {r['residual_rms_nm'][axis]:.2f} nm rms, unlocked over the "
              f"same time {r['unlocked_rms_nm'][axis]:.1f} nm; at most {r['residual_max_nm'][axis]:.2f} nm "
              f"off, means of minutes {min(r['minutes_mean_nm'][axis]):.2f} to "
              f"{max(r['minutes_mean_nm'][axis]):.2f} nm")
    print(f"{r['corrections_seen']} corrections seen, {len(r['corrections_wrong'])} of them wrong; locked "
          f"{100 * r['locked_share']:.3f} % of {r['seconds']:.0f} s")
    for line in r["corrections_wrong"][:5] + r["states"][:20]:
        print(f"  {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500, help="frames/s asked for; with more than "
                        "1000 shorten camera.exposure_us")
    parser.add_argument("--scenario", type=pathlib.Path, help="another world than the demo's, e.g. "
                        "config/examples/scenario-harsh.yaml")
    parser.add_argument("--shaken", action="store_true", help="the demo's world on a table that shakes")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="an option of the daemon, e.g. realtime.loop_cpu=1")
    parser.add_argument("--json", type=pathlib.Path, help="write the result here, too")
    arguments = parser.parse_args()
    settings = {"realtime": {"loop_cpu": 1, "stream_cpu": 1}}  # as config/examples/simulator.yaml
    for option in arguments.set:
        key, _, value = option.partition("=")
        section, _, name = key.partition(".")
        settings.setdefault(section, {})[name] = value
    harness.SLOW = 500 / arguments.rate
    scenario = judge.shaken(judge.DEMO) if arguments.shaken else arguments.scenario
    result = measure(arguments.frames, scenario, settings)
    show(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
