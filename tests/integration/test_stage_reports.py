# SPDX-License-Identifier: MIT
"""Reports of a stage's driver that is broken or hostile, against a live lock."""
import json
import math
import time
import unittest

import zmq

import harness
from harness import SLOW

REPORT = {"command": "stage", "instance": "a", "driver": "wild", "state": "ready", "text": ""}


class Wild:
    """A driver that says what it likes, and need not read what it is answered."""

    def __init__(self, rig: harness.Rig):
        self.socket = rig.enter_context(zmq.Context.instance().socket(zmq.DEALER))
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(rig.commands)

    def say(self, **fields) -> None:
        self.socket.send_string(json.dumps({**REPORT, "time_ns": time.monotonic_ns(), **fields}))

    def hear(self) -> dict:
        assert self.socket.poll(int(1000 * harness.DEADLINE_S)), "no answer"
        return json.loads(self.socket.recv())


class StageReports(unittest.TestCase):
    def setUp(self):
        self.rig = harness.CalmRig()
        self.addCleanup(self.rig.close)
        self.rig.start_locked()
        self.driver = Wild(self.rig)

    def keep_ready(self) -> None:
        """Waits until the lock moves the stage again."""
        end = time.monotonic() + harness.DEADLINE_S
        while self.rig.status()["state"] != "locked":
            self.assertLess(time.monotonic(), end, self.rig.daemon.text())
            self.driver.say()
            self.driver.hear()
            time.sleep(0.05)

    def test_a_flood_of_nonsense_costs_neither_frames_nor_memory(self):
        rig = self.rig
        corrections = rig.subscribe("correction")
        resident = f"/proc/{rig.daemon.child.pid}/status"

        def resident_mib() -> float:
            with open(resident) as file:
                return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))

        self.driver.say()
        answer = self.driver.hear()
        status, before, began = rig.status(), resident_mib(), time.monotonic()
        lock_id, fitted = status["lock_id"], status["loop"]["fitted"]
        places = [{"session": answer["session"], "lock_id": lock_id, "total_x_nm": 1e9, "total_y_nm": -1e9,
                   "time_ns": time_ns} for time_ns in (0, 1, 2**62, 9 * 10**18)]
        nonsense = [json.dumps({**REPORT, **fields}) for fields in (
            *places, {"max_rate_hz": 5e-324}, {"rate_hz": 1e6}, {"carried_out": 9e15}, {"total_x_nm": math.nan},
            {"total_x_nm": "far"}, {"time_ns": -1}, {"axes": [[]] * 6}, {"instance": "b"}, {"lock_id": 1e300},
            {"latency_us": {"p50": 1e12}}, {"text": "\n\x1b[2J" * 50}, {"state": ["ready"]})] + ["[" * 3000, "", "\0"]
        for i in range(20_000):
            self.driver.socket.send_string(nonsense[i % len(nonsense)])
            while self.driver.socket.poll(0):
                self.driver.socket.recv()
        Wild(rig).socket.send(b" " * 100_000)  # only this peer's connection ends
        self.driver.socket.send_multipart([b"x"] * 20)
        status = rig.status()
        self.assertGreater(status["loop"]["fitted"] - fitted, 10 * (time.monotonic() - began) / SLOW)  # of 100
        self.assertLess(resident_mib() - before, 20)
        self.assertLess(len(rig.daemon.text().splitlines()), 400)
        self.driver = Wild(rig)
        self.keep_ready()
        for _, message in harness.drain(corrections, 0.1):
            for name in ("total_x_nm", "total_y_nm", "delta_x_nm", "delta_y_nm"):
                self.assertLess(abs(message[name]), 5000)
        self.assertEqual(rig.status()["lock_id"], lock_id)


if __name__ == "__main__":
    unittest.main()
