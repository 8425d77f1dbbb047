# SPDX-License-Identifier: MIT
"""Fits of ROIs of whole frames by driftd_fit.fit_frames() beside cutting with numpy and driftd_fit.fit(), with and
without the maps of a camera, and beside the fits alone of ROIs that are cut already.

  /usr/bin/python3 tests/bench/frames_bench.py [--threads 1] [--backend cpu] [--json FILE]
  python3 tests/bench/frames_bench.py --gpu     frames on a GPU (CuPy or torch), beside those of the host and
                                                beside ROIs that lie on the GPU already; each place ten times

ns a fit: the least of runs in turn; the last columns are ratios of these.
"""
import argparse
import json
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fitter/python"))
import driftd_fit  # noqa: E402

SIZE, FRAMES, SPOTS, REPEATS = 512, 64, 1500, 7


def movie() -> tuple[np.ndarray, np.ndarray]:
    """Frames of spots, sigma 1.2 px, and (x, y, frame) of their middle pixels."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[-7:8, -7:8]
    frames, places = [], []
    for frame in range(FRAMES):
        photons = np.full((SIZE, SIZE), 10.0)
        for px, py in random.integers(8, SIZE - 8, (SPOTS, 2)):
            dx, dy = random.uniform(-0.5, 0.5, 2)
            photons[py - 7:py + 8, px - 7:px + 8] += 300 * np.exp(-((x - dx)**2 + (y - dy)**2) / (2 * 1.2**2))
            places.append((px, py, frame))
        frames.append(random.poisson(photons) / 2 + 100)
    return np.array(frames).astype(np.uint16), np.array(places, np.int32)


def cut(array: np.ndarray, places: np.ndarray, side: int) -> np.ndarray:
    """The fastest way known in numpy."""
    x, y, frame = places.T
    windows = np.lib.stride_tricks.sliding_window_view(array, (side, side), (-2, -1))
    corner = y - side // 2, x - side // 2
    return windows[corner] if array.ndim == 2 else windows[(frame, *corner)]


def onto_gpu():
    """What puts an array of numpy on the GPU."""
    try:
        import cupy
        return cupy.asarray
    except ImportError:
        import torch
        return lambda array: torch.from_numpy(np.ascontiguousarray(array)).cuda()


def in_turn(ways: dict, fits: int) -> dict:
    """The least time of each, ns a fit."""
    ns = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, run in ways.items():
            begin = time.perf_counter_ns()
            run()
            ns[name].append((time.perf_counter_ns() - begin) / fits)
    return {name: min(times) for name, times in ns.items()}


def on_gpu(frames, places, maps: dict) -> None:
    put = onto_gpu()
    places = np.tile(places, (10, 1))
    there, places_there = put(frames), put(places)
    maps_there = {name: put(value) for name, value in maps.items()}
    out, out_there = driftd_fit.pinned(len(places), driftd_fit.RESULT), put(np.zeros((len(places), 14), np.float32))
    print(f"{len(places)} ROIs of {FRAMES} frames of {SIZE} x {SIZE}, on a GPU")
    print("side  estimator  maps   host  on GPU  fit alone  host / on GPU  on GPU / alone")
    with driftd_fit.Fitter("cuda", 0) as fitter:
        for side in (7, 9, 13):
            for estimator in ("implicit", "poisson"):
                for with_maps in (False, True):
                    given = maps if with_maps else {}
                    given_there = maps_there if with_maps else {}
                    rois, more = cut(frames, places, side), {}
                    if with_maps:
                        rois = (rois - cut(maps["offset_map"], places, side)) * cut(maps["gain_map"], places, side)
                        more = {"variances": put(cut(maps["variance_map"], places, side)), "gain": 1}
                    rois = put(rois)
                    now = in_turn({
                        "host": lambda: fitter.fit_frames(frames, places, side, estimator=estimator, out=out, **given),
                        "there": lambda: fitter.fit_frames(there, places_there, side, estimator=estimator,
                                                           out=out_there, **given_there),
                        "alone": lambda: fitter.fit(rois, estimator=estimator, out=out_there, **more)}, len(places))
                    print(f"{side:4}  {estimator:9}  {'yes' if with_maps else 'no':4}  {now['host']:5.1f}  "
                          f"{now['there']:6.2f}  {now['alone']:9.2f}  {now['host'] / now['there']:13.1f}  "
                          f"{now['there'] / now['alone']:14.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    frames, places = movie()
    random = np.random.default_rng(2)
    gain = random.uniform(1.8, 2.2, (SIZE, SIZE)).astype(np.float32)
    offset = random.normal(100, 2, (SIZE, SIZE)).astype(np.float32)
    variance = random.exponential(2, (SIZE, SIZE)).astype(np.float32)
    maps = {"gain_map": gain, "offset_map": offset, "variance_map": variance}
    if options.gpu:
        on_gpu(frames, places, maps)
        return
    found = []
    with driftd_fit.Fitter(options.backend, options.threads) as fitter:
        print(f"{len(places)} ROIs of {FRAMES} frames of {SIZE} x {SIZE}, {fitter.backend}, {options.threads} threads")
        print("side  estimator  maps  fit_frames  numpy, fit  fit alone  numpy / frames  frames / alone")
        for side in (7, 9, 13):
            for estimator in ("implicit", "poisson"):
                for with_maps in (False, True):
                    def by_hand():
                        rois = cut(frames, places, side)
                        if not with_maps:
                            return rois, {}
                        gains = cut(gain, places, side)
                        return ((rois - cut(offset, places, side)) * gains,
                                {"variances": cut(variance, places, side) * gains**2, "gain": 1})

                    def fit(images, more):
                        fitter.fit(images, estimator=estimator, **more)

                    ready = by_hand()
                    ways = {"frames": lambda: fitter.fit_frames(frames, places, side, estimator=estimator,
                                                                **(maps if with_maps else {})),
                            "numpy": lambda: fit(*by_hand()), "alone": lambda: fit(*ready)}
                    now = in_turn(ways, len(places))
                    print(f"{side:4}  {estimator:9}  {'yes' if with_maps else 'no':4}  {now['frames']:10.0f}"
                          f"  {now['numpy']:10.0f}  {now['alone']:9.0f}  {now['numpy'] / now['frames']:14.2f}"
                          f"  {now['frames'] / now['alone']:14.2f}", flush=True)
                    found.append({"side": side, "estimator": estimator, "maps": with_maps} | now)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
