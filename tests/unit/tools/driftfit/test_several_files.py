# SPDX-License-Identifier: MIT
"""driftfit and recordings of several files: none of them is ever a result, and each of plain pixels is read as its own
description says."""
import json
import struct
import unittest

from driftfit_program import WithFolder, drifting, np, tiff_of


def ndtiff(folder, frames, metadata=None) -> None:
    """An NDTiff recording with a file for each frame, after github.com/micro-manager/NDTiffStorage.
    `metadata`: JSON of each, behind its pixels."""
    index = b""
    for number, frame in enumerate(frames):
        name = f"nd_NDTiffStack{f'_{number}' if number else ''}.tif"
        head = struct.pack("<2sHIIIIII", b"II", 42, 8 + 20, 483729, 3, 3, 2355492, 0)
        height, width = frame.shape
        pixels_at = len(head) + 2 + 12 * 9 + 4
        entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1),
                   (273, 4, 1, pixels_at), (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, frame.nbytes)]
        directory = struct.pack("<H", 9) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
        text = metadata[number] if metadata else b""
        (folder / name).write_bytes(head + directory + frame.astype("<u2").tobytes() + text)
        axes = json.dumps({"time": number}).encode()
        index += struct.pack("<I", len(axes)) + axes + struct.pack("<I", len(name)) + name.encode()
        index += struct.pack("<8I", pixels_at, width, height, 1, 0, pixels_at + frame.nbytes, len(text), 0)
    (folder / "NDTiff.index").write_bytes(index)


class InputsAreKept(WithFolder):
    def refused(self, input_file, *arguments):
        before = input_file.read_bytes()
        text = self.run_program(*arguments, "--overwrite", code=3)
        self.assertIn(f"{input_file.name}: is an input", text)
        self.assertEqual(input_file.read_bytes(), before)

    def test_the_files_that_metadata_name(self):
        stack, _ = drifting(4)
        blocks = "".join(f'<TiffData FirstT="{2 * i}" IFD="0" PlaneCount="2"><UUID FileName="s_{i}.ome.tif">urn:uuid:{i}'
                         "</UUID></TiffData>" for i in range(2))
        files = [self.folder / f"s_{i}.ome.tif" for i in range(2)]
        for i, file in enumerate(files):
            file.write_bytes(tiff_of(stack[2 * i:2 * i + 2], f'<OME UUID="urn:uuid:{i}"><Image><Pixels '
                                     'DimensionOrder="XYCZT" SizeX="96" SizeY="96" SizeZ="1" SizeC="1" SizeT="4">'
                                     f"<Channel/>{blocks}</Pixels></Image></OME>"))
        self.assertIn("4 frames", self.run_program(files[0], "--drift", self.folder / "d.txt"))
        self.refused(files[1], files[0], "--drift", files[1])
        self.refused(files[0], files[1], "--drift", files[0])

    def test_the_files_of_a_folder(self):
        stack, _ = drifting(4)
        movie = self.folder / "movie"
        movie.mkdir()
        for i, frame in enumerate(stack):
            (movie / f"img_{i}.tif").write_bytes(tiff_of([frame], ""))
        self.refused(movie / "img_3.tif", movie, "--drift", movie / "img_3.tif")

    def test_an_ndtiff_recording_and_its_index(self):
        stack, _ = drifting(4)
        ndtiff(self.folder, stack)
        first = self.folder / "nd_NDTiffStack.tif"
        self.assertIn("4 frames", self.run_program(self.folder, "--drift", self.folder / "d.txt"))
        for name in "nd_NDTiffStack_1.tif", "NDTiff.index":
            for given in self.folder, first:
                self.refused(self.folder / name, given, "--drift", self.folder / name)

    def test_the_description_of_each_file(self):
        stack, _ = drifting(4)
        files = [self.write_raw(stack[2 * i:2 * i + 2], f"q_{i}.raw") for i in range(2)]
        for i in range(2):
            self.refused(self.folder / f"q_{i}.yaml", *files, "--picasso", self.folder / f"q_{i}.hdf5")


class PlainPixels(WithFolder):
    def setUp(self):
        super().setUp()
        self.stack, self.drift = drifting(40)
        self.files = [self.folder / f"q_{i}.raw" for i in range(2)]
        self.halves = [self.stack[:20], self.stack[20:]]

    def describe(self, i, **changes):
        keys = {"Width": 96, "Height": 96, "Frames": 20, "Data_Type": "uint16", "Byte_Order": "'<'"} | changes
        lines = [f"{key.replace('_', ' ')}: {value}\n" for key, value in keys.items() if value is not None]
        self.files[i].with_suffix(".yaml").write_text("".join(lines))

    def write(self, byte_order="<"):
        for i, file in enumerate(self.files):
            self.halves[i].astype(byte_order + "u2").tofile(file)
            self.describe(i, Byte_Order=f"'{byte_order}'")

    def check(self, *arguments):
        out = self.folder / "d.txt"
        for files in self.files, self.files[::-1]:
            said = self.run_program(*files, "--drift", out, "--overwrite", *arguments)
            self.assertIn("40 frames", said)
            self.assertLess(np.abs(np.loadtxt(out) - self.drift).max(), 0.04)

    def refusal(self, *arguments):
        texts = [self.run_program(*files, "--drift", self.folder / "none.txt", *arguments, code=1)
                 for files in (self.files, self.files[::-1])]
        self.assertFalse((self.folder / "none.txt").exists())
        return texts

    def test_any_file_may_have_the_description(self):
        for byte_order in "<", ">":
            for without in [], [0], [1]:
                self.write(byte_order)
                for i in without:
                    self.files[i].with_suffix(".yaml").unlink()
                self.check()
        self.write()
        for i in range(2):
            self.describe(i, **{"Height" if i else "Width": None})
        self.check()

    def test_descriptions_that_differ_are_refused_unless_told_otherwise(self):
        for key, value, told in (("Width", "48", ["--width", "96"]), ("Height", "48", ["--height", "96"]),
                                 ("Data_Type", "int16", ["--type", "uint16"]),
                                 ("Byte_Order", "'>'", ["--byte-order", "little"])):
            self.write()
            frames = {"Frames": None}
            self.describe(1, **{key: value}, **frames)
            said, usual = f"says {key.replace('_', ' ')} ", {"Data_Type": "uint16", "Byte_Order": "<"}.get(key, "96")
            first, second = self.refusal()
            self.assertRegex(first, f"q_1.yaml: {said}{value.strip(chr(39))}, .*q_0.yaml {said}{usual}: files of one")
            self.assertRegex(second, f"q_0.yaml: {said}{usual}, .*q_1.yaml {said}{value.strip(chr(39))}: files of one")
            self.check(*told)
        self.write(">")
        self.describe(1, Byte_Order=None)  # then the low byte comes first
        self.assertIn("Byte Order", self.refusal()[0])

    def test_the_frames_of_each_are_counted(self):
        for i in range(2):
            self.write()
            self.describe(i, Frames=19)
            for text in self.refusal():
                self.assertIn(f"q_{i}.raw: has 20 frames, its description says 19", text)
            self.describe(i, Frames=30)
            for text in self.refusal():
                self.assertIn(f"q_{i}.raw: is truncated: 20 of 30 frames are whole", text)
            self.check("--allow-truncated")


class TimesOfFiles(WithFolder):
    def said_of(self, *delays):
        """What is said of files that begin so late, by OME-XML, with a frame each 0.5 s."""
        stack, _ = drifting(4 * len(delays))
        files = []
        for i, delay in enumerate(delays):
            planes = "".join(f'<Plane TheC="0" TheZ="0" TheT="{t}" DeltaT="{delay + 0.5 * t}"/>' for t in range(4))
            files.append(self.folder / f"run_{i}.ome.tif")
            files[-1].write_bytes(tiff_of(stack[4 * i:4 * i + 4], '<OME><Image><Pixels DimensionOrder="XYCZT" SizeX="96" '
                                          'SizeY="96" SizeZ="1" SizeC="1" SizeT="4"><Channel/><TiffData/>' + planes
                                          + "</Pixels></Image></OME>"))
        return self.run_program(*files, "--drift", self.folder / "d.txt", "--drift-csv", self.folder / "d.csv", "--overwrite")

    def test_times_of_one_file_after_another_stand_beside_the_drift(self):
        self.said_of(0, 2, 4)
        heading, *rows = (self.folder / "d.csv").read_text().splitlines()
        self.assertEqual(heading.split(",")[:2], ["frame", "time_s"])
        self.assertEqual([float(row.split(",")[1]) for row in rows], [0.5 * i for i in range(12)])

    def test_times_that_go_back_between_two_files_are_told(self):
        self.assertNotIn("go back", self.said_of(0, 2, 4))
        said = self.said_of(10, 12, 0.25)
        self.assertIn("the times of frames go back by 13.25 s from run_1.ome.tif (its last: 13.5 s) to run_2.ome.tif "
                      "(its first: 0.25 s)", said)
        self.assertEqual(said.count("go back"), 1)

    def test_times_that_are_not_in_the_order_of_frames_are_told(self):
        stack, _ = drifting(6)
        file = self.folder / "s.ome.tif"
        planes = "".join(f'<Plane TheC="0" TheZ="0" TheT="{t}" DeltaT="{s}"/>' for t, s in enumerate((0, 1, 3, 2, 2, 1.5)))
        file.write_bytes(tiff_of(stack, '<OME><Image><Pixels DimensionOrder="XYCZT" SizeX="96" SizeY="96" SizeZ="1" SizeC="1" '
                                        f'SizeT="6"><Channel/><TiffData/>{planes}</Pixels></Image></OME>'))
        said = self.run_program(file, "--drift-csv", self.folder / "d.csv")
        self.assertIn("by the metadata 2 frames are earlier than what stands before, first frame 3 at 2 s behind one at 3 s", said)
        self.assertNotIn("earlier than", self.run_program(file, "--drift-csv", self.folder / "d.csv", "--last-frame", 2, "--overwrite"))

    def test_those_of_ndtiff_and_micro_manager(self):
        stack, _ = drifting(4)
        for i, folder in enumerate(("a", "b")):
            (self.folder / folder).mkdir()
            ndtiff(self.folder / folder, stack[2 * i:2 * i + 1], [b'{"ElapsedTime-ms": %d}' % (7000 if i == 0 else 250)])
            (self.folder / folder / "nd_NDTiffStack.tif").rename(self.folder / folder / f"nd_{i}.tif")
            index = self.folder / folder / "NDTiff.index"
            index.write_bytes(index.read_bytes().replace(struct.pack("<I", 18) + b"nd_NDTiffStack.tif",
                                                         struct.pack("<I", 8) + f"nd_{i}.tif".encode()))
        files = [self.folder / "a" / "nd_0.tif", self.folder / "b" / "nd_1.tif"]
        said = self.run_program(*files, "--drift", self.folder / "d.txt")
        self.assertIn("the times of frames go back by 6.75 s from nd_0.tif (its last: 7 s) to nd_1.tif (its first: 0.25 s)",
                      said)


if __name__ == "__main__":
    unittest.main()
