# SPDX-License-Identifier: MIT
"""What driftfit --every-spot takes by Slurm, against one run of one thread: a munged, slurmctld and slurmd of this
computer, a node of two processors (as tests/integration/test_slurm.py has it; as root). Processor seconds are those of
every shard and the merge, with the shells that start them, and of the daemons.

  DRIFTFIT=build/release/bin/driftfit /usr/bin/python3 tests/bench/slurm_bench.py [--gigabytes 2.6] [--shards 8]
      [--folder DIR]
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "unit/tools/driftfit")]
from test_slurm import PROGRAM, Slurm  # noqa: E402

from every_spot_bench import SIDE, movie  # noqa: E402
from scale_bench import call_of, driftfit, same  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def daemons_cpu(slurm: Slurm) -> float:
    """Of the daemons and what they have waited for."""
    stats = [pathlib.Path(f"/proc/{daemon.pid}/stat").read_text().rsplit(")", 1)[1].split() for daemon in slurm.daemons]
    return sum(int(field) for stat in stats for field in stat[11:15]) / TICKS


def shells_cpu(file: pathlib.Path) -> float:
    """Of what `times` has said: a shell's own, then its children's, user and system."""
    return sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", file.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.6)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    program = pathlib.Path(PROGRAM).resolve()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        stack, one, out = folder / "movie.raw", folder / "one", folder / "out"
        movie(round(options.gigabytes * 1e9 / (2 * SIDE * SIDE)), stack)
        alone = driftfit(program, *call_of(stack, one, "--threads", 1))
        print(f"one run, one thread: {alone['s']:.1f} s, {alone['cpu_s']:.2f} processor seconds", flush=True)
        wrapped, times = folder / "wrapped", folder / "times"
        wrapped.write_text(f'#!/bin/sh\n{program} "$@"\ncode=$?\ntimes >>{times}\nexit $code\n')
        wrapped.chmod(0o755)
        slurm = Slurm(folder / "slurm")
        try:
            driftfit(program, "slurm", "--shards", options.shards, *call_of(stack, out))
            script = pathlib.Path(f"{out}_slurm.sh")
            script.write_text(script.read_text().replace(str(program), str(wrapped)))
            before, begin = daemons_cpu(slurm), time.perf_counter()
            slurm.run("sh", str(script))
            slurm.wait(lambda: not slurm.run("squeue", "-h"), "jobs do not end", 1200)
            took, daemons = time.perf_counter() - begin, daemons_cpu(slurm) - before
        finally:
            slurm.stop()
        print(pathlib.Path(f"{out}_slurm-merge.log").read_text(), end="")
        work = shells_cpu(times)
        print(f"{options.shards} shards and their merge by Slurm on two processors: {took:.1f} s, {work:.2f} processor "
              f"seconds, Slurm's daemons {daemons:.2f}: {100 * ((work + daemons) / alone['cpu_s'] - 1):.1f} % more; "
              f"the same files: {same(out, one)}")


if __name__ == "__main__":
    main()
