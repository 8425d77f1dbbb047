# SPDX-License-Identifier: MIT
"""The daemon as a service: commands, start, stop, reload, exit codes, systemd's notification."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import unittest

import zmq
from harness import BIN, DEADLINE_S, SLOW, CalmRig, Process, driftd, protocol, without_comments
from png import pixels_of_png  # in tests/support, where harness makes Python look


class Notified:
    """Reads what the daemon tells systemd, as systemd does: unread, ten messages would block it."""

    def __init__(self, path):
        self.path, self.messages = path, []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self):
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                self.messages.append(self._socket.recv(400))

    def wait_for(self, message: bytes, count: int = 1) -> None:
        end = time.monotonic() + DEADLINE_S
        while self.messages.count(message) < count:
            assert time.monotonic() < end, (message, count, self.messages)
            time.sleep(0.01)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._socket.close()


class Service(unittest.TestCase):
    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)

    def run_daemon(self, *arguments):
        return subprocess.run([BIN / "driftd", *map(str, arguments)], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def test_stops_cleanly_on_sigterm_and_sigint(self):
        self.rig.start_sim()
        for sig in (signal.SIGTERM, signal.SIGINT):
            daemon = self.rig.start_daemon()
            self.rig.wait_markers()
            self.assertEqual(daemon.stop(sig), 0, daemon.text())

    def test_configuration_mistakes_exit_with_2_and_say_where(self):
        file = self.rig.config(camera={"exposure_us": -4, "expsure_us": 3})
        result = self.run_daemon("--config", file)
        self.assertEqual(result.returncode, 2)
        for part in (str(file), "camera.exposure_us", "-4", "expsure_us"):
            self.assertIn(part, result.stderr)
        self.assertEqual(self.run_daemon("--config", self.rig.folder / "none.yaml").returncode, 2)
        self.assertEqual(self.run_daemon().returncode, 2)

    def test_wrong_usage_exits_with_2(self):
        file = self.rig.config()
        for arguments in (("--config", file, "more"), ("--config",), ("--confg", file),
                          ("--config", file, "--check-config=maybe")):
            result = self.run_daemon(*arguments)
            self.assertEqual(result.returncode, 2, (arguments, result.stderr))
            self.assertIn("--help", result.stderr)
        for arguments in (("--help",), ("--version",)):
            self.assertEqual(self.run_daemon(*arguments).returncode, 0)

    def test_check_and_print_config(self):
        file = self.rig.config()
        self.assertEqual(self.run_daemon("--config", file, "--check-config").returncode, 0)
        printed = self.run_daemon("--config", file, "--print-config")
        self.assertEqual(printed.returncode, 0)
        again = self.rig.folder / "printed.yaml"
        again.write_text(printed.stdout)
        self.assertEqual(without_comments(self.run_daemon("--config", again, "--print-config").stdout), without_comments(printed.stdout))
        drop_ins = self.rig.folder / f"{file.name}.d"
        drop_ins.mkdir()
        (drop_ins / "b.yaml").write_text("camera:\n  exposure_us: 777\n")
        (drop_ins / "a.yaml").write_text("camera: {exposure_us: 666}\n")
        checked = self.run_daemon("--config", file, "--check-config")
        self.assertEqual(checked.returncode, 0)
        self.assertIn(f"{file}: no mistakes\n{drop_ins}/a.yaml: no mistakes\n{drop_ins}/b.yaml: no mistakes\n", checked.stdout)
        self.assertIn(f"\n{drop_ins}/a.yaml:1: camera.exposure_us: {drop_ins}/b.yaml:2 takes the place of it\n",
                      checked.stdout)
        self.assertIn(f"  exposure_us: 777  # {drop_ins}/b.yaml:2, over {drop_ins}/a.yaml:1",
                      self.run_daemon("--config", file, "--print-config").stdout)
        (drop_ins / "c.yaml").write_text("camera: {exposure_us: 777\n")
        for flag in ((), ("--check-config",), ("--print-config",)):
            broken = self.run_daemon("--config", file, *flag)
            self.assertEqual((broken.returncode, broken.stdout), (2, ""))
            self.assertIn(f"{drop_ins}/c.yaml:2:1: not valid YAML", broken.stderr)
        self.assertRegex(self.run_daemon("--version").stdout, r"driftd \d+\.\d+\.\d+")

    def test_no_camera_exits_with_3(self):
        result = self.run_daemon("--config", self.rig.config())
        self.assertEqual(result.returncode, 3)
        self.assertIn(self.rig.address, result.stderr)

    def test_of_two_daemons_with_one_state_file_the_second_is_told_of_the_first(self):
        rig = self.rig
        config = rig.config(camera={"start_without_camera": "true"},
                            wire={"publish": "ipc://publish", "corrections": "ipc://corrections",
                                  "commands": "ipc://commands"})

        def start(name):
            folder = rig.folder / f"run-{name}"
            folder.mkdir(mode=0o700, exist_ok=True)
            daemon = rig.enter_context(Process(f"driftd-{name}", [BIN / "driftd", "--config", config], rig.folder,
                                               RUNTIME_DIRECTORY=str(folder)))
            daemon.wait_for("publishing on")
            return daemon

        first, second = start("first"), start("second")
        self.assertNotIn("state_not_written", first.text())
        self.assertIn("state_not_written", second.text())
        self.assertIn(f"process {first.child.pid}, ", second.text())

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "SKIPPED: there is a GPU")
    def test_a_gpu_asked_for_and_not_there_exits_with_6(self):
        self.rig.start_sim()
        said = self.run_daemon("--config", self.rig.config(fitter={"backend": "cuda"}))
        self.assertEqual(said.returncode, 6, said.stderr)
        self.assertIn("CUDA", said.stderr)

    def test_the_estimator_is_chosen_and_said(self):
        rig = self.rig
        rig.start_sim()
        noise = {"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3}
        slow = {"frame_rate_hz": 4}  # a limit of 25 ms: any machine's
        for camera, setting, chosen, reason in (
                ({}, "auto", "least_squares", "not given"),
                ({**noise, **slow}, "auto", "poisson", "within 25000 us"),
                ({**noise, "frame_rate_hz": 0}, "auto", None, " 200 us"),
                (noise, "least_squares", "least_squares", "is `least_squares`"),
                (noise, "poisson", "poisson", "is `poisson`")):
            daemon = rig.start_daemon(rig.config(camera=camera, fitter={"estimator": setting}))
            fitter = rig.wait_markers()["fitter"]
            self.assertIn(reason, fitter["estimator_reason"])
            self.assertEqual(fitter["estimator"], chosen or fitter["estimator"])
            self.assertIn(f"with {fitter['estimator']} ({fitter['estimator_reason']})", daemon.text())
            rig.wait_until(lambda s: s["markers"]["used"], "markers measured")
            daemon.stop()

    def test_a_taken_endpoint_exits_with_5(self):
        self.rig.start_sim()
        with zmq.Context.instance().socket(zmq.PUB) as taken:
            port = taken.bind_to_random_port("tcp://127.0.0.1")
            file = self.rig.config(wire={"publish": f"tcp://127.0.0.1:{port}"})
            result = self.run_daemon("--config", file)
        self.assertEqual(result.returncode, 5)
        self.assertIn(str(port), result.stderr)

    def test_commands_are_answered_and_refused_with_a_reason(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        rig.wait_markers()
        with self.assertRaisesRegex(driftd.DriftdError, "unknown command"):
            rig.client.request("dance")
        with self.assertRaisesRegex(driftd.DriftdError, "unknown field"):
            rig.client.request("lock", now=True)
        markers = rig.client.request("markers")[0]["markers"]
        self.assertEqual(len(markers), 16)
        found = rig.client.request("markers", find=True)[0]
        self.assertEqual(len(found["markers"]), 16)
        rig.client.lock()
        rig.wait_state("locked")
        with self.assertRaisesRegex(driftd.DriftdError, "already"):
            rig.client.lock()
        with self.assertRaisesRegex(driftd.DriftdError, "`locked`, and reset is for") as caught:
            rig.client.reset()
        self.assertEqual(caught.exception.code, "refused")
        with self.assertRaisesRegex(driftd.DriftdError, "idle"):
            rig.client.request("markers", find=True)
        reply, pixels = rig.client.request("snapshot")
        frame = reply["frame"]
        self.assertEqual(len(frame["rois"]), 16)
        self.check_rois(frame, pixels)

    def check_rois(self, frame, pixels):
        """Each ROI's brightest pixel lies near its middle."""
        self.assertEqual(len(pixels), 2 * frame["width_px"] * frame["height_px"])
        for roi in frame["rois"]:
            side, width = roi["side_px"], frame["width_px"]
            values = {(x, y): int.from_bytes(pixels[2 * ((roi["y_px"] + y) * width + roi["x_px"] + x):][:2],
                                             "little") for x in range(side) for y in range(side)}
            x, y = max(values, key=values.get)
            self.assertLess(max(abs(x - side // 2), abs(y - side // 2)), 4)

    def test_a_snapshot_of_a_region_is_drawn_with_its_rois_around_the_markers(self):
        rig = self.rig
        rig.start_sim()
        region = {"x": 64, "y": 32, "width": 160, "height": 192}
        rig.start_daemon(rig.config(camera={f"region_{k}_px": v for k, v in region.items()}))
        rig.wait_until(lambda s: s["markers"]["used"], "markers measured")
        reply, pixels = rig.client.request("snapshot")
        frame = reply["frame"]
        self.assertEqual([frame[k] for k in ("offset_x_px", "offset_y_px", "width_px", "height_px")],
                         list(region.values()))
        self.check_rois(frame, pixels)
        file = rig.folder / "frame.png"
        said = subprocess.run([BIN / "driftctl", "--json", "--commands", rig.commands, "snapshot", file],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        rois, picture = json.loads(said.stdout)["rois"], pixels_of_png(file.read_bytes())
        self.assertGreater(len(rois), 3)
        for roi in rois:
            left, top = 4 * roi["x_px"], 4 * roi["y_px"]  # the picture is enlarged four times
            last = 4 * roi["side_px"] - 1
            corners = [picture[top + y][left + x] for x in (0, last) for y in (0, last)]
            coloured = sum(red != green for red, green, _ in corners)
            self.assertGreaterEqual(coloured, 3, (roi, corners))  # a label may cover one

    def test_messages_are_what_the_protocol_document_shows(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        subscription = rig.subscribe(*driftd.TOPICS)
        rig.wait_markers()
        rig.hear(subscription, lambda topic, _: topic == "status", "a status")  # from here on it hears all
        rig.client.lock()
        rig.wait_state("locked")
        shown = protocol.examples()
        shown["position"]["z_state"] = None  # test_axial_lock.py sees those of a lock of z
        topics = set(driftd.TOPICS) - {"axial"}
        seen, end = set(), time.monotonic() + DEADLINE_S
        while not seen.issuperset(topics):
            self.assertLess(time.monotonic(), end, seen)
            topic, message = subscription.receive(DEADLINE_S)
            if topic == "event" and message["code"] != shown["event"]["code"]:
                common = {"v", "seq", "session", "time_ns", "level", "code", "text"}
                self.assertLessEqual(common, message.keys())
                continue
            if topic == "status" and message["pattern"] is None:
                continue  # no frame has shown it yet
            self.assertEqual(protocol.differences(shown[topic], dict(message)), [], topic)
            seen.add(topic)
        snapshot = rig.client.request("snapshot")[0]
        self.assertEqual(protocol.differences(shown["snapshot"], snapshot), [])
        seen.add("snapshot")
        self.assertIsNone(rig.client.status()["stage_driver"])
        report = {key: value for key, value in shown["stage"].items() if key != "command"}
        rig.client.request("stage", **report)
        driver = rig.client.status()["stage_driver"]
        self.assertEqual(protocol.differences(shown["stage_driver"], {**driver, "lock_id": 1}), [])
        # The others: tests/fault/test_resume.py, test_records.py, tests/fault/test_place.py, test_marker_choice.py,
        # test_exposure.py, test_axial_lock.py.
        self.assertEqual(seen | {"axial", "stage", "stage_driver", "interrupted", "record", "places", "place", "place_lock",
                                 "markers_chosen", "exposure"}, shown.keys())

    def test_reload_takes_good_changes_and_refuses_bad_ones_whole(self):
        rig = self.rig
        rig.start_locked()
        events = self.heard_events()
        rig.config(wire={"status_interval_ms": 50}, control={"step_limit_nm": 3})
        rig.daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.next_event(events, "configuration_")["code"], "configuration_reloaded")
        rig.wait_state("locked")
        rig.config(control={"step_limit_nm": -1})
        rig.daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.next_event(events, "configuration_")["code"], "configuration_rejected")
        rig.config(wire={"publish": "ipc:///tmp/elsewhere"})
        rig.daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.next_event(events, "configuration_")["code"], "configuration_rejected")
        rig.wait_state("locked")

    def test_reload_by_command_tells_what_came_of_it(self):
        rig = self.rig
        rig.start_locked()
        events = self.heard_events()
        rig.config(control={"step_limit_nm": 4})
        self.assertEqual(rig.client.request("reload", check=True)[0]["differs"], ["control.step_limit_nm"])
        self.assertIn("driftd.yaml", rig.client.request("reload")[0]["text"])
        self.assertEqual(rig.client.request("reload", check=True)[0]["differs"], [])
        self.assertEqual(self.next_event(events, "configuration_")["code"], "configuration_reloaded")
        for wrong, why in (({"control": {"step_limit_nm": -1}}, "step_limit_nm"),
                           ({"stage": {"delay_us": 4000}}, "the lock must be idle (unlock it) to change stage.delay_us"),
                           ({"wire": {"publish": "ipc:///tmp/elsewhere"}}, "a restart is needed to change wire.publish")):
            rig.config(**wrong)
            with self.assertRaises(driftd.DriftdError) as refused:
                rig.client.request("reload")
            self.assertIn("the old configuration keeps running", str(refused.exception))
            self.assertIn(why, str(refused.exception))
            self.assertEqual(self.next_event(events, "configuration_")["code"], "configuration_rejected")
        with self.assertRaisesRegex(driftd.DriftdError, "no fields but `check`"):
            rig.client.request("reload", file="/etc/shadow")
        rig.wait_state("locked")

    def test_restart_by_command_starts_anew_with_what_a_reload_cannot_change(self):
        rig = self.rig
        systemd = self.enterContext(Notified(rig.folder / "notify"))
        rig.start_sim()
        rig.start_daemon(rig.config(), NOTIFY_SOCKET=str(systemd.path))
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        with self.assertRaisesRegex(driftd.DriftdError, "only while the lock is idle"):
            rig.client.request("restart")
        rig.client.unlock()
        rig.config(optics={"pixel_size_nm": -3})
        with self.assertRaisesRegex(driftd.DriftdError, "(?s)would not start.*optics.pixel_size_nm"):
            rig.client.request("restart")
        told = rig.subscribe("status")
        before = rig.hear(told, lambda *_: True, "a status")["session"]
        rig.config(optics={"pixel_size_nm": 90})
        rig.client.request("restart")
        rig.daemon.wait_for("stopping, to start anew")
        anew = rig.hear(told, lambda _, status: status["session"] != before and status["markers"]["used"], "another session")
        self.assertEqual(anew["state"], "idle")
        self.assertIsNone(rig.daemon.child.poll())  # the same process
        self.assertEqual(rig.daemon.text().count("configuration: "), 2)
        systemd.wait_for(b"READY=1", 2)
        self.assertEqual([told for told in systemd.messages if not told.startswith(b"STATUS=")],
                         [b"READY=1", b"RELOADING=1", b"READY=1"])  # for systemd it has not stopped
        rig.client.lock()
        rig.wait_state("locked")

    def test_restart_tells_what_is_lost_and_where_it_could_not_start(self):
        rig = self.rig
        rig.start_sim()
        told_status = rig.subscribe("status")
        file = rig.config(lock={"at_start": "true"}, record={"directory": rig.folder})
        rig.start_daemon(file)
        rig.wait_state("locked")
        session = rig.hear(told_status, lambda *_: True, "a status")["session"]
        rig.client.unlock()
        self.assertEqual(rig.client.restart(check=True), {"loses": [], "stays_unlocked": True})
        removed = min(m["id"] for m in rig.client.markers())
        rig.client.choose_markers(remove=[removed])
        now = rig.client.exposure(exposure_us=700, gain_db=3)
        rig.client.request("record", start=True)
        told = rig.client.restart(check=True)["loses"]
        self.assertEqual(len(told), 3, told)
        self.assertIn("`driftctl markers --write`", told[0])
        self.assertRegex(told[1], r"exposure of 700 us, which is configured as 1000 us, and the gain of 3 dB.* 0 dB .`driftctl exposure --write`")
        self.assertRegex(told[2], rf"recording to {rig.folder}/.*, which ends")
        said = self.driftctl(file, "markers", "--witness", str(removed + 1), "--write", "--yes")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(len(rig.client.restart(check=True)["loses"]), 2)  # the markers are written
        # What it has itself is free once it has ended; what another has is not.
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = f"tcp://127.0.0.1:{other.getsockname()[1]}"
            for wire, why in (({"publish": rig.corrections, "corrections": rig.publish}, None),
                              ({"publish": taken}, f"wire.publish: {taken} cannot be bound: something listens there"),
                              ({"commands": f"ipc://{rig.folder}/driftd.yaml"}, "exists and is no socket")):
                rig.config(lock={"at_start": "true"}, wire=wire)
                with self.subTest(wire):
                    if why is None:
                        rig.client.restart(check=True)
                        continue
                    for check in (True, False):
                        with self.assertRaisesRegex(driftd.DriftdError, f"would not start with this configuration.*{why}"):
                            rig.client.restart(check=check)
        self.assertEqual(rig.daemon.text().count("configuration: "), 1)
        self.assertAlmostEqual(rig.client.exposure()["exposure_us"], now["exposure_us"], delta=1)
        rig.config(lock={"at_start": "true"}, record={"directory": rig.folder})
        refused = self.driftctl(file, "restart")  # nobody can be asked
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertEqual(rig.daemon.text().count("configuration: "), 1)
        printed = self.driftctl(file, "restart", "--yes")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        for _ in range(3):
            rig.status()  # it is there once driftctl has returned
            rig.client.restart()
        self.assertIn("lost by it: the exposure of 700 us", printed.stdout)
        self.assertIn("it stays unlocked", printed.stdout)
        rig.hear(told_status, lambda _, status: status["session"] != session and (status["markers"]["used"] or 0) > 0, "another session that measures")
        for _ in range(20):
            self.assertEqual(rig.status()["state"], "idle")
            time.sleep(0.05)

    def test_restart_tries_what_it_would_have_to_bind(self):
        """A port of its own at another address, a file where its own socket was, CUDA that is not there."""
        rig = self.rig
        rig.start_sim()
        with socket.create_server(("127.77.77.77", 0)) as other:
            port = other.getsockname()[1]
            own = {"publish": f"tcp://{rig.address}:{port}"}
            rig.start_daemon(rig.config(wire=own))
            rig.wait_until(lambda status: status["markers"]["used"], "markers")
            rig.client.restart(check=True)
            rig.config(wire={"publish": f"tcp://127.77.77.77:{port}"})
            with self.assertRaisesRegex(driftd.DriftdError, f"127.77.77.77:{port} cannot be bound: something listens"):
                rig.client.restart(check=True)
            file = pathlib.Path(rig.corrections.removeprefix("ipc://"))
            file.unlink()
            file.touch()
            rig.config(wire=own)
            with self.assertRaisesRegex(driftd.DriftdError, "exists and is no socket"):
                rig.client.restart(check=True)
            file.unlink()
            if not os.path.exists("/dev/nvidiactl"):
                rig.config(wire=own, fitter={"backend": "cuda"})
                with self.assertRaisesRegex(driftd.DriftdError, "fitter.backend is `cuda`: "):
                    rig.client.restart(check=True)
            rig.config(wire=own)
            rig.client.restart(check=True)

    def driftctl(self, file, *arguments):
        return self.rig.run_program([BIN / "driftctl", "--config", file, *arguments])

    def heard_events(self):
        """Subscribes to all that happens from now on: who hears a status has been subscribed."""
        events = self.rig.subscribe("event", "status")
        self.rig.hear(events, lambda topic, _: topic == "status", "a status")
        return events

    def next_event(self, events, prefix: str = "") -> dict:
        return self.rig.hear(events, lambda topic, message: topic == "event" and message["code"].startswith(prefix),
                             f"an event {prefix}")

    def test_many_changes_at_once_are_all_told(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config(lock={"reference_frames": 100000}, markers={"max_count": 16}))
        rig.wait_until(lambda s: s["markers"]["used"], "markers measured")
        events = self.heard_events()
        for _ in range(15):
            rig.client.lock()
            rig.client.unlock()
        markers = {m["id"] for m in rig.client.markers()}
        rig.fault("hide_markers", seconds=600)
        states, gone = [], set()
        while gone != markers:
            event = self.next_event(events)
            if event["code"] == "state_changed":
                states.append(event["state"])
            elif event["code"] == "marker_health":
                gone |= {c["id"] for c in event["markers"] if c["health"] != "good"}
        self.assertEqual(states, 15 * ["referencing", "idle"])

    def test_tells_systemd_that_it_is_ready_and_alive_and_stopping(self):
        rig = self.rig
        rig.start_sim()
        told = self.enterContext(Notified(rig.folder / "notify"))
        daemon = rig.start_daemon(rig.config(camera={"stall_timeout_ms": 1000}),
                                  NOTIFY_SOCKET=str(told.path), WATCHDOG_USEC="400000")
        begin = time.monotonic()
        told.wait_for(b"WATCHDOG=1", 11)
        # It is fed three times as often.
        self.assertLess(time.monotonic() - begin, 10 * 0.4)
        rig.fault("vanish", seconds=4)  # no frames: rightly idle, so still fed
        rig.wait_until(lambda s: not s["camera"]["connected"], "camera away")
        told.wait_for(b"WATCHDOG=1", told.messages.count(b"WATCHDOG=1") + 5)
        daemon.stop()
        told.wait_for(b"STOPPING=1")
        texts = [message for message in told.messages if message.startswith(b"STATUS=")]
        others = [message for message in told.messages if message not in texts]
        self.assertEqual((others[0], others[-1], set(others[1:-1])), (b"READY=1", b"STOPPING=1", {b"WATCHDOG=1"}))
        self.assertTrue(any(text.startswith(b"STATUS=idle: ") for text in texts), texts)

    def test_realtime_required_and_refused_exits_with_4(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to give the privilege up for the child")
        file = self.rig.config(realtime={"mode": "require"})
        os.chmod(self.rig.folder, 0o777)
        result = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", BIN / "driftd",
             "--config", file], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        if result.returncode in (126, 127):
            self.skipTest("the build folder cannot be read by another user")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("realtime.mode", result.stderr)

    def dealer(self, unread: int = 1000) -> zmq.Socket:
        """A peer of its own that asks without waiting for the answers, and keeps so many unread."""
        peer = zmq.Context.instance().socket(zmq.DEALER)
        self.addCleanup(peer.close)
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.RCVHWM, unread)
        peer.connect(self.rig.commands)
        return peer

    def start_without_frames(self) -> None:
        """A camera that is connected, and whose frames are lost from now on."""
        rig = self.rig
        rig.start_daemon(rig.config(camera={"stall_timeout_ms": 60_000}))
        rig.wait_markers()
        rig.fault("drop_frames", share=1, seconds=600)
        frames, end = -1, time.monotonic() + DEADLINE_S
        while frames != (frames := rig.status()["camera"]["frames"]):  # those on the way have come
            self.assertLess(time.monotonic(), end, "frames go on coming")
            time.sleep(0.3)

    def test_no_command_waits_for_another_ones_frame(self):
        rig = self.rig
        rig.start_sim()
        self.start_without_frames()
        waiting = [self.dealer() for _ in range(10)]
        for i, peer in enumerate(waiting):
            peer.send_json({"command": "snapshot", "id": i})
        served, end = 0, time.monotonic() + DEADLINE_S
        while not any(peer.poll(0) for peer in waiting):  # for the second in which a frame may come
            self.assertLess(time.monotonic(), end, "never answered")
            rig.client.status()
            rig.client.unlock()
            served += 2
        self.assertGreater(served, 10)
        for i, peer in enumerate(waiting):
            self.assertTrue(peer.poll(int(1000 * DEADLINE_S)), "never answered")
            reply = peer.recv_json()
            self.assertEqual((reply["id"], reply.get("code")), (i, "no_frame"))

    def test_with_the_camera_away_a_snapshot_is_refused_at_once_and_the_rest_is_served(self):
        rig = self.rig
        rig.start_sim()
        notified = self.enterContext(Notified(rig.folder / "notify"))
        rig.start_daemon(rig.config(camera={"stall_timeout_ms": 1000}),
                         NOTIFY_SOCKET=str(notified.path), WATCHDOG_USEC="400000")
        rig.wait_markers()
        rig.fault("vanish", seconds=600)
        rig.wait_until(lambda s: not s["camera"]["connected"], "camera away")
        with self.assertRaisesRegex(driftd.DriftdError, "no frame: the camera is away") as caught:
            rig.client.request("snapshot")
        self.assertEqual(caught.exception.code, "no_frame")
        with self.assertRaisesRegex(driftd.DriftdError, "the camera is away"):
            rig.client.request("markers", find=True)
        flood = self.dealer()
        fed_before, unlocks = notified.messages.count(b"WATCHDOG=1"), 0
        begin = time.monotonic()
        while unlocks < 20 or notified.messages.count(b"WATCHDOG=1") - fed_before < 2:
            for i in range(10):
                flood.send_json({"command": "snapshot", "id": i})
            rig.client.unlock()
            unlocks += 1
        # A single one of the 200 snapshots that waited for its frame would take a second.
        self.assertLess(time.monotonic() - begin, 20 * SLOW)
        self.assertEqual({flood.recv_json()["code"] for _ in range(10)}, {"no_frame"})

    def test_a_status_has_nothing_of_a_camera_that_is_away(self):
        rig = self.rig
        of_frames = [("camera", "rate_hz"), ("markers", "used"), ("drift", "x_nm"), ("drift", "y_sd_nm"),
                     ("drift", "rms_x_nm"), ("drift", "rms_y_nm"), ("camera", "temperature_c")]
        of_cameras = [("camera", k) for k in ("description", "pixel_format", "width_px", "height_px")]
        of_locks = [("drift", "total_x_nm"), ("drift", "total_y_nm")]

        def nulls(status):
            return [k for k in of_frames + of_cameras + of_locks if status[k[0]][k[1]] is None]

        begin_ns = time.monotonic_ns()
        rig.start_daemon(rig.config(camera={"start_without_camera": "true", "stall_timeout_ms": 1000}))
        status = rig.status()
        self.assertEqual(nulls(status), of_frames + of_cameras + of_locks)
        self.assertEqual(status["latency_us"]["total"],
                         {"n": 0, "p50": None, "p99": None, "p99_9": None, "max": None, "sum": 0,
                          "at_most": [0] * len(status["latency_edges_us"])})
        self.assertTrue(begin_ns < status["state_since_ns"] < status["time_ns"])
        said = subprocess.run([BIN / "driftctl", "--commands", rig.commands, "status"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
        self.assertRegex(said, r"state +idle for 0:00:\d\d")
        self.assertIn("p50 -   p99 -", said)
        rig.start_sim()
        rig.wait_until(lambda s: s["camera"]["rate_hz"] and s["markers"]["used"], "measured")
        self.assertEqual(nulls(rig.status()), of_locks)
        rig.client.lock()
        rig.wait_state("locked")
        rig.fault("vanish", seconds=4)
        away = rig.wait_until(lambda s: not s["camera"]["connected"], "camera away")
        self.assertEqual(nulls(away), of_frames)
        rig.wait_until(lambda s: not nulls(s), "measured again")

    def test_whoever_waits_when_the_daemon_stops_is_told_so(self):
        rig = self.rig
        rig.start_sim()
        self.start_without_frames()
        peer = self.dealer()
        for i in range(5):
            peer.send_json({"command": "snapshot", "id": i})
        peer.send_json({"command": "markers", "find": True, "id": "find"})
        peer.send_json({"command": "unlock", "id": "last"})
        self.assertEqual(peer.recv_json()["id"], "last")  # of one peer's requests the next does not wait
        rig.daemon.child.send_signal(signal.SIGTERM)
        replies = {}
        while len(replies) < 6 and peer.poll(int(1000 * DEADLINE_S)):
            reply = peer.recv_json()
            replies[reply["id"]] = (reply["ok"], reply["code"], reply["error"])
        stopping = (False, "stopping", "driftd is stopping")
        self.assertEqual(replies, {i: stopping for i in (0, 1, 2, 3, 4, "find")})
        self.assertEqual(rig.daemon.stop(), 0)

    def test_a_slow_cameras_snapshot_comes_with_its_frame(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config(camera={"frame_rate_hz": 4}))
        rig.wait_until(lambda s: s["camera"]["frames"] > 1, "frames")
        for _ in range(3):
            self.assertIn("frame", rig.client.request("snapshot")[0])

    def test_a_peer_that_never_reads_costs_a_bounded_memory(self):
        rig = self.rig
        rig.start_sim(rate_hz=500 / SLOW)
        # AddressSanitizer would keep what is freed.
        rig.start_daemon(rig.config(camera={"frame_rate_hz": 500 / SLOW}), ASAN_OPTIONS="quarantine_size_mb=1")
        rig.wait_markers()
        rig.client.request("snapshot")
        sleeper = self.dealer(unread=1)

        def rss_mib():
            with open(f"/proc/{rig.daemon.child.pid}/status", encoding="ascii") as file:
                return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))

        before = rss_mib()
        for i in range(1200):  # of 128 KiB each: 150 MiB
            sleeper.send_json({"command": "snapshot", "id": i})
            rig.client.request("snapshot")  # in step, so that each is of another frame
        grown = rss_mib() - before
        print(f"grown by {grown:.0f} MiB")
        self.assertLess(grown, 64)  # 128 replies, and what ZeroMQ and the allocator keep

    def test_lock_at_start_waits_for_a_camera_that_comes_later(self):
        rig = self.rig
        rig.start_daemon(rig.config(camera={"start_without_camera": "true"},
                                    lock={"at_start": "true"}))
        time.sleep(1)  # a lock without frames would be referencing by now
        self.assertEqual(rig.status()["state"], "idle")
        rig.start_sim()
        rig.wait_state("locked")
        rig.client.request("unlock")
        time.sleep(1.5)  # the next try would have come
        self.assertEqual(rig.status()["state"], "idle")

    def test_slow_dead_and_missing_subscribers_do_not_touch_the_loop(self):
        rig = self.rig
        rig.start_locked()
        context = zmq.Context.instance()
        sleepers = []
        for _ in range(5):  # connected, subscribed to everything, never reading
            sleeper = context.socket(zmq.SUB)
            sleeper.setsockopt(zmq.LINGER, 0)
            sleeper.setsockopt(zmq.RCVHWM, 1)
            sleeper.setsockopt(zmq.SUBSCRIBE, b"")
            sleeper.connect(rig.publish)
            sleepers.append(sleeper)
        dead = Process("dead", ["python3", "-c",
                                "import zmq,time,sys\ns=zmq.Context().socket(zmq.SUB)\n"
                                "s.setsockopt(zmq.SUBSCRIBE,b'')\ns.connect(sys.argv[1])\n"
                                "time.sleep(60)", rig.publish], rig.folder)
        with dead:
            time.sleep(1)
            dead.child.send_signal(signal.SIGSTOP)  # hangs with its socket open
            before = rig.status()
            after = rig.wait_until(lambda s: s["camera"]["frames"] > before["camera"]["frames"] + 250, "frames")
            dead.child.kill()
        for sleeper in sleepers:
            sleeper.close()
        fitted = after["loop"]["fitted"] - before["loop"]["fitted"]
        frames = after["camera"]["frames"] - before["camera"]["frames"]
        self.assertGreater(fitted, frames / 2)  # all but those that a busy machine supersedes
        self.assertEqual(after["loop"]["queue_dropped"], 0)
        rig.wait_state("locked")


if __name__ == "__main__":
    unittest.main()
