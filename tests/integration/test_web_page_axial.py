# SPDX-License-Identifier: MIT
"""z on the page, in a real browser: calibrated, written, held, and its correction in the plot. The daemon and the simulator are
in virtual time."""
from __future__ import annotations

import unittest

from browser import Browser, Clean, Web, until
from test_calibrate_axial import CALM, CAMERA, STAGE, WORLD, changed
from test_web_page_path import Pump
from virtual_rig import VirtualRig


class Axial(Clean):  # tier: full
    def begin(self, rig: VirtualRig, **config: dict) -> Browser:
        browser = Browser(rig)
        rig.start_sim(changed(WORLD, *CALM))
        self.file = rig.config(camera=CAMERA, optics={"pixel_size_nm": 100}, **config)
        rig.start_daemon(self.file)
        self.web = Web(rig, "--config", self.file, "--operate")
        return browser

    def test_z_is_calibrated_written_and_held(self):
        with VirtualRig() as rig:
            browser = self.begin(rig, axial={"method": "astigmatic", "stage": STAGE})
            with Pump(rig):
                browser.open(self.web.url)
                browser.wait_text("z-calibration-text", "None since the daemon's start.")
                browser.set("z-range", 300)
                browser.click("do-z-calibrate")
                browser.answer(False, "up and down by at most 300 nm")
                self.assertEqual(rig.client.request("calibration", axes="z")[0]["phase"], "none")
                browser.click("do-z-calibrate")
                browser.answer(True, "Calibrate z?")
                browser.wait_text("reply", "300 nm each way")
                until(lambda: browser.is_shown("z-calibration-progress"), "how far it is")
                browser.click("do-z-calibrate-stop")
                browser.wait_text("z-calibration-text", "stopped.")
                self.assertFalse(browser.is_shown("z-proposal"))
                browser.click("do-z-calibrate")
                browser.answer(True, "Calibrate z?")
                self.write(rig, browser)
                rig.wait_until(lambda s: s["axial"]["valid"], "z is measured")
                rig.client.request("lock", axes="z")
                until(lambda: browser.run("return driftdPage.rings.of(60).extent([8]) !== null"), "a correction of z is in the plot")
                self.assertEqual(browser.run("return driftdPage.plots.correction.lines.map(({name}) => name).join('')"), "xyz")
                self.assertIn("y and z", browser.element("plot-correction").get_attribute("aria-label"))
                browser.wait_text("z-calibration-why", "unlock it first")
                self.assertFalse(browser.element("do-z-calibrate").is_enabled())
                self.check(browser, self.web.url)

    def write(self, rig: VirtualRig, browser: Browser) -> None:
        found = browser.wait_text("z-proposal-findings", "hysteresis")
        for part in ("crossing", "z is read", "tilt of the stage", "noise of z"):
            self.assertIn(part, found)
        until(lambda: browser.run("const i = document.getElementById('z-curve'); return i.complete && i.naturalWidth > 100"), "the curve's picture")
        self.assertIn("z-curve.yaml", browser.text("z-proposal-file"))
        self.assertFalse(browser.is_shown("z-proposal-question"))
        browser.click("do-z-write")
        browser.answer(True, "Write these values")
        browser.wait_text("z-proposal-written", "Taken over by driftd")
        self.assertFalse(browser.element("do-z-write").is_enabled())
        # Removed by hand: the page finds out with the next reload, and writes it again.
        curve = self.file.with_name("driftd.z-curve.yaml")
        curve.unlink()
        with self.assertRaisesRegex(Exception, "z-curve.yaml"):
            rig.client.request("reload")
        until(lambda: browser.element("do-z-write").is_enabled(), "it is offered again")
        self.assertFalse(browser.is_shown("z-proposal-written"))
        browser.click("do-z-write")
        browser.answer(True, "Write these values")
        browser.wait_text("z-proposal-written", "Taken over by driftd")
        self.assertTrue(curve.exists())

    def test_without_z_nothing_of_it_is_seen(self):
        with VirtualRig() as rig:
            browser = self.begin(rig)
            with Pump(rig):
                browser.open(self.web.url)
                browser.wait_text("state-word", "Not locked")
                browser.wait_text("calibration-text", "None since")
                self.assertFalse(browser.is_shown("z-calibration"))
                self.assertTrue(browser.is_shown("do-calibrate"))
                self.check(browser, self.web.url)


if __name__ == "__main__":
    unittest.main()
