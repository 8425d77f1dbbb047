# SPDX-License-Identifier: MIT
"""driftfit and recordings of several files: none of them is ever a result, and each of plain pixels is read as its own
description says."""
import json
import struct
import unittest

from driftfit_program import WithFolder, drifting, np, tiff_of


def ndtiff(folder, frames) -> None:
    """An NDTiff recording with a file for each frame, after github.com/micro-manager/NDTiffStorage."""
    index = b""
    for number, frame in enumerate(frames):
        name = f"nd_NDTiffStack{f'_{number}' if number else ''}.tif"
        head = struct.pack("<2sHIIIIII", b"II", 42, 8 + 20, 483729, 3, 3, 2355492, 0)
        height, width = frame.shape
        pixels_at = len(head) + 2 + 12 * 9 + 4
        entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1),
                   (273, 4, 1, pixels_at), (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, frame.nbytes)]
        directory = struct.pack("<H", 9) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
        (folder / name).write_bytes(head + directory + frame.astype("<u2").tobytes())
        axes = json.dumps({"time": number}).encode()
        index += struct.pack("<I", len(axes)) + axes + struct.pack("<I", len(name)) + name.encode()
        index += struct.pack("<8I", pixels_at, width, height, 1, 0, 0, 0, 0)
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


if __name__ == "__main__":
    unittest.main()
