#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What keeping raw frames costs the lock: latency with and without, in turns within one run (the option is
switched by a reload), and while a file is being saved. Simulator and daemon of the release build.

  /usr/bin/python3 tests/bench/raw_frames_bench.py [--seconds 5] [--turns 5] [--side 512] [--rate 500]
"""
import argparse
import os
import pathlib
import re
import signal
import sys
import time

import h5py
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "integration"))
from harness import SOURCE, Rig  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--side", type=int, default=256, help="px of the image")
    parser.add_argument("--rate", type=float, default=500)
    options = parser.parse_args()
    scenario = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
    scenario = re.sub(r"(width|height)_px: *\d+", rf"\1_px: {options.side}", scenario)
    with Rig() as rig:
        def configure(before_s: float) -> pathlib.Path:
            return rig.config(
                camera={"frame_rate_hz": options.rate},
                record={"directory": rig.folder / "records", "keep_free_mb": 1, "frames_memory_mb": 4000,
                        "frames_before_s": before_s})
        rig.start_sim(scenario, rate_hz=options.rate)
        rig.start_daemon(configure(3))
        rig.wait_until(lambda s: s["markers"]["used"], "markers")
        rig.client.request("lock")
        rig.wait_state("locked")
        record = rig.client.request("record", start=True)[0]["record"]["file"]
        spans = {"without": [], "with": [], "while saving": []}
        for _ in range(options.turns):
            for name, before_s in (("without", 0), ("with", 3)):
                configure(before_s)
                rig.daemon.child.send_signal(signal.SIGHUP)
                rig.wait_until(lambda s, on=before_s > 0: s["raw_frames"]["kept"] == on, "reloaded")
                begin_ns = time.monotonic_ns()
                time.sleep(options.seconds)
                spans[name].append((begin_ns, time.monotonic_ns()))
        begin_ns = time.monotonic_ns()
        rig.client.request("record", frames=True)
        raw = rig.wait_until(lambda s: s["raw_frames"]["files"] == 1, "saved")["raw_frames"]
        spans["while saving"].append((begin_ns, time.monotonic_ns()))
        rig.client.request("record", stop=True)
        with h5py.File(record) as file:
            frames = file["frames"][:]
    frames = frames[frames["sent_ns"] > 0]
    print(f"{options.side} px, {raw['memory_bytes'] / 1e6:.0f} MB of memory, not kept {raw['not_kept']}, "
          f"load {os.getloadavg()[0]:.1f}")
    quantiles = {}
    for name, times in spans.items():
        chosen = numpy.concatenate([frames[(frames["arrival_ns"] > begin) & (frames["arrival_ns"] < end)]
                                    for begin, end in times])
        latency_us = (chosen["sent_ns"] - chosen["arrival_ns"]) / 1e3
        quantiles[name] = numpy.percentile(latency_us, [50, 99])
        seconds = sum(end - begin for begin, end in times) / 1e9
        print(f"{name}: {len(chosen)} frames at {len(chosen) / seconds:.0f}/s, p50 / p99 "
              + " / ".join(f"{q:.0f}" for q in quantiles[name]) + " us")
    print("with over without: p50 {:.3f}, p99 {:.3f}".format(*quantiles["with"] / quantiles["without"]))


if __name__ == "__main__":
    main()
