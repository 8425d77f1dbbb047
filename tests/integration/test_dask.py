# SPDX-License-Identifier: MIT
"""`driftd_fit.distributed` on a scheduler and workers of Dask's own, processes of this computer."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock
import uuid

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "fitter/python"), str(SOURCE / "tests/unit/tools/driftfit")]
from driftfit_program import PROGRAM, WithFolder, drifting, h5py, np  # noqa: E402

os.environ["DRIFTFIT_LIBRARY"] = str(pathlib.Path(PROGRAM).resolve().parents[1] / "lib/libdriftfit.so.1")
try:
    import dask
    import dask.array as da
    from dask.distributed import Client
except ImportError as error:
    print(f"SKIPPED: {error} (python3-distributed)")
    sys.exit(0)
from driftd_fit import distributed  # noqa: E402
try:
    import zarr
except ImportError:
    zarr = None

ENDS = "thunderstorm.csv", "locs.hdf5", "locs.yaml"


def fails(frames):
    raise OSError("no such disk")


class OnDask(WithFolder):  # tier: full
    def setUp(self):
        super().setUp()
        self.frames = np.tile(drifting(60)[0], (5, 1, 1))
        self.out = self.folder / "out"
        self.address = self.folder / "scheduler.json"
        self.environment = os.environ | {"PYTHONPATH": str(SOURCE / "fitter/python")}
        self.start("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", self.address, "--no-dashboard")
        self.workers = [self.worker() for _ in range(2)]
        self.client = Client(scheduler_file=str(self.address))
        self.addCleanup(self.client.close)
        self.client.wait_for_workers(2)
        stack = self.write_raw(self.frames)
        self.run_program(stack, "--every-spot", "-o", self.folder / "one", "--gain", 0.46)

    def start(self, kind, *arguments):
        with open(self.folder / f"{kind}.log", "a") as log:
            child = subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{kind}", *map(str, arguments)], stdout=log,
                                     stderr=log, env=self.environment, cwd=self.folder)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def worker(self):
        return self.start("worker", "--scheduler-file", self.address, "--nthreads", 1, "--no-nanny", "--no-dashboard",
                          "--local-directory", self.folder / "dask")

    def assert_as_one_run(self, ends, others=()):
        for end in ends:
            self.assertEqual((self.folder / f"out_{end}").read_bytes(), (self.folder / f"one_{end}").read_bytes(), end)
        left = [p.name for p in self.folder.iterdir() if "shard" in p.name or "block" in p.name or p.name.startswith(".")]
        self.assertEqual(sorted(left), sorted(others))

    def assert_locs(self, others=()):
        with h5py.File(self.folder / "one_locs.hdf5") as one, h5py.File(self.folder / "out_locs.hdf5") as out:
            self.assertEqual(one["locs"][:].tobytes(), out["locs"][:].tobytes())
            self.assertEqual(one["locs"].dtype, out["locs"].dtype)
        self.assert_as_one_run([], others)

    def test_a_file_is_fitted_by_the_workers_as_by_one_run(self):
        said = distributed.localize(self.folder / "stack.raw", self.out, self.client, program=PROGRAM, gain=0.46)
        self.assertIn("8 shards, 300 frames, 1500 localizations", said)
        self.assert_as_one_run(ENDS)

    def test_a_call_goes_on_with_the_shards_of_one_before_that_had_other_workers(self):
        self.run_program(self.folder / "stack.raw", "--every-spot", "--gain", 0.46, "--shard", "2/3", "-o", self.out)
        said = distributed.localize(self.folder / "stack.raw", self.out, self.client, program=PROGRAM, gain=0.46)
        self.assertIn("3 shards, 300 frames", said)
        self.assert_as_one_run(ENDS)
        said = distributed.localize(self.folder / "stack.raw", self.out, self.client, program=PROGRAM, overwrite=True)
        self.assertIn("8 shards, 300 frames", said)

    def test_what_driftfit_refuses_is_said(self):
        with self.assertRaisesRegex(RuntimeError, "--roi is 97; .* at most 96|not in range"):
            distributed.localize(self.folder / "stack.raw", self.out, self.client, program=PROGRAM, roi=97)

    def test_a_worker_that_is_killed_costs_its_block_alone(self):
        """Each block notes that it begins, and takes a second, so that the kill comes in the middle of one."""
        begun = self.folder / "begun"
        slow = self.folder / "slow"
        slow.write_text(f'#!/bin/sh\necho "$*" >> {begun}\ncase "$*" in *--shard*) sleep 1 ;; esac\nexec {PROGRAM} "$@"\n')
        slow.chmod(0o755)
        killer = subprocess.Popen(["sh", "-c", f"until [ -e {begun} ] && [ $(wc -l < {begun}) -ge 6 ]; do sleep 0.1; done; "
                                   f"kill -9 {self.workers[0].pid}"])
        self.addCleanup(killer.wait)
        said = distributed.localize(self.folder / "stack.raw", self.out, self.client, blocks=10, program=slow, gain=0.46)
        self.assertIsNotNone(self.workers[0].wait(60))
        self.assertIn("10 shards, 300 frames", said)
        self.assert_as_one_run(ENDS)
        shards = [line.split("--shard ")[1] for line in begun.read_text().splitlines() if "--shard" in line]
        self.assertEqual(len(set(shards)), 10)

    def test_a_memory_map_is_refused(self):
        mapped = np.memmap(self.folder / "stack.raw", np.uint16, "r", shape=self.frames.shape)
        with self.assertRaisesRegex(TypeError, "allowed is its path"):
            distributed.localize(mapped, self.out, self.client)

    def test_blocks_that_are_there_are_not_done_again(self):
        """A worker fails at one block of an array, whose frames are of another kind: the others stay."""
        pieces = [da.from_array(self.frames[i:i + 25], chunks=-1) for i in range(0, 300, 25)]
        broken = da.concatenate([*pieces[:7], pieces[7].map_blocks(fails, dtype=np.uint16), *pieces[8:]])
        with self.assertRaisesRegex(Exception, "no such disk"):
            distributed.localize(broken, self.out, self.client, blocks=6, gain=0.46)
        there = list(self.folder.glob("out_block-*.npy"))
        self.assertEqual(len(there), 5)
        first = min(there, key=lambda p: int(p.name.split("-")[-2]))
        np.save(first, np.load(first)[:0])  # which would be done again with 250
        said = distributed.localize(da.concatenate(pieces), self.out, self.client, blocks=6, gain=0.46)
        self.assertIn("6 blocks, 300 frames, 1250 localizations", said)

    def test_blocks_of_another_array_are_not_taken_for_those_of_this_one(self):
        others = []
        for last in np.tile(drifting(60, seed=9)[0], (5, 1, 1)), self.frames:
            others = others or [p.name for p in self.folder.glob("out_block-*.npy")]
            broken = da.concatenate([da.from_array(last[:260], chunks=(50, -1, -1)),
                                     da.from_array(last[260:-1], chunks=-1).map_blocks(fails, dtype=np.uint16),
                                     da.from_array(last[-1:], chunks=-1)])
            with self.assertRaisesRegex(Exception, "no such disk"):
                distributed.localize(broken, self.out, self.client, blocks=6, gain=0.46)
        self.assertEqual(len(list(self.folder.glob("out_block-*.npy"))), 10)
        self.assertIn("6 blocks, 300 frames, 1500 localizations",
                      distributed.localize(self.frames, self.out, self.client, blocks=6, gain=0.46))
        self.assert_locs(others)

    def test_stacks_with_black_ends_are_told_apart(self):
        stacks = [np.tile(drifting(60, seed=seed)[0], (5, 1, 1)) for seed in (1, 9)]
        for stack in stacks:
            stack[[0, -1]] = 0
        with unittest.mock.patch.object(distributed, "_join", side_effect=OSError("killed")), self.assertRaises(OSError):
            distributed.localize(stacks[0], self.out, self.client, blocks=6, gain=0.46)
        others = [p.name for p in self.folder.glob("out_block-*.npy")]
        distributed.localize(stacks[1], self.out, self.client, blocks=6, gain=0.46)
        self.run_program(self.write_raw(stacks[1]), "--every-spot", "-o", self.folder / "one", "--gain", 0.46, "--overwrite")
        self.assert_locs(others)
        self.assertRegex((self.folder / "out_locs.yaml").read_text(),
                         r"\nGenerated by: driftd_fit.distributed, libdriftfit \d+\.\d+\.\d+ \((avx512|avx2|sse4|baseline)\)\n")

    def test_what_is_not_its_own_is_left_alone(self):
        """Recordings, notes and stores that begin as blocks do, and another run's blocks; what a killed worker left of
        its own blocks goes."""
        mine = [self.folder / f"out_block-{end}" for end in ("1.h5", "notes.txt", "2_raw.tif", "0123abcd-0-50.npy",
                                                             "0123abcd-0-50.npy.5f0c-part", "a.npy", "2_locs.hdf5")]
        for file in mine:
            file.write_text("mine")
        store = self.folder / "out_block-1.zarr"
        store.mkdir()
        with unittest.mock.patch.object(distributed, "_join", side_effect=OSError("killed")), self.assertRaises(OSError):
            distributed.localize(self.frames, self.out, self.client, blocks=6, gain=0.46)
        block = next(p for p in self.folder.glob("out_block-*-100-150.npy"))
        block.rename(f"{block}.{uuid.uuid4()}")
        distributed.localize(self.frames, self.out, self.client, blocks=6, gain=0.46)
        self.assertEqual([file.read_text() for file in mine], ["mine"] * len(mine))
        self.assert_locs([file.name for file in [*mine, store]])

    def test_no_result_that_is_there_is_replaced(self):
        for name in "out_locs.hdf5", "out_locs.yaml":
            there = self.folder / name
            there.write_text("mine")
            with self.assertRaisesRegex(FileExistsError, f"{name} exists already; remove it, or take another name"):
                distributed.localize(self.frames, self.out, self.client, gain=0.46)
            self.assertEqual(there.read_text(), "mine")
            there.unlink()
        self.assert_as_one_run([])

    def test_arrays_in_pieces_of_any_shape(self):
        arrays = {"numpy": self.frames, "dask": da.from_array(self.frames, chunks=(7, 40, 96))}
        if zarr is not None:
            zarr.save(str(self.folder / "s.zarr"), self.frames)
            arrays["zarr"] = self.folder / "s.zarr"
        for kind, stack in arrays.items():
            with self.subTest(kind):
                said = distributed.localize(stack, self.out, self.client, blocks=6, gain=0.46)
                self.assertIn("6 blocks, 300 frames, 1500 localizations", said)
                self.assert_locs()
                odd = self.folder / "odd[1]"
                distributed.localize(stack[:9] if kind == "numpy" else stack, odd, self.client, blocks=3)
                self.assertEqual(list(self.folder.glob("odd*block*")), [])
                for end in "hdf5", "yaml":
                    (self.folder / f"odd[1]_locs.{end}").unlink()
                with self.assertRaisesRegex(FileExistsError, "out_locs.hdf5 exists already"):
                    distributed.localize(stack, self.out, self.client, gain=0.46)
                for end in "hdf5", "yaml":
                    (self.folder / f"out_locs.{end}").unlink()


class Refused(WithFolder):  # tier: full
    def test_what_makes_no_sense_is_refused_before_a_worker_has_it(self):
        frames = drifting(3)[0]
        for stack, blocks, error, told in (
                (frames, -1, ValueError, "blocks is -1; allowed are whole numbers 1 to 10000"),
                (frames, 0, ValueError, "blocks is 0; allowed are whole numbers 1 to 10000"),
                ("none.raw", -1, ValueError, "blocks is -1; allowed are whole numbers 1 to 10000"),
                (frames, 2.5, TypeError, "blocks is 2.5, a float"),
                (frames[0], None, ValueError, r"stack has shape \(96, 96\); allowed is \(n, height, width\)"),
                (frames[None], None, ValueError, r"stack has shape \(1, 3, 96, 96\)"),
                (None, None, ValueError, r"stack has shape \(\)")):
            with self.subTest(told), self.assertRaisesRegex(error, told):
                distributed.localize(stack, self.folder / "out", None, blocks=blocks)
        for stack, options, told in (
                (frames, {"first": 5}, "first is not an option here: what driftd_fit.localize is told by it, each block is"),
                (frames, {"threads": 2}, "threads is not an option here"),
                ("s.raw", {"threads": 2}, "threads is not an option here: what driftfit is told by it, each block is told by"),
                ("s.raw", {"shard": "1/2"}, "shard is not an option here"),
                ("s.raw", {"min_net_gradient": None}, "min_net_gradient is None; allowed .* are texts, numbers and paths, or to "
                                                      "leave it out"),
                ("s.raw", {"map_origin": [1, 2]}, r"map_origin is \[1, 2\]; allowed .* are texts, numbers and paths$")):
            with self.subTest(told), self.assertRaisesRegex(TypeError, told):
                distributed.localize(stack, self.folder / "out", None, **options)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_block_that_cannot_be_made_leaves_nothing(self):
        with self.assertRaisesRegex(ValueError, "side is 99"):
            distributed._block(drifting(2)[0], 0, str(self.folder / "out_block-1-0-2.npy"), {"side": 99})
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_block_that_cannot_be_read_is_named(self):
        frames = da.from_array(drifting(2)[0])
        for damaged in b"", b"\x93NUMPYxx":
            block = self.folder / "out_block-1-0-2.npy"
            block.write_bytes(damaged)
            with self.assertRaisesRegex(ValueError, "out_block-1-0-2.npy cannot be read .*; remove it, and it is done again"):
                distributed._join([block], frames, str(self.folder / "out"), {}, [])
            self.assertEqual(list(self.folder.iterdir()), [block])


if __name__ == "__main__":
    unittest.main()
