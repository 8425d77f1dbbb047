# SPDX-License-Identifier: MIT
"""What can be done by the page of driftd-web, in a real browser. What a control did is asked of the daemon, not of the
page."""
from __future__ import annotations

import unittest

from browser import Browser, Clean, Keys, PageRig, until


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

    def test_a_question_is_withdrawn_where_nothing_is_left_of_it(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            until(lambda: browser.element("do-unlock").is_enabled(), "unlock")
            browser.click("do-unlock")
            until(lambda: browser.is_shown("question"), "a question")
            self.assertIn("will drift", browser.text("question-text"))
            rig.client.unlock()
            until(lambda: not browser.is_shown("question"), "no question")
            self.check(browser, rig.web.url)

    def test_unlock_need_not_wait_for_another_order(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            until(lambda: browser.element("do-right").is_enabled(), "moves: the page shows the lock, too")
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

    def test_markers_are_chosen_in_the_picture(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            until(lambda: browser.run("return driftdPage.picture.image !== null && driftdPage.picture.markers_.length === 16"), "all markers")
            self.assertFalse(browser.is_shown("choose"))
            browser.click("do-choose")
            browser.wait_text("choose-state", "by itself")
            one, other = sorted(rig.client.markers(), key=lambda m: m["id"])[:2]
            self.click_on(browser, one)
            browser.wait_text("choose-marker", f"Marker {one['id']}:")
            browser.click("choose-remove")
            until(lambda: one["id"] not in self.roles(rig), "it is taken out")
            browser.wait_text("reply", "not followed any more")
            browser.wait_text("choose-state", "by hand")
            self.click_on(browser, other)
            browser.wait_text("choose-marker", f"Marker {other['id']}:")
            browser.click("row-witness" if other["role"] == "tracking" else "row-tracking")  # below the rows
            until(lambda: self.roles(rig)[other["id"]] != other["role"], "another role")
            until(lambda: not browser.run("return driftdPage.chooser.waits_"), "the answer")
            browser.click_at("picture", 4, 4)  # where no spot is
            browser.wait_text("reply", "no spot within")
            self.assertEqual(len(self.roles(rig)), 15)
            self.click_on(browser, one)
            until(lambda: len(self.roles(rig)) == 16, "it is followed again")
            browser.wait_text("reply", "is followed, too")
            added = max((m for m in rig.client.markers()), key=lambda m: -abs(m["x_px"] - one["x_px"]) - abs(m["y_px"] - one["y_px"]))
            browser.wait_text("choose-marker", f"Marker {added['id']}:")
            browser.click_at("picture", 4, 4)
            browser.wait_text("reply", "at most 16 are followed")
            # A lock ends it, and it is the chosen ones that hold.
            browser.click("do-lock")
            rig.wait_state("locked")
            until(lambda: not browser.is_shown("choose"), "no choice while locked")
            self.assertFalse(browser.element("do-choose").is_enabled())
            self.assertTrue(rig.status()["markers"]["chosen"])
            rig.client.unlock()
            browser.click("do-find")
            browser.answer(True, "anew")
            until(lambda: not rig.status()["markers"]["chosen"], "found anew")
            self.check(browser, rig.web.url)

    @staticmethod
    def roles(rig) -> dict:
        return {m["id"]: m["role"] for m in rig.client.markers()}

    @staticmethod
    def click_on(browser: Browser, marker: dict) -> None:
        x, y = browser.run("const p = driftdPage.picture, s = p.toScreen_(p.centreOf_(arguments[0]).x, p.centreOf_(arguments[0]).y);"
                           "return [s.x, s.y]", marker)
        browser.click_at("picture", x, y)

    def test_markers_are_chosen_by_the_keyboard(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            until(lambda: browser.run("return driftdPage.picture.image !== null && driftdPage.picture.markers_.length === 16"), "all markers")
            browser.run("document.getElementById('do-choose').focus()")
            browser.press(Keys.ENTER)
            until(lambda: browser.is_shown("choose"), "it is on")
            one = rig.client.markers()[0]
            browser.run("document.getElementById('picture').focus(); driftdPage.picture.zoom(4)")
            # As far as the arrow keys take it, but in one step.
            browser.run("const p = driftdPage.picture, c = p.centreOf_(arguments[0]); p.pan((c.x - p.middle_.x) * p.scale_(), (c.y - p.middle_.y) * p.scale_())", one)
            browser.press(Keys.ENTER)
            browser.wait_text("choose-marker", f"Marker {one['id']}:")
            browser.press("w" if one["role"] == "tracking" else "t")
            until(lambda: self.roles(rig)[one["id"]] != one["role"], "another role")
            until(lambda: not browser.run("return driftdPage.chooser.waits_"), "the answer")
            browser.press(Keys.DELETE)
            until(lambda: one["id"] not in self.roles(rig), "it is taken out")
            until(lambda: not browser.run("return driftdPage.chooser.waits_") and
                  browser.run("return driftdPage.picture.markers_.length === 15"), "the page shows it")
            browser.press(Keys.ENTER)
            until(lambda: len(self.roles(rig)) == 16, "it is followed again")
            browser.press(Keys.ESCAPE)
            until(lambda: not browser.is_shown("choose"), "it is off")
            self.check(browser, rig.web.url)

    def test_exposure_and_gain(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            now = rig.client.exposure()
            browser.wait_text("exposure-text", f"Exposure {now['exposure_us']:.0f} µs (10 to 1000000), gain 0.0 dB (0.0 to 24.0)")
            browser.wait_text("exposure-text", "and none is")
            browser.set("exposure-us", now["exposure_us"] / 2)
            browser.set("exposure-gain", 12)
            browser.click("do-exposure")
            until(lambda: abs(rig.client.exposure()["gain_db"] - 12) < 0.1, "another gain")
            self.assertAlmostEqual(rig.client.exposure()["exposure_us"], now["exposure_us"] / 2, delta=1)
            browser.wait_text("reply", "Exposed")
            browser.set("exposure-gain", 24)
            browser.click("do-exposure")
            browser.wait_text("exposure-text", "are.")  # pixels are saturated by now
            browser.set("exposure-gain", 30)
            browser.run("document.getElementById('exposure-form').noValidate = true")
            browser.click("do-exposure")
            browser.wait_text("reply", "can be 0 to 24 dB now, not 30")
            # Somebody else's change is on the page, too, and while locked nothing can be set.
            rig.client.exposure(gain_db=0, exposure_us=now["exposure_us"])
            browser.wait_text("exposure-text", "gain 0.0 dB")
            rig.client.find_markers()
            rig.lock()
            until(lambda: not browser.element("do-exposure").is_enabled(), "not while locked")
            self.check(browser, rig.web.url)

    def test_markers_and_exposure_are_kept_and_driftd_restarted(self):
        with PageRig("--operate") as rig:
            browser = rig.begin()
            told = rig.subscribe("status")
            before = rig.hear(told, lambda *_: True, "a status")["session"]
            for name in ("markers", "exposure"):
                self.assertFalse(browser.is_shown(f"do-{name}-write"))
            ids = sorted(self.roles(rig))
            rig.client.choose_markers(remove=ids[:4], witness=[ids[4]], tracking=ids[5:])
            roles = self.roles(rig)
            now = rig.client.exposure()
            rig.client.exposure(exposure_us=now["exposure_us"] / 2)
            for name, key in (("markers", "markers.list"), ("exposure", "camera.exposure_us")):
                file = rig.folder / f"driftd.yaml.d/{name}.yaml"
                until(lambda: browser.is_shown(f"do-{name}-write"), f"{name} to keep")
                self.assertFalse(browser.is_shown(f"do-{name}-restart"))
                browser.click(f"do-{name}-write")
                browser.answer(False, "Write th")
                self.assertFalse(file.exists())
                browser.click(f"do-{name}-write")
                browser.answer(True, "Write th")
                self.assertIn(key, browser.wait_text(f"{name}-written", "Restart driftd"))
                self.assertTrue(file.exists())
                until(lambda: browser.is_shown(f"do-{name}-restart"), "what takes it over")
                if name == "markers":
                    browser.click("do-markers-restart")
                    browser.answer(False, "Lost by it: The exposure of")
            browser.click("do-exposure-restart")
            browser.answer(True, "Restart driftd?")
            rig.hear(told, lambda _, status: status["session"] != before and status["markers"]["used"], "another session")
            self.assertEqual(self.roles(rig), roles)
            self.assertAlmostEqual(rig.client.exposure()["exposure_us"], now["exposure_us"] / 2, delta=1)
            for name in ("markers", "exposure"):
                until(lambda: not browser.is_shown(f"do-{name}-write") and not browser.is_shown(f"do-{name}-restart"), "nothing is left to keep")
                self.assertEqual(browser.text(f"{name}-written"), "")
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

    def test_what_the_cameras_calibration_found_is_written_and_driftd_restarted(self):
        with PageRig("--operate") as rig:
            browser = rig.begin(camera={"gain_e_per_adu": 3.5, "offset_adu": 100, "read_noise_e": 3})
            told = rig.subscribe("status")
            before = rig.hear(told, lambda *_: True, "a status")["session"]
            self.assertFalse(browser.is_shown("do-camera-restart"))
            browser.click("do-camera-light")
            browser.wait_text("camera-text", "Under way")
            self.assertTrue(browser.is_shown("do-camera-stop"))
            self.assertFalse(browser.element("do-measure").is_enabled())  # one at a time
            browser.wait_text("camera-text", "Done.")
            browser.click("do-camera-write")
            browser.answer(True, "Write these values")
            browser.wait_text("camera-written", "Restart driftd: it takes over camera.gain_e_per_adu")
            self.assertRegex((rig.folder / "driftd.yaml.d/camera-calibration.yaml").read_text(), r"gain_e_per_adu: [34]\.\d+\n")
            browser.click("do-camera-restart")
            browser.answer(True, "Restart driftd?")
            rig.hear(told, lambda _, status: status["session"] != before, "another session")
            until(lambda: not browser.is_shown("do-camera-restart"), "it is taken over")
            until(lambda: browser.run("return driftdPage.hello.config.gain_e_per_adu !== 3.5"), "the gain that was written")
            browser.wait_text("state-word", "Not locked")
            self.check(browser, rig.web.url)

    def test_a_measurement_is_stopped_and_a_report_kept(self):
        with PageRig("--operate") as rig:
            browser = rig.begin(record={"directory": str(rig.folder / "records")})
            browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(rig.folder)})
            browser.set("measure-seconds", 600)
            browser.click("do-measure")
            browser.wait_text("measure-text", "Under way")
            browser.click("do-measure-stop")
            browser.wait_text("measure-text", "Stopped.")
            until(lambda: browser.element("do-measure").is_enabled(), "another one may begin")
            rig.client.request("record", start=True)
            rig.sleep(2)
            rig.client.request("record", stop=True)
            until(lambda: browser.run("return driftdPage.actions.status_.record.file"), "the page knows of the record")
            browser.click("do-report")
            page = until(lambda: next(rig.folder.glob("driftd-report*.html"), None), "a file")
            until(lambda: "</html>" in page.read_text(), "all of it")
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


if __name__ == "__main__":
    unittest.main()
