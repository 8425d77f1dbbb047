# SPDX-License-Identifier: MIT
"""The daemon as a service: commands, start, stop, reload, exit codes, systemd's notification."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import zmq
from harness import BIN, SLOW, Process, Rig, drain, driftd, protocol


class Service(unittest.TestCase):
    def setUp(self):
        self.rig = Rig()
        self.addCleanup(self.rig.close)

    def run_daemon(self, *arguments):
        return subprocess.run([BIN / "driftd", *map(str, arguments)], capture_output=True, text=True,
                              timeout=60 * SLOW, check=False)

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

    def test_check_and_print_config(self):
        file = self.rig.config()
        self.assertEqual(self.run_daemon("--config", file, "--check-config").returncode, 0)
        printed = self.run_daemon("--config", file, "--print-config")
        self.assertEqual(printed.returncode, 0)
        again = self.rig.folder / "printed.yaml"
        again.write_text(printed.stdout)
        self.assertEqual(self.run_daemon("--config", again, "--print-config").stdout, printed.stdout)
        self.assertRegex(self.run_daemon("--version").stdout, r"driftd \d+\.\d+\.\d+")

    def test_no_camera_exits_with_3(self):
        result = self.run_daemon("--config", self.rig.config())
        self.assertEqual(result.returncode, 3)
        self.assertIn(self.rig.address, result.stderr)

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
        slow = {"frame_rate_hz": 10, "stall_timeout_ms": 1000}  # a limit of 10 ms: any machine's
        for camera, setting, chosen, reason in (
                ({}, "auto", "least_squares", "not given"),
                ({**noise, **slow}, "auto", "poisson", "within 10000 us"),
                ({**noise, "frame_rate_hz": 0}, "auto", None, " 200 us"),
                (noise, "least_squares", "least_squares", "is `least_squares`"),
                (noise, "poisson", "poisson", "is `poisson`")):
            daemon = rig.start_daemon(rig.config(camera=camera, fitter={"estimator": setting}))
            fitter = rig.wait_markers()["fitter"]
            self.assertIn(reason, fitter["estimator_reason"])
            self.assertEqual(fitter["estimator"], chosen or fitter["estimator"])
            self.assertIn(f"with {fitter['estimator']} ({fitter['estimator_reason']})", daemon.text())
            rig.wait_until(lambda s: s["markers"]["used"] > 0, "markers measured")
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
        with self.assertRaisesRegex(driftd.DriftdError, "idle"):
            rig.client.request("markers", find=True)
        reply, pixels = rig.client.request("snapshot")
        frame = reply["frame"]
        self.assertEqual(len(pixels), 2 * frame["width_px"] * frame["height_px"])
        self.assertEqual(len(frame["rois"]), 16)
        for roi in frame["rois"]:  # each ROI's brightest pixel lies near its middle
            side, width = roi["side_px"], frame["width_px"]
            values = {(x, y): int.from_bytes(pixels[2 * ((roi["y_px"] + y) * width + roi["x_px"] + x):][:2],
                                             "little") for x in range(side) for y in range(side)}
            x, y = max(values, key=values.get)
            self.assertLess(max(abs(x - side // 2), abs(y - side // 2)), 4)

    def test_messages_are_what_the_protocol_document_shows(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        subscription = rig.subscribe(*driftd.TOPICS)
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        time.sleep(1 * SLOW)  # a correction, markers, a status and the event of the lock
        shown = protocol.examples()
        seen = set()
        for topic, message in drain(subscription):
            if topic == "event" and message["code"] != shown["event"]["code"]:
                common = {"v", "seq", "session", "time_ns", "level", "code", "text"}
                self.assertLessEqual(common, message.keys())
                continue
            self.assertEqual(protocol.differences(shown[topic], dict(message)), [], topic)
            seen.add(topic)
        snapshot = rig.client.request("snapshot")[0]
        self.assertEqual(protocol.differences(shown["snapshot"], snapshot), [])
        seen.add("snapshot")
        self.assertEqual(seen, shown.keys())

    def test_garbage_on_the_sockets_changes_nothing(self):
        rig = self.rig
        rig.start_locked()
        context = zmq.Context.instance()
        with context.socket(zmq.DEALER) as dealer, context.socket(zmq.SUB) as subscriber:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(rig.commands)
            subscriber.connect(rig.publish)
            for i in range(300):
                dealer.send_multipart([os.urandom(i) for _ in range(1 + i % 5)])
                subscriber.setsockopt(zmq.SUBSCRIBE, os.urandom(i % 40))
        for endpoint in (rig.commands, rig.publish):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(endpoint.removeprefix("ipc://"))
                raw.sendall(os.urandom(4096))
        time.sleep(0.5)
        status = rig.status()
        self.assertEqual(status["state"], "locked")
        self.assertEqual(status["loop"]["queue_dropped"], 0)

    def test_a_message_announced_too_large_ends_its_connection(self):
        # Without a limit libzmq allocates what any peer announces, and waits for the rest of it.
        rig = self.rig
        rig.start_locked()
        for endpoint in (rig.commands, rig.publish):
            with socket.socket(socket.AF_UNIX) as raw:
                end = time.monotonic() + 5 * SLOW
                raw.settimeout(5 * SLOW)
                raw.connect(endpoint.removeprefix("ipc://"))
                # ZMTP 1.0: a frame is its length and flags in bytes; the first is the identity.
                raw.sendall(b"\x01\x00" + b"\xff" + (1 << 30).to_bytes(8, "big") + b"\x00garbage")
                with contextlib.suppress(ConnectionResetError):
                    while raw.recv(1000):  # the greeting and what is published, then the end
                        self.assertLess(time.monotonic(), end)
        self.assertEqual(rig.status()["state"], "locked")

    def test_reload_takes_good_changes_and_refuses_bad_ones_whole(self):
        rig = self.rig
        rig.start_locked()
        events = rig.subscribe("event")
        time.sleep(0.3)
        rig.config(wire={"status_interval_ms": 50}, control={"step_limit_nm": 3})
        rig.daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.next_code(events, "configuration_"), "configuration_reloaded")
        self.assertEqual(rig.status()["state"], "locked")
        rig.config(control={"step_limit_nm": -1})
        rig.daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.next_code(events, "configuration_"), "configuration_rejected")
        rig.config(wire={"publish": "ipc:///tmp/elsewhere"})
        rig.daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.next_code(events, "configuration_"), "configuration_rejected")
        self.assertEqual(rig.status()["state"], "locked")

    def next_code(self, events, prefix):
        end = time.monotonic() + 10 * SLOW
        while time.monotonic() < end:
            code = events.receive(10 * SLOW)[1]["code"]
            if code.startswith(prefix):
                return code
        self.fail(f"no event {prefix}")

    def test_tells_systemd_that_it_is_ready_and_alive_and_stopping(self):
        rig = self.rig
        rig.start_sim()
        path = str(rig.folder / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(10 * SLOW)
            daemon = rig.start_daemon(NOTIFY_SOCKET=path, WATCHDOG_USEC="400000")
            self.assertEqual(notify.recv(200), b"READY=1")
            times = []
            for _ in range(5):
                self.assertEqual(notify.recv(200), b"WATCHDOG=1")
                times.append(time.monotonic())
            self.assertLess(times[-1] - times[0], 4 * 0.4)
            rig.fault("vanish", seconds=3)  # no frames: rightly idle, so still fed
            end = time.monotonic() + 2
            while time.monotonic() < end:
                self.assertEqual(notify.recv(200), b"WATCHDOG=1")
            daemon.stop()
            rest = [notify.recv(200)]
            while rest[-1] == b"WATCHDOG=1":
                rest.append(notify.recv(200))
            self.assertEqual(rest[-1], b"STOPPING=1")

    def test_realtime_required_and_refused_exits_with_4(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to give the privilege up for the child")
        file = self.rig.config(realtime={"mode": "require"})
        os.chmod(self.rig.folder, 0o777)
        result = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", BIN / "driftd",
             "--config", file], capture_output=True, text=True, timeout=60, check=False)
        if result.returncode in (126, 127):
            self.skipTest("the build folder cannot be read by another user")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("realtime.mode", result.stderr)

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
            time.sleep(3 * SLOW)
            after = rig.status()
            dead.child.kill()
        for sleeper in sleepers:
            sleeper.close()
        fitted = after["loop"]["fitted"] - before["loop"]["fitted"]
        frames = after["camera"]["frames"] - before["camera"]["frames"]
        self.assertGreater(frames, 1000)
        self.assertLess(abs(fitted - frames), 5)
        self.assertEqual(after["loop"]["queue_dropped"], 0)
        self.assertEqual(after["state"], "locked")


if __name__ == "__main__":
    unittest.main()
