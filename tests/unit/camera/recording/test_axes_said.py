# SPDX-License-Identifier: MIT
"""What programs say of the axes of their images in places of their own is never passed over: scales of HDF5's dimensions,
ImageJ's numbers of slices and frames, ScanImage's positions in z, FluoView's channels, older keys of Micro-Manager."""
import json
import struct
import sys
import unittest

from stack_reader import WithFolder, np

try:
    import h5py
    import tifffile
except ImportError:
    print("SKIPPED: python3-h5py or python3-tifffile is not installed")
    sys.exit(0)


def movie(frames, height=12, width=11):
    return np.random.default_rng(frames).integers(0, 60000, (frames, height, width)).astype(np.uint16)


class Hdf5(WithFolder):
    def write(self, data, scales, labels=()):
        with h5py.File(self.folder / "m.h5", "w") as out:
            made = out.create_dataset("movie", data=data)
            for i, name in enumerate(scales):
                if name is None:
                    continue
                out.create_dataset(name, data=np.arange(float(data.shape[i])))
                out[name].make_scale(name)
                made.dims[i].attach_scale(out[name])
            for i, label in enumerate(labels):
                made.dims[i].label = label
        return self.folder / "m.h5"

    def test_names_of_scales_count_as_labels_do(self):
        data = movie(6)
        for scales in (("time", "y", "x"), ("t", None, None), (None, "row", "column")):
            frames, notes = self.read(self.write(data, scales))
            np.testing.assert_array_equal(frames, data)
            self.assertEqual(notes, "")
        self.assertIn("its frames are along depth", self.read(self.write(data, ("depth", "y", "x")))[1])
        for scales, said in ((("time", "x", "y"), "time, x, y"), (("y", "x", "time"), "y, x, time"), (("x", None, None), "x, ?, ?")):
            self.assertIn(f"the labels of its dimensions are {said}; a stack has", self.refusal(self.write(data, scales)))
        # A label counts before a scale's name.
        np.testing.assert_array_equal(self.read(self.write(data, ("y", "x", "time"), ("t", "y", "x")))[0], data)
        np.testing.assert_array_equal(self.read(self.write(data[:, None], ("time", "channel", "y", "x")))[0], data)

    def test_scales_of_the_group_above_count_as_netcdf_has_them(self):
        with h5py.File(self.folder / "m.h5", "w") as out:
            made = out.create_dataset("camera/movie", data=movie(6))
            for i, name in enumerate(("y", "x", "time")):
                out.create_dataset(name, data=np.arange(float(made.shape[i])))
                out[name].make_scale(name)
                made.dims[i].attach_scale(out[name])
        self.assertIn("the labels of its dimensions are y, x, time; a stack has", self.refusal(self.folder / "m.h5"))

    def test_one_dataset_by_several_names_is_one(self):
        data = movie(6)
        file = self.folder / "m.h5"
        with h5py.File(file, "w") as out:
            out["group/movie"] = data
            out["hard"] = out["group/movie"]
            out["soft"] = h5py.SoftLink("/group/movie")
            out["group/up"] = out["/"]
        np.testing.assert_array_equal(self.read(file)[0], data)
        np.testing.assert_array_equal(self.read("--dataset", "soft", file)[0], data)
        with h5py.File(file, "a") as out:
            out["other"] = data
        said = self.refusal(file)
        self.assertIn("has several datasets of three dimensions", said)
        self.assertEqual(said.count("movie") + said.count("hard") + said.count("soft"), 1, said)


class Tiff(WithFolder):
    def write(self, data, **how):
        tifffile.imwrite(self.folder / "s.tif", data, photometric="minisblack", metadata=None, **how)
        return self.folder / "s.tif"

    def test_slices_and_frames_of_imagej_that_contradict_are_refused(self):
        data = movie(23)
        for said in "images=20\nslices=5\nframes=4\n", "slices=5\nframes=4\n", "images=20\nslices=20\nframes=20\n":
            file = self.write(data, description="ImageJ=1.53t\n" + said + "hyperstack=true\n")
            slices, frames = (int(part.split()[0]) for part in said.split("=")[-2:])
            self.assertIn(f"has 23 images, its description says 1 channel, {slices} slices and {frames} frames", self.refusal(file))
            np.testing.assert_array_equal(self.read("--every-page", file)[0], data)
        for said in "images=20\nslices=20\n", "images=20\nframes=20\n", "images=23\nslices=1\nframes=23\n", "slices=23\n":
            np.testing.assert_array_equal(self.read(self.write(data, description="ImageJ=1.53t\n" + said))[0], data)

    def test_scifio_says_the_order_of_its_axes(self):
        data = movie(24)
        for axes, shape, order in (("Channel,Z,Time", (4, 3, 2), "TZC"), ("Time,Channel", (2, 12), "CT"), ("Time,Z", (2, 12), "ZT"),
                                   ("Z,Time,Channel", (2, 4, 3), "CTZ"), ("Time", (24,), "T")):
            lengths = ",".join(str(n) for n in reversed(shape))
            sizes = {"C": "channels", "Z": "slices", "T": "frames"}
            counts = "".join(f"{sizes[axis]}={n}\n" for axis, n in zip(order, shape))
            file = self.write(data, description=f"SCIFIO=0.46.0\naxes=X,Y,{axes}\nlengths=11,12,{lengths}\nimages=24\n{counts}")
            array = data.reshape(*shape, 12, 11)
            asked, at = [], []
            for axis in order:
                asked += {"C": ["--channel", 1], "Z": ["--slice", 1], "T": []}[axis]
                at.append(slice(None) if axis == "T" else 1)
            np.testing.assert_array_equal(self.read(*asked, file)[0], array[tuple(at)], axes)
        file = self.write(data, description="SCIFIO=0.46.0\naxes=X,Y,Lifetime,Time\nlengths=11,12,6,4\nimages=24\nframes=24\n")
        self.assertIn("has images along Lifetime by SCIFIO", self.refusal(file))

    def test_positions_in_z_of_scanimage_are_no_frames(self):
        data = movie(20)
        for told in ({"software": "SI.hChannels.channelSave = 1\nSI.hStackManager.enable = true\nSI.hStackManager.numSlices = 5\n"},
                     {"software": "SI.hFastZ.enable = 1\nSI.hStackManager.numSlices = 5\n"},
                     {"description": "state.acq.savingChannel1=1\rstate.acq.numberOfZSlices=5\r"}):
            self.assertIn("ScanImage wrote it at 5 positions in z", self.refusal(self.write(data, **told)))
        for told in ("SI.hStackManager.enable = false\nSI.hFastZ.enable = 0\nSI.hStackManager.numSlices = 5\n",
                     "SI.hStackManager.enable = true\nSI.hStackManager.numSlices = 1\n"):
            np.testing.assert_array_equal(self.read(self.write(data, software=told))[0], data)

    def test_channels_of_fluoview_alone_are_no_frames(self):
        data = movie(2)
        for name, size in ((b"Ch", 2), (b"XY", 2), (b"T", 2)):
            dimensions = b"".join(struct.pack("<16sId64sdd", axis, count, 0, b"", 0, 0)[:100].ljust(100, b"\0")
                                  for axis, count in ((b"X", 11), (b"Y", 12), (name, size)))
            header = bytes(284) + dimensions.ljust(1000, b"\0")
            file = self.write(data, extratags=[(34361, "B", len(header), header, True)])
            if name == b"T":
                np.testing.assert_array_equal(self.read(file)[0], data)
            else:
                self.assertIn("has 2 channels" if name == b"Ch" else "has 2 positions", self.refusal(file))

    def test_older_keys_of_micro_manager(self):
        data = movie(6)
        file = self.folder / "s.tif"
        for channels in 1, 2:
            with tifffile.TiffWriter(file) as out:
                for i, frame in enumerate(data):
                    text = json.dumps({"Frame": 5 - i if channels == 1 else i // 2, "Slice": 0, "Channel": "AB"[i % channels]})
                    out.write(frame, photometric="minisblack", metadata=None, contiguous=False, extratags=[(51123, 2, None, text, True)])
            if channels == 1:
                np.testing.assert_array_equal(self.read(file)[0], data[::-1])
            else:
                self.assertIn("has 2 channels: 0 (A), 1 (B)", self.refusal(file))


if __name__ == "__main__":
    unittest.main()
