# SPDX-License-Identifier: MIT
"""driftfit --shard and driftfit merge: parts of a stack that together are what one run makes, to the bit; what is
refused; and every state of the files that a killed one can leave."""
import fcntl
import itertools
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from driftfit_program import PROGRAM, WithFolder, drifting, h5py, np, rows_of, tiff_of

ENDS = "thunderstorm.csv", "locs.hdf5", "locs.yaml"
SETS = "avx512", "avx2", "sse4", "baseline"


class WithShards(WithFolder):
    FRAMES = 40

    @classmethod
    def setUpClass(cls):
        cls.frames = drifting(cls.FRAMES)[0]

    def setUp(self):
        super().setUp()
        self.stack = self.write_raw(self.frames)
        self.out = self.folder / "out"

    def shard(self, i, n, *more, code=0, out=None):
        return self.run_program(self.stack, "--every-spot", "--shard", f"{i}/{n}", "-o", out or self.out, *more, code=code)

    def shards(self, n, *more):
        for i in range(1, n + 1):
            self.shard(i, n, *more)

    def merge(self, *more, code=0):
        return self.run_program("merge", "-o", self.out, *more, code=code)

    def one_run(self, *more):
        """{end of the name: bytes} of one run's results, which are not left behind."""
        self.run_program(self.stack, "--every-spot", "-o", self.folder / "one", *more)
        return {end: self.taken(f"one_{end}") for end in ENDS}

    def taken(self, name):
        file = self.folder / name
        held = file.read_bytes()
        file.unlink()
        return held

    def remove_results(self):
        for end in ENDS:
            (self.folder / f"out_{end}").unlink(missing_ok=True)

    def names(self):
        return sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("stack."))

    def file(self, i, n, end):
        return self.folder / f"out_shard-{i:0{len(str(n))}}-of-{n}_{end}"

    def edit(self, i, n, key, value):
        file = self.file(i, n, "locs.yaml")
        text = file.read_text()
        changed = re.sub(rf"^{re.escape(key)}: .*$", f"{key}: {value}", text, flags=re.M)
        self.assertNotEqual(text, changed)
        file.write_text(changed)

    def assert_merged(self, expected):
        self.assertEqual(self.names(), sorted(f"out_{end}" for end in ENDS))
        for end in ENDS:
            self.assertEqual((self.folder / f"out_{end}").read_bytes(), expected[end], end)


class Merged(WithShards):
    def test_any_number_of_shards_makes_what_one_run_makes(self):
        for more in [], ["--model", "elliptical", "--estimator", "poisson", "--gain", 0.46, "--offset", 100, "--roi", 7,
                         "--pixel-nm", 108, "--saturation", 60000]:
            expected = self.one_run(*more)
            for n in (3,) if more else (1, 7):
                with self.subTest(n=n, more=more):
                    self.remove_results()
                    self.shards(n, *more)
                    self.assertIn(f"{self.FRAMES} frames, 200 localizations\n", self.merge())
                    self.assert_merged(expected)
                    if h5py is not None:
                        with h5py.File(self.folder / "out_locs.hdf5") as file:
                            self.assertEqual(len(file["locs"]), 200)
                            self.assertEqual(sorted(set(file["locs"]["frame"])), list(range(self.FRAMES)))
        self.assertEqual([r["id"] for r in rows_of(f"{self.out}_thunderstorm.csv")], [str(i + 1) for i in range(200)])

    def test_more_shards_than_frames(self):
        for frames in 1, 3:
            self.stack = self.write_raw(self.frames[:frames])
            expected = self.one_run()
            self.remove_results()
            self.assertIn("no frames, as there are more shards", self.shard(1, 5))
            self.shards(5)
            self.merge()
            self.assert_merged(expected)

    def test_more_rows_than_are_joined_at_once(self):
        """A piece of the HDF5 file is 2048 rows; shards of 1500 and a last one of 500 make it of two shards' rows."""
        self.stack = self.write_raw(np.tile(self.frames, (25, 1, 1)))
        expected = self.one_run()
        self.shards(3)
        self.assertIn("1000 frames, 5000 localizations", self.merge())
        self.assert_merged(expected)

    def test_frames_without_spots_make_empty_shards(self):
        self.frames[:] = self.frames[0, 0, 0]
        self.addCleanup(self.setUpClass)
        self.stack = self.write_raw(self.frames)
        expected = self.one_run()
        self.shards(3)
        self.assertIn("0 localizations", self.merge())
        self.assert_merged(expected)

    def test_shards_are_found_by_their_whole_name(self):
        self.shards(2)
        self.shard(1, 2, out=self.folder / "out2")
        self.shard(2, 3, out=self.folder / "out_shard-1-of-2_locs.hdf5")
        left = {n for n in self.names() if n.startswith(("out2", "out_shard-1-of-2_locs.hdf5_"))}
        self.assertEqual(len(left), 6)
        self.merge()
        self.assertEqual(set(self.names()), left | {f"out_{end}" for end in ENDS})


class Described(WithShards):
    def test_a_description_says_frames_version_back_end_and_instruction_set(self):
        for more, first, last in ([], 0, 39), (["--first-frame", 3, "--last-frame", 7], 3, 7):
            for search in ["--every-spot"], []:
                self.run_program(self.stack, *search, "--overwrite", "-o", self.out, "--backend", "cpu", *more)
                lines = (self.folder / "out_locs.yaml").read_text().splitlines()
                for line in f"First Frame: {first}", f"Last Frame: {last}", "Back End: CPU", "Frames: 40":
                    self.assertIn(line, lines)
                version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout.strip()
                self.assertIn(f"Generated by: {version}", lines)
                self.assertRegex("\n".join(lines), f"(?m)^Instruction Set: ({'|'.join(SETS)})$")

    def test_the_instruction_set_is_pinned_or_refused(self):
        there = []
        for name in SETS:
            done = subprocess.run([PROGRAM, self.stack, "--every-spot", "--overwrite", "-o", self.out, "--backend", "cpu",
                                   "--instruction-set", name], capture_output=True, text=True)
            if done.returncode == 0:
                there.append(name)
                self.assertIn(f"Instruction Set: {name}\n", (self.folder / "out_locs.yaml").read_text())
            else:
                self.assertEqual(done.returncode, 2)
                refused = done.stderr
        self.assertIn("baseline", there)
        if len(there) < len(SETS):
            self.assertIn(" by what this driftfit has kernels for, has " + ", ".join(there), refused)
        said = self.run_program(self.stack, "-o", self.out, "--instruction-set", "mmx", code=2)
        self.assertIn("mmx", said)
        said = self.run_program(self.stack, "-o", self.out, "--instruction-set", "baseline", "--backend", "cuda", code=2)
        self.assertIn("--instruction-set is the CPU's", said)


class Again(WithShards):
    def times(self, i, n):
        return [self.file(i, n, end).stat().st_mtime_ns for end in ENDS]

    def test_a_shard_that_is_there_is_not_done_again(self):
        self.assertIn("shard 2 of 3 (frames 13 to 25): 13 frames, 65 spots found", self.shard(2, 3))
        before = self.times(2, 3)
        said = self.shard(2, 3)
        self.assertRegex(said, r"^shard 2 of 3 \(frames 13 to 25\) is there already, whole, of the same stack, settings and "
                               r"version: \S+_locs.yaml\n$")
        self.assertEqual(self.times(2, 3), before)
        self.assertNotIn("already", self.shard(2, 3, "--overwrite"))
        self.assertNotEqual(self.times(2, 3), before)

    def test_a_shard_that_is_not_whole_is_done_again(self):
        self.shard(1, 2)
        whole = [self.file(1, 2, end).read_bytes() for end in ENDS]
        for end, spoil in itertools.product(ENDS, ("gone", "short")):
            with self.subTest(end=end, spoil=spoil):
                file = self.file(1, 2, end)
                file.unlink() if spoil == "gone" else file.write_bytes(file.read_bytes()[:-20])
                self.assertNotIn("already", self.shard(1, 2))
                self.assertEqual([self.file(1, 2, e).read_bytes() for e in ENDS], whole)

    def test_a_shard_of_something_else_is_refused_with_what_differs(self):
        self.shard(1, 2)
        before = self.times(1, 2)
        refused = [(["--roi", 7], "Box Size is 9 there and 7 now"), (["--gain", 2], "Sensitivity is not said there and 2 now")]
        if "Instruction Set: baseline" not in self.file(1, 2, "locs.yaml").read_text():
            refused.append((["--instruction-set", "baseline"], "Instruction Set is "))
        for more, told in refused:
            said = self.shard(1, 2, *more, code=3)
            self.assertIn("already, and of something else: " + told, said)
            self.assertIn("--overwrite replaces it", said)
        os.utime(self.stack, (1e9, 1e9))
        self.assertIn("Input Stamp is ", self.shard(1, 2, code=3))
        self.assertEqual(self.times(1, 2), before)

    def test_shards_that_are_merged_are_not_done_again(self):
        """Of the same settings: nothing is to be done; of other ones each says so, as the merge would."""
        expected = self.one_run()
        self.shards(2)
        self.merge()
        for i, n in (1, 2), (2, 2), (5, 7):
            self.assertRegex(self.shard(i, n), rf"^shard {i} of {n} \(frames \d+ to \d+\) is there already, merged with the others, of "
                                               r"the same stack, settings and version: \S+/out_locs.yaml\n$")
            self.assertIn("out_locs.yaml: exists already, and is of something else: Box Size is 9 there and 7 now; --overwrite "
                          "replaces it", self.shard(i, n, "--roi", 7, code=3))
        self.assert_merged(expected)
        (self.folder / "out_locs.hdf5").unlink()
        self.assertNotIn("already", self.shard(1, 2))
        self.assertNotIn("already", self.shard(2, 2, "--overwrite"))
        self.merge()
        self.assert_merged(expected)

    def test_a_limit_of_the_files_size_is_told(self):
        """Not by a signal, which would leave what is under temporary names."""
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        for more in ["-o", self.out], ["-o", self.out, "--shard", "1/1"]:
            done = subprocess.run([PROGRAM, self.stack, "--every-spot", *more], capture_output=True, text=True, preexec_fn=limited)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, r"^driftfit: \S+/out_\S+: .*File too large\n$")
            self.assertEqual(self.names(), [])

    def test_a_stack_of_the_same_name_size_and_second_is_another_one(self):
        for name, write in (("raw", lambda frames: self.write_raw(frames)), ("tif", lambda frames: self.write_tiff(frames))):
            with self.subTest(name):
                self.out = self.folder / name
                for seed, code in (0, 0), (0, 0), (1, 3):
                    self.stack = write(drifting(self.FRAMES, seed=seed)[0])
                    for file in self.stack, self.stack.with_suffix(".yaml"):
                        if file.exists():
                            os.utime(file, (1e9, 1e9))
                    said = self.shard(1, 2, code=code)
                self.assertIn("Input Stamp is ", said)

    def write_tiff(self, frames):
        (self.folder / "stack.tif").write_bytes(tiff_of(frames, ""))
        return self.folder / "stack.tif"

    def test_one_file_by_several_of_its_names_is_the_same_stack(self):
        self.shard(1, 2)
        self.stack = f"{self.folder}/../{self.folder.name}/./{self.stack.name}"
        self.assertIn("is there already", self.shard(1, 2))

    def test_bytes_that_changed_are_seen(self):
        """As many as were written, but others: of a copy that was cut off, or a disk."""
        self.shards(2)
        for end in ENDS[:2]:
            file = self.file(1, 2, end)
            whole = file.read_bytes()
            for spoilt in whole[:-10] + bytes(b ^ 1 for b in whole[-10:]), whole[:1500] + bytes([whole[1500] ^ 1]) + whole[1501:]:
                file.write_bytes(spoilt)
                said = self.merge(code=1)
                self.assertIn("1 of 2 shards is not there, or not whole: --shard 1/2 (frames 0 to 19)", said)
                self.assertIn(f"{file} has other bytes than were written", said)
            self.assertNotIn("already", self.shard(1, 2))
            self.assertEqual(file.read_bytes(), whole)
        self.merge()


class Refused(WithShards):
    def test_options_that_contradict_a_shard(self):
        for arguments, told in (
                (["--shard", "1/2"], "--shard is for --every-spot: markers are followed from frame to frame"),
                (["--shard", "1/2", "--every-spot", "--first-frame", 3], "--first-frame and --shard both say which frames"),
                (["--shard", "1/2", "--every-spot", "--last-frame", 3], "--last-frame and --shard both say which frames"),
                (["--shard", "1/2", "--every-spot", "--picasso", self.folder / "p.hdf5"], "--picasso names one file"),
                (["--shard", "1/2", "--every-spot", "--search", "swarm"], "--search swarm draws by the number")):
            with self.subTest(told):
                self.assertIn(told, self.run_program(self.stack, "-o", self.out, *arguments, code=2))
        self.assertIn("--shard needs --output OUT", self.run_program(
            self.stack, "--every-spot", "--shard", "1/2", "--thunderstorm", self.folder / "t.csv", code=2))
        for wrong in "0/2", "3/2", "1", "1/", "/2", "a/b", "1/2/3", "-1/2", "1/10001":
            said = self.run_program(self.stack, "-o", self.out, "--every-spot", f"--shard={wrong}", code=2)
            self.assertIn(f"is '{wrong}', allowed are 1/N to N/N, N up to 10000", said)
        self.assertIn("--roi is for the fit of a stack", self.run_program("--roi", 7, "merge", "-o", self.out, code=2))
        self.assertEqual(self.names(), [])

    def test_a_script_for_slurm_is_written_for_what_shards_will_take(self):
        def script(*more, code, shards=2):
            return self.run_program("slurm", "--shards", shards, *more, code=code)
        self.assertIn("--shard is for --every-spot", script(self.stack, "-o", self.out, code=2))
        self.assertIn("none.tif: there is no such file or folder",
                      script(self.folder / "none.tif", "--every-spot", "-o", self.out, code=1))
        self.assertIn("slurm gives each shard its --shard",
                      script(self.stack, "--every-spot", "-o", self.out, "--shard", "1/2", code=2))
        self.assertIn("--shard needs --output OUT", script(self.stack, "--every-spot", code=2))
        for wrong in 0, 10001:
            self.assertIn("--shards", script(self.stack, "--every-spot", "-o", self.out, code=2, shards=wrong))
        self.assertIn("stack is required", script("--every-spot", "-o", self.out, code=2))
        self.assertEqual(self.names(), [])
        self.assertIn("submits 2 shards", script(self.stack, "--every-spot", "-o", self.out, code=0))
        self.assertIn("out_slurm.sh: exists already; --overwrite replaces it",
                      script(self.stack, "--every-spot", "-o", self.out, code=3))
        script(self.stack, "--every-spot", "-o", self.out, "--overwrite", code=0)
        self.assertEqual(self.names(), ["out_slurm.sh"])
        self.assertIn("merge --overwrite -o ", (self.folder / "out_slurm.sh").read_text())

    def test_what_makes_no_whole_is_not_merged(self):
        self.assertIn("there are no shards, ", self.merge(code=1))
        self.shards(4)
        whole = {p.name: p.read_bytes() for p in self.folder.glob("out_shard*")}

        def restore():
            for name, held in whole.items():
                (self.folder / name).write_bytes(held)

        second = "out_shard-2-of-4_locs.yaml"
        for told, spoil in (
                ("1 of 4 shards is not there, or not whole: --shard 2/4 (frames 10 to 19)",
                 lambda: [self.file(2, 4, end).unlink() for end in ENDS]),
                ("--shard 2/4 (frames 10 to 19), 3/4 (frames 20 to 29)",
                 lambda: [self.file(i, 4, "locs.yaml").unlink() for i in (2, 3)]),
                ("_locs.hdf5 has ", lambda: self.file(3, 4, "locs.hdf5").write_bytes(b"")),
                ("bytes, written were ", lambda: self.file(3, 4, "thunderstorm.csv").write_bytes(b"id,")),
                (f"{second}: Box Size is 11 here and 9 in ", lambda: self.edit(2, 4, "Box Size", 11)),
                (f"{second}: Generated by is driftfit 0.0.1 here", lambda: self.edit(2, 4, "Generated by", "driftfit 0.0.1")),
                (f"{second}: Frames is 41 here", lambda: self.edit(2, 4, "Frames", 41)),
                (f"{second}: File is /other.tif here", lambda: self.edit(2, 4, "File", "/other.tif")),
                (f"{second}: Back End is CUDA here", lambda: self.edit(2, 4, "Back End", "CUDA")),
                (f"{second}: Instruction Set is neon here", lambda: self.edit(2, 4, "Instruction Set", "neon")),
                ("_shard-1-of-4_locs.yaml, though the same values", lambda: self.edit(1, 4, "Back End", "CPU\n")),
                ("all with the same --instruction-set", lambda: self.edit(2, 4, "Instruction Set", "neon")),
                (f"{second}: has frames 12 to 19, where frame 10 comes next: the shards leave a gap",
                 lambda: self.edit(2, 4, "First Frame", 12)),
                (f"{second}: has frames 9 to 19, where frame 10 comes next: the shards overlap",
                 lambda: self.edit(2, 4, "First Frame", 9)),
                ("ends with frame 38, the stack with 39", lambda: self.edit(4, 4, "Last Frame", 38)),
                ("its description says 49", lambda: self.edit(3, 4, "Localizations", 49)),
                ("there are shards of 4 and of 5", lambda: self.shard(1, 5))):
            with self.subTest(told):
                spoil()
                said = self.merge(code=1)
                self.assertIn(told, said)
                self.assertFalse([n for n in self.names() if "shard" not in n])
                for file in self.folder.glob("out_shard*-of-5*"):
                    file.unlink()
                restore()
        self.merge()

    def test_files_in_another_order_are_another_stack(self):
        files = []
        for name, part in zip("abc", np.split(self.frames[:39], 3)):
            files.append(self.folder / f"stack.{name}.tif")
            files[-1].write_bytes(tiff_of(part, ""))
            os.utime(files[-1], (1e9, 1e9))
        a, b, c = files
        self.run_program(a, b, c, "--every-spot", "--shard", "1/2", "-o", self.out)
        self.run_program(a, c, b, "--every-spot", "--shard", "2/2", "-o", self.out)
        self.assertIn("Input Stamp is ", self.merge(code=1))

    def test_where_nothing_can_be_merged(self):
        self.assertIn(f"{self.folder}/none: cannot be searched for shards: No such file",
                      self.run_program("merge", "-o", self.folder / "none/out", code=1))
        self.assertIn("--output: is empty, allowed is the OUT of the shards", self.run_program("merge", "-o", "", code=2))

    def test_names_that_a_script_for_slurm_cannot_hold(self):
        for arguments, told in (([self.stack, "-o", f"{self.folder}/a\necho b"], "a line break where ? stands"),
                                ([self.folder / "a\nb", "-o", self.out], "a line break where ? stands"),
                                ([self.stack, "-o", f"{self.folder}/a\\b"], "slurm allows none")):
            with self.subTest(arguments):
                pathlib.Path(arguments[0]).touch()
                self.assertIn(told, self.run_program("slurm", "--shards", 2, arguments[0], "--every-spot", *arguments[1:], code=2))
        self.assertEqual(list(self.folder.glob("*_slurm.sh")), [])

    def test_results_that_were_spoilt_do_not_cost_the_shards(self):
        expected = self.one_run()
        self.shards(2)
        for end in ENDS:
            (self.folder / f"out_{end}").write_bytes(expected[end] if end == "locs.yaml" else expected[end][:-1])
        self.assertIn("exists already, and is not what the shards make; --overwrite replaces it", self.merge(code=3))
        self.assertEqual(len(self.names()), 9)
        self.merge("--overwrite")
        self.assert_merged(expected)

    def test_results_of_something_else_are_not_replaced(self):
        self.run_program(self.stack, "--every-spot", "--roi", 7, "-o", self.out)
        older = {end: (self.folder / f"out_{end}").read_bytes() for end in ENDS}
        self.shards(2, "--overwrite")
        self.assertIn("exists already, and is of something else: Box Size is 7 there and 9 in the shards; --overwrite replaces",
                      self.merge(code=3))
        (self.folder / "out_locs.yaml").unlink()
        self.assertIn("exists already, and is not what the shards make; --overwrite replaces it", self.merge(code=3))
        (self.folder / "out_locs.yaml").write_bytes(older["locs.yaml"])
        self.assertEqual(len(self.names()), 9)
        self.run_program(self.stack, "--every-spot", "--last-frame", 9, "-o", self.out, "--overwrite")
        self.assertIn("is of something else: frames 0 to 9; --overwrite", self.merge(code=3))
        self.merge("--overwrite")
        self.assert_merged(self.one_run())


class Killed(WithShards):
    def large(self, out, *more):
        """A run that takes longer than any test, once it writes."""
        file = self.folder / "stack.large.raw"
        with open(file, "wb") as large:
            large.truncate(400_000 * 256 * 256 * 2)  # sparse: frames without spots
        child = subprocess.Popen([PROGRAM, file, "--width", "256", "--height", "256", "--type", "u16", "--every-spot",
                                  "--threads", "1", "-o", out, *more], stderr=subprocess.DEVNULL)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        end = time.monotonic() + 60
        while len([n for n in self.names() if n.startswith(".")]) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        return child

    def test_what_a_killed_run_left_goes_with_the_next(self):
        child = self.large(self.out)
        living = [n for n in self.names() if n.startswith(".")]
        self.assertEqual(len(living), 3)
        self.run_program(self.stack, "--every-spot", "-o", self.out)  # leaves those of a run that goes on
        self.assertEqual([n for n in self.names() if n.startswith(".")], living)
        child.send_signal(signal.SIGKILL)
        child.wait()
        self.assertEqual([n for n in self.names() if n.startswith(".")], living)
        self.run_program(self.stack, "--every-spot", "-o", self.out, "--overwrite")
        self.assertEqual(self.names(), sorted(f"out_{end}" for end in ENDS))

    def test_nothing_is_merged_beside_a_shard_that_is_being_written(self):
        self.shards(2)
        child = self.large(self.out, "--shard", "1/3")
        self.assertIn("is being written by a driftfit that has not ended", self.merge(code=1))
        child.kill()
        child.wait()
        self.merge()
        self.assertEqual(self.names(), sorted(f"out_{end}" for end in ENDS))

    def test_a_reader_that_locks_a_shard_is_no_hindrance(self):
        self.shards(2)
        with open(self.file(2, 2, "locs.hdf5"), "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.merge()

    def test_a_merge_goes_on_from_wherever_it_was_killed(self):
        """Its own files get their names one after another, then the shards' go one after another."""
        n = 3
        expected = self.one_run()
        self.shards(n)
        shards = {(i, end): self.file(i, n, end).read_bytes() for i in range(1, n + 1) for end in ENDS}
        states = [(ENDS[:named], list(shards)) for named in range(4)]
        states += [(ENDS, list(shards)[gone:]) for gone in range(len(shards) + 1)]
        for named, left in states:
            with self.subTest(named=named, left=len(left)):
                for name in self.names():
                    (self.folder / name).unlink()
                for end in named:
                    (self.folder / f"out_{end}").write_bytes(expected[end])
                for i, end in left:
                    self.file(i, n, end).write_bytes(shards[i, end])
                self.merge()
                self.assert_merged(expected)
                self.assertIn("no shards are left to merge: ", self.merge())

    def test_a_shard_goes_on_from_wherever_it_was_killed(self):
        self.shards(2)
        held = {end: self.file(1, 2, end).read_bytes() for end in ENDS}
        for named in range(4):
            for end in ENDS:
                self.file(1, 2, end).unlink()
            for end in ENDS[:named]:
                self.file(1, 2, end).write_bytes(held[end])
            if named < 3:
                self.assertIn("--shard 1/2 (frames 0 to 19)", self.merge(code=1))
            self.assertEqual("already" in self.shard(1, 2), named == 3)
            self.assertEqual({end: self.file(1, 2, end).read_bytes() for end in ENDS}, held)


class OnGpu(WithShards):
    """Bits are those of one run on the GPU; against the CPU's fits they differ by rounding, and the spots found not at all."""

    def setUp(self):
        super().setUp()
        done = subprocess.run([PROGRAM, self.stack, "--every-spot", "--backend", "cuda", "-o", self.folder / "one"],
                              capture_output=True, text=True)
        if done.returncode == 4:
            self.skipTest("SKIPPED: " + done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)

    def rows(self):
        with h5py.File(self.folder / "one_locs.hdf5") as file:
            return file["locs"][:]

    def test_shards_of_a_gpu_make_what_its_one_run_makes(self):
        expected = {end: self.taken(f"one_{end}") for end in ENDS}
        self.assertIn("Back End: CUDA\n", expected["locs.yaml"].decode())
        self.shards(3, "--backend", "cuda")
        self.merge()
        self.assertEqual({end: self.taken(f"out_{end}") for end in ENDS}, expected)

    def test_spots_are_those_of_the_cpu_and_fits_agree(self):
        for more in [], ["--estimator", "poisson", "--gain", 0.46, "--offset", 100], ["--estimator", "weighted"], [
                "--search", "swarm"], ["--min-net-gradient", 300]:
            with self.subTest(more):
                rows = []
                for back_end in "cuda", "cpu":
                    said = self.run_program(self.stack, "--every-spot", "--overwrite", "--backend", back_end, "-o",
                                            self.folder / "one", *more)
                    rows.append((re.search(r"\d+ spots found", said)[0], self.rows()))
                self.assertEqual(rows[0][0], rows[1][0])
                gpu, cpu = rows[0][1], rows[1][1]
                np.testing.assert_array_equal(gpu[["frame", "net_gradient"]], cpu[["frame", "net_gradient"]])
                for axis in "xy":
                    self.assertLess((np.abs(gpu[axis] - cpu[axis]) / cpu[f"lp{axis}"]).max(), 0.05)


if __name__ == "__main__":
    unittest.main()
