#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What z costs the whole way of a frame, from its arrival to the correction that has left: driftd and driftd-sim by
loopback with config/examples/three-axes.yaml, locked flat by each estimator, with z seen and with z held, in turn.
Prints medians of the locks' p50 and p99, in us; a lock that is not held ends it.

    tests/bench/axial_latency_bench.py --bin build/release/bin --backends cpu,cuda
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "config/examples"
PARTS = ("total", "cut", "fit", "control", "publish")


def configurations(rate_hz: int) -> dict:
    z = (EXAMPLES / "three-axes.yaml").read_text().replace("frame_rate_hz: 250", f"frame_rate_hz: {rate_hz}")
    flat = z[:z.index("axial:")] + z[z.index("realtime:"):]
    return {"flat, least squares": (flat, "least_squares"), "flat, likelihood": (flat, "poisson"),
            "z seen": (z.replace("hold: true", "hold: false"), "poisson"), "z held": (z, "poisson")}


def measure(program, text: str, estimator: str, backend: str, address: str, options) -> dict:
    """@returns status.latency_us of one lock"""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "curves").symlink_to(EXAMPLES / "curves")
        publish, corrections, commands = (f"ipc://{folder}/{end}" for end in ("publish", "corrections", "commands"))
        (folder / "driftd.yaml").write_text(
            text.replace("id: 127.0.0.1", f"id: {address}") +
            f"\nfitter: {{backend: {backend}, estimator: {estimator}}}\n"
            f"wire: {{publish: '{publish}', corrections: '{corrections}', commands: '{commands}'}}\n")
        control = [*program("driftctl"), "--commands", commands, "--publish", publish]
        with open(folder / "log", "w") as log:
            sim = subprocess.Popen([*program("driftd-sim"), "--scenario", str(EXAMPLES / "scenario-three-axes.yaml"),
                                    "--address", address, "--stage", corrections, "--rate", str(options.rate)],
                                   stdout=log, stderr=log)
            time.sleep(1)
            daemon = subprocess.Popen([*program("driftd"), "--config", str(folder / "driftd.yaml")], stdout=log, stderr=log,
                                      env={**os.environ, "STATE_DIRECTORY": name})
            try:
                end_s = time.monotonic() + 30
                while subprocess.run([*control, "lock", "--wait"], stdout=log, stderr=log).returncode != 0:
                    if time.monotonic() > end_s:
                        sys.exit(f"no lock:\n{(folder / 'log').read_text()[-2000:]}")
                    time.sleep(0.5)
                time.sleep(options.seconds)
                status = json.loads(subprocess.run([*control, "--json", "status"], capture_output=True, check=True).stdout)
            finally:
                for process in (daemon, sim):
                    process.terminate()
                    process.wait()
        if status["state"] != "locked" or backend not in status["fitter"]["description"]:
            sys.exit(f"{status['state']}, {status['fitter']['description']}, wanted {backend}")
        return status["latency_us"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--backends", default="cpu", help="cpu, cuda or both with a comma between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="of each lock")
    parser.add_argument("--rate", type=int, default=500, help="frames/s")
    parser.add_argument("--loader", nargs="*", default=[], help="words before each program, as a loader with its libraries")
    options = parser.parse_args()

    def program(name: str) -> list:
        return [*options.loader, str(options.bin / name)]

    seen, locks = {}, 0
    for _ in range(options.rounds):
        for backend in options.backends.split(","):
            for kind, (text, estimator) in configurations(options.rate).items():
                locks += 1
                latency = measure(program, text, estimator, backend, f"127.0.7.{locks}", options)
                seen.setdefault((kind, backend), []).append(latency)
    print(f"| p50, p99 us of {options.rounds} locks | {' | '.join(PARTS)} |\n| --- |{' --- |' * len(PARTS)}")
    for (kind, backend), latencies in seen.items():
        columns = (", ".join(f"{statistics.median(one[part][p] for one in latencies):.0f}" for p in ("p50", "p99"))
                   for part in PARTS)
        print(f"| {kind}, {backend} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
