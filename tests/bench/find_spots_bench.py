# SPDX-License-Identifier: MIT
"""How many frames a second driftd_fit finds the spots of, and localizes, by the CPU and by GPUs, and whether they
find the same.

  DRIFTFIT_LIBRARY=... PYTHONPATH=fitter/python:tests/bench python3 tests/bench/find_spots_bench.py [--frames 1000]
      [--threads 1,4,16] [--devices 0]
"""
import argparse
import pathlib
import resource
import tempfile
import time

import numpy as np

import driftd_fit
from every_spot_bench import SIDE, movie

REPEATS = 3


def timed(call) -> tuple[np.ndarray, float, float]:
    """What it returns; seconds, and processor seconds, of the fastest."""
    best = None
    for _ in range(REPEATS):
        before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        found = call()
        took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best or (took, cpu), (took, cpu))
    return found, *best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 4, 16])
    parser.add_argument("--devices", type=lambda text: [int(word) for word in text.split(",")], default=[0])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "movie.raw"
        movie(options.frames, path)
        frames = np.fromfile(path, np.uint16).reshape(-1, SIDE, SIDE)
    held = driftd_fit.pinned(frames.shape, np.uint16)
    held[:] = frames
    ways = [(f"CPU, {n} threads", driftd_fit.Fitter("cpu", n), frames) for n in options.threads]
    try:
        for devices in {(options.devices[0],), tuple(options.devices)}:
            fitter = driftd_fit.Fitter("cuda", 4, devices)
            ways += [(f"CUDA, devices {devices}", fitter, frames), (f"CUDA, devices {devices}, pinned frames", fitter, held)]
    except driftd_fit.FitError as error:
        print(f"no GPU: {error}")
    for name, call in (("find_spots", lambda fitter, some: fitter.find_spots(some, 7)),
                       ("localize", lambda fitter, some: fitter.localize(some, 7, gain=1, offset=100))):
        expected = None
        for way, fitter, some in ways:
            found, took, cpu = timed(lambda: call(fitter, some))
            expected = found if expected is None else expected
            keys = ["x", "y", "frame", "net_gradient"] if name == "find_spots" else ["frame", "net_gradient"]
            same = len(found) == len(expected) and all((found[k] == expected[k]).all() for k in keys)
            apart = "" if name == "find_spots" or not same else ", x by at most {:.2g} sd".format(
                (np.abs(found["x"].astype(float) - expected["x"]) / expected["lpx"]).max())
            print(f"{name:10} {way:36} {options.frames / took:9.0f} frames/s {len(found) / took / 1e6:7.3f} M spots/s "
                  f"{1e6 * cpu / len(found):6.2f} us of processor a spot; {len(found)} found, as the first: {same}{apart}", flush=True)


if __name__ == "__main__":
    main()
