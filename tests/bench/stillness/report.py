#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables and plots of docs/internals/observer.md.

    tests/bench/stillness/report.py [--bench PROGRAM] [--seeds N] [--data FOLDER] [--only-write]

Flies each world of the bench by PI and by the observer, finds the margins, and puts what came out
between the page's marks `<!-- NAME -->` and `<!-- /NAME -->`, and the plots into docs/control/.
What FOLDER holds already is not flown again: a run that was interrupted goes on, and one of more
seeds takes another folder. Needs gnuplot for the plots; without it they stay as they are.
"""
import argparse
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PAGE = ROOT / "docs" / "internals" / "observer.md"
PLOTS = ROOT / "docs" / "control"
LAWS = ("pi", "observer-alone")
MARGINS = ("nominal", "vibration", "broadband", "slow_vibration")
SPECTRUM = "vibration"


def result(options, world, law, more=()):
    """What the bench says of a world and a law; None: not flown yet, and not to be."""
    name = "-".join([world, law, *[m.strip("-") for m in more]])
    path = options.data / f"{name}.json"
    if not path.exists():
        if options.only_write:
            return None
        part = path.with_suffix(".part")
        subprocess.run([options.bench, world, "--law", law, "--seeds", str(options.seeds),
                        "--json", str(part), *more], check=True)
        part.rename(path)
    return json.loads(path.read_text())[0]


def number(value, decimals=2):
    return "-" if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"


def seconds(value):
    return "never" if value < 0 else f"{value:.1f}"


def worlds_table(rows):
    lines = ["| world | bound nm | PI | observer | worst seed | learnt s | coverage | foretold | seeds |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for pi, observer in rows:
        if not observer:
            continue
        lines.append("| " + " | ".join([
            observer["title"], number(observer["bound_nm"], 3), number(pi and pi["ratio"]),
            f"**{number(observer['ratio'])}**", number(observer["worst_ratio"]),
            seconds(observer["learnt_after_s"]), number(observer["coverage"]),
            number(observer["foretold"]), str(len(observer["seeds"]))]) + " |")
    return "\n".join(lines)


def margins_table(rows):
    lines = ["| world | gain x | later ms |", "| --- | --- | --- |"]
    for row in rows:
        if row:
            lines.append(f"| {row['title']} | {number(row['gain'], 1)} | {number(row['late_ms'], 1)} |")
    return "\n".join(lines)


def put(page, name, text):
    mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
    if not mark.search(page):
        sys.exit(f"{PAGE} has no marks <!-- {name} --> and <!-- /{name} -->")
    return mark.sub(lambda m: f"{m.group(1)}{text}\n{m.group(2)}", page)


def plot(name, script):
    PLOTS.mkdir(exist_ok=True)
    head = f"set terminal svg size 800,480 background 'white'\nset output '{PLOTS / name}.svg'\n"
    subprocess.run(["gnuplot"], input=head + script, text=True, check=True)


def plot_ratios(rows):
    data = "\n".join(f'"{o["title"]}" {p["ratio"] if p else "NaN"} {o["ratio"]}' for p, o in rows if o)
    plot("ratios", f"""$d << END
{data}
END
set logscale y
set ylabel "residual / bound"
set yrange [0.9:10]
set xtics rotate by -60 font ",9"
set bmargin 11
set key top right
set grid y
plot $d using 0:2:xtic(1) with points pt 6 title "PI", $d using 0:3 with points pt 7 title "observer", \\
  1 with lines dt 2 notitle
""")


def plot_spectrum(pi, observer):
    def points(row):
        density = row["seeds"][0]["x"]["spectrum_nm2_per_hz"]
        return "\n".join(f"{k} {math.sqrt(value)}" for k, value in enumerate(density) if k)
    plot("spectrum", f"""$pi << END
{points(pi)}
END
$observer << END
{points(observer)}
END
set logscale xy
set xlabel "Hz"
set ylabel "nm / sqrt(Hz)"
set grid
plot $pi with lines title "PI", $observer with lines title "observer"
""")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default=str(ROOT / "build/release/bin/driftd_stillness_bench"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/stillness")
    parser.add_argument("--only-write", action="store_true", help="fly nothing")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)

    worlds = sorted(path.stem for path in (HERE / "worlds").glob("*.yaml"))
    rows = [tuple(result(options, world, law) for law in LAWS) for world in worlds]
    margins = [result(options, world, LAWS[1], ["--margins"]) for world in MARGINS]
    spectra = [result(options, SPECTRUM, law, ["--spectra"]) for law in LAWS]
    page = put(PAGE.read_text(), "worlds", worlds_table(rows))
    page = put(page, "margins", margins_table(margins))
    PAGE.write_text(page)
    if not shutil.which("gnuplot"):
        print("no gnuplot: the plots stay as they are")
        return
    if any(observer for _, observer in rows):
        plot_ratios(rows)
    if all(spectra):
        plot_spectrum(*spectra)


if __name__ == "__main__":
    main()
