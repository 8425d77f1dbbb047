# SPDX-License-Identifier: MIT
"""What is told of a lock that several faults hold one after the other, and of the way back that they leave."""
import json
import pathlib
import re
import sys
import unittest

import zmq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import BIN, new_rig  # noqa: E402

LOCK = {"hold_timeout_s": 4, "reference_timeout_s": 2}


class Reasons(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start_locked(self, **sections):
        rig = self.rig
        rig.start_sim()
        self.file = rig.config(**{"camera": {"start_without_camera": "true"}, "lock": LOCK, **sections})
        rig.start_daemon(self.file)
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        self.events = rig.subscribe("event")

    def driftctl(self, *arguments, code=0):
        done = self.rig.run_program([BIN / "driftctl", "--config", self.file, *arguments])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return " ".join((done.stdout + done.stderr).split())

    def held(self, reason, first):
        status = self.rig.wait_holding(reason)
        self.assertEqual(status["held_first"], first)
        return status

    def told(self):
        return [e["text"] for _, e in self.events.drain() if e["code"] == "state_changed"]

    def offer(self):
        return self.rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None,
                                   "the way back")["interrupted"]["text"]

    def test_dark_then_unplugged(self):
        self.start_locked(record={"at_lock": "true"})
        rig = self.rig
        rig.fault("hide_markers", seconds=3.5)
        self.assertIn("light", self.held("too_few_markers", "none")["cure"])
        rig.fault("vanish", seconds=1)
        cure = self.held("no_frames", "too_few_markers")["cure"]
        self.assertIn("driftctl cameras", cure)
        self.assertNotIn("light", cure)
        self.assertIn("(no frames, at first too few markers)", self.driftctl("status"))
        self.held("too_few_markers", "none")  # it is back, and it is dark still
        rig.fault("vanish", seconds=9)
        self.held("no_frames", "too_few_markers")
        lost = rig.wait_state("lost")
        self.assertEqual((lost["held_for"], lost["held_first"]), ("no_frames", "too_few_markers"))
        self.assertIn("driftctl cameras", lost["cure"])
        self.assertEqual(self.told(), [
            "holding: too few markers", "holding: no frames, at first too few markers", "holding: too few markers",
            "holding: no frames, at first too few markers",
            "lost: held too long (no frames, at first too few markers)"])
        rig.wait_until(lambda s: s["camera"]["connected"], "the camera")
        self.driftctl("unlock")
        rig.sleep(1)
        report = self.driftctl("report", rig.status()["record"]["file"], "-o", rig.folder / "report.html")
        self.assertNotIn("error", report)
        self.assertIn("too few markers, then no frames", (rig.folder / "report.html").read_text())

    def driver(self, state, text, seconds):
        """A stage's driver reports for so long."""
        with zmq.Context.instance().socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self.rig.commands)
            for _ in range(round(seconds / 0.1)):
                socket.send_string(json.dumps({"command": "stage", "instance": "a", "driver": "wild", "state": state,
                                               "text": text, "time_ns": self.rig.now_ns()}))
                self.assertTrue(socket.poll(60_000), "no answer")
                socket.recv()
                self.rig.sleep(0.1)

    def restart(self, **sections):
        rig = self.rig
        rig.daemon.stop()
        if sections:
            self.configure(**sections)
        rig.start_daemon(self.file)
        rig.wait_until(lambda s: s["camera"]["connected"], "the camera")

    def configure(self, **sections):
        self.file = self.rig.config(**{"camera": {"start_without_camera": "true"}, "lock": LOCK, **sections})

    def test_what_is_over_is_not_to_be_mended_any_more(self):
        self.start_locked()
        rig = self.rig
        for fault, word in (("hide_markers", "light"), ("vanish", "driftctl cameras")):
            rig.fault(fault, seconds=6)
            self.assertIn(word, rig.wait_state("lost")["cure"])
            self.offer()
            cure = rig.status()["cure"]
            self.assertNotIn(word, cure)
            self.assertIn("lock.hold_timeout_s", cure)
            self.driftctl("lock")
            rig.fault(fault, seconds=4)
            self.assertIn(word, rig.wait_until(lambda s: s["reason"] == "reference_timeout", "time-out")["cure"])
            self.offer()
            cure = rig.status()["cure"]
            self.assertNotIn("light", cure)
            self.assertNotIn("driftctl cameras", cure)
            self.driftctl("lock", "--resume", "--wait")

    def test_a_driver_that_is_back_is_not_to_be_started(self):
        self.start_locked()
        self.driver("ready", "", 0.5)
        self.assertIn("start driftd-stage again", self.rig.wait_state("lost")["cure"])
        self.driver("ready", "", 0.5)
        self.assertNotIn("start driftd-stage again", self.rig.status()["cure"])

    def test_what_the_driver_says_is_told_to_who_waits(self):
        self.start_locked()
        self.driver("error", "E-727: servo off", 0.5)
        self.assertIn("E-727: servo off", self.held("stage_error", "none")["cure"])

    def test_who_wants_to_go_back_hears_what_the_lock_does(self):
        self.start_locked()
        rig = self.rig
        self.assertIn("the lock is `locked` already", self.driftctl("lock", "--resume", code=1))
        rig.fault("hide_markers", seconds=5)
        self.held("too_few_markers", "none")
        self.assertIn("the lock is `holding` already", self.driftctl("lock", "--resume", code=1))
        rig.wait_state("lost")
        self.offer()
        self.driftctl("lock")
        self.assertRegex(rig.status()["interrupted"]["text"], "it is over once the lock that is being engaged has")
        self.assertIn("the lock is `referencing` already", self.driftctl("lock", "--resume", code=1))
        rig.wait_state("locked")
        self.driftctl("unlock")
        rig.client.request("calibrate")
        for order in (["lock"], ["lock", "--wait"], ["lock", "--resume"]):
            told = self.driftctl(*order, code=1)
            self.assertIn("the stage is being calibrated", told)
            self.assertNotIn("already", told)

    def test_no_way_back_is_offered_that_a_reload_has_closed(self):
        self.start_locked()
        rig = self.rig
        self.restart()
        self.assertIn("`driftctl lock --resume` goes back", self.offer())
        self.configure(stage={"image_to_stage": "[[1, 0], [0, -1]]"})
        rig.daemon.reload()
        text = rig.status()["interrupted"]["text"]
        self.assertIn("stage.image_to_stage was [[0.99", text)
        self.assertNotIn("--resume` goes back", text)
        self.assertIn("stage.image_to_stage was", self.driftctl("lock", "--resume", code=1))
        self.assertNotIn("looks for its markers again", self.driftctl("markers", "--find"))
        self.configure(stage={"image_to_stage": "[[0.992546, 0.121869], [0.121869, -0.992546]]"})
        rig.daemon.reload()
        self.assertIn("`driftctl lock --resume` goes back", self.driftctl("markers", "--find"))
        self.driftctl("lock", "--resume", "--wait")

    def test_reset_says_what_it_forgets(self):
        self.start_locked()
        self.rig.fault("hide_markers", seconds=5)
        self.rig.wait_state("lost")
        self.assertRegex(self.driftctl("reset"), r"lock 1, lost [0-9.]+ s ago: forgotten")
        self.driftctl("lock", "--wait")
        self.restart()
        self.offer()
        self.assertRegex(self.driftctl("reset"), r"lock \d, interrupted [0-9.]+ s ago: forgotten")

    def test_a_marker_that_may_be_any_spot_is_not_said_to_be_gone(self):
        self.start_locked(markers={"mode": "list", "list": "[{id: 1, x_px: 189.9, y_px: 104.8, role: tracking}]"},
                          drift={"min_markers": 1})
        self.restart()
        text = self.rig.wait_until(lambda s: (s["interrupted"] or {}).get("phase") == "absent", "no answer"
                                   )["interrupted"]["text"]
        self.assertIn("its markers were not found in the image (ambiguous: ", text)

    def test_listed_markers_are_looked_for_until_the_light_is_back(self):
        places = ((189.9, 104.8), (76, 159), (136.5, 201.2))
        listed = ", ".join(f"{{id: {i}, x_px: {x}, y_px: {y}, role: tracking}}" for i, (x, y) in enumerate(places, 1))
        self.start_locked(markers={"mode": "list", "list": f"[{listed}]"})
        rig = self.rig
        rig.fault("hide_markers", seconds=3)
        rig.sleep(0.2)
        self.restart()
        rig.sleep(1.5)
        self.assertEqual(rig.status()["markers"]["tracking"], 3)
        text = rig.status()["interrupted"]["text"]
        self.assertIn("looking for its markers", text)
        self.assertIn("see light and focus", text)
        self.assertIn("those of markers.list are used", self.driftctl("markers", "--find", code=1))
        self.offer()
        self.driftctl("lock", "--resume", "--wait")

    def test_who_looks_for_markers_in_the_dark_hears_how_to_learn_more(self):
        self.start_locked()
        self.rig.fault("hide_markers", seconds=3)
        self.rig.sleep(0.2)
        self.restart()
        self.rig.sleep(0.5)
        self.assertIn("`driftctl markers --find` tells why", self.rig.status()["interrupted"]["text"])
        self.assertIn("`driftctl markers --find` tells why", self.driftctl("calibrate", code=1))

    def test_the_drift_of_the_last_seconds_is_none_where_none_is_seen(self):
        self.start_locked()
        self.rig.sleep(1)
        self.assertIsNotNone(self.rig.status()["drift"]["rms_x_nm"])
        self.rig.fault("hide_markers", seconds=2)
        self.rig.sleep(1)
        self.assertIsNone(self.rig.status()["drift"]["rms_x_nm"])

    def test_away_then_dark(self):
        self.start_locked()
        self.rig.fault("hide_markers", seconds=30)
        self.rig.fault("vanish", seconds=1)
        self.held("no_frames", "none")
        self.assertIn("light", self.held("too_few_markers", "no_frames")["cure"])
        self.assertIn("light", self.rig.wait_state("lost")["cure"])
        self.assertEqual(self.told()[-1], "lost: held too long (too few markers, at first no frames)")

    def test_a_report_counts_the_time_without_frames_to_what_was_lost(self):
        self.start_locked(record={"at_lock": "true"})
        rig = self.rig
        rig.sleep(1)
        rig.fault("vanish", seconds=1)
        rig.sleep(4)
        self.assertEqual(rig.status()["state"], "locked")
        rig.fault("vanish", seconds=9)
        rig.sleep(13)
        file = rig.status()["record"]["file"]
        self.driftctl("unlock")
        rig.sleep(1)
        self.driftctl("report", file, "-o", rig.folder / "report.html")
        text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", (rig.folder / "report.html").read_text()))
        lost = text[text.index("Lost time"):]
        held = re.search(r"holding: no frames 2 ([0-9.]+) lost: held too long: no frames 1 ([0-9.]+) ", lost)
        self.assertIsNotNone(held, lost[:400])
        self.assertAlmostEqual(float(held[1]), 1.3 + LOCK["hold_timeout_s"], delta=0.5)
        self.assertAlmostEqual(float(held[2]), 13 - LOCK["hold_timeout_s"], delta=0.5)

    def test_a_jump_out_of_the_rois(self):
        self.start_locked(markers={"find_again_after_ms": 300})
        self.rig.fault("step", x_nm=2500, y_nm=0)
        status = self.held("implausible_jump", "too_few_markers")
        self.assertRegex(status["cure"], r"the sample is 2[45]\d\d\.\d nm from")
        self.assertRegex(self.told()[-1], r"^holding: implausible jump of 2[45]\d\d\.\d nm \(lock\.max_jump_nm is "
                                          r"100\), at first too few markers$")

    def test_a_lock_without_a_camera_is_refused_and_the_way_back_stays(self):
        self.start_locked()
        rig = self.rig
        rig.fault("vanish", seconds=8)
        rig.wait_state("lost")
        self.assertIn("lost", self.driftctl("status"))
        for order in (["lock"], ["lock", "--wait"]):
            self.assertIn("no camera gives frames", self.driftctl(*order, code=1))
        told = self.driftctl("lock", "--resume", code=1)
        self.assertIn("see the camera's power", told)
        self.assertNotIn("light", told)
        self.offer()
        self.driftctl("lock", "--resume", "--wait")
        self.assertEqual(rig.status()["state"], "locked")

    def test_a_reference_that_does_not_come_about_leaves_the_way_back(self):
        self.start_locked()
        rig = self.rig
        for fault in ("vanish", "hide_markers"):
            rig.fault("hide_markers", seconds=5)
            rig.wait_state("lost")
            self.offer()
            self.driftctl("lock")
            rig.fault("step", x_nm=40, y_nm=30)
            rig.fault(fault, seconds=4)
            self.assertIn("once the lock that is being engaged", rig.status()["interrupted"]["text"])
            cure = rig.wait_until(lambda s: s["reason"] == "reference_timeout", "time-out")["cure"]
            self.assertEqual("light" in cure, fault == "hide_markers")
            self.assertIn("lost", self.offer())
            self.driftctl("lock", "--resume", "--wait")
            rig.sleep(1)
            self.assertIsNone(rig.status()["interrupted"])

    def test_markers_that_are_looked_for_keep_the_way_back(self):
        self.start_locked()
        rig = self.rig
        rig.fault("hide_markers", seconds=5)
        rig.wait_state("lost")
        rig.fault("hide_markers", seconds=1.5)
        self.assertIn("found 0 markers", self.driftctl("markers", "--find", code=1))
        self.offer()
        self.assertIn("`driftctl lock --resume` goes back there", self.driftctl("markers", "--find"))
        self.driftctl("lock", "--resume", "--wait")
        self.assertEqual(rig.status()["state"], "locked")


if __name__ == "__main__":
    unittest.main()
