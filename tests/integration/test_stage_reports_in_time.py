# SPDX-License-Identifier: MIT
"""When reports of a stage's driver hold a lock, and for how long."""
import json
import unittest

import zmq

from harness import DEADLINE_S, new_rig

REPORT = {"command": "stage", "instance": "a", "driver": "wild", "state": "ready", "text": ""}


class StageReports(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)
        self.rig.start_locked()
        self.driver = self.rig.enter_context(zmq.Context.instance().socket(zmq.DEALER))
        self.driver.setsockopt(zmq.LINGER, 0)
        self.driver.connect(self.rig.commands)

    def say(self, **fields) -> None:
        self.driver.send_string(json.dumps({**REPORT, "time_ns": self.rig.now_ns(), **fields}))
        self.assertTrue(self.driver.poll(int(1000 * DEADLINE_S)), "no answer")
        self.driver.recv()

    def changes_told(self) -> int:
        return self.rig.daemon.text().count("state_changed: ")

    def test_trouble_that_comes_and_goes_holds_the_lock_once(self):
        rig = self.rig
        self.say(state="error", text="boom")
        rig.wait_holding("stage_error")
        before = self.changes_told()
        for i in range(40):
            self.say(**({"state": "error", "text": "boom"} if i % 2 else {}))
            rig.sleep(0.03)
        self.assertEqual(self.changes_told(), before)
        self.assertEqual(rig.daemon.text().count("boom"), 1)
        end_ns = rig.now_ns() + 1e9 * DEADLINE_S
        while rig.status()["state"] != "locked":
            self.assertLess(rig.now_ns(), end_ns, rig.daemon.text())
            self.say()
            rig.sleep(0.05)
        self.assertIn("the stage's driver says ready", rig.daemon.text())


if __name__ == "__main__":
    unittest.main()
