# SPDX-License-Identifier: MIT
"""driftd-web before a daemon that gives what roles it likes, says what none says, falls silent or is started anew."""
from __future__ import annotations

import itertools
import json
import shutil
import signal
import sys
import threading
import time
import unittest
import unittest.mock

from harness import DEADLINE_S, SOURCE

sys.path[:0] = [str(SOURCE / "tests/unit/clients")]
from fake_daemon import FakeDaemon  # noqa: E402
from protocol import examples  # noqa: E402
from test_web import Case  # noqa: E402
import web_client  # noqa: E402
from web_client import Web, get, read_answer  # noqa: E402


class BeforeAFake(Case):
    """A daemon that gives the role `observe`, or says what none says."""

    def setUp(self):
        super().setUp()
        self.fake = self.enter_context(FakeDaemon())
        self.roles = "observe"
        self.answers("status", lambda: {"status": examples()["status"]})
        self.answers("access", lambda: {"roles": self.roles})
        (self.folder / "lab.yaml").write_text(
            f"wire:\n  publish: {self.fake.publish_endpoint}\n  corrections: {self.fake.corrections_endpoint}\n"
            f"  commands: {self.fake.commands_endpoint}\n")
        self.web = Web(self, self.folder, "--config", self.folder / "lab.yaml", "--operate")

    def answers(self, command: str, fields) -> None:
        self.fake.replies[command] = lambda: [{"ok": True, "id": self.fake.requests[-1]["id"], **fields()}]

    def asked(self, command: str) -> int:
        return sum(request["command"] == command for request in self.fake.requests)

    def test_the_role_that_the_daemon_gives_is_kept_here(self):
        self.answers("lock", lambda: {"state": "referencing"})
        with self.web.tab() as tab:
            tab.wait_kind("status")
            while (hello := tab.wait_kind("hello")[0])["role"] != "observe":
                pass
            self.assertIn("observe", hello["why_observe"])
            status, reply = self.web.post({"command": {"command": "lock"}}, hello["csrf"])
            self.assertEqual((status, reply["code"], self.asked("lock")), (403, "forbidden", 0))
            status, reply = self.web.post({"command": {"command": "status"}}, hello["csrf"])
            self.assertEqual((status, reply["status"]["state"]), (200, "locked"))
            self.roles = "stage, command"
            while not self.fake.publish("event", code="access_changed"):
                with self.web.tab() as other:
                    if other.wait_kind("hello")[0]["role"] == "operate":
                        break
            tab.wait(lambda h: h["kind"] == "hello" and h["role"] == "operate", "the role")
            status, reply = self.web.post({"command": {"command": "lock"}}, hello["csrf"])
            self.assertEqual((status, reply, self.asked("lock")), (200, {"ok": True, "state": "referencing"}, 1))
            # What the daemon refuses is its own to say.
            self.fake.replies["unlock"] = lambda: [{"ok": False, "id": self.fake.requests[-1]["id"], "code": "busy",
                                                    "error": "not now"}]
            self.assertEqual(self.web.post({"command": {"command": "unlock"}}, hello["csrf"]),
                             (200, {"ok": False, "code": "busy", "error": "not now"}))

    def test_what_no_daemon_says_ends_nothing(self):
        self.fake.replies["snapshot"] = lambda: [{"ok": True, "id": self.fake.requests[-1]["id"],
                                                  "frame": {"width_px": 9, "height_px": 9, "bits": 12}}, b"short"]
        with self.web.tab() as tab:
            tab.want(images=True)
            tab.wait_kind("status")
            for data in (b"", b"position", b"position ", b"position []", b"position {}", b"position {\"arrival_ns\":[]}",
                         b"status null", b"status []", b"status {\"control\":7,\"state\":[]}", b"event {\"code\":7}",
                         b"markers {\"markers\":7}", b"markers {\"markers\":[7,{}]}", b"correction {\"total_x_nm\":\"a\"}",
                         b"status {\"state\":\"\xff\"}"):
                self.fake.publish_bytes(data)
            self.fake.publish("position", arrival_ns=77_000_000_000)
            samples = tab.wait(lambda h: h["kind"] == "samples" and 77 in h["t_s"], "a sample")[0]
            self.assertEqual(samples["state"], ["locked"])
            self.assertGreater(self.asked("snapshot"), 0)
        self.assertEqual(self.web.answer(get())[0], 200)

    def test_of_a_daemon_before_nothing_stays(self):
        """Another one at the same sockets, by a file that was changed meanwhile, and without markers."""
        self.answers("status", lambda: {"status": status})
        status = examples()["status"]
        with self.web.tab() as tab:
            def publish() -> None:  # again and again: the first ones may come before it is connected
                self.fake.publish("correction", total_x_nm=77)
                self.fake.publish("markers")
                self.fake.publish("position", arrival_ns=next(arrivals))
                time.sleep(0.05)

            arrivals = itertools.count(10**9, 10**8)
            tab.wait(lambda h: h["kind"] == "samples" and h["correction_nm"][0][-1:] == [77], "a correction", publish)
            self.assertEqual(len(tab.wait_kind("markers", publish)[0]["markers"]), 1)
            file = self.folder / "lab.yaml"
            file.write_text(file.read_text() + "optics:\n  pixel_size_nm: 65\n")
            asked = self.asked("access")
            status = {**status, "session": "f" * 16, "markers": {**status["markers"], "tracking": 0, "witness": 0}}
            self.fake.publish("status", **status)
            tab.wait(lambda h: h["kind"] == "hello" and h["config"]["pixel_size_nm"] == 65, "the file of now")
            tab.wait(lambda h: h["kind"] == "markers" and not h["markers"], "no markers")
            self.fake.publish("position", session="f" * 16, arrival_ns=10**12)
            tab.wait(lambda h: h["kind"] == "samples" and h["t_s"][-1:] == [1000] and h["correction_nm"][0][-1] is None, "none")
            self.assertGreater(self.asked("access"), asked)
            file.write_text("optics: 7\n")  # what cannot be read changes nothing
            self.fake.publish("event", code="configuration_reloaded")
            tab.wait(lambda h: h["kind"] == "event" and h["events"][-1]["code"] == "configuration_reloaded", "the event")
        with self.web.tab() as tab:
            self.assertEqual(tab.wait_kind("hello")[0]["config"]["pixel_size_nm"], 65)

    def test_what_is_over_is_told_no_more(self):
        """A spectrum of frames that come no more; the last minute by a clock that went back."""
        with self.web.tab() as tab:
            tab.wait_kind("status")
            for frame in range(200):
                self.fake.publish("position", frame_id=frame, arrival_ns=10**12 + frame * 10**7)
            tab.wait(lambda h: h["kind"] == "samples" and h["t_s"][-1] > 1001.9, "the samples")
            tab.want(spectrum=True)
            tab.wait_kind("spectrum")
            kinds, end = [], time.monotonic() + 3
            while time.monotonic() < end:
                kinds.append(tab.receive()[0]["kind"])
            self.assertNotIn("spectrum", kinds)
            self.fake.publish("position", frame_id=1, arrival_ns=10**9)
            tab.wait(lambda h: h["kind"] == "samples" and h["t_s"][-1] == 1, "the other clock")
        with self.web.tab() as tab:
            self.assertEqual(tab.wait(lambda h: h["kind"] == "samples" and h.get("past"), "the past")[0]["t_s"], [1])

    def test_roles_that_no_daemon_has_are_none(self):
        for fields in ({"roles": ["command"]}, {"roles": None}, {"roles": 7}, {"ok": "yes", "roles": {}}):
            self.answers("access", lambda fields=fields: fields)
            asked = self.asked("access")
            with self.web.tab() as tab:
                tab.wait_kind("status")
                end = time.monotonic() + DEADLINE_S
                while self.asked("access") < asked + 2:  # the answer before the last one has been taken
                    self.assertLess(time.monotonic(), end)
                    self.fake.publish("event", code="access_changed")
                    time.sleep(0.02)
                tab.wait_kind("status")
            with self.web.tab() as tab:
                self.assertEqual(tab.wait_kind("hello")[0]["role"], "observe", fields)

    def test_what_is_nested_without_an_end_is_left_out(self):
        with self.web.tab() as tab:
            tab.wait_kind("status")
            for begin, end in ((b"[", b"]"), (b'{"a":', b"}")):
                self.fake.publish_bytes(b'event {"code":"deep","text":"deep","x":' + begin * 200_000 + b"1" + end * 200_000 + b"}")
            self.fake.publish("event", code="after")
            tab.wait(lambda h: h["kind"] == "event" and h["events"][-1]["code"] == "after", "the event after")

    def test_a_flood_of_events_ends_no_stream(self):
        with self.web.tab() as tab:
            tab.wait_kind("status")
            self.web.process.child.send_signal(signal.SIGSTOP)  # they come all at once
            try:
                for number in range(5000):
                    self.fake.publish("event", text=f"event {number}")
            finally:
                self.web.process.child.send_signal(signal.SIGCONT)
            seen = []
            while not seen or seen[-1] != "event 4999":
                seen += [e["text"] for e in tab.wait(lambda h: h["kind"] == "event" and not h.get("past"), "events")[0]["events"]]
            self.assertEqual(seen[-200:], [f"event {number}" for number in range(4800, 5000)])

    def test_a_command_that_driftd_does_not_take_reaches_no_connection(self):
        """It would end the one that everybody's status and pictures come by."""
        self.answers("place", lambda: {"place": {}})
        with self.web.tab() as tab:
            csrf = tab.wait_kind("hello")[0]["csrf"]
            tab.wait_kind("status")
            show = {"command": "place", "show": "a" * 3900}
            self.assertEqual(self.web.post({"command": show}, csrf), (200, {"ok": True, "place": {}}))
            for name in ("a" * 4000, "\0" * 1000):  # a sign that takes six bytes there
                status, reply = self.web.post({"command": show | {"show": name}}, csrf)
                self.assertEqual((status, reply["code"]), (413, "bad_request"), reply)
            self.assertEqual(self.web.post({"command": show | {"show": "a" * 9000}}, csrf)[0], 413)
            self.assertEqual(self.asked("place"), 1)

    def test_whatever_driftctl_prints_ends_nothing(self):
        programs = self.folder / "bin"
        programs.mkdir()
        shutil.copy(web_client.BIN / "driftd-web", programs)
        driftctl = programs / "driftctl"
        self.roles = "command"
        with unittest.mock.patch.object(web_client, "BIN", programs):
            web = Web(self, self.folder, "--config", self.folder / "lab.yaml", "--operate")
        tab = self.enter_context(web.tab())
        csrf = tab.wait_kind("hello")[0]["csrf"]
        tab.wait_kind("status")
        for says, phase, words in (("head -c 3000 /dev/urandom; head -c 3000 /dev/urandom >&2", "failed", "not understood"),
                                   ("echo '[1]'", "failed", "not understood"), ("kill -SEGV $$", "failed", "signal 11"),
                                   ("echo '<b>no</b>' >&2; exit 3", "failed", "<b>no</b>"),
                                   ("printf '{\"a\":'; yes '[' | head -n 200000; yes ']' | head -n 200000; echo '}'", "done", ""),
                                   ("echo '{\"gain_db\":[],\"proposal\":3,\"camera\":[1]}'", "done", "")):
            with self.subTest(says):
                driftctl.write_text(f"#!/bin/sh\n{says}\n")
                driftctl.chmod(0o755)
                self.assertEqual(web.post({"tool": {"tool": "camera", "dark": True}}, csrf), (200, {"ok": True}))
                ended = tab.wait(lambda h: h["kind"] == "job" and h["phase"] != "running", "its end")[0]
                self.assertEqual((ended["phase"], words in ended["text"]), (phase, True), str(ended)[:200])
                self.assertFalse(web.post({"tool": {"tool": "write_camera"}}, csrf)[1]["ok"])

    def never_answers(self, command: str) -> None:
        silent = threading.Event()
        self.addCleanup(silent.set)
        self.answers(command, lambda: silent.wait() and {})

    def test_a_command_is_answered_though_the_daemon_falls_silent(self):
        self.never_answers("calibration")
        with self.web.tab() as tab:
            hello = tab.wait_kind("hello")[0]
            tab.wait_kind("status")
            status, reply = self.web.post({"command": {"command": "calibration"}}, hello["csrf"])
            self.assertEqual((status, reply["code"]), (504, "unreachable"))
            self.assertIn("may still", reply["error"])

    def test_it_ends_at_once_whoever_waits(self):
        self.never_answers("calibration")
        with self.web.tab() as tab:
            hello = tab.wait_kind("hello")[0]
            tab.wait_kind("status")
            command = json.dumps({"command": {"command": "calibration"}})
            with self.web.connect() as peer:
                peer.sendall(get("/api/command", self.web.address, "POST", Origin=self.web.origin, Content_Type="application/json",
                                 X_CSRF_Token=hello["csrf"], Content_Length=str(len(command))) + command.encode())
                end = time.monotonic() + DEADLINE_S
                while self.asked("calibration") == 0:
                    self.assertLess(time.monotonic(), end)
                begin = time.monotonic()
                self.assertEqual(self.web.process.stop(), 0)
                self.assertLess(time.monotonic() - begin, 5)
                self.assertEqual(read_answer(peer)[0], 0)

    def test_several_instances_on_one_page(self):
        web = Web(self, self.folder, "--config", self.folder / "lab.yaml", "--config", f"left={self.folder}/lab.yaml")
        with web.tab() as first, web.tab("left") as second:
            self.assertEqual(first.wait_kind("hello")[0]["instance"], "lab")
            hello = second.wait_kind("hello")[0]
            self.assertEqual((hello["instance"], hello["instances"]), ("left", ["lab", "left"]))
            second.wait_kind("status")


if __name__ == "__main__":
    unittest.main()
