# SPDX-License-Identifier: MIT
"""driftd-stage as a program: what it follows, what it leaves, faults, and what it tells."""
from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import unittest

from harness import BIN, DEADLINE_S, SLOW, without_comments
from stage_rig import Rig


class StageTest(unittest.TestCase):
    def setUp(self):
        self.rig = Rig()
        self.addCleanup(self.rig.close)

    def started(self, more="", **environment) -> Rig:
        self.rig.start_daemon()
        self.rig.start_stage()
        self.rig.start(more, **environment)
        self.rig.listen()
        return self.rig

    def assertPlace(self, x, y):
        self.assertAlmostEqual(self.rig.stage.place[0], x, delta=0.001)
        self.assertAlmostEqual(self.rig.stage.place[1], y, delta=0.001)


class Corrections(StageTest):
    def test_it_follows_from_where_the_stage_is(self):
        rig = self.started()
        self.assertEqual(rig.stage.moves, [])
        rig.send(12, -5)
        rig.wait_moves(1)
        self.assertPlace(1012, -2005)
        rig.send(3, 0, probe=True)
        rig.wait_moves(2)
        self.assertPlace(1015, -2005)
        report = rig.wait(lambda r: r["carried_out"] == 2)
        self.assertEqual((report["session"], report["lock_id"]), ("a", 1))
        self.assertEqual(report["state"], "ready")
        self.assertEqual(report["axes"][0]["target_nm"], 1015)
        report = rig.wait(lambda r: r["total_x_nm"] is not None and r["total_x_nm"] > 14)
        self.assertAlmostEqual(report["total_x_nm"], 15)
        self.assertAlmostEqual(report["total_y_nm"], -5)

    def test_sign_scale_and_mapping(self):
        rig = self.started("x: {axis: 'y', reversed: true}\ny: {axis: x, scale: 2}\n")
        rig.send(10, 7)
        rig.wait_moves(1)
        self.assertPlace(1014, -2010)

    def test_what_may_not_move_the_stage_does_not(self):
        rig = self.started()
        rig.send(1, 1)
        rig.wait_moves(1)
        ignored = rig.report()["ignored"]
        rig.lock_id = 0
        rig.send(5, 5)  # an older lock
        rig.wait_ignored(ignored + 1)  # one by one: few wait for a reader
        rig.lock_id = 1
        wrong = [{"total_x_nm": ...}, {"expires_ns": ...}, {"delta_y_nm": ...}, {"session": ...},
                 {"total_y_nm": "1"}, {"total_x_nm": None}, {"lock_id": 1.5},
                 {"total_x_nm": 1e300}, {"sent_ns": ...}]
        for number, changes in enumerate(wrong, 2):
            rig.send(0, 0, **changes)
            rig.wait_ignored(ignored + number)
        rig.daemon.corrections.send_string('correction {"total_x_nm":NaN}')
        rig.wait_ignored(ignored + len(wrong) + 2)
        rig.daemon.corrections.send(b"correction \xff\xfe")
        rig.wait_ignored(ignored + len(wrong) + 3)
        rig.send(0, 0, valid_s=-0.001)
        rig.wait_ignored(ignored + len(wrong) + 4)
        self.assertEqual(len(rig.stage.moves), 1)
        rig.session = "b"  # driftd started anew: a new zero here
        rig.total = [0, 0]
        rig.send(2, 2)
        rig.wait_moves(2)
        self.assertPlace(1003, -1997)
        rig.session = "a"
        rig.send(50, 50)
        rig.wait_ignored(ignored + len(wrong) + 5)
        self.assertEqual(len(rig.stage.moves), 2)

    def test_a_new_lock_begins_where_the_stage_was_told_to_be(self):
        rig = self.started()
        rig.send(30, 0)
        rig.wait_moves(1)
        rig.lock_id, rig.total = 2, [0, 0]
        rig.send(-4, 0)
        rig.wait_moves(2)
        self.assertPlace(1026, -2000)

    def test_limits_hold_a_target_back(self):
        rig = self.started("x: {axis: x, step_limit_nm: 20, range_limit_nm: 50}\ny: {axis: 'y'}\n")
        for count in range(1, 5):
            time.sleep(0.01)  # within the rate limit
            rig.send(100, 0)
            rig.wait_moves(count)
        self.assertEqual([round(x) for _, x, _ in rig.stage.moves], [1020, 1040, 1050, 1050])
        report = rig.wait(lambda r: r["state"] == "limit")
        self.assertIn("x is at the end of its range", report["text"])
        rig.daemon.reply = {"ok": True, "session": "s", "state": "idle"}
        rig.wait(lambda r: r["state"] == "ready")


class Starting(StageTest):
    def test_a_driver_restarted_in_mid_lock_does_not_jump(self):
        rig = self.started()
        for count in range(1, 11):
            time.sleep(0.01)  # within the rate limit
            rig.send(30, -10)
            rig.wait_moves(count)
        self.assertPlace(1300, -2100)
        instance = rig.report()["instance"]
        self.assertEqual(rig.program.stop(), 0)
        rig.start()
        rig.listen()
        self.assertNotEqual(rig.report()["instance"], instance)
        rig.send(4, 2)
        rig.wait_moves(11)
        self.assertPlace(1304, -2098)

    def test_it_waits_for_a_daemon_that_is_not_there(self):
        rig = self.rig
        rig.start_stage()
        rig.start()
        rig.program.wait_for("driftd does not answer")
        rig.start_daemon()
        rig.listen()
        rig.send(5, 0)
        rig.wait_moves(1)
        self.assertPlace(1005, -2000)

    def test_sockets_with_a_name_are_found_in_the_runtime_directory(self):
        rig = self.rig
        rig.named = True
        rig.start_stage()
        rig.start(RUNTIME_DIRECTORY=str(rig.folder))
        rig.program.wait_for(f"nobody listens at ipc://{rig.folder}/commands")
        rig.start_daemon()
        rig.listen()
        rig.program.wait_for("driftd answers")
        rig.send(5, 0)
        rig.wait_moves(1)
        self.assertPlace(1005, -2000)

    def test_no_controller_is_exit_3_unless_it_may_come_later(self):
        rig = self.rig
        rig.start_daemon()
        rig.start(wait=None)
        self.assertEqual(rig.program.child.wait(DEADLINE_S), 3)
        self.assertIn("No such file or directory", rig.program.text())
        rig.start("x: {axis: x}\ny: {axis: 'y'}\nconnection: {start_without_controller: true, "
                  "reconnect_min_ms: 50}\n")
        report = rig.wait(lambda r: r["state"] == "disconnected")
        self.assertEqual(report["axes"], [])
        rig.start_stage()
        rig.wait(lambda r: r["state"] == "ready")

    def test_a_wrong_configuration_is_exit_2(self):
        rig = self.rig
        for more, said in (("x: {axis: x}\n", "the simulator's are x, y and z"),
                           ("x: {axis: x, scale: 0}\n", "x.scale: found 0"),):
            rig.start(more, wait=None)
            self.assertEqual(rig.program.child.wait(DEADLINE_S), 2)
            self.assertIn(said, rig.program.text())

    def test_check_and_print(self):
        file = self.rig.config()
        done = subprocess.run([BIN / "driftd-stage", "--config", file, "--check-config"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, f"{file}: no mistakes\n"))
        printed = subprocess.run([BIN / "driftd-stage", "--config", file, "--print-config"],
                                 capture_output=True, text=True).stdout
        again = self.rig.folder / "again.yaml"
        again.write_text(printed)
        done = subprocess.run([BIN / "driftd-stage", "--config", again, "--print-config"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, without_comments(done.stdout)), (0, without_comments(printed)))
        drop_ins = self.rig.folder / f"{file.name}.d"
        drop_ins.mkdir()
        (drop_ins / "limits.yaml").write_text("x: {max_nm: 4000}\n")
        printed = subprocess.run([BIN / "driftd-stage", "--config", file, "--print-config"],
                                 capture_output=True, text=True).stdout
        self.assertIn(f"  max_nm: 4000  # {drop_ins}/limits.yaml:1\n", printed)
        (drop_ins / "limits.yaml").write_text("x: {min_nm: 4000, max_nm: 4000}\n")
        done = subprocess.run([BIN / "driftd-stage", "--config", file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{drop_ins}/limits.yaml:1:", done.stderr)


class Faults(StageTest):
    def test_a_controller_that_comes_back_elsewhere_is_not_sent_back(self):
        rig = self.started()
        rig.send(40, 0)
        rig.wait_moves(1)
        rig.stage.stop()
        report = rig.wait(lambda r: r["state"] == "disconnected")
        self.assertTrue(report["text"])
        self.assertIsNone(report["axes"][0]["position_nm"])
        ignored = report["ignored"]
        rig.send(10, 0)
        rig.wait(lambda r: r["ignored"] > ignored)
        rig.stage.restart(-7000, 500)
        rig.wait(lambda r: r["state"] == "ready")
        rig.send(5, 1)
        rig.wait_moves(2)
        self.assertPlace(-6995, 501)
        self.assertEqual(rig.program.text().count("trying again"), 1, rig.program.text())

    def test_a_controller_that_comes_back_in_place_goes_on(self):
        rig = self.started()
        rig.send(40, 0)
        rig.wait_moves(1)
        rig.stage.restart(1040.3, -2000.2)
        rig.wait(lambda r: r["state"] == "disconnected" or "after" in rig.program.text())
        rig.wait(lambda r: r["state"] == "ready")
        rig.send(5, 0)
        rig.wait_moves(2)
        self.assertPlace(1045, -2000)

    def test_a_controller_that_says_nothing_is_told_of(self):
        self.rig.timeout_ms = 2500
        rig = self.started()
        rig.stage.silent = True
        began_ns = time.monotonic_ns()
        rig.wait(lambda r: r["state"] == "disconnected")
        rig.stage.silent = False
        rig.wait(lambda r: r["state"] == "ready")
        # Reports come while the program waits for answers.
        came = [t for t, _ in rig.daemon.reports if t >= began_ns]
        self.assertGreater(came[-1] - came[0], 2e9)
        self.assertLess(max(b - a for a, b in zip(came, came[1:])), 2e9)

    def test_a_daemon_that_does_not_answer_delays_no_move(self):
        rig = self.started()
        rig.daemon.reply = None
        rig.program.wait_for("driftd does not answer")
        begin = time.monotonic()
        for count in range(1, 101):
            time.sleep(0.002)
            rig.send(1, 0)
            rig.wait_moves(count)
        self.assertLess(time.monotonic() - begin, 20)  # of each that waited for an answer a part of a second
        self.assertPlace(1100, -2000)

    def test_a_daemon_restarted_is_followed_from_here(self):
        rig = self.started()
        rig.send(30, 0)
        rig.wait_moves(1)
        rig.daemon.close()
        time.sleep(0.3)
        rig.start_daemon()
        rig.session, rig.total = "b", [0, 0]
        rig.listen()
        rig.send(3, 0)
        rig.wait_moves(2)
        self.assertPlace(1033, -2000)

    def test_while_another_driver_reports_it_keeps_still(self):
        rig = self.started()
        rig.daemon.reply = {"ok": False, "code": "busy", "error": "another driver reports"}
        rig.program.wait_for("driftd does not take the reports: another driver reports (busy)")
        ignored = rig.report()["ignored"]
        rig.send(5, 0)
        rig.wait_ignored(ignored + 1)
        self.assertEqual(rig.stage.moves, [])
        rig.daemon.reply = {"ok": True, "session": "s", "state": "locked"}
        rig.program.wait_for("driftd takes the reports again")
        rig.send(5, 0)
        rig.wait_moves(1)
        self.assertPlace(1005, -2000)

    def test_a_daemon_that_knows_no_reports_is_followed(self):
        rig = self.started()
        rig.daemon.reply = {"ok": False, "code": "bad_request", "error": "unknown command"}
        rig.program.wait_for("driftd does not take the reports: unknown command (bad_request)")
        rig.send(5, 0)
        rig.wait_moves(1)

    def test_replies_that_are_none_end_nothing(self):
        rig = self.started()
        for reply in (b"", b"x", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, b'{"ok":"yes"}',
                      b'{"ok":false,"error":null,"code":null}'):
            rig.daemon.reply = reply
            count = len(rig.daemon.reports)
            rig.wait(lambda r, count=count: len(rig.daemon.reports) > count + 1)
        rig.daemon.reply = {"ok": True, "session": "s", "state": "locked"}
        rig.send(5, 0)
        rig.wait_moves(1)
        self.assertPlace(1005, -2000)

    def test_a_program_that_stood_still_carries_out_nothing_old(self):
        rig = self.started()
        rig.send(1, 0)
        rig.wait_moves(1)
        ignored = rig.report()["ignored"]
        os.kill(rig.program.child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, rig.program.child.pid, os.WSTOPPED | os.WNOWAIT)  # until all its threads stand
        for _ in range(200):
            rig.send(1, 0, valid_s=0.02)
            time.sleep(0.002)
        time.sleep(0.05)
        os.kill(rig.program.child.pid, signal.SIGCONT)
        seen = -1
        while seen != (seen := rig.wait(lambda r: r["ignored"] > ignored)["ignored"]):  # until all that waited is read
            pass
        self.assertEqual(len(rig.stage.moves), 1)
        rig.send(1, 0)
        rig.wait_moves(2)
        self.assertEqual(len(rig.stage.moves), 2)


class Telling(StageTest):
    def test_reports_come_every_50_ms(self):
        rig = self.started()
        rig.daemon.reports.clear()
        end = time.monotonic() + DEADLINE_S
        while len(rig.daemon.reports) < 31:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        came = [t for t, _ in rig.daemon.reports][:31]
        gaps = sorted(b - a for a, b in zip(came, came[1:]))
        self.assertGreater((came[-1] - came[0]) / 30 * 1e-6, 45)
        self.assertLess(gaps[len(gaps) // 2] * 1e-6, 200 * SLOW)  # a busy machine sends some late
        last = rig.report()
        self.assertLess(time.monotonic_ns() - last["time_ns"], 5e9 * SLOW)

    def test_the_rate_is_limited_and_the_newest_taken(self):
        rig = self.started("x: {axis: x}\ny: {axis: 'y'}\nmotion: {max_rate_hz: 50}\n")
        # The stage's zero is where the first correction that is not too late finds it: let one have come.
        rig.wait(lambda r: rig.send() or r["carried_out"])
        moved_before, begin = len(rig.stage.moves), time.monotonic()
        while time.monotonic() < begin + 2.5:
            rig.send(0.1, 0)
            time.sleep(0.002)
        report = rig.report()
        self.assertEqual(report["max_rate_hz"], 50)
        self.assertLessEqual(report["rate_hz"], 51)
        self.assertGreater(report["rate_hz"], 5)  # a busy machine misses some
        place_nm = 1000 + rig.total[0]
        # The last one may have found no room: it is said again.
        rig.wait(lambda r: rig.send() or abs(rig.stage.place[0] - place_nm) < 0.001)
        self.assertPlace(place_nm, -2000)
        self.assertLess(len(rig.stage.moves) - moved_before, (time.monotonic() - begin) * 50 + 2)

    def test_an_end_says_stopped_and_leaves_the_stage(self):
        rig = self.started()
        rig.send(5, 0)
        rig.wait_moves(1)
        self.assertEqual(rig.program.stop(), 0)
        end = time.monotonic() + DEADLINE_S
        while rig.daemon.reports[-1][1]["state"] != "stopped":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertPlace(1005, -2000)
        self.assertRegex(rig.program.text(), r"\n1 corrections carried out, .*p50 \d+ us")

    def test_sigusr1_prints_figures(self):
        rig = self.started()
        rig.send(5, 0)
        rig.wait_moves(1)
        rig.wait(lambda r: r["carried_out"] == 1)
        os.kill(rig.program.child.pid, signal.SIGUSR1)
        rig.program.wait_for("1 corrections carried out")
        self.assertIsNone(rig.program.child.poll())

    def test_systemd_is_told(self):
        path = self.rig.folder / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(path))
            notify.settimeout(DEADLINE_S)
            self.rig.start_daemon()
            self.rig.start_stage()
            self.rig.start(NOTIFY_SOCKET=str(path), WATCHDOG_USEC="400000")
            said, begin = b"", time.monotonic()
            while said.count(b"WATCHDOG=1") < 10:
                said += notify.recv(4096) + b"\n"
            self.assertLess(time.monotonic() - begin, 10 * 0.4)  # it is fed more than three times as often
            self.assertIn(b"READY=1", said)
            self.assertIn(b"STATUS=ready", said)
            self.rig.program.stop()
            while b"STOPPING=1" not in notify.recv(4096):
                pass


if __name__ == "__main__":
    unittest.main()
