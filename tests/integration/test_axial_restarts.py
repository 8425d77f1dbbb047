# SPDX-License-Identifier: MIT
"""The lock of z over restarts of the daemon: beside a lock of x and y that waits for somebody's consent, one that was lost,
and none. Judged by the simulator's truth."""
import sys
import unittest

from axial_rig import AxialRig
from harness import BIN
from test_axial_clients import start_three_axes


class Restarts(AxialRig):
    """What both ways to read z are tried with."""

    def hold_all(self, lock=None, **axial) -> None:
        self.start(lock=lock or {"resume": "ask"}, **axial)
        self.rig.client.request("lock")
        self.rig.wait_state("locked")
        self.wait_z("locked")
        self.rig.sleep(2)

    def offered(self) -> dict:
        return self.rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_x_nm") is not None, "an offer")["interrupted"]

    def restart(self) -> dict:
        """Kills the daemon and starts the next one; returns what that offers."""
        self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        return self.offered()

    def resume(self, **axes) -> None:
        self.rig.client.request("lock", resume=True, **axes)
        self.wait_z("locked")
        self.rig.sleep(2)

    def move_z(self, z_nm: float) -> float:
        """Where the sample is then."""
        self.rig.client.request("move", z_nm=z_nm)
        self.rig.sleep(2)
        return self.place_z()

    def check_where_z_goes(self, expected: float) -> None:
        """After another restart, with all there is to go back to."""
        self.assertEqual(self.restart()["axes"], "xyz")
        self.resume()
        self.rig.wait_state("locked")
        self.assertAlmostEqual(self.place_z(), expected, delta=3)

    def driftctl(self, *arguments):
        return self.rig.run_program([BIN / "driftctl", "--commands", self.rig.commands, "--publish", self.rig.publish, *arguments])

    def events(self, reader, code: str) -> list:
        return [event["text"] for topic, event in reader.drain() if topic == "event" and event["code"] == code]


class EitherWay:
    """Beside an offer of x and y: for each way to read z."""

    def test_z_that_went_back_before_x_and_y_goes_to_where_it_was_last(self):
        self.hold_all()
        self.restart()
        self.resume(axes="z")
        self.assertEqual(self.rig.status()["state"], "idle")
        self.check_where_z_goes(self.move_z(60))

    def test_a_new_lock_of_z_is_kept_with_it(self):
        self.hold_all()
        self.move_z(80)
        self.restart()
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.check_where_z_goes(self.move_z(-40))

    def test_z_that_was_unlocked_goes_nowhere(self):
        self.hold_all()
        self.restart()
        self.resume(axes="z")
        self.rig.client.request("unlock", axes="z")
        self.rig.sleep(1)
        self.assertEqual(self.restart()["axes"], "xy")


class BySpot(Restarts, EitherWay):
    def test_z_that_was_held_on_when_x_and_y_were_lost_goes_to_where_it_was_last(self):
        self.hold_all(lock={"resume": "ask", "hold_timeout_s": 1})
        self.rig.fault("step", x_nm=2000)
        self.rig.wait_state("lost")
        self.assertEqual(self.rig.status()["axial"]["lock"]["state"], "locked")
        held = self.move_z(60)
        self.rig.fault("step", x_nm=-2000)
        self.rig.sleep(1)
        self.check_where_z_goes(held)

    def test_a_daemon_that_is_stopped_keeps_z_of_a_lost_lock_to_the_last(self):
        self.hold_all(lock={"resume": "ask", "hold_timeout_s": 1})
        self.rig.fault("step", x_nm=2000)
        self.rig.wait_state("lost")
        held = self.move_z(15)
        self.rig.fault("step", x_nm=-2000)
        self.rig.daemon.stop()
        self.rig.start_daemon(self.file)
        self.offered()
        self.resume()
        self.assertAlmostEqual(self.place_z(), held, delta=3)

    def test_an_offer_tells_of_z_and_unlock_says_that_it_is_forgotten(self):
        self.hold_all()
        text = self.restart()["text"]
        self.assertRegex(text, r"the sample is \d.* nm \(x .*\) and [+-]\d+\.\d nm in z from where it was held\. ")
        self.rig.fault("hide_reflection", seconds=3)
        self.rig.sleep(1)
        self.assertIn("from where it was held; z is not measured from there now", self.rig.status()["interrupted"]["text"])
        self.assertRegex(self.driftctl("unlock", "--axes", "z").stdout,
                         r"^z: idle\nz of lock 1 of x, y and z, interrupted .* ago: forgotten\n$")
        self.assertRegex(self.driftctl("unlock").stdout, r"\nlock 1, interrupted .* ago: forgotten\n$")

    def test_a_lock_of_z_alone_that_is_read_otherwise_is_ignored_by_its_number(self):
        self.start(lock={"resume": "ask"}, hold="false")
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.rig.daemon.kill()
        self.start_daemon(lock={"resume": "ask"}, hold="false", reflection="{x_px: 128, y_px: 243, roi_px: 24, nm_per_px: 31}")
        self.rig.daemon.wait_for("state_ignored: lock 1 of z, interrupted ")

    def test_z_that_may_not_go_back_is_offered_what_it_may(self):
        self.hold_all(lock={"resume": "always"})
        self.move_z(100)
        self.rig.daemon.kill()
        self.start_daemon(lock={"resume": "always"}, range_limit_nm=60)
        self.rig.wait_state("locked")
        self.rig.daemon.wait_for("z is not held again: the stage of z may not go back: ")
        told = self.rig.status()["axial"]["lock"]["cure"]
        self.assertNotIn("--resume", told)
        with self.assertRaises(Exception) as refused:
            self.rig.client.request("lock", resume=True, axes="z")
        self.assertIn("may not go back", str(refused.exception))
        self.assertIn("`driftctl lock --axes z` holds it where it is", told)
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")

    def test_z_that_is_not_seen_is_offered_once_it_is_and_goes_back_then(self):
        self.hold_all(lock={"resume": "always"})
        held = self.move_z(40)
        self.rig.daemon.kill()
        self.rig.fault("hide_reflection", seconds=12)
        self.rig.start_daemon(self.file)
        self.rig.daemon.wait_for("z is not held again: z is not measured now. Once it is measured from there, "
                                 "`driftctl lock --resume --axes z` may go back there")
        self.rig.wait_until(lambda s: s["axial"]["lock"]["cure"].find("`driftctl lock --resume --axes z` goes back there") >= 0,
                            "it may go back")
        self.resume(axes="z")
        self.assertAlmostEqual(self.place_z(), held, delta=3)

    def test_a_lock_without_drivers_warns_of_each(self):
        self.start(lock={"resume": "ask"})
        done = self.driftctl("lock", "--wait")
        self.assertEqual((done.returncode, done.stdout), (0, "state: locked\nz: locked\n"))
        self.assertEqual(done.stderr, "warning: no driver has reported for the stage\n"
                                      "warning: no driver has reported for the stage of z\n")


class ZAlone(Restarts):
    """A lock of z alone that may be gone back to."""

    def offer(self) -> None:
        self.start(lock={"resume": "ask"}, hold="false")
        self.rig.client.request("place", save="here")
        self.rig.client.request("lock", axes="z")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        self.rig.wait_until(lambda s: (s["interrupted"] or {}).get("moved_z_nm") is not None, "an offer")

    def check_that_it_is_forgotten(self, *arguments) -> None:
        self.offer()
        told = self.rig.subscribe("event")
        done = self.driftctl("lock", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"lock 1 of z, interrupted .* ago: forgotten\n")
        self.rig.wait_until(lambda s: s["interrupted"] is None, "no offer")
        self.assertRegex("\n".join(self.events(told, "lock_interrupted")), "lock 1 of z, .*: forgotten, another lock holds")

    def test_a_lock_of_x_and_y_says_that_it_is_forgotten(self):
        self.check_that_it_is_forgotten("--axes", "xy")

    def test_a_lock_at_a_place_says_that_it_is_forgotten(self):
        self.check_that_it_is_forgotten("--place", "here")

    def test_a_new_lock_of_z_says_that_it_is_forgotten(self):
        self.check_that_it_is_forgotten("--axes", "z")


class Places(Restarts):
    def save_and_leave(self, **axial) -> float:
        self.hold_all(**axial)
        self.rig.client.request("place", save="here")
        held = self.place_z()
        self.move_z(60)
        self.rig.client.request("unlock")
        self.rig.sleep(0.5)
        return held

    def test_who_waits_for_a_lock_at_a_place_waits_for_z(self):
        held = self.save_and_leave()
        told = self.rig.subscribe("event", "axial")
        self.rig.fault("hide_reflection", seconds=2)
        done = self.driftctl("lock", "--place", "here", "--wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^state: locked\nz: locked\n")
        self.assertIn("z: z is locked once x and y hold at the place `here`, and z is measured there\n", done.stderr)
        self.rig.sleep(3)
        self.assertAlmostEqual(self.place_z(), held, delta=3)
        order = [body.get("action", topic) for topic, body in told.drain() if topic == "axial" or body["code"] == "place"]
        self.assertLess(order.index("z_going"), order.index("reached"))
        self.assertIn("axial", order[:order.index("reached")])

    def test_who_waits_for_z_that_is_refused_is_told_why(self):
        self.save_and_leave()
        self.rig.fault("hide_reflection", seconds=9)
        told = self.rig.subscribe("event")
        done = self.driftctl("lock", "--place", "here", "--wait")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the lock of z is idle", done.stderr)
        self.assertIn("z is not locked at the place `here`: z is not measured from the place", done.stderr)
        self.rig.sleep(1)
        self.assertIn("x and y are at the place `here`, z is not locked there", self.events(told, "place"))

    def wait_at_place(self, **axial) -> float:
        held = self.save_and_leave(**axial)
        self.rig.fault("hide_reflection", seconds=6)
        self.assertIn("waits", self.rig.client.request("lock", place="here")[0]["z"])
        self.rig.wait_state("locked")
        return held

    def test_z_that_waits_at_a_place_waits_after_a_restart_too(self):
        held = self.wait_at_place(lock={"resume": "always"}, max_jump_nm=100)
        for end in (self.rig.daemon.kill, self.rig.daemon.stop):
            end()
            self.rig.start_daemon(self.file)
            self.rig.wait_until(lambda s: "at the place `here` once it is measured there" in s["axial"]["lock"]["cure"], "z waits")
        self.wait_z("locked")
        self.rig.sleep(2)
        self.assertAlmostEqual(self.place_z(), held, delta=3)

    def test_z_that_waited_at_a_place_is_offered_where_it_may_not_go_there_by_itself(self):
        held = self.wait_at_place(lock={"resume": "always"}, max_jump_nm=20, max_drift_nm_per_s=1)
        self.rig.daemon.kill()
        self.rig.start_daemon(self.file)
        self.rig.daemon.wait_for("z was to be locked at the place `here`, and is not: ")
        self.rig.wait_until(lambda s: "`driftctl lock --resume --axes z` goes back there" in s["axial"]["lock"]["cure"], "a way")
        self.resume(axes="z")
        self.assertAlmostEqual(self.place_z(), held, delta=3)

    def test_who_does_not_wait_is_told_that_z_waits(self):
        self.save_and_leave()
        self.rig.fault("hide_reflection", seconds=2)
        done = self.driftctl("lock", "--place", "here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("\nz: z is locked once x and y hold at the place `here`, and z is measured there\n", done.stdout)

    def test_who_leaves_z_out_waits_for_x_and_y(self):
        self.save_and_leave()
        self.rig.daemon.stop()
        self.start_daemon(hold="false")
        self.wait_seen()
        done = self.driftctl("lock", "--place", "here", "--wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("z stays as it is: axial.hold is false", done.stdout)


class ByWidths(Restarts, EitherWay):
    """Where z is read from the markers' widths, each of which has a reference of its own."""

    def start(self, lock=None, **axial) -> None:
        self.file = start_three_axes(self.rig, lock, **axial)
        self.wait_seen()


if __name__ == "__main__":
    sys.exit(unittest.main())
