#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The closed loop over the simulator: latency, lost frames and the true residual over many frames.

The simulator images 16 markers in 256x256 pixels at 500 frames/s (config/examples/scenario-demo.yaml)
and sends them as GigE Vision packets over loopback; the daemon locks with 13x13 ROIs and its
corrections move the simulated stage. Everything is from the daemon's status and the simulator's truth.
"""
import argparse
import json
import os
import pathlib
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/integration"))
import harness  # noqa: E402

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


def measure(frames: int, scenario: pathlib.Path | None, settings: dict) -> dict:
    result = {"frames_wanted": frames, "cores": os.cpu_count(), "load_before": load(),
              "settings": settings, "idle_timer_lateness_us": timer_lateness_us(5)}
    with harness.Rig() as rig:
        rig.start_locked(scenario, **settings)
        time.sleep(SETTLING_S)
        before = rig.status()
        truth = rig.truth()
        seen = []
        status = before
        while status["camera"]["frames"] - before["camera"]["frames"] < frames:
            time.sleep(0.5)
            seen += truth.drain()
            status = rig.status()
            if status["state"] != "locked":
                raise SystemExit(f"lock_bench: the lock is {status['state']}: {status['reason']}")
        seen += truth.drain()
    spent_s = (status["time_ns"] - before["time_ns"]) / 1e9
    result["frames"] = status["camera"]["frames"] - before["camera"]["frames"]
    result["rate_hz"] = result["frames"] / spent_s
    result["frames_simulated"] = seen[-1]["frame_count"] - seen[0]["frame_count"] + 1
    for name in ("lost", "incomplete", "superseded", "underruns", "missing_packets",
                 "resent_packets"):
        result[name] = status["camera"][name] - before["camera"][name]
    for name in ("stale", "withheld", "queue_dropped"):
        result[name] = status["loop"][name] - before["loop"][name]
    result["residual_rms_nm"] = {a: harness.rms([t[f"sample_{a}_nm"] for t in seen]) for a in "xy"}
    result["unlocked_rms_nm"] = {a: harness.rms([t[f"disturbance_{a}_nm"] for t in seen]) for a in "xy"}
    result["latency_us"] = status["latency_us"]  # since the start of the daemon
    result["fitter"] = status["fitter"]
    result["realtime"] = status["realtime"]
    result["markers"] = status["markers"]
    return result


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
              f"same time {r['unlocked_rms_nm'][axis]:.1f} nm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500, help="frames/s asked for; with more than "
                        "1000 shorten camera.exposure_us")
    parser.add_argument("--scenario", type=pathlib.Path, help="another world than the demo's, e.g. "
                        "config/examples/scenario-harsh.yaml")
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
    result = measure(arguments.frames, arguments.scenario, settings)
    show(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
