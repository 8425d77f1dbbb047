# SPDX-License-Identifier: MIT
"""Keys and roles: a daemon with keys, and clients that are pyzmq alone or the programs with --connect."""
import contextlib
import json
import os
import pathlib
import re
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import zmq
import zmq.auth
from harness import BIN, DEADLINE_S, SLOW, SOURCE, Rig, driftd
from test_sockets import free_port, http_post, zmtp_1

ANSWER_MS = int(1000 * DEADLINE_S)
NONE_MS = int(300 * SLOW)  # nothing came, after the refusal was counted
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00"


class Recorder(threading.Thread):
    """A TCP proxy that keeps what the client sent."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.target, self.said = port, b""
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.start()

    def run(self):
        peer, _ = self.listening.accept()
        with peer, socket.create_connection(("127.0.0.1", self.target)) as daemon:
            back = threading.Thread(target=self.pump, args=(daemon, peer), daemon=True)
            back.start()
            self.pump(peer, daemon, keep=True)

    def pump(self, source: socket.socket, sink: socket.socket, keep: bool = False):
        try:
            while data := source.recv(65536):
                if keep:
                    self.said += data
                sink.sendall(data)
        except OSError:
            pass


class Crowd(threading.Thread):
    """Makes connections that say nothing, each anew when the daemon ends it."""

    def __init__(self, port: int, count: int):
        super().__init__(daemon=True)
        self.port, self.over = port, threading.Event()
        self.waiting = selectors.DefaultSelector()
        for _ in range(count):
            self.come()
        self.start()

    def come(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)
        self.waiting.register(peer, selectors.EVENT_READ)

    def run(self):
        while not self.over.is_set():
            for key, _ in self.waiting.select(0.1):
                try:
                    if key.fileobj.recv(4096):
                        continue
                except OSError:
                    pass
                self.waiting.unregister(key.fileobj)
                key.fileobj.close()
                with contextlib.suppress(OSError):
                    self.come()

    def end(self):
        self.over.set()
        self.join()
        for key in list(self.waiting.get_map().values()):
            key.fileobj.close()


class Access(unittest.TestCase):
    """All tests share one daemon: each takes away what it adds."""

    @classmethod
    def setUpClass(cls):
        cls.rig = rig = Rig()
        cls.addClassCleanup(rig.close)
        cls.folder = rig.folder / "keys"
        cls.context = zmq.Context()
        cls.addClassCleanup(cls.context.destroy, 0)
        made = subprocess.run([BIN / "driftctl", "keygen", "server", "--directory", cls.folder],
                              capture_output=True, text=True, check=True)
        assert "access:" in made.stdout and "tcp://*:5555" in made.stdout, made.stdout
        cls.port = free_port()
        zmq.auth.create_certificates(rig.folder, "stranger")
        for name, role in (("alice", "command"), ("olga", "observe"), ("piezo", "stage"), ("gone", "observe")):
            cls.add(name, role)
        cls.file = rig.config(
            camera={"start_without_camera": "true"},
            wire={"publish": f'["{rig.publish}", "tcp://127.0.0.1:*"]',
                  "corrections": f'["{rig.corrections}", "tcp://127.0.0.1:*"]',
                  "commands": f'["{rig.commands}", "tcp://127.0.0.1:{cls.port}"]'},
            access={"server_key": "keys/server.key_secret", "clients": "keys/clients"})
        rig.start_daemon(cls.file)
        cls.ports = rig.client.request("access")[0]["ports"]

    @classmethod
    def add(cls, name: str, role: str) -> None:
        """A client whose key an independent program made; its role is written by hand."""
        zmq.auth.create_certificates(cls.rig.folder, name)
        text = (cls.rig.folder / f"{name}.key").read_text()
        (cls.folder / "clients" / f"{name}.key").write_text(
            text.replace("metadata\n", f'metadata\n    role = "{role}"\n'))

    def keyed(self, kind: int, name: str, port: int, server: str = "", watch: list | None = None) -> zmq.Socket:
        """Connected. `watch` gets a socket that tells of the handshake's success."""
        peer = self.context.socket(kind)
        self.addCleanup(peer.close, 0)
        peer.curve_serverkey = server.encode() or zmq.auth.load_certificate(self.folder / "server.key")[0]
        peer.curve_publickey, peer.curve_secretkey = zmq.auth.load_certificate(
            self.rig.folder / f"{name}.key_secret")
        if kind == zmq.SUB:
            peer.setsockopt(zmq.SUBSCRIBE, b"")
        if watch is not None:
            watch.append(peer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED))
        peer.connect(f"tcp://127.0.0.1:{port}")
        return peer

    def keyless(self) -> zmq.Socket:
        peer = self.context.socket(zmq.REQ)
        self.addCleanup(peer.close, 0)
        peer.connect(f"tcp://127.0.0.1:{self.port}")
        return peer

    @staticmethod
    def answer(peer: zmq.Socket, request: dict, wait_ms: int = ANSWER_MS) -> dict | None:
        peer.sndtimeo = wait_ms  # one that was refused has no connection any more
        try:
            peer.send_json(request)
        except zmq.Again:
            return None
        return json.loads(peer.recv_multipart()[0]) if peer.poll(wait_ms) else None

    def ask(self, name: str, command: str, **fields) -> dict | None:
        return self.answer(self.keyed(zmq.REQ, name, self.port), {"command": command, **fields})

    def refused(self) -> int:
        return self.rig.status()["wire"]["peers_refused"]

    def wait_refused(self, before: int) -> None:
        self.rig.wait_until(lambda s: s["wire"]["peers_refused"] > before, "a refusal is counted")

    def raw(self, said: bytes) -> bytes:
        """What comes back until the daemon ends the connection, which it must."""
        with socket.create_connection(("127.0.0.1", self.port)) as peer:
            peer.settimeout(DEADLINE_S)
            came = b""
            try:
                peer.sendall(said)
                while data := peer.recv(65536):
                    came += data
            except ConnectionResetError:
                pass
            return came

    def reload(self, said: str) -> str:
        """Reloads the configuration; returns what the log says of that."""
        before = len(self.rig.daemon.text())
        self.rig.daemon.child.send_signal(signal.SIGHUP)
        end = time.monotonic() + DEADLINE_S
        while said not in self.rig.daemon.text()[before:]:
            self.assertLess(time.monotonic(), end, f"never {said!r}:\n{self.rig.daemon.text()}")
            time.sleep(0.02)
        return self.rig.daemon.text()[before:]

    def test_each_role_may_what_the_page_says(self):
        self.assertEqual(self.ask("olga", "access")["name"], "olga")
        for command, fields, role in (
                ("status", {}, "alice olga piezo"), ("markers", {}, "alice olga piezo"),
                ("record", {}, "alice olga piezo"), ("calibration", {}, "alice olga piezo"),
                ("unlock", {}, "alice"), ("lock", {}, "alice"), ("reset", {}, "alice"),
                ("place", {}, "alice olga piezo"), ("place", {"show": "a"}, "alice olga piezo"),
                ("place", {"remove": "a"}, "alice"), ("place", {"save": "a"}, "alice"),
                ("calibrate", {}, "alice"), ("reload", {}, "alice"), ("markers", {"find": True}, "alice"), ("markers", {"remove": [1]}, "alice"),
                ("exposure", {}, "alice olga piezo"), ("exposure", {"gain_db": 3}, "alice"),
                ("record", {"stop": True}, "alice"), ("stage", {}, "piezo")):
            for name in ("alice", "olga", "piezo"):
                with self.subTest(command=command, name=name, **fields):
                    reply = self.ask(name, command, **fields)
                    self.assertEqual(reply.get("code") != "forbidden", name in role, reply)
        reply = self.ask("olga", "lock", id=7)
        self.assertEqual(reply, {"ok": False, "id": 7, "code": "forbidden", "error":
                                 "olga has the role observe, not for lock: it may status, markers, snapshot, "
                                 "calibration, record, place, exposure, access"})
        for name, may in (("alice", True), ("olga", False), ("piezo", True)):
            with self.subTest(name):
                self.assertTrue(self.keyed(zmq.SUB, name, self.ports["publish"]).poll(ANSWER_MS))
                before = self.refused()
                watch = []
                subscriber = self.keyed(zmq.SUB, name, self.ports["corrections"], watch=watch)
                if not may:
                    self.wait_refused(before)
                self.assertEqual(bool(watch[0].poll(ANSWER_MS if may else NONE_MS)), may)
                subscriber.disable_monitor()
                subscriber.close(0)

    def test_without_the_right_key_nobody_is_heard(self):
        other = zmq.curve_keypair()[0].decode()
        for what, connect in (("an unknown key", lambda: self.keyed(zmq.REQ, "stranger", self.port)),
                              ("no key", self.keyless),
                              ("another server's key", lambda: self.keyed(zmq.REQ, "alice", self.port, other))):
            with self.subTest(what):
                before = self.refused()
                peer = connect()
                self.wait_refused(before)  # one without a key leaves by itself, where it is the first to see it
                self.assertIsNone(self.answer(peer, {"command": "unlock"}, NONE_MS))
                peer.close(0)
        for what, said in (
                ("HTTP", http_post({"command": "unlock"})),
                ("ZMTP 1.0", zmtp_1({"command": "unlock"})),
                ("ZMTP 3 without keys", GREETING + b"NULL".ljust(20, b"\0") + bytes(32)),
                ("a hello that is none", GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) +
                 b"\x04\xc8\x05HELLO\x01\x00" + bytes(192)),
                ("a frame of a terabyte", GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) +
                 b"\x06" + (1 << 40).to_bytes(8, "big")),
                ("nothing", b"")):
            with self.subTest(what):
                before = self.refused()
                self.assertLess(len(self.raw(said)), 100)
                self.wait_refused(before)
        with self.subTest("it leaves as libzmq does without a key, once it has read that one is needed"):
            before = self.refused()
            with socket.create_connection(("127.0.0.1", self.port)) as peer:
                peer.sendall(GREETING)
                peer.settimeout(DEADLINE_S)
                self.assertIn(b"CURVE", peer.makefile("rb").read(64))  # which may come in parts
            self.wait_refused(before)
        # One line in the log a peer and minute: all these come from 127.0.0.1.
        self.assertEqual(len(re.findall("127.0.0.1 was refused", self.rig.daemon.text())), 1)

    def test_a_crowd_of_strangers_shuts_out_nobody(self):
        stays = self.keyed(zmq.DEALER, "olga", self.port)
        self.assertTrue(self.answer(stays, {"command": "status"})["ok"])
        watch = stays.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        crowd = Crowd(self.port, 260)
        self.addCleanup(crowd.end)
        for _ in range(4):
            self.assertEqual(driftd.Client(self.rig.commands, ANSWER_MS / 1000).status()["state"], "idle")
            # Some connections end before their handshake where a machine is busy: she asks again.
            asked = (self.answer(self.keyed(zmq.REQ, "alice", self.port), {"command": "status"}, ANSWER_MS // 3)
                     for _ in range(3))
            self.assertTrue(any((answer or {}).get("ok") for answer in asked), "alice was not heard")
        self.assertTrue(crowd.is_alive())
        self.assertFalse(watch.poll(0), "who has a key and had spoken was disconnected")
        stays.disable_monitor()

    def test_a_recorded_session_cannot_be_played_again(self):
        proxy = Recorder(self.port)
        peer = self.keyed(zmq.REQ, "alice", proxy.port)
        self.assertTrue(self.answer(peer, {"command": "unlock"})["ok"])
        peer.close(0)
        self.assertIn(b"INITIATE", proxy.said)
        self.assertNotIn(b"unlock", proxy.said)  # nobody reads along
        before = self.refused()
        came = self.raw(proxy.said)
        self.assertNotIn(b"READY", came)
        self.wait_refused(before)

    def test_a_key_that_is_taken_back_ends_its_connections_and_no_others(self):
        gone = self.keyed(zmq.SUB, "gone", self.ports["publish"])
        stays = self.keyed(zmq.SUB, "olga", self.ports["publish"])
        asks = self.keyed(zmq.DEALER, "gone", self.port)
        for peer in (gone, stays):
            self.assertTrue(peer.poll(ANSWER_MS))
        self.assertTrue(self.answer(asks, {"command": "status"})["ok"])
        watch = stays.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        ended = gone.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        file = self.folder / "clients/gone.key"
        file.rename(self.rig.folder / "gone.key.revoked")
        revoked = self.rig.status()["wire"]["connections_revoked"]
        self.assertIn("no longer let in: gone", self.reload("configuration_reloaded"))
        self.rig.wait_until(lambda s: s["wire"]["connections_revoked"] == revoked + 2, "both are ended")
        self.assertTrue(ended.poll(ANSWER_MS))
        gone.disable_monitor()
        while gone.poll(0):  # what came before the end
            gone.recv()
        self.assertIsNone(self.answer(asks, {"command": "status"}, NONE_MS))
        self.assertFalse(gone.poll(int(1000 * SLOW)), "what has no key hears no status")
        self.assertTrue(stays.poll(ANSWER_MS))
        self.assertFalse(watch.poll(0), "the other one was disconnected")
        # It comes again, and is let in again.
        (self.rig.folder / "gone.key.revoked").rename(file)
        self.assertIn("let in: gone", self.reload("configuration_reloaded"))
        self.assertTrue(self.ask("gone", "status")["ok"])

    def test_a_folder_with_a_mistake_changes_nothing(self):
        bad = self.folder / "clients/bad.key"
        self.addCleanup(bad.unlink, missing_ok=True)
        alices = (self.folder / "clients/alice.key").read_text()
        hidden = self.rig.folder / "olga.key"
        (self.folder / "clients/olga.key").rename(hidden)  # a revocation that must wait for the mistake's end
        for text, said in ((alices.replace("command", "observe"), "bad.key: found the key of alice.key"),
                           ("nonsense", "bad.key: curve/public-key: found none"),
                           ((self.rig.folder / "stranger.key_secret").read_text(), "bad.key: curve/secret-key")):
            with self.subTest(said):
                bad.write_text(text)
                log = self.reload("configuration_rejected")
                self.assertIn(said, log)
                self.assertNotIn("access_changed", log)
        self.assertTrue(self.ask("olga", "status")["ok"])
        bad.unlink()
        hidden.rename(self.folder / "clients/olga.key")
        self.assertNotIn("access_changed", self.reload("configuration_reloaded"))
        # A secret key that others may read, at start.
        other = self.rig.folder / "open"
        shutil.copytree(self.folder, other)
        os.chmod(other / "server.key_secret", 0o644)
        text = self.file.read_text().replace("keys/", "open/")
        config = self.rig.folder / "open.yaml"
        config.write_text(text.replace(str(self.rig.folder) + "/", str(other) + "/"))
        ended = subprocess.run([BIN / "driftd", "--config", config], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn("server.key_secret: found a secret key with mode 0644; allowed 0600 or 0640",
                      ended.stderr)

    def driftctl(self, *arguments, home: pathlib.Path) -> subprocess.CompletedProcess:
        environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": ""}
        return subprocess.run([BIN / "driftctl", *arguments], capture_output=True, text=True,
                              env=environment, timeout=DEADLINE_S)

    def test_driftctl_from_another_computer(self):
        """A program with a home folder of its own, which does not look for local sockets."""
        home = self.rig.folder / "home"
        home.mkdir()
        there = ("--connect", f"tcp://127.0.0.1:{self.port}", "--timeout", "30")
        made = self.driftctl("keygen", "client", "laptop", "--role", "observe", home=home)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("systemctl reload driftd", made.stdout)
        own = home / ".config/driftd"
        self.assertEqual((own / "client.key_secret").stat().st_mode & 0o777, 0o600)
        self.assertEqual((own / "laptop.key").stat().st_mode & 0o777, 0o644)
        secret = (own / "client.key_secret").read_text()
        again = self.driftctl("keygen", "client", "laptop", home=home)
        self.assertEqual(again.returncode, 4)
        self.assertIn("is there already and stays", again.stderr)
        self.assertEqual((own / "client.key_secret").read_text(), secret)
        self.assertEqual(zmq.auth.load_certificate(own / "client.key_secret")[0],
                         zmq.auth.load_certificate(own / "laptop.key")[0])
        missing = self.driftctl(*there, "status", home=home)
        self.assertEqual(missing.returncode, 2)
        self.assertIn("servers/127.0.0.1.key: there is no such file", missing.stderr)
        (own / "servers").mkdir()
        shutil.copy(self.folder / "server.key", own / "servers/127.0.0.1.key")
        unknown = self.driftctl(*there[:2], "--timeout", "3", "status", home=home)
        self.assertEqual(unknown.returncode, 3)
        self.assertIn("does not let in this key", unknown.stderr)

        shutil.copy(own / "laptop.key", self.folder / "clients")
        self.addCleanup((self.folder / "clients/laptop.key").unlink)
        self.assertIn("let in: laptop", self.reload("configuration_reloaded"))
        self.assertIn("laptop: observe", self.driftctl(*there, "access", home=home).stdout)
        watched = self.driftctl(*there, "--json", "watch", "--for", str(2.5 * SLOW), home=home)
        self.assertEqual(watched.returncode, 0, watched.stderr)
        self.assertIn("status {", watched.stdout)
        unlock = self.driftctl(*there, "unlock", home=home)
        self.assertEqual(unlock.returncode, 1)
        self.assertIn("laptop has the role observe, not for unlock", unlock.stderr)

        (own / "client.key_secret").chmod(0o640)  # whose group may read it
        loose = self.driftctl(*there, "status", home=home)
        self.assertEqual(loose.returncode, 2)
        self.assertIn("found a secret key with mode 0640; allowed 0600", loose.stderr)

    def test_python_from_another_computer(self):
        home = self.rig.folder / "home"
        address = f"tcp://127.0.0.1:{self.port}"
        made = self.driftctl("keygen", "client", "laptop", "--role", "observe", home=home)
        self.assertEqual(made.returncode, 0, made.stderr)
        own = home / ".config/driftd"
        shutil.copy(own / "laptop.key", self.folder / "clients")
        self.addCleanup((self.folder / "clients/laptop.key").unlink)
        self.assertIn("let in: laptop", self.reload("configuration_reloaded"))
        keys = {"key": own / "client.key_secret", "server_key": self.folder / "server.key"}
        keys["key"].chmod(0o640)  # whose group may read it
        with self.assertRaisesRegex(ValueError, "client.key_secret: found a secret key with mode 0640; allowed 0600"):
            driftd.read_keys(address, *keys.values())
        keys["key"].chmod(0o600)
        scope = driftd.server(address, **keys, timeout_s=DEADLINE_S)
        self.assertEqual(scope.corrections, "")
        with driftd.subscribe(scope, ["status"]) as subscription:
            self.assertEqual(subscription.receive(DEADLINE_S)[0], "status")
        with self.assertRaisesRegex(ValueError, "corrections: this role may not subscribe to them"):
            driftd.subscribe(scope, ["correction"])  # which would wait for ever
        with self.assertRaisesRegex(driftd.DriftdError, "not for lock"):
            driftd.Client(scope, DEADLINE_S).lock()
        # The example is pyzmq alone.
        example = [sys.executable, SOURCE / "clients/python/remote_example.py"]
        subprocess.run([*example, "keys"], cwd=home, check=True, capture_output=True, umask=0)
        self.assertEqual((home / "client.key_secret").stat().st_mode & 0o777, 0o600)
        self.assertEqual((home / "client.key").stat().st_mode & 0o777, 0o644)
        for source, name in ((own / "client.key_secret", "client.key_secret"),
                             (self.folder / "server.key", "server.key")):
            (home / name).write_text(source.read_text())
        watched = subprocess.run([*example, address, "1"], cwd=home, capture_output=True, text=True,
                                 timeout=DEADLINE_S)
        self.assertEqual(watched.returncode, 0, watched.stderr)
        self.assertIn("I am laptop (observe)", watched.stdout)

    def test_a_limit_of_the_files_size_leaves_no_part_of_a_key(self):
        folder = self.rig.folder / "limited"
        made = subprocess.run([BIN / "driftctl", "keygen", "client", "eve", "--directory", folder], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        self.assertEqual(made.returncode, 4)
        self.assertIn("File too large", made.stderr)
        self.assertEqual(list(folder.iterdir()), [])

    def test_keys_are_replaced_as_a_pair_or_not_at_all(self):
        folder = self.rig.folder / "pair"
        make = ("keygen", "client", "eve", "--directory", folder)
        self.assertEqual(self.driftctl(*make, home=folder).returncode, 0)
        secret = (folder / "client.key_secret").read_text()
        (folder / "eve.key").unlink()
        (folder / "eve.key").mkdir()  # what cannot be replaced
        failed = self.driftctl(*make, "--force", home=folder)
        self.assertEqual(failed.returncode, 4)
        self.assertIn("eve.key: Is a directory", failed.stderr)
        self.assertEqual((folder / "client.key_secret").read_text(), secret)
        (folder / "eve.key").rmdir()
        self.assertEqual(self.driftctl(*make, "--force", home=folder).returncode, 0)
        self.assertEqual(zmq.auth.load_certificate(folder / "client.key_secret")[0],
                         zmq.auth.load_certificate(folder / "eve.key")[0])
        self.assertEqual((folder / "client.key_secret").stat().st_mode & 0o777, 0o600)
        self.assertNotEqual((folder / "client.key_secret").read_text(), secret)
        self.assertEqual({file.name for file in folder.iterdir()}, {"client.key_secret", "eve.key"})

    @unittest.skipUnless(os.geteuid() == 0, "only root may give files away")
    def test_the_daemons_key_stays_its_users_when_it_is_replaced(self):
        folder = self.rig.folder / "daemons"
        make = ("keygen", "server", "--directory", folder)
        self.assertEqual(self.driftctl(*make, home=folder).returncode, 0)
        secret = folder / "server.key_secret"
        for owner, group, mode in ((65534, 0, 0o600), (0, 65534, 0o640), (0, 0, 0o600)):
            with self.subTest(owner=owner, group=group):
                before = secret.read_text()
                os.chown(secret, owner, group)
                secret.chmod(mode)
                self.assertEqual(self.driftctl(*make, "--force", home=folder).returncode, 0)
                self.assertNotEqual(secret.read_text(), before)
                about = secret.stat()
                self.assertEqual((about.st_uid, about.st_gid, about.st_mode & 0o777), (owner, group, mode))

    def test_local_peers_need_no_key(self):
        self.assertEqual(self.rig.client.request("access")[0]["roles"], "observe, stage, command")
        with driftd.subscribe(self.rig.publish, ["status"]) as subscription:
            subscription.receive(DEADLINE_S)

    @unittest.skipUnless(os.geteuid() == 0, "only root may show a program another user database")
    def test_a_group_may_have_thousands_of_members(self):
        groups = self.rig.folder / "groups"
        members = ",".join(f"user{i:06}" for i in range(8000))
        groups.write_text(f"root:x:0:\ncrowd:x:4711:{members}\n")
        config = self.rig.folder / "crowd.yaml"
        config.write_text(self.file.read_text().replace("access:\n", "access:\n  observe_group: crowd\n"))
        ended = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/group || exit 77; exec "$@"',
                                groups, BIN / "driftd", "--config", config, "--check-config"],
                               capture_output=True, text=True, timeout=DEADLINE_S)
        if ended.returncode == 77 or "unshare" in ended.stderr:
            self.skipTest(f"this root may not: {ended.stderr}")
        self.assertIn("no mistakes", ended.stdout + ended.stderr)
        self.assertNotIn("observe_group", ended.stdout + ended.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root may become others")
    def test_groups_give_roles_to_local_users(self):
        text = self.file.read_text()
        self.addCleanup(self.reload, "configuration_reloaded")
        self.addCleanup(self.file.write_text, text)
        self.file.write_text(text.replace("access:\n", "access:\n  observe_group: daemon\n"))
        self.reload("configuration_reloaded")
        place = self.rig.commands.removeprefix("ipc://")
        os.chmod(self.rig.folder, 0o711)
        os.chmod(place, 0o666)
        ask = ("import os,sys,zmq\nos.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(65534)\n"
               "s=zmq.Context().socket(zmq.REQ); s.linger=0; s.connect(sys.argv[1])\n"
               "s.send_json({'command': sys.argv[3]})\nprint(s.recv_json() if s.poll(int(sys.argv[4])) else None)")

        def ask_as(gid: int, command: str, wait_ms: int = ANSWER_MS) -> str:
            return subprocess.run([sys.executable, "-c", ask, self.rig.commands, str(gid), command, str(wait_ms)],
                                  capture_output=True, text=True, check=True).stdout
        self.assertIn("'name': 'user 65534'", ask_as(1, "access"))
        self.assertIn("not for unlock", ask_as(1, "unlock"))
        self.assertEqual(ask_as(65534, "status", 1000).strip(), "None")
        self.rig.daemon.wait_for("user 65534 was refused")


if __name__ == "__main__":
    unittest.main()
