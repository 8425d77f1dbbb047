# SPDX-License-Identifier: MIT
"""z held by a lock of its own, of a simulated sample with a stage of z: beside that of x and y, without it, and where one of
them is disturbed. Judged by the simulator's truth."""
import unittest

from axial_rig import AxialRig, rms
from harness import protocol


class Drivers(AxialRig):
    """Two drivers, or one that tells of both stages apart, as driftd-stage does where one controller has x, y and z."""

    def tell(self, seconds: float, **states: str) -> None:
        """Reports of both groups, twenty a second, in these states; None: nothing is said."""
        for _ in range(round(20 * seconds)):
            for group, state in states.items():
                axes = [{"axis": axis, "name": axis, "min_nm": 0, "max_nm": 1e5, "resolution_nm": 0.1, "closed_loop": True}
                        for axis in group]
                if state:
                    self.rig.client.request("stage", instance="1", driver="test", axes=axes, state=state, text="",
                                            time_ns=self.rig.now_ns())
            self.rig.sleep(0.05)

    def locks(self) -> dict:
        status = self.rig.status()
        return {"xy": status, "z": status["axial"]["lock"]}

    def test_what_is_wrong_with_one_stage_holds_its_lock_alone(self):
        self.start()
        self.tell(0.5, xy="ready", z="ready")
        self.rig.client.request("lock")
        self.tell(3, xy="ready", z="ready")
        for ill, well in (("z", "xy"), ("xy", "z")):
            for state, reason in (("servo_off", "stage_error"), ("not_referenced", "stage_error"), ("error", "stage_error"),
                                  ("disconnected", "stage_error"), ("limit", "stage_limit"), (None, "stage_silent")):
                with self.subTest(ill=ill, state=state):
                    self.assertEqual([lock["state"] for lock in self.locks().values()], ["locked", "locked"])
                    events = self.rig.subscribe("event")
                    self.tell(1, **{ill: state, well: "ready"})
                    locks = self.locks()
                    self.assertEqual((locks[ill]["state"], locks[ill]["reason"]), ("holding", reason))
                    self.assertEqual(locks[well]["state"], "locked")
                    self.tell(1.5, xy="ready", z="ready")
                    changed = {event["code"] for _, event in events.drain()} & {"state_changed", "axial_state_changed"}
                    self.assertEqual(changed, {"axial_state_changed" if ill == "z" else "state_changed"})


class AxialLock(AxialRig):
    def test_a_plain_lock_holds_x_y_and_z_and_unlock_of_z_lets_go_of_z_alone(self):
        self.start()
        reply = self.rig.client.request("lock")[0]
        self.assertEqual(reply["lock_id"] + 1, reply["z"]["lock_id"])
        self.rig.wait_state("locked")
        self.wait_z("locked")
        self.rig.sleep(2)
        at = self.truth_z(3)
        self.assertLess(rms(at), 1)
        status = self.rig.status()
        self.assertTrue(status["gate"]["in_lock"])
        self.assertTrue(status["axial"]["lock"]["gate"]["in_lock"])
        messages = dict(self.rig.subscribe("position", "axial").drain(1))
        shown = protocol.examples()
        self.assertEqual(messages.keys(), {"position", "axial"})
        for topic, message in messages.items():
            self.assertEqual(protocol.differences(shown[topic], dict(message)), [], topic)
        reply = self.rig.client.request("move", dz_nm=80)[0]
        self.assertAlmostEqual(reply["z_nm"], 80)
        self.rig.sleep(2)
        self.assertAlmostEqual(sum(self.truth_z(1)) / 500 - sum(at) / len(at), 80 * 1000 / (32 * 30), delta=3)
        self.rig.client.request("unlock", axes="z")
        self.assertEqual(self.rig.status()["state"], "locked")
        heard = self.rig.subscribe("correction", "axial").drain(1)
        self.assertEqual({topic for topic, _ in heard}, {"correction"})
        self.rig.wait_still(1.5)

    def test_a_stage_of_z_that_turns_round_holds_z_alone(self):
        self.start()
        self.rig.client.request("lock")
        self.rig.wait_state("locked")
        self.wait_z("locked")
        self.rig.sleep(2)
        before = self.truth_z(0.5)
        self.rig.fault("stage_reversed", axes="z")
        lock = self.wait_z("holding")
        self.assertEqual(lock["reason"], "stage_not_following")
        self.assertIn("axial.stage.gain", lock["cure"])
        after = self.truth_z(1)
        middle = sum(before) / len(before)
        self.assertLess(max(abs(z - middle) for z in after), 30)
        self.assertEqual(self.rig.status()["state"], "locked")
        self.assertFalse(self.rig.status()["gate"]["in_lock"])
        self.rig.wait_still(1.5)

    def test_z_that_is_to_be_held_and_is_not_keeps_images_waiting(self):
        def in_lock() -> set:
            return {message["in_lock"] for _, message in self.rig.subscribe("position").drain(0.5)}
        self.start(lock={"hold_timeout_s": 1})
        self.rig.client.request("lock", axes="xy")
        self.rig.wait_until(lambda s: s["gate"]["in_lock"], "x and y are held")
        self.assertEqual(in_lock(), {True})  # z was left by command
        self.rig.client.request("unlock")
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.client.request("lock", axes="xy")  # beside a z that is held, which is not left by it
        self.rig.wait_until(lambda s: s["gate"]["in_lock"] and s["axial"]["lock"]["gate"]["in_lock"], "all are held")
        self.assertEqual(in_lock(), {True})
        self.rig.fault("stage_dead", axes="z")
        self.rig.client.request("move", dz_nm=60)
        self.wait_z("lost")
        self.assertEqual(in_lock(), {False})
        self.rig.client.request("reset")
        self.wait_z("idle")
        gate = self.rig.status()["gate"]
        self.assertEqual((gate["in_lock"], gate["reason"]), (False, "axial"))
        self.assertEqual(in_lock(), {False})
        self.assertIn("`driftctl lock --axes z` holds it", self.rig.status()["axial"]["lock"]["cure"])
        self.rig.client.request("unlock", axes="z")
        self.assertEqual(in_lock(), {True})

    def test_z_alone(self):
        self.start(hold="false")
        self.assertIsNone(self.rig.status()["axial"]["lock"])
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.assertLess(rms(self.truth_z(2)), 1)
        self.assertEqual(self.rig.status()["state"], "idle")

    def test_without_a_stage_z_is_held_before_its_command_has_gone_far(self):
        self.start(hold="false")
        self.rig.fault("stage_dead", axes="z")
        sent = self.rig.subscribe("axial")
        self.rig.client.request("lock", axes="z")
        self.rig.sleep(3)
        totals = [abs(c["total_z_nm"]) for _, c in sent.drain()]
        self.assertGreater(max(totals), 5)
        self.assertLess(max(totals), 50)
        lock = self.rig.status()["axial"]["lock"]
        self.assertEqual((lock["state"], lock["reason"]), ("holding", "stage_not_following"))

    def test_z_alone_goes_back_to_where_the_end_of_the_daemon_left_it(self):
        self.start(lock={"resume": "always"}, hold="false")
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.rig.client.request("move", z_nm=40)
        self.rig.sleep(2)
        before = self.place_z()
        for kill in (True, False):
            self.rig.daemon.kill() if kill else self.rig.daemon.stop()
            self.rig.sleep(1)
            self.rig.start_daemon(self.file)
            self.wait_z("locked")
            self.assertIn("of z, interrupted", self.rig.daemon.text())
            self.rig.sleep(2)
            self.assertAlmostEqual(self.place_z(), before, delta=2)
            status = self.rig.status()
            self.assertEqual((status["state"], status["interrupted"]), ("idle", None))
        self.rig.client.request("unlock", axes="z")
        self.rig.sleep(0.1)
        self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        self.rig.sleep(2)
        self.assertIsNone(self.rig.status()["interrupted"])

    def test_z_alone_is_offered_and_goes_back_by_command(self):
        self.start(lock={"resume": "ask"}, hold="false")
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.sleep(1)
        before = self.place_z()
        self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        found = self.rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_z_nm") is not None, "z is offered")
        offer = found["interrupted"]
        self.assertEqual((offer["axes"], offer["phase"], offer["moved_x_nm"]), ("z", "found", None))
        self.assertIn("`driftctl lock --resume --axes z`", offer["text"])
        self.rig.sleep(3)
        self.assertIsNone(self.rig.status()["axial"]["lock"])  # idle, and axial.hold is false
        self.rig.client.request("lock", resume=True)
        self.wait_z("locked")
        self.rig.sleep(2)
        self.assertAlmostEqual(self.place_z(), before, delta=2)

    def test_z_of_a_reflected_spot_goes_back_after_x_and_y(self):
        self.start(lock={"resume": "always"})
        self.rig.client.request("lock")
        self.wait_z("locked")
        self.rig.sleep(1)
        self.rig.client.request("move", z_nm=-50)
        self.rig.sleep(2)
        before = self.place_z()
        self.rig.daemon.kill()
        self.rig.sleep(1)
        self.rig.start_daemon(self.file)
        self.wait_z("locked")
        self.rig.sleep(2)
        self.assertAlmostEqual(self.place_z(), before, delta=2)
        self.assertEqual(self.rig.status()["state"], "locked")

    def test_a_place_keeps_z_and_its_lock_brings_it_back(self):
        self.start()
        self.rig.client.request("lock")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.rig.client.request("move", z_nm=30)
        self.rig.sleep(2)
        self.assertEqual(self.rig.client.request("place", save="here")[0]["place"]["axes"], "xyz")
        before = self.place_z()
        self.rig.client.request("move", z_nm=-60)
        self.rig.sleep(2)
        self.assertLess(self.place_z(), before - 80)
        self.rig.client.request("unlock")
        self.rig.sleep(0.5)
        with self.rig.asking_takes_time():
            reply = self.rig.client.request("lock", place="here")[0]
        self.assertIn(reply["z"].get("state"), ("referencing", "locked"), reply)
        self.assertLess(reply["z"]["moved_z_nm"], -80)
        self.wait_z("locked")
        self.rig.sleep(2)
        self.assertAlmostEqual(self.place_z(), before, delta=2)

    def test_unlock_of_z_ends_a_place_that_waits_for_it(self):
        self.start()
        self.rig.client.request("lock")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.rig.client.request("place", save="here")
        self.rig.client.request("unlock")
        self.rig.sleep(0.5)
        self.rig.fault("hide_reflection", seconds=2)
        with self.rig.asking_takes_time():
            reply = self.rig.client.request("lock", place="here")[0]
        self.assertIn("waits", reply["z"], reply)
        self.rig.client.request("unlock", axes="z")
        heard = self.rig.subscribe("correction", "axial")
        self.rig.sleep(3)
        self.assertEqual({topic for topic, _ in heard.drain()}, {"correction"})

    def test_a_move_does_not_take_the_spot_out_of_its_region(self):
        self.start()
        self.rig.client.request("lock")
        self.wait_z("locked")
        self.rig.sleep(1)
        axial = self.rig.status()["axial"]
        self.assertIs(axial["lock"]["hold"], True)
        above = axial["range_above_nm"]
        self.assertLess(above, 400)  # of a region of 24 px at 32 nm
        with self.assertRaisesRegex(Exception, "beyond where the reflected spot is read"):
            self.rig.client.request("move", z_nm=axial["z_nm"] + above + 60)
        self.rig.client.request("move", z_nm=axial["z_nm"] + above - 34)  # a pixel is left
        self.rig.sleep(3)
        axial = self.rig.status()["axial"]
        self.assertEqual((axial["lock"]["state"], axial["valid"]), ("locked", True))
        self.assertAlmostEqual(axial["range_above_nm"], 34, delta=10)
        self.rig.client.request("move", z_nm=0)

    def test_z_that_has_not_come_back_outlives_another_restart(self):
        self.start(lock={"resume": "always"})
        self.rig.client.request("lock")
        self.wait_z("locked")
        self.rig.sleep(1)
        self.rig.client.request("move", z_nm=50)
        self.rig.sleep(2)
        before = self.place_z()
        self.rig.daemon.kill()
        self.rig.fault("hide_reflection", seconds=3)
        self.rig.start_daemon(self.file)
        self.rig.wait_state("locked")
        self.rig.sleep(1.5)  # z is not measured
        self.rig.daemon.kill()
        self.rig.sleep(2)
        self.rig.start_daemon(self.file)
        self.wait_z("locked")
        self.rig.sleep(2)
        self.assertAlmostEqual(self.place_z(), before, delta=2)

    def test_lock_at_start_waits_while_z_is_asked_about(self):
        lock = {"resume": "always", "at_start": "true"}
        self.start(lock=lock)
        self.rig.wait_state("locked")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.rig.client.request("move", z_nm=100)
        self.rig.sleep(2)
        self.rig.daemon.kill()
        self.start_daemon(lock=lock, range_limit_nm=60)  # z may not go back
        self.rig.wait_state("locked")
        self.rig.daemon.wait_for("z is not held again")
        self.rig.sleep(3)
        now = self.rig.status()["axial"]["lock"]
        self.assertEqual((now["state"], now["lock_id"]), ("idle", 0))
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")


if __name__ == "__main__":
    unittest.main()
