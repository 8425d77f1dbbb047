# SPDX-License-Identifier: MIT
"""The program driftctl (its path in $DRIFTCTL): output, exit codes, and what it asks of driftd."""
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock

import plain_words
from fake_daemon import FakeDaemon, examples  # prints SKIPPED and exits without pyzmq

DONE, REFUSED, USAGE, UNREACHABLE, FAILED = range(5)


class Driftctl(unittest.TestCase):
    def setUp(self):
        self.daemon = FakeDaemon()
        self.addCleanup(self.daemon.close)
        self.daemon.replies = {
            "status": [{"ok": True, "status": examples()["status"]}],
            "lock": [{"ok": True, "state": "referencing"}],
            "access": [{"ok": True, "corrections": True, "ports": dict.fromkeys(("publish", "corrections"))}],
            "markers": [{"ok": True, "markers": examples()["markers"]["markers"]}],
        }
        self.endpoints = ["--commands", self.daemon.commands_endpoint,
                          "--publish", self.daemon.publish_endpoint,
                          "--corrections", self.daemon.corrections_endpoint]

    def run_it(self, *arguments):
        done = subprocess.run([os.environ["DRIFTCTL"], *self.endpoints, *arguments],
                              capture_output=True, text=True, timeout=60)
        if "--json" not in arguments:
            self.assertEqual(plain_words.identifiers(done.stdout + done.stderr, plain_words.option_names()), [])
        return done

    def start(self, *arguments):
        process = subprocess.Popen([os.environ["DRIFTCTL"], *self.endpoints, *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def until_heard(self, process):
        """Publishes frames without a position: a subscription arrives some time after the request."""
        end = time.monotonic() + 60
        while not self.daemon.requests and time.monotonic() < end:
            time.sleep(0.01)
        for _ in range(50):
            self.daemon.publish("position", valid=False)
            time.sleep(0.02)
        self.assertIsNone(process.poll())

    def test_what_is_too_long_for_a_command_is_said(self):
        """driftd would end the connection without a word."""
        places = [f"{100 + i}.25,{200 + i}.75" for i in range(200)]
        done = self.run_it("markers", "--add", *places)
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        self.assertIn("a command has at most 4096 bytes", done.stderr)
        self.assertEqual([r for r in self.daemon.requests if r["command"] == "markers"], [])

    def test_status_for_people_and_for_programs(self):
        shown = self.run_it("status")
        self.assertEqual(shown.returncode, DONE)
        self.assertIn("state       locked", shown.stdout)
        self.assertIn("p99 66", shown.stdout)
        self.assertNotIn("\033", shown.stdout)
        self.assertEqual(json.loads(self.run_it("--json", "status").stdout), examples()["status"])

    def test_status_shows_z_where_it_is_measured_and_nothing_of_it_elsewhere(self):
        flat = self.run_it("status").stdout
        self.assertNotIn("\nz ", flat)
        status = examples()["status"]
        axial = {"method": "astigmatic", "curve": "c.yaml", "valid": True, "reason": "measured", "text": "", "z_nm": -31.25,
                 "sd_nm": 1.5, "in_range": 13, "markers_used": 11, "markers_total": 13, "distance_from_crossing_nm": None,
                 "warning": ""}
        for told, shown in ((axial, "z               -31.250 nm   sd 1.500   11 of 13 markers\n"),
                            ({**axial, "valid": False, "reason": "out_of_range", "z_nm": None, "sd_nm": None},
                             "z           not measured\n            out of range\n")):
            self.daemon.replies["status"] = [{"ok": True, "status": {**status, "axial": told}}]
            self.assertIn("\n" + shown, self.run_it("status").stdout)
            self.assertEqual(json.loads(self.run_it("--json", "status").stdout)["axial"], told)

    def test_watch_of_a_daemon_from_before_there_were_roles(self):
        self.daemon.replies["access"] = [{"ok": False, "error": "unknown command", "code": "bad_request"}]
        process = self.start("watch")
        self.until_heard(process)

    def test_lock(self):
        done = self.run_it("lock")
        self.assertEqual((done.returncode, done.stdout), (DONE, "state: referencing\n"))
        self.assertEqual(self.daemon.requests, [{"command": "lock"}])

    def states(self, *states):
        """Sets the state in one `status` after the other; the last for good."""
        left = list(states)
        def reply():
            state, reason, cure, *more = left.pop(0) if len(left) > 1 else left[0]
            return [{"ok": True, "status": {**examples()["status"], "state": state, "reason": reason, "cure": cure,
                                            **(more[0] if more else {})}}]
        self.daemon.replies["status"] = reply

    def test_lock_waits_until_it_is_locked(self):
        self.states(("referencing", "lock_commanded", ""), ("holding", "too_few_markers", "see light"),
                    ("holding", "too_few_markers", "see light"), ("locked", "recovered", ""))
        done = self.run_it("lock", "--wait")
        self.assertEqual((done.returncode, done.stdout), (DONE, "state: locked\n"))
        self.assertEqual(done.stderr, "holding (too few markers): see light\n")
        self.assertEqual([r["command"] for r in self.daemon.requests], ["lock"] + 4 * ["status"])

    def test_what_takes_long_is_told_while_waiting(self):
        slow = {"camera": {**examples()["status"]["camera"], "rate_hz": 5.04}}
        self.states(("referencing", "lock_commanded", "", {**slow, "reference_frames_left": 66}),
                    ("referencing", "lock_commanded", "", {**slow, "reference_frames_left": 64}),
                    ("locked", "reference_taken", "", slow))
        done = self.run_it("lock", "--wait")
        self.assertEqual((done.returncode, done.stdout), (DONE, "state: locked\n"))
        self.assertEqual(done.stderr, "referencing: 66 good frames are needed, 14 s at 5.04 frames/s\n")
        self.states(("referencing", "lock_commanded", "", {"reference_frames_left": 66}),
                    ("locked", "reference_taken", ""))  # a moment, at 500 frames/s
        self.assertEqual(self.run_it("lock", "--wait").stderr, "")

    def test_a_hold_is_told_once_whatever_its_numbers_do(self):
        self.states(("holding", "implausible_jump", "the sample is 61.2 nm from"),
                    ("holding", "implausible_jump", "the sample is 61.3 nm from"), ("locked", "recovered", ""))
        self.assertEqual(self.run_it("lock", "--wait").stderr,
                         "holding (implausible jump): the sample is 61.2 nm from\n")

    def test_a_lock_that_is_lost_while_waiting_says_for_what_it_was_held_and_the_way_back(self):
        offer = {**examples()["interrupted"], "text": "lock 1, lost 0.1 s ago: no frame shows it now"}
        self.states(("lost", "held_too_long", "see the camera's power", {"held_for": "no_frames", "interrupted": offer}))
        self.assertEqual(self.run_it("lock", "--wait").stderr,
                         "driftctl: the lock is lost (held too long: no frames): see the camera's power; "
                         "lock 1, lost 0.1 s ago: no frame shows it now\n")

    def test_what_holds_a_lock_by_now_is_told_while_waiting_and_what_did_at_first(self):
        self.states(("holding", "too_few_markers", "see light"),
                    ("holding", "no_frames", "see the camera", {"held_first": "too_few_markers"}),
                    ("lost", "held_too_long", "see its cable",
                     {"held_for": "no_frames", "held_first": "too_few_markers"}))
        self.assertEqual(self.run_it("lock", "--wait").stderr,
                         "holding (too few markers): see light\n"
                         "holding (no frames, at first too few markers): see the camera\n"
                         "driftctl: the lock is lost (held too long: no frames, at first too few markers): "
                         "see its cable\n")

    def test_a_move_that_a_loss_ends_says_what_the_lock_was_lost_by(self):
        self.daemon.replies["move"] = [{"ok": True, "move": 1, "x_nm": 5.0, "y_nm": 0.0, "speed_nm_per_s": 90.0,
                                        "duration_s": 0.1, "state": "locked", "lock_id": 1}]
        gone = {"move": {**examples()["status"]["move"], "phase": "unlocked"}, "held_for": "no_frames"}
        self.states(("lost", "held_too_long", "see its cable", gone))
        done = self.run_it("move", "5", "0", "--wait")
        self.assertEqual(done.stderr, "driftctl: the move is over; the lock is lost (held too long: no frames): "
                                      "see its cable\n")

    def test_restart_waits_for_the_next_session_and_loses_nothing_unasked(self):
        told = {"ok": True, "loses": ["the exposure of 700 us"], "stays_unlocked": False}
        stopping = {"ok": False, "error": "driftd is stopping", "code": "stopping"}
        left = [stopping, stopping, {"ok": True, "status": examples()["status"]}]
        self.daemon.replies |= {"restart": [told], "status": lambda: [left.pop(0)]}
        done = self.run_it("restart")
        self.assertEqual((done.returncode, [r.get("check") for r in self.daemon.requests]), (REFUSED, [True]), done.stderr)
        self.assertRegex(done.stderr, "not restarted: the exposure of 700 us would be lost .* --yes")
        done = self.run_it("restart", "--yes")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (DONE, "driftd has started anew"), done.stderr)
        self.assertEqual(left, [])
        left[:] = [{"ok": False, "error": "this key is not let in", "code": "forbidden"}]
        self.assertEqual(self.run_it("restart", "--yes").returncode, REFUSED)

    def z_states(self, *locks):
        """Sets the lock of z in one `status` after the other, x and y locked; the last for good."""
        lock = {"state": "locked", "reason": "reference_taken", "cure": "", "held_for": "none", "held_first": "none", "lock_id": 2,
                "gate": {"in_lock": True, "reason": "in_lock", "residual_z_nm": 0.5, "tolerance_nm": 5},
                "move": {"move": 3, "phase": "resting", "moving": False, "ended": "done", "z_nm": 50.0}}
        self.states(*(("locked", "reference_taken", "", {"axial": {"method": "astigmatic", "lock": {**lock, **changes}}})
                      for changes in locks))

    def test_z_is_locked_and_unlocked_by_its_axis(self):
        self.daemon.replies |= {"lock": [{"ok": True, "state": "referencing"}], "unlock": [{"ok": True, "state": "idle"}]}
        self.assertEqual(self.run_it("lock", "--axes", "z").stdout, "z: referencing\n")
        self.assertEqual(self.run_it("unlock", "--axes", "z").stdout, "z: idle\n")
        self.daemon.replies["lock"] = [{"ok": True, "state": "referencing", "lock_id": 3, "z": {"state": "referencing", "lock_id": 4}}]
        self.assertEqual(self.run_it("lock", "--axes", "xyz").stdout, "state: referencing\nz: referencing\n")
        self.assertEqual(self.daemon.requests, [{"command": "lock", "axes": "z"}, {"command": "unlock", "axes": "z"},
                                                {"command": "lock", "axes": "xyz"}])
        for axes in ("yz", "", "XY"):
            self.assertEqual(self.run_it("lock", "--axes", axes).returncode, USAGE)

    def test_the_locks_that_were_ordered_are_waited_for(self):
        self.daemon.replies["lock"] = [{"ok": True, "state": "referencing", "lock_id": 2}]
        dark = {"state": "holding", "reason": "z_not_measured", "cure": "see light"}
        self.z_states({"state": "referencing"}, dark, dark, {})
        done = self.run_it("lock", "--wait", "--axes", "z")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (DONE, "z: locked\n", "z: holding (z not measured): see light\n"))
        # x and y alone, whatever z does; z, too, where the daemon has ordered both, or z alone as x and y hold already.
        self.daemon.replies["lock"] = [{"ok": True, "state": "referencing", "lock_id": 1}]
        self.z_states(dark)
        self.assertEqual(self.run_it("lock", "--wait", "--axes", "xy").returncode, DONE)
        self.assertEqual(self.run_it("lock", "--wait").returncode, DONE)
        for reply in ({"lock_id": 1, "z": {"state": "referencing", "lock_id": 2}}, {"lock_id": 2}):
            self.daemon.replies["lock"] = [{"ok": True, "state": "referencing", **reply}]
            self.z_states({"state": "lost", "reason": "held_too_long", "held_for": "z_not_measured", "cure": "see light"})
            done = self.run_it("lock", "--wait")
            self.assertEqual((done.returncode, done.stderr),
                             (REFUSED, "driftctl: the lock of z is lost (held too long: z not measured): see light\n"))
        self.daemon.replies["lock"] = [{"ok": True, "state": "referencing", "lock_id": 1, "z": {"refused": "there is no z"}}]
        done = self.run_it("lock", "--axes", "xyz")
        self.assertEqual((done.returncode, done.stderr),
                         (REFUSED, "driftctl: x and y: referencing; z is not locked: there is no z\n"))

    def test_who_waits_takes_a_lock_of_z_that_is_under_way(self):
        self.daemon.replies["lock"] = [{"ok": False, "error": "the lock of z is `locked` already", "code": "refused"}]
        self.z_states({})
        done = self.run_it("lock", "--wait", "--axes", "z")
        self.assertEqual((done.returncode, done.stderr),
                         (DONE, "lock 2 of z is locked already; for a new reference `driftctl unlock` first\n"))
        self.z_states({"state": "idle"})
        self.assertEqual(self.run_it("lock", "--wait", "--axes", "z").returncode, REFUSED)
        self.daemon.replies["status"] = [{"ok": True, "status": examples()["status"]}]  # z is measured nowhere
        self.assertEqual(self.run_it("lock", "--wait", "--axes", "xyz").returncode, REFUSED)

    def test_z_that_is_to_be_held_is_waited_for_without_being_named(self):
        held = {"state": "holding", "reason": "z_not_measured", "cure": "see light", "hold": True}
        self.daemon.replies["lock"] = [{"ok": False, "error": "the lock is `locked` already", "code": "refused"}]
        self.z_states(held, held, held, {"hold": True})
        done = self.run_it("lock", "--wait")
        self.assertEqual((done.returncode, done.stdout), (DONE, "state: locked\nz: locked\n"))
        self.assertRegex(done.stderr, r"lock \d+ is locked already.*\nlock 2 of z is holding already.*\n"
                                      r"z: holding \(z not measured\): see light\n")
        self.z_states({**held, "state": "idle"})  # and cannot be locked
        self.daemon.replies["lock"] = [{"ok": False, "error": "z is not calibrated", "code": "refused"}]
        done = self.run_it("lock", "--wait")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (REFUSED, "", "driftctl: x and y: locked; z is not locked: z is not calibrated\n"))
        # x and y were ordered alone, as z is locked.
        self.daemon.replies["lock"] = [{"ok": True, "state": "referencing", "lock_id": 1, "axes": "xy"}]
        self.z_states({"state": "lost", "reason": "held_too_long", "held_for": "z_not_measured", "cure": "see light", "hold": True})
        self.assertEqual(self.run_it("lock", "--wait").returncode, REFUSED)
        self.assertEqual(self.run_it("lock", "--wait", "--axes", "xy").stdout, "state: locked\n")
        self.z_states({"hold": True})
        self.assertEqual(self.run_it("lock", "--wait").stdout, "state: locked\nz: locked\n")

    def test_reset_tells_of_the_lock_that_stays_too(self):
        self.daemon.replies["reset"] = [{"ok": True, "state": "idle", "axes": "z", "xy": {"state": "locked"}}]
        self.assertEqual(self.run_it("reset").stdout, "state: locked\nz: idle\n")
        self.daemon.replies["reset"] = [{"ok": True, "state": "idle", "z": {"state": "locked"}}]
        self.assertEqual(self.run_it("reset").stdout, "state: idle\nz: locked\n")

    def test_z_is_moved_alone_and_with_x_and_y(self):
        begun = {"ok": True, "move": 3, "z_nm": 50.0, "speed_nm_per_s": 900.0, "duration_s": 0.06}
        self.daemon.replies["move"] = [begun]
        self.z_states({"move": {"move": 3, "phase": "moving", "moving": True, "ended": "", "z_nm": 20.0}}, {})
        done = self.run_it("move", "--z", "50", "--wait")
        self.assertEqual((done.returncode, done.stdout), (DONE, "move 3: to z 50.0 nm in 0.060 s, at most 900 nm/s; in lock\n"))
        self.daemon.replies["move"] = [{"ok": True, "move": 2, "x_nm": 1.0, "y_nm": -2.0, "speed_nm_per_s": 900.0, "duration_s": 0.02, "z": begun}]
        self.assertIn("to x 1.0, y -2.0, z 50.0 nm", self.run_it("move", "1", "-2", "--dz", "-3").stdout)
        self.assertEqual([r for r in self.daemon.requests if r["command"] == "move"],
                         [{"command": "move", "z_nm": 50.0}, {"command": "move", "dx_nm": 1, "dy_nm": -2, "dz_nm": -3}])
        for wrong in (["--z", "1", "--dz", "1"], ["--z", "nan"], ["--z", "1", "--home"], []):
            self.assertEqual(self.run_it("move", *wrong).returncode, USAGE, wrong)

    def test_who_waits_tries_again_while_another_order_is_under_way(self):
        busy = {"ok": False, "error": "another order to the lock is under way", "code": "busy"}
        left = [busy, busy, {"ok": True, "state": "referencing", "lock_id": 1}]
        self.daemon.replies["lock"] = lambda: [left.pop(0)]
        self.states(("locked", "reference_taken", ""))
        done = self.run_it("lock", "--wait")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (DONE, "state: locked\n", ""))
        left[:] = [busy]
        self.assertEqual(self.run_it("lock").stderr, "driftctl: another order to the lock is under way\n")

    def test_who_waits_takes_a_lock_that_is_under_way(self):
        refused = [{"ok": False, "error": "the lock is `referencing` already", "code": "refused"}]
        self.daemon.replies["lock"] = refused
        told = "lock 1 is {} already; for a new reference `driftctl unlock` first\n"
        for state, reason in (("referencing", "lock_commanded"), ("holding", "no_frames"), ("locked", "recovered")):
            self.states((state, reason, ""), ("locked", "reference_taken", ""))
            done = self.run_it("lock", "--wait")
            self.assertEqual((done.returncode, done.stdout), (DONE, "state: locked\n"))
            self.assertEqual(done.stderr, told.format(state))
        for arguments in (["lock"], ["lock", "--resume", "--wait"]):  # another order than the one under way
            self.assertEqual(self.run_it(*arguments).returncode, REFUSED)
        for state in ("idle", "fault", "calibrating"):
            self.states((state, "none", ""))
            self.assertEqual(self.run_it("lock", "--wait").stderr, "driftctl: the lock is `referencing` already\n")

    def test_unlock_says_what_cannot_be_gone_back_to_any_more(self):
        self.daemon.replies["unlock"] = [{"ok": True, "state": "idle", "forgotten": "lock 3, lost 5.0 s ago"}]
        self.assertEqual(self.run_it("unlock").stdout, "state: idle\nlock 3, lost 5.0 s ago: forgotten\n")

    def test_markers_that_no_frame_shows_now_are_told_so(self):
        markers = examples()["markers"]["markers"]
        self.daemon.replies["markers"] = [{"ok": True, "markers": markers, "outdated_s": 12.34}]
        self.assertEqual(self.run_it("markers").stdout.splitlines()[-1],
                         "as they were 12.3 s ago: no frame has shown them since")

    def test_markers_that_were_looked_for_tell_of_a_lock_to_go_back_to(self):
        self.daemon.replies["markers"] = [{"ok": True, "markers": examples()["markers"]["markers"], "rejected": [],
                                           "offer": "lock 3, lost 5.0 s ago: its markers are not in the image"}]
        self.assertEqual(self.run_it("markers", "--find").stdout.splitlines()[-1],
                         "lock 3, lost 5.0 s ago: its markers are not in the image")

    def test_lock_that_is_refused_while_waiting_says_why(self):
        for state, reason in (("idle", "reference_timeout"), ("lost", "held_too_long"), ("fault", "internal_fault")):
            self.states(("referencing", "lock_commanded", ""), (state, reason, "see light and focus"))
            done = self.run_it("lock", "--wait")
            self.assertEqual((done.returncode, done.stdout), (REFUSED, ""))
            words = reason.replace("_", " ")
            self.assertEqual(done.stderr, f"driftctl: the lock is {state} ({words}): see light and focus\n")

    def test_markers_that_were_rejected_are_a_list_for_people(self):
        self.daemon.replies["markers"] = [{"ok": True, "markers": examples()["markers"]["markers"], "rejected": [
            {"x_px": 10.25, "y_px": 200.5, "reason": "SNR 4.2 below 10"}]}]
        shown = self.run_it("markers", "--find").stdout.splitlines()
        self.assertEqual(shown[-2:], ["1 other spot is no marker:", "     10.2     200.5 px  SNR 4.2 below 10"])

    def test_markers(self):
        done = self.run_it("markers", "--find")
        self.assertEqual(done.returncode, DONE)
        self.assertIn("tracking good", done.stdout)
        self.assertEqual(self.daemon.requests, [{"command": "markers", "find": True}])

    def test_markers_are_chosen_as_one_request(self):
        chosen = {**examples()["markers_chosen"], "too_few": "2 tracking markers are chosen, and a lock needs 3 (drift.min_markers)"}
        self.daemon.replies["markers"] = [chosen]
        done = self.run_it("markers", "--add", "101.2,55.9", "-3,4e1", "--remove", "3", "7", "--witness", "2")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertEqual(self.daemon.requests, [{"command": "markers", "add": [
            {"x_px": 101.2, "y_px": 55.9}, {"x_px": -3, "y_px": 40}], "remove": [3, 7], "witness": [2]}])
        self.assertEqual(done.stdout.splitlines()[-2:], [
            "chosen by command, until `driftctl markers --find` or a restart", chosen["too_few"]])
        for wrong in (["--add", "1"], ["--add", "1,"], ["--add", "1,2,3"], ["--add", "x,2"], ["--remove", "-1"], ["--remove", "a"],
                      ["--find", "--tracking", "1"], ["--find", "--write"], ["--write"]):
            self.assertEqual(self.run_it("markers", *wrong).returncode, USAGE, wrong)
        self.assertEqual(len(self.daemon.requests), 1)

    def test_exposure_is_printed_and_set(self):
        self.daemon.replies["exposure"] = [examples()["exposure"]]
        done = self.run_it("exposure")
        self.assertEqual(done.stdout.splitlines(), ["exposure: 800 us (10 to 1900)", "gain: 6 dB (0 to 24)", "frame rate: 500 Hz"])
        self.run_it("exposure", "--exposure-us", "800", "--gain-db", "-1.5")
        self.assertEqual(self.daemon.requests, [{"command": "exposure"},
                                                {"command": "exposure", "exposure_us": 800, "gain_db": -1.5}])
        without = {**examples()["exposure"]["exposure"], "gain_db": None, "gain_range_db": None, "exposure_range_us": None}
        self.daemon.replies["exposure"] = [{"ok": True, "exposure": without}]
        self.assertEqual(self.run_it("exposure").stdout.splitlines()[:2],
                         ["exposure: 800 us, and cannot be set", "gain: not told by the camera"])
        for wrong in (["--exposure-us", "0"], ["--exposure-us", "nan"], ["--gain-db", "61"], ["--write"]):
            self.assertEqual(self.run_it("exposure", *wrong).returncode, USAGE, wrong)

    def test_a_refusal_is_said(self):
        done = self.run_it("unlock")
        self.assertEqual(done.returncode, REFUSED)
        self.assertEqual(done.stderr, "driftctl: not in this state\n")

    def test_a_reply_that_is_not_of_the_protocol(self):
        self.daemon.replies["lock"] = [{"ok": True}]
        done = self.run_it("lock")
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn("docs/reference/protocol.md", done.stderr)

    def test_nobody_there(self):
        self.endpoints = ["--commands", "ipc:///tmp/driftd-nobody-listens-here",
                          "--publish", "ipc:///tmp/driftd-nobody-listens-here"]
        for command in ("status", "watch"):
            done = self.run_it("--timeout", "0.1", command)
            self.assertEqual(done.returncode, UNREACHABLE)
            self.assertIn("is it running?", done.stderr)

    def test_an_instance_has_a_folder_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(os.environ, RUNTIME_DIRECTORY=folder):
            self.endpoints = []
            done = self.run_it("--instance", "lab-2", "status")
            self.assertEqual(done.returncode, UNREACHABLE)
            self.assertIn(f"nobody listens at ipc://{folder}/lab-2/commands", done.stderr)
            done = self.run_it("--instance", "lab-2", "--commands", f"ipc://{folder}/other", "status")
            self.assertIn(f"nobody listens at ipc://{folder}/other", done.stderr)  # as it was given
        for name in ("../lab", "", "a/b", ".."):
            done = self.run_it("--instance", name, "status")
            self.assertEqual(done.returncode, USAGE, name)
        self.assertIn("not the name of an instance", done.stdout + done.stderr)

    def test_wrong_usage(self):
        for arguments in ([], ["dance"], ["snapshot"], ["watch", "--for", "-1"]):
            self.assertEqual(self.run_it(*arguments).returncode, USAGE, arguments)
        for option in (("--timeout", "nan", "status"), ("watch", "--for", "nan")):
            done = self.run_it(*option)
            self.assertEqual(done.returncode, USAGE, option)
            self.assertIn("nan is not in the range 0.001 to 1", done.stdout + done.stderr)
        self.assertIn("Exit codes", self.run_it("--help").stdout)

    def test_measure(self):
        process = self.start("measure", "100")
        self.until_heard(process)
        for frame in range(1, 200):
            self.daemon.publish("position", frame_id=frame, frame_y_nm=0, frame_x_nm=0.01 * frame,
                                arrival_ns=2_000_000 * frame, frame_z_nm=None, z_sd_nm=None)
        self.daemon.publish("markers")
        time.sleep(2)
        process.send_signal(signal.SIGINT)  # what has come is told
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (DONE, ""))
        self.assertIn("199 frames at 500.0 Hz", output)
        self.assertIn("300.00     0.00 nm/min", output)

    def test_measure_with_z(self):
        process = self.start("--json", "measure", "100")
        self.until_heard(process)
        for frame in range(1, 200):
            self.daemon.publish("position", frame_id=frame, frame_y_nm=0, frame_x_nm=0, arrival_ns=2_000_000 * frame,
                                **dict.fromkeys(("z_nm", "frame_z_nm"), None if frame % 4 == 0 else 0.02 * frame),
                                z_sd_nm=None if frame % 4 == 0 else 2.5)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        told = json.loads(process.communicate(timeout=60)[0])
        self.assertAlmostEqual(told["z"]["drift_nm_per_min"], 600, places=6)
        self.assertEqual(told["z"]["promised_noise_nm"], 2.5)
        self.assertAlmostEqual(told["z_missing_share"], 49 / 199)

    def test_measure_of_nothing_says_what_may_be_missing(self):
        done = self.run_it("measure", "0.2")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("0 frames with a position came, and 64 are needed", done.stderr)

    def test_measure_over_a_restart_is_refused(self):
        process = self.start("measure", "100")
        self.until_heard(process)
        self.daemon.publish("position", frame_id=2, session="another")
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, FAILED)
        self.assertIn("driftd was restarted meanwhile: measure again", errors)

    def test_what_is_no_endpoint_to_connect_to_is_wrong_usage(self):
        self.endpoints = []
        for endpoint in ("tcp://127.0.0.1:*", "tcp://127.0.0.1", "tcp://:5000", "tcp://127.0.0.1:0",
                         "tcp://127.0.0.1:65536", "tcp://127.0.0.1:50x", "ipc://", "ipc:///", "garbage"):
            done = self.run_it("--commands", endpoint, "status")
            self.assertEqual(done.returncode, USAGE, endpoint)
            self.assertIn(f"`{endpoint}` cannot be connected to", done.stderr)

    def test_localhost_is_found(self):
        with FakeDaemon("tcp://127.0.0.1") as daemon:
            daemon.replies = self.daemon.replies
            port = daemon.commands_endpoint.rpartition(":")[2]
            self.endpoints = ["--commands", f"tcp://localhost:{port}"]
            done = self.run_it("lock")
        self.assertEqual((done.returncode, done.stderr), (DONE, ""))

    def test_a_camera_is_calibrated_only_where_there_is_one(self):
        status = examples()["status"]
        status["camera"].update(description=None, pixel_format=None, connected=False, problem="no camera found")
        self.daemon.replies["status"] = [{"ok": True, "status": status}]
        done = self.run_it("calibrate", "camera")
        self.assertEqual((done.returncode, done.stderr),
                         (FAILED, "driftctl: no camera is connected to driftd: no camera found\n"))

    def test_the_file_of_another_camera_is_not_written(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "driftd.yaml")
            with open(file, "w", encoding="utf-8") as text:
                text.write("camera:\n  id: 127.0.0.9\n")
            done = self.run_it("--config", file, "calibrate", "camera", "--write", "--yes")
            self.assertEqual(done.returncode, FAILED)
            self.assertIn("camera.id is 127.0.0.9 there, and driftd's camera is driftd simulator SIM01 127.0.0.1; "
                          "nothing was written", done.stderr)
            self.assertEqual(os.listdir(folder), ["driftd.yaml"])
            self.assertEqual([request["command"] for request in self.daemon.requests], ["status"])

    def test_snapshot(self):
        frame = {"frame_id": 5, "width_px": 64, "height_px": 32, "offset_x_px": 0,
                 "offset_y_px": 0, "bits": 12,
                 "rois": [{"id": 1, "role": "tracking", "health": "good",
                           "x_px": 10, "y_px": 10, "side_px": 9}]}
        self.daemon.replies["snapshot"] = [{"ok": True, "frame": frame}, bytes(64 * 32 * 2)]
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "frame.png")
            done = self.run_it("snapshot", file)
            self.assertEqual(done.returncode, DONE, done.stderr)
            with open(file, "rb") as png:
                self.assertEqual(png.read(8), b"\x89PNG\r\n\x1a\n")
            self.assertEqual(self.run_it("snapshot", folder + "/no/frame.png").returncode, FAILED)
            asked = len(self.daemon.requests)
            for name in "frame.jpg", "frame", "frame.tif", ".png", "png":
                done = self.run_it("snapshot", os.path.join(folder, name))
                self.assertEqual(done.returncode, USAGE, name)
                self.assertIn("does not end in .png, and a PNG is what is written", done.stderr)
            self.assertEqual(self.run_it("snapshot", os.path.join(folder, "b.PNG")).returncode, DONE)
            self.assertEqual(len(self.daemon.requests), asked + 1)
            self.assertEqual(sorted(os.listdir(folder)), ["b.PNG", "frame.png"])

    def keep_publishing(self):
        """Publishes position and status at 50 Hz until the test is over."""
        stop = threading.Event()

        def publish():
            seq = 0
            while not stop.wait(0.02):
                self.daemon.publish("position", seq=seq, session="a")
                self.daemon.publish("status", seq=seq, session="a")
                seq += 1

        thread = threading.Thread(target=publish)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)

    def test_watch_prints_plain_lines_into_a_pipe(self):
        self.keep_publishing()
        done = self.run_it("watch", "--for", "1.5")
        self.assertEqual(done.returncode, DONE)
        self.assertIn("locked", done.stdout)
        self.assertIn("+0.41    -0.09 nm", done.stdout)
        self.assertNotIn("\033", done.stdout)

    def test_watch_gives_programs_every_message(self):
        self.keep_publishing()
        lines = self.run_it("--json", "watch", "--for", "3").stdout.splitlines()
        topics = {line.split(" ", 1)[0] for line in lines}
        self.assertEqual(topics, {"position", "status"})
        for line in lines:
            json.loads(line.split(" ", 1)[1])

    def test_watch_ends_well_on_ctrl_c(self):
        process = subprocess.Popen([os.environ["DRIFTCTL"], *self.endpoints, "watch"],
                                   stdout=subprocess.PIPE, text=True)
        process.stdout.readline()  # it shows the status before anything is published
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, DONE)


if __name__ == "__main__":
    unittest.main()
