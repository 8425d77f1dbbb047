# SPDX-License-Identifier: MIT
"""The page of driftd-web in a real browser, with a real daemon and the simulator. What a control did is asked of the
daemon, not of the page."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import struct
import tempfile
import time
import unittest

from browser import Browser, Keys, Web, until
from harness import BIN, CalmRig


class PageRig(CalmRig):
    """A calm rig, driftd-web beside it, and a browser at its page."""

    def __init__(self, *arguments: str):
        super().__init__()
        self._arguments = arguments

    def begin(self, scenario: str | None = None, **config: dict) -> Browser:
        browser = Browser(self)  # skips, where there is none, before anything else is started
        self.start_sim(scenario)
        file = self.config(**{"gate": {"tolerance_nm": 20}, **config})  # which a busy machine keeps, too
        self.start_daemon(file)
        self.wait_markers()
        self.web = Web(self, "--config", f"lab={file}", *self._arguments)
        browser.open(self.web.url)
        browser.wait_text("state-word", "Not locked")
        return browser

    def lock(self) -> None:
        self.client.lock()
        self.wait_state("locked")


class Clean(unittest.TestCase):
    """Whatever a page does: no script fails, the policy is kept, and nothing else is asked than driftd-web."""

    def check(self, browser: Browser, url: str, allowed: str = "") -> None:
        errors = [error for error in browser.errors() if not allowed or allowed not in error]
        self.assertEqual(errors, [])
        own = (url, url.replace("http://", "ws://"), "data:", "blob:")
        self.assertEqual([asked for asked in browser.requests() if not asked.startswith(own)], [])


def brightness(browser: Browser) -> list[int]:
    """How many of the picture's pixels are dark, grey and bright; the canvas itself is asked."""
    return browser.run(
        "const c = document.getElementById('picture'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const n = [0, 0, 0];"
        "for (let i = 0; i < d.length; i += 4) if (d[i] === d[i + 1] && d[i] === d[i + 2]) ++n[d[i] < 64 ? 0 : d[i] < 192 ? 1 : 2];"
        "return n")


class FirstLook(Clean):
    def test_state_picture_and_a_lock(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            self.assertIn("Not in lock", browser.wait_text("in-lock", "Not in lock"))
            browser.run("document.getElementById('show-markers').click()")
            until(lambda: min(brightness(browser)) > 100, "spots of all greys")
            before = browser.fingerprint("plot-drift")
            until(lambda: browser.fingerprint("plot-drift") != before, "the plot goes on")
            browser.click("do-lock")
            rig.wait_state("locked")
            browser.wait_text("state-word", "Locked")
            self.check(browser, rig.web.url)


class Shown(Clean):  # tier: full
    def test_the_picture_is_the_cameras(self):
        with PageRig() as rig:
            browser = rig.begin()
            browser.run("document.getElementById('show-markers').click()")
            until(lambda: browser.run("return driftdPage.picture.image !== null"), "a picture")
            markers = rig.client.request("markers")[0]["markers"]
            _, pixels = rig.client.request("snapshot")
            values = struct.unpack(f"<{len(pixels) // 2}H", pixels)
            # A marker's centre is brighter than its surroundings, on the canvas as in the camera's pixels.
            for marker in markers[:5]:
                x, y = round(marker["x_px"]), round(marker["y_px"])
                self.assertGreater(values[y * 256 + x], values[(y + 8) * 256 + x])
                at = browser.run(
                    "const p = driftdPage.picture, g = (x, y) => { const s = p.toScreen_(x + 0.5, y + 0.5);"
                    "return p.surface_.context.getImageData(s.x, s.y, 1, 1).data[0]; };"
                    "return [g(arguments[0], arguments[1]), g(arguments[0], arguments[1] + 8)]", x, y)
                self.assertGreater(at[0], at[1] + 20, (marker, at))
            self.check(browser, rig.web.url)

    def test_contrast_and_zoom_change_by_hand_alone(self):
        with PageRig() as rig:
            browser = rig.begin()
            browser.run("document.getElementById('show-markers').click()")
            contrast = "return driftdPage.picture.contrast"
            first = until(lambda: browser.run(contrast), "a contrast")
            frame = browser.run("return driftdPage.picture.image.frame_id")
            until(lambda: browser.run("return driftdPage.picture.image.frame_id") > frame + 200, "more pictures")
            self.assertEqual(browser.run(contrast), first)
            browser.set("white-slider", 4000)
            browser.set("black-field", 100)
            self.assertEqual(browser.run(contrast), {"black": 100, "white": 4000})
            self.assertEqual(browser.element("white-field").get_property("value"), "4000")
            until(lambda: brightness(browser)[2] < 100, "hardly anything is bright")
            browser.click("contrast-once")
            self.assertNotEqual(browser.run(contrast), {"black": 100, "white": 4000})
            for _ in range(4):
                browser.click("zoom-in")
            region = until(lambda: browser.run("const i = driftdPage.picture.image; return i.width < i.full_width && i"),
                           "a picture of the part")
            self.assertLess(region["width"], 200)
            browser.click("zoom-whole")
            until(lambda: browser.run("const i = driftdPage.picture.image; return i.width === i.full_width"), "the whole")
            self.check(browser, rig.web.url)

    def test_data_that_stop_are_told(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            browser.wait_text("in-lock", "images may be taken")
            rig.daemon.child.send_signal(signal.SIGSTOP)
            try:
                browser.wait_text("state-word", "No data")
                self.assertIn("not known", browser.text("in-lock"))
                text = browser.text("state-text")
                self.assertRegex(text, r"since \d\d:\d\d:\d\d")
                self.assertIn("Locked", text)  # as the last that was known
                self.assertNotIn("\u2713", browser.text("in-lock"))
                self.assertEqual(browser.text("residual-rms"), "\u2013 / \u2013")
            finally:
                rig.daemon.child.send_signal(signal.SIGCONT)
            browser.wait_text("state-word", "Locked")
            # driftd-web itself: silent, with its connection still open.
            rig.web.process.child.send_signal(signal.SIGSTOP)
            try:
                browser.wait_text("state-word", "No data")
            finally:
                rig.web.process.child.send_signal(signal.SIGCONT)
            browser.wait_text("state-word", "Locked")
            # And gone, and there again at the same address. What was chosen by hand stays.
            browser.set("white-field", 2222)
            browser.run("driftdPage.plots.drift.range.fit(-2000, 2000)")
            contrast, span = "return driftdPage.picture.contrast", "return driftdPage.plots.drift.range.span"
            before = browser.run(contrast), browser.run(span)
            rig.web.process.kill()
            browser.wait_text("state-word", "No data")
            browser.wait_text("state-cure", "driftd-web does not answer")
            Web(rig, "--config", f"lab={rig.folder}/driftd.yaml", "--operate", listen=rig.web.url.split("/")[2])
            browser.wait_text("state-word", "Locked")
            until(lambda: browser.run("return driftdPage.picture.image !== null"), "a picture")
            self.assertEqual((browser.run(contrast), browser.run(span)), before)
            self.check(browser, rig.web.url, allowed="WebSocket connection to")

    def test_pictures_that_stop_are_told(self):
        with PageRig() as rig:
            browser = rig.begin()
            until(lambda: browser.run("return driftdPage.picture.image !== null"), "a picture")
            browser.run("driftdPage.connection.want({images: false})")
            browser.wait_text("picture-text", "No picture has come since")
            browser.run("driftdPage.connection.want({images: true})")
            browser.wait_text("picture-text", "no saturated pixel")
            self.check(browser, rig.web.url)

    def test_no_frames_are_told(self):
        with PageRig() as rig:
            browser = rig.begin()
            rig.sim.child.send_signal(signal.SIGSTOP)
            try:
                browser.wait_text("no-frames", "No frame has been measured since")
                self.assertNotIn("images may be taken", browser.text("in-lock"))
                self.assertNotEqual(browser.text("state-word"), "No data")  # the daemon is there
            finally:
                rig.sim.child.send_signal(signal.SIGCONT)
            until(lambda: not browser.is_shown("no-frames"), "frames again")

    def test_plots_change_their_range_in_steps_and_when_needed(self):
        with PageRig() as rig:
            browser = rig.begin()
            span = "const r = driftdPage.plots.drift.range; return [r.low, r.high]"
            until(lambda: browser.run("return driftdPage.rings.of(60).extent([0]) !== null"), "values")
            browser.run("driftdPage.plots.drift.range.fit(-2000, 2000)")
            wide = browser.run(span)
            t_s = browser.run("return driftdPage.newest_s")
            until(lambda: browser.run("return driftdPage.newest_s") > t_s + 2, "two seconds more")
            self.assertEqual(browser.run(span), wide)
            browser.click("drift-fit")
            fitted = browser.run(span)
            self.assertLess(fitted[1] - fitted[0], 1000)
            extent = browser.run("return driftdPage.rings.of(60).extent([0, 1])")
            self.assertLessEqual(fitted[0], extent["low"])
            self.assertGreaterEqual(fitted[1], extent["high"])
            browser.click("drift-wider")
            self.assertAlmostEqual(browser.run(span)[1] - browser.run(span)[0], 2 * (fitted[1] - fitted[0]))
            for seconds in ("600", "7200", "86400", "60"):
                before = browser.fingerprint("plot-drift")
                browser.set("span", seconds)
                until(lambda: browser.fingerprint("plot-drift") != before, f"the last {seconds} s")
            self.check(browser, rig.web.url)

    def test_tables_and_log(self):
        with PageRig() as rig:
            browser = rig.begin()
            rig.lock()
            browser.wait_text("log", "locked")
            status = rig.status()
            self.assertIn(status["camera"]["description"].split()[-1], browser.wait_text("camera-rows", "driftd-sim"))
            markers = rig.client.request("markers")[0]["markers"]
            until(lambda: len(browser.run("return [...document.getElementById('markers-rows').rows].map((r) => r.cells[0].innerText)"))
                  == len(markers), "all markers")
            self.assertIn("Frame to correction", browser.text("latency-rows"))
            browser.wait_text("ranges", "Correction x")
            browser.wait_text("begin", "\u2713 Markers")
            rig.client.request("stage", instance="0f3a9c5577e01d2b", driver="pi_gcs2", state="ready", description="PI E-727", axes=[
                {"axis": "x", "name": "1", "min_nm": 0, "max_nm": 100000, "position_nm": 97500}])
            self.assertIn("2.50 \u00b5m left to the nearer end", browser.wait_text("ranges", "Stage x"))
            browser.wait_text("stage-rows", "PI E-727")
            sigma = browser.wait_text("focus-sigma", "px")
            self.assertAlmostEqual(float(sigma.split()[0]), markers[0]["sigma_px"], delta=0.3)
            self.check(browser, rig.web.url)

    def test_what_is_advised_is_what_driftctl_says(self):
        with PageRig() as rig:
            browser = rig.begin()
            browser.wait_text("advice", "othing to say while the state is idle")
            rig.lock()
            browser.wait_text("advice", "the observer has not learnt yet")
            said = rig.run_program([BIN / "driftctl", "--config", rig.folder / "driftd.yaml", "advise"])
            self.assertIn("the observer has not learnt yet", said.stdout)
            self.check(browser, rig.web.url)

    def test_a_spectrum(self):
        with PageRig() as rig:
            browser = rig.begin()
            browser.run("const s = document.getElementById('spectrum'); s.open = true; s.scrollIntoView()")
            browser.wait_text("spectrum-text", "frames/s")  # the daemon's
            browser.run("driftdPage.connection.close();"  # no more of them: one with a line
                        "const density = Array.from({length: 800}, (_, i) => (i === 200 ? 5 : 1e-4));"
                        "driftdPage.take_({kind: 'spectrum', rate_hz: 100, seconds: 16, spacing_hz: 0.0625, noise_nm: [0.3, 0.4],"
                        "density_nm2_per_hz: [density, density], lines: [[{frequency_hz: 12.5, amplitude_nm: 0.7}], []], allan: [[], []]})")
            self.assertIn("x: noise 0.30 nm; lines 12.50 Hz 0.70 nm.", browser.wait_text("spectrum-text", "frames/s"))
            until(lambda: browser.run("const c = document.getElementById('spectrum-plot');"
                                      "return new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 20"), "a plot")
            self.check(browser, rig.web.url)

    def test_what_is_dangerous_to_show_is_only_text(self):
        """Texts come from cameras, drivers and files: none is taken for a part of the page."""
        with PageRig() as rig:
            browser = rig.begin()
            text = "<img src=x onerror=alert(1)><b id=injected>"
            browser.run("driftdPage.take_({kind: 'event', events: [{level: 'error', text: arguments[0], time_ns: 0}]})", text)
            browser.run("const s = structuredClone(driftdPage.state.status); s.cure = arguments[0]; s.camera.description = arguments[0];"
                        "driftdPage.take_({kind: 'status', status: s})", text)
            self.assertIn(text, browser.text("log"))
            self.assertEqual(browser.run("return document.getElementById('injected')"), None)
            self.check(browser, rig.web.url)

    def test_other_ways_to_look(self):
        """A phone, the dark, a projector: nothing is cut off, nothing needs the page to be moved sideways."""
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            browser.wait_text("state-word", "Locked")
            for width, height in ((360, 740), (1024, 768), (3840, 2160)):
                browser.resize(width, height, mobile=width < 500)
                until(lambda: browser.run("return innerWidth") == width, f"{width} pixels")
                self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width)
                outside = browser.run(
                    "return [...document.querySelectorAll('button, select, input, h1, h2')].filter((e) => e.offsetParent !== null)"
                    ".filter((e) => { const r = e.getBoundingClientRect(); return !e.closest('.table') && (r.left < 0 || r.right > innerWidth || r.height < 18); })"
                    ".map((e) => e.id || e.textContent)")
                self.assertEqual(outside, [], width)
            page = "return getComputedStyle(document.body).backgroundColor"
            browser.prefer("light")
            light = until(lambda: browser.run(page), "a colour")
            drawn = browser.run("driftdPage.target.update(); const c = document.getElementById('target');"
                                "return Array.from(c.getContext('2d').getImageData(2, 2, 1, 1).data)")
            browser.prefer("dark")
            until(lambda: browser.run(page) != light, "dark")
            until(lambda: browser.run("const c = document.getElementById('target');"
                                      "return Array.from(c.getContext('2d').getImageData(2, 2, 1, 1).data)") != drawn,
                  "a dark plot, too")
            self.check(browser, rig.web.url)

    def test_two_instances(self):
        with PageRig("--operate") as rig, CalmRig() as other:
            browser = Browser(rig)
            other.address = "127.251." + rig.address.split(".", 2)[2]  # which loopback_address() gives nobody
            for one in (rig, other):
                one.start_sim()
                one.start_daemon(one.config())
                one.wait_markers()
            web = Web(rig, "--config", f"lab={rig.folder}/driftd.yaml", "--config", f"second={other.folder}/driftd.yaml",
                      "--operate")
            browser.open(web.url)
            browser.wait_text("camera-rows", rig.address)
            until(lambda: browser.run("return driftdPage.picture.image !== null"), "the first one's picture")
            browser.set("instance", "second")
            self.assertEqual(browser.run("return driftdPage.picture.image"), None)  # nothing of the first one is left
            browser.wait_text("camera-rows", other.address)
            self.assertTrue(browser.driver.current_url.endswith("?instance=second"))
            browser.click("do-lock")  # of the one that is shown
            other.wait_state("locked")
            browser.wait_text("state-word", "Locked")
            self.assertEqual(rig.status()["state"], "idle")
            browser.open(web.url + "?instance=lab")
            browser.wait_text("camera-rows", rig.address)
            browser.wait_text("state-word", "Not locked")
            self.check(browser, web.url)


class Done(Clean):  # tier: full
    """Each control does what it says."""

    def test_observers_have_no_controls(self):
        with PageRig() as rig:
            browser = rig.begin()
            browser.wait_text("role", "only shows")
            self.assertFalse(browser.is_shown("act"))
            for button in ("do-lock", "do-unlock", "do-move"):
                self.assertFalse(browser.is_shown(button))
            # Nor does one who finds them by other means: driftd-web refuses.
            reply = browser.driver.execute_async_script(
                "const done = arguments[0]; import('/wire.js').then((m) => m.order('lab', driftdPage.hello.csrf, {command: 'lock'})).then(done)")
            self.assertFalse(reply["ok"])
            self.assertEqual(rig.status()["state"], "idle")

    def test_lock_and_unlock_after_a_question(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            self.assertFalse(browser.element("do-home").is_enabled())
            browser.click("do-lock")
            rig.wait_state("locked")
            browser.wait_text("state-word", "Locked")
            browser.click("do-unlock")
            browser.answer(False, "Unlock?")
            self.assertIn(rig.status()["state"], ("locked", "holding"))
            browser.click("do-unlock")
            browser.answer(True, "will drift")
            rig.wait_state("idle")
            browser.wait_text("reply", "Unlocked")
            self.check(browser, rig.web.url)

    def test_unlock_need_not_wait_for_another_order(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            until(lambda: browser.element("do-unlock").is_enabled(), "unlock")
            # A first order whose answer never comes.
            browser.run("driftdPage.actions.hooks_.order = () => new Promise(() => {});"
                        "document.getElementById('do-right').click();"
                        "driftdPage.actions.hooks_.order = (command) => import('/wire.js')"
                        ".then((m) => m.order('lab', driftdPage.hello.csrf, command))")
            browser.wait_text("reply", "waiting for the daemon")
            self.assertFalse(browser.element("do-right").is_enabled())
            browser.click("do-unlock")
            browser.answer(True)
            rig.wait_state("idle")

    def test_by_the_keyboard_alone(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            browser.run("document.body.focus()")
            self.tab_to(browser, "do-lock")
            browser.press(Keys.ENTER)
            rig.wait_state("locked")
            until(lambda: browser.element("do-unlock").is_enabled(), "unlock")
            self.tab_to(browser, "do-unlock")
            browser.press(Keys.ENTER)
            until(lambda: browser.is_shown("question"), "a question")
            browser.press(Keys.ESCAPE)
            until(lambda: not browser.is_shown("question"), "no question")
            self.assertIn(rig.status()["state"], ("locked", "holding"))
            self.tab_to(browser, "do-unlock")
            browser.press(Keys.ENTER)
            until(lambda: browser.is_shown("question"), "a question")
            browser.press(Keys.ENTER)  # what is pressed without being read is no
            until(lambda: not browser.is_shown("question"), "no question")
            self.assertIn(rig.status()["state"], ("locked", "holding"))
            self.tab_to(browser, "do-unlock")
            browser.press(Keys.ENTER)
            until(lambda: browser.is_shown("question"), "a question")
            browser.press(Keys.TAB)
            browser.press(Keys.ENTER)
            rig.wait_state("idle")

    def tab_to(self, browser: Browser, name: str) -> None:
        for _ in range(60):
            if browser.driver.switch_to.active_element.get_attribute("id") == name:
                return
            browser.press(Keys.TAB)
        self.fail(f"the Tab key never came to {name}")

    def test_moves(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()

            def at(x_nm: float, y_nm: float):
                return rig.wait_until(lambda s: s["move"]["phase"] == "resting" and
                                      (round(s["move"]["x_nm"] or 0, 3), round(s["move"]["y_nm"] or 0, 3)) == (x_nm, y_nm),
                                      f"the set-point at {x_nm}, {y_nm}")

            browser.set("move-step", 5)
            browser.click("do-right")
            at(5, 0)
            browser.click("do-up")
            at(5, -5)
            browser.click("do-left")
            at(0, -5)
            browser.click("do-down")
            at(0, 0)
            browser.set("move-x", 20)
            browser.set("move-y", -30)
            browser.click("do-move")
            at(20, -30)
            browser.set("move-x", 320)  # farther than 100 nm: it asks
            browser.click("do-move")
            browser.answer(False, "+320.0")
            browser.click("do-home")
            browser.answer(True, "reference")
            at(0, 0)
            # A click on the target takes a place over into the fields, and moves nothing.
            size = browser.element("target").size
            scale = browser.run("return driftdPage.target.scale_()")
            browser.click_at("target", size["width"] / 2 + 60, size["height"] / 2 - 90)
            for axis, pixels in (("x", 60), ("y", -90)):
                self.assertAlmostEqual(float(browser.element(f"move-{axis}").get_property("value")), pixels / scale, delta=3 / scale + 0.1)
            at(0, 0)
            self.check(browser, rig.web.url)

    def test_a_move_by_two_clicks(self):
        with PageRig("--operate") as rig:
            browser = rig.begin(control={"range_limit_nm": 4000, "travel_limit_nm": 10000})
            rig.lock()
            browser.click("do-two-clicks")
            scale = until(lambda: browser.run("return driftdPage.picture.image && driftdPage.picture.scale_()"), "a picture")
            browser.click_at("picture", 100 * scale, 100 * scale)
            browser.wait_text("reply", "Now click")
            browser.click_at("picture", 120 * scale, 90 * scale)
            browser.answer(True, "Move the sample by")
            # 20 and -10 pixels of 100 nm, but for what a click is rounded to.
            rig.wait_until(lambda s: abs((s["move"]["goal_x_nm"] or 0) - 2000) < 120 and
                           abs((s["move"]["goal_y_nm"] or 0) + 1000) < 120, "20 pixels to the right, 10 up")
            self.check(browser, rig.web.url)

    def test_a_marker_is_chosen_by_a_click(self):
        with PageRig() as rig:
            browser = rig.begin()
            until(lambda: browser.run("return driftdPage.picture.image !== null && driftdPage.focus.marker_ !== null"), "a marker")
            chosen = browser.text("focus-id")
            id_, x, y = browser.run(
                "const p = driftdPage.picture, m = p.markers_.find((one) => one.id !== driftdPage.focus.id && one.x_px !== null),"
                "s = p.toScreen_(p.centreOf_(m).x, p.centreOf_(m).y); return [m.id, s.x, s.y]")
            browser.click_at("picture", x, y)
            self.assertEqual(browser.wait_text("focus-id", str(id_)), f"Marker {id_}")
            self.assertNotEqual(browser.text("focus-id"), chosen)
            browser.run("document.querySelector('#markers-rows button').click()")
            browser.wait_text("focus-id", f"Marker {browser.run('return driftdPage.picture.markers_[0].id')}")
            self.check(browser, rig.web.url)

    def test_places(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            browser.set("place-name", "cell-3")
            browser.click("place-save")
            until(lambda: [p["name"] for p in rig.client.request("place")[0]["places"]] == ["cell-3"], "a place")
            browser.wait_text("places-rows", "cell-3")
            lock = until(lambda: browser.run("return document.querySelector('#places-rows [data-act=lock]')"), "its button")
            until(lock.is_enabled, "it may be locked at")
            browser.run("arguments[0].click()", lock)
            browser.answer(True, "cell-3")
            rig.wait_state("locked")
            rig.client.unlock()
            browser.run("document.querySelector('#places-rows [data-act=remove]').click()")
            browser.answer(True, "cannot be brought back")
            until(lambda: rig.client.request("place")[0]["places"] == [], "none")
            self.check(browser, rig.web.url)

    def test_record(self):
        with PageRig("--operate") as rig:
            browser = rig.begin(record={"directory": str(rig.folder), "frames_memory_mb": 64, "frames_before_s": 1},
                                lock={"hold_timeout_s": 2})
            browser.click("do-record")
            rig.wait_until(lambda s: s["record"]["recording"], "a recording")
            browser.wait_text("record-state", "Recording for")
            until(lambda: browser.text("do-record") == "Stop recording", "the button says what it does now")
            browser.click("do-record")
            browser.answer(True, "Stop")
            rig.wait_until(lambda s: not s["record"]["recording"], "none")
            browser.click("do-raw")
            rig.wait_until(lambda s: s["raw_frames"]["files"] == 1, "raw frames")
            self.check(browser, rig.web.url)

    def test_back_to_an_interrupted_lock(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            rig.daemon.stop()
            browser.wait_text("state-word", "No data")
            rig.start_daemon(rig.folder / "driftd.yaml")
            rig.wait_until(lambda s: (s["interrupted"] or {}).get("phase") == "found", "an offer")
            self.assertIn("driftctl lock --resume", browser.wait_text("offer", "interrupted"))
            browser.click("do-lock")
            browser.answer(False, "forgets that place")
            browser.click("do-resume")
            rig.wait_state("locked")
            browser.wait_text("state-word", "Locked")
            until(lambda: not browser.is_shown("do-resume"), "no offer")

    def test_a_picture_is_saved(self):
        with PageRig() as rig:
            browser = rig.begin()
            browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(rig.folder)})
            until(lambda: browser.run("return driftdPage.picture.image !== null"), "a picture")
            browser.click("save-picture")
            file = until(lambda: next(rig.folder.glob("driftd-frame-*.tif"), None), "a file")
            until(lambda: file.stat().st_size > 2 * 256 * 256, "all of it")
            self.check(browser, rig.web.url)

    def test_find_markers_and_calibrate(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            events = rig.subscribe("event")
            browser.click("do-find")
            browser.answer(True, "anew")
            rig.hear(events, lambda topic, m: m.get("code") == "markers_found", "found anew")
            browser.wait_text("reply", "Found")
            browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            browser.click("do-calibrate")
            browser.answer(True, "100 nm")
            rig.wait_state("calibrating")
            browser.wait_text("state-word", "Calibrating")
            browser.wait_text("calibration-text", "%")
            browser.click("do-calibrate-stop")
            rig.wait_state("idle")
            browser.wait_text("calibration-text", "stopped")
            self.check(browser, rig.web.url)

    def test_what_a_calibration_found(self):
        """Whatever that is: on a busy machine it is refused, and the page says why."""
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.client.request("calibrate", seconds=5, excursion_nm=100)
            over = lambda: (reply := rig.client.request("calibration")[0])["phase"] in ("done", "refused", "failed") and reply
            reply = until(over, "its end")
            browser.wait_text("calibration-text", reply["text"][:40])
            if reply["phase"] == "done":
                self.assertIn(f"{reply['result']['delay_us']:.0f}", browser.text("calibration-rows"))
                browser.run("document.getElementById('calibration-plot').scrollIntoView()")
                until(lambda: browser.run("const c = document.getElementById('calibration-plot');"
                                          "return new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 20"), "a plot")
            self.check(browser, rig.web.url)

    def test_a_refusal_is_told_as_the_daemon_says_it(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            browser.set("move-x", 1e9)
            browser.click("do-move")
            browser.answer(True)
            text = browser.wait_text("reply", "Not done")
            self.assertIn("nm", text)
            self.assertEqual(rig.status()["move"]["x_nm"], 0)


class Parts(Clean):
    """The page's parts that only calculate. A browser, and a driftd-web without any daemon."""

    @classmethod
    def setUpClass(cls):
        cls.scope = contextlib.ExitStack()
        with cls.scope:
            cls.browser = Browser(cls.scope)
            rig = cls.scope.enter_context(CalmRig())
            cls.web = Web(rig, "--config", f"lab={rig.config()}")
            cls.browser.open(cls.web.url)
            cls.scope = cls.scope.pop_all()
        cls.addClassCleanup(cls.scope.close)

    def test_each(self):
        """In one browser: it takes longer to start than all of them."""
        for name in (name for name in dir(self) if name.startswith("part_")):
            with self.subTest(name):
                getattr(self, name)()
        self.check(self.browser, self.web.url)

    def part_messages(self):
        self.assertEqual(self.browser.module("wire.js", """
            const text = new TextEncoder().encode('{"kind":"image","width":2,"height":1}');
            const message = new Uint8Array(4 + text.length + 4);
            new DataView(message.buffer).setUint32(0, text.length, true);
            message.set(text, 4);
            message.set([1, 2, 255, 255], 4 + text.length);
            const {header, payload} = m.decode(message.buffer);
            const broken = new Uint8Array([200, 0, 0, 0, 123]);
            return [header.width, [...m.pixelsOf(header, payload)], m.decode(broken.buffer), m.decode(new ArrayBuffer(2)),
                    m.pixelsOf({width: 3, height: 1}, payload), m.decode(new Uint8Array([1, 0, 0, 0, 123]).buffer)];
            """), [2, [513, 65535], None, None, None, None])

    def part_rings_keep_the_least_and_the_greatest(self):
        self.assertEqual(self.browser.module("columns.js", """
            const r = new m.Ring(1, 5, 1);
            for (const [t, v] of [[10.1, 1], [10.9, -3], [12.5, 7]]) r.add(t, 0, v);
            const first = [10, 11, 12].map((c) => [r.low(c, 0), r.high(c, 0)].map((v) => Number.isNaN(v) ? null : v));
            r.add(14, 0, 2);
            r.add(9, 0, 1000);              // older than the ring
            const before = r.extent([0]);
            r.add(15, 0, 2);                // the column of 10 goes
            const after = r.extent([0]);
            r.add(1000, 0, 4);              // all go
            r.add(NaN, 0, 1); r.add(1000, 0, NaN); r.add(1000, 0, Infinity);
            return [first, before, after, r.extent([0])];
            """), [[[-3, 1], [None, None], [7, 7]], {"low": -3, "high": 7}, {"low": 2, "high": 7}, {"low": 4, "high": 4}])

    def part_a_history_fills_only_what_is_not_known_better(self):
        self.assertEqual(self.browser.module("columns.js", """
            const r = new m.Rings(1);
            r.add(105.5, 0, 1);
            r.addBin(100, 10, 0, -50, 50);
            const fine = r.of(600), coarse = r.of(7200);
            return [fine.high(105, 0), fine.high(103, 0), fine.low(109, 0), coarse.low(10, 0), coarse.high(10, 0)];
            """), [1, 50, -50, -50, 50])

    def part_ranges_go_in_steps(self):
        self.assertEqual(self.browser.module("range.js", """
            const r = new m.Range(-1, 1), seen = [];
            const tell = (changed) => seen.push([changed, r.low, r.high].map((v) => typeof v === 'number' ? Number(v.toFixed(6)) : v));
            tell(r.grow(-0.5, 0.9));
            tell(r.grow(-0.5, 1.01));
            tell(r.grow(-0.5, 1.05));
            tell(r.grow(-37, 0));
            r.fit(0.11, 0.12); tell(true);
            r.scale(2); tell(true);
            return seen;
            """), [[False, -1, 1], [True, -1, 1.5], [False, -1, 1.5], [True, -40, 1.5], [True, 0.105, 0.125], [True, 0.095, 0.135]])

    def part_ticks_are_ones_twos_and_fives(self):
        found = self.browser.module("range.js", """
            return [[0, 1], [-40, 10], [-0.003, 0.004], [1e5, 1.2e5]].map(([a, b]) => m.ticks(a, b).map((t) => m.tickText(t, m.tickStep(b - a))));
            """)
        self.assertEqual(found[0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"])
        self.assertEqual(found[1], ["\u221240", "\u221230", "\u221220", "\u221210", "0", "10"])
        for labels in found:
            self.assertLessEqual(len(labels), 8)
            self.assertEqual(len(labels), len(set(labels)))

    def part_contrast(self):
        self.assertEqual(self.browser.module("picture.js", """
            const pixels = new Uint16Array(10000).fill(100);
            pixels.fill(3000, 0, 20);
            pixels[20] = 5;
            const c = m.contrastOf(pixels), flat = m.contrastOf(new Uint16Array(100).fill(7));
            const greys = new Uint8Array(m.greysOf(100, 355, 4000).buffer);
            return [c, flat, [99, 100, 200, 355, 3999].map((v) => greys[4 * v]), [...greys.slice(4 * 4000, 4 * 4000 + 4)]];
            """), [{"black": 100, "white": 3000}, {"black": 7, "white": 8}, [0, 0, 100, 255, 255], [255, 140, 0, 255]])

    def part_a_picture_as_a_file(self):
        """Read back by Pillow."""
        try:
            from PIL import Image
        except ImportError:
            print("python3-pil is not here: the file was not read")
            return
        data = self.browser.module("tiff.js", "return [...new Uint8Array(m.tiffOf(new Uint16Array([1, 2, 3, 40000, 65535, 6]), 3, 2))]")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "picture.tif"
            file.write_bytes(bytes(data))
            with Image.open(file) as image:
                self.assertEqual(image.size, (3, 2))
                self.assertEqual(list(image.getdata()), [1, 2, 3, 40000, 65535, 6])
                self.assertEqual(image.tag_v2[262], 1)  # 0 is black

    def part_what_a_lock_needs(self):
        self.assertEqual(self.browser.module("begin.js", """
            const histogram = Array(64).fill(0);
            histogram[2] = 9;
            const image = {saturated: 0, histogram};
            const status = {camera: {connected: true, rate_hz: 100, problem: ''}, markers: {tracking: 10, witness: 3, used: 10},
                            stage_driver: null, acquaintance: {state: 'told', text: ''}, state: 'idle', fitter: {size_reason: ''}};
            const states = (changes, picture = image) => m.stepsOf({...status, ...changes}, picture).map((step) => step.state[0]).join('');
            const bright = {...image, histogram: histogram.with(30, 1)};
            return [states({}), states({}, bright), states({}, {...bright, saturated: 3}), states({}, null),
                    states({camera: {connected: false, problem: 'away'}}), states({camera: {connected: true, rate_hz: null}}, bright),
                    states({markers: {tracking: 0, witness: 0, used: 0}}, bright), states({markers: {tracking: 10, witness: 3, used: 4}}, bright),
                    states({stage_driver: {state: 'ready', driver: 'a', text: ''}}, bright),
                    states({stage_driver: {state: 'limit', driver: 'a', text: ''}}, bright),
                    states({acquaintance: {state: 'known', text: ''}, state: 'locked'}, bright),
                    states({acquaintance: {state: 'not_found', text: ''}}, bright)];
            """), ["dmdooo", "dddooo", "dmdooo", "dodooo", "modooo", "mddooo", "ddmooo", "ddmooo", "ddddoo", "dddmoo", "dddodd", "dddomo"])

    def part_a_calibration(self):
        rows = self.browser.module("calibration.js", """
            return m.rowsOf({image_to_stage: [[1, 0.12], [-0.12, 1]], image_to_stage_sd: [[0.01, 0.01], [0.01, 0.01]], delay_us: 3120.4,
                             delay_sd_us: 40, time_constant_us: null, stage_noise_nm: 0.2, pixel_size: {configured_nm: 100, ratio: 1.01},
                             present: {image_to_stage: [[1, 0], [0, 1]], delay_us: 3000, residual_nm: 0.5},
                             proposal: {stage: {image_to_stage: [[1, 0.12], [-0.12, 1]], delay_us: 3120.4}, residual_nm: 0.31}});
            """)
        rows = {row[0]: row[1:] for row in rows}
        self.assertEqual(rows["Dead time"], ["3120 \u00b5s", "40", "3000", "3120"])
        self.assertEqual(rows["Image to stage"][0], "1.0000, 0.1200; \u22120.1200, 1.0000")
        self.assertEqual(rows["Time constant"][0], "\u2013 \u00b5s")
        self.assertEqual(rows["A lock would leave"][2:], ["0.50 nm", "0.31 nm"])
        self.assertEqual(rows["Right pixel size"][0], "101.00 nm")

    def part_words(self):
        self.assertEqual(self.browser.module("words.js", """
            return [m.number(null), m.number(-1.25, 1), m.signed(0.5, 1), m.duration(90061), m.duration(59),
                    m.reasonOf({reason: 'held_too_long', held_for: 'no_frames', held_first: 'too_few_markers'}),
                    m.reasonOf({reason: 'none'}), m.stateOf({state: 'referencing', reference_frames_left: 7}).text,
                    m.stateOf({state: 'something_new'}).name,
                    m.whyNotInLock({reason: 'residual', residual_x_nm: 2.3456, residual_y_nm: 1, tolerance_nm: 1}),
                    m.whyNotInLock({reason: 'not_locked'}), m.sentence('see `driftctl doctor`'), m.sentence('')];
            """), ["\u2013", "\u22121.3", "+0.5", "1 day 1:01:01", "0:00:59", "held too long: no frames, at first too few markers", "",
                   "Where the markers are now is being measured: 7 frames left.", "something new", "residual 2.35 nm, tolerance 1 nm",
                   "", "See \u201cdriftctl doctor\u201d", ""])

    def test_a_day_of_plots_takes_little_memory(self):  # tier: full
        """A day at 20 samples a second through the page itself."""
        before = self.browser.heap_bytes()
        for hour in range(24):
            self.browser.run("""
                const begin = 1000 + 3600 * arguments[0];
                for (let second = 0; second < 3600; ++second) {
                  const t_s = Array.from({length: 20}, (_, i) => begin + second + i / 20);
                  const pair = () => [t_s.map((t) => Math.sin(t)), t_s.map((t) => Math.cos(t))];
                  driftdPage.take_({kind: 'samples', t_s, drift_nm: pair(), correction_nm: pair(), residual_nm: pair(),
                                    in_lock: t_s.map(() => true)});
                  if (second % 10 === 0)
                    driftdPage.take_({kind: 'event', events: [{level: 'info', text: `event ${second}`, time_ns: 1e9 * t_s[0]}]});
                }
                """, hour)
        self.assertEqual(self.browser.run("const e = driftdPage.rings.of(86400).extent([0]); return [e.low < -0.99, e.high > 0.99]"),
                         [True, True])
        self.assertLess(self.browser.run("return document.getElementById('log').children.length"), 300)
        after = self.browser.heap_bytes()
        print(f"the tab's heap: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after a day")
        self.assertLess(after, 50e6)


class Pictures(unittest.TestCase):  # tier: full
    """The pictures of docs/use/web.md: DRIFTD_WEB_PICTURES=$PWD/docs/use python3 tests/integration/test_web_page.py Pictures"""

    def test_pictures(self):
        with contextlib.ExitStack() as scope:
            folder = pathlib.Path(os.environ.get("DRIFTD_WEB_PICTURES") or scope.enter_context(tempfile.TemporaryDirectory()))
            rig = scope.enter_context(PageRig("--operate"))
            browser = rig.begin(gate={"tolerance_nm": 1})
            rig.lock()
            browser.prefer("light")
            browser.resize(1500, 2000)
            kept = "DRIFTD_WEB_PICTURES" in os.environ
            if kept:  # something to be seen, undisturbed by other programs
                rig.wait_until(lambda s: s["gate"]["in_lock"] and s["time_ns"] - s["gate"]["since_ns"] > 40e9, "half a minute in lock", 200)
            browser.open(rig.web.url)
            until(lambda: browser.run("return driftdPage.focus.marker_ !== null && driftdPage.picture.image !== null"), "all views")
            if kept:
                browser.wait_text("in-lock", "images may be taken")
            browser.picture(str(folder / "web.png"))
            browser.prefer("dark")
            browser.resize(390, 844, mobile=True)
            time.sleep(1)
            browser.picture(str(folder / "web-phone.png"))
            if kept:
                self.make_small(folder)
            for name in ("web.png", "web-phone.png"):
                self.assertGreater((folder / name).stat().st_size, 10_000)

    def make_small(self, folder: pathlib.Path) -> None:
        from PIL import Image  # python3-pil
        for name, width in (("web.png", 1000), ("web-phone.png", 390)):
            with Image.open(folder / name) as image:
                small = image.convert("RGB").resize((width, image.height * width // image.width), Image.LANCZOS)
            small.quantize(256, method=1).save(folder / name, optimize=True)


if __name__ == "__main__":
    unittest.main()
