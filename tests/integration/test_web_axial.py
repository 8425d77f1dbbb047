# SPDX-License-Identifier: MIT
"""z is calibrated from the page of driftd-web: what a sweep found is told, written as `driftctl calibrate z --write` does, and
taken over; corrections of z are told beside those of x and y."""
from __future__ import annotations

import unittest

from harness import DEADLINE_S
from test_calibrate_axial import CALM, CAMERA, REFLECTION, STAGE, WORLD, changed
from test_web_tools import ToolsCase

DROP_IN = "axial-calibration.yaml"
ASKED = {"command": "calibration", "axes": "z"}


class Axial(ToolsCase):
    world = changed(WORLD, *CALM)
    known = {"camera": CAMERA, "optics": {"pixel_size_nm": 100}, "axial": {"method": "astigmatic", "stage": STAGE}}

    def post(self, command: dict):
        return self.while_time_passes(lambda: self.web.post({"command": command}, self.csrf))

    def sweep(self, range_nm: float = 300) -> dict:
        """By the page's own command."""
        status, begun = self.post({"command": "calibrate", "axes": "z", "range_nm": range_nm})
        self.assertEqual((status, begun["ok"]), (200, True), begun)
        end_ns = self.rig.now_ns() + 1e9 * DEADLINE_S
        while (now := self.rig.client.request("calibration", axes="z")[0])["phase"] in ("moving", "returning", "fitting"):
            self.assertLess(self.rig.now_ns(), end_ns, now)
            self.rig.sleep(0.2)
        self.assertEqual((now["phase"], now["run"]), ("done", begun["run"]), now)
        return now["result"]

    def curve(self):
        return self.file.with_name(self.file.stem + ".z-curve.yaml")

    def test_what_a_sweep_found_is_written_read_and_holds(self):
        self.start("--operate")
        self.assertIn("no calibration of z", self.use("proposal_z")["error"])
        result = self.sweep()
        proposal = self.use("proposal_z")
        self.assertEqual((proposal["problem"], proposal["run"], proposal["file"], proposal["curve"], proposal["question"]),
                         ("", 1, str(self.drop_in(DROP_IN)), str(self.curve()), None))
        found = "\n".join(proposal["findings"])
        for line in ("crossing", "z is read", "noise of z", "hysteresis", "tilt of the stage"):
            self.assertIn(line, found)
        self.assertEqual(proposal["lines"], ['axial.curve: "driftd.z-curve.yaml"', "axial.stage.gain: 1"])
        self.assertIn("not the last calibration", self.write("write_z", run=2)["error"])
        self.assertIn("`session` is missing", self.use("write_z", run=1)["error"])
        self.assertIn("`run` is missing", self.use("write_z", session=proposal["session"])["error"])
        self.assertIn("not the last calibration", self.use("write_z", run=1, session="0" * 16)["error"])
        self.assertFalse(self.curve().exists() or self.drop_in(DROP_IN).exists())

        written = self.write("write_z", run=1)
        self.assertEqual((written["ok"], written["restart"]), (True, False), written)
        said = "\n".join(written["lines"])
        for part in (f"Written to {self.curve()}.", f"Written to {self.drop_in(DROP_IN)}.",
                     "Read back: the curve is the one of this sweep", f"Taken over by driftd: {self.file} with {DROP_IN}."):
            self.assertIn(part, said)
        self.assertNotIn("systemctl", said)
        self.assertEqual(self.curve().read_text(), "\n".join(result["curve"]["text"]) + "\n")
        self.assertIn("<svg", self.curve().with_suffix(".svg").read_text())
        self.assertTrue(self.drop_in(DROP_IN).read_text().startswith("# Measured by `driftd-web`, "))
        self.assertEqual(self.use("proposal_z")["written"]["lines"], written["lines"])
        self.assertIn("written already", self.write("write_z", run=1)["error"])
        self.rig.wait_until(lambda s: s["axial"]["valid"], "z is measured")
        self.restart_web()
        again = self.use("proposal_z")
        self.assertEqual((again["problem"], again.get("written")), ("",
                         {"lines": [f"{self.file} has this curve and these values already."], "restart": False}))

        self.curve().unlink()  # by hand: it can be written again
        again = self.use("proposal_z")
        self.assertEqual((again["problem"], again.get("written"), again["curve"]), ("", None, str(self.curve())))
        self.assertIn(f"Written to {self.curve()}.", self.write("write_z", run=1)["lines"])
        self.assertEqual(self.curve().read_text(), "\n".join(result["curve"]["text"]) + "\n")
        self.assertIn("written", self.use("proposal_z"))
        self.curve().unlink()  # of what this driftd-web has written, too
        self.assertNotIn("written", self.use("proposal_z"))
        self.assertTrue(self.write("write_z", run=1)["ok"])

        self.rig.client.request("lock", axes="z")
        self.rig.wait_until(lambda s: s["axial"]["lock"]["state"] == "locked", "z is locked")
        self.rig.sleep(1)
        total_nm = self.rig.status()["axial"]["lock"]["total_z_nm"]
        told = self.told(lambda h: h["kind"] == "samples" and any(h.get("correction_z_nm", [])), "a correction of z")
        self.assertAlmostEqual(next(nm for nm in reversed(told["correction_z_nm"]) if nm is not None), total_nm, delta=30)
        self.assertTrue(all(nm is None for nm in told["correction_nm"][0]), told)  # x and y have none

    def test_where_the_curve_until_now_is_right_it_stays(self):
        self.start("--operate")
        self.sweep()
        self.write("write_z", run=1)
        self.told(lambda h: h["kind"] == "event" and any(e["code"] == "configuration_reloaded" for e in h["events"]), "reloaded")
        before = self.curve().read_text()
        self.assertAlmostEqual(self.sweep()["gain_by_curve"], 1, delta=0.05)
        self.assertIn("By the curve until now", self.use("proposal_z")["question"][0])
        proposal = self.use("proposal_z", keep_curve=True)
        self.assertNotIn("curve", proposal)
        self.assertRegex(" ".join(proposal["lines"]), r"^axial\.stage\.gain: (0\.9|1\.0|1$)")
        written = self.write("write_z", run=2, keep_curve=True)
        self.assertIn("Taken over by driftd", "\n".join(written["lines"]))
        self.assertEqual(self.curve().read_text(), before)
        gain = proposal["lines"][0].split()[1]
        self.assertIn(gain, self.drop_in(DROP_IN).read_text())
        # Another driftd-web knows it by the files, whichever is asked for: neither can be written again.
        self.assertNotEqual(gain, "1")
        self.restart_web()
        for keep_curve in (False, True):
            again = self.use("proposal_z", keep_curve=keep_curve)
            self.assertEqual((again["problem"], again["written"]),
                             ("", {"lines": [f"{self.file} has the gain by the curve until now already: axial.stage.gain {gain}."], "restart": False}))
            self.assertIn("written already", self.write("write_z", run=2, keep_curve=keep_curve)["error"])
        # A gain that is neither is named before anything is offered.
        self.drop_in(DROP_IN).write_text(self.drop_in(DROP_IN).read_text().replace(f"gain: {gain}", "gain: 0.7"))
        self.restart_web()
        self.assertIn("has an axial.stage.gain of 0.7, and driftd made the sweep with 1", self.use("proposal_z")["problem"])

    def test_whether_it_was_taken_over_is_told_as_it_is_now(self):
        self.start("--operate")
        self.while_time_passes(lambda: self.rig.client.exposure(exposure_us=900))
        self.assertTrue(self.use("write_exposure")["restart"])  # a reload is refused as long as that waits
        self.while_time_passes(lambda: self.rig.client.exposure(exposure_us=1000))
        self.sweep()
        told = self.write("write_z", run=1)
        self.assertRegex(told["lines"][-1], "^Not taken over by driftd: .*camera.exposure_us")
        self.assertTrue(told["restart"])
        self.assertEqual(self.use("proposal_z")["written"], {"lines": told["lines"], "restart": True})
        self.drop_in("exposure.yaml").unlink()
        self.while_time_passes(lambda: self.rig.client.request("reload"))
        self.assertEqual(self.use("proposal_z")["written"], {"lines": [*told["lines"][:-1], "Taken over by driftd since."], "restart": False})
        # The file of the same name holds another curve than the one in force: that one waits.
        taken_over = self.curve().read_text()
        self.sweep()
        self.assertNotIn("written", self.use("proposal_z"))
        (self.file.parent / "driftd.yaml.d" / "z.yaml").write_text("camera: {exposure_us: 900}\n")
        told = self.write("write_z", run=2)
        self.assertNotEqual(self.curve().read_text(), taken_over)
        self.restart_web()
        waits = self.use("proposal_z")["written"]
        self.assertTrue(waits["restart"], waits)
        self.assertRegex(waits["lines"][-1], "^Restart driftd: it does not go by them yet")
        self.assertIn("axial.curve", self.rig.client.request("reload", check=True)[0]["differs"])

    def test_a_run_of_another_start_of_driftd_is_not_written(self):
        self.start("--operate")
        self.sweep()
        seen = self.use("proposal_z")
        self.rig.daemon.stop()
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "measured")
        while self.post(ASKED)[1].get("session") in (None, seen["session"]):
            self.pass_time()  # it finds the daemon anew
        self.sweep()
        refused = self.use("write_z", run=seen["run"], session=seen["session"])
        self.assertIn("not the last calibration of z any more", refused["error"])
        self.assertFalse(self.curve().exists())
        now = self.use("proposal_z")
        self.assertEqual(now["run"], seen["run"])
        self.assertTrue(self.use("write_z", run=now["run"], session=now["session"])["ok"])

    def test_what_is_not_to_be_written_is_said(self):
        self.start("--operate")
        self.sweep()
        self.curve().mkdir()  # no file can take its place
        refused = self.write("write_z", run=1)
        self.assertRegex(refused["error"], f"may not write there: .*{self.curve()}.* Run `driftctl --config {self.file} calibrate z --write`")
        self.assertEqual(self.use("proposal_z")["problem"], refused["error"])
        self.curve().rmdir()
        old = self.file.read_text()
        self.file.write_text(old.replace("damping: 0.7", "damping: 0.7, gain: -1"))  # edited meanwhile
        self.assertRegex(self.write("write_z", run=1)["error"], "axial.stage.gain from 1 to -1")
        self.assertFalse(self.curve().exists() or self.drop_in(DROP_IN).exists())
        self.file.write_text(old)
        self.assertTrue(self.write("write_z", run=1)["ok"])

    def test_who_observes_sees_what_was_found_and_moves_and_writes_nothing(self):
        self.start("--operate")
        self.sweep()
        web, csrf, cookie = self.observer()

        def post(body: dict):
            return self.while_time_passes(lambda: web.post(body, csrf, Cookie=cookie))

        status, reply = post({"command": ASKED})
        self.assertEqual((status, reply["phase"]), (200, "done"))
        status, reply = post({"command": {"command": "calibrate", "axes": "z"}})
        self.assertEqual((status, reply["code"]), (403, "forbidden"))
        before = self.rig.folder.stat().st_mtime_ns
        _, reply = post({"tool": {"tool": "proposal_z"}})
        self.assertIn("noise of z", "\n".join(reply["findings"]))
        self.assertIn("office has the role observe", reply["problem"])
        self.assertIn("office has the role observe", post({"tool": {"tool": "write_z", "run": 1}})[1]["error"])
        self.assertEqual(self.rig.folder.stat().st_mtime_ns, before)

    def test_of_a_reflected_spot_its_slope_is_written(self):
        self.world = changed(WORLD, *CALM, ("  y_px: 244", "  y_px: 240"))
        self.start("--operate", axial={"method": "reflection", "stage": STAGE, "reflection": REFLECTION})
        self.sweep(range_nm=200)
        proposal = self.use("proposal_z")
        self.assertEqual([line.split(":")[0] for line in proposal["lines"]],
                         ["axial.reflection.nm_per_px", "axial.reflection.angle_deg", "axial.stage.gain"])
        self.assertNotIn("curve", proposal)
        self.assertIn("Taken over by driftd", "\n".join(self.write("write_z", run=1)["lines"]))
        self.assertFalse(self.curve().exists())
        self.rig.wait_until(lambda s: s["axial"]["valid"], "z is measured")


if __name__ == "__main__":
    unittest.main()
