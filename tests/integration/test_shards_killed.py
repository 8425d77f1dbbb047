# SPDX-License-Identifier: MIT
"""Shards and merges that are killed at random moments, and started again until they are done: the same bits as one
run's, nothing twice, nothing left behind, and of the shards that were done none done again."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit/tools/driftfit"))
from driftfit_program import PROGRAM, WithFolder, drifting, np  # noqa: E402

ENDS = "thunderstorm.csv", "locs.hdf5", "locs.yaml"
SEED = int(os.environ.get("DRIFTD_TEST_SEED", "41"))


class KilledAnywhere(WithFolder):
    def call(self, *arguments):
        return [PROGRAM, *map(str, arguments), "--quiet"]

    def run_killed(self, call, most_s):
        """Whether it had ended well before it was killed, at a moment up to `most_s`."""
        child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            said = child.communicate(timeout=self.random.uniform(0, most_s))[1]
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            said = child.communicate()[1]
        if child.returncode == -signal.SIGKILL:
            self.kills += 1
            return False
        self.assertEqual(child.returncode, 0, said)
        return True

    def survive(self, wanted, frames, shards):
        print(f"seed {SEED}")
        self.random = random.Random(SEED)
        self.kills = 0
        stack = self.write_raw(np.tile(drifting(20)[0], (frames // 20, 1, 1)))
        out = self.folder / "out"
        begin = time.monotonic()
        subprocess.run(self.call(stack, "--every-spot", "-o", self.folder / "one"), check=True)
        run_s = time.monotonic() - begin
        while self.kills < wanted:
            done = {}
            for i in range(1, shards + 1):
                fit = self.call(stack, "--every-spot", "--shard", f"{i}/{shards}", "-o", out)
                most_s = 1.5 * run_s / shards + 0.1
                while not self.run_killed(fit, most_s):
                    most_s *= 1.2  # on a machine that has become slower it has to end, too
                    for name, changed in done.items():
                        self.assertEqual((self.folder / name).stat().st_mtime_ns, changed, f"{name} was done again")
                done |= {p.name: p.stat().st_mtime_ns for p in self.folder.glob("out_shard*")}
            most_s = 0.3 * run_s
            while not self.run_killed(self.call("merge", "-o", out), most_s):
                most_s *= 1.2
            for end in ENDS:
                self.assertEqual((self.folder / f"out_{end}").read_bytes(), (self.folder / f"one_{end}").read_bytes(), end)
                (self.folder / f"out_{end}").unlink()
            self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                             sorted([*(f"one_{end}" for end in ENDS), "stack.raw", "stack.yaml"]))

    def test_a_few_kills(self):
        self.survive(4, 1000, 3)

    def test_fifty_kills(self):  # tier: full
        self.survive(50, 8000, 5)


if __name__ == "__main__":
    unittest.main()
