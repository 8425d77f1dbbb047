# SPDX-License-Identifier: MIT
"""What driftd.stages.Driver tells the daemon, and what it makes of the daemon's replies."""
import json
import random
import time
import unittest
import unittest.mock

from driven_stage import SLOW, FakeStage, WithDriver  # prints SKIPPED and exits without pyzmq
from stage_daemon import mistakes

from driftd import stages
from driftd.stages import driver, reporter
from driftd.stages.report import Account, Latencies, plain


class Reporting(WithDriver):
    def test_reports_come_every_50_ms(self):
        self.start()
        before, start_s = len(self.daemon.reports), time.monotonic()
        self.until(lambda: len(self.daemon.reports) >= before + 20)
        took_s = self.daemon.reports[before + 19]["came_s"] - start_s
        self.assertGreater(took_s, 0.85)
        self.assertLess(took_s, 5 * SLOW)  # a busy machine sends some late
        self.assertEqual(len({r["instance"] for r in self.daemon.reports}), 1)

    def test_a_daemon_that_starts_again_hears_again(self):
        self.start()
        self.sent((1, 0))
        self.daemon.stop()
        time.sleep(0.3)
        self.daemon.start()
        self.report(lambda r: r["state"] == "ready" and r["session"] == "a" * 16)
        self._reach()
        self.assertEqual(self.sent((1, 0), session="b" * 16), (1002, 2000))

    def test_a_daemon_that_comes_later_is_found(self):
        self.daemon.stop()
        self.start(wait=None)
        time.sleep(0.2)
        self.daemon.start()
        self.report(lambda r: r["state"] == "ready")

    def test_a_daemon_that_never_answers_is_looked_for_anew(self):
        self.daemon.reply = None
        with unittest.mock.patch.object(reporter, "SILENCE_S", 0.2), \
                self.assertLogs("driftd.stages", "WARNING") as logs:
            self.start()
            self.until(lambda: "the daemon does not answer" in str(logs.output))
            self.daemon.reply = {"ok": True}
            self.report(lambda r: r["state"] == "ready")
        self.assertIn("the daemon does not answer", str(logs.output))

    def test_a_daemon_that_knows_no_stages_is_followed_all_the_same(self):
        self.daemon.reply = {"ok": False, "code": "bad_request", "error": "unknown command `stage`"}
        with self.assertLogs("driftd.stages", "WARNING") as logs:
            self.start(wait=None)
            self.report()
            self.until(lambda: "knows no stages" in str(logs.output))
            time.sleep(0.3)
        self.assertEqual(len([line for line in logs.output if "knows no stages" in line]), 1)
        self.assertLess(len(self.daemon.reports), 4)
        self._reach()
        self.assertEqual(self.sent((1, 0)), (1001, 2000))

    def test_another_bad_request_is_told_as_what_it_is(self):
        self.daemon.reply = {"ok": False, "code": "bad_request", "error": "`text` has 301 bytes"}
        with self.assertLogs("driftd.stages", "WARNING") as logs:
            self.start()
            self.until(lambda: "the daemon refuses" in str(logs.output) and len(self.daemon.reports) > 4)
        self.assertIn("the daemon refuses: `text` has 301 bytes", str(logs.output))
        self.assertNotIn("knows no stages", str(logs.output))

    def test_while_another_driver_reports_this_one_moves_nothing(self):
        self.start()
        self.sent((1, 0))
        self.daemon.reply = {"ok": False, "code": "busy", "error": "another driver reports"}
        self.answered()
        self.stays((2, 0), (1, 0))
        self.stage.place_nm = [9000.0, 0.0]  # the other one moves it
        self.daemon.reply = {"ok": True}
        self.answered()
        self.rest(0.4)
        self.assertEqual(self.sent((3, 1), (1, 1)), (9001, 1))

    def test_another_driver_is_heeded_at_the_next_correction(self):
        with unittest.mock.patch.object(driver, "HEALTH_S", 3.0):  # not only when the stage is asked
            self.start()
            self.sent((1, 0))
            self.daemon.reply = {"ok": False, "code": "busy", "error": "another driver reports"}
            self.answered()
            self.stays((2, 0), (1, 0))

    def test_replies_that_are_none_end_nothing(self):
        self.start()
        for reply in (b"", b"x", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, b'{"ok":"yes"}',
                      b'{"ok":false,"error":null,"code":null}'):
            self.daemon.reply = reply
            time.sleep(0.06)
        self.daemon.reply = {"ok": True}
        self.report(lambda r: r["state"] == "ready")
        self.assertEqual(self.sent((1, 0)), (1001, 2000))

    def test_the_end_is_told_and_leaves_the_stage(self):
        self.start()
        self.sent((1, 0))
        self.driver.stop()
        self.thread.join(60)
        self.assertIsNone(self.error)
        self.daemon.wait_stopped()
        self.assertEqual((self.stage.place_nm, self.stage.stops), ([1001, 2000], 1))

    def test_strange_texts_stay_within_a_request(self):
        strange = "\udc80\x00\u2028\"\\\n" * 1000 + "é漢" * 5000
        self.stage.now = stages.Health("error", strange, -3)
        self.stage.axes = [stages.Axis(strange + "1", 0, 1e5), stages.Axis(strange + "2", 0, 1e5)]
        with unittest.mock.patch.object(FakeStage, "description", lambda self: strange):
            self.start(wait="error")
        self.assertEqual(self.report(lambda r: r["state"] == "error")["error"], -3)

    def test_values_of_a_stage_need_not_be_plain(self):
        self.stage.now = stages.Health("ready", None, True, 1)
        self.stage.axes = [stages.Axis("1", -float("inf"), float("inf"), float("nan")),
                           stages.Axis(2, None, 5e3)]
        self.start()
        report = self.report()
        self.assertEqual((report["error"], report["on_target"]), (1, True))
        for key in ("min_nm", "max_nm", "resolution_nm"):
            self.assertIsNone(report["axes"][0][key])

    def test_an_unexpected_fault_of_reports_ends_neither_reports_nor_moves(self):
        self.start()
        with unittest.mock.patch.object(self.driver._account, "message", side_effect=TypeError("oops")):
            time.sleep(0.2)
            self.assertEqual(self.sent((1, 0)), (1001, 2000))
        self.report(lambda r: r["carried_out"] == 1)

    def test_the_check_of_reports_can_fail(self):
        self.start()
        good = self.driver.report()
        self.assertEqual(mistakes(json.dumps(good).encode()), [])
        for wrong in ({"state": "fine"}, {"instance": "x"}, {"axes": {}}, {"rate_hz": float("nan")},
                      {"carried_out": 1.5}, {"on_target": 1}, {"extra": 1}, {"text": None},
                      {"latency_us": {"n": 0, "p50": 0, "p99": None, "max": None}}):
            with self.subTest(wrong):
                try:
                    self.assertNotEqual(mistakes(json.dumps({**good, **wrong}).encode()), [])
                except ValueError:
                    self.assertIn("rate_hz", wrong)


class Figures(unittest.TestCase):
    def test_percentiles_are_within_two_percent(self):
        rng, all_us, latencies = random.Random(5), [], Latencies()
        self.assertEqual(latencies.summary(), {"n": 0, "p50": None, "p99": None, "max": None})
        for _ in range(5000):
            us = rng.lognormvariate(6, 1)
            all_us.append(us)
            latencies.add(us)
        all_us.sort()
        for share in (0.5, 0.99):
            true_us = all_us[round(share * 5000) - 1]
            self.assertAlmostEqual(latencies.percentile(share) / true_us, 1, delta=0.021)
        self.assertEqual(latencies.summary()["max"], all_us[-1])

    def test_texts_are_one_printable_line(self):
        self.assertEqual(plain("a\n b\tc\x00 é"), "a b c? é")
        self.assertEqual(plain("x" * 1000), "x" * 297 + "...")
        for text in ("漢" * 200, "é" * 200, "x漢" * 200, "漢" * 100):
            self.assertLessEqual(len(plain(text).encode()), 300)  # what the daemon takes
            self.assertTrue(text.startswith(plain(text).removesuffix("...")))
        self.assertEqual(plain("漢" * 100), "漢" * 100)

    def test_a_refusal_that_persists_is_told_for_longer_each_time(self):
        account, now_ns, told_s = Account("x", 1.0), 10**12, []
        account.connected("", [stages.Axis("1"), stages.Axis("2")], (0, 1), [(0, 1), (0, 1)])
        for _ in range(9):
            for _ in range(5):  # until the daemon holds
                now_ns += 2_000_000
                account.refused("no", 7, now_ns)
            start_ns = now_ns
            while account.message(now_ns)["state"] == "error":
                now_ns += 10_000_000
            told_s.append(round((now_ns - start_ns) / 1e9, 1))
            now_ns += 2 * 10**9  # what the lock needs to go on
        self.assertEqual(told_s, [0.5, 1, 2, 4, 8, 16, 30, 30, 30])
        account.lock_is_over(now_ns)
        account.refused("no", 7, now_ns)
        self.assertEqual(account.message(now_ns + 400_000_000)["state"], "error")
        self.assertEqual(account.message(now_ns + 600_000_000)["state"], "ready")

    def test_refusals_of_single_targets_are_told_no_longer_each_time(self):
        account, now_ns = Account("x", 1.0), 10**12
        account.connected("", [stages.Axis("1"), stages.Axis("2")], (0, 1), [(0, 1), (0, 1)])
        for _ in range(8):
            account.refused("no", 7, now_ns)
            self.assertEqual(account.message(now_ns + 400_000_000)["state"], "error")
            self.assertEqual(account.message(now_ns + 600_000_000)["state"], "ready")
            for _ in range(9):
                now_ns += 10**9
                account.carried_out({"session": "a", "lock_id": 1}, [0, 0], frozenset(), now_ns)


if __name__ == "__main__":
    unittest.main()
