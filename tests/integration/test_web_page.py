# SPDX-License-Identifier: MIT
"""What the page of driftd-web shows, in a real browser, with a real daemon and the simulator."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import struct
import tempfile
import time
import unittest

from browser import Browser, Clean, PageRig, Web, make_small, until
from harness import BIN, CalmRig


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
            self.check(browser, rig.web.url, allowed="ERR_CONNECTION_REFUSED")

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
            browser.open(web.url + "?instance=third")
            browser.wait_text("state-cure", "no microscope called \u201cthird\u201d")

    def test_what_another_instance_answers_is_told_nobody(self):
        with PageRig() as rig:
            browser = Browser(rig)
            rig.start_sim()
            file = rig.config()
            rig.start_daemon(file)
            rig.wait_markers()
            web = Web(rig, "--config", f"first={file}", "--config", f"second={file}", "--operate")
            browser.open(web.url)
            browser.wait_text("state-word", "Not locked")
            rig.client.request("place", save="here")
            browser.run("document.getElementById('places').open = true")
            browser.wait_text("places-rows", "here")
            # Its answers come late, and a question is left open.
            browser.run("window.kept = window.fetch; window.answers = [];"
                        "window.fetch = async (...all) => { const one = await kept(...all);"
                        "await new Promise((go) => answers.push(go)); return one; }")
            browser.click("do-raw" if browser.element("do-raw").is_enabled() else "do-record")
            browser.wait_text("reply", "waiting for the daemon")
            until(lambda: browser.run("return answers.length") > 0, "an answer")
            self.assertFalse(browser.element("do-lock").is_enabled())
            browser.run("document.getElementById('question').showModal(); driftdPage.choose_('second')")
            self.assertEqual((browser.text("places-rows"), browser.text("reply")), ("", ""))
            self.assertFalse(browser.is_shown("question"))
            browser.run("window.fetch = kept; answers.forEach((go) => go())")
            until(lambda: browser.element("do-lock").is_enabled(), "its own controls")
            browser.wait_text("places-rows", "here")
            self.assertEqual(browser.text("reply"), "")
            self.check(browser, web.url)


class Pictures(unittest.TestCase):  # tier: full
    """The pictures of docs/use/web.md: ./run pictures page"""

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
                make_small(folder / "web.png", 1000)
                make_small(folder / "web-phone.png", 390)
            for name in ("web.png", "web-phone.png"):
                self.assertGreater((folder / name).stat().st_size, 10_000)


if __name__ == "__main__":
    unittest.main()
