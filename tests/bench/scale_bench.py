# SPDX-License-Identifier: MIT
"""What driftfit --every-spot takes for stacks of several sizes: one run, shards by 1, 2 and 4 workers of one core each
with their merge, and with --gpu runs and shards whose search and fits are a GPU's. Says wall time, processor seconds,
and whether the files are those of one run.

  /usr/bin/python3 tests/bench/scale_bench.py [--gigabytes 0.5,2.6] [--workers 1,2,4] [--gpu] [--before DRIFTFIT]
      [--folder DIR] [--json FILE]

Wants as many free cores as workers, and room for three times the largest stack in DIR (/dev/shm: no disk in it).
--before: another build, as a third way to use the GPU. DRIFTD_BIN says where driftfit is.
"""
import argparse
import filecmp
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time

import numpy as np

from every_spot_bench import SIDE, movie

OUTPUTS = "thunderstorm.csv", "locs.hdf5", "locs.yaml"


def driftfit(program: pathlib.Path, *arguments, core: int | None = None) -> dict:
    """A run, as a whole: its times, and what it said."""
    begin = time.perf_counter()
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    child = subprocess.Popen([*pinned, program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{program} {arguments}: {child.returncode}")
    return {"s": time.perf_counter() - begin, "cpu_s": used.ru_utime + used.ru_stime, "said": said}


def call_of(stack: pathlib.Path, out: pathlib.Path, *more) -> list:
    return [stack, "--width", SIDE, "--height", SIDE, "--type", "u16", "--every-spot", "--gain", 1, "--offset", 100,
            "--no-progress", "-o", out, *more]


def by_workers(program: pathlib.Path, call: list, out: pathlib.Path, workers: int, cores: list[int]) -> dict:
    """Four shards a worker, each worker on a core of its own, and the merge."""
    shards = 4 * workers
    left, done, lock = list(range(1, shards + 1)), [], threading.Lock()

    def work(core: int) -> None:
        while True:
            with lock:
                if not left:
                    return
                shard = left.pop(0)
            done.append(driftfit(program, *call, "--shard", f"{shard}/{shards}", "--threads", 1, core=core))

    begin = time.perf_counter()
    threads = [threading.Thread(target=work, args=(cores[i],)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) != shards:
        raise RuntimeError(f"{len(done)} of {shards} shards were done")
    merge = driftfit(program, "merge", "-o", out)
    return {"s": time.perf_counter() - begin, "cpu_s": sum(one["cpu_s"] for one in done) + merge["cpu_s"],
            "merge_s": merge["s"]}


def same(one: pathlib.Path, other: pathlib.Path) -> bool:
    return all(filecmp.cmp(f"{one}_{name}", f"{other}_{name}", shallow=False) for name in OUTPUTS)


def rows(out: pathlib.Path) -> np.ndarray:
    import h5py
    with h5py.File(f"{out}_locs.hdf5") as file:
        return file["locs"][:]


def against(found: np.ndarray, expected: np.ndarray) -> str:
    """How far localizations are from others, which may lack some."""
    ways = [{(row["frame"], row["net_gradient"].tobytes()): i for i, row in enumerate(table)} for table in (found, expected)]
    both = ways[0].keys() & ways[1].keys()
    a, b = found[[ways[0][k] for k in both]], expected[[ways[1][k] for k in both]]
    sds = [np.abs(a[axis].astype(float) - b[axis]) / b[f"lp{axis}"] for axis in "xy"]
    return (f"{len(found)} rows, {len(expected)} by the CPU, {len(both)} of the same frame and net gradient; x, y differ by "
            f"at most {max(s.max() for s in sds):.2g} of their standard deviations")


def remove(out: pathlib.Path) -> None:
    for file in out.parent.glob(out.name + "_*"):
        file.unlink()


def measure(programs: dict, stack: pathlib.Path, options, cores: list[int], tell) -> None:
    folder, this = stack.parent, programs["this"]
    one = folder / "one"
    tell("one run, one thread", driftfit(this, *call_of(stack, one, "--threads", 1, "--backend", "cpu")))
    for workers in options.workers:
        if workers > len(cores):
            continue
        out = folder / "shards"
        result = by_workers(this, call_of(stack, out, "--backend", "cpu"), out, workers, cores)
        tell(f"{workers} workers of one core, {4 * workers} shards", result | {"same": same(out, one)})
        remove(out)
    if not options.gpu:
        return
    ways = {"CPU": (this, "cpu")} | ({"CUDA before": (programs["before"], "cuda")} if "before" in programs else {}) | {
        "CUDA": (this, "cuda")}
    for threads in sorted({min(n, len(cores)) for n in (1, 4, len(cores))}):
        for turn in range(options.turns):
            for name, (program, back_end) in ways.items():
                out = folder / name.replace(" ", "-")
                remove(out)
                tell(f"{name}, {threads} threads, turn {turn + 1}",
                     driftfit(program, *call_of(stack, out, "--threads", threads, "--backend", back_end)))
    expected, cuda = rows(one), folder / "CUDA"
    for name in ways:
        tell(f"{name}: rows", {"said": against(rows(folder / name.replace(" ", "-")), expected)})
    for workers in (1, 2):
        out = folder / "shards"
        result = by_workers(this, call_of(stack, out, "--backend", "cuda"), out, workers, cores)
        tell(f"CUDA, {workers} workers of one core on one GPU, {4 * workers} shards", result | {"same": same(out, cuda)})
        remove(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda kind: lambda text: [kind(word) for word in text.split(",")]
    parser.add_argument("--gigabytes", type=numbers(float), default=[0.5, 2.6])
    parser.add_argument("--workers", type=numbers(int), default=[1, 2, 4])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    programs = {"this": pathlib.Path(os.environ.get("DRIFTD_BIN", "build/release/bin")).resolve() / "driftfit"}
    if options.before:
        programs["before"] = options.before.resolve()
    cores, results = sorted(os.sched_getaffinity(0)), []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for gigabytes in options.gigabytes:
            frames = round(gigabytes * 1e9 / (2 * SIDE * SIDE))
            stack = pathlib.Path(folder) / "movie.raw"
            movie(frames, stack)

            def tell(what: str, result: dict) -> None:
                results.append({"GB": gigabytes, "frames": frames, "what": what} | result)
                said = result.get("said", "")
                spots = re.search(r"(\d+) spots found", said)
                print(f"{gigabytes:g} GB: {what}:", *(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                      for key, value in result.items() if key != "said"), f"spots/s {int(spots[1]) / result['s']:.3g}"
                      if spots else said, flush=True)
            measure(programs, stack, options, cores, tell)
            for left in pathlib.Path(folder).iterdir():
                left.unlink()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
