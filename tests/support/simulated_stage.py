# SPDX-License-Identifier: MIT
"""The simulator's stage (``driftd-sim --stage-input PATH``) as a driver of driftd in Python.

Run: simulated_stage.py PATH [options of every driver]
"""
import argparse
import os
import socket
import sys
import tempfile

import driftd.stages


class SimulatedStage(driftd.stages.Stage):
    driver = "simulator"

    def __init__(self, path):
        self._path, self._socket = path, None
        self._folder = tempfile.TemporaryDirectory(prefix="driftd-stage-")

    def connect(self):
        if self._socket is not None:
            self._socket.close()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0.5)
        own = os.path.join(self._folder.name, "answers")
        if os.path.exists(own):
            os.unlink(own)
        self._socket.bind(own)
        self._socket.connect(self._path)
        return [driftd.stages.Axis("x", -100_000, 100_000, 0.001),
                driftd.stages.Axis("y", -100_000, 100_000, 0.001)]

    def move_to(self, positions_nm):
        self._socket.send(b"move %.4f %.4f" % tuple(positions_nm))

    def read(self):
        self._socket.send(b"read")
        return self.parse(self._socket.recv(256))[:2]

    def close(self):
        self._socket.close()
        self._folder.cleanup()

    @staticmethod
    def parse(answer):
        """True place x, y, and where it was sent last."""
        return [float(word) for word in answer.split()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    sys.exit(driftd.stages.main(lambda options: SimulatedStage(options.path), parser))
