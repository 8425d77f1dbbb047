# SPDX-License-Identifier: MIT
"""What the tests of driftfit share: the program, run in a folder of the test's, and stacks drawn with a known
drift."""
import csv
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)
try:
    import h5py
except ImportError:
    h5py = None

SOURCE = pathlib.Path(__file__).resolve().parents[4]
PROGRAM = os.environ.get("DRIFTFIT", os.path.join(os.environ.get("DRIFTD_BIN", SOURCE / "build/release/bin"), "driftfit"))
PLACES = np.array([(20.3, 22.1), (75.6, 19.8), (24.2, 71.5), (70.9, 74.4), (47.1, 48.6)])


def rows_of(file) -> list[dict]:
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def drifting(frames: int, side: int = 96, seed: int = 1, shown=None):
    """Frames of five spots of 3e4 photons with shot noise, and the drift (x, y) they follow.
    `shown` says which spots a frame has (default: all in all)."""
    random = np.random.default_rng(seed)
    t = np.arange(frames)
    drift = np.column_stack([0.05 * t, 1.5 * np.sin(t / 20)])
    y, x = np.mgrid[:side, :side]
    stack = np.empty((frames, side, side), np.uint16)
    for frame, (dx, dy) in enumerate(drift):
        mean = np.full((side, side), 20.0)
        for px, py in PLACES if shown is None else PLACES[shown[frame]]:
            mean += 2800 * np.exp(-((x - px - dx)**2 + (y - py - dy)**2) / (2 * 1.3**2))
        stack[frame] = 100 + random.poisson(mean)
    return stack, drift


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="driftfit-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments, code=0) -> str:
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=100)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code == 0 else done.stderr

    def write_raw(self, stack, name="stack.raw") -> pathlib.Path:
        file = self.folder / name
        stack.tofile(file)
        file.with_suffix(".yaml").write_text(
            f"Width: {stack.shape[2]}\nHeight: {stack.shape[1]}\nFrames: {stack.shape[0]}\n"
            f"Data Type: {stack.dtype}\nByte Order: '<'\n")
        return file


def tiff_of(pages, description: str) -> bytes:
    """A little-endian TIFF of 16-bit pages, after the TIFF 6.0 specification; the description is the
    first page's."""
    height, width = pages[0].shape
    out, link = bytearray(b"II*\0\0\0\0\0"), 4
    for i, page in enumerate(pages):
        at = len(out)
        out += page.astype("<u2").tobytes()
        text = description.encode() + b"\0" if i == 0 and description else b""
        entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 16), (259, 3, 1, 1),
                   (262, 3, 1, 1), (273, 4, 1, at), (277, 3, 1, 1), (278, 4, 1, height),
                   (279, 4, 1, 2 * width * height)]
        directory = len(out)
        if text:
            entries.insert(5, (270, 2, len(text), directory + 6 + 12 * (len(entries) + 1)))
        out[link:link + 4] = struct.pack("<I", directory)
        out += struct.pack("<H", len(entries))
        for entry in entries:
            out += struct.pack("<HHII", *entry)
        link = len(out)
        out += b"\0\0\0\0" + text
    return bytes(out)
