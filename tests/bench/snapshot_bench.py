#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What snapshots cost the lock: latency of each frame's correction without and with somebody who asks for snapshots,
in turns within one run; with --against, of an older driftd in the same run, too.

  /usr/bin/python3 tests/bench/snapshot_bench.py [--side 2048] [--rate 20] [--seconds 4] [--turns 2] [--cpu 1] [--against DRIFTD]
"""
import argparse
import os
import pathlib
import re
import sys
import time

import h5py
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "integration"))
from harness import BIN, SOURCE, Process, Rig, driftd  # noqa: E402


def snapshots(rig: Rig, seconds: float, pause_s: float) -> list[int]:
    """Asks for one each second frame or so; returns which frames came."""
    client, end, ids = driftd.Client(rig.commands, timeout_s=20), time.monotonic() + seconds, []
    while time.monotonic() < end:
        ids.append(client.request("snapshot")[0]["frame"]["frame_id"])
        time.sleep(pause_s)
    return ids


def turn(options, program: pathlib.Path) -> dict[str, numpy.ndarray]:
    """Latencies, us, of one lock of one driftd: without snapshots, then with them."""
    scenario = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
    scenario = re.sub(r"(width|height)_px: *\d+", rf"\1_px: {options.side}", scenario)
    with Rig() as rig:
        rig.start_sim(scenario, rate_hz=options.rate)
        config = rig.config(camera={"frame_rate_hz": options.rate, "stall_timeout_ms": 5000},
                            lock={"max_frame_age_ms": 2000, "reference_frames": 20, "reference_timeout_s": 60},
                            realtime={"loop_cpu": options.cpu, "stream_cpu": options.cpu} if options.cpu >= 0 else {},
                            record={"directory": rig.folder / "records", "keep_free_mb": 1})
        rig.daemon = rig.enter_context(Process("driftd", [program, "--config", config], rig.folder))
        rig.daemon.wait_for("publishing on")
        rig.wait_until(lambda s: s["markers"]["used"], "markers")
        rig.client.request("lock")
        rig.wait_state("locked")
        record = rig.client.request("record", start=True)[0]["record"]["file"]
        rig.wait_until(lambda s: s["record"]["frames"] > options.seconds * options.rate, "frames without")
        begin_ns = time.monotonic_ns()
        copied = snapshots(rig, options.seconds, 1 / options.rate)
        rig.client.request("record", stop=True)
        with h5py.File(record) as file:
            frames = file["frames"][:]
    frames = frames[frames["sent_ns"] > 0]
    latency_us = (frames["sent_ns"] - frames["arrival_ns"]) / 1e3
    asked = frames["arrival_ns"] > begin_ns
    return {"without snapshots": latency_us[~asked],
            "of a frame that is copied": latency_us[asked & numpy.isin(frames["frame_id"], copied)],
            "of the frame after it": latency_us[asked & numpy.isin(frames["frame_id"] - 1, copied)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--side", type=int, default=2048, help="px of the image")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--cpu", type=int, default=-1, help="of camera, loop and publisher; -1: any")
    parser.add_argument("--against", type=pathlib.Path)
    options = parser.parse_args()
    programs = {"now": BIN / "driftd"}
    if options.against:
        programs = {"before": options.against} | programs
    found = {name: [] for name in programs}
    for _ in range(options.turns):
        for name, program in programs.items():
            found[name].append(turn(options, program))
    print(f"{options.side} px, {options.rate:g} frames/s, load {os.getloadavg()[0]:.1f}")
    for name, all_turns in found.items():
        for what in all_turns[0]:
            latency_us = numpy.concatenate([one[what] for one in all_turns])
            if len(latency_us) > 0:
                print(f"{name}, {what}: {len(latency_us)} frames, p50 / p99 "
                      + " / ".join(f"{q:.0f}" for q in numpy.percentile(latency_us, [50, 99])) + " us")


if __name__ == "__main__":
    main()
