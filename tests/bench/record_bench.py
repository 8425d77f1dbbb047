#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a record costs: bytes, CPU time of the recorder's thread, and the lock's latency with and without, in
turns within one run. Simulator and daemon of the release build, 500 frames/s, 16 markers.

  /usr/bin/python3 tests/bench/record_bench.py [--seconds 20] [--turns 4]
"""
import argparse
import contextlib
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "integration"))
from harness import Rig  # noqa: E402


def thread_seconds(pid: int, name: str) -> float:
    """CPU time of the process's threads of that name."""
    ticks = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def percentile(values: list, share: float) -> float:
    return values[min(len(values) - 1, round(share * (len(values) - 1)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--turns", type=int, default=4)
    options = parser.parse_args()
    with Rig() as rig:
        rig.start_sim()
        rig.start_daemon(rig.config(record={"directory": rig.folder / "records", "keep_free_mb": 1}))
        rig.wait_until(lambda s: s["markers"]["used"], "markers")
        rig.client.request("lock")
        rig.wait_state("locked")
        corrections = rig.subscribe("correction")
        latency_us = {True: [], False: []}
        seconds = recorded_bytes = recorded_frames = cpu_s = 0
        for _ in range(options.turns):
            for record in (False, True):
                if rig.status()["state"] != "locked":  # a busy machine may end it
                    rig.client.request("unlock")
                    rig.wait_until(lambda s: s["camera"]["connected"] and s["markers"]["used"], "frames")
                    rig.client.request("lock")
                    rig.wait_state("locked")
                if record:
                    rig.client.request("record", start=True)
                    before_s = thread_seconds(rig.daemon.child.pid, "driftd-record")
                begin_s = time.monotonic()
                while time.monotonic() < begin_s + options.seconds:
                    with contextlib.suppress(TimeoutError):
                        message = corrections.receive(1)[1]
                        latency_us[record].append((message["sent_ns"] - message["arrival_ns"]) / 1e3)
                if record:
                    said = rig.client.request("record", stop=True)[0]["record"]
                    cpu_s += thread_seconds(rig.daemon.child.pid, "driftd-record") - before_s
                    seconds += time.monotonic() - begin_s
                    recorded_bytes += said["bytes"]
                    recorded_frames += said["frames"]
        status = rig.status()
        print(f"recorded {recorded_frames} frames in {seconds:.0f} s: {recorded_bytes / seconds / 1e3:.0f} kB/s, "
              f"{recorded_bytes / recorded_frames:.0f} bytes a frame; recorder's CPU {100 * cpu_s / seconds:.2f} %; "
              f"not recorded {status['record']['not_recorded']}; load {os.getloadavg()[0]:.1f}")
        for record, values in latency_us.items():
            values.sort()
            print(f"{'with' if record else 'without'} a record: {len(values)} corrections, latency p50 / p99 / p99.9 "
                  + " / ".join(f"{percentile(values, share):.0f}" for share in (0.5, 0.99, 0.999)) + " us")


if __name__ == "__main__":
    main()
