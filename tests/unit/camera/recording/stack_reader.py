# SPDX-License-Identifier: MIT
"""What the tests of recordings in Python share: files in a folder of the test's, read by driftd_read_stack."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

PROGRAM = os.environ["DRIFTD_READ_STACK"]


class Refused(Exception):
    pass


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="recordings-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def output(self, *arguments) -> bytes:
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL, timeout=100)
        if done.returncode == 1:
            raise Refused(done.stderr.decode())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def read(self, *arguments):
        """The frames, and the notes."""
        head, rest = self.output(*arguments).split(b"\n", 1)
        kind, frames, height, width, count = head.decode().split()
        notes = []
        for _ in range(int(count)):
            note, rest = rest.split(b"\n", 1)
            notes.append(note.decode())
        return np.frombuffer(rest, kind).reshape(int(frames), int(height), int(width)), "\n".join(notes)

    def metadata(self, *arguments) -> list[str]:
        lines = self.output("--metadata", *arguments).decode().split("\n")
        return lines[1 + int(lines[0].split()[-1]):-1]

    def refusal(self, *arguments) -> str:
        with self.assertRaises(Refused) as refused:
            self.read(*arguments)
        return str(refused.exception)
