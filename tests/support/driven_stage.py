# SPDX-License-Identifier: MIT
"""driftd.stages.Driver in a thread, between a stage that pretends and the sockets of a daemon."""
import logging
import os
import threading
import time
import unittest

from stage_daemon import StageDaemon  # prints SKIPPED and exits without pyzmq

from driftd import stages

SLOW = float(os.environ.get("DRIFTD_TEST_SLOWNESS", "1"))
logging.getLogger("driftd.stages").addHandler(logging.NullHandler())  # what it tells is not asked for here
LOOSE = stages.Limits(step_nm=1000, rate_nm_per_s=1e9, range_nm=1e5)


class FakeStage(stages.Stage):
    """Is at once where it is sent. `fail` maps a call's name to what it raises."""

    def __init__(self, place=(1000.0, 2000.0)):
        self.place_nm = list(place)
        self.axes = [stages.Axis("1", 0, 100_000, 0.1), stages.Axis("2", None, None, None, False)]
        self.wrong_nm = []  # what the next readings of the first axis say too much
        self.fail = {}
        self.slow_s = {}
        self.now = stages.Health(on_target=True)
        self.moves = []  # (seconds, targets)
        self.connects = 0
        self.reads = 0
        self.stops = 0
        self.thread = None

    def _call(self, name):
        self.thread = self.thread or threading.get_ident()
        assert self.thread == threading.get_ident(), "one thread owns a stage"
        time.sleep(self.slow_s.get(name, 0))
        if name in self.fail:
            raise self.fail[name]

    def connect(self):
        self.connects += 1
        self._call("connect")
        return self.axes

    def description(self):
        return "fake stage, serial 7"

    def move_to(self, positions_nm):
        self._call("move_to")
        self.moves.append((time.monotonic(), tuple(positions_nm)))
        self.place_nm = list(positions_nm)

    def read(self):
        self._call("read")
        self.reads += 1
        if self.wrong_nm:
            return [self.place_nm[0] + self.wrong_nm.pop(0), self.place_nm[1]]
        return self.place_nm

    def health(self):
        self._call("health")
        return self.now

    def stop(self):
        self.stops += 1


class WithDriver(unittest.TestCase):
    limits = LOOSE
    settings = {}

    def setUp(self):
        self.daemon = StageDaemon()
        self.addCleanup(self.daemon.close)
        self.stage = FakeStage()
        self.error = None

    def start(self, wait="ready"):
        self.driver = stages.Driver(self.stage, stages.Settings(
            self.daemon.corrections, self.daemon.commands, limits=self.limits, **self.settings))
        self.stage.thread = None
        self.thread = threading.Thread(target=self._drive)
        self.thread.start()
        self.addCleanup(self.end)
        if wait:
            self.daemon.wait_report(lambda r: r["state"] == wait)
            self._reach()

    def _drive(self):
        try:
            self.driver.run()
        except BaseException as error:
            self.error = error

    def end(self):
        self.driver.stop()
        self.thread.join(60)
        self.assertFalse(self.thread.is_alive())
        self.assertEqual(self.daemon.mistakes, [])

    def _reach(self):
        """Returns once the subscription has reached the publisher: what expired is counted."""
        for _ in range(500):
            before = self.driver.report()["ignored"]
            self.daemon.send(left_ms=-1, lock_id=0)
            end_s = time.monotonic() + 0.02
            while time.monotonic() < end_s:
                if self.driver.report()["ignored"] > before:
                    time.sleep(0.1)  # none of these is under way any more
                    return
                time.sleep(0.002)
        self.fail("corrections do not reach the driver")

    def until(self, condition, timeout_s=60.0):
        end_s = time.monotonic() + timeout_s
        while not condition():
            self.assertLess(time.monotonic(), end_s)
            time.sleep(0.005)

    def rest(self, seconds):
        """For so long, and until the driver has looked where the stage is twice since."""
        time.sleep(seconds)
        reads = self.stage.reads
        self.until(lambda: self.stage.reads > reads + 2)

    def answered(self):
        """Until the driver has heard what the daemon replies now: a report waits for the reply to the one before."""
        count = len(self.daemon.reports)
        self.until(lambda: len(self.daemon.reports) > count + 2)

    def sent(self, *arguments, timeout_s=60.0, **named):
        """Sends one correction and returns where the stage went, None when it stayed."""
        before = len(self.stage.moves)
        self.daemon.send(*arguments, **named)
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            if len(self.stage.moves) > before:
                return self.stage.moves[-1][1]
            time.sleep(0.001)
        return None

    def stays(self, *arguments, **named):
        self.assertIsNone(self.sent(*arguments, timeout_s=0.15, **named))

    def report(self, condition=lambda r: True, timeout_s=60.0):
        return self.daemon.wait_report(condition, timeout_s)
