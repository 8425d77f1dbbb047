# SPDX-License-Identifier: MIT
"""Recordings of random structure by other writers (tifffile in each of its modes, Pillow, h5py, TIFFs and OME-XML by hand),
read against the array that was written. What cannot be one movie is refused, or a note says what was done: never are there
other frames, another order or other values without a word."""
import json
import os
import random
import struct
import sys
import unittest
import warnings

from stack_reader import Refused, WithFolder, np

try:
    import h5py
    import tifffile
    from PIL import Image
except ImportError:
    print("SKIPPED: python3-h5py, python3-tifffile or python3-pil is not installed")
    sys.exit(0)

# Each is written and read in some 20 ms; DRIFTD_RANDOM_FILES takes more of them.
ROUNDS = int(os.environ.get("DRIFTD_RANDOM_FILES", "24"))
READ = ("uint8", "uint16", "int16", "float32", "float64")
NOT_READ = ("int8", "uint32", "int32", "uint64", "bool", "complex64")


class Draw(random.Random):
    def maybe(self, share=0.3) -> bool:
        return self.random() < share

    def pixels(self, dtype, *shape):
        data = np.random.default_rng(self.randrange(2**32)).normal(100, 40, shape)
        if np.dtype(dtype).kind == "f":
            return data.astype(dtype)
        data = np.clip(data, 0, 250).astype(np.uint8).astype(dtype)
        return data - np.int16(90) if dtype == "int16" else data

    def movie(self, kinds=READ):
        return self.pixels(self.choice(kinds), self.randint(1, 6), self.randint(5, 20), self.randint(5, 20))


def as_read(data):
    return data.astype(np.float32) if data.dtype.kind == "f" else data


class Random(WithFolder):
    def rounds(self, one):
        for seed in range(ROUNDS):
            draw = Draw(f"{one.__name__} {seed}")
            for old in self.folder.iterdir():
                old.unlink()
            with self.subTest(seed=seed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = []
                expected, arguments = one(draw, told.append)
                self.judge(expected, told, arguments)

    def judge(self, expected, told, arguments):
        """`expected`: the frames; None: what is written is no movie, which has to be said."""
        try:
            frames, notes = self.read(*arguments)
        except Refused as refused:
            self.assertTrue(expected is None and str(refused).strip(), f"{told}: {refused}")
            return
        if expected is None:
            self.assertTrue(notes, f"{told}: read as {frames.shape} without a word")
            return
        self.assertEqual(frames.shape, expected.shape, f"{told} {notes}")
        np.testing.assert_array_equal(frames.astype(float), as_read(expected).astype(float), f"{told} {notes}")

    def test_tifffile(self):
        def one(draw, tell):
            data = draw.movie((*READ, *READ, *NOT_READ))
            readable = data.dtype.name in READ
            file = self.folder / "m.tif"
            options = {"byteorder": draw.choice("<>"), "bigtiff": draw.maybe(), "photometric": "minisblack", "metadata": None}
            mode = draw.choice(["plain", "plain", "shaped", "imagej", "ome"])
            if mode == "imagej" and data.dtype.name in ("uint8", "uint16", "float32"):
                options |= {"imagej": True, "metadata": {"axes": draw.choice(["TYX", "ZYX"])}, "bigtiff": False}
                del options["byteorder"]
            elif mode == "shaped" or (mode == "ome" and readable):
                options |= {"ome": mode == "ome", "metadata": {"axes": draw.choice(["TYX", "ZYX"])}}
            packed = draw.choice([None, None, "zlib", "lzma"])
            if packed and readable and not options.get("imagej"):
                options |= {"compression": packed}
                if packed == "zlib" and data.dtype.kind in "iu":
                    options["predictor"] = draw.maybe()
            if draw.maybe() and not options.get("imagej"):
                options["tile"] = (16 * draw.randint(1, 2), 16)
            elif draw.maybe():
                options["rowsperstrip"] = draw.randint(1, 20)
            if draw.maybe(0.2) and not options.get("imagej"):
                options["photometric"] = draw.choice([None, "miniswhite", "palette" if data.dtype == np.uint8 else "miniswhite"])
                if options["photometric"] == "palette":
                    options["colormap"] = np.zeros((3, 256), np.uint16)
                # 3 or 4 frames become planes of one image
                readable &= options["photometric"] is None and len(data) not in (3, 4)
                if options["photometric"] is None and options.get("ome"):
                    return None, [self.write_tiff(file, data, options, tell)]  # channels, or colours
            self.write_tiff(file, data, options, tell)
            return data if readable else None, [file]
        self.rounds(one)

    def write_tiff(self, file, data, options, tell):
        tell((data.shape, data.dtype.name, options))
        tifffile.imwrite(file, data, **options)
        return file

    def test_pages_of_any_kind(self):
        """Frames among thumbnails, pages of other sizes, types or with more samples."""
        def one(draw, tell):
            data = draw.movie()
            file, readable = self.folder / "m.tif", True
            with tifffile.TiffWriter(file, bigtiff=draw.maybe(), byteorder=draw.choice("<>")) as out:
                def page(pixels, **more):
                    tell((pixels.shape, pixels.dtype.name, more))
                    out.write(pixels, metadata=None, contiguous=False, **({"photometric": "minisblack"} | more))

                def beside():
                    kind = draw.choice(["small", "small", "same", "rgb", "other size", "other type"])
                    if kind == "rgb":
                        page(np.zeros((4, 5, 3), np.uint8), photometric="rgb", subfiletype=1)
                    elif kind in ("small", "same"):
                        page(frame[::2, ::2] if kind == "small" else frame // 2, subfiletype=1)
                    elif kind == "other size":
                        page(frame[:-1])
                    else:
                        page(frame.astype("uint8" if frame.dtype != np.uint8 else "uint16"))
                    return not kind.startswith("other")

                where = draw.choice(["nowhere", "before", "behind", "each"])
                for i, frame in enumerate(data):
                    if where == "before" and i == 0:
                        readable &= beside()
                    page(frame, rowsperstrip=draw.randint(1, 20)) if draw.maybe(0.5) else page(frame, compression="zlib")
                    if where == "each" or (where == "behind" and i + 1 == len(data)):
                        readable &= beside()
            return data if readable else None, [file] + (["--every-page"] if draw.maybe() else [])
        self.rounds(one)

    def test_pillow(self):
        def one(draw, tell):
            mode, dtype = draw.choice([("L", "uint8"), ("I;16", "<u2"), ("I;16B", ">u2"), ("F", "float32"), ("I", "int32"),
                                       ("P", "uint8"), ("1", "uint8"), ("RGB", "uint8"), ("LA", "uint8"), ("CMYK", "uint8")])
            data = draw.pixels(dtype, draw.randint(1, 5), draw.randint(5, 20), draw.randint(5, 20))
            packed = draw.choice([None, "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "packbits"])
            tell((mode, packed, data.shape))
            if mode in ("L", "I;16", "I;16B", "F", "I"):
                images = [Image.frombytes(mode, frame.shape[::-1], frame.tobytes()) for frame in data]
            else:
                images = [Image.fromarray(frame).convert(mode) for frame in data]
            images[0].save(self.folder / "m.tif", save_all=True, append_images=images[1:], compression=packed)
            return data if mode in ("L", "I;16", "I;16B", "F") else None, [self.folder / "m.tif"]
        self.rounds(one)

    def test_bits_and_strips_by_hand(self):
        """Bits of 1 to 64, strips in any order, with gaps and of any length, tags that are absent."""
        def one(draw, tell):
            bits, form = draw.choice([(8, 1), (16, 1), (16, 2), (32, 3), (64, 3), (1, 1), (4, 1), (10, 1), (12, 1), (14, 1),
                                      (16, 3), (24, 3), (32, 1), (32, 2), (8, 2)])
            kinds = {(8, 1): "u1", (16, 1): "u2", (16, 2): "i2", (32, 3): "f4", (64, 3): "f8"}
            order, big = draw.choice("<>"), draw.maybe()
            frames, height, width = draw.randint(1, 4), draw.randint(5, 20), draw.randint(5, 20)
            dtype = kinds.get((bits, form), "u1")
            data = draw.pixels(np.dtype(dtype).name, frames, height, width)
            head, entry_size, word, count_form = (16, 20, "Q", "Q") if big else (8, 12, "I", "H")
            out = bytearray(struct.pack(order + "2sH", b"II" if order == "<" else b"MM", 43 if big else 42))
            out += struct.pack(order + "HHQ", 8, 0, 0) if big else struct.pack(order + "I", 0)
            link, rows = head - (8 if big else 4), draw.randint(1, height)
            absent = draw.choice([None, None, None, 262, 339, 277, 259, 278 if rows == height else 262])
            order_of_strips = draw.choice(["as it is", "any", "backwards"])
            tell((bits, form, order, big, data.shape, rows, absent, order_of_strips))
            for frame in data:
                stored = frame.astype(order + dtype)
                if (bits, form) not in kinds:  # any bytes will do
                    row_bytes = -(-width * bits // 8)
                    stored = np.zeros((height, row_bytes), "u1")
                strips = [stored[y:y + rows].tobytes() for y in range(0, height, rows)]
                at = [0] * len(strips)
                turn = list(range(len(strips)))
                if order_of_strips != "as it is":
                    turn = turn[::-1] if order_of_strips == "backwards" else draw.sample(turn, len(turn))
                for strip in turn:
                    out += bytes(2 * draw.randint(0, 3))
                    at[strip] = len(out)
                    out += strips[strip] + bytes(len(strips[strip]) % 2)
                entries = [(256, "I", [width]), (257, "I", [height]), (258, "H", [bits]), (259, "H", [1]), (262, "H", [1]),
                           (273, "I", at), (277, "H", [1]), (278, "I", [rows]), (279, "I", [len(strip) for strip in strips]),
                           (339, "H", [form])]
                entries = [entry for entry in entries if entry[0] != absent]
                begin, behind = len(out), bytearray()
                table = struct.pack(order + count_form, len(entries))
                behind_at = begin + len(table) + entry_size * len(entries) + struct.calcsize(word)
                for tag, kind, values in entries:
                    packed = struct.pack(f"{order}{len(values)}{kind}", *values)
                    table += struct.pack(order + "HH" + word, tag, {"H": 3, "I": 4}[kind], len(values))
                    if len(packed) > struct.calcsize(word):
                        table += struct.pack(order + word, behind_at + len(behind))
                        behind += packed
                    else:
                        table += packed.ljust(struct.calcsize(word), b"\0")
                struct.pack_into(order + word, out, link, begin)
                link = begin + len(table)
                out += table + struct.pack(order + word, 0) + behind + bytes(len(behind) % 2)
            (self.folder / "m.tif").write_bytes(out)
            if absent == 339 and form != 1:  # then the same bits count as whole numbers without a sign
                data = data.view("u2") if (bits, form) == (16, 2) else np.zeros(data.shape, f"u{bits // 8}" if bits in (8, 16, 32, 64) else "u1")
                form = 1
            return data if (bits, form) in kinds else None, [self.folder / "m.tif"]
        self.rounds(one)

    def test_h5py(self):
        def one(draw, tell):
            data = draw.movie((*READ, *READ, "float16", *NOT_READ))
            readable = data.dtype.name in (*READ, "float16")
            shape = list(data.shape)
            for _ in range(draw.choice([0, 0, 1, 2])):
                shape.insert(draw.randint(0, len(shape)), 1)
            if data.shape.count(1) and len(shape) > 3:
                shape = list(data.shape)  # which of the ones are frames nobody knows
            how = {}
            if draw.maybe(0.5):
                how["chunks"] = tuple(draw.randint(1, n) for n in shape)
                how |= draw.choice([{}, {"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}])
            labels = draw.choice([None, None, "tyx", "yxt", "ytx"]) if len(shape) == 3 else None
            readable &= labels in (None, "tyx")
            written = data.astype(data.dtype.newbyteorder(draw.choice("<>")))
            tell((data.dtype.name, shape, how, labels))
            with h5py.File(self.folder / "m.h5", "w", userblock_size=draw.choice([0, 0, 512, 2048])) as out:
                made = out.create_dataset(draw.choice(["m", "a/b/m"]), data=written.reshape(shape), **how)
                if labels and draw.maybe(0.5):
                    made.attrs["axistags"] = json.dumps({"axes": [{"key": label} for label in labels]})
                elif labels:
                    for i, label in enumerate(labels):
                        made.dims[i].label = label
                out["times"] = np.arange(5)
            return data if readable else None, [self.folder / "m.h5"]
        self.rounds(one)

    def test_virtual_datasets_and_links(self):
        def one(draw, tell):
            data = draw.movie()
            ends = sorted({len(data), *(draw.randint(1, len(data)) for _ in range(2))})
            layout, begin, whole = h5py.VirtualLayout(data.shape, data.dtype), 0, True
            for i, end in enumerate(ends):
                damage = draw.choice([None] * 8 + ["gone", "short", "renamed", "left out"])
                tell((data.shape, begin, end, damage))
                part, name = data[begin:end], f"{i}.h5"
                with h5py.File(self.folder / name, "w") as out:
                    out["q" if damage == "renamed" else "raw"] = part[:-1] if damage == "short" else part
                if damage != "left out":
                    layout[begin:end] = h5py.VirtualSource(name, "raw", part.shape)
                if damage == "gone":
                    (self.folder / name).unlink()
                whole, begin = whole and damage is None, end
            with h5py.File(self.folder / "v.h5", "w") as out:
                out.create_virtual_dataset("m", layout)
            file = self.folder / "v.h5"
            if draw.maybe():
                file = self.folder / "link.h5"
                with h5py.File(file, "w") as out:
                    out["m"] = h5py.ExternalLink("v.h5", "/m")
            return data if whole else None, [file]
        self.rounds(one)

    def test_ome_in_several_files(self):
        """Pages in any order over some files, with and without UUIDs, a companion file, files that are missing or others."""
        def one(draw, tell):
            size = {"Z": draw.choice([1, 1, 2]), "C": draw.choice([1, 1, 2]), "T": draw.randint(1, 4)}
            order = "".join(draw.sample("ZCT", 3))
            planes = [dict(zip("ZCT", index)) for index in np.ndindex(*(size[letter] for letter in "ZCT"))]
            draw.shuffle(planes)
            data = list(draw.pixels("uint16", len(planes), 12, 11))
            several = draw.choice([1, 1, 2, 3])
            names = [f"{'abc'[i]}.ome.tif" for i in range(several)]
            with_uuid, companion = several > 1 or draw.maybe(0.5), draw.maybe(0.2)
            pages, blocks = [[] for _ in names], ""
            for plane, pixels in zip(planes, data):
                file = draw.randrange(several)
                place = "".join(f' First{letter}="{plane[letter]}"' for letter in "ZCT")
                uuid = f'<UUID FileName="{names[file]}">urn:uuid:{file}</UUID>' if with_uuid or companion else ""
                blocks += f'<TiffData{place} IFD="{len(pages[file])}" PlaneCount="1">{uuid}</TiffData>'
                pages[file].append(pixels)
            image = (f'<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XY{order}" SizeX="11" SizeY="12" Type="uint16" '
                     + " ".join(f'Size{letter}="{n}"' for letter, n in size.items()) + f">{blocks}</Pixels></Image>")
            first, last = (choose(i for i, some in enumerate(pages) if some) for choose in (min, max))
            wrong = draw.choice([None, None, None, "gone", "other uuid"]) if first != last else None
            tell((size, order, several, with_uuid, companion, wrong))
            for i, name in enumerate(names):
                inside = '<BinaryOnly MetadataFile="m.companion.ome" UUID="urn:uuid:m"/>' if companion else image
                uuid = "urn:uuid:x" if wrong == "other uuid" and i == last else f"urn:uuid:{i}"
                if pages[i]:
                    tifffile.imwrite(self.folder / name, np.array(pages[i]), photometric="minisblack", metadata=None,
                                     description=f'<OME UUID="{uuid}">{inside}</OME>')
            if companion:
                (self.folder / "m.companion.ome").write_text(f"<OME>{image}</OME>", encoding="utf-8")
            if wrong == "gone":
                (self.folder / names[last]).unlink()
            channel, z = draw.randrange(size["C"]), draw.randrange(size["Z"])
            along_z = size["T"] == 1 and size["Z"] > 1
            arguments = ["--channel", channel] if size["C"] > 1 else []
            if size["Z"] > 1 and not along_z:
                arguments += ["--slice", z]
            frames = {plane["Z" if along_z else "T"]: pixels for plane, pixels in zip(planes, data)
                      if plane["C"] == channel and (along_z or size["Z"] == 1 or plane["Z"] == z)}
            chosen = [frames[i] for i in sorted(frames)]
            in_last = any(pixels is page for pixels in chosen for page in pages[last])
            is_wrong = wrong == "other uuid" or (wrong == "gone" and in_last)
            return None if is_wrong else np.array(chosen), [*arguments, self.folder / names[first]]
        self.rounds(one)


if __name__ == "__main__":
    unittest.main()
