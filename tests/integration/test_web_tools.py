# SPDX-License-Identifier: MIT
"""What driftd-web does by itself: it writes what a calibration found, and has driftctl measure and report."""
from __future__ import annotations

import concurrent.futures
import json
import math
import pathlib
import re
import struct
import time
import unittest

from harness import DEADLINE_S, new_rig
from test_calibrate import IGNORANT, WORLD
from web_client import Web, get


class ToolsCase(unittest.TestCase):
    """A daemon whose stage nobody knows yet, driftd-web and a tab of it."""

    world, known = WORLD, IGNORANT

    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start(self, *arguments, **config: dict) -> None:
        self.rig.start_sim(self.world)
        self.file = self.rig.config(**{**self.known, **config})
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "measured")
        self.web = Web(self.rig, self.rig.folder, "--config", self.file, *arguments)
        self.tab = self.rig.enter_context(self.web.tab())
        self.csrf = self.tab.wait_kind("hello")[0]["csrf"]
        self.tab.wait_kind("status")

    def pass_time(self) -> None:
        self.rig.sleep(0.05)
        time.sleep(0.01)  # for who listens

    def while_time_passes(self, act):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            future = pool.submit(act)
            while not future.done():
                self.pass_time()
            return future.result()

    def use(self, tool: str, **fields):
        """What driftd-web answers, JSON or a file's bytes."""
        status, reply = self.while_time_passes(lambda: self.web.post({"tool": {"tool": tool, **fields}}, self.csrf))
        self.assertEqual(status, 200, reply)
        return reply

    def write(self, tool: str, run: int, **fields):
        """Of this daemon's run."""
        return self.use(tool, run=run, session=self.rig.client.request("calibration")[0]["session"], **fields)

    def drop_in(self, name: str = "stage-calibration.yaml") -> pathlib.Path:
        return self.rig.folder / "driftd.yaml.d" / name

    def told(self, condition, what: str) -> dict:
        """The header for which the condition holds, of a tab of its own: one that nobody reads while a calibration runs is dropped."""
        with self.web.tab() as tab:
            return tab.wait(condition, what, self.pass_time)[0]

    def observer(self) -> tuple[Web, str, str]:
        """Another driftd-web, with a login that may look only: its token of commands and its cookie."""
        logins = self.rig.folder / "logins.yaml"
        logins.write_text("tokens:\n  - {name: office, role: observe, token: observer-token-0123456789}\n")
        logins.chmod(0o600)
        web = Web(self.rig, self.rig.folder, "--config", self.file, "--operate", "--logins", logins)
        body = b'{"token":"observer-token-0123456789"}'
        _, answer = web.answer(get("/api/login", web.address, "POST", Origin=web.origin, Content_Type="application/json",
                                   Content_Length=str(len(body))) + body)
        cookie = re.search("Set-Cookie: ([^;]*)", answer)[1]
        tab = self.rig.enter_context(web.tab(cookie=cookie))
        csrf = tab.wait_kind("hello")[0]["csrf"]
        tab.wait_kind("status", self.pass_time)
        return web, csrf, cookie

    def restart_web(self) -> None:
        self.web.process.stop()
        self.web = Web(self.rig, self.rig.folder, "--config", self.file, "--operate")
        self.tab = self.rig.enter_context(self.web.tab())
        self.csrf = self.tab.wait_kind("hello")[0]["csrf"]
        self.tab.wait(lambda h: h["kind"] == "hello" and h["role"] == "operate" or h["kind"] == "status", "the daemon", self.pass_time)


class Tools(ToolsCase):
    def calibrate(self, seconds: float = 15) -> None:
        self.rig.client.request("calibrate", seconds=seconds)
        end_ns = self.rig.now_ns() + 1e9 * DEADLINE_S
        while (now := self.rig.client.request("calibration")[0])["phase"] not in ("done", "refused", "failed"):
            self.assertLess(self.rig.now_ns(), end_ns, now)
            self.rig.sleep(0.2)
        self.assertEqual(now["phase"], "done", now["text"])

    def job(self, tool: str, **fields) -> dict:
        """How it ended."""
        self.assertEqual(self.use(tool, **fields), {"ok": True})
        return self.told(lambda h: h["kind"] == "job" and h["tool"] == tool and h["phase"] != "running", "its end")

    def test_what_a_calibration_found_is_written_read_and_holds(self):
        self.start("--operate")
        self.assertIn("no calibration", self.use("proposal")["error"])
        self.calibrate()
        proposal = self.use("proposal")
        self.assertEqual((proposal["problem"], proposal["run"], proposal["file"]), ("", 1, str(self.drop_in())))
        self.assertIn("as configured:", "\n".join(proposal["findings"]))
        self.assertIn("The pixel is right", "\n".join(proposal["question"]))  # it moves 1.3 times as far
        matrix = next(line for line in proposal["lines"] if "stage.image_to_stage" in line).split(": ")[1].strip()
        right = self.use("proposal", stage_is_right=True)
        self.assertIn("optics.pixel_size_nm", "\n".join(right["lines"]))
        self.assertFalse(self.drop_in().exists())
        # Not what nobody has seen.
        self.assertIn("not the last calibration", self.write("write_stage", run=2)["error"])
        self.assertIn("`session` is missing", self.use("write_stage", run=1)["error"])
        self.assertIn("not the last calibration", self.use("write_stage", run=1, session="0" * 16)["error"])
        self.assertFalse(self.drop_in().exists())
        self.assertNotIn("restart", proposal)
        written = self.write("write_stage", run=1)
        self.assertEqual((written["ok"], written["restart"]), (True, False), written)
        self.assertEqual(written["lines"], [f"Written to {self.drop_in()}.",
                                            f"Taken over by driftd: {self.file} with stage-calibration.yaml."])
        text = self.drop_in().read_text()
        self.assertTrue(text.startswith("# Measured by `driftd-web`, "), text)
        self.assertIn(f"  image_to_stage: {matrix}\n", text)
        self.assertIn("  acquaint: held\n", text)
        self.assertEqual(self.use("proposal")["written"]["lines"], written["lines"])
        self.told(lambda h: h["kind"] == "hello" and h["config"]["stage_is_calibrated"], "the configuration, read anew")
        self.rig.client.lock()
        self.rig.wait_state("locked")
        self.rig.wait_still(1.5)
        self.assertEqual(self.rig.status()["stage"], "following")

    def test_what_is_not_to_be_written_is_said(self):
        self.start("--operate")
        self.calibrate(seconds=5)
        folder = self.drop_in().parent
        folder.symlink_to("/sys/class")  # where not even root may write
        refused = self.write("write_stage", run=1)
        self.assertRegex(refused["error"], f"may not write there: .*{folder}.* Run `driftctl --config {self.file} calibrate --write`")
        self.assertEqual(self.use("proposal")["problem"], refused["error"])
        folder.unlink()
        self.rig.config(**{**IGNORANT, "stage": {**IGNORANT["stage"], "delay_us": 1234}})  # edited meanwhile
        refused = self.write("write_stage", run=1)
        self.assertIn("is not what driftd runs with: stage.delay_us is 1234 there and 1000 in driftd", refused["error"])
        self.assertFalse(folder.exists())

    def test_what_was_written_is_known_by_another_driftd_web(self):
        self.start("--operate")
        self.calibrate(seconds=5)
        self.write("write_stage", run=1)
        written = self.drop_in().read_bytes()
        self.restart_web()
        proposal = self.use("proposal")
        self.assertEqual((proposal["problem"], proposal["written"]),
                         ("", {"lines": [f"{self.file} has these values already."], "restart": False}))
        self.assertIn("written already", self.write("write_stage", run=1)["error"])
        self.assertEqual(self.drop_in().read_bytes(), written)
        # The other explanation of the same matrix: driftd has taken over neither.
        self.drop_in().unlink()
        self.rig.config(**{**IGNORANT, "optics": {"pixel_size_nm": 130}})
        self.assertIn("is not what driftd runs with: optics.pixel_size_nm is 130 there", self.use("proposal")["problem"])
        self.rig.config(**IGNORANT)
        self.assertEqual((self.use("proposal")["problem"], "written" in self.use("proposal")), ("", False))
        # What a reload cannot take over has all of it wait for a restart.
        self.while_time_passes(lambda: self.rig.client.request("reload"))  # it goes by the first ones again
        self.while_time_passes(lambda: self.rig.client.exposure(exposure_us=600))
        self.assertTrue(self.use("write_exposure")["restart"])
        told = self.write("write_stage", run=1)
        self.assertRegex(told["lines"][1], "^Not taken over by driftd: .*camera.exposure_us")
        self.assertTrue(told["restart"])
        self.assertEqual(self.use("proposal")["written"], {"lines": told["lines"], "restart": True})
        exposure = self.drop_in("exposure.yaml").read_bytes()
        self.drop_in("exposure.yaml").unlink()
        self.while_time_passes(lambda: self.rig.client.request("reload"))
        self.assertEqual(self.use("proposal")["written"], {"lines": [told["lines"][0], "Taken over by driftd since."], "restart": False})
        # And back.
        stage = self.drop_in().read_bytes()
        self.drop_in().unlink()
        self.while_time_passes(lambda: self.rig.client.request("reload"))
        self.drop_in().write_bytes(stage)
        self.drop_in("exposure.yaml").write_bytes(exposure)
        self.restart_web()  # which knows of no reload that was refused
        waits = self.use("proposal")["written"]
        self.assertEqual((waits["lines"][0], waits["restart"]), (f"{self.file} has these values already.", True))
        self.assertRegex(waits["lines"][1], "^Restart driftd: it does not go by them yet")
        for one in self.drop_in().parent.iterdir():
            one.unlink()
        self.restart_web()
        told = self.write("write_stage", run=1, stage_is_right=True)
        self.assertEqual((told["ok"], told["restart"]), (True, True), told)
        self.restart_web()
        for stage_is_right in (False, True):
            told = self.use("proposal", stage_is_right=stage_is_right)["written"]
            self.assertEqual(told["lines"], [f"{self.file} has these values already.",
                                             "Restart driftd: it takes over optics.pixel_size_nm at its start only."])
            self.assertTrue(told["restart"])

    def chosen(self) -> tuple[dict, dict]:
        """Roles and places of the markers."""
        markers = self.rig.client.markers()
        return {m["id"]: m["role"] for m in markers}, {m["id"]: (m["x_px"], m["y_px"]) for m in markers}

    def test_markers_and_exposure_that_were_chosen_are_kept_over_a_restart(self):
        self.start("--operate")
        self.assertEqual(self.use("write_markers")["error"],
                         "no markers were chosen: driftd finds or lists them as it is configured. Nothing was written")
        self.assertFalse(self.drop_in().parent.exists())
        ids = sorted(self.chosen()[0])
        self.while_time_passes(lambda: self.rig.client.choose_markers(remove=ids[:4], witness=[ids[4]], tracking=ids[5:]))
        roles, places = self.chosen()
        self.while_time_passes(lambda: self.rig.client.exposure(exposure_us=600, gain_db=3))
        for tool, name, key in (("write_markers", "markers.yaml", "markers.list"), ("write_exposure", "exposure.yaml", "camera.exposure_us")):
            with self.subTest(tool):
                said = self.use(tool)
                self.assertEqual((said["ok"], said["restart"]), (True, True), said)
                self.assertEqual(said["lines"][0], f"Written to {self.drop_in(name)}.")
                self.assertRegex(said["lines"][1], f"^Restart driftd: it takes over .*{key}.* at its start only")
                text = self.drop_in(name).read_text()
                self.assertTrue(text.startswith("# Chosen by `driftd-web`, "), text)
        again = self.use("write_exposure")
        self.assertEqual(again["lines"], [f"{self.file} has these values already: nothing was written."])
        self.assertEqual(self.drop_in("exposure.yaml").read_text(), text)
        self.rig.daemon.stop()
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: (s["markers"]["used"] or 0) >= 8, "markers measured")
        now_roles, now_places = self.chosen()
        self.assertEqual(now_roles, roles)
        for id_, place in now_places.items():
            self.assertLess(math.dist(place, places[id_]), 2)
        self.assertFalse(self.rig.status()["markers"]["chosen"])  # they are configured
        exposure = self.rig.client.exposure()
        self.assertAlmostEqual(exposure["exposure_us"], 600, delta=1)
        self.assertAlmostEqual(exposure["gain_db"], 3, delta=0.1)

    def test_where_it_may_not_write_a_choice_is_not_written(self):
        self.start("--operate")
        self.while_time_passes(lambda: self.rig.client.choose_markers(remove=[min(self.chosen()[0])]))
        folder = self.drop_in().parent
        folder.symlink_to("/sys/class")  # where not even root may write
        for tool, command in (("write_markers", "markers"), ("write_exposure", "exposure")):
            with self.subTest(tool):
                self.assertRegex(self.use(tool)["error"], f"may not write there: .*{folder}.* Run `driftctl --config {self.file} {command} --write`")
        folder.unlink()
        self.file.write_text("camera: {id: \"4711\"}\n")  # of another camera
        for tool in ("write_markers", "write_exposure"):
            with self.subTest(tool):
                self.assertIn("is not what driftd runs with: camera.id is 4711 there", self.use(tool)["error"])
        self.assertFalse(folder.exists())

    def test_whoever_may_not_command_may_not_write_or_measure(self):
        self.start()
        for tool in ("write_stage", "write_z", "write_camera", "write_markers", "write_exposure", "measure", "camera", "report", "report_page", "stop"):
            with self.subTest(tool):
                self.assertIn("without --operate", self.use(tool, run=1, seconds=1)["error"])
        status, text = self.web.post({"tool": {"tool": "rm"}}, self.csrf)
        self.assertEqual(status, 200, text)  # refused like the others
        status, text = self.web.post({"tool": {"tool": "write_stage"}}, "0" * 64)
        self.assertEqual(status, 403, text)
        status, text = self.web.post({"tool": "measure"}, self.csrf)
        self.assertEqual(status, 400, text)

    def test_for_who_observes_nothing_is_tried_beside_the_configuration(self):
        """Whether a file can be written is found out by writing one: that is for who may."""
        self.start()
        self.calibrate()
        web, csrf, cookie = self.observer()
        before = self.rig.folder.stat().st_mtime_ns
        status, reply = self.while_time_passes(lambda: web.post({"tool": {"tool": "proposal"}}, csrf, Cookie=cookie))
        self.assertEqual((status, reply["ok"], reply["run"]), (200, True, 1), reply)
        self.assertIn("office has the role observe", reply["problem"])
        self.assertNotIn("file", reply)
        self.assertEqual(self.rig.folder.stat().st_mtime_ns, before)

    def test_a_measurement_and_what_it_recommends(self):
        self.start("--operate")
        self.assertIn("1 to 600 s", self.use("measure", seconds=1e9)["error"])
        self.assertIn("1 to 600 s", self.use("measure", seconds="1; reboot")["error"])
        ended = self.job("measure", seconds=5)
        self.assertEqual(ended["phase"], "done", ended)
        result = ended["result"]
        self.assertEqual(result["state"], "idle")
        self.assertTrue(any(abs(line["frequency_hz"] - 27) < 1 for line in result["x"]["lines"]), result["x"]["lines"])
        codes = [one["code"] for one in result["recommendations"]]
        for code in ("markers", "drift", "line", "averaging"):
            self.assertIn(code, codes)
        # Who comes later finds it; and one at a time, which can be stopped.
        begun_s = time.monotonic()
        time.sleep(0.3)
        late = self.rig.enter_context(self.web.tab())
        told = late.wait_kind("job")[0]
        self.assertEqual(told["result"], result)
        self.assertGreaterEqual(told["ago_s"], 0.3)  # it is of before
        self.assertLess(told["ago_s"], time.monotonic() - begun_s + 10)
        self.assertEqual(self.use("measure", seconds=600), {"ok": True})
        self.assertIn("already", self.use("measure", seconds=1)["error"])
        self.assertEqual(self.use("stop"), {"ok": True})
        self.told(lambda h: h["kind"] == "job" and h["phase"] == "stopped", "its end")

    def test_a_cameras_calibration_is_not_written_beside_another_gain(self):
        self.start("--operate", camera={"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3})
        ended = self.job("camera", dark=False)
        self.assertEqual((ended["phase"], ended.get("result", {}).get("gain_db")), ("done", 0), ended)
        self.rig.config(**IGNORANT, camera={"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3, "gain_db": 6})  # edited meanwhile
        self.assertIn("measured at a gain of 0 dB, and camera.gain_db is 6 by now", self.use("write_camera")["error"])
        self.assertFalse(self.drop_in("camera-calibration.yaml").exists())

    def test_a_report_of_the_last_record(self):
        self.start("--operate", record={"directory": str(self.rig.folder / "records")})
        self.assertIn("nothing has been recorded", self.use("report")["error"])
        self.assertIn("no report yet", self.use("report_page")["error"])
        self.while_time_passes(lambda: self.rig.client.request("record", start=True))
        self.rig.sleep(2)
        self.while_time_passes(lambda: self.rig.client.request("record", stop=True))
        self.told(lambda h: h["kind"] == "status" and h["status"]["record"]["file"], "a record")
        ended = self.job("report")
        self.assertEqual(ended["phase"], "done", ended)
        page = self.web.fetch({"tool": {"tool": "report_page"}}, self.csrf)
        self.assertIn(b"<svg", page)
        self.assertNotIn(b"<script", page)

    def test_the_whole_frame(self):
        self.start()
        message = self.while_time_passes(lambda: self.web.fetch({"tool": {"tool": "snapshot"}}, self.csrf))
        (length,) = struct.unpack_from("<I", message)
        frame = re.search(rb'"height_px":(\d+).*"width_px":(\d+)', message[4:4 + length])
        self.assertEqual(len(message) - 4 - length, 2 * int(frame[1]) * int(frame[2]))
        # Who asks just then, several at once, gets the next one: one and the same.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.web.fetch, {"tool": {"tool": "snapshot"}}, self.csrf) for _ in range(4)]
            self.while_time_passes(lambda: concurrent.futures.wait(asked))
        frames = {json.loads(answer[4:4 + struct.unpack_from("<I", answer)[0]])["frame"]["frame_id"] for answer in map(concurrent.futures.Future.result, asked)}
        self.assertEqual(len(frames), 1)
        self.assertGreater(min(frames), json.loads(message[4:4 + length])["frame"]["frame_id"])


if __name__ == "__main__":
    unittest.main()
