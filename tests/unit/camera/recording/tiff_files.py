# SPDX-License-Identifier: MIT
"""What the tests of TIFF files share: files written by tifffile and by hand, read by the program and compared."""
import os
import struct
import sys

from stack_reader import WithFolder, np

try:
    import tifffile
except ImportError:
    print("SKIPPED: python3-tifffile is not installed")
    sys.exit(0)

# A file is written and read in some 30 ms; DRIFTD_RANDOM_FILES takes more of them.
RANDOM_FILES = int(os.environ.get("DRIFTD_RANDOM_FILES", "16"))


def planes(shape, dtype=np.uint16, seed=1):
    """Pixels that name their plane and their place."""
    data = np.random.default_rng(seed).integers(0, 200, shape)
    return data.astype(dtype)


def directory(entries, at, next_at, order="<"):
    """A directory, and what stands behind it; values that are bytes are ASCII or given as a pair of type and bytes."""
    out, behind = b"", b""
    behind_at = at + 2 + 12 * len(entries) + 4
    for tag, kind, count, value in entries:
        out += struct.pack(order + "HHI", tag, kind, count)
        if isinstance(value, bytes) and len(value) > 4:
            out += struct.pack(order + "I", behind_at + len(behind))
            behind += value + b"\0" * (len(value) % 2)
        elif isinstance(value, bytes):
            out += value.ljust(4, b"\0")
        else:
            out += struct.pack(order + ("HH" if kind == 3 else "I"), *((value, 0) if kind == 3 else (value,)))
    return struct.pack(order + "H", len(entries)) + out + struct.pack(order + "I", next_at(behind_at + len(behind))) + behind


def tags_of(frame, pixels_at, more=()):
    height, width = frame.shape
    entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8 * frame.itemsize), (259, 3, 1, 1), (262, 3, 1, 1),
               (273, 4, 1, pixels_at), (277, 3, 1, 1), (278, 3, 1, height), (279, 4, 1, frame.nbytes), *more]
    return sorted(entries)


class WithTiff(WithFolder):
    def same(self, expected, *arguments):
        frames, notes = self.read(*arguments)
        np.testing.assert_array_equal(frames, expected)
        return notes

    def choose_all(self, file, data, axes):
        """Each choice gives its own movie; where one is open, the file is refused."""
        size = dict(zip(axes, data.shape))
        for letter in "TZCP":
            if letter not in size:
                size[letter], axes, data = 1, letter + axes, data[None]
        data = data.transpose([axes.index(letter) for letter in "PCZTYX"])
        several = [letter for letter in "PC" if size[letter] > 1] + (["Z"] if size["Z"] > 1 and size["T"] > 1 else [])
        if several:
            self.refusal(file)
        for p, c, z in np.ndindex(data.shape[:3]):
            chosen = []
            for letter, option, value in (("P", "--series", p), ("C", "--channel", c), ("Z", "--slice", z)):
                if letter in several:
                    chosen += [option, value]
            if size["Z"] > 1 and size["T"] == 1:
                if z == 0:
                    self.same(data[p, c, :, 0], *chosen, file)
            else:
                self.same(data[p, c, z], *chosen, file)
