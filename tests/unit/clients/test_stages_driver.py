# SPDX-License-Identifier: MIT
"""driftd.stages.Driver between a stage and a daemon's sockets: what moves the stage, and what does not."""
import itertools
import random
import time
import unittest
import unittest.mock

from driven_stage import SLOW, WithDriver  # prints SKIPPED and exits without pyzmq

from driftd import stages


class Following(WithDriver):
    def test_follows_and_reports(self):
        self.start()
        self.assertEqual(self.stage.moves, [])  # connecting moves nothing
        self.assertEqual(self.sent((-2, 1), age_ms=5), (998, 2001))
        self.assertEqual(self.sent((-50, 10), (-1, 1), lock_id=1, age_ms=5), (950, 2010))
        report = self.report(lambda r: r["carried_out"] == 2 and r["total_x_nm"] == -50)
        expected = {"state": "ready", "text": "", "error": 0, "on_target": True, "driver": "python",
                    "description": "fake stage, serial 7", "max_rate_hz": 1000.0, "session": "a" * 16,
                    "lock_id": 1, "total_x_nm": -50.0, "total_y_nm": 10.0, "refused": 0}
        self.assertEqual({key: report[key] for key in expected}, expected)
        self.assertEqual(report["axes"], [
            {"axis": "x", "name": "1", "min_nm": 0, "max_nm": 100_000, "resolution_nm": 0.1,
             "closed_loop": True, "position_nm": 950.0, "target_nm": 950.0},
            {"axis": "y", "name": "2", "min_nm": -98_000.0, "max_nm": 102_000.0, "resolution_nm": None,
             "closed_loop": False, "position_nm": 2010.0, "target_nm": 2010.0}])
        self.assertIn(report["rate_hz"], (0, 1, 2))  # of the last second
        self.assertEqual(report["latency_us"]["n"], 2)
        self.assertGreaterEqual(report["latency_us"]["p50"], 5000)
        self.assertLessEqual(report["latency_us"]["p99"], report["latency_us"]["max"])
        self.assertLess(abs(time.monotonic_ns() - report["time_ns"]), 5e9 * SLOW)

    def test_a_new_lock_and_a_new_daemon_begin_where_the_stage_is(self):
        self.start()
        self.sent((-2, 1))
        self.assertEqual(self.sent((5, 5), lock_id=2), (1003, 2006))
        self.assertEqual(self.sent((1, 1), session="b" * 16), (1004, 2007))

    def test_a_driver_restarted_in_mid_lock_does_not_jump(self):
        self.start()
        self.assertEqual(self.sent((-300, 200), (0.5, 0.25), lock_id=4), (1000.5, 2000.25))
        self.driver.stop()
        self.thread.join()
        self.start()
        self.assertEqual(self.sent((-301, 200), (-1, 0), lock_id=4), (999.5, 2000.25))

    def test_what_expired_or_is_over_moves_nothing(self):
        self.start()
        self.sent((-2, 1), lock_id=2)
        before = self.driver.report()["ignored"]
        self.stays((-90, 10), lock_id=2, left_ms=-0.001)
        self.stays((-90, 10), lock_id=1)
        self.assertEqual(self.sent((4, 4), session="b" * 16), (1002, 2005))
        self.stays((-90, 10), lock_id=3)  # of the session that was replaced
        self.until(lambda: self.driver.report()["ignored"] - before >= 3)
        self.assertEqual(self.driver.report()["ignored"] - before, 3)

    def test_what_expires_on_the_way_to_the_stage_moves_nothing(self):
        self.start()
        self.stage.slow_s = {"read": 0.1}  # a new lock asks where the stage is
        self.stays((7, 7), left_ms=50)

    def test_garbage_moves_nothing_and_ends_nothing(self):
        self.start()
        self.sent((1, 1))
        for data in (b"", b"correction", b"correction x", b"correction []", b"correction " + b"[" * 200_000,
                     b"correction {}", b"correction \xff", b'correction {"session":"a","seq":1}',
                     b"correction " + b"9" * 10_000, b"x" * 1_000_000):
            self.daemon.send_bytes(data)
        for wrong in (float("nan"), float("inf"), 1e300, -1e10, 10**400, None, "1", True, [], {}):
            for name in ("total_x_nm", "total_y_nm", "delta_x_nm", "delta_y_nm"):
                ignored = self.driver.report()["ignored"]
                self.daemon.send((5, 5), lock_id=1, **{name: wrong})
                self.until(lambda ignored=ignored: self.driver.report()["ignored"] > ignored)
        self.stays((5, 5), lock_id=1, expires_ns="soon")
        self.stays((5, 5), lock_id=None)
        self.stays((5, 5), session=5)
        self.assertEqual([targets for _, targets in self.stage.moves], [(1001, 2001)])
        self.assertGreater(self.driver.report()["ignored"], 20)
        self.assertEqual(self.sent((2, 2), sent_ns="x"), (1002, 2002))

    def test_only_the_newest_counts_for_a_slow_stage(self):
        self.start()
        self.sent((0, 0))
        self.stage.slow_s = {"move_to": 0.4}
        start_s = time.monotonic()
        for i in range(250):  # half a second
            self.daemon.send((i, 0), (1, 0))
            time.sleep(0.002)
        self.until(lambda: self.stage.place_nm[0] == 1249)  # the newest
        moves = [(at_s, targets[0] - 1000) for at_s, targets in self.stage.moves[1:]]
        self.assertLess(len(moves), (time.monotonic() - start_s) / 0.4 + 1)
        places = [place for _, place in moves]
        self.assertEqual(places, sorted(places))
        came_s = [r["came_s"] for r in self.daemon.reports if r["came_s"] > start_s]
        gaps_s = [b - a for a, b in zip(came_s, came_s[1:])]
        self.assertLess(sorted(gaps_s)[len(gaps_s) // 2], 0.3)  # the median: reports wait for no move

    def test_the_most_moves_a_second(self):
        self.settings = {"max_rate_hz": 20.0}
        self.start()
        start_s = time.monotonic()
        for i in range(500):
            self.daemon.send((i / 10, 0), (0.1, 0))
            time.sleep(0.002)
        times_s = [at_s for at_s, _ in self.stage.moves]
        self.assertGreater(len(times_s), 5 / SLOW)
        self.assertLess(len(times_s), (times_s[-1] - start_s) * 20 + 2)
        report = self.report()
        self.assertEqual(report["max_rate_hz"], 20.0)
        self.assertLessEqual(report["rate_hz"], 21)


class Limited(WithDriver):
    limits = stages.Limits(step_nm=20, rate_nm_per_s=2000, range_nm=500)

    def test_no_step_above_the_limit_and_never_beyond_the_range(self):
        self.start()
        rng, total, lock_id = random.Random(4), [0.0, 0.0], 1
        start_s = time.monotonic()
        for _ in range(600):
            if rng.random() < 0.02:
                lock_id, total = lock_id + 1, [0.0, 0.0]
            change = [rng.gauss(0, 1) * rng.choice((1, 30, 1e6)) for _ in "xy"]
            total = [t + c for t, c in zip(total, change)]
            self.daemon.send(total, change, lock_id=lock_id, left_ms=rng.choice((-1, 1, 100)))
            time.sleep(0.001)
        time.sleep(0.1)
        places = [(0.0, (1000.0, 2000.0))] + self.stage.moves
        self.assertGreater(len(places), 20)
        way_nm = [0.0, 0.0]
        for (_, a), (at_s, b) in zip(places, places[1:]):
            for axis, (one, other, home) in enumerate(zip(a, b, places[0][1])):
                self.assertLessEqual(abs(other - one), 20 + 1e-9)
                self.assertLessEqual(abs(other - home), 500 + 1e-9)
                way_nm[axis] += abs(other - one)
                # The times between two moves are test_stages_follower's.
                self.assertLessEqual(way_nm[axis], 2000 * (at_s - start_s) + 100)

    def to_the_limit(self):
        self.sent((0, 0))

        def is_there():
            self.daemon.send((800, 0), (0, 0))
            return self.stage.place_nm[0] == 1500

        self.until(is_there)

    def test_limits_are_told_and_not_for_ever(self):
        self.start()
        self.to_the_limit()
        report = self.report(lambda r: r["state"] == "limit")
        self.assertIn("range limit", report["text"])
        self.assertEqual(report["axes"][0]["target_nm"], 1500)
        self.assertEqual(self.stage.place_nm[0], 1500)
        self.assertEqual(self.report(lambda r: r["state"] == "ready")["text"], "")

    def test_a_range_limit_is_told_until_the_lock_is_over_or_does_not_need_it(self):
        self.daemon.reply = {"ok": True, "session": "0" * 16, "state": "holding"}
        self.start()
        self.to_the_limit()
        self.report(lambda r: r["state"] == "limit")
        time.sleep(1.0)
        self.assertIn("range limit", self.report()["text"])  # it would flap for as long as it is locked
        self.sent((490, 0), (-10, 0))
        self.assertEqual(self.report()["state"], "ready")
        self.sent((800, 0), (310, 0))
        self.sent((800, 0), (0, 0))
        time.sleep(0.7)
        self.assertEqual(self.report()["state"], "limit")
        self.daemon.reply = {"ok": True, "session": "0" * 16, "state": "idle"}
        self.report(lambda r: r["state"] == "ready")

    def test_a_step_that_is_held_is_no_fault(self):
        self.start()
        self.sent((0, 0))
        time.sleep(0.1)
        self.sent((100, 0), (100, 0))
        self.assertEqual(self.report(lambda r: r["text"])["state"], "ready")
        self.assertEqual(self.stage.place_nm[0], 1020)


class Failing(WithDriver):
    limits = stages.Limits(step_nm=20, rate_nm_per_s=1e9, range_nm=1e5)

    def test_a_stage_that_is_gone_is_told_and_found_again(self):
        self.start()
        self.sent((10, 0))
        for call in ("read", "health", "move_to"):
            with self.subTest(call):
                self.stage.fail = {call: OSError("cable pulled"), "connect": OSError("no such device")}
                if call == "move_to":
                    self.stays((11, 0), (1, 0))
                report = self.report(lambda r: r["state"] == "disconnected")
                self.assertRegex(report["text"],
                                 rf"{call}\(\): OSError: cable|connect\(\): OSError: no such")
                self.assertIsNone(report["axes"][0]["position_nm"])
                self.stays((12, 0), (1, 0))
                self.stage.fail = {}
                self.report(lambda r: r["state"] == "ready")
                self.assertEqual(self.sent((13, 0), (1, 0)), (1013, 2000))  # where it was: the same zero

    def test_a_target_of_which_nobody_knows_whether_it_was_taken(self):
        self.start()
        self.sent((0, 0))

        def taken_and_gone(positions_nm):
            self.stage.place_nm = list(positions_nm)
            raise OSError("cable pulled")

        with unittest.mock.patch.object(self.stage, "move_to", taken_and_gone):
            self.stays((60, 0), (60, 0))
        self.report(lambda r: r["state"] == "ready")
        self.assertEqual(self.stage.place_nm, [1020, 2000])
        self.assertEqual(self.sent((60, 0), (0, 0)), (1040, 2000))  # another step from there

    def test_pauses_before_connecting_grow(self):
        self.stage.fail = {"connect": OSError("off")}
        self.start(wait=None)
        time.sleep(1.7)
        self.assertIn(self.stage.connects, (2, 3, 4))  # at 0, 0.2, 0.6, 1.4, 3 s
        self.stage.fail = {}
        self.report(lambda r: r["state"] == "ready")

    def test_a_stage_that_comes_back_elsewhere_stays_there(self):
        self.start()
        self.assertEqual(self.sent((10, 0)), (1010, 2000))
        self.stage.place_nm = [1510.0, 2000.0]  # its sensor is off, which is learnt
        self.rest(0.2)
        self.stage.fail = {"read": OSError("controller restarted")}
        self.report(lambda r: r["state"] == "disconnected")
        self.stage.fail, self.stage.place_nm = {}, [50_000.0, 0.0]
        self.report(lambda r: r["state"] == "ready")
        self.assertEqual(self.sent((12, 3), (2, 3)), (50_002, 3))
        self.assertEqual(self.report(lambda r: r["axes"][0]["position_nm"] == 50_002)["total_x_nm"], 12)

    def test_a_stage_moved_by_hand_between_locks_stays_there(self):
        self.start()
        self.sent((10, 0))
        self.rest(0.4)  # it learns first how far the sensor is from the target
        self.stage.place_nm = [5000.0, 6000.0]
        self.assertEqual(self.sent((1, 2), lock_id=2), (5001, 2002))  # y has no sensor

    def test_a_stage_moved_by_somebody_while_the_lock_holds_stays_there(self):
        self.stage.place_nm = [50_000.0, 2000.0]
        self.start()
        self.assertEqual(self.sent((5, 0)), (50_005, 2000))
        self.rest(0.4)
        self.stage.place_nm = [70_000.0, 2000.0]
        self.rest(0.2)
        self.assertEqual(self.sent((6, 0), (1, 0)), (70_001, 2000))
        self.assertEqual(self.sent((8, 0), (2, 0)), (70_003, 2000))

    def test_readings_that_do_not_agree_are_no_move_of_somebody(self):
        self.start()
        self.sent((5, 0))
        self.rest(0.4)
        true_nm, wrong = list(self.stage.place_nm), itertools.cycle((500, 500, 0))
        with unittest.mock.patch.object(
                self.stage, "read", lambda: [true_nm[0] + next(wrong), true_nm[1]]), \
                self.assertNoLogs("driftd.stages", "WARNING"):
            time.sleep(0.5)
        self.assertEqual(self.sent((6, 0), (1, 0)), (1006, 2000))

    def test_one_wrong_reading_is_no_place(self):
        self.start()
        self.sent((5, 0))
        self.rest(0.4)
        asked = self.stage.health

        def wrong_then(call):
            self.stage.wrong_nm = [20_000.0]
            return call()

        self.stage.now = stages.Health("servo_off")
        self.report(lambda r: r["state"] == "servo_off")
        self.stage.now = stages.Health()
        with unittest.mock.patch.object(self.stage, "health", lambda: wrong_then(asked)):
            self.report(lambda r: r["state"] == "ready")
            self.assertEqual(self.sent((6, 0), (0, 0)), (1006, 2000))  # the zero is kept
        self.stage.fail = {"health": OSError("cable pulled")}
        self.report(lambda r: r["state"] == "disconnected")
        connect, self.stage.fail = self.stage.connect, {}
        with unittest.mock.patch.object(self.stage, "connect", lambda: wrong_then(connect)):
            self.report(lambda r: r["state"] == "ready")
        self.assertEqual(self.sent((8, 0), (0, 0)), (1008, 2000))

    def test_wrong_readings_that_do_not_agree_are_no_place(self):
        self.start()
        self.sent((5, 0))
        self.rest(0.4)
        self.stage.wrong_nm = [20_000.0, -70_000.0, 30_000.0]
        self.rest(0.2)
        self.assertEqual(self.sent((6, 0), (0, 0)), (1006, 2000))
        self.stage.wrong_nm = [(-1) ** i * 5000.0 for i in range(10_000)]
        self.rest(0.2)
        self.stays((7, 0), (1, 0))
        self.stays((7, 0), lock_id=2)
        self.assertIn("do not agree", self.report(lambda r: r["state"] == "error")["text"])
        self.stage.wrong_nm = []
        self.rest(0.3)
        self.assertEqual(self.sent((2, 0), (0, 0), lock_id=2), (1008, 2000))

    def test_a_stage_whose_servo_is_off_is_not_moved(self):
        self.start()
        self.sent((10, 0))
        for state in ("servo_off", "not_referenced"):
            self.stage.now = stages.Health(state, "switched off by its button", 5, False)
            report = self.report(lambda r: r["state"] == state)
            self.assertEqual((report["text"], report["error"], report["on_target"]),
                             ("switched off by its button", 5, False))
            self.stays((11, 0), (1, 0))
            self.stage.place_nm = [self.stage.place_nm[0] - 400, 2000.0]  # it sinks
            place_nm = self.stage.place_nm[0]
            self.stage.now = stages.Health()
            self.report(lambda r: r["state"] == "ready")
            self.assertEqual(self.sent((12, 0), (1, 0)), (place_nm + 1, 2000))

    def test_an_axis_whose_servo_was_off_at_the_connection_has_its_sensor_again(self):
        closed, self.stage.axes = self.stage.axes, [stages.Axis("1", 0, 100_000, 0.1, False)] * 2
        self.stage.now = stages.Health("servo_off")
        self.start(wait="servo_off")
        self.stage.axes, self.stage.now = closed, stages.Health()
        self.assertTrue(self.report(lambda r: r["state"] == "ready")["axes"][0]["closed_loop"])
        self.assertEqual(self.sent((1, 0)), (1001, 2000))
        self.rest(0.4)
        self.stage.place_nm = [21_000.0, 2000.0]  # by hand
        self.rest(0.2)
        self.assertEqual(self.sent((1, 0), lock_id=2), (21_001, 2000))

    def test_a_refusal_is_counted_and_told_and_the_next_is_tried(self):
        self.start()
        self.sent((1, 0))
        self.stage.fail = {"move_to": stages.Refused("target out of limits", 7)}
        self.stays((2, 0), (1, 0))
        report = self.report(lambda r: r["state"] == "error")
        self.assertEqual((report["refused"], report["text"], report["error"]),
                         (1, "target out of limits", 7))
        self.stage.fail = {}
        self.assertEqual(self.sent((3, 0), (1, 0)), (1003, 2000))
        self.report(lambda r: r["state"] == "ready" and r["refused"] == 1 and r["carried_out"] == 2)

    def test_a_stage_that_ignores_its_targets_is_told(self):
        self.start()
        self.sent((0, 0))
        with unittest.mock.patch.object(self.stage, "move_to", lambda positions_nm: None):
            end_s = time.monotonic() + 60
            total = 0
            while self.driver.report()["state"] != "error":
                self.assertLess(time.monotonic(), end_s)
                total += 1
                self.daemon.send((total, 0), (1, 0))
                time.sleep(0.01)
        self.assertIn("axis 1 has not moved for a second", self.report(lambda r: r["state"] == "error")["text"])
        self.assertLess(abs(self.sent((total + 1, 0), (1, 0))[0] - 1001), 10)
        self.report(lambda r: r["state"] == "ready")

    def test_a_stage_that_does_not_answer_is_told_meanwhile(self):
        self.start()
        self.stage.slow_s = {"read": 1.0}
        report = self.report(lambda r: r["state"] == "error")
        self.assertRegex(report["text"], r"no answer to read\(\) for (0\.[4-9]|1\.)")
        self.stage.slow_s = {}
        self.report(lambda r: r["state"] == "ready")

    def test_a_stage_that_reads_slowly_is_asked_for_its_health_and_ends_soon(self):
        self.start()
        self.stage.slow_s = {"read": 0.8}  # the next is due 4 s after that
        self.report(lambda r: r["state"] == "error")
        self.report(lambda r: r["state"] == "ready")
        self.stage.now = stages.Health("servo_off")
        self.report(lambda r: r["state"] == "servo_off", timeout_s=3)
        self.stage.slow_s["health"] = 0.6
        for state in ("error", "servo_off"):
            self.report(lambda r, state=state: r["state"] == state)
        start_s = time.monotonic()
        self.driver.stop()
        self.thread.join(60)
        self.assertLess(time.monotonic() - start_s, 3)

    def test_answers_that_make_no_sense_are_faults(self):
        self.start()
        for place in ([1.0], [1.0, float("nan")], [1e9, 0.0], [0.0, -1e12], [1, 2, 3], None, "ab"):
            self.stage.place_nm = place
            report = self.report(lambda r: r["state"] == "disconnected")
            self.assertRegex(report["text"], "Error: ")
            self.stage.place_nm = [0.0, 0.0]
            self.report(lambda r: r["state"] == "ready")
        self.stage.now = stages.Health("fine")
        self.assertIn("health() returned", self.report(lambda r: r["state"] == "disconnected")["text"])

    def test_settings_that_never_work_end_the_driver(self):
        self.stage.axes = [stages.Axis("1")]
        self.stage.slow_s = {"connect": 1.0}  # the last report goes where one before it has been
        self.start(wait=None)
        self.thread.join(5)
        self.assertIsInstance(self.error, stages.SettingsError)
        self.assertIn("this one has 1", self.daemon.wait_stopped()["text"])


if __name__ == "__main__":
    unittest.main()
