#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the report of driftd_cuda_bench as figures 2 to 5, 7 and 8 of Leutenegger & Weber 2021.

usage: plot_cuda.py REPORT.json FOLDER     (needs gnuplot; writes SVG)
"""
import json
import subprocess
import sys
from pathlib import Path

STYLE = "set term svg size 720,440 font 'sans,13' background rgb 'white'\nset grid\n"


def plot(path, settings, curves):
    """curves: (title, 'lines' or so, [(x, y), ...]) each."""
    script = [STYLE, f"set output '{path}'", *settings]
    for i, (_, _, points) in enumerate(curves):
        script += [f"$d{i} << EOD", *(f"{x} {y}" for x, y in points), "EOD"]
    script.append("plot " + ", ".join(
        f"$d{i} with {style} title '{title}'" for i, (title, style, _) in enumerate(curves)))
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)


def size_of(fits):
    return f"{fits:,} fits"


def sweep_figures(rows, folder):
    batches = sorted({r["fits"] for r in rows})

    def curves(value, where=None):
        result = []
        for fits in batches:
            points = [(r["side_px"], value(r)) for r in rows
                      if r["fits"] == fits and (where is None or where in r)]
            if points:
                result.append((size_of(fits), "linespoints", points))
        return result

    axis = ["set xlabel 'ROI side, px'", "set key outside right", "set logscale y",
            "set format y '10^{%T}'"]
    plot(folder / "time.svg", [*axis, "set ylabel 'time per call, us (pinned, host to host)'"],
         curves(lambda r: r["pinned_us"]["p50"]))
    plot(folder / "fits.svg", [*axis, "set ylabel 'fits per second (pinned, host to host)'"],
         curves(lambda r: 1e6 * r["fits"] / r["pinned_us"]["p50"]))
    plot(folder / "pixels.svg", [*axis, "set ylabel 'pixels per second (pinned, host to host)'"],
         curves(lambda r: 1e6 * r["fits"] * r["side_px"] ** 2 / r["pinned_us"]["p50"]))
    plot(folder / "gain.svg", [*axis, "set ylabel 'times one core of the CPU twin'"],
         curves(lambda r: r["cpu_us"]["p50"] / r["pinned_us"]["p50"], "cpu_us"))


def batch_figure(rows, folder):
    curves = [(name, "linespoints", [(r["side_px"], r["fits_per_s"] / 1e6) for r in rows
                                     if r["where"] == where])
              for where, name in (("device", "in device memory"), ("pinned", "host to host, pinned"))]
    curves.append(("what the bus carries", "lines dashtype 2",
                   [(r["side_px"], r["bus_limit_fits_per_s"] / 1e6) for r in rows
                    if "bus_limit_fits_per_s" in r]))
    plot(folder / "batch.svg", ["set xlabel 'ROI side, px'", "set logscale y", "set yrange [10:2000]",
                                "set ylabel 'million fits per second'"], curves)


def error_figure(rows, folder):
    row = next(r for r in rows if r["signal"] == 400)
    curves = []
    for name, title in (("position", "x, y"), ("sigma", "sigma")):
        bins = row[f"{name}_histogram"]
        total = sum(bins)
        curves.append((title, "histeps lw 2",
                       [(0.005 * (i + 0.5), 100 * n / total) for i, n in enumerate(bins[:-1])]))
    plot(folder / "errors.svg", ["set xlabel 'absolute error, true sigma (400 : 40 counts)'",
                                 "set ylabel '% of 100,000 fits, bins of 0.005'"], curves)


def iteration_figure(rows, folder):
    row = next(r for r in rows if r["signal"] == 1600 and r["background"] == 40)
    curves = [(title, style, [(i + shift, n / 1000) for i, n in enumerate(row[key][:12])])
              for title, key, style, shift in
              (("CUDA", "iterations", "boxes fill solid 0.6", -0.2),
               ("CPU twin", "cpu_iterations", "boxes fill solid 0.3", 0.2))]
    plot(folder / "iterations.svg", ["set xlabel 'iterations, cold (1600 : 40 counts)'",
                                     "set ylabel '% of 100,000 fits'", "set boxwidth 0.4",
                                     "set xrange [0:11]", "set xtics 1"], curves)


def main():
    report = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    sweep_figures(report["sweep"], folder)
    batch_figure(report["batch"], folder)
    error_figure(report["accuracy"], folder)
    iteration_figure(report["accuracy"], folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
