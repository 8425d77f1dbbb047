# SPDX-License-Identifier: MIT
"""A lock on a stage that nobody measured finds out how it answers before it corrects; judged by the simulator's truth."""
import math
import unittest

from harness import BIN, SOURCE, SLOW, drain, new_rig

DEMO = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
MATRIX = "image_to_stage: [0.992546, 0.121869, 0.121869, -0.992546]"
#: Nothing of it is as the defaults say.
LATE = DEMO.replace("frequency_hz: 150 ", "frequency_hz: 40 ").replace("delay_ms: 2.5", "delay_ms: 9").replace(
    "range_nm: 100000", "range_nm: 100000\n  axis_gain: [0.85, 1.15]")
FIRST = {"stage": {"acquaint": "first"}}


class Acquaintance(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start(self, scenario: str, **config) -> None:
        self.rig.start_sim(scenario)
        self.rig.start_daemon(self.rig.config(**{**FIRST, **config}))
        self.rig.wait_markers()

    def residual_nm(self, seconds: float = 2) -> float:
        seen = self.rig.truth().collect(seconds * SLOW)
        total = 0
        for axis in "xy":
            places = [t[f"sample_{axis}_nm"] for t in seen]
            mean = sum(places) / len(places)
            total += sum((p - mean) ** 2 for p in places) / len(places) / 2
        return math.sqrt(total)

    def ctl(self, *arguments):
        rig = self.rig
        return rig.run_program([BIN / "driftctl", "--commands", rig.commands, "--publish", rig.publish, *arguments])

    def test_it_finds_out_holds_and_remembers(self):
        rig = self.rig
        self.start(LATE)
        events, corrections, positions = rig.subscribe("event"), rig.subscribe("correction"), rig.subscribe("position")
        done = self.ctl("lock", "--wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("small moves find out how the stage answers", done.stderr)
        self.assertIn("configured are 4.0 ms", done.stderr)
        self.assertIn("`driftctl calibrate --write` keeps it", done.stderr)
        status = rig.status()
        self.assertEqual(status["acquaintance"]["state"], "known")
        stage = status["acquaintance"]["stage"]
        lag_us = stage["delay_us"] + 1e6 * stage["damping"] / (math.pi * stage["resonance_hz"])
        self.assertAlmostEqual(lag_us, 9000 + 1e6 * 0.7 / (math.pi * 40), delta=1000)

        rig.sleep(3 * SLOW)
        self.assertLess(self.residual_nm(), 0.8)
        self.assertEqual(rig.status()["state"], "locked")
        probes = [c for _, c in drain(corrections) if c.get("probe")]
        self.assertGreater(len(probes), 500)
        self.assertLess(max(abs(c[f"total_{axis}_nm"]) for c in probes for axis in "xy"), 30)
        told = [p["in_lock"] for _, p in drain(positions)]
        self.assertFalse(any(told[:int(600 / SLOW)]))
        found = [e for _, e in drain(events) if e["code"] == "stage_acquaintance"]
        self.assertEqual([e["state"] for e in found], ["under_way", "known"])

        # The lock after it, and one of the next daemon.
        rig.client.unlock()
        rig.client.lock()
        rig.wait_state("locked")
        self.assertEqual(rig.status()["acquaintance"]["state"], "known")
        rig.client.unlock()
        rig.sleep(0.5)
        rig.daemon.stop()
        rig.start_daemon(rig.config(**FIRST))
        rig.wait_markers()
        again = rig.wait_until(lambda s: s["acquaintance"]["state"] == "known", "what was found")["acquaintance"]
        self.assertAlmostEqual(again["stage"]["delay_us"], stage["delay_us"], places=6)
        rig.client.lock()
        rig.wait_until(lambda s: s["gate"]["in_lock"], "in lock", timeout_s=5)

    def test_a_stage_at_fault_is_found_before_anything_follows_it(self):
        rig = self.rig
        self.start(DEMO.replace(MATRIX, "image_to_stage: [-0.992546, -0.121869, -0.121869, 0.992546]"))
        truth = rig.truth()
        before = truth.collect(0.2 * SLOW)[-1]
        rig.client.lock()
        status = rig.wait_until(lambda s: s["state"] == "holding", "held", timeout_s=3)
        self.assertEqual((status["reason"], status["stage"]), ("stage_not_following", "reversed"))
        self.assertIn("driftctl calibrate", status["cure"])
        for seen in truth.collect(3 * SLOW):
            for axis in "xy":
                own_nm = seen[f"disturbance_{axis}_nm"] - before[f"disturbance_{axis}_nm"]
                self.assertLess(abs(seen[f"sample_{axis}_nm"] - before[f"sample_{axis}_nm"] - own_nm), 30)
        self.assertEqual(rig.status()["state"], "holding")

    def test_held_for_a_stage_that_is_later_it_finds_out_and_goes_on(self):
        rig = self.rig
        self.start(LATE, stage={"acquaint": "held", "delay_us": 500, "time_constant_us": 200})
        rig.client.lock()
        rig.wait_until(lambda s: s["acquaintance"]["state"] == "known", "what was found", timeout_s=30)
        rig.wait_until(lambda s: s["gate"]["in_lock"], "in lock", timeout_s=10)
        rig.sleep(3 * SLOW)
        self.assertLess(self.residual_nm(), 1.5)

    def test_moves_wait_for_it(self):
        rig = self.rig
        self.start(LATE)
        rig.client.lock()
        rig.wait_until(lambda s: s["acquaintance"]["state"] == "under_way", "the beginning")
        done = self.ctl("move", "--to", "50", "0")
        self.assertIn("gets to know its stage", done.stderr)


if __name__ == "__main__":
    unittest.main()
