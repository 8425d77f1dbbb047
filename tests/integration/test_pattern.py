# SPDX-License-Identifier: MIT
"""How the markers' pattern lies, against a simulated sample that turns and grows."""
import sys
import unittest

from harness import BIN, SOURCE, new_rig

TURNS_URAD_PER_S, GROWS_PPM_PER_S = 8, -5
#: What is told is a mean with a memory of half a second, and so old.
LAG_S = 0.5


class Pattern(unittest.TestCase):
    def start(self, motion: str = ""):
        rig = new_rig()
        self.addCleanup(rig.close)
        demo = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
        rig.start_locked(demo.replace("\ndisturbance:", f"\ndisturbance:\n{motion}", 1))
        return rig

    def pattern(self, rig) -> tuple[float, dict]:
        status = rig.status()
        self.assertIsNotNone(status["pattern"])
        return status["time_ns"] * 1e-9, status["pattern"]

    def test_a_sample_that_turns_and_grows_is_told_by_truth(self):
        rig = self.start(f"  rotation_urad_per_s: {TURNS_URAD_PER_S}\n  scale_ppm_per_s: {GROWS_PPM_PER_S}")
        rig.client.request("record", start=True)
        rig.sleep(2)
        begin_s, before = self.pattern(rig)
        rig.sleep(20)
        end_s, after = self.pattern(rig)
        passed_s = end_s - begin_s
        for what, sd, per_s in (("rotation_mrad", "rotation_sd_mrad", 1e-3 * TURNS_URAD_PER_S),
                                ("scale_ppm", "scale_sd_ppm", GROWS_PPM_PER_S)):
            # References have the same error in both; what is told has it, too.
            self.assertLess(abs(after[what] - before[what] - per_s * passed_s), 4 * after[sd], (what, before, after))
            self.assertGreater(abs(after[what]), 20 * after[sd], what)
        self.assertGreaterEqual(after["markers_used"], 14)
        self.assertIsNone(after["tilt_x_mrad"])
        said = rig.run_program([BIN / "driftctl", "--commands", rig.commands, "--publish", rig.publish, "status"]).stdout
        self.assertRegex(said, r"\npattern +turned \+0\.\d{4} \+-0\.\d{4} mrad, grown -\d+\.\d \+-\d+\.\d ppm\n")
        # A new reference is a new zero.
        rig.client.unlock()
        rig.client.lock()
        rig.wait_state("locked")
        rig.sleep(1)
        _, anew = self.pattern(rig)
        self.assertLess(abs(anew["rotation_mrad"]), 1e-3 * TURNS_URAD_PER_S * 3 + 4 * anew["rotation_sd_mrad"])
        file = rig.client.request("record", stop=True)[0]["record"]["file"]
        self.check_record(rig, file, after)

    def check_record(self, rig, file: str, after: dict) -> None:
        folder = rig.folder / "tables"
        rig.run_program([BIN / "driftctl", "export", file, "-o", folder])
        heading, *lines = (folder / "pattern.csv").read_text().splitlines()
        rows = [dict(zip(heading.split(","), line.split(","))) for line in lines]
        self.assertGreater(len(rows), 20)
        self.assertEqual({row["tilt_x_mrad"] for row in rows}, {""})
        most = max(float(row["rotation_mrad"]) for row in rows if row["rotation_mrad"])
        # Once a second: the last before the new reference may be one older.
        self.assertLess(abs(most - after["rotation_mrad"]), 3e-3 * TURNS_URAD_PER_S + 4 * after["rotation_sd_mrad"])

    def test_a_sample_that_does_neither_shows_neither(self):
        rig = self.start()
        for _ in range(5):
            rig.sleep(2)
            _, now = self.pattern(rig)
            self.assertLess(abs(now["rotation_mrad"]), 4.5 * now["rotation_sd_mrad"], now)
            self.assertLess(abs(now["scale_ppm"]), 4.5 * now["scale_sd_ppm"], now)
            # Sixteen markers of some 0.9 nm, 8 um from their middle, 100 frames: no worse than 5 times that.
            self.assertLess(now["rotation_sd_mrad"], 0.015)

    def test_without_frames_nothing_is_told(self):
        rig = self.start()
        rig.sleep(1)
        self.pattern(rig)
        rig.fault("vanish", seconds=30)
        rig.sleep(2)
        self.assertIsNone(rig.status()["pattern"])


if __name__ == "__main__":
    sys.exit(unittest.main())
