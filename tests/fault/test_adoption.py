# SPDX-License-Identifier: MIT
"""Markers of a saved place, and of a lock that was interrupted, under a configuration that has changed meanwhile: other
numbers of markers, other ROIs, listed or found. Each of them is measured where it truly is, or the lock is refused."""
import math
import random
import unittest

from judge import CONFIG, DEMO, SLOW, changed
from harness import held_nm, new_rig
from test_place import PIXEL_NM, positions

RATE_HZ = 100 / SLOW
SPOTS = positions(20, 11)


def list_of(places: list) -> str:
    return ", ".join(f"[{x:.3f}, {y:.3f}]" for x, y in places)


WORLD = changed(DEMO, ("  count: 16\n", f"  positions_px: [{list_of(SPOTS)}]\n"))


class Adoption(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def configured(self, dice: random.Random) -> dict:
        """What says which markers there are, and how they are fitted."""
        markers = {"max_count": dice.randint(3, 20), "witness_fraction": dice.choice((0, 0.2, 0.5))}
        if dice.random() < 0.25:
            chosen = dice.sample(SPOTS, dice.randint(4, 18))
            listed = ", ".join(f"{{id: {i + 1}, x_px: {x:.1f}, y_px: {y:.1f}}}" for i, (x, y) in enumerate(chosen))
            markers = {"mode": "list", "list": f"[{listed}]"}
        return {"markers": markers, "fitter": {"roi_px": dice.choice(("auto", 9, 11, 13, 17))},
                "optics": {"spot_sigma_px": dice.choice(("auto", 1.3))}}

    def start(self, chosen: dict):
        self.rig.start_daemon(self.rig.config(
            **chosen, stage=CONFIG["stage"], control=CONFIG["control"],
            camera={"readout_us": 300, "frame_rate_hz": RATE_HZ, "start_without_camera": "true",
                    "stall_timeout_ms": int(300 * SLOW)},
            lock={"resume": "always", "max_frame_age_ms": 50 * SLOW, "reference_frames": 20}))
        self.rig.wait_until(lambda s: s["markers"]["used"], "measured markers")

    def lock(self, **order):
        self.rig.client.lock(**order)
        self.rig.wait_state("locked")

    def assert_measured(self, ids: list, said: str):
        """These markers and no others, each on a spot of its own, and together where the sample is."""
        truth = self.rig.truth()
        self.rig.sleep(0.2 * SLOW)
        markers = self.rig.client.markers()
        sample = truth.drain()[-1]
        said += f"\n{markers}\n{self.rig.daemon.text()}"
        self.assertEqual([m["id"] for m in markers], ids, said)
        self.assertEqual({m["health"] for m in markers}, {"good"}, said)
        seen = set()
        for marker in markers:
            place = [marker[f"{a}_px"] - sample[f"sample_{a}_nm"] / PIXEL_NM for a in "xy"]
            spot = min(SPOTS, key=lambda s: math.dist(place, s))
            self.assertLess(math.dist(place, spot), 0.2, said)
            self.assertLess(math.hypot(marker["residual_x_nm"], marker["residual_y_nm"]), held_nm(10), said)
            seen.add(spot)
        self.assertEqual(len(seen), len(ids), said)
        tracking = sum(m["role"] == "tracking" for m in markers)
        self.assertEqual(self.rig.status()["markers"]["used"], tracking, said)

    def try_rounds(self, seed: int, rounds: int):
        dice = random.Random(seed)
        self.rig.start_sim(WORLD, rate_hz=RATE_HZ)
        for number in range(rounds):
            before, after = self.configured(dice), self.configured(dice)
            interrupted = dice.random() < 0.5
            said = f"round {number} of {seed}: {before} then {after}, {'interrupted' if interrupted else 'a place'}"
            self.start(before)
            self.lock()
            self.rig.sleep(0.2 * SLOW)
            ids = [m["id"] for m in self.rig.client.markers()]
            name = f"round-{number}"
            self.rig.client.save_place(name)
            if not interrupted:
                self.rig.client.unlock()
                self.rig.wait_state("idle")
            self.rig.daemon.kill() if dice.random() < 0.5 else self.rig.daemon.stop()
            self.start(after)
            listed_anew = interrupted and any(c["markers"].get("mode") == "list" for c in (before, after))
            if interrupted and not listed_anew:
                self.rig.wait_state("locked")
                self.rig.daemon.wait_for("lock_resumed")
            else:  # those listed are a part of what an interrupted lock means
                self.lock(place=name)
            self.assert_measured(ids, said)
            self.rig.client.unlock()
            self.rig.wait_state("idle")
            if after["markers"].get("mode") != "list":
                with self.rig.asking_takes_time():
                    found = [m["id"] for m in self.rig.client.find_markers()[0]]
                self.assertEqual(len(found), after["markers"]["max_count"], said)
                self.assert_measured(found, said)
            self.assertEqual(self.rig.daemon.stop(), 0)

    def test_by_chance(self):
        self.try_rounds(37, 6)

    def test_by_chance_again_and_again(self):  # tier: full
        self.try_rounds(38, 60)


if __name__ == "__main__":
    unittest.main()
