# SPDX-License-Identifier: MIT
"""Calibrating z by its stage: of a sample behind a lens of which the configuration knows no curve, judged by the truth."""
from __future__ import annotations

import re
import unittest

from harness import BIN, SOURCE, new_rig

WORLD = (SOURCE / "config/examples/scenario-axial.yaml").read_text()
# x and y walk so little that the tilt is known to some nm for a micrometre; coma stays.
CALM = (("random_walk_nm_per_sqrt_s: 4", "random_walk_nm_per_sqrt_s: 0.3"),)
CAMERA = {"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3}  # the world's
STAGE = "{delay_us: 2500, resonance_hz: 100, damping: 0.7}"
REFLECTION = "{x_px: 128, y_px: 240, roi_px: 28}"


def changed(world: str, *replacements: tuple[str, str]) -> str:
    for old, new in replacements:
        assert old in world, old
        world = world.replace(old, new)
    return world


class CalibrateAxial(unittest.TestCase):
    def setUp(self):
        self.rig = self.enterContext(new_rig())

    def start(self, world: str = WORLD, **axial) -> None:
        self.rig.start_sim(world)
        self.file = self.rig.config(camera=CAMERA, optics={"pixel_size_nm": 100},
                                    axial={"method": "astigmatic", "stage": STAGE, **axial})
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "measured")

    def begin(self, **fields) -> dict:
        return self.rig.client.request("calibrate", axes="z", **fields)[0]

    def calibration(self) -> dict:
        return self.rig.client.request("calibration", axes="z")[0]

    def wait_over(self) -> dict:
        end_ns = self.rig.now_ns() + 100e9
        while (now := self.calibration())["phase"] in ("moving", "returning", "fitting"):
            self.assertLess(self.rig.now_ns(), end_ns, now)
            self.rig.sleep(0.1)
        return now

    def stage_nm(self) -> float:
        seen = self.rig.truth().collect(0.2)
        return sum(t["stage_z_nm"] for t in seen) / len(seen)

    def wait_far_from(self, before_nm: float) -> None:
        end_ns = self.rig.now_ns() + 60e9
        while abs(self.stage_nm() - before_nm) < 100:
            self.assertLess(self.rig.now_ns(), end_ns, self.calibration())

    def wait_done(self, share: float) -> None:
        end_ns = self.rig.now_ns() + 60e9
        while self.calibration()["progress"] < share:
            self.assertLess(self.rig.now_ns(), end_ns)
            self.rig.sleep(0.1)

    def driftctl(self, *arguments):
        return self.rig.run_program([BIN / "driftctl", "--config", self.file, *arguments], answer_s=0.5)

    def test_a_curve_is_made_and_kept_and_a_lock_by_it_moves_the_sample_as_far_as_told(self):
        self.start(changed(WORLD, *CALM))
        axial = self.rig.status()["axial"]
        self.assertEqual((axial["valid"], axial["reason"]), (False, "not_calibrated"))
        self.assertIn("driftctl calibrate z", axial["text"])
        before = self.stage_nm()
        ran = self.driftctl("calibrate", "z", "--write", "--yes")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for line in ("markers", "crossing", "z is read", "noise of z", "hysteresis", "drift meanwhile", "tilt of the stage",
                     "step of +50 nm", "step of -50 nm"):
            self.assertIn(line, ran.stdout)
        self.assertLess(abs(self.stage_nm() - before), 1)
        result = self.calibration()["result"]
        for told, sd, truth in zip(result["tilt_nm_per_um"], result["tilt_sd_nm_per_um"], (20, 0)):
            self.assertLess(abs(told - truth), 3 * sd + 1)
            self.assertLess(sd, 15)
        self.assertIn("Read back: the curve is the one of this sweep, and the configuration loads", ran.stderr)
        self.assertLess(abs(result["hysteresis_nm"]["value"]), 4)
        self.assertLess(result["predicted_sd_nm"], 3)
        for _, read_nm in result["check_nm"]:
            self.assertAlmostEqual(abs(read_nm), 50, delta=4)
        self.assertTrue(self.file.with_name(self.file.stem + ".z-curve.yaml").exists())
        self.assertIn("<svg", self.file.with_name(self.file.stem + ".z-curve.svg").read_text())

        self.rig.client.request("reload")
        self.rig.wait_until(lambda s: s["axial"]["valid"], "z is measured")
        self.rig.client.request("lock", axes="z")
        self.rig.wait_until(lambda s: s["axial"]["lock"]["state"] == "locked", "z is locked")
        self.rig.sleep(1)
        places = []
        for z_nm in (0, 100, -100):
            self.rig.client.request("move", z_nm=z_nm)
            self.rig.sleep(1.5)
            seen = self.rig.truth().collect(1)
            places.append(sum(t["sample_z_nm"] for t in seen) / len(seen))
        self.assertAlmostEqual(places[1] - places[0], 100, delta=4)
        self.assertAlmostEqual(places[2] - places[0], -100, delta=4)

    def test_what_happens_in_mid_sweep_is_told_for_what_it_is(self):
        self.start(changed(WORLD, *CALM))
        for fault, fields, why in (("step", {"z_nm": 100}, r"the sample jumped by about \+\d+ nm in z"),
                                   ("stage_stuck", {"axes": "z", "seconds": 4}, "the stage stood still|went no farther than")):
            before = self.stage_nm()
            self.begin(range_nm=300, step_nm=25, frames=20)
            self.wait_done(0.3)
            self.rig.fault(fault, **fields)
            over = self.wait_over()
            self.assertEqual(over["phase"], "refused", over)
            self.assertRegex(over["text"], why)
            self.assertIn("back", over["text"])
            self.assertIsNone(over["result"])
            self.assertLess(abs(self.stage_nm() - before), 1)

    def test_a_daemon_that_ends_in_mid_sweep_leaves_the_stage_and_the_next_one_says_so(self):
        self.start()
        before = self.stage_nm()
        self.begin(range_nm=300)
        self.wait_far_from(before)
        self.rig.daemon.kill()
        at = self.stage_nm() - before
        said = r"the end of driftd interrupted a calibration of z \d.* ago: its stage was told last to be some ([+-]\d+) nm from where it began"
        for _ in range(2):  # it is known for as long as nothing is done about it
            self.rig.start_daemon(self.file)
            self.rig.daemon.wait_for("calibration: the end of driftd interrupted")
            told = re.search(said, self.rig.daemon.text())
            self.assertAlmostEqual(float(told[1]), at, delta=50)
            self.rig.sleep(2)
            self.assertRegex(self.rig.status()["axial"]["warning"], said)
            self.assertAlmostEqual(self.stage_nm() - before, at, delta=1)
            self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "measured")
        self.begin(range_nm=300)
        self.rig.sleep(1)
        self.rig.client.request("calibrate", axes="z", stop=True)
        self.wait_over()
        self.assertRegex(self.rig.status()["axial"]["warning"], said)  # z never went back
        self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        self.rig.daemon.wait_for("calibration: the end of driftd interrupted")
        self.assertAlmostEqual(float(re.search(said, self.rig.daemon.text())[1]), at, delta=50)

    def test_a_sweep_whose_way_back_cannot_be_written_does_not_begin(self):
        self.start()
        before = self.stage_nm()
        (state,) = (self.rig.folder / "state").glob("sweep-*.state.owner")
        in_the_way = state.with_suffix(".new")
        in_the_way.mkdir()
        done = self.rig.run_program([BIN / "driftctl", "--commands", self.rig.commands, "--publish", self.rig.publish,
                                     "calibrate", "z", "--yes"])
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "where the stage of z begins cannot be written down, .*: .*state.new")
        self.rig.daemon.wait_for("state_not_written: the next driftd would not know where a calibration of z began: ")
        self.assertLess(abs(self.stage_nm() - before), 1)
        in_the_way.rmdir()
        self.begin(range_nm=300)
        self.wait_far_from(before)

    def test_z_is_not_locked_at_start_where_a_killed_sweep_left_it(self):
        axial = {"method": "reflection", "hold": "true", "reflection": REFLECTION[:-1] + ", nm_per_px: 32}"}
        self.start(changed(WORLD, *CALM), **axial)
        before = self.stage_nm()
        self.begin(range_nm=200)
        self.wait_far_from(before)
        self.rig.daemon.kill()
        at = self.stage_nm() - before
        self.file = self.rig.config(camera=CAMERA, optics={"pixel_size_nm": 100}, lock={"at_start": "true"},
                                    axial={"stage": STAGE, **axial})
        self.rig.start_daemon(self.file)
        self.rig.wait_state("locked")
        self.rig.sleep(3)
        status = self.rig.status()["axial"]
        self.assertEqual(status["lock"]["state"], "idle")
        self.assertIn("lock.at_start does not lock z where an interrupted calibration left its stage", status["lock"]["cure"])
        self.assertAlmostEqual(self.stage_nm() - before, at, delta=1)
        self.rig.client.request("lock", axes="z")
        self.rig.wait_until(lambda s: s["axial"]["lock"]["state"] == "locked", "z is locked")
        self.assertNotIn("interrupted a calibration", self.rig.status()["axial"]["warning"])

    def test_the_travel_that_the_driver_tells_is_a_limit(self):
        self.start()
        axis = {"axis": "z", "name": "1", "min_nm": 0, "max_nm": 100_000, "resolution_nm": 0.1, "closed_loop": True,
                "position_nm": 270.0, "target_nm": 270.0}
        report = {"instance": "1", "driver": "test", "axes": [axis], "state": "ready", "total_z_nm": None,
                  "time_ns": self.rig.now_ns()}
        self.rig.client.request("stage", **report)
        with self.assertRaises(Exception) as refused:
            self.begin(range_nm=300)
        self.assertRegex(str(refused.exception), "360 nm each way from where it is, 270 nm, and its driver says that it goes from "
                                                 "0 to 100000 nm; 210 nm each way are possible")
        report["axes"] = [{**axis, "position_nm": 70.0}]
        self.rig.client.request("stage", **report)
        with self.assertRaises(Exception) as refused:
            self.begin()
        self.assertIn("in steps of 25 nm a sweep takes the sample 200 nm each way at least, 260 nm with the way to its first place; "
                      "70 nm are left by axial.range_limit_nm (2000 nm)", str(refused.exception))
        report["axes"] = [axis]
        self.rig.client.request("stage", **report)
        self.assertEqual(self.begin()["range_nm"], 210)
        over = self.wait_over()  # the driver is silent from here on
        self.assertEqual(over["phase"], "failed", over)
        self.assertIn("was told to go back to its start", over["text"])

    def test_what_cannot_be_written_leaves_the_files_as_they_were(self):
        self.start(changed(WORLD, *CALM))
        old = "# by hand\n" + self.file.read_text() + "\n# an end\n"
        self.file.write_text(old)
        curve = self.file.with_name(self.file.stem + ".z-curve.yaml")
        curve.write_text("# the one before\n")
        drop_ins = self.file.with_name(self.file.name + ".d")
        drop_ins.mkdir(exist_ok=True)
        (drop_ins / "zz.yaml").write_text("axial: {curve: other.yaml}\n")
        drop_in = drop_ins / "axial-calibration.yaml"
        drop_in.mkdir()  # no file can take its place
        ran = self.driftctl("calibrate", "z", "--range-nm", "300", "--write", "--yes")
        self.assertNotEqual(ran.returncode, 0)
        self.assertEqual(self.calibration()["phase"], "none")
        self.assertEqual((self.file.read_text(), curve.read_text()), (old, "# the one before\n"))
        self.assertEqual(sorted(p.name for p in self.file.parent.glob("*.z-curve*")), [curve.name])
        drop_in.rmdir()
        (drop_ins / "zz.yaml").unlink()
        ran = self.driftctl("calibrate", "z", "--range-nm", "300", "--write", "--yes")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.file.read_text(), old)
        self.assertIn("the one before is", ran.stderr)
        self.assertEqual([p.read_text() for p in self.file.parent.glob(curve.name + ".before-*")], ["# the one before\n"])
        self.assertIn(curve.name, drop_in.read_text())

    def test_where_results_go_is_checked_before_the_stage_moves(self):
        self.start()
        folder = self.file.parent / "curve.svg"
        folder.mkdir()
        for output, why in ((self.file.parent / "none" / "c.yaml", "is no folder"), ("/proc/c.yaml", "cannot write /proc/c.yaml"),
                            (folder.with_suffix(".yaml"), "cannot write " + str(folder))):
            ran = self.driftctl("calibrate", "z", "-o", output)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn(why, ran.stderr)
        ran = self.driftctl("calibrate", "z", "-o", folder.with_suffix(".yaml"), "--write", "--yes")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn(str(folder), ran.stderr)
        self.assertEqual(self.calibration()["phase"], "none")
        self.assertFalse(folder.with_suffix(".yaml").exists())

    def test_limits_that_leave_no_room_are_named_with_what_helps(self):
        self.start(range_limit_nm=300)
        with self.assertRaises(Exception) as refused:
            self.begin(step_nm=100)
        for words in ("300 nm each way at least, 500 nm with", "300 nm are left by axial.range_limit_nm (300 nm)",
                      "steps of 50 nm or less (--step-nm)"):
            self.assertIn(words, str(refused.exception))
        self.assertEqual(self.begin(step_nm=50)["range_nm"], 200)
        with self.assertRaisesRegex(Exception, r"is being calibrated: .*stop it where it was begun \(Ctrl-C\)"):
            self.rig.client.request("lock", axes="z")
        self.begin(stop=True)
        self.wait_over()
        with new_rig() as self.rig:  # no sweep is made that no lock may go by
            self.start(range_limit_nm=200)
            with self.assertRaisesRegex(Exception, "200 nm each way at least, 260 nm with .*: a larger limit"):
                self.begin()

    def test_a_sweep_that_is_too_short_for_a_lock_is_told_to_go_farther(self):
        self.start(changed(WORLD, *CALM))
        self.begin(range_nm=200)
        over = self.wait_over()
        self.assertIn("needed are 200 nm to either side: sweep farther (--range-nm)", over["text"])

    def test_what_was_edited_meanwhile_stays(self):
        self.start(changed(WORLD, *CALM))
        text = self.file.read_text()
        self.assertIn("delay_us: 2500", text)
        edited = text.replace("delay_us: 2500", "gain: -1.5, delay_us: 2500")
        self.file.write_text(edited)  # and not reloaded
        ran = self.driftctl("calibrate", "z", "--range-nm", "300", "--write", "--yes")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("has an axial.stage.gain of -1.5, and driftd made the sweep with 1", ran.stderr)
        self.assertEqual(self.file.read_text(), edited)
        self.assertEqual(list(self.file.parent.glob("*.z-curve*")), [])
        self.assertFalse(self.file.with_name(self.file.name + ".d").exists())

    def test_stopped_or_without_light_the_stage_goes_back(self):
        self.start()
        before = self.stage_nm()
        begun = self.begin()
        self.assertEqual(begun["run"], 1)
        self.assertEqual(self.rig.status()["axial"]["lock"]["state"], "calibrating")
        self.wait_far_from(before)
        self.begin(stop=True)
        over = self.wait_over()
        self.assertEqual(over["phase"], "stopped")
        self.assertRegex(over["text"], "is back at its start|was told to go back to its start")
        self.assertLess(abs(self.stage_nm() - before), 1)

        self.begin()
        self.wait_far_from(before)
        self.rig.fault("hide_markers", seconds=3)
        over = self.wait_over()
        self.assertEqual(over["phase"], "failed")
        self.assertIn("not seen", over["text"])
        self.assertLess(abs(self.stage_nm() - before), 1)

    def test_where_driftd_ends_in_mid_sweep_the_stage_goes_back_first_or_it_says_where_it_is(self):
        for axial, words in (({}, "calibration of z stopped: driftd was told to end; the stage of z "),
                             ({"rate_limit_nm_per_s": 15}, r"driftd ended before the stage of z was back: it was left at -\d")):
            with self.subTest(axial), new_rig() as self.rig:
                self.start(changed(WORLD, *CALM), **axial)
                before = self.stage_nm()
                self.begin(range_nm=300 if not axial else 100)
                self.wait_far_from(before)
                self.rig.daemon.stop()
                self.assertRegex(self.rig.daemon.text(), words)
                self.assertEqual(abs(self.stage_nm() - before) < 1, not axial)
                self.rig.start_daemon(self.file)
                self.rig.sleep(2)
                told = "interrupted a calibration of z" in (self.rig.status()["axial"]["warning"] or "")
                self.assertEqual(told, bool(axial))

    def test_unlock_leaves_the_stage_and_tells_where(self):
        self.start(changed(WORLD, *CALM))
        before = self.stage_nm()
        self.begin(range_nm=300)
        self.wait_far_from(before)
        self.rig.client.request("unlock", axes="z")
        over = self.wait_over()
        self.assertEqual(over["phase"], "stopped")
        left = re.fullmatch(r"it was ended by `unlock`; the stage of z was left at (.*) nm from its start", over["text"])
        self.assertTrue(left, over["text"])
        self.assertAlmostEqual(float(left[1]), self.stage_nm() - before, delta=3)

    def test_it_is_refused_where_it_cannot_be(self):
        self.start()
        for fields, why in (({"range_nm": 100, "step_nm": 90}, "steps"), ({"range_nm": 2000}, "axial.range_limit_nm"),
                            ({"excursion_nm": 50}, "excursion_nm")):
            with self.assertRaises(Exception) as refused:
                self.begin(**fields)
            self.assertIn(why, str(refused.exception))
        self.begin(range_nm=100, step_nm=25)
        for command in ({"command": "calibrate"}, {"command": "calibrate", "axes": "z"}):
            with self.assertRaises(Exception) as refused:
                self.rig.client.request(**command)
            self.assertIn("under way", str(refused.exception))
        self.begin(stop=True)
        self.wait_over()

    def test_a_stage_that_stands_still_is_refused_by_its_name(self):
        self.start(changed(WORLD, ("    tilt_x_nm_per_um: 20", "    tilt_x_nm_per_um: 0\n    coupling: 0.001")))
        self.begin(range_nm=200)
        over = self.wait_over()
        self.assertEqual(over["phase"], "refused", over)
        self.assertIn("does not move the sample", over["text"])
        self.assertIsNone(over["result"])

    def test_a_reflected_spot_is_calibrated_by_the_same_sweep(self):
        self.start(changed(WORLD, ("  y_px: 244", "  y_px: 240")), method="reflection", reflection=REFLECTION)
        self.assertEqual(self.rig.status()["axial"]["reason"], "not_calibrated")
        self.begin(range_nm=200)
        over = self.wait_over()
        self.assertEqual(over["phase"], "done", over)
        spot = over["result"]["reflection"]
        self.assertAlmostEqual(spot["nm_per_px"], 1000 / 30, delta=0.7)
        self.assertAlmostEqual(abs(spot["angle_deg"]), 0, delta=1)


if __name__ == "__main__":
    unittest.main()
