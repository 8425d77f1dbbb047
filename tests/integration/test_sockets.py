# SPDX-License-Identifier: MIT
"""The daemon's sockets against peers that mean harm or do not know better."""
import contextlib
import grp
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

import zmq
from harness import BIN, DEADLINE_S, SLOW, SOURCE, CalmRig, Process


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def http_post(command: dict) -> bytes:
    """What a web page's `fetch("http://127.0.0.1:PORT", {method: "POST", body})` sends.

    ZMTP 1.0 frames are a length byte, a flags byte that it counts, and the rest: to such a reader
    the headers are frames, and the body begins with what is missing of the last of them.
    """
    text = json.dumps(command).encode()
    frame = bytes([1 + len(text), 0]) + text
    padding = 0
    while True:
        header = (f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://example.org\r\n"
                  f"Content-Type: text/plain\r\nContent-Length: {padding + len(frame)}\r\n\r\n").encode()
        at = 0
        while at < len(header):
            at += 1 + header[at]
        if at - len(header) == padding:
            return header + b" " * padding + frame
        padding = at - len(header)


def zmtp_1(command: dict) -> bytes:
    """A REQ peer's anonymous identity, an empty part and the request."""
    text = json.dumps(command).encode()
    return b"\x01\x00" + b"\x01\x01" + bytes([1 + len(text), 0]) + text


def zmtp_2(command: dict) -> bytes:
    """Signature, revision 1, socket type DEALER, anonymous identity, the request."""
    text = json.dumps(command).encode()
    return (b"\xff" + bytes(7) + b"\x01\x7f" + b"\x01" + b"\x05" + b"\x00\x00"
            + bytes([0, len(text)]) + text)


def zmtp_3(socket_type: bytes) -> bytes:
    """Greeting with the mechanism NULL, and READY."""
    ready = b"\x05READY\x0bSocket-Type" + len(socket_type).to_bytes(4, "big") + socket_type
    return (b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
            + bytes([4, len(ready)]) + ready)


class Handshakes(unittest.TestCase):
    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)

    def test_neither_a_web_page_nor_an_old_protocol_is_heard(self):
        rig = self.rig
        port = free_port()
        rig.commands = f"tcp://127.0.0.1:{port}"
        rig.client = type(rig.client)(rig.commands, timeout_s=DEADLINE_S)
        rig.start_locked()
        for name, data in (("HTTP POST", http_post({"command": "unlock"})),
                           ("ZMTP 1.0", zmtp_1({"command": "unlock"})),
                           ("ZMTP 2.0", zmtp_2({"command": "unlock"}))):
            with self.subTest(name), socket.create_connection(("127.0.0.1", port)) as raw:
                raw.settimeout(0.1)
                raw.sendall(data)
                self.wait_for_end(raw)
                self.assertNotEqual(rig.status()["state"], "idle")

    def wait_for_end(self, raw: socket.socket):
        """Reads the daemon's greeting and the end that it makes of the connection."""
        end = time.monotonic() + DEADLINE_S
        while True:
            with contextlib.suppress(TimeoutError):
                try:
                    if not raw.recv(1000):
                        return
                except ConnectionResetError:
                    return
            self.assertNotEqual(self.rig.status()["state"], "idle")  # that would be `unlock`
            self.assertLess(time.monotonic(), end, "the connection lives on")

    def read_until(self, raw: socket.socket, wanted: bytes):
        received = b""
        while wanted not in received:
            part = raw.recv(1000)
            self.assertTrue(part, "the connection ended")
            received = received[-20:] + part

    def test_a_peer_that_never_says_who_it_is_is_dropped(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        for endpoint in (rig.commands, rig.publish):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(endpoint.removeprefix("ipc://"))
                raw.settimeout(20 * SLOW)  # less than libzmq's own 30 s
                while raw.recv(1000):
                    pass

    def test_a_message_announced_too_large_ends_its_connection(self):
        # Without a limit libzmq allocates what any peer announces, and waits for the rest of it.
        rig = self.rig
        rig.start_locked()
        request = b'{"command":"status"}'
        for endpoint, socket_type, first, answer in (
                (rig.commands, b"DEALER", bytes([0, len(request)]) + request, b'"ok":true'),
                (rig.publish, b"SUB", b"\x00\x01\x01", b"position ")):
            with self.subTest(socket_type), socket.socket(socket.AF_UNIX) as raw:
                raw.settimeout(DEADLINE_S)
                raw.connect(endpoint.removeprefix("ipc://"))
                raw.sendall(zmtp_3(socket_type))
                self.read_until(raw, b"READY")
                raw.sendall(first)
                self.read_until(raw, answer)  # so it is not the handshake that ends it
                raw.settimeout(0.1)
                raw.sendall(b"\x02" + (1 << 30).to_bytes(8, "big") + b"garbage")
                self.wait_for_end(raw)

    def test_peers_with_an_identity_are_served(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        context = zmq.Context.instance()
        with context.socket(zmq.DEALER) as dealer, context.socket(zmq.SUB) as subscriber:
            for peer in (dealer, subscriber):
                peer.setsockopt(zmq.LINGER, 0)
                peer.setsockopt(zmq.RCVTIMEO, int(1000 * DEADLINE_S))
                peer.setsockopt(zmq.IDENTITY, b"i" * 255)
            dealer.connect(rig.commands)
            dealer.send(b'{"command":"status"}')
            self.assertTrue(json.loads(dealer.recv())["ok"])
            subscriber.setsockopt(zmq.SUBSCRIBE, b"status ")
            subscriber.connect(rig.publish)
            self.assertTrue(subscriber.recv().startswith(b"status "))

    def test_only_owner_and_group_may_connect(self):
        rig = self.rig
        rig.start_sim()
        for mask in (0o077, 0):
            before = os.umask(mask)
            try:
                daemon = rig.start_daemon()
            finally:
                os.umask(before)
            for endpoint in (rig.commands, rig.publish):
                about = os.stat(endpoint.removeprefix("ipc://"))
                self.assertEqual(stat.S_IMODE(about.st_mode), 0o660, endpoint)
            daemon.stop()


def rss_kib(process: Process) -> int:
    with open(f"/proc/{process.child.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Floods(unittest.TestCase):
    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)

    def test_a_flood_of_subscriptions_ends_its_connection_and_nothing_else(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        positions = rig.subscribe("position")
        positions.receive(DEADLINE_S)
        before_kib = rss_kib(rig.daemon)
        flood = b"".join(b"\x00\x33\x01" + f"{i:050d}"[::-1].encode() for i in range(24_000))
        for endpoint in (rig.publish, rig.corrections):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.settimeout(DEADLINE_S)
                raw.connect(endpoint.removeprefix("ipc://"))
                raw.sendall(zmtp_3(b"SUB"))
                greeting = b""
                while b"READY" not in greeting:
                    greeting += raw.recv(1000)
                with self.assertRaises((BrokenPipeError, ConnectionResetError)):
                    raw.sendall(flood)
        # All of it took 38 MiB; 64 subscriptions, and what libzmq keeps of its buffers, do not. A
        # sanitizer keeps a record beside each byte.
        self.assertLess(rss_kib(rig.daemon) - before_kib, 6 * 1024 * SLOW)
        lost = positions.lost
        for _ in range(100):
            positions.receive(DEADLINE_S)
        self.assertEqual(positions.lost, lost)
        self.assertEqual(rig.status()["loop"]["queue_dropped"], 0)

    def test_replies_that_nobody_reads_are_dropped(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        rig.wait_markers()
        before_kib = rss_kib(rig.daemon)
        with zmq.Context.instance().socket(zmq.DEALER) as deaf:
            deaf.setsockopt(zmq.LINGER, 0)
            deaf.setsockopt(zmq.RCVHWM, 1)
            deaf.connect(rig.commands)
            for i in range(1000):  # a snapshot is 128 KiB; docs/reference/protocol.md allows 64 MiB of them
                deaf.send_json({"command": "snapshot", "id": i})
                if i % 50 == 0:
                    rig.status()
            rig.status()
            self.assertLess(rss_kib(rig.daemon) - before_kib, 96 * 1024)

    def test_replies_that_nobody_reads_hold_little_of_their_requests(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        rig.wait_markers()
        most = 4096
        with zmq.Context.instance().socket(zmq.DEALER) as peer:
            peer.setsockopt(zmq.LINGER, 0)
            peer.setsockopt(zmq.RCVTIMEO, int(1000 * DEADLINE_S))
            peer.setsockopt(zmq.RECONNECT_IVL, -1)
            peer.connect(rig.commands)
            for request in (b'{"command":"status","id":"%s"}' % (b"i" * 4000),
                            b'{"command":"status","id":%s}' % (b"[" * 2000 + b"]" * 2000),
                            b'{"command":"%s"}' % (b"c" * 4000),
                            b'{"command":"status","%s":1}' % (b"f" * 4000)):
                peer.send(request.ljust(most))
                reply = peer.recv()
                self.assertEqual(json.loads(reply)["code"], "bad_request")
                self.assertLess(len(reply), 300)
            peer.send(b" " * (most + 1))  # ends the connection
            peer.setsockopt(zmq.RCVTIMEO, 500)
            with self.assertRaises(zmq.Again):
                peer.recv()
        self.assertEqual(rig.status()["state"], "idle")

    def test_garbage_on_the_sockets_changes_nothing(self):
        rig = self.rig
        rig.start_locked()
        lock_id = rig.status()["lock_id"]
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
        fitted = rig.status()["loop"]["fitted"]
        rig.wait_until(lambda s: s["loop"]["fitted"] > fitted + 50, "frames")
        status = rig.wait_state("locked")  # a busy machine may hold for a moment
        self.assertEqual(status["lock_id"], lock_id)
        self.assertEqual(status["loop"]["queue_dropped"], 0)


class StoppedDriver(unittest.TestCase):
    """A stage driver that stands still while the lock goes on."""

    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)
        self.age_s = 1  # a correction expires with its frame
        self.rig.start_locked(lock={"max_frame_age_ms": 1000 * self.age_s})

    def wait_until(self, condition):
        end = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def found_after_a_stop(self, program: str, corrections: int) -> list[dict]:
        """Stops a program that prints each correction, unlocks, waits, lets it go on, locks again.

        Returns what it printed afterwards of what was sent after the stop, up to the new lock's first.
        """
        rig = self.rig
        driver = rig.enter_context(Process("driver", [sys.executable, "-c", program, rig.corrections],
                                           rig.folder, PYTHONPATH=str(SOURCE / "clients/python")))
        self.wait_until(lambda: driver.text().count("sent_ns") > 20)
        driver.child.send_signal(signal.SIGSTOP)
        stopped_ns = time.monotonic_ns()
        sent = rig.status()["loop"]["corrections"]
        rig.wait_until(lambda s: s["loop"]["corrections"] > sent + corrections, "corrections meanwhile")
        rig.client.unlock()
        time.sleep(self.age_s)  # the last of the lock expires
        printed = driver.text().count("\n")
        driver.child.send_signal(signal.SIGCONT)
        rig.client.lock()
        self.wait_until(lambda: '"lock_id": 2' in driver.text())
        lines = driver.text().split("\n")[printed:-1]
        return [m for m in map(json.loads, lines) if m["sent_ns"] > stopped_ns]

    def test_it_is_told_nothing_of_a_lock_that_is_over(self):
        found = self.found_after_a_stop("""if True:
            import driftd, json, sys
            corrections = driftd.Corrections(sys.argv[1])
            while True:
                print(json.dumps(corrections.receive()), flush=True)""", corrections=50)
        self.assertEqual({message["lock_id"] for message in found}, {2})

    def test_it_finds_a_handful_of_corrections(self):
        found = self.found_after_a_stop("""if True:
            import json, sys, zmq
            socket = zmq.Context().socket(zmq.SUB)
            socket.setsockopt(zmq.SUBSCRIBE, b"correction ")
            socket.connect(sys.argv[1])
            while True:
                print(json.dumps(json.loads(socket.recv().decode().split(" ", 1)[1])), flush=True)""",
                                        corrections=150)
        old = [message for message in found if message["lock_id"] == 1]
        self.assertLess(len(old), 20)  # 4 in the queue, 4 in the kernel, one in between


class Places(unittest.TestCase):
    """Where the sockets are, and who has them."""

    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)

    def driftctl(self, *arguments, user: int | None = None, **environment):
        """The finished program, as a user other than root if that is given."""
        as_user = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
        return subprocess.run([*as_user, BIN / "driftctl", *map(str, arguments)], text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False,
                              env={**os.environ, **environment})

    def test_a_second_daemon_refuses_and_the_first_stays(self):
        rig = self.rig
        rig.start_daemon(rig.config(camera={"start_without_camera": "true"}))
        keys = ("publish", "corrections", "commands")
        for key in keys:
            other = {k: f"ipc://{rig.folder}/{k}-2" for k in keys}
            file = rig.folder / "second.yaml"
            file.write_text(rig.config(wire={**other, key: getattr(rig, key)}).read_text())
            second = subprocess.run([BIN / "driftd", "--config", file], capture_output=True, text=True,
                                    timeout=DEADLINE_S, check=False)
            self.assertEqual(second.returncode, 5, second.stderr)
            for part in (f"wire.{key}", getattr(rig, key), f"process {rig.daemon.child.pid}"):
                self.assertIn(part, second.stderr)
        self.assertEqual(rig.status()["state"], "idle")

    def test_what_a_killed_daemon_left_is_replaced(self):
        rig = self.rig
        file = rig.config(camera={"start_without_camera": "true"})
        rig.start_daemon(file)
        rig.daemon.child.kill()
        rig.daemon.child.wait()
        self.assertTrue(os.path.exists(rig.commands.removeprefix("ipc://")))
        rig.start_daemon(file)
        self.assertEqual(rig.status()["state"], "idle")
        rig.daemon.stop()
        self.assertEqual([p.name for p in rig.folder.iterdir() if p.suffix == ".lock"], [])

    def test_a_file_that_is_no_socket_stays(self):
        rig = self.rig
        precious = rig.folder / "data.csv"
        other_lock = rig.folder / "corrections.lock"
        precious.write_text("precious\n")
        other_lock.write_text("somebody else's\n")
        file = rig.config(wire={"publish": f"ipc://{precious}"}, camera={"start_without_camera": "true"})
        check = subprocess.run([BIN / "driftd", "--config", file, "--check-config"], text=True,
                               capture_output=True, timeout=DEADLINE_S, check=True).stdout
        self.assertRegex(check, "wire.publish: .*data.csv exists and is no socket\n")
        self.assertRegex(check, "wire.corrections: .*corrections.lock is no lock of a daemon's")
        for said in ("data.csv exists and is no socket", "corrections.lock is no lock of a daemon's"):
            daemon = subprocess.run([BIN / "driftd", "--config", file], capture_output=True, text=True,
                                    timeout=DEADLINE_S, check=False)
            self.assertEqual(daemon.returncode, 5)
            self.assertIn(said, daemon.stderr)
            file = rig.config(wire={"publish": rig.publish})
        self.assertEqual((precious.read_text(), other_lock.read_text()),
                         ("precious\n", "somebody else's\n"))

    def test_what_another_user_left_is_told(self):
        if os.geteuid() != 0:
            self.skipTest("needs two users")
        rig = self.rig
        user = 65534
        rig.folder.chmod(0o777)
        file = rig.config(camera={"start_without_camera": "true"})
        lock = rig.folder / "commands.lock"
        lock.write_text("4194304\n")
        lock.chmod(0o640)
        as_user = ["setpriv", f"--reuid={user}", "--clear-groups", BIN / "driftd", "--config", file]
        check = subprocess.run([*as_user, "--check-config"], text=True, capture_output=True, timeout=DEADLINE_S,
                               check=False)
        if check.returncode in (126, 127):
            self.skipTest("the build folder cannot be read by another user")
        said = f"{lock}: Permission denied: it belongs to user 0, who may remove it"
        self.assertRegex(check.stdout, f"wire.commands: .*{said}")
        daemon = subprocess.run(as_user, text=True, capture_output=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(daemon.returncode, 5)
        self.assertIn(said, daemon.stderr)
        # In a folder like /tmp only its owner may remove the file of a socket.
        lock.unlink()
        rig.folder.chmod(0o1777)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(rig.commands.removeprefix("ipc://"))
        check = subprocess.run([*as_user, "--check-config"], text=True, capture_output=True, timeout=DEADLINE_S,
                               check=True)
        self.assertRegex(check.stdout, "wire.commands: .*/commands: it belongs to user 0, who")

    def test_a_program_that_takes_no_lock_keeps_its_endpoint(self):
        rig = self.rig
        with zmq.Context.instance().socket(zmq.PUB) as taken:
            taken.bind(rig.publish)
            daemon = subprocess.run([BIN / "driftd", "--config", rig.config()], capture_output=True,
                                    text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(daemon.returncode, 5)
        self.assertIn(f"process {os.getpid()}", daemon.stderr)

    def test_the_example_for_a_camera_runs_as_it_stands(self):
        rig = self.rig
        user = 65534 if os.geteuid() == 0 else None  # root would be given /run/driftd
        if user is None and os.access("/run/driftd", os.W_OK):
            self.skipTest("this user has /run/driftd")
        session = rig.folder / "session"
        session.mkdir(mode=0o700)
        rig.folder.chmod(0o755)
        environment = {"XDG_RUNTIME_DIR": str(session)}
        as_user = []
        if user:
            os.chown(session, user, -1)
            as_user = ["setpriv", f"--reuid={user}", "--clear-groups"]
        example = SOURCE / "config/examples/gige.yaml"
        if subprocess.run([*as_user, BIN / "driftd", "--config", example, "--check-config"], check=False,
                          capture_output=True).returncode in (126, 127):
            self.skipTest("the build folder cannot be read by another user")
        nobody = self.driftctl("status", user=user, **environment)
        self.assertEqual(nobody.returncode, 3)
        self.assertIn("no driftd is there", nobody.stderr)
        self.assertIn(f"{session}/driftd/commands", nobody.stderr)
        daemon = rig.enter_context(Process("driftd", [*as_user, BIN / "driftd", "--config", example],
                                           rig.folder, **environment))
        daemon.wait_for("publishing on")
        self.assertIn(f"ipc://{session}/driftd/publish", daemon.text())
        for option in ([], ["--config", example]):
            found = self.driftctl(*option, "--timeout", "30", "status", user=user, **environment)
            self.assertEqual((found.returncode, found.stderr), (0, ""))
            self.assertIn("idle", found.stdout)
        daemon.child.send_signal(signal.SIGSTOP)
        silent = self.driftctl("--timeout", "0.2", "status", user=user, **environment)
        daemon.child.send_signal(signal.SIGCONT)
        self.assertEqual(silent.returncode, 3)
        self.assertIn(f"(process {daemon.child.pid}) runs", silent.stderr)

    def test_a_missing_permission_is_said_with_the_group(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        rig.folder.chmod(0o755)
        file = rig.commands.removeprefix("ipc://")
        os.chmod(file, 0)
        user = 65534 if os.geteuid() == 0 else None
        refused = self.driftctl("--commands", rig.commands, "status", user=user)
        if refused.returncode in (126, 127):
            self.skipTest("the build folder cannot be read by another user")
        self.assertEqual(refused.returncode, 3)
        self.assertIn("permission", refused.stderr)
        self.assertIn(f"`{grp.getgrgid(os.stat(file).st_gid).gr_name}`", refused.stderr)

    def test_the_check_tells_endpoints_that_cannot_be_had(self):
        rig = self.rig
        file = rig.config(wire={"publish": f"ipc://{rig.folder}/none/publish"})
        rig.start_sim()

        def check():
            said = subprocess.run([BIN / "driftd", "--config", file, "--check-config"], text=True,
                                  capture_output=True, timeout=DEADLINE_S, check=True).stdout.splitlines()
            self.assertEqual(said[0], f"{file}: no mistakes")
            return said[1:]

        self.assertRegex("\n".join(check()), r"^.*: wire.publish: .*/none: No such file or directory$")
        rig.config()
        self.assertEqual(check(), [])
        rig.start_daemon()
        self.assertEqual(len(check()), 3)
        for line in check():
            self.assertRegex(line, f"in use by process {rig.daemon.child.pid}$")


if __name__ == "__main__":
    unittest.main()
