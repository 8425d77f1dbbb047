# SPDX-License-Identifier: MIT
"""TIFF files in the structures that programs write, read as tifffile reads them: what tifffile writes itself (shaped,
ImageJ's, OME), and MetaMorph's stacks by their description. A file of several channels, positions in z or
positions is never taken for one movie of them all."""
import json
import random
import struct
import unittest

from stack_reader import np
from tiff_files import RANDOM_FILES, WithTiff, directory, planes, tags_of, tifffile


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
                self.choose_all(file, data, "TZCYX")


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
                self.choose_all(file, data, axes)


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
