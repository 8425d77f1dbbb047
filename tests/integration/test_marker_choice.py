# SPDX-License-Identifier: MIT
"""Markers that somebody chose by their places in the picture, before the real daemon: followed, locked by, and against
all that would choose others."""
import math
import unittest

from harness import BIN, driftd, drain, new_rig, protocol


def near(marker: dict, place: tuple) -> bool:
    return math.dist((marker["x_px"], marker["y_px"]), place) < 3


class MarkerChoice(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start(self, rate_hz=500, **config):
        rig = self.rig
        rig.start_sim(rate_hz=rate_hz)
        self.file = rig.config(**config)
        rig.start_daemon(self.file)
        rig.wait_markers()
        rig.wait_until(lambda s: (s["markers"]["used"] or 0) >= 10, "markers measured")
        return {m["id"]: m for m in rig.client.markers()}

    def driftctl(self, *arguments, code=0):
        done = self.rig.run_program([BIN / "driftctl", "--config", self.file, *arguments])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_lock_goes_by_what_was_chosen_alone(self):
        rig = self.rig
        found = self.start(rate_hz=100)
        events = rig.subscribe("event")
        out, back = sorted(found)[:2]
        place = found[out]["x_px"], found[out]["y_px"]
        reply = rig.client.choose_markers(remove=[out, back])
        self.assertEqual(reply["added"], [])
        self.assertEqual({m["id"] for m in reply["markers"]}, found.keys() - {out, back})
        reply = rig.client.choose_markers(add=[(place[0] + 2, place[1] - 2)],
                                          witness=[i for i in sorted(found) if i not in (out, back)][-2:])
        self.assertEqual(protocol.differences(protocol.examples()["markers_chosen"], reply), [])
        added, = [m for m in reply["markers"] if m["id"] == reply["added"][0]]
        self.assertTrue(near(added, place), (added, place))
        told = [e for _, e in drain(events, 0.3) if e["code"] == "markers_chosen"]
        self.assertEqual([(e["markers"], e["added"], e["removed"]) for e in told],
                         [(14, [], [out, back]), (15, reply["added"], [])])
        roles = {m["id"]: m["role"] for m in reply["markers"]}
        rig.client.lock()
        rig.wait_state("locked")
        self.assertTrue(rig.status()["markers"]["chosen"])
        self.assertEqual({m["id"]: m["role"] for m in rig.client.markers()}, roles)
        rig.wait_still(3)
        with self.assertRaisesRegex(driftd.DriftdError, "`locked`: `driftctl unlock` first") as caught:
            rig.client.choose_markers(remove=[sorted(roles)[0]])
        self.assertEqual(caught.exception.code, "refused")
        self.assertEqual({m["id"] for m in rig.client.markers()}, roles.keys())
        rig.client.unlock()
        markers, _ = rig.client.find_markers()
        self.assertEqual(len(markers), 16)
        self.assertFalse(rig.status()["markers"]["chosen"])

    def test_roles_that_were_chosen_are_not_exchanged(self):  # tier: full
        rig = self.rig
        found = self.start(rate_hz=100, markers={"rotate_witness_s": 1})
        rig.client.choose_markers(witness=sorted(found)[-2:])
        roles = {m["id"]: m["role"] for m in rig.client.markers()}
        rig.client.lock()
        rig.wait_state("locked")
        rig.sleep(13)  # after 11 s one that tracks would have become a witness
        self.assertEqual({m["id"]: m["role"] for m in rig.client.markers()}, roles)

    def test_driftctl_chooses_and_says_why_not(self):
        found = self.start()
        ids = sorted(found)
        place = f"{found[ids[0]]['x_px']:.1f},{found[ids[0]]['y_px']:.1f}"
        said = self.driftctl("markers", "--remove", str(ids[0]), "--witness", str(ids[1]))
        self.assertIn("chosen by command", said)
        self.assertIn("is marker", self.driftctl("markers", "--add", self.place_of(found[ids[2]]), code=1))
        self.assertIn("no spot within", self.driftctl("markers", "--add", "3,3", code=1))
        self.assertIn("not in the picture", self.driftctl("markers", "--add", "256.5,3", code=1))
        self.assertIn("there is no marker 99", self.driftctl("markers", "--remove", "99", code=1))
        self.assertIn("not a place", self.driftctl("markers", "--add", "a,3", code=2))
        self.driftctl("markers", "--find", "--remove", "1", code=2)
        self.assertIn("witness", self.driftctl("markers", "--add", place, "--tracking", str(ids[1])))
        self.assertEqual(self.rig.status()["markers"]["tracking"] + self.rig.status()["markers"]["witness"], 16)
        self.assertNotIn("chosen by command", self.driftctl("markers", "--find"))

    @staticmethod
    def place_of(marker: dict) -> str:
        return f"{marker['x_px']:.1f},{marker['y_px']:.1f}"

    def test_nothing_is_locked_by_half_a_choice(self):
        """Nor by lock.at_start, once somebody chooses."""
        rig = self.rig
        found = self.start(drift={"min_markers": 5}, markers={"min_for_witness": 8}, lock={"at_start": "true", "reference_timeout_s": 1})
        rig.wait_state("locked")
        rig.client.unlock()
        ids = sorted(found)
        reply = rig.client.choose_markers(remove=ids[4:], tracking=ids[:4])
        self.assertIn("4 tracking markers are chosen, and a lock needs 5", reply["too_few"])
        for request in (rig.client.lock, lambda: rig.client.request("calibrate")):
            with self.assertRaises(driftd.DriftdError) as caught:
                request()
            self.assertEqual(caught.exception.code, "refused")
        with self.assertRaisesRegex(driftd.DriftdError, "a lock needs 5"):
            rig.client.lock()
        rig.sleep(3)
        self.assertEqual(rig.status()["state"], "idle")
        self.assertEqual(len(rig.client.markers()), 4)
        fifth = found[ids[4]]
        reply = rig.client.choose_markers(add=[(fifth["x_px"], fifth["y_px"])])
        self.assertEqual(reply["too_few"], "")
        rig.client.lock()
        rig.wait_state("locked")
        self.assertEqual(len(rig.client.markers()), 5)

    def test_at_start_waits_while_somebody_chooses(self):
        """It locks once a driver is ready; not where somebody has chosen meanwhile."""
        rig = self.rig
        rig.start_sim()
        report = {key: value for key, value in protocol.examples()["stage"].items() if key != "command"}
        report["driver"] = "simulator"
        for chooses in (True, False):
            self.file = rig.config(stage={"require_driver": "true"}, lock={"at_start": "true"})
            rig.start_daemon(self.file)
            rig.wait_markers()
            rig.wait_until(lambda s: "lock.at_start waits" in s["cure"] and s["markers"]["used"], "it waits for a driver")
            if chooses:
                rig.client.choose_markers(remove=[rig.client.markers()[0]["id"]])
            seen = set()
            for _ in range(20):
                rig.client.request("stage", **report)
                rig.sleep(0.05)
                seen.add(rig.status()["state"])
            self.assertEqual(seen == {"idle"}, chooses, seen)
            rig.daemon.stop()

    def test_a_choice_outlives_the_daemon_with_the_lock_that_it_has(self):
        rig = self.rig
        found = self.start(lock={"resume": "ask"}, markers={"rotate_witness_s": 1})
        ids = sorted(found)
        rig.client.choose_markers(remove=ids[:3], witness=ids[3:6], tracking=ids[6:])
        rig.client.lock()
        rig.wait_state("locked")
        roles = {m["id"]: m["role"] for m in rig.client.markers()}
        rig.sleep(1.2)
        rig.daemon.stop()
        rig.start_daemon(self.file)
        rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None, "found again")
        self.assertEqual({m["id"]: m["role"] for m in rig.client.markers()}, roles)
        self.assertTrue(rig.status()["markers"]["chosen"])
        # Whoever chooses now gives up the way back.
        reply = rig.client.choose_markers(tracking=[ids[3]])
        self.assertIn("markers were chosen since", reply["offer"])
        with self.assertRaises(driftd.DriftdError) as caught:
            rig.client.request("lock", resume=True)
        self.assertEqual(caught.exception.code, "refused")
        rig.client.lock()  # which takes references of now
        rig.wait_state("locked")
        position = rig.subscribe("position").receive(10)[1]
        self.assertLess(math.hypot(position["x_nm"], position["y_nm"]), 30)
        # A daemon without a lock to go back to begins anew.
        rig.client.unlock()
        rig.daemon.kill()
        rig.start_daemon(self.file)
        rig.wait_markers()
        self.assertFalse(rig.status()["markers"]["chosen"])
        self.assertEqual(len(rig.client.markers()), 16)

    def test_what_was_chosen_is_found_again_after_a_jump(self):
        rig = self.rig
        found = self.start()
        ids = sorted(found)
        rig.client.choose_markers(remove=ids[:6])
        rig.fault("step", x_nm=2500, y_nm=-1800)
        rig.wait_until(lambda s: s["markers"]["found_again"] == 1, "found again")
        rig.sleep(0.3)
        # Those that the jump left in the picture are where they went to, and may be changed there.
        moved = {m["id"]: m for m in rig.client.markers() if m["health"] == "good"}
        self.assertGreaterEqual(len(moved), 4)
        reply = rig.client.choose_markers(remove=[min(moved)])
        for marker in reply["markers"]:
            if marker["id"] in moved:
                self.assertTrue(near(marker, (found[marker["id"]]["x_px"] + 25, found[marker["id"]]["y_px"] - 18)))

    def test_listed_markers_are_changed_and_come_back(self):
        rig = self.rig
        found = self.start()
        ids = sorted(found)
        listed = ", ".join(f"{{id: {i}, x_px: {found[i]['x_px']:.1f}, y_px: {found[i]['y_px']:.1f}}}" for i in ids[:6])
        rig.daemon.stop()
        rig.start_daemon(rig.config(markers={"mode": "list", "list": f"[{listed}]"}))
        rig.wait_until(lambda s: (s["markers"]["used"] or 0) >= 5, "markers measured")
        with self.assertRaisesRegex(driftd.DriftdError, "markers.list"):
            rig.client.find_markers()
        reply = rig.client.choose_markers(remove=[ids[0]], witness=[ids[1]])
        self.assertEqual(len(reply["markers"]), 5)
        markers, _ = rig.client.find_markers()
        self.assertEqual({(m["id"], m["role"]) for m in markers}, {(i, "tracking") for i in ids[:6]})

    def test_a_place_keeps_what_was_chosen(self):
        rig = self.rig
        found = self.start(markers={"rotate_witness_s": 1})
        ids = sorted(found)
        rig.client.choose_markers(remove=ids[:3], witness=[ids[3]], tracking=ids[4:])
        rig.client.save_place("here")
        rig.client.find_markers()
        rig.client.lock(place="here")
        rig.wait_state("locked")
        roles = {m["id"]: m["role"] for m in rig.client.markers()}
        self.assertEqual(roles, {i: "witness" if i == ids[3] else "tracking" for i in ids[3:]})
        self.assertTrue(rig.status()["markers"]["chosen"])


if __name__ == "__main__":
    unittest.main()
