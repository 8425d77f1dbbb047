# SPDX-License-Identifier: MIT
"""What a file says of its pixels that changes what they are worth is told: compressions that lose, images that are stored
the other way round, a scale that is not applied."""
import sys
import unittest

from stack_reader import WithFolder, np

try:
    import h5py
    import tifffile
    from PIL import Image
except ImportError:
    print("SKIPPED: python3-h5py, python3-tifffile or python3-pil is not installed")
    sys.exit(0)


def movie(frames, height, width, kind=np.uint8):
    return np.random.default_rng(frames).integers(0, 200, (frames, height, width)).astype(kind)


class Tiff(WithFolder):
    def by_pillow(self, data, **how):
        first, *more = [Image.fromarray(frame) for frame in data]
        first.save(self.folder / "s.tif", save_all=True, append_images=more, **how)
        return self.read(self.folder / "s.tif")

    def test_compressions_that_lose(self):
        data = movie(3, 24, 21)
        frames, notes = self.by_pillow(data, compression="jpeg", quality=75)
        self.assertFalse(np.array_equal(frames, data))
        self.assertEqual(frames.shape, data.shape)
        self.assertIn("its pixels are packed by JPEG (compression 7), which loses: what is left of the noise", notes)
        for compression in "tiff_lzw", "tiff_adobe_deflate", "packbits", "raw":
            frames, notes = self.by_pillow(data, compression=compression)
            np.testing.assert_array_equal(frames, data)
            self.assertEqual(notes, "", compression)

    def test_images_that_are_stored_otherwise(self):
        data = movie(3, 24, 21, np.uint16)
        file = self.folder / "s.tif"
        for orientation, text in ((1, None), (2, "from right to left (Orientation 2)"), (4, "the last row first (Orientation 4)"),
                                  (6, "as columns from right to left (Orientation 6)"), (0, None), (9, None)):
            for how in {"metadata": None}, {"truncate": True}, {"imagej": True, "metadata": {"axes": "TYX"}}:
                tifffile.imwrite(file, data, **({} if "imagej" in how else {"photometric": "minisblack"}), **how,
                                 extratags=[(274, "H", 1, orientation, True)])
                frames, notes = self.read(file)
                np.testing.assert_array_equal(frames, data)
                if text is None:
                    self.assertEqual(notes, "")
                else:
                    self.assertIn(f"its pages say that they are stored {text}: they are read as they are stored", notes)


class Hdf5(WithFolder):
    def told(self, data, attributes=None, **how):
        with h5py.File(self.folder / "m.h5", "w") as out:
            out.create_dataset("movie", data=data, chunks=(1, *data.shape[1:]), **how).attrs.update(attributes or {})
        return self.read(self.folder / "m.h5")

    def test_filters_that_lose(self):
        data = movie(4, 12, 11, np.uint16)
        for pixels, kept in ((data, 4), (data / 7, 0), (data / 7, 2)):
            frames, notes = self.told(pixels, scaleoffset=kept)
            self.assertFalse(np.array_equal(frames, pixels))
            self.assertIn("packed by the HDF5 filter 6 (scale-offset), which may lose", notes)
        for how in {"scaleoffset": 0}, {"compression": "gzip", "shuffle": True}, {}:
            frames, notes = self.told(data, **how)
            np.testing.assert_array_equal(frames, data)
            self.assertEqual(notes, "")

    def test_a_scale_that_is_not_applied(self):
        data = movie(4, 12, 11, np.uint16)
        for attributes in ({"scale_factor": 0.5}, {"add_offset": np.float32(100)}, {"scale_factor": [2.0], "add_offset": 1}):
            frames, notes = self.told(data, attributes)
            np.testing.assert_array_equal(frames, data)
            self.assertIn("by its attributes scale_factor and add_offset (netCDF's), which is not done", notes)
        for attributes in {"scale_factor": 1.0, "add_offset": 0.0}, {"scale_factor": "none"}, {"offset": 5.0}:
            self.assertEqual(self.told(data, attributes)[1], "")


if __name__ == "__main__":
    unittest.main()
