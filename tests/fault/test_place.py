# SPDX-License-Identifier: MIT
"""A saved place is found again by another daemon, in a world that is not the same any more: judged by the
simulator's truth, in which 0 is where the markers' positions say."""
import json
import math
import pathlib
import random
import sys
import unittest

from judge import CONFIG, DEMO, FRAME_STEP_NM, SLOW, Record, changed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import BIN, driftd, drain, held_nm, new_rig, protocol  # noqa: E402
from kill_in_lock import STEP_NM, commanded_steps  # noqa: E402

PIXEL_NM = 100
TURN_DEG = 1.3


def positions(count: int, seed: int, apart: tuple = ()) -> list[tuple[float, float]]:
    """Far enough from the border for the way that the sample goes, and from one another."""
    dice, places = random.Random(seed), []
    while len(places) < count:
        place = dice.uniform(50, 206), dice.uniform(45, 211)
        if all(math.dist(place, other) > 26 for other in (*places, *apart)):
            places.append(place)
    return places


MARKERS = positions(14, 5)


def centre(places: list) -> tuple[float, float]:
    return tuple(sum(p[i] for p in places) / len(places) for i in (0, 1))


def turned(place: tuple, about: tuple, degrees: float) -> tuple[float, float]:
    """x towards y."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = place[0] - about[0], place[1] - about[1]
    return about[0] + c * x - s * y, about[1] + s * x + c * y


def world(places: list, x_nm: float = 0, y_nm: float = 0, photons: int = 30000, sigma_px: float = 1.3) -> str:
    """The demo's, with these markers, put in displaced."""
    listed = ", ".join(f"[{x:.3f}, {y:.3f}]" for x, y in places)
    return changed(DEMO, ("  count: 16\n", f"  positions_px: [{listed}]\n"),
                   ("photons: 30000", f"photons: {photons}"), ("  sigma_px: 1.3 ", f"  sigma_px: {sigma_px} "),
                   ("linear_nm_per_s: 4\n", f"linear_nm_per_s: 4\n    step_nm: {x_nm}\n"),
                   ("linear_nm_per_s: -3\n", f"linear_nm_per_s: -3\n    step_nm: {y_nm}\n"))


class Place(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start_daemon(self, **control):
        self.file = self.rig.config(
            camera={"readout_us": 300, "frame_rate_hz": 500 / SLOW, "start_without_camera": "true"},
            stage=CONFIG["stage"], control={**CONFIG["control"], **control},
            lock={"max_frame_age_ms": 20 * SLOW})
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: s["markers"]["used"], "measured markers")

    def save(self, *options: str):
        """Held, saved as `here`, unlocked; and where that was by the truth."""
        self.rig.start_sim(world(MARKERS))
        self.start_daemon()
        self.rig.client.lock()
        self.rig.wait_state("locked")
        record = Record(self.rig).collect(1.0 * SLOW)
        for _ in range(1 if self.rig.is_virtual else 6):  # a busy machine may let it go for a moment
            record.clear()
            self.place = record.collect(0.6 * SLOW).place_nm()
            if record.farthest_nm(self.place) < held_nm(2.5):
                break
        else:
            self.assertFalse(self.rig.is_virtual, record.farthest_nm(self.place))
        self.assertIn("saved: here", self.driftctl("place", "save", "here", *options))
        self.rig.client.unlock()
        self.assertEqual(self.rig.daemon.stop(), 0)
        self.rig.sim.stop()

    def another_day(self, text: str, **control):
        self.rig.start_sim(text)
        self.start_daemon(**control)
        self.record = Record(self.rig)

    def driftctl(self, *arguments, code: int = 0) -> str:
        done = self.rig.run_program([BIN / "driftctl", "--config", self.file, *arguments])
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return " ".join((done.stdout + done.stderr).split())

    def assert_reached(self, place: dict, within_nm: float):
        self.rig.daemon.wait_for("the sample is at the place `here`")
        for _ in range(1 if self.rig.is_virtual else 6):  # likewise
            self.record.clear()
            there = self.record.collect(0.8 * SLOW).place_nm()
            off_nm = max(abs(there[axis] - place[axis]) for axis in "xy")
            if off_nm < held_nm(within_nm):
                break
        self.assertLess(off_nm, self.rig.bound(0.3, held_nm(within_nm)), f"{there} for {place}\n{self.rig.daemon.text()}")
        self.rig.wait_until(lambda s: s["gate"]["in_lock"], "in lock")

    def test_the_next_day_darker_with_a_third_gone_and_others_there(self):
        self.save("--note", "before the drug")
        changed_world = MARKERS[:4] + MARKERS[9:] + positions(4, 8, tuple(MARKERS))
        self.another_day(world(changed_world, 2900, -1300, photons=15000, sigma_px=1.5))
        self.assertRegex(self.driftctl("place", "list"), r"^here 20\d\d-.*Z 14 markers over .* before the drug$")
        self.assertIn("optics.pixel_size_nm: 100", self.driftctl("place", "show", "here"))
        for example, fields in (("places", {}), ("place", {"show": "here"})):
            reply = self.rig.client.request("place", **fields)[0]
            self.assertEqual(protocol.differences(protocol.examples()[example], reply), [])
        seen = self.rig.subscribe("position")
        away = self.record.collect(0.3 * SLOW).place_nm()
        self.record.clear()
        reply = json.loads(self.driftctl("--json", "lock", "--place", "here"))
        self.assertEqual(protocol.differences(protocol.examples()["place_lock"], reply), [])
        for axis in "xy":  # what it says is what the truth says
            self.assertAlmostEqual(reply[f"moved_{axis}_nm"], away[axis] - self.place[axis], delta=held_nm(8))
        self.assertGreaterEqual(reply["found"], 6)
        self.assertLess(reply["found"], reply["markers"])
        self.rig.daemon.wait_for("the sample is at the place `here`")
        self.assertLessEqual(max(commanded_steps(self.record.update().truth)),
                             self.rig.bound(FRAME_STEP_NM + 1e-3, 5 * STEP_NM))
        far = [p for _, p in drain(seen) if p["state"] == "locked" and p["valid"] and abs(p["frame_x_nm"]) > 20]
        self.assertGreater(len(far), 50)
        self.assertEqual([p for p in far if p["in_lock"]], [])
        # A busy machine holds it for frames and corrections that are late, which at full rate looks like a stage
        # that does not follow. The length of the way is no reason.
        reasons = {e["reason"] for e in self.record.states}
        self.assertEqual(reasons & {"implausible_jump", "range_exceeded", "held_too_long"}, set(),
                         self.rig.daemon.text())
        self.assert_reached(self.place, 0.5)
        # Its references are those of the place: the drift that it tells is from there.
        told = [p["frame_x_nm"] for _, p in drain(seen, 0.5)][-200:]
        self.assertLess(abs(sum(told) / len(told)), held_nm(0.5))
        # It is a lock like any other: killed, it is found again.
        self.rig.daemon.stop()
        self.assertEqual(len(list((self.rig.folder / "state").glob("*.state"))), 1)

    def test_turned_and_a_fraction_of_a_pixel_away(self):
        self.save()
        about = centre(MARKERS)
        self.another_day(world([turned(p, about, TURN_DEG) for p in MARKERS], 30, -20))
        markers = self.rig.client.place("here")["markers"]
        of_place = centre([(m["x_px"], m["y_px"]) for m in markers if m["role"] == "tracking"])
        reply = self.rig.client.request("lock", place="here")[0]
        self.assertAlmostEqual(reply["turned_deg"], TURN_DEG, delta=0.03)
        # What comes back is the middle of its markers: the world was turned about another point, and the
        # sample lay a bit off when it was saved.
        nominal = of_place[0] - self.place["x"] / PIXEL_NM, of_place[1] - self.place["y"] / PIXEL_NM
        back = turned(nominal, about, TURN_DEG)
        expected = {a: (of_place[i] - back[i]) * PIXEL_NM for i, a in enumerate("xy")}
        self.assert_reached(expected, 2.5)

    def test_what_is_not_there_or_too_far_is_refused_and_nothing_moves(self):
        self.save()
        self.another_day(world(MARKERS, 2900, -1300), range_limit_nm=1500)
        ids = [m["id"] for m in self.rig.client.markers()]
        text = self.driftctl("lock", "--place", "here", code=1)
        self.assertRegex(text, r"the sample is 3\d\d\d\.\d nm .* from the place `here`; 1\d of 1\d markers are there")
        self.assertIn("control.range_limit_nm is 1500", text)
        self.assertIn("there is no place `there`", self.driftctl("place", "remove", "there", code=1))
        self.assertIn("is no name of a place", self.driftctl("place", "save", "../here", code=1))
        self.assertEqual(ids, [m["id"] for m in self.rig.client.markers()])
        self.assertEqual(self.rig.daemon.stop(), 0)
        self.rig.sim.stop()
        self.another_day(world(positions(14, 77)))
        with self.assertRaises(driftd.DriftdError) as refused:
            self.rig.client.lock(place="here")
        self.assertEqual(refused.exception.code, "not_found")
        self.assertRegex(str(refused.exception), "the place `here` was not found in the image: .* need ")
        self.record.collect(0.3 * SLOW)
        self.assertEqual(max(commanded_steps(self.record.truth)), 0)
        self.assertEqual(self.rig.status()["state"], "idle")
        # Saved over only when that is asked for; while idle, too.
        self.assertIn("already", self.driftctl("place", "save", "here", code=1))
        self.driftctl("place", "save", "here", "--replace")
        self.rig.client.lock(place="here")
        self.rig.wait_state("locked")
        self.assertIn("the lock is `locked`", self.driftctl("lock", "--place", "here", code=1))
        self.driftctl("place", "remove", "here")
        self.assertEqual(self.rig.client.places(), [])


if __name__ == "__main__":
    unittest.main()
