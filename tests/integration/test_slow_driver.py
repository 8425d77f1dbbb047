# SPDX-License-Identifier: MIT
"""A stage's driver that takes one correction in ten frames: the lock is PI's, and as still; judged by the simulator's
truth."""
import json
import unittest

import zmq

from harness import BIN, DEADLINE_S, new_rig, rms

RATE_HZ, PERIOD_S = 50, 0.02
REPORT = {"command": "stage", "instance": "a", "driver": "wild", "state": "ready", "text": "", "rate_hz": RATE_HZ}


class SlowDriver(unittest.TestCase):
    def setUp(self):
        self.rig = rig = new_rig()
        self.addCleanup(rig.close)
        rig.start_sim()
        rig.start_daemon(rig.config(control={"law": "auto"}))
        rig.wait_markers()
        rig.set_driver_period(PERIOD_S)
        self.driver = rig.enter_context(zmq.Context.instance().socket(zmq.DEALER))
        self.driver.setsockopt(zmq.LINGER, 0)
        self.driver.connect(rig.commands)

    def report(self, seconds: float, **fields) -> dict:
        """The driver reports for so long. @returns the status then"""
        for _ in range(round(seconds / 0.1)):
            self.driver.send_string(json.dumps({**REPORT, "time_ns": self.rig.now_ns(), **fields}))
            status = self.rig.status()
            self.assertTrue(self.driver.poll(int(1000 * DEADLINE_S)), "no answer")
            self.driver.recv()
            self.rig.sleep(0.1)
        return status

    def ctl(self, *arguments) -> str:
        done = self.rig.run_program(
            [BIN / "driftctl", "--commands", self.rig.commands, "--publish", self.rig.publish, *arguments])
        return " ".join((done.stdout + done.stderr).split())

    def test_one_that_says_how_slow_it_is(self):
        rig = self.rig
        self.report(0.2, max_rate_hz=RATE_HZ)
        rig.client.lock()
        self.report(2, max_rate_hz=RATE_HZ)
        truth = rig.truth()
        status = self.report(4, max_rate_hz=RATE_HZ)
        seen = truth.drain()
        self.assertEqual((status["state"], status["control"]["law"], status["control"]["reason"]),
                         ("locked", "pi", "driver_too_slow"))
        self.assertEqual(rig.daemon.text().count("stage_not_following"), 0)
        for axis in "xy":
            self.assertLess(rms([t[f"sample_{axis}_nm"] for t in seen]), 0.5, axis)
        self.assertIn("one correction in about 10 frames", rig.daemon.text())
        self.assertIn("a faster driver", self.ctl("advise"))
        self.assertIn("takes too few corrections", self.ctl("status"))

    def test_one_that_is_seen_to_be_slow(self):
        rig = self.rig
        self.report(1)  # by when it is locked some are held before they are seen: docs/internals/observer.md
        rig.client.lock()
        status = self.report(3)
        self.assertEqual((status["control"]["law"], status["control"]["reason"]), ("pi", "driver_too_slow"))
        rig.set_driver_period(0)  # it has only been busy
        for _ in range(20):  # s: few corrections are sent by which it could show
            status = self.report(1, rate_hz=500)
            if status["control"]["reason"] != "driver_too_slow":
                break
        self.assertEqual((status["control"]["law"], status["control"]["reason"]), ("observer", "configured"))
        self.assertEqual(status["state"], "locked")
        self.assertEqual(rig.daemon.text().count("stage_not_following"), 0)


class SilentDriver(unittest.TestCase):
    """It only subscribes to corrections."""

    def test_one_that_tells_nothing_is_found_out_and_again_with_each_lock(self):
        rig = self.enterContext(new_rig())
        rig.start_sim()
        rig.start_daemon(rig.config(control={"law": "auto"}, stage={"acquaint": "first"}))
        rig.wait_markers()
        rig.set_driver_period(PERIOD_S)
        for daemon in (1, 2):
            if daemon == 1:
                rig.client.lock()
            rig.wait_until(lambda s: s["acquaintance"]["state"] == "known", "what was found")
            if daemon == 2:
                rig.client.lock()
                rig.wait_until(lambda s: s["acquaintance"]["state"] == "under_way", "it may be another driver")
                rig.wait_until(lambda s: s["acquaintance"]["state"] == "known", "it is not")
            rig.sleep(5)
            truth = rig.truth()
            rig.sleep(4)
            seen, status = truth.drain(), rig.status()
            self.assertEqual((status["state"], status["control"]["law"], status["control"]["reason"]),
                             ("locked", "pi", "driver_too_slow"))
            self.assertRegex(status["acquaintance"]["text"], r"its driver takes at most one correction in \d+ ms")
            for axis in "xy":
                self.assertLess(rms([t[f"sample_{axis}_nm"] for t in seen]), 0.55, axis)
            self.assertEqual(rig.daemon.text().count("holding: stage not following"), 0)
            rig.client.unlock()
            rig.daemon.stop()
            rig.start_daemon(rig.folder / "driftd.yaml")
            rig.wait_markers()
        rig.set_driver_period(0)  # now it is
        rig.wait_until(lambda s: s["acquaintance"]["state"] == "known", "what was found")
        rig.client.lock()
        rig.wait_until(lambda s: s["control"]["law"] == "observer", "the observer", timeout_s=20)
        self.assertNotIn("driver takes", rig.status()["acquaintance"]["text"])


if __name__ == "__main__":
    unittest.main()
