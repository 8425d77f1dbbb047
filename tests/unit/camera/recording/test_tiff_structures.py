# SPDX-License-Identifier: MIT
"""TIFF files in the structures that programs write, read as tifffile reads them: what tifffile writes itself (shaped,
ImageJ's, OME), NDTiff and MetaMorph's stacks by their descriptions. A file of several channels, positions in z or
positions is never taken for one movie of them all."""
import json
import os
import pathlib
import random
import struct
import sys
import unittest

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


def metamorph(frames, distance=0, wavelengths=None) -> bytes:
    count, pixels_at = len(frames), 4096
    uic2 = b"".join(struct.pack("<6I", distance, 1, 2459000, 1000 * i, 2459000, 1000 * i) for i in range(count))
    uic3 = b"".join(struct.pack("<2I", wavelengths[i] if wavelengths else 1, 1) for i in range(count))
    tail_at = pixels_at + frames.nbytes
    uic1_at = tail_at + len(uic2) + len(uic3)
    entries = tags_of(frames[0], pixels_at, [(33628, 4, 1, struct.pack("<I", uic1_at)),
                                             (33629, 5, count, struct.pack("<I", tail_at)),
                                             (33630, 5, count, struct.pack("<I", tail_at + len(uic2)))])
    head = struct.pack("<2sHI", b"II", 42, 8) + directory(entries, 8, lambda behind: 0)
    return head.ljust(pixels_at, b"\0") + frames.tobytes() + uic2 + uic3 + bytes(8)


class WithTiff(WithFolder):
    def same(self, expected, *arguments):
        frames, notes = self.read(*arguments)
        np.testing.assert_array_equal(frames, expected)
        return notes


class Shaped(WithTiff):
    def test_channels_are_never_merged(self):
        data = planes((20, 2, 12, 11))
        file = self.folder / "s.tif"
        tifffile.imwrite(file, data, metadata={"axes": "TCYX"}, photometric="minisblack")
        self.assertIn("has 2 channels: 0, 1; choose one by the option channel", self.refusal(file))
        for channel in range(2):
            self.same(data[:, channel], "--channel", channel, file)
        tifffile.imwrite(file, data, photometric="minisblack")
        self.assertRegex(self.refusal(file), r"axis Q at place 0 of its shape \(20\), .* \(2\)")
        self.same(data.reshape(40, 12, 11), "--every-page", file)

    def test_a_truncated_file_has_all_its_images(self):
        data = planes((40, 12, 11))
        file = self.folder / "s.tif"
        tifffile.imwrite(file, data, truncate=True, photometric="minisblack", metadata={"axes": "TYX"})
        with tifffile.TiffFile(file) as tiff:
            self.assertEqual(len(tiff.pages), 1)
        self.same(data, file)
        whole = file.read_bytes()
        file.write_bytes(whole[:-12 * 11 * 2 * 3])
        self.assertIn("is truncated: 37 of 40 frames are whole", self.refusal(file))
        self.same(data[:37], "--allow-truncated", file)

    def test_frames_written_one_by_one_are_frames(self):
        data = planes((9, 12, 11))
        file = self.folder / "s.tif"
        with tifffile.TiffWriter(file) as out:
            for frame in data:
                out.write(frame, photometric="minisblack", contiguous=False)
        with tifffile.TiffFile(file) as tiff:
            self.assertEqual(len(tiff.series), 9)
        self.same(data, file)
        self.same(data[4:5], "--series", 4, file)

    def test_one_of_several_arrays_is_chosen(self):
        data = planes((5, 12, 11)), planes((3, 2, 12, 11), seed=2)
        file = self.folder / "s.tif"
        with tifffile.TiffWriter(file) as out:
            out.write(data[0], photometric="minisblack", metadata={"axes": "TYX"})
            out.write(data[1], photometric="minisblack", metadata={"axes": "TCYX"})
        self.assertIn("has 2 series: 0, 1", self.refusal(file))
        self.same(data[0], "--series", 0, file)
        self.same(data[1][:, 1], "--series", 1, "--channel", 1, file)

    def test_a_description_of_another_shape_is_refused(self):
        file = self.folder / "s.tif"
        tifffile.imwrite(file, planes((6, 12, 11)), photometric="minisblack", metadata=None,
                         description=json.dumps({"shape": [6, 12, 12]}))
        self.assertIn("names an array of 6 x 12 x 12, page 0 is 11 x 12 px", self.refusal(file))
        tifffile.imwrite(file, planes((6, 12, 11)), photometric="minisblack", metadata=None,
                         description=json.dumps({"shape": [8, 12, 11], "axes": "TYX"}))
        self.assertIn("is truncated: 6 of 8 frames are whole", self.refusal(file))

    def test_no_number_of_images_is_too_large_to_be_refused(self):
        file = self.folder / "s.tif"
        for shape, said in (([10**8, 12, 11], "name 100000000 images"), ([2**40, 2**20, 12, 11], "another|names an array"),
                            ([-4, 12, 11], "names an array"), ([0, 12, 11], "names an array")):
            tifffile.imwrite(file, planes((1, 12, 11)), photometric="minisblack", metadata=None,
                             description=json.dumps({"shape": shape}))
            self.assertRegex(self.refusal(file), said)
        data = planes((2, 12, 11))
        file.write_bytes(metamorph(data).replace(struct.pack("<HHI", 33629, 5, 2), struct.pack("<HHI", 33629, 5, 2**31 + 7)))
        self.assertIn("name 2147483655 images", self.refusal(file))

    def test_random_files(self):
        for seed in range(RANDOM_FILES):
            chance = random.Random(seed)
            axes = "".join(chance.sample("TZCP", chance.randint(0, 4))) + "YX"
            shape = tuple(chance.choice([1, 2, 3, 5]) for _ in axes[:-2]) + (chance.randint(9, 20), chance.randint(9, 20))
            dtype = chance.choice(["uint8", "uint16", "int16", "float32"])
            options = {"bigtiff": chance.random() < 0.3, "byteorder": chance.choice("<>"),
                       "photometric": "minisblack", "metadata": {"axes": axes}}
            packed = chance.choice([None, None, "zlib"])
            if packed:
                options["compression"] = packed
            elif chance.random() < 0.3:
                options["truncate"] = True
            elif chance.random() < 0.5:
                options["rowsperstrip"] = 4
            if chance.random() < 0.3:
                options["description"] = "of the user"
            with self.subTest(seed=seed, axes=axes, shape=shape, dtype=dtype, options=options):
                file = self.folder / f"{seed}.tif"
                data = planes(shape, dtype, seed)
                if dtype == "int16":
                    data -= 100
                tifffile.imwrite(file, data, **options)
                self.choose_all(file, tifffile.imread(file).reshape(shape), axes)

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


class ImageJ(WithTiff):
    def test_signed_words_are_what_imagej_shows(self):
        data = planes((5, 12, 11), np.int16) - np.int16(100)
        file = self.folder / "s.tif"
        stored = (data.astype(np.int32) + 32768).astype(np.uint16)
        tifffile.imwrite(file, stored, imagej=True, metadata={
            "axes": "TYX", "cf": 0, "c0": -32768.0, "c1": 1.0, "vunit": "Gray Value"})
        frames, _ = self.read(file)
        self.assertEqual(frames.dtype, np.float32)
        np.testing.assert_array_equal(frames, data)
        tifffile.imwrite(file, stored, imagej=True, metadata={"axes": "TYX", "cf": 0, "c0": -1.0, "c1": 2.0})
        self.same(stored, file)

    def test_words_with_a_sign(self):
        data = planes((5, 12, 11), np.int16) - np.int16(100)
        file = self.folder / "s.tif"
        tifffile.imwrite(file, data, photometric="minisblack", metadata=None)
        self.same(data, file)
        tifffile.imwrite(file, data, photometric="minisblack", metadata=None, byteorder=">", compression="zlib")
        self.same(data, file)

    def test_numbers_of_channels_that_contradict_are_refused(self):
        file = self.folder / "s.tif"
        tifffile.imwrite(file, planes((6, 12, 11)), photometric="minisblack", metadata=None,
                         description="ImageJ=1.54f\nimages=6\nchannels=4\nframes=2\n")
        self.assertIn("has 6 images, its description says 4 channels, 1 slice and 2 frames", self.refusal(file))
        self.read("--every-page", file)

    def test_random_hyperstacks(self):
        for seed in range(RANDOM_FILES // 2):
            chance = random.Random(seed)
            shape = tuple(chance.choice([1, 2, 3]) for _ in "TZC") + (12, 11)
            with self.subTest(seed=seed, shape=shape):
                file = self.folder / f"{seed}.tif"
                data = planes(shape, chance.choice(["uint8", "uint16", "float32"]), seed)
                tifffile.imwrite(file, data, imagej=True, metadata={"axes": "TZCYX"}, truncate=chance.random() < 0.5)
                Shaped.choose_all(self, file, data, "TZCYX")


class Ome(WithTiff):
    def test_random_files(self):
        for seed in range(RANDOM_FILES // 2):
            chance = random.Random(seed)
            axes = "".join(chance.sample("TZC", 3)) + "YX"
            shape = tuple(chance.choice([1, 2, 3]) for _ in "TZC") + (12, 11)
            with self.subTest(seed=seed, axes=axes, shape=shape):
                file = self.folder / f"{seed}.ome.tif"
                data = planes(shape, chance.choice(["uint8", "uint16", "int16", "float32"]), seed)
                tifffile.imwrite(file, data, ome=True, photometric="minisblack", metadata={"axes": axes})
                Shaped.choose_all(self, file, data, axes)


    def write(self, name, frames, uuid, more):
        text = f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{uuid}">{more}</OME>'
        tifffile.imwrite(self.folder / name, frames, photometric="minisblack", metadata=None, description=text)
        return self.folder / name

    @staticmethod
    def image(frames, blocks):
        return ('<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" SizeX="11" SizeY="12" SizeZ="1" SizeC="1" '
                f'SizeT="{frames}" Type="uint16"><Channel ID="Channel:0"/>' + "".join(
                    f'<TiffData FirstT="{t}" IFD="{page}" PlaneCount="1"><UUID FileName="{name}">{uuid}</UUID></TiffData>'
                    for t, page, name, uuid in blocks) + "</Pixels></Image>")

    def test_metadata_in_a_companion_file(self):
        data = planes((6, 12, 11))
        binary = '<BinaryOnly MetadataFile="m.companion.ome" UUID="urn:uuid:0"/>'
        a, b = self.write("a.ome.tif", data[:4], "urn:uuid:1", binary), self.write("b.ome.tif", data[4:], "urn:uuid:2", binary)
        self.assertIn("their metadata are in m.companion.ome: bring it beside this one", self.refusal(a))
        order = [3, 5, 0, 1, 4, 2]
        blocks = [(t, i % 4, "ab"[i // 4] + ".ome.tif", f"urn:uuid:{1 + i // 4}") for t, i in enumerate(order)]
        companion = self.folder / "m.companion.ome"
        companion.write_text(f'<?xml version="1.0"?><OME UUID="urn:uuid:0">{self.image(6, blocks)}</OME>', encoding="utf-8")
        for files in [a], [b], [a, b], [self.folder]:
            self.same(data[order], *files)
        self.assertIn("is XML, which is not read here: of OME's companion files name one of the TIFFs", self.refusal(companion))
        b.unlink()
        self.assertIn("1 of 6 frames is whole (its metadata name b.ome.tif, which is not in its folder)", self.refusal(a))

    def test_a_file_of_another_recording_is_told(self):
        data = planes((6, 12, 11))
        blocks = [(t, t % 3, "ab"[t // 3] + ".ome.tif", f"urn:uuid:{1 + t // 3}") for t in range(6)]
        a = self.write("a.ome.tif", data[:3], "urn:uuid:1", self.image(6, blocks))
        for uuid in "urn:uuid:2", "urn:uuid:77":
            self.write("b.ome.tif", data[3:], uuid, self.image(6, blocks))
            notes = self.same(data, a)
            told = "1 file of its recording, b.ome.tif, has another UUID than its metadata say" in notes
            self.assertEqual(told, uuid.endswith("77"), notes)

    def test_axes_beside_time_are_not_taken_for_time(self):
        file = self.folder / "s.ome.tif"
        data = planes((3, 2, 12, 11))
        tifffile.imwrite(file, data, photometric="minisblack", metadata={"axes": "TRYX"})
        self.assertRegex(self.refusal(file), r"along time are at the same time along another axis \(ModuloAlongT: tile\), .*every_page")
        self.same(data.reshape(6, 12, 11), "--every-page", file)
        tifffile.imwrite(file, data, photometric="minisblack", metadata={"axes": "EZYX"})
        self.assertIn("its frames are along lambda", self.same(data[:, 1], "--slice", 1, file))
        tifffile.imwrite(file, data, photometric="minisblack", metadata={"axes": "ZRYX"})
        self.assertIn("ModuloAlongZ", self.refusal(file))


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
                Shaped.choose_all(self, file, data, letters + "YX")


class MetaMorph(WithTiff):
    def test_all_planes_of_a_stack_are_read(self):
        for distance in (0, 1):
            data = planes((40, 12, 11))
            file = self.folder / "s.stk"
            file.write_bytes(metamorph(data, distance))
            self.assertEqual(tifffile.imread(file).shape, data.shape)
            self.same(data, file)
        file.write_bytes(metamorph(data)[:4096 + 12 * 11 * 2 * 30 + 5])
        self.assertIn("is truncated: 30 of 40", self.refusal(file))

    def test_wavelengths_are_channels(self):
        data = planes((10, 12, 11))
        file = self.folder / "s.stk"
        file.write_bytes(metamorph(data, 0, [488, 561] * 5))
        self.assertIn("has 2 channels: 0 (488.0), 1 (561.0)", self.refusal(file))
        self.same(data[1::2], "--channel", 1, file)


class Others(WithTiff):
    def test_a_chain_of_pages_that_goes_back_is_told(self):
        data = planes((6, 12, 11))
        for big in False, True:
            for back in 0, 3, 5:
                with self.subTest(big=big, back=back):
                    file = self.folder / "s.tif"
                    tifffile.imwrite(file, data, photometric="minisblack", metadata=None, bigtiff=big)
                    whole = bytearray(file.read_bytes())
                    with tifffile.TiffFile(file) as read:
                        places = [page.offset for page in read.pages]
                    head, each, form = (8, 20, "<Q") if big else (2, 12, "<I")
                    entries, = struct.unpack_from("<Q" if big else "<H", whole, places[-1])
                    struct.pack_into(form, whole, places[-1] + head + each * entries, places[back])
                    file.write_bytes(whole)
                    text = f"page 5 says that the next begins at byte {places[back]}, where page {back} is"
                    self.assertIn(text, self.refusal(file))
                    self.assertIn("6 whole frames", self.refusal(file))
                    self.assertIn(text, self.same(data, "--allow-truncated", file))

    def test_pages_of_few_pixels_hide_no_others(self):
        data = planes((10, 16, 16))
        for hidden in 0, 2, 10:
            out, link = bytearray(struct.pack("<2sHI", b"II", 42, 0)), 4
            for frame in data:
                at = len(out)
                struct.pack_into("<I", out, link, at)
                entries = tags_of(frame, 0)
                size = len(directory(entries, at, lambda behind: 0))
                out += directory(tags_of(frame, at + size), at, lambda behind: 0)
                link = at + 2 + 12 * len(entries)
                out += frame.tobytes() * (1 + hidden)
            file = self.folder / "s.tif"
            file.write_bytes(out)
            if hidden == 0:
                self.same(data, file)
            else:
                self.assertIn("it may hold images that no page tells of", self.refusal(file))

    def test_pixels_behind_the_only_page_are_noticed(self):
        data = planes((10, 60, 50))
        file = self.folder / "s.tif"
        head = struct.pack("<2sHI", b"II", 42, 8) + directory(tags_of(data[0], 4096), 8, lambda behind: 0)
        file.write_bytes(head.ljust(4096, b"\0") + data.tobytes())
        self.assertRegex(self.refusal(file), r"has \d+ bytes, and its 1 page .* need \d+: it may hold images")
        self.same(data[:1], "--every-page", file)
        # A page alone has little beside its pixels.
        file.write_bytes(head.ljust(4096, b"\0") + data[:1].tobytes())
        big = self.folder / "big.tif"
        tifffile.imwrite(big, planes((300, 200)), photometric="minisblack", metadata=None, description="x" * 300000)
        self.same(planes((1, 300, 200)), big)
        entries = [entry if entry[0] != 279 else (279, 4, 1, data.nbytes) for entry in tags_of(data[0], 4096)]
        head = struct.pack("<2sHI", b"II", 42, 8) + directory(entries, 8, lambda behind: 0)
        file.write_bytes(head.ljust(4096, b"\0") + data.tobytes())
        self.assertIn("its first page has 60000 bytes of pixels, 50 x 60 px of uint16 need 6000", self.refusal(file))

    def test_pages_of_micro_manager_without_ome_xml(self):
        data = planes((5, 2, 12, 11))
        file = self.folder / "s.tif"
        with tifffile.TiffWriter(file) as out:
            for t, c in np.ndindex(5, 2):
                text = json.dumps({"FrameIndex": t, "ChannelIndex": c, "SliceIndex": 0, "Channel": ["GFP", "Cy5"][c]})
                out.write(data[t, c], photometric="minisblack", metadata=None, contiguous=False,
                          extratags=[(51123, 2, None, text, True)])
        self.assertIn("has 2 channels: 0 (GFP), 1 (Cy5)", self.refusal(file))
        self.same(data[:, 1], "--channel", 1, file)
        self.assertEqual([json.loads(text)["FrameIndex"] for text in self.metadata("--channel", 1, file)], list(range(5)))

    def test_pages_of_micro_manager_that_do_not_say_where_they_stand_are_refused(self):
        data = planes((6, 12, 11))
        file = self.folder / "s.tif"
        for silent in ([0], [3], [5], [3, 4]):
            for instead in None, "{}", '{"Fra':
                for channels in 1, 2:
                    with tifffile.TiffWriter(file) as out:
                        for i, frame in enumerate(data):
                            text = json.dumps({"FrameIndex": i // channels, "ChannelIndex": i % channels})
                            text = instead if i in silent else text
                            out.write(frame, photometric="minisblack", metadata=None, contiguous=False,
                                      extratags=[(51123, 2, None, text, True)] if text else [])
                    said = self.refusal(file)
                    self.assertIn(f"page {silent[0]}" + (" (and 1 more)" if silent[1:] else "") + " of its 6 pages does not "
                                  "say which frame it is, as Micro-Manager's JSON (tag 51123) of the others does; the option", said)
                    self.same(data, "--every-page", file)

    def test_images_of_less_resolution_are_no_frames(self):
        data = planes((6, 12, 11))
        file = self.folder / "s.tif"

        def write(pages):
            """Pages, and whether each is a thumbnail by its tag."""
            with tifffile.TiffWriter(file) as out:
                for page, small in pages:
                    out.write(page, photometric="rgb" if page.ndim > 2 else "minisblack", metadata=None, contiguous=False,
                              subfiletype=int(small))

        small, colours = data[0, ::2, ::2], np.zeros((6, 5, 3), np.uint8)
        for pages in ([(small, True), *((frame, False) for frame in data)], [(colours, True), *((frame, False) for frame in data)],
                      [*((frame, False) for frame in data), (small, True)],
                      [page for frame in data for page in ((frame, False), (frame[::2, ::2], True))],
                      [page for frame in data for page in ((frame, False), (frame // 2, True))]):
            write(pages)
            self.same(data, file)
            self.same(data, "--every-page", file)
        write([(frame, False) for frame in data] + [(small, False)])
        self.assertIn("page 6: is 6 x 6 uint16, page 0 is 11 x 12 uint16", self.refusal(file))

    def test_doubles_are_read_as_floats(self):
        data = np.random.default_rng(1).normal(100, 3, (5, 40, 37))
        file = self.folder / "s.tif"
        for options in ({}, {"byteorder": ">", "compression": "zlib"}, {"tile": (16, 16)}, {"rowsperstrip": 7}):
            tifffile.imwrite(file, data, photometric="minisblack", **options)
            self.same(data.astype(np.float32), file)
        tifffile.imwrite(file, data, photometric="minisblack", truncate=True)
        self.assertIn("of 64 bits a pixel: how they are laid out is not known", self.refusal(file))

    def test_what_is_not_grey_says_what_it_is(self):
        file = self.folder / "s.tif"
        byte = np.uint8
        for pixels, options, text in (
                (planes((12, 11, 3), byte), {"photometric": "rgb"}, "3 samples a pixel, as colour images have"),
                (planes((3, 12, 11)), {}, "as tifffile writes 3 or 4 frames unless photometric='minisblack'"),
                (planes((12, 11), byte), {"photometric": "miniswhite"}, "0 is white in it"),
                (planes((12, 11), byte), {"photometric": "palette", "colormap": np.zeros((3, 256), np.uint16)},
                 "numbers of colours in a palette"),
                (planes((12, 11), np.int32), {}, "32-bit pixels of sample format 2; allowed are")):
            tifffile.imwrite(file, pixels, metadata=None, **options)
            self.assertIn(text, self.refusal(file))

    def test_a_page_that_does_not_say_what_0_is_has_black_there(self):
        data = planes((2, 12, 11))
        entries = [entry for entry in tags_of(data[0], 4096) if entry[0] != 262]
        file = self.folder / "s.tif"
        head = struct.pack("<2sHI", b"II", 42, 8) + directory(entries, 8, lambda behind: 0)
        file.write_bytes(head.ljust(4096, b"\0") + data[0].tobytes())
        self.same(data[:1], file)

    def test_scanimage_saves_channels_in_turn(self):
        data = planes((10, 12, 11), np.int16)
        file = self.folder / "s.tif"
        tifffile.imwrite(file, data, photometric="minisblack", metadata=None, description="frameNumbers = 1\n",
                         software="SI.VERSION_MAJOR = 5\nSI.hChannels.channelSave = [1;2]\nSI.x = 3\n")
        self.assertIn("has 2 channels", self.refusal(file))
        self.same(data[0::2], "--channel", 0, file)

    def test_what_is_recognised_and_not_read_is_refused(self):
        file = self.folder / "s.tif"
        tifffile.imwrite(file, planes((6, 12, 11)), photometric="minisblack", metadata=None,
                         extratags=[(34412, 1, 4, b"\0\0\0\0", True)])
        self.assertIn("is a Zeiss LSM file (tag 34412)", self.refusal(file))
        tifffile.imwrite(file, planes((4, 16, 16, 16)), photometric="minisblack", volumetric=True, tile=(16, 16, 16))
        self.assertIn("have 16 slices each (tag 32997)", self.refusal(file))


if __name__ == "__main__":
    unittest.main()
