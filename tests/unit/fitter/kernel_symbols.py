#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The kernels of one instruction set must not be another's: a function that several of their objects offer
the linker (inline, a template) may be taken from the one for AVX-512 and end a program on a processor without.

  kernel_symbols.py NM 'LIBRARY=OBJECT;OBJECT...;LIBRARY=OBJECT...'   the objects of each instruction set
"""
import collections
import subprocess
import sys

nm, libraries = sys.argv[1], {}
for item in sys.argv[2].split(";"):
    first, _, rest = item.partition("=")
    if rest:
        objects = libraries[first] = []
    objects.append(rest or first)
assert len(libraries) > 1, libraries
offered = collections.defaultdict(set)  # by name, the libraries
for name, objects in libraries.items():
    lines = subprocess.run([nm, "--demangle", "--defined-only", *objects], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    symbols = [line.split(None, 2)[1:] for line in lines if line[:1].isalnum() and len(line.split(None, 2)) == 3]
    assert symbols, f"{name}: no symbols"
    for kind, symbol in symbols:
        if kind not in "WT":  # no function, or none that others see
            continue
        offered[symbol].add(name)
        assert "::N_" in symbol, f"{name} offers {symbol} to others"
shared = {symbol: where for symbol, where in offered.items() if len(where) > 1}
assert not shared, shared
print(f"{len(offered)} symbols of {len(libraries)} instruction sets, none of them shared")
