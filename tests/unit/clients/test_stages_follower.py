# SPDX-License-Identifier: MIT
"""driftd.stages.follower: zeros and limits, by rule and by random events."""
import math
import random
import sys
import unittest

try:
    import zmq  # noqa: F401
except ImportError:
    print("SKIPPED: python3-zmq is not installed")
    sys.exit(0)

from driftd.stages import Axis, Direction, Limits, SettingsError
from driftd.stages.follower import Follower

SECOND = 10**9
WIDE = Limits(step_nm=1e6, rate_nm_per_s=1e12, range_nm=1e8)


def correction(total, delta=None, session="a", lock_id=1):
    delta = total if delta is None else delta
    return {"session": session, "lock_id": lock_id, "total_x_nm": total[0], "total_y_nm": total[1],
            "delta_x_nm": delta[0], "delta_y_nm": delta[1]}


class Rules(unittest.TestCase):
    def follower(self, x=Direction(), y=Direction(), limits=WIDE, at=(1000.0, 2000.0), axes=None):
        follower = Follower(x, y, limits)
        follower.use(axes or [Axis("1"), Axis("2")])
        follower.found_at(at, 0)
        self.now_ns = 0
        return follower

    def go(self, follower, *arguments, **named):
        self.now_ns += SECOND
        move = follower.follow(correction(*arguments, **named), self.now_ns)
        follower.sent(move, self.now_ns)
        return move.targets_nm

    def test_totals_count_from_the_place_at_lock(self):
        follower = self.follower()
        self.assertEqual(self.go(follower, (-2, 1)), (998, 2001))
        self.assertEqual(self.go(follower, (-50, 10), (-1, 1)), (950, 2010))  # those between were lost

    def test_a_new_lock_or_session_starts_from_the_last_target(self):
        follower = self.follower()
        self.go(follower, (-2, 1))
        self.assertEqual(self.go(follower, (5, 5), lock_id=2), (1003, 2006))
        self.assertEqual(self.go(follower, (1, 1), session="b"), (1004, 2007))
        # Its first was lost: the zero is still the last target.
        self.assertEqual(self.go(follower, (10, 10), (1, 1), session="b", lock_id=2), (1014, 2017))

    def test_a_driver_started_in_mid_lock_moves_by_the_change_alone(self):
        follower = self.follower()
        self.assertEqual(self.go(follower, (-300, 200), (0.5, 0.25), lock_id=4), (1000.5, 2000.25))
        self.assertEqual(self.go(follower, (-310, 200), (0.5, 0.25), lock_id=4), (990.5, 2000.25))

    def test_a_stage_that_is_elsewhere_is_not_sent_back(self):
        follower = self.follower(limits=Limits(20, 1e9, 1e6))
        self.go(follower, (10, 0))
        self.assertFalse(follower.found_at((1029.9, 2000), self.now_ns))  # within a step of 1010
        self.assertEqual(self.go(follower, (12, 0), (2, 0)), (1012, 2000))
        self.assertTrue(follower.found_at((5000, -100), self.now_ns))
        self.assertEqual(self.go(follower, (13, 0), (1, 0)), (5001, -100))
        self.assertEqual(self.go(follower, (15, 0), (2, 0)), (5003, -100))

    def ramp(self, follower, at, rate_nm_per_s, seconds, follows):
        """Targets that move on for so long, one each 5 ms; what is found to be ignored, and when in s."""
        for i in range(1, round(seconds * 200) + 1):
            self.now_ns += SECOND // 200
            move = follower.follow(correction((i * rate_nm_per_s / 200, 0), (rate_nm_per_s / 200, 0)),
                                   self.now_ns)
            follower.sent(move, self.now_ns)
            self.places.append(move.targets_nm[0])
            if i % 10 == 9:
                if follower.is_away((at(), 0), self.now_ns):
                    self.assertFalse(follows)
                    follower.found_at((at(), 0), self.now_ns)
                if names := follower.find_ignored((at(), 0), self.now_ns):
                    return names, i / 200
        return [], seconds

    def test_a_stage_that_ignores_its_targets_is_found_and_not_sent_after_them(self):
        rng = random.Random(3)
        for rate, within_s, step_nm in ((120, 2, 100), (-400, 2, 100), (100, 5, 20), (10, 5, 20)):
            follower, self.places = self.follower(limits=Limits(step_nm, 10_000, 1e6), at=(50_000, 0)), []
            names, seconds = self.ramp(follower, lambda: 50_000 + rng.gauss(0, 1), rate, 10, False)
            self.assertEqual(names, ["1"])
            self.assertTrue(1 < seconds < within_s, seconds)
            self.assertLess(abs(self.places[-1] - 50_000), 500)
            move = follower.follow(correction((5000, 0), (1, 0)), self.now_ns + SECOND)
            self.assertAlmostEqual(move.targets_nm[0], 50_001, delta=10)

    def test_a_stage_that_follows_late_or_with_noise_ignores_nothing(self):
        rng = random.Random(4)
        for rate in (5, 120, 2000):
            follower, self.places = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0)), [50_000]
            late = lambda: self.places[max(0, len(self.places) - 25)] + rng.gauss(0, 5)  # noqa: E731
            self.assertEqual(self.ramp(follower, late, rate, 6, True)[0], [])
            self.now_ns += 10 * SECOND  # at rest
            self.assertFalse(follower.is_away((self.places[-1], 0), self.now_ns))
            self.assertEqual(follower.find_ignored((self.places[-1], 0), self.now_ns), [])

    def test_what_a_sensor_is_off_creeps_no_farther_than_it_is_learnt(self):
        follower, shift, away = self.follower(limits=Limits(100, 1000, 1e6), at=(50_000, 0)), 0, False
        self.go(follower, (0, 0))
        while not away:
            shift += 2
            self.assertLess(shift, 320)  # 100 + 0.1 s of the rate, and a step
            self.now_ns += SECOND // 20
            move = follower.follow(correction((0, 0)), self.now_ns)
            follower.sent(move, self.now_ns)
            away = follower.is_away((50_000 + shift, 0), self.now_ns)
        self.assertGreater(shift, 280)
        self.assertTrue(follower.found_at((50_000 + shift, 0), self.now_ns))

    def test_a_step_counts_from_either_place_when_a_target_may_be_lost(self):
        for unsure, place in ((False, 1000), (False, 1090), (True, 1000), (True, 1090)):
            with self.subTest(unsure=unsure, place=place):
                follower = self.follower(limits=Limits(100, 1e9, 1e6))
                self.go(follower, (0, 0))
                move = follower.follow(correction((90, 0)), self.now_ns + SECOND)
                (follower.perhaps_sent if unsure else follower.sent)(move, self.now_ns + SECOND)
                for _ in range(2):
                    self.assertFalse(follower.found_at((place, 2000), self.now_ns + SECOND))
                self.now_ns += 2 * SECOND
                move = follower.follow(correction((290, 0), (200, 0)), self.now_ns)
                expected = 1100 if place == 1000 else 1190  # the target was lost, or was not
                self.assertEqual((move.targets_nm[0], move.limited), (expected, {"step"}))
                follower.sent(move, self.now_ns)  # that arrived
                self.assertEqual(self.go(follower, (290, 0), (0, 0))[0], min(expected + 100, 1290))

    def drive(self, follower, at, move):
        """One lock of 400 corrections of `move` nm, 5 ms apart; `at` is where the sensor says it is."""
        for i in range(400):
            self.now_ns += SECOND // 200
            planned = follower.follow(correction((i * move, 0), (move, 0)), self.now_ns)
            follower.sent(planned, self.now_ns)
            self.history.append(planned.targets_nm)
            if i % 10 == 9:
                self.assertFalse(follower.is_away(at(), self.now_ns), i)

    def test_a_stage_that_somebody_moved_is_found_during_a_lock(self):
        follower, self.history = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0)), []
        self.drive(follower, lambda: self.history[-1], 0.5)
        self.now_ns += SECOND
        x = self.history[-1][0]
        self.assertFalse(follower.is_away((x + 99, 0), self.now_ns))
        self.assertTrue(follower.is_away((70_000, 0), self.now_ns))
        self.assertTrue(follower.found_at((70_000, 0), self.now_ns))
        self.assertEqual(self.go(follower, (201, 0), (1, 0)), (70_001, 0))
        self.assertTrue(follower.is_away((60_000, 0), self.now_ns + SECOND))  # moved again

    def test_a_sensor_that_is_off_by_as_much_everywhere_makes_no_stage_walk(self):
        follower, self.history = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0)), []
        self.drive(follower, lambda: (self.history[-1][0] + 1000, 0), 0.5)
        for seconds in range(10):
            self.now_ns += SECOND
            x = self.history[-1][0]
            self.assertFalse(follower.is_away((x + 1000, 0), self.now_ns))
            self.assertFalse(follower.found_at((x + 1000, 0), self.now_ns))
            self.history.append(self.go(follower, (seconds, 0), (1, 0), lock_id=2 + seconds))
            self.assertAlmostEqual(self.history[-1][0], x + seconds)
        # By hand: what the sensor says more than ever is how far the stage was moved.
        x = self.history[-1][0]
        self.now_ns += SECOND
        self.assertTrue(follower.is_away((x + 21_000, 0), self.now_ns))
        self.assertTrue(follower.found_at((x + 21_000, 0), self.now_ns))
        self.assertAlmostEqual(self.go(follower, (1, 0), (1, 0), lock_id=99)[0], x + 20_001, delta=1)

    def test_what_is_learnt_of_a_sensor_has_a_bound(self):
        for off, learnt in ((1099, True), (1101, False), (-1102, False), (5000, False)):
            follower = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0))
            self.go(follower, (1, 0))
            readings = [off * share for share in (0.5, 1, 1)] if learnt else [off, off]
            for reading in readings:
                self.now_ns += SECOND // 20
                self.assertEqual(follower.is_away((50_001 + reading, 0), self.now_ns), not learnt, off)
            self.assertEqual(follower.found_at((50_001 + off, 0), self.now_ns), not learnt)
            x = self.go(follower, (2, 0), (1, 0))[0]
            self.assertAlmostEqual(x, 50_002 if learnt else 50_002 + off)
        # Nor by little and little.
        follower = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0))
        self.go(follower, (1, 0))
        away = []
        for reading in (800, 800, 1600, 1600):
            self.now_ns += SECOND // 20
            away.append(follower.is_away((50_001 + reading, 0), self.now_ns))
        self.assertEqual(away, [False, False, True, True])

    def learning(self, readings):
        """A follower after one target, 50_001, and readings by ms since and how far they are off."""
        follower = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0))
        self.go(follower, (1, 0))
        for ms, off in readings:
            self.assertFalse(follower.is_away((50_001 + off, 0), self.now_ns + ms * 10**6), (ms, off))
        return follower

    def test_nothing_is_learnt_of_a_sensor_from_one_wrong_reading(self):
        right = [(ms, 0) for ms in (50, 100, 150, 200, 250)]
        for wrong in ([(299, 1000)], [(280, 1000), (299, 1000)], [(250, 1000), (299, 900)]):
            follower = self.learning(right[:4] + wrong)
            self.assertFalse(follower.is_away((50_001, 0), self.now_ns + 350 * 10**6))
            self.assertFalse(follower.found_at((50_001, 0), self.now_ns + 350 * 10**6))
            self.assertTrue(follower.is_away((51_001, 0), self.now_ns + 400 * 10**6))
            self.assertTrue(follower.found_at((51_001, 0), self.now_ns + 400 * 10**6))

    def test_a_sensor_that_is_off_is_learnt_from_two_readings_however_slow(self):
        follower = self.learning([(290, 1000), (590, 1001), (900, 1000)])
        self.assertFalse(follower.found_at((51_001, 0), self.now_ns + SECOND))

    def test_what_was_learnt_of_a_sensor_is_dropped_when_it_turns_out_wrong(self):
        for seconds, elsewhere in ((0.4, False), (3, True)):
            follower = self.learning([(50, 1000), (100, 1000)])
            now_ns = self.now_ns + round(seconds * SECOND)
            for _ in range(3):
                self.assertTrue(follower.is_away((50_001, 0), now_ns))
            self.assertEqual(follower.found_at((50_001, 0), now_ns), elsewhere)
            if not elsewhere:
                self.assertEqual(self.go(follower, (3, 0), (1, 0)), (50_003, 0))

    def test_a_lock_that_begins_while_a_sensor_is_learnt_stays_there(self):
        follower = self.learning([(50, 1000)])
        self.assertFalse(follower.is_elsewhere((51_001, 0)))
        self.assertFalse(follower.found_at((51_001, 0), self.now_ns + 60 * 10**6))
        self.assertEqual(self.go(follower, (1, 0), lock_id=2), (50_002, 0))
        follower = self.learning([(50, 1000)])
        self.assertTrue(follower.found_at((51_001, 0), self.now_ns + SECOND, connected=True))

    def test_what_was_learnt_of_a_sensor_is_forgotten_where_the_stage_is_connected_elsewhere(self):
        follower = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0))
        self.go(follower, (1, 0))
        for i in (1, 2):
            self.assertFalse(follower.is_away((51_001, 0), self.now_ns + i * SECOND // 20))  # off by 1000
        self.assertFalse(follower.found_at((51_001, 0), self.now_ns, connected=True))  # where it was
        self.assertTrue(follower.found_at((20_000, 0), self.now_ns, connected=True))
        self.assertEqual(self.go(follower, (2, 0), (1, 0)), (20_001, 0))

    def test_a_stage_on_its_way_is_not_moved_by_somebody(self):
        follower, self.history = self.follower(limits=Limits(100, 10_000, 1e6), at=(50_000, 0)), []
        late = lambda: self.history[max(0, len(self.history) - 31)]  # 150 ms behind  # noqa: E731
        self.drive(follower, late, 40)  # 8 um/s: 1.2 um behind, twelve steps
        self.now_ns += SECOND
        self.assertFalse(follower.is_away(self.history[-1], self.now_ns))

    def test_an_axis_without_a_sensor_is_not_judged_during_a_lock(self):
        follower = self.follower(limits=Limits(100, 1e9, 1e6), axes=[Axis("1"), Axis("2", closed_loop=False)])
        self.go(follower, (1, 1))
        self.assertFalse(follower.is_away((1001, 9000), self.now_ns + SECOND))
        self.assertTrue(follower.is_away((9000, 2001), self.now_ns + SECOND))

    def test_an_axis_without_a_sensor_is_at_its_target_when_a_lock_begins(self):
        follower = self.follower(limits=Limits(100, 1e9, 1e6), axes=[Axis("1"), Axis("2", closed_loop=False)])
        self.go(follower, (0, 50))
        self.now_ns += SECOND
        self.assertFalse(follower.is_away((1000, 2200), self.now_ns))  # 150 nm of hysteresis
        self.assertFalse(follower.found_at((1000, 2200), self.now_ns))
        self.assertEqual(self.go(follower, (0, 0), lock_id=2), (1000, 2050))
        # Connected again, where nothing changed and where the controller restarted.
        self.assertFalse(follower.found_at((1000, 2200), self.now_ns))
        self.assertEqual(self.go(follower, (0, 0), lock_id=2), (1000, 2050))
        self.assertTrue(follower.found_at((1000, 0), self.now_ns))
        self.assertEqual(self.go(follower, (0, 1), (0, 1), lock_id=2), (1000, 1))

    def test_an_axis_without_a_sensor_is_judged_until_it_was_sent_somewhere(self):
        follower = self.follower(limits=Limits(100, 1e9, 1e6), axes=[Axis("1"), Axis("2", closed_loop=False)])
        self.assertFalse(follower.is_away((1000, 9000), SECOND // 2))
        self.assertTrue(follower.found_at((1000, 9000), SECOND // 2))
        self.assertEqual(self.go(follower, (0, 1)), (1000, 9001))

    def test_an_axis_that_stayed_keeps_its_zero_when_the_other_is_elsewhere(self):
        for closed_loop, y in ((False, 2200), (True, 2099)):
            follower = self.follower(limits=Limits(100, 1e9, 1e6),
                                     axes=[Axis("1"), Axis("2", closed_loop=closed_loop)])
            self.go(follower, (0, 50))
            self.now_ns += SECOND
            self.assertTrue(follower.is_away((9000, y), self.now_ns))
            self.assertTrue(follower.found_at((9000, y), self.now_ns))
            self.assertEqual(follower.targets_nm, [None, 2050])
            self.assertEqual(follower.totals_nm((9000, y)), [None, None])
            self.assertEqual(self.go(follower, (1, 70), (1, 1)), (9001, 2070))  # those between were lost

    def test_signs_scales_and_which_axis(self):
        follower = self.follower(Direction("b", -1, 2.0), Direction("a", 1, 0.5),
                                 axes=[Axis("a"), Axis("b")])
        self.assertEqual(self.go(follower, (10, 20)), (1010, 1980))
        self.assertEqual(follower.totals_nm((1010, 1980)), [10, 20])
        self.assertEqual(follower.numbers, (1, 0))

    def test_settings_that_cannot_be_meant_are_refused(self):
        follower = Follower(Direction("c"), Direction(), Limits())
        for axes, text in (([Axis("a"), Axis("b")], "x is to be axis `c`, but the stage has a and b"),
                           ([Axis("a")], "has 1"), ([Axis("c"), Axis("d"), Axis("e")], "has 3")):
            with self.assertRaisesRegex(SettingsError, text):
                follower.use(axes)
        for low, high in ((5, 5), (float("nan"), 5), (5, -5)):
            with self.assertRaisesRegex(SettingsError, "axis `c` has a travel of"):
                follower.use([Axis("c", low, high), Axis("d")])
        with self.assertRaisesRegex(SettingsError, "one each"):
            Follower(Direction("a"), Direction("a"), Limits()).use([Axis("a"), Axis("b")])
        for wrong in (lambda: Direction(sign=0), lambda: Direction(scale=-1.0), lambda: Limits(step_nm=0),
                      lambda: Direction(scale=math.nan), lambda: Limits(range_nm=math.inf)):
            with self.assertRaises(SettingsError):
                wrong()

    def test_each_limit_holds_and_is_told(self):
        follower = self.follower(limits=Limits(100, 50, 10_000), axes=[Axis("1", 900, 1200), Axis("2")])
        follower.found_at((1000.0, 2000.0), 0)
        move = follower.follow(correction((250, 0)), SECOND)  # 50 nm/s for 1 s
        self.assertEqual((move.targets_nm[0], move.limited), (1050, {"rate", "step", "travel"}))
        follower.sent(move, SECOND)
        move = follower.follow(correction((250, 0)), 60 * SECOND)
        self.assertEqual((move.targets_nm[0], move.limited), (1150, {"step", "travel"}))
        follower.sent(move, 60 * SECOND)
        move = follower.follow(correction((250, 30_000)), 120 * SECOND)
        self.assertEqual((move.targets_nm, move.limited), ((1200, 2100), {"step", "range", "travel"}))

    def test_a_stage_outside_its_travel_may_stay_or_come_back(self):
        follower = self.follower(limits=WIDE, at=(-0.25, 5), axes=[Axis("1", 0, 100), Axis("2", 0, 100)])
        self.assertEqual(self.go(follower, (0, 0)), (-0.25, 5))
        self.assertEqual(self.go(follower, (-3, 0)), (-0.25, 5))
        self.assertEqual(self.go(follower, (2, 0)), (1.75, 5))

    def test_what_is_no_number_moves_nothing(self):
        follower = self.follower()
        self.go(follower, (1, 1))
        for wrong in (None, "1", True, math.nan, math.inf, -math.inf, 1e10, 10**400, [1], {}):
            for name in ("total_x_nm", "delta_y_nm"):
                with self.assertRaises(ValueError, msg=(name, wrong)):
                    follower.follow({**correction((2, 2), lock_id=2), name: wrong}, SECOND)
        self.assertEqual(self.go(follower, (2, 2)), (1002, 2002))


class RandomEvents(unittest.TestCase):
    """Whatever comes in whatever order: no step above the limit, none too fast, never out of range."""

    def test_limits_hold_whatever_comes(self):
        moves = 0
        for seed in range(300):
            moves += self.world(random.Random(seed))
        self.assertGreater(moves, 20_000)  # 300 worlds of 200 events, over half of them moves

    def world(self, rng):
        limits = Limits(10 ** rng.uniform(0, 3), 10 ** rng.uniform(1, 5), 10 ** rng.uniform(2, 4))
        directions = [Direction(sign=rng.choice((1, -1)), scale=rng.uniform(0.2, 5)) for _ in "xy"]
        axes = [Axis("1", 0, rng.uniform(500, 50_000)), Axis("2")]
        follower = Follower(*directions, limits)
        place = [rng.uniform(0, 500), rng.uniform(-1e4, 1e4)]  # where the stage really is
        home, now_ns, moved_ns, lock_id, total, count = list(place), 0, 0, 1, [0.0, 0.0], 0
        follower.use(axes)
        follower.found_at(place, 0)
        for _ in range(200):
            now_ns += round(10 ** rng.uniform(4, 8.5))
            event = rng.random()
            if event < 0.05:  # gone, moved by hand, there again
                there = [rng.uniform(0, 500), rng.uniform(-1e4, 1e4)]
                # Nearer it is taken for where it was sent.
                moved = [abs(a - b) > limits.step_nm * 1.01 for a, b in zip(place, there)]
                place = [b if far else a for a, b, far in zip(place, there, moved)]
                if follower.found_at(place, now_ns):
                    home = [b if far else a for a, b, far in zip(home, place, moved)]
                    moved_ns = now_ns
                continue
            if event < 0.1:
                lock_id, total = lock_id + 1, [0.0, 0.0]
            scale = rng.choice((0.1, 10, 1e3, 1e8))
            delta = [rng.gauss(0, 1) * scale for _ in "xy"]
            total = [max(-1e9, min(1e9, t + d)) for t, d in zip(total, delta)]
            move = follower.follow(correction(total, delta, lock_id=lock_id), now_ns)
            for number, (target, here) in enumerate(zip(move.targets_nm, place)):
                self.assertLessEqual(abs(target - here), limits.step_nm * (1 + 1e-9))
                rate_nm = limits.rate_nm_per_s * (now_ns - moved_ns) / 1e9
                self.assertLessEqual(abs(target - here), rate_nm * (1 + 1e-9) + 1e-9)
                self.assertLessEqual(abs(target - home[number]), limits.range_nm * (1 + 1e-9))
            self.assertTrue(-1e-9 <= move.targets_nm[0] <= axes[0].max_nm + 1e-9)
            outcome = rng.random()
            if outcome < 0.9:
                place, moved_ns, count = list(move.targets_nm), now_ns, count + 1
                follower.sent(move, now_ns)
            elif outcome < 0.95:  # the connection broke: nobody knows whether it was taken
                follower.perhaps_sent(move, now_ns)
                moved_ns = now_ns
                if rng.random() < 0.5:
                    place = list(move.targets_nm)
                self.assertFalse(follower.found_at(place, now_ns))
        return count

    def test_the_first_move_of_a_lock_is_its_own_change(self):
        rng = random.Random(1)
        for _ in range(2000):
            follower = Follower(Direction(sign=rng.choice((1, -1))), Direction(), Limits(20, 1e9, 1e8))
            follower.use([Axis("1"), Axis("2")])
            place = [rng.uniform(-1e5, 1e5) for _ in "xy"]
            follower.found_at(place, 0)
            now_ns = SECOND
            for lock_id in range(3):
                if rng.random() < 0.3:
                    place = [rng.uniform(-1e7, 1e7) for _ in "xy"]
                    follower.found_at(place, now_ns)
                delta = [rng.gauss(0, 1) for _ in "xy"]
                first = delta if lock_id else [rng.uniform(-1e4, 1e4) for _ in "xy"]
                now_ns += SECOND
                move = follower.follow(correction(first, delta, lock_id=lock_id), now_ns)
                for target, here, change in zip(move.targets_nm, place, delta):
                    self.assertAlmostEqual(abs(target - here), abs(change), delta=1e-6)
                follower.sent(move, now_ns)
                place = list(move.targets_nm)
                now_ns += SECOND


if __name__ == "__main__":
    unittest.main()
