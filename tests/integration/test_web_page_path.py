# SPDX-License-Identifier: MIT
"""From an empty configuration to a lock by the page alone, in a real browser. The daemon and the simulator are in virtual
time, which a thread lets pass: no busy machine changes what is found."""
from __future__ import annotations

import math
import os
import pathlib
import threading
import time
import unittest

from browser import Browser, Clean, Web, make_small, until
from test_calibrate import MATRIX, SCALE, WORLD
from virtual_rig import VirtualRig


class Pump(threading.Thread):
    """Lets the rig's time pass, some five times as fast as the clock of the wall, until it is stopped."""

    def __init__(self, rig: VirtualRig):
        super().__init__(daemon=True)
        self._rig, self._over = rig, threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            self._rig.sleep(0.05)
            time.sleep(0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


class Path(Clean):  # tier: full
    def test_from_an_empty_configuration_to_a_lock(self):
        with VirtualRig() as rig:
            browser = Browser(rig)
            rig.start_sim(WORLD)  # its stage is turned by 130 degrees, mirrored, and moves 1.3 times as far
            file = rig.folder / "driftd.yaml"
            file.write_text("")
            rig.start_daemon(file, RUNTIME_DIRECTORY=str(rig.folder))
            web = Web(rig, "--config", file, "--operate", RUNTIME_DIRECTORY=str(rig.folder))
            with Pump(rig):
                browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(rig.folder)})
                browser.open(web.url)
                self.begin(browser)
                self.measure(browser)
                self.camera(browser)
                self.calibrate(browser, rig.folder / "driftd.yaml.d/stage-calibration.yaml")
                self.lock(browser)
                self.files(browser, rig.folder)
                self.narrow(browser)
                self.check(browser, web.url)
            self.assertEqual(file.read_text(), "")
            self.assertEqual(rig.status()["state"], "locked")
            self.assertEqual(rig.status()["stage"], "following")
            rig.wait_still(1.5)

    def step(self, browser: Browser, text: str):
        """The button of the line of what a lock needs."""
        item = until(lambda: browser.run(
            "return [...document.querySelectorAll('#begin li')].find((one) => one.textContent.includes(arguments[0])) ?? null", text), text)
        button = item.find_element("tag name", "button")
        until(lambda: button.is_displayed() and button.is_enabled(), f"a button: {text}")
        browser.run("arguments[0].scrollIntoView({block: 'center'})", button)
        return button

    def begin(self, browser: Browser) -> None:
        browser.wait_text("state-word", "Not locked")
        for line in ("\u2713 Camera", "\u2713 Exposure", "\u2713 Markers"):
            browser.wait_text("begin", line)
        self.step(browser, "\u2013 Lock: not yet.")

    def measure(self, browser: Browser) -> None:
        self.assertIn("Nothing is moved", browser.text("measure-state"))
        browser.set("measure-seconds", 2)
        browser.click("do-measure")
        advice = browser.wait_text("measure-advice", "averaging".capitalize())
        self.assertIn("the sample drifts by", advice.lower())
        self.assertRegex(browser.text("measure-rows"), r"0\.[45]\d nm at 2[67]\.\d\d Hz")
        self.assertIn("Done.", browser.text("measure-text"))
        self.assertFalse(browser.is_shown("do-measure-stop"))

    def camera(self, browser: Browser) -> None:
        self.assertFalse(browser.is_shown("camera-found"))
        browser.click("do-camera-light")
        browser.wait_text("camera-text", "Done.")
        self.assertRegex(browser.text("camera-found-rows"), r"Gain [34]\.\d+ \u00b1 .* not set [34]\.\d+")
        self.assertIn("A gain without an offset is worse than none", browser.text("camera-problem"))
        self.assertFalse(browser.element("do-camera-write").is_enabled())
        before = browser.fingerprint("camera-plot")
        self.assertNotEqual(before, 0)
        browser.click("do-camera-dark")
        browser.answer(False, "Is it dark?")

    def calibrate(self, browser: Browser, written: pathlib.Path) -> None:
        self.step(browser, "How the stage answers: as the configuration says").click()
        browser.answer(True, "100 nm")
        browser.wait_text("state-word", "Calibrating")
        button = self.step(browser, "a calibration has found it, and it is not written yet")
        self.assertIn("stage.image_to_stage", browser.text("proposal-lines"))
        if (folder := os.environ.get("DRIFTD_WEB_PICTURES")) is not None:
            self.keep_pictures(browser, pathlib.Path(folder))
        self.assertIn("The pixel is right", browser.text("proposal-question-text"))
        browser.run("document.getElementById('stage-is-right').click()")
        browser.wait_text("proposal-lines", "optics.pixel_size_nm")
        browser.run("document.getElementById('stage-is-right').click()")
        until(lambda: "optics.pixel_size_nm" not in browser.text("proposal-lines"), "the matrix has the factor again")
        until(button.is_enabled, "it may be written")
        button.click()
        browser.answer(False, "Write these values")
        self.assertFalse(written.exists())
        button.click()
        browser.answer(True, "Write these values")
        self.assertIn(str(written), browser.wait_text("proposal-written", "Taken over by driftd"))
        browser.wait_text("begin", "\u2713 How the stage answers: calibrated")
        line = next(line for line in written.read_text().splitlines() if "image_to_stage" in line)
        found = [float(part) for part in line.split(":")[1].replace("[", "").replace("]", "").split(",")]
        self.assertLess(max(math.dist(found[:2], MATRIX[0]), math.dist(found[2:], MATRIX[1])), 0.02 * SCALE)

    def keep_pictures(self, browser: Browser, folder: pathlib.Path) -> None:
        """Of docs/use/web.md."""
        browser.run("document.getElementById('reply').textContent = ''")
        for name, of in (("web-begin.png", "begin-title"), ("web-calibration.png", "calibration-title")):
            section = browser.element(of).find_element("xpath", "..")
            browser.run("arguments[0].scrollIntoView()", section)
            time.sleep(1)
            section.screenshot(str(folder / name))
            make_small(folder / name, min(section.size["width"], 1000))

    def lock(self, browser: Browser) -> None:
        self.step(browser, "\u2013 Lock: not yet.").click()
        browser.wait_text("state-word", "Locked")
        browser.wait_text("begin", "\u2713 Lock: it holds.")
        self.assertIn("unlock first", browser.text("measure-state"))

    def files(self, browser: Browser, folder: pathlib.Path) -> None:
        browser.click("save-whole")
        browser.wait_text("save-text", "256 \u00d7 256 px")
        file = until(lambda: next(folder.glob("driftd-frame-*.tif"), None), "a file")
        until(lambda: file.stat().st_size > 2 * 256 * 256, "all of it")
        browser.click("do-report")
        browser.wait_text("report-text", "othing has been recorded")

    def narrow(self, browser: Browser) -> None:
        browser.resize(360, 740, mobile=True)
        browser.prefer("dark")
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        widest = browser.run("return document.documentElement.scrollWidth")
        self.assertLessEqual(widest, 360, browser.run(
            "return [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > 361).map((e) => e.id || e.tagName)"))


if __name__ == "__main__":
    unittest.main()
