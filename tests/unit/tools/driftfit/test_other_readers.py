# SPDX-License-Identifier: MIT
"""What driftfit writes, read by the rules of the programs it is for, each after its own source.
The sources are cited by repository, file and function, at the commits of the reading:
ThunderSTORM e85c565, Picasso 96e0da5, SMAP 51d8b9a, napari-storm 708dffb."""
import pathlib
import re
import subprocess
import tempfile
import unittest

from driftfit_program import PROGRAM, h5py, np

PIXEL_NM = 108
PLACES = np.array([(20.3, 22.1), (75.6, 19.8), (24.2, 61.5), (70.9, 64.4)])
FRAMES = 12


def decimal_format(text: str) -> float:
    """java.text.DecimalFormat.parse with the symbols of the US and no grouping: the longest
    beginning that is a number, with an exponent after a capital E and without a plus sign.
    Run by jshell (OpenJDK 17): 1.5e+06 -> 1.5, 1.5E+06 -> 1.5, 1.5E6 -> 1500000, nan -> error."""
    if text.startswith(("NaN", "Infinity", "-Infinity")):
        return float(text.split("y")[0] + "y") if "y" in text else float("nan")
    found = re.match(r"-?(\d+\.?\d*|\.\d+)(E-?\d+)?", text)
    if not found:
        raise ValueError(f"ParseException: {text}")
    return float(found[0])


def thunderstorm(path) -> dict[str, np.ndarray]:
    """zitmen/thunderstorm ImportExport/DLMImportExport.java importFromFile, splitLine;
    estimators/PSF/MoleculeDescriptor.java parseColumnLabel, Units.fromString."""
    def split(line):
        items = [item.strip() for item in line.split(",")]
        return [i[1:-1] if len(i) > 1 and i[0] == i[-1] and i[0] in "\"'`" else i for i in items]

    def column(label):
        begin, end = label.rfind("["), label.rfind("]")
        if begin < 0 or end < begin:
            return label.strip(), ""
        return label[:begin].strip(), label[begin + 1:end].strip()

    lines = pathlib.Path(path).read_text("utf-8").splitlines()
    columns = [column(label) for label in split(lines[0])]
    rows = [split(line) for line in lines[1:]]
    if any(len(row) != len(columns) for row in rows):
        raise ValueError("a line has a different number of items than the header: skipped")
    known_units = {"um", "nm", "px", "um^2", "nm^2", "px^2", "ADU", "photon", "deg", "rad", ""}
    if not {unit for _, unit in columns} <= known_units:
        raise ValueError("an unknown unit is taken for none")
    return {name: np.array([decimal_format(row[i]) for row in rows])
            for i, (name, _) in enumerate(columns) if name != "id"}


def csv_table(path) -> dict[str, np.ndarray]:
    """pandas.read_csv and MATLAB's readtable: a header whose quotes fall away, then numbers."""
    lines = pathlib.Path(path).read_text().splitlines()
    header = [label.strip('"') for label in lines[0].split(",")]
    values = np.array([[float(v) for v in line.split(",")] for line in lines[1:]])
    return {name: values[:, i] for i, name in enumerate(header)}


def picasso_import_ts(path, pixelsize) -> dict[str, np.ndarray]:
    """jungmannlab/picasso picasso/io.py import_ts."""
    data = csv_table(path)
    expected = ["frame", "x [nm]", "y [nm]", "intensity [photon]", "offset [photon]",
                "uncertainty_xy [nm]"]
    expected += ["sigma1 [nm]", "sigma2 [nm]"] if "z [nm]" in data else ["sigma [nm]"]
    if not all(name in data for name in expected):
        raise ValueError(f"Expected columns {expected}")
    frames = data["frame"].astype(int)
    return {"frame": frames - frames.min(), "x": data["x [nm]"] / pixelsize,
            "y": data["y [nm]"] / pixelsize, "photons": data["intensity [photon]"].astype(int),
            "bg": data["offset [photon]"].astype(int), "sx": data["sigma [nm]"] / pixelsize,
            "lpx": data["uncertainty_xy [nm]"] / pixelsize}


def smap(path) -> dict[str, np.ndarray]:
    """jries/SMAP plugins/+File/+Load/Loader_csvAndMore.m loadfile with
    settings/csvloaderconversion/csv_thunderstorm.txt; readtable makes variable names of labels."""
    tab = {re.sub(r"[^A-Za-z0-9_]", "_", name.replace(" ", "")): column
           for name, column in csv_table(path).items()}
    definition = {"ID": "id", "frame": "frame", "xnm": "x_nm_", "ynm": "y_nm_",
                  "phot": "intensity_photon_"}
    return {field: tab[name] for field, name in definition.items()}


def napari_storm(path, pixelsize) -> dict[str, np.ndarray]:
    """napari-storm/napari-storm localization_dataset_types/storm_class.py load_csv: the header is
    split at commas and keeps its quotes; uncertainty_xy is known without quotes alone."""
    with open(path) as file:
        header = file.readline().replace("\n", "").split(",")
    values = np.loadtxt(path, delimiter=",", skiprows=1, dtype=float)
    data = {name: values[:, i] for i, name in enumerate(header)}
    quote = '"' if '"x [nm]"' in header else ""
    found = {"frame": data[f"{quote}frame{quote}"]}
    for axis in "xy":
        found[axis] = data[f"{quote}{axis} [nm]{quote}"] / pixelsize
    if "uncertainty_xy [nm]" in header:
        found["sigma"] = data["uncertainty_xy [nm]"] / pixelsize
    return found


def picasso_load_locs(path) -> tuple[np.ndarray, dict]:
    """picasso/io.py load_locs, load_info; picasso/lib.py ensure_sanity, get_from_metadata. Rows that
    the check would drop are an error here."""
    with h5py.File(path) as file:
        if list(file) != ["locs"]:
            raise KeyError("locs")
        locs = file["locs"][:]
    info = {}
    for line in path.with_suffix(".yaml").read_text().splitlines():
        key, colon, value = line.partition(": ")
        if colon:
            info[key] = value
    for key in "Width", "Height", "Frames":
        if not int(info[key]):
            raise KeyError(f"Metadata is missing required key: '{key}'")
    kept = np.ones(len(locs), bool)
    for name in locs.dtype.names:
        kept &= np.isfinite(locs[name])
    kept &= (locs["x"] < int(info["Width"])) & (locs["y"] < int(info["Height"]))
    for name in "x", "y", "lpx", "lpy", "photons", "ellipticity", "sx", "sy":
        kept &= locs[name] >= 0
    if not kept.all():
        raise ValueError("rows would be dropped")
    return locs, info


class Readers(unittest.TestCase):
    """Spots of different widths, drifts and signs; intensities above 1e6 and far below 1."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="driftfit-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(5)
        y, x = np.mgrid[:84, :96]
        stack = np.empty((FRAMES, 84, 96), np.uint16)
        for frame in range(FRAMES):
            dx, dy = 0.11 * frame, -0.07 * frame
            mean = np.full((84, 96), 20.0)
            for px, py in PLACES:
                mean += 2800 * np.exp(-((x - px - dx)**2 / 1.2**2 + (y - py - dy)**2 / 1.6**2) / 2)
            stack[frame] = 100 + random.poisson(mean)
        cls.stacks = {"counts": stack, "tiny": (stack * 1e-9 - 3e-8).astype(np.float32)}
        for name, pixels in cls.stacks.items():
            pixels.tofile(cls.folder / f"{name}.raw")
            (cls.folder / f"{name}.yaml").write_text(
                f"Width: 96\nHeight: 84\nFrames: {FRAMES}\nData Type: {pixels.dtype}\n")

    def run_program(self, stack: str, out: str, *options) -> pathlib.Path:
        path = self.folder / out
        done = subprocess.run(
            [PROGRAM, self.folder / f"{stack}.raw", "-o", path, "--pixel-nm", str(PIXEL_NM),
             *options],
            capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def check_places(self, frame, x_px, y_px):
        """All spots at the places they were drawn at; `frame` counts from 0."""
        self.assertEqual(len(frame), FRAMES * len(PLACES))
        for f, x, y in zip(frame, x_px, y_px):
            off = np.array([x, y]) - PLACES - (0.11 * f, -0.07 * f)
            self.assertLess(np.hypot(*off.T).min(), 0.05)

    def test_each_reader_finds_every_column_it_knows(self):
        for stack, model, options in (("counts", "circular", ["--gain", "60", "--offset", "100"]),
                                      ("counts", "elliptical", ["--gain", "60", "--offset", "100"]),
                                      ("tiny", "circular", []), ("tiny", "elliptical", [])):
            with self.subTest(stack=stack, model=model):
                out = self.run_program(stack, f"{stack}-{model}", "--model", model, *options)
                table = pathlib.Path(f"{out}_thunderstorm.csv")
                here = csv_table(table)
                photons = here["intensity [photon]"]
                if stack == "counts":
                    self.assertGreater(photons.min(), 1.5e6)
                else:
                    self.assertLess(photons.max(), 1e-3)
                    self.assertGreater(photons.min(), 0)
                imported = thunderstorm(table)
                self.assertEqual(list(imported), [name.split(" [")[0] for name in here][1:])
                for (name, values), theirs in zip(list(here.items())[1:], imported.values()):
                    np.testing.assert_array_equal(theirs, values, name)
                self.check_places(imported["frame"] - 1, imported["x"] / PIXEL_NM - 0.5,
                                  imported["y"] / PIXEL_NM - 0.5)

                locs = picasso_import_ts(table, PIXEL_NM)
                self.check_places(locs["frame"], locs["x"] - 0.5, locs["y"] - 0.5)
                self.assertLess(abs(np.median(locs["sx"]) - 1.39), 0.04)  # sqrt(1.2 1.6)
                self.assertTrue((locs["lpx"] > 0).all())
                if stack == "counts":
                    np.testing.assert_allclose(locs["photons"], photons, atol=1)

                fields = smap(table)
                self.check_places(fields["frame"] - 1, fields["xnm"] / PIXEL_NM - 0.5,
                                  fields["ynm"] / PIXEL_NM - 0.5)
                np.testing.assert_array_equal(fields["phot"], photons)

                points = napari_storm(table, PIXEL_NM)
                self.check_places(points["frame"] - 1, points["x"] - 0.5, points["y"] - 0.5)
                np.testing.assert_allclose(points["sigma"], here["uncertainty_xy [nm]"] / PIXEL_NM)

    def test_picassos_drift_is_a_table_of_two_columns(self):
        """picasso/io.py load_drift; SMAP plugins/+Process/+Drift/applyPicassoDriftcorrection.m reads
        the same table."""
        out = self.run_program("counts", "drift")
        drift = np.loadtxt(f"{out}_drift.txt", delimiter=" ")
        self.assertEqual(drift.shape, (FRAMES, 2))
        t = np.arange(FRAMES)
        self.assertLess(np.abs(drift - np.column_stack([0.11 * t, -0.07 * t])).max(), 0.03)

    @unittest.skipIf(h5py is None, "python3-h5py is not installed")
    def test_picassos_localizations_pass_its_checks(self):
        for stack, model in ("counts", "circular"), ("tiny", "elliptical"):
            with self.subTest(stack=stack):
                out = self.run_program(stack, f"h-{stack}", "--model", model)
                locs, info = picasso_load_locs(pathlib.Path(f"{out}_locs.hdf5"))
                self.check_places(locs["frame"], locs["x"], locs["y"])
                self.assertEqual(float(info["Pixelsize"]), PIXEL_NM)
                # SMAP's settings/csvloaderconversion/hdf5_Jungmann.txt, napari-storm's load_hdf5
                self.assertLessEqual({"frame", "x", "y", "photons", "sx", "sy", "bg", "lpx", "lpy"},
                                     set(locs.dtype.names))


if __name__ == "__main__":
    unittest.main()
