# SPDX-License-Identifier: MIT
"""The daemon's sockets against more connections and subscriptions than it has use for."""
import contextlib
import ctypes
import resource
import socket
import struct
import time
import unittest

import zmq
from harness import DEADLINE_S, SLOW, CalmRig, driftd
from test_sockets import free_port, rss_kib, zmtp_3

BOUND = 200  # docs/reference/protocol.md, "Who is heard"


def soft_limit(descriptors: int) -> None:
    """Sets it for this process, and for those that it starts."""
    resource.setrlimit(resource.RLIMIT_NOFILE,
                       (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def connect(endpoint: str, timeout_s: float) -> socket.socket:
    """A connection without a byte; waits while the daemon's backlog is full."""
    end = time.monotonic() + timeout_s
    while True:
        if endpoint.startswith("tcp://"):
            host, port = endpoint.removeprefix("tcp://").split(":")
            return socket.create_connection((host, int(port)), timeout=timeout_s)
        peer = socket.socket(socket.AF_UNIX)
        peer.setblocking(False)
        try:
            peer.connect(endpoint.removeprefix("ipc://"))
            return peer
        except BlockingIOError:
            peer.close()
            if time.monotonic() > end:
                raise TimeoutError(f"{endpoint} takes no connection") from None


class Connections(unittest.TestCase):
    def setUp(self):
        self.rig = CalmRig()
        self.addCleanup(self.rig.close)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, before))
        if before[1] < 4096:
            self.skipTest(f"this process may have no more than {before[1]} descriptors")
        soft_limit(1024)  # what a shell and systemd give

    def start_locked(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config(),
                         ASAN_OPTIONS="quarantine_size_mb=1")  # else it would keep what is freed
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        soft_limit(4096)  # this process's own

    def test_a_peer_cannot_name_itself_by_the_number_of_the_next(self):
        """libzmq's ROUTER numbers nameless peers on from rand(), and ends the process by an assertion where a
        peer has named itself by the next number: those that follow from no seed are taken here."""
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config())
        numbers = ctypes.CDLL("libc.so.6")
        numbers.srand(1)

        def ask(name: bytes = b"") -> zmq.Socket:
            peer = zmq.Context.instance().socket(zmq.DEALER)
            self.addCleanup(peer.close, 0)
            peer.setsockopt(zmq.RCVTIMEO, int(1000 * DEADLINE_S))
            if name:
                peer.setsockopt(zmq.IDENTITY, name)
            peer.connect(rig.commands)
            peer.send(b'{"command":"status"}')
            self.assertIn("status", peer.recv_json())
            return peer

        for _ in range(12):
            first = numbers.rand() | numbers.rand() << 31
            for number in range(60, 63):
                ask(b"\0" + struct.pack(">I", (first + number) & 0xFFFFFFFF))
        for _ in range(100):
            ask().close(0)
        self.assertIsNone(rig.daemon.child.poll())

    def outlasts_connections(self, endpoint: str, said: bytes = b"", connections: int = 3000):
        """There are more connections than the 1024 descriptors that the daemon has."""
        rig = self.rig
        with zmq.Context.instance().socket(zmq.DEALER) as before, contextlib.ExitStack() as idle:
            before.setsockopt(zmq.LINGER, 0)
            before.setsockopt(zmq.RCVTIMEO, int(1000 * DEADLINE_S))
            before.connect(rig.commands)

            def status() -> dict:
                before.send(b'{"command":"status"}')
                return before.recv_json()["status"]

            locked = status()
            for i in range(connections):
                peer = idle.enter_context(connect(endpoint, DEADLINE_S))
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    peer.sendall(said)
                if i % 500 == 499:
                    self.assert_in_lock(status())
            self.assertEqual(rig.daemon.child.poll(), None)
            if endpoint != rig.commands:  # each socket has room of its own
                self.assert_in_lock(rig.status())
            after = status()
        self.assert_in_lock(after)
        self.assertEqual(after["lock_id"], locked["lock_id"], after["reason"])
        for topic in ("position", "correction"):
            rig.subscribe(topic).receive(DEADLINE_S)
        rig.client = driftd.Client(rig.commands, timeout_s=DEADLINE_S)
        rig.wait_until(lambda s: s["state"] == "locked" and
                       s["loop"]["corrections"] > after["loop"]["corrections"] >= locked["loop"]["corrections"],
                       "corrections")

    def assert_in_lock(self, status: dict):
        """A busy machine may hold it for a moment."""
        self.assertIn(status["state"], ("locked", "holding"), status["reason"])
        if status["state"] == "holding":
            self.assertIn(status["reason"], ("stale_frame", "stage_not_following"))

    def test_a_lock_outlasts_idle_connections_to_local_sockets(self):
        self.start_locked()
        for endpoint in (self.rig.publish, self.rig.corrections, self.rig.commands):
            with self.subTest(endpoint):
                self.outlasts_connections(endpoint)

    def test_a_lock_outlasts_connections_to_tcp_that_stay(self):
        rig = self.rig
        rig.corrections = f"tcp://127.0.0.1:{free_port()}"
        rig.publish = f"tcp://127.0.0.1:{free_port()}"
        self.start_locked()
        self.outlasts_connections(rig.publish, zmtp_3(b"SUB"), 1500)

    def test_so_many_connections_a_socket_and_no_more(self):
        rig = self.rig
        self.start_locked()
        for endpoint, kind, connected in ((rig.corrections, b"SUB", 1),  # the simulator's stage
                                          (rig.publish, b"SUB", 0), (rig.commands, b"DEALER", 0)):
            with self.subTest(endpoint), contextlib.ExitStack() as peers:
                held = [peers.enter_context(self.peer(endpoint, kind))
                        for _ in range(BOUND - connected)]
                self.assertEqual([self.is_alive(peer) for peer in held].count(True), len(held))
                for _ in range(30):
                    peer = peers.enter_context(connect(endpoint, DEADLINE_S))
                    peer.settimeout(DEADLINE_S)
                    with contextlib.suppress(ConnectionResetError):
                        while peer.recv(100):  # the greeting, perhaps
                            pass
                for peer in held[:3]:
                    peer.close()
                end = time.monotonic() + DEADLINE_S
                for _ in range(3):
                    peer = None
                    while peer is None:  # the daemon may not have seen yet that they are gone
                        self.assertLess(time.monotonic(), end)
                        with contextlib.suppress(AssertionError, ConnectionResetError, BrokenPipeError):
                            peer = peers.enter_context(self.peer(endpoint, kind))
                    self.assertTrue(self.is_alive(peer))
                self.assertEqual([self.is_alive(peer) for peer in held[3:]].count(True), len(held) - 3)
        rig.wait_until(lambda s: s["wire"]["connections_ended"] >= 3 * 30, "each is counted")
        self.assertIn("connections ended", rig.daemon.text())

    def test_foreign_subscriptions_are_counted_for_each_connection(self):
        rig = self.rig
        self.start_locked()
        topics = driftd.TOPICS
        for endpoint, topic in ((rig.publish, b"position "), (rig.corrections, b"correction ")):
            with self.subTest(endpoint), contextlib.ExitStack() as peers:
                others = [peers.enter_context(self.peer(endpoint)) for _ in range(6)]
                for i, peer in enumerate(others):
                    known = [text.encode() + b" " for text in topics] + [b"p", b"stat"]
                    foreign = [b"%d-%d" % (i, k) for k in range(16)]
                    for beginning in known + foreign + [foreign[3], topic]:
                        self.subscribe(peer, beginning)
                self.subscribe(others[0], b"one more")
                for peer in others[1:]:
                    self.read_until(peer, topic)
                with self.assertRaises((AssertionError, ConnectionResetError)):  # it is ended
                    self.read_until(others[0], b"never sent")
                # What one takes back makes room for another, of its own only.
                self.subscribe(others[1], b"1-5", b"\0")
                self.subscribe(others[1], b"one more")
                self.subscribe(others[2], b"2-16")
                with self.assertRaises((AssertionError, ConnectionResetError)):
                    self.read_until(others[2], b"never sent")
                self.assertTrue(self.is_alive(others[1]))
                others[1].settimeout(DEADLINE_S)
                for _ in range(20):  # with each message some of what has come is taken
                    self.read_until(others[1], topic)
                self.assertEqual([self.is_alive(peer) for peer in others],
                                 [False, True, False, True, True, True])
                # A new connection gets the descriptor of one that is gone, and not its count.
                new = peers.enter_context(self.peer(endpoint))
                for beginning in [b"new-%d" % k for k in range(16)] + [topic]:
                    self.subscribe(new, beginning)
                self.read_until(new, topic)
                self.subscribe(new, b"new-16")
                with self.assertRaises((AssertionError, ConnectionResetError)):
                    self.read_until(new, b"never sent")
                ours = rig.subscribe(*topics)
                for wanted in ("position", "correction", "status"):
                    rig.hear(ours, lambda topic, _, wanted=wanted: topic == wanted, wanted)
                self.assertEqual(ours.lost, 0)

    def test_crowds_that_repeat_a_subscription_are_ended_and_fill_nothing(self):
        rig = self.rig
        self.start_locked()
        for endpoint, topic in ((rig.publish, "position"), (rig.corrections, "correction")):
            with self.subTest(endpoint), contextlib.ExitStack() as peers:
                innocent = rig.subscribe(topic)
                innocent.receive(DEADLINE_S)
                lost, lock_id = innocent.lost, rig.status()["lock_id"]
                crowd = [peers.enter_context(self.peer(endpoint)) for _ in range(190)]
                one = bytes([0, 2 + len(topic), 1]) + topic.encode() + b" "
                before_kib = rss_kib(rig.daemon)
                self.assertEqual(self.flood(crowd, one * 500, DEADLINE_S), 0)
                # Without a bound 12 s of it take 30 MiB and more.
                self.assertLess(rss_kib(rig.daemon) - before_kib, 28 * 1024 * SLOW)
                # What waits of the crowd's does not hold up what others say.
                foreign = peers.enter_context(self.peer(endpoint))
                for i in range(17):
                    self.subscribe(foreign, b"foreign-%d" % i)
                with self.assertRaises((AssertionError, ConnectionResetError)):
                    self.read_until(foreign, b"never sent")
                new = peers.enter_context(self.peer(endpoint))
                self.subscribe(new, topic.encode())
                self.read_until(new, topic.encode())
                for _ in range(20):
                    innocent.receive(DEADLINE_S)
                if topic == "position":  # of corrections few wait for a reader that a busy machine delays
                    self.assertEqual(innocent.lost, lost)
                self.assertEqual(rig.wait_state("locked")["lock_id"], lock_id)

    def flood(self, peers: list[socket.socket], said: bytes, limit_s: float) -> int:
        """All say it again and again until they are ended. How many live on after the time."""
        left = {peer: said for peer in peers}
        end = time.monotonic() + limit_s
        for peer in peers:
            peer.setblocking(False)
        while left and time.monotonic() < end:
            for peer in list(left):
                try:
                    left[peer] = left[peer][peer.send(left[peer]):] or said
                    while peer.recv(65536):
                        pass
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    del left[peer]
            time.sleep(0.001)
        return len(left)

    @staticmethod
    def subscribe(peer: socket.socket, beginning: bytes, kind: bytes = b"\1"):
        peer.sendall(bytes([0, 1 + len(beginning)]) + kind + beginning)

    def read_until(self, peer: socket.socket, wanted: bytes):
        received = b""
        end = time.monotonic() + DEADLINE_S
        while wanted not in received:
            if time.monotonic() > end:
                raise TimeoutError(f"{wanted!r} did not come")
            part = peer.recv(1000)
            self.assertTrue(part, "the connection ended")
            received = received[-20:] + part

    def peer(self, endpoint: str, kind: bytes = b"SUB") -> socket.socket:
        """A connection that has said who it is, and wants nothing."""
        peer = connect(endpoint, DEADLINE_S)
        peer.settimeout(DEADLINE_S)
        peer.sendall(zmtp_3(kind))
        self.read_until(peer, b"READY")
        return peer

    @staticmethod
    def is_alive(peer: socket.socket) -> bool:
        peer.setblocking(False)
        try:
            while peer.recv(1000):
                pass
            return False
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False


if __name__ == "__main__":
    unittest.main()
