# SPDX-License-Identifier: MIT
"""What driftctl makes of z: of a daemon that measures it, of one that cannot just now, and of a flat one."""
import csv
import json
import math
import pathlib
import sys
import unittest

from axial_rig import AXIAL, CAMERA as AXIAL_CAMERA, STAGE, WORLD as AXIAL_WORLD
from harness import BIN, SOURCE, driftd, new_rig
from test_axial import DEMO, changed, sections, world


def deep(rig) -> dict:
    """A configuration that measures z, at the demo's gain."""
    config = sections(rig)
    return {**config, "camera": {**config["camera"], "gain_e_per_adu": 4}}


def start_three_axes(rig, lock=None, **axial) -> pathlib.Path:
    """A daemon that holds z by the example's curve, beside its world; returns its configuration."""
    examples = SOURCE / "config/examples"
    rig.start_sim((examples / "scenario-three-axes.yaml").read_text())
    axial = {"method": "astigmatic", "curve": f'"{examples}/curves/three-axes.yaml"', "hold": "true", "range_limit_nm": 380,
             "stage": "{delay_us: 3000, resonance_hz: 100, damping: 0.7}", **axial}
    file = rig.config(**deep(rig) | {"axial": axial, "lock": lock or {}})
    rig.start_daemon(file)
    return file


class Clients(unittest.TestCase):
    def ctl(self, rig, *arguments) -> str:
        done = rig.run_program([BIN / "driftctl", "--commands", rig.commands, "--publish", rig.publish, *arguments])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def measure(self, rig, seconds: float, *options) -> str:
        done = rig.run_listener([BIN / "driftctl", "--commands", rig.commands, "--publish", rig.publish, *options,
                                 "measure", "600"], seconds)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def rows(self, file) -> list:
        with file.open(newline="", encoding="ascii") as text:
            return list(csv.DictReader(text))

    def test_z_is_shown_measured_recorded_and_exported(self):
        rig = new_rig()
        self.addCleanup(rig.close)
        rig.start_locked(world(60), **deep(rig))
        rig.client.request("record", start=True)
        rig.sleep(1)
        shown = self.ctl(rig, "status")
        self.assertRegex(shown, r"\nz +[+-]\d+\.\d{3} nm   sd \d\.\d{3}   1\d of 13 markers, \+\d+ nm from focus\n")
        self.assertRegex(shown, r"\npattern +turned ")
        self.assertRegex(shown, r"\n  tilted +x [+-]\d+\.\d{3} \+-0\.\d{3} mrad, y ")
        self.assertIn("res z nm", self.ctl(rig, "markers"))
        axial, pattern = rig.client.axial(), rig.client.pattern()
        self.assertIsInstance(axial, driftd.Axial)
        self.assertTrue(axial.valid)
        self.assertAlmostEqual(axial.distance_from_crossing_nm, 60, delta=10)
        self.assertLess(abs(axial.z_nm), 5)
        # Sixteen markers of some 4 nm, 8 um from their middle, a hundred frames: nothing tilts.
        for tilt, sd in ((pattern.tilt_x_mrad, pattern.tilt_x_sd_mrad), (pattern.tilt_y_mrad, pattern.tilt_y_sd_mrad)):
            self.assertLess(abs(tilt), 4.5 * sd)
            self.assertLess(sd, 0.1)
        told = json.loads(self.measure(rig, 4, "--json"))
        self.assertEqual(told["z_missing_share"], 0)
        self.assertAlmostEqual(told["z"]["frame_noise_nm"] / told["z"]["promised_noise_nm"], 1, delta=0.25)
        self.assertAlmostEqual(told["z"]["about_line_nm"] / told["z"]["frame_noise_nm"], 1, delta=0.25)
        self.assertTrue(all(marker["z"]["fit_sd_nm"] > 0 for marker in told["markers"]))
        file = rig.client.request("record", stop=True)[0]["record"]["file"]
        self.exports(rig, file)

    def exports(self, rig, file: str) -> None:
        folder = rig.folder / "tables"
        self.ctl(rig, "export", file, "-o", folder)
        frames, spots = self.rows(folder / "frames.csv"), self.rows(folder / "localizations.csv")
        measured = [f for f in frames if f["z_valid"] == "1"]
        self.assertGreater(len(measured), 0.9 * len(frames))
        self.assertTrue(all(math.isfinite(float(f["z_nm"])) and float(f["z_sd_nm"]) > 0 for f in measured))
        self.assertTrue(any(s["residual_z_nm"] for s in spots))
        self.assertTrue(all(row["tilt_x_mrad"] for row in self.rows(folder / "pattern.csv")))
        ids = rig.folder / "ids.txt"
        ids.write_text("\n".join(f["frame_id"] for f in measured[:9]))
        self.ctl(rig, "export", file, "-o", rig.folder / "drift.csv", "--frame-ids", ids)
        for frame, drift in zip(measured, self.rows(rig.folder / "drift.csv")):
            self.assertAlmostEqual(float(drift["z_nm"]), float(frame["frame_z_nm"]), delta=1e-3)
        self.ctl(rig, "report", file, "-o", rig.folder / "report.html")
        page = (rig.folder / "report.html").read_text(encoding="utf-8")
        for part in ("z from its reference", "z while locked, rms", "residual z, rms (nm)", "Tilt: how z"):
            self.assertIn(part, page)

    def test_z_is_locked_moved_shown_and_let_go_by_itself_and_a_record_tells_of_it(self):
        rig = self.enterContext(new_rig())
        start_three_axes(rig)
        rig.wait_until(lambda s: s["markers"]["used"] and s["axial"]["valid"], "x, y and z are measured")
        rig.client.request("record", start=True)
        self.assertEqual(self.ctl(rig, "lock", "--wait"), "state: locked\nz: locked\n")
        rig.client.wait_for("locked", axes="z")
        self.assertRegex(self.ctl(rig, "move", "--dz", "30", "--wait"), r"^move \d+: to z 30\.0 nm in .*; in lock\n$")
        shown = self.ctl(rig, "status")
        for line in (r"z lock      locked for 0:00:\d\d \(reference taken\)   lock 2", r"z in lock   yes", r"in lock     yes",
                     r"z set-point +\+30\.0 nm", r"z stage at +[+-]\d+\.\d{3} nm"):
            self.assertRegex(shown, f"(?m)^{line}$")
        lock = rig.client.axial().lock
        self.assertEqual((lock.state, lock.in_lock, lock.move["z_nm"]), ("locked", True, 30))
        told = json.loads(self.measure(rig, 2, "--json"))
        self.assertEqual((told["state"], told["z_state"]), ("locked", "locked"))
        self.assertEqual(self.ctl(rig, "unlock", "--axes", "z"), "z: idle\n")
        self.assertEqual((rig.client.status()["state"], rig.client.axial().lock.state), ("locked", "idle"))
        self.assertRegex(self.ctl(rig, "status"), r"(?m)^in lock     yes$")
        rig.sleep(1)
        self.assertEqual(self.ctl(rig, "lock", "--axes", "z", "--wait"), "z: locked\n")
        rig.sleep(1)
        file = rig.client.request("record", stop=True)[0]["record"]["file"]
        self.ctl(rig, "export", file, "-o", rig.folder / "tables")
        frames = self.rows(rig.folder / "tables" / "frames.csv")
        held = [f for f in frames if f["z_state"] == "locked"]
        self.assertEqual({f["z_lock_id"] for f in held}, {"2", "3"})
        self.assertTrue(all(math.isfinite(float(f["total_z_nm"])) for f in held if f["z_correction"] == "left"))
        ids = rig.folder / "ids.txt"
        ids.write_text("\n".join(f["frame_id"] for f in frames if f["z_valid"] == "1"))
        self.ctl(rig, "export", file, "-o", rig.folder / "drift.csv", "--frame-ids", ids)
        z = [float(row["z_nm"]) for row in self.rows(rig.folder / "drift.csv") if row["z_nm"]]
        # A new reference of z makes no step: that of the move is made of many.
        self.assertLess(max(abs(b - a) for a, b in zip(z, z[1:])), 15)
        self.ctl(rig, "report", file, "-o", rig.folder / "report.html")
        page = (rig.folder / "report.html").read_text(encoding="utf-8")
        for part in ("<th>z locked</th>", "residual of z while it was locked", "<h2>Lost time of z</h2>"):
            self.assertIn(part, page)

    def test_who_waits_for_a_lock_waits_for_z_that_is_held(self):
        rig = self.enterContext(new_rig())
        rig.start_sim(AXIAL_WORLD)
        rig.start_daemon(rig.config(camera=AXIAL_CAMERA, optics={"pixel_size_nm": 100}, stage=STAGE, axial=AXIAL))
        rig.wait_until(lambda s: s["markers"]["used"] and s["axial"]["valid"], "x, y and z are measured")
        self.ctl(rig, "lock", "--wait")
        rig.fault("hide_reflection", seconds=4)
        rig.wait_until(lambda s: s["axial"]["lock"]["state"] == "holding", "z is held")
        done = rig.run_program([BIN / "driftctl", "--commands", rig.commands, "--publish", rig.publish, "lock", "--wait"])
        self.assertEqual((done.returncode, done.stdout), (0, "state: locked\nz: locked\n"), done.stderr)
        self.assertIn("of z is holding already", done.stderr)
        self.assertEqual(rig.status()["axial"]["lock"]["state"], "locked")

    def test_the_curve_of_the_example_is_that_of_the_simulator(self):
        """By the truth: a lock by it takes the sample as far as it is told, within 2 %."""
        rig = self.enterContext(new_rig())
        start_three_axes(rig)
        rig.wait_until(lambda s: s["markers"]["used"] and s["axial"]["valid"], "z is measured")
        rig.client.request("lock")
        rig.wait_until(lambda s: s["axial"]["lock"]["state"] == "locked", "z is locked")
        rig.sleep(0.5)
        places = {}
        for z_nm in (-200, -60, 60, 200):
            rig.client.request("move", z_nm=z_nm)
            rig.sleep(1.5)
            seen = rig.truth().collect(0.5)
            places[z_nm] = sum(t["sample_z_nm"] for t in seen) / len(seen)
        self.assertAlmostEqual((places[200] - places[-200]) / 400, 1, delta=0.02)
        # Near the focus, where locks are taken: a nm of what is left of the motion beside 120.
        self.assertAlmostEqual((places[60] - places[-60]) / 120, 1, delta=0.03)

    def test_a_z_that_is_not_read_is_said_with_the_reason_and_no_number(self):
        rig = new_rig()
        self.addCleanup(rig.close)
        rig.start_locked(changed(DEMO, ("sigma_px: 1.3", "sigma_px: 2.0")), **deep(rig))
        rig.sleep(1)
        shown = self.ctl(rig, "status")
        self.assertIn("\nz           not measured\n            z of 0 of 13 tracking markers is read", shown)
        self.assertIsNone(rig.client.axial().z_nm)
        self.assertFalse(rig.client.axial().valid)
        self.assertIsNone(rig.client.pattern().tilt_x_mrad)
        told = json.loads(self.measure(rig, 2, "--json"))
        self.assertIsNone(told["z"])

    def test_of_a_flat_daemon_nothing_of_z_is_shown(self):
        rig = new_rig()
        self.addCleanup(rig.close)
        rig.start_locked()
        rig.client.request("record", start=True)
        rig.sleep(1)
        shown = self.ctl(rig, "status") + self.ctl(rig, "markers")
        self.assertNotIn("\nz ", shown)
        self.assertNotIn(" z", shown)
        self.assertIsNone(rig.client.axial())
        self.assertNotIn(" z", self.measure(rig, 2))
        file = rig.client.request("record", stop=True)[0]["record"]["file"]
        self.ctl(rig, "report", file, "-o", rig.folder / "report.html")
        page = (rig.folder / "report.html").read_text(encoding="utf-8").split("<summary>configuration")[0]
        self.assertNotIn("z from its reference", page)
        self.assertNotIn("in z", page)


if __name__ == "__main__":
    sys.exit(unittest.main())
