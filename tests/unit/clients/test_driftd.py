# SPDX-License-Identifier: MIT
"""clients/python against a publisher and a command socket that follow docs/reference/protocol.md."""
import json
import pathlib
import re
import tempfile
import time
import unittest
import unittest.mock

from fake_daemon import FakeDaemon, examples  # prints SKIPPED and exits without pyzmq

import driftd


class WithDaemon(unittest.TestCase):
    def setUp(self):
        self.daemon = FakeDaemon()
        self.addCleanup(self.daemon.close)

    def subscribe(self, topics, **options):
        """A subscription that is known to have reached the publisher."""
        endpoints = driftd.Endpoints(self.daemon.publish_endpoint, self.daemon.corrections_endpoint)
        subscription = driftd.subscribe(endpoints, topics, **options)
        self.addCleanup(subscription.close)
        for _ in range(200):
            self.daemon.publish(list(topics)[0], session="warming up", seq=0)
            try:
                subscription.receive(0.02)
                break
            except TimeoutError:
                pass
        try:
            while True:
                subscription.receive(0.05)
        except TimeoutError:
            return subscription


class Places(unittest.TestCase):
    def test_endpoints_are_those_of_the_file_and_its_drop_ins(self):
        try:
            import yaml  # noqa: F401
        except ImportError:
            self.skipTest("SKIPPED: python3-yaml is not installed")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "lab.yaml"
            file.write_text("wire: {publish: 'ipc://a', commands: 'ipc://c'}\n")
            self.assertEqual(driftd.endpoints(file), driftd.Endpoints("ipc://a", driftd.Endpoints().corrections, "ipc://c"))
            drop_ins = pathlib.Path(f"{file}.d")
            drop_ins.mkdir()
            for name, text in (("b.yaml", "wire: {commands: ['tcp://*:1', 'ipc://d']}\n"), ("a.yaml", "wire: {commands: x}\n"),
                               (".c.yaml", "wire: {publish: x}\n"), ("c.yml", "wire: {publish: x}\n"), ("z.yaml", "")):
                (drop_ins / name).write_text(text)
            self.assertEqual(driftd.endpoints(str(file)),
                             driftd.Endpoints("ipc://a", driftd.Endpoints().corrections, "ipc://d"))
            for wrong in (b"wire: {publish: [", b"- wire", b"wire: ipc://a", b"wire: {publish: 5}", b"wire: {publish: }",
                          b"wire: {publish: []}", b"wire: {publish: [5]}", b"# \xff\n"):
                (drop_ins / "y.yaml").write_bytes(wrong)
                with self.assertRaisesRegex(ValueError, f"^{re.escape(str(drop_ins))}/y.yaml: "):
                    driftd.endpoints(file)


class Subscribing(WithDaemon):
    def test_yields_topic_and_message(self):
        subscription = self.subscribe(["position", "status"])
        self.daemon.publish("position")
        self.daemon.publish("correction")  # not subscribed to
        self.daemon.publish("status")
        topic, message = next(subscription)
        self.assertEqual((topic, message), ("position", examples()["position"]))
        self.assertEqual(next(subscription)[0], "status")

    def test_counts_what_is_missing(self):
        subscription = self.subscribe(["position"])
        for seq in (10, 11, 15):
            self.daemon.publish("position", seq=seq, session="a")
        self.assertEqual([next(subscription)[1].lost for _ in range(3)], [0, 0, 3])
        self.assertEqual(subscription.lost, 3)

    def test_tells_a_restart_from_a_loss(self):
        subscription = self.subscribe(["position"])
        for seq, session in ((10, "a"), (90, "b"), (91, "b")):
            self.daemon.publish("position", seq=seq, session=session)
        messages = [next(subscription)[1] for _ in range(3)]
        # The first comes after the messages of the subscribing, which are another session.
        self.assertEqual([m.restarted for m in messages], [True, True, False])
        self.assertEqual(subscription.lost, 0)

    def test_newest_only_skips_to_the_last(self):
        subscription = self.subscribe(["correction"], newest_only=True)
        for seq in range(50):
            self.daemon.publish("correction", seq=seq, session="a")
        self.daemon.publish("correction", seq=50, session="a")
        seen = []
        while not seen or seen[-1] != 50:
            seen.append(subscription.receive(60)[1]["seq"])
        self.assertLess(len(seen), 51)
        self.assertEqual(subscription.lost, 0)

    def test_silence_ends_by_a_timeout(self):
        subscription = self.subscribe(["position"], timeout_s=0.05)
        with self.assertRaises(TimeoutError):
            next(subscription)

    def test_what_is_no_message_of_the_protocol_is_a_value_error(self):
        subscription = self.subscribe(["position"])
        for data in (b"position x", b"position []", b"position null", b"position {}", b"position \xff",
                     b'position {"session":"a"}', b'position {"seq":1}',
                     b'position {"session":1,"seq":1}', b'position {"session":"a","seq":"1"}'):
            self.daemon.publish_bytes(data)
            with self.assertRaises(ValueError, msg=data):
                subscription.receive(60)
        self.daemon.publish("position", seq=7, session="a")
        self.assertEqual(subscription.receive(60)[1]["seq"], 7)

    def test_wrong_topics_are_refused(self):
        for topics, options in ((["weather"], {}), ([], {}),
                                (["position", "status"], {"newest_only": True})):
            with self.assertRaises(ValueError):
                driftd.subscribe(self.daemon.publish_endpoint, topics, **options)


class ReceivingCorrections(WithDaemon):
    def setUp(self):
        super().setUp()
        self.corrections = driftd.Corrections(self.daemon.corrections_endpoint)
        self.addCleanup(self.corrections.close)
        for _ in range(200):
            self.send()
            try:
                self.corrections.receive(0.02)
                break
            except TimeoutError:
                pass
        try:
            while True:
                self.corrections.receive(0.2)
        except TimeoutError:
            pass

    def send(self, left_ns=10**10, **changes):
        self.daemon.publish("correction", **{"session": "a", "lock_id": 3,
                                             "expires_ns": time.monotonic_ns() + left_ns, **changes})

    def test_a_timeout_says_what_came_and_was_ignored(self):
        with self.assertRaisesRegex(TimeoutError, "no correction to carry out for 0.1 s; 0 came"):
            self.corrections.receive(0.1)
        self.send(left_ns=-1)
        with self.assertRaisesRegex(TimeoutError, "for 1.0 s; 1 came and were ignored"):
            self.corrections.receive(1.0)
        self.send(lock_id=2)
        with self.assertRaisesRegex(TimeoutError, "for 1.0 s; 1 came and were ignored"):
            self.corrections.receive(1.0)
        self.assertEqual(self.corrections.ignored, 2)
        self.send(lock_id=4)
        self.assertEqual(self.corrections.receive(60)["lock_id"], 4)

    def test_what_is_no_correction_is_a_value_error(self):
        for changes in ({"expires_ns": None}, {"expires_ns": "soon"}, {"lock_id": None}, {"lock_id": []}):
            self.send(**changes)
            with self.assertRaises(ValueError, msg=changes):
                self.corrections.receive(60)


class ReceivingCorrectionsOfZ(WithDaemon):
    def send(self, topic, lock_id=1, **changes):
        self.daemon.publish_bytes(topic.encode() + b" " + json.dumps(
            {"v": 1, "seq": 0, "session": "a", "lock_id": lock_id, "expires_ns": time.monotonic_ns() + 10**10,
             **changes}).encode())

    def test_each_group_has_its_own_and_no_lock_of_the_other_replaces_it(self):
        xy, z = (driftd.Corrections(self.daemon.corrections_endpoint, axes) for axes in ("xy", "z"))
        for corrections, topic in ((xy, "correction"), (z, "axial")):
            self.addCleanup(corrections.close)
            for _ in range(200):
                self.send(topic)
                try:
                    corrections.receive(0.02)
                    break
                except TimeoutError:
                    pass
        for corrections in (xy, z):
            with self.assertRaises(TimeoutError):
                while True:
                    corrections.receive(0.2)
        self.send("axial", 7, total_z_nm=12.5)
        self.send("correction", 3, total_x_nm=1.0)
        self.assertEqual(z.receive(60)["total_z_nm"], 12.5)
        self.send("axial", 6, total_z_nm=99.0)  # of a lock that another replaced
        with self.assertRaisesRegex(TimeoutError, "1 came and were ignored"):
            z.receive(1.0)
        self.assertEqual(xy.receive(60)["total_x_nm"], 1.0)
        with self.assertRaisesRegex(ValueError, "allowed are xy, z"):
            driftd.Corrections(self.daemon.corrections_endpoint, "xyz")


class Finding(unittest.TestCase):
    def test_what_is_no_endpoint_to_connect_to_is_a_value_error(self):
        for endpoint in ("tcp://127.0.0.1:*", "tcp://127.0.0.1", "tcp://:5000", "tcp://127.0.0.1:0",
                         "tcp://127.0.0.1:65536", "tcp://127.0.0.1:50x", "ipc://", "ipc:///", "garbage"):
            for use in (driftd.find_endpoint, lambda e: driftd.Client(e).status(), driftd.Corrections):
                with self.assertRaisesRegex(ValueError, "cannot be connected to", msg=endpoint):
                    use(endpoint)
        for endpoint in ("tcp://127.0.0.1:1", "tcp://localhost:65535", "ipc:///tmp/x"):
            self.assertEqual(driftd.find_endpoint(endpoint), endpoint)

    def test_runtime_directories_are_absolute(self):
        for systemd, session, expected in (
                ("/run/a:/run/b", "/run/user/1", ["/run/a"]),
                ("run/a", "/run/user/1", ["/run/driftd", "/run/user/1/driftd"]),
                ("", "user/1", ["/run/driftd"])):
            with unittest.mock.patch.dict("os.environ", RUNTIME_DIRECTORY=systemd, XDG_RUNTIME_DIR=session):
                folders = [f for f in driftd.runtime_directories() if not f.startswith("/tmp/")]
            self.assertEqual(folders, expected)


class Commanding(WithDaemon):
    def setUp(self):
        super().setUp()
        self.client = driftd.Client(self.daemon.commands_endpoint)

    def test_commands_and_their_answers(self):
        self.daemon.replies = {
            "lock": [{"ok": True, "state": "referencing"}],
            "unlock": [{"ok": True, "state": "idle"}],
            "reset": [{"ok": True, "state": "idle"}],
            "status": [{"ok": True, "status": examples()["status"]}],
            "markers": [{"ok": True, "markers": [{"id": 1}], "rejected": [{"reason": "dim"}]}],
        }
        self.assertEqual(self.client.lock(), "referencing")
        self.assertEqual(self.client.unlock(), "idle")
        self.assertEqual(self.client.reset(), "idle")
        self.assertEqual(self.client.status(), examples()["status"])
        self.assertEqual(self.client.markers(), [{"id": 1}])
        self.assertEqual(self.client.find_markers(), ([{"id": 1}], [{"reason": "dim"}]))
        self.assertEqual(self.daemon.requests[-2:],
                         [{"command": "markers"}, {"command": "markers", "find": True}])

    def test_z_and_the_pattern_have_types(self):
        status = examples()["status"]
        axial = {"method": "astigmatic", "curve": "c.yaml", "valid": True, "reason": "measured", "text": "", "z_nm": -1.5,
                 "sd_nm": 0.5, "in_range": 5, "markers_used": 4, "markers_total": 5, "distance_from_crossing_nm": 12.0,
                 "warning": "", "of_a_newer_daemon": 1}
        self.daemon.replies["status"] = lambda: [{"ok": True, "status": status}]
        status.update(axial=axial, pattern={"rotation_mrad": 0.5, "rotation_sd_mrad": 0.1, "tilt_x_mrad": None})
        self.assertEqual(self.client.axial(), driftd.Axial(
            method="astigmatic", curve="c.yaml", valid=True, reason="measured", z_nm=-1.5, sd_nm=0.5, in_range=5,
            markers_used=4, markers_total=5, distance_from_crossing_nm=12.0))
        self.assertEqual(self.client.pattern(), driftd.Pattern(rotation_mrad=0.5, rotation_sd_mrad=0.1))
        self.assertIsNone(self.client.pattern().tilt_x_mrad)
        status.update(axial={**axial, "valid": False, "z_nm": None, "sd_nm": None, "reason": "dark"})
        self.assertIsNone(self.client.axial().z_nm)
        self.assertEqual((self.client.axial().valid, self.client.axial().reason), (False, "dark"))
        status.update(axial=None, pattern=None)
        self.assertIsNone(self.client.axial())
        self.assertIsNone(self.client.pattern())
        for key in ("axial", "pattern"):  # an older daemon
            status.pop(key)
        self.assertIsNone(self.client.axial())
        self.assertIsNone(self.client.pattern())

    def test_z_is_locked_unlocked_and_moved_by_its_axis(self):
        self.daemon.replies.update(lock=[{"ok": True, "state": "referencing"}], unlock=[{"ok": True, "state": "locked"}],
                                   move=[{"ok": True, "move": 2, "z_nm": 50.0}])
        self.client.lock(axes="xyz")
        self.client.unlock("z")
        self.client.move(z_nm=50)
        self.client.move(1, 2, z_nm=-3, relative=True)
        self.assertEqual(self.daemon.requests, [
            {"command": "lock", "axes": "xyz"}, {"command": "unlock", "axes": "z"}, {"command": "move", "z_nm": 50},
            {"command": "move", "dx_nm": 1, "dy_nm": 2, "dz_nm": -3}])

    def test_the_lock_of_z_has_a_type_and_is_waited_for_by_itself(self):
        lock = {"state": "holding", "reason": "z_not_measured", "cure": "see the light", "held_for": "none",
                "held_first": "none", "lock_id": 2, "stage": "following", "total_z_nm": -18.25, "of_a_newer_daemon": 1,
                "gate": {"in_lock": False, "reason": "settling", "residual_z_nm": 7.25, "tolerance_nm": 5},
                "move": {"move": 3, "phase": "resting", "moving": False, "ended": "done", "z_nm": 50.0}}
        status = {**examples()["status"], "axial": {"method": "astigmatic", "valid": False, "lock": lock}}
        self.daemon.replies["status"] = lambda: [{"ok": True, "status": status}]
        told = self.client.axial().lock
        self.assertEqual((told.state, told.lock_id, told.total_z_nm, told.in_lock), ("holding", 2, -18.25, False))
        self.client.wait_for("locked", timeout_s=1)  # x and y are
        with self.assertRaisesRegex(TimeoutError, r"holding \(z not measured\): see the light"):
            self.client.wait_for("locked", timeout_s=0.05, axes="z")
        lock.update(state="locked", reason="recovered", cure="")
        self.client.wait_for("locked", timeout_s=1, axes="z")
        with self.assertRaisesRegex(TimeoutError, r"settling at 7\.25 nm rms, tolerance 5 nm \(gate\.z_tolerance_nm\)"):
            self.client.wait_for_move(3, timeout_s=0.05, axes="z")
        lock["gate"]["in_lock"] = True
        self.assertTrue(self.client.axial().lock.in_lock)
        self.client.wait_for_move(3, timeout_s=1, axes="z")
        status["axial"]["lock"] = None
        self.assertIsNone(self.client.axial().lock)
        self.client.wait_for("idle", timeout_s=1, axes="z")
        with self.assertRaises(driftd.DriftdError):
            self.client.wait_for_move(3, timeout_s=1, axes="z")

    def test_markers_are_chosen_and_exposure_set(self):
        self.daemon.replies.update(markers=[examples()["markers_chosen"]], exposure=[examples()["exposure"]])
        self.assertEqual(self.client.choose_markers(add=[(1, 2.5)], remove=[3], witness=(4, 5))["added"], [4])
        self.assertEqual(self.client.exposure(), examples()["exposure"]["exposure"])
        self.client.exposure(gain_db=0)
        self.assertEqual(self.daemon.requests[-3:], [
            {"command": "markers", "add": [{"x_px": 1, "y_px": 2.5}], "remove": [3], "witness": [4, 5]},
            {"command": "exposure"}, {"command": "exposure", "gain_db": 0}])

    def test_moves_and_what_becomes_of_them(self):
        self.daemon.replies["move"] = [{"ok": True, "move": 4, "x_nm": 1.5, "y_nm": -2.0, "duration_s": 0.1}]
        self.assertEqual(self.client.move(1.5, -2)["move"], 4)
        self.client.move(3, 0, relative=True, speed_nm_per_s=800)
        self.client.move_along([(0, 1), (2, 3, 0.5)], repeat=7)
        self.client.move_home()
        self.client.stop_move()
        self.assertEqual(self.daemon.requests, [
            {"command": "move", "x_nm": 1.5, "y_nm": -2},
            {"command": "move", "dx_nm": 3, "dy_nm": 0, "speed_nm_per_s": 800},
            {"command": "move", "path": [{"x_nm": 0, "y_nm": 1}, {"x_nm": 2, "y_nm": 3, "dwell_s": 0.5}], "repeat": 7},
            {"command": "move", "home": True},
            {"command": "move", "stop": True}])

    def test_waiting_for_a_move(self):
        status = examples()["status"]
        there = {**status["move"], "move": 4, "phase": "resting", "moving": False, "ended": "done"}

        def wait(**changes):
            now = {**status, "move": {**there, **changes.pop("move", {})}, **changes}
            self.daemon.replies["status"] = [{"ok": True, "status": now}]
            return self.client.wait_for_move(4, timeout_s=0.05)

        self.assertTrue(wait()["gate"]["in_lock"])
        closed = {**status["gate"], "in_lock": False, "reason": "settling"}
        for changes in ({"gate": closed}, {"move": {"moving": True}}, {"move": {"phase": "moving", "ended": ""}}):
            with self.assertRaises(TimeoutError, msg=changes):
                wait(**changes)
        with self.assertRaisesRegex(TimeoutError, r"settling at 0\.44 nm rms, tolerance 1 nm \(gate\.tolerance_nm\)"):
            wait(gate=closed)
        dark = {"state": "holding", "reason": "no_frames", "held_first": "too_few_markers", "cure": "see its cable"}
        said = r"holding \(no frames, at first too few markers\): see its cable"
        with self.assertRaisesRegex(TimeoutError, said):
            wait(move={"phase": "moving", "ended": ""}, gate={**closed, "reason": "not_locked"}, **dark)
        gone = {"move": {"move": 0, "phase": "unlocked"}, "state": "lost", "reason": "held_too_long",
                "held_for": "no_frames", "cure": "see its cable",
                "interrupted": {**examples()["interrupted"], "text": "lock 1, lost 0.1 s ago: go back"}}
        with self.assertRaisesRegex(driftd.DriftdError, r"the move is over; the lock is lost \(held too long: no "
                                                        r"frames\): see its cable; lock 1, lost 0\.1 s ago: go back"):
            wait(**gone)
        for changes, code in (({"move": {"move": 0, "phase": "unlocked"}, "state": "lost"}, "lost"), ({"move": {"move": 5}}, "replaced"),
                              ({"move": {"ended": "limits"}}, "limits"), ({"move": {"ended": "stopped"}}, "stopped")):
            with self.assertRaises(driftd.DriftdError) as over:
                wait(**changes)
            self.assertEqual(over.exception.code, code)

    def test_a_snapshot_is_rows_of_pixels(self):
        pixels = b"".join(value.to_bytes(2, "little") for value in (1, 2, 300, 4, 5, 65535))
        frame = {"frame_id": 1, "width_px": 3, "height_px": 2, "rois": []}
        self.daemon.replies["snapshot"] = [{"ok": True, "frame": frame}, pixels]
        got, image = self.client.snapshot()
        self.assertEqual(got, frame)
        self.assertEqual(image.tolist(), [[1, 2, 300], [4, 5, 65535]])

    def test_a_refusal_has_its_code(self):
        with self.assertRaises(driftd.DriftdError) as refused:
            self.client.lock()
        self.assertEqual(refused.exception.code, "refused")
        self.assertEqual(str(refused.exception), "not in this state")

    def test_what_is_no_reply_of_the_protocol_is_a_value_error(self):
        for reply in (b"", b"[]", b"null", b'{"ok":"yes"}', b'{"state":"idle"}', b"\xff"):
            self.daemon.replies["lock"] = [reply]
            with self.assertRaises(ValueError, msg=reply):
                self.client.request("lock")
        self.daemon.replies["lock"] = [b'{"ok":false}']
        with self.assertRaisesRegex(driftd.DriftdError, "no reason given"):
            self.client.lock()

    def test_nobody_there(self):
        with self.assertRaises(driftd.Unreachable):
            driftd.Client("ipc:///tmp/driftd-nobody-listens-here", timeout_s=0.05).status()

    def test_a_restart_is_over_once_the_next_session_answers(self):
        self.daemon.replies["restart"] = [{"ok": True, "loses": [], "stays_unlocked": False}]
        stopping = {"ok": False, "error": "driftd is stopping", "code": "stopping"}
        left = [stopping, stopping, {"ok": True, "status": examples()["status"]}]
        self.daemon.replies["status"] = lambda: [left.pop(0)]
        self.client.restart()
        self.assertEqual(left, [])
        self.daemon.replies["status"] = [stopping]
        with self.assertRaisesRegex(driftd.Unreachable, r"has not come back within 0\.1 s: driftd is stopping"):
            self.client.restart(wait_s=0.1)
        self.client.restart(wait_s=0)

    def test_waiting_for_a_state(self):
        self.daemon.replies["status"] = [{"ok": True, "status": examples()["status"]}]
        self.client.wait_for("locked", timeout_s=1)
        with self.assertRaisesRegex(TimeoutError, r"not idle after 0\.1 s: locked \(reference taken\)"):
            self.client.wait_for("idle", timeout_s=0.1)
        lost = {"state": "lost", "reason": "held_too_long", "held_for": "no_frames", "cure": "see its cable"}
        self.daemon.replies["status"] = [{"ok": True, "status": {**examples()["status"], **lost}}]
        with self.assertRaisesRegex(TimeoutError, r"lost \(held too long: no frames\): see its cable"):
            self.client.wait_for("locked", timeout_s=0.1)


if __name__ == "__main__":
    unittest.main()
