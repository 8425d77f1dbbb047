# SPDX-License-Identifier: MIT
"""Recordings of NDTiff, written by its description: their images, axes, times and index, read as tifffile reads them."""
import json
import pathlib
import random
import struct
import unittest

from stack_reader import np
from tiff_files import RANDOM_FILES, WithTiff, directory, planes, tags_of, tifffile


class NdTiffWriter:
    """github.com/micro-manager/NDTiffStorage: header with 483729, for each image its directory, pixels and JSON, and an index."""

    def __init__(self, folder: pathlib.Path, name="nd"):
        self.folder, self.name = folder, name
        self.index, self.files = b"", 0
        self.links, self.out = None, b""

    def begin_file(self):
        self.end_file()
        self.file = f"{self.name}_NDTiffStack{f'_{self.files}' if self.files else ''}.tif"
        self.files += 1
        summary = b'{"Prefix":"nd"}'
        self.out = bytearray(struct.pack("<2sHIIIIII", b"II", 42, 0, 483729, 3, 3, 2355492, len(summary)) + summary)
        self.out += b"\0" * (len(self.out) % 2)
        self.link = 4

    def end_file(self):
        if self.files:
            (self.folder / self.file).write_bytes(self.out)

    def add(self, axes: dict, frame):
        text = json.dumps({"Axes": axes, "ElapsedTime-ms": 10.0 * len(self.index)}).encode()
        at = len(self.out)
        size = len(directory(tags_of(frame, 0, [(51123, 2, len(text), b"")]), 0, lambda behind: 0))
        pixels_at = at + size
        metadata_at = pixels_at + frame.nbytes
        kind = {1: 0, 2: 1}[frame.itemsize]
        entries = tags_of(frame, pixels_at, [(51123, 2, len(text), struct.pack("<I", metadata_at))])
        struct.pack_into("<I", self.out, self.link, at)
        self.out += directory(entries, at, lambda behind: 0) + frame.tobytes() + text + b"\0"
        self.out += b"\0" * (len(self.out) % 2)
        self.link = at + 2 + 12 * len(entries)
        said, name = json.dumps(axes).encode(), self.file.encode()
        height, width = frame.shape
        self.index += struct.pack("<I", len(said)) + said + struct.pack("<I", len(name)) + name + struct.pack(
            "<8I", pixels_at, width, height, kind, 0, metadata_at, len(text), 0)

    def close(self):
        self.end_file()
        (self.folder / "NDTiff.index").write_bytes(self.index)


class NdTiff(WithTiff):
    def written(self, data, axes, per_file=10**9, leave_out=(), value=None):
        """A recording whose axes but the last two are named so; images in a random order of files."""
        writer = NdTiffWriter(self.folder)
        for number, index in enumerate(np.ndindex(data.shape[:-2])):
            if number % per_file == 0:
                writer.begin_file()
            if index not in leave_out:
                writer.add({axis: value(axis, i) if value else i for axis, i in zip(axes, index)}, data[index])
        writer.close()
        return self.folder / "nd_NDTiffStack.tif"

    def test_channels_are_chosen_by_number_and_shown_by_name(self):
        data = planes((20, 2, 12, 11))
        names = ["Fiducials", "Dye"]
        file = self.written(data, ("time", "channel"), value=lambda axis, i: names[i] if axis == "channel" else i)
        self.assertEqual(tifffile.imread(file).shape, data.shape)
        self.assertIn("has 2 channels: 0 (Fiducials), 1 (Dye)", self.refusal(file))
        for channel in range(2):
            notes = self.same(data[:, channel], "--channel", channel, file)
            self.assertIn(f"channel {channel} ({names[channel]})", notes)
        self.same(data[:, 1], "--channel", 1, self.folder)
        self.assertIn("has 2 channels", self.refusal("--channel", 2, file))
        self.same(data.reshape(40, 12, 11), "--every-page", self.folder)

    def test_all_files_are_read_whichever_is_named(self):
        data = planes((40, 12, 11), np.uint8)
        file = self.written(data, ("time",), per_file=25)
        self.same(data, file)
        self.same(data, self.folder / "nd_NDTiffStack_1.tif")
        self.same(data, self.folder)
        self.same(data, file, self.folder / "nd_NDTiffStack_1.tif")
        (self.folder / "nd_NDTiffStack_1.tif").unlink()
        self.assertRegex(self.refusal(file), r"is truncated: 25 of 40 .*\(nd_NDTiffStack_1.tif, which its index names, is not")
        self.same(data[:25], "--allow-truncated", file)

    def test_its_metadata_can_be_had(self):
        file = self.written(planes((6, 2, 12, 11)), ("time", "channel"), per_file=5)
        for time, text in enumerate(self.metadata("--channel", 1, file)):
            self.assertEqual(json.loads(text)["Axes"], {"time": time, "channel": 1})

    def test_times_as_text_or_floats_are_in_their_order(self):
        data = planes((12, 12, 11))
        order = np.random.default_rng(3).permutation(12)
        for kind in (str, float, lambda t: f"{t:03d}", lambda t: t / 4, lambda t: str(t / 4)):
            for old in self.folder.iterdir():
                old.unlink()
            file = self.written(data[order], ("time",), value=lambda axis, i: kind(int(order[i])))
            self.same(data, file)
        for old in self.folder.iterdir():
            old.unlink()
        file = self.written(np.stack([data, data], 1), ("time", "channel"), value=lambda axis, i: ["561", "488"][i]
                            if axis == "channel" else i)
        self.assertIn("0 (561), 1 (488)", self.refusal(file))  # names stay in the order they came

    def test_names_of_times_are_ordered_by_their_numbers_or_told(self):
        data = planes((6, 12, 11))
        for names, order in ((["t25", "t3", "t100", "t1", "t50", "t7"], [3, 1, 5, 0, 4, 2]),
                             (["12.5s", "0.5s", "2.25s", "100s", "2.5s", "50s"], [1, 2, 4, 0, 5, 3]),
                             (["2,5", "0,5", "2,25", "10,5", "7,0", "-1,5"], [5, 1, 2, 0, 4, 3]),
                             ([f"2026-11-29 10:00:{s}" for s in ("03", "01", "02.5", "00", "12", "04")], [3, 1, 2, 0, 5, 4]),
                             ([" 10", "9 ", "1", "2", "3", " 0 "], [5, 2, 3, 4, 1, 0]),
                             (["before", "after", "t3", "t1", "t2", "x"], None),
                             (["t1s", "t2s", "t1min", "t2min", "t1h", "t2h"], None),
                             ([3, 1, "wash", 0, 2, "end"], [3, 1, 4, 0, 2, 5])):
            for axis in "time", "frame":
                for old in self.folder.iterdir():
                    old.unlink()
                file = self.written(data, (axis,), value=lambda _, i: names[i])
                notes = self.same(data if order is None else data[order], file)
                told = f"has images whose {axis} is a name (" in notes
                self.assertEqual(told, order is None or "wash" in names, notes)
                if order is None:
                    self.assertIn("in the order in which the file has them", notes)

    def test_what_is_missing_is_told(self):
        data = planes((12, 12, 11))
        file = self.written(data, ("time",), leave_out=[(3,), (7,), (8,)])
        notes = self.same(data[[0, 1, 2, 4, 5, 6, 9, 10, 11]], file)
        self.assertIn("has no image of time 3, 7 to 8", notes)

    def test_a_file_without_its_index_is_refused(self):
        data = planes((12, 12, 11))
        file = self.written(data, ("time",))
        index = self.folder / "NDTiff.index"
        whole = index.read_bytes()
        index.write_bytes(whole[:-20])
        self.assertIn("its index breaks off", self.refusal(file))
        self.same(data[:-1], "--allow-truncated", file)
        index.write_bytes(whole.replace(b"nd_NDTiffStack", b"xx_NDTiffStack"))
        self.assertIn("is not named by the NDTiff.index beside it", self.refusal(file))
        index.unlink()
        self.assertIn("whose index NDTiff.index is not beside it", self.refusal(file))
        self.same(data, "--every-page", file)

    def test_random_recordings(self):
        for seed in range(RANDOM_FILES):
            chance = random.Random(seed)
            letters = "".join(chance.sample("TZCP", chance.randint(1, 4)))
            shape = tuple(chance.choice([1, 2, 3]) for _ in letters) + (12, 11)
            named = chance.random() < 0.5
            per_file = chance.choice([2, 5, 100])
            with self.subTest(seed=seed, axes=letters, shape=shape, named=named, per_file=per_file):
                for old in self.folder.iterdir():
                    old.unlink()
                data = planes(shape, chance.choice(["uint8", "uint16"]), seed)
                names = [dict(T="time", Z="z", C="channel", P="position")[letter] for letter in letters]
                file = self.written(data, names, per_file, value=lambda axis, i: f"{axis} {i}"
                                    if named and axis in ("channel", "position") else i)
                whole = tifffile.imread(file)
                np.testing.assert_array_equal(whole.ravel(), data.ravel())  # the writer writes NDTiff
                self.choose_all(file, data, letters + "YX")


if __name__ == "__main__":
    unittest.main()
