#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times of driftd_cuda_bench now over then: ratio.py THEN.json ... -- NOW.json ...

Of every row the best run counts; a ratio above 1 is slower now.
"""
import json
import statistics
import sys


def times(report):
    """{(section, what was measured): us or seconds per fit}."""
    found = {}
    for section, rows in report.items():
        for row in rows if isinstance(rows, list) else ():
            name = [str(v) for k, v in row.items()
                    if isinstance(v, str) or k in ("side_px", "rois")]
            if "us" in row:
                found[(section, " ".join(name))] = row["us"]["p50"]
            for key, value in row.items():
                if key.endswith("fits_per_s") and "us" not in row and "limit" not in key and value:
                    found[(section, " ".join(name + [key]))] = 1 / value
    return found


def best(paths):
    """The least of each over the reports."""
    least = {}
    for path in paths:
        with open(path) as file:
            for key, value in times(json.load(file)).items():
                least[key] = min(value, least.get(key, value))
    return least


def main():
    split = sys.argv.index("--")
    then, now = best(sys.argv[1:split]), best(sys.argv[split + 1:])
    ratios = {}
    for key in then:
        if key in now:
            ratios.setdefault(key[0], []).append(now[key] / then[key])
            print(f"{now[key] / then[key]:6.3f}  {key[0]}: {key[1]}")
    for section, values in ratios.items():
        print(f"{section}: median {statistics.median(values):.3f}, "
              f"{min(values):.3f} to {max(values):.3f}, of {len(values)}")


if __name__ == "__main__":
    main()
