# SPDX-License-Identifier: MIT
"""How many spots of a dense recording driftfit finds, fits and writes in a second: molecules drawn here.

  /usr/bin/python3 tests/bench/every_spot_bench.py [--frames 1500] [--against DRIFTFIT] [--json FILE]

With --against another build's driftfit in turn, and the ratio of the times.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np

SIDE, SPOTS, DRAWN = 512, 500, 100  # frames drawn, and then repeated
REPEATS = 5


def movie(frames: int, path: pathlib.Path) -> None:
    random = np.random.default_rng(1)
    y, x = np.mgrid[:SIDE, :SIDE]
    drawn = np.empty((min(DRAWN, frames), SIDE, SIDE), np.uint16)
    for frame in drawn:
        expected = np.full((SIDE, SIDE), 10.0)
        for x0, y0 in random.uniform(8, SIDE - 8, (SPOTS, 2)):
            near = slice(int(y0) - 6, int(y0) + 7), slice(int(x0) - 6, int(x0) + 7)
            expected[near] += 300 * np.exp(-((x[near] - x0) ** 2 + (y[near] - y0) ** 2) / (2 * 1.15**2))
        frame[:] = random.poisson(expected) + 100
    with path.open("wb") as file:
        for first in range(0, frames, len(drawn)):
            drawn[:frames - first].tofile(file)


def run(program: pathlib.Path, stack: pathlib.Path) -> tuple[float, int]:
    """Seconds, and spots found."""
    begin = time.perf_counter()
    said = subprocess.run(
        [program, stack, "--width", str(SIDE), "--height", str(SIDE), "--type", "u16", "--every-spot", "--gain", "1",
         "--offset", "100", "--overwrite", "-o", stack.with_suffix("")], check=True, capture_output=True, text=True).stdout
    return time.perf_counter() - begin, int(re.search(r"(\d+) spots found", said)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1500)
    parser.add_argument("--against", type=pathlib.Path, help="another driftfit")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    here = pathlib.Path(os.environ.get("DRIFTD_BIN", "build/release/bin")) / "driftfit"
    programs = {"this": here} | ({"against": options.against} if options.against else {})
    seconds = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        stack = pathlib.Path(folder) / "movie.raw"
        movie(options.frames, stack)
        for _ in range(REPEATS):
            for name, program in programs.items():
                took, spots = run(program, stack)
                seconds[name].append(took)
    report = {name: {"median_s": statistics.median(s), "spots_per_s": round(spots / statistics.median(s))}
              for name, s in seconds.items()}
    for name, of in report.items():
        print(f"{name:8} {of['median_s']:6.2f} s   {of['spots_per_s']:8} spots/s of {options.frames} frames")
    if options.against:
        report["ratio"] = report["against"]["median_s"] / report["this"]["median_s"]
        print(f"{report['ratio']:.2f} times as fast")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
