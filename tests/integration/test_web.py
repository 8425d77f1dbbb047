# SPDX-License-Identifier: MIT
"""driftd-web without a daemon: the page's files, who is let in, and peers that mean no good."""
from __future__ import annotations

import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

from harness import BIN, DEADLINE_S, SLOW, SOURCE, Process
from web_client import UPGRADE, Tab, Web, get, read_answer, until_let_in, websocket


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="driftd-")))

    def enter_context(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value


class Alone(Case):
    """What needs no daemon: the files, and peers that mean no good."""

    def setUp(self):
        super().setUp()
        (self.folder / "lab.yaml").write_text(
            f"wire:\n  publish: ipc://{self.folder}/publish\n  corrections: ipc://{self.folder}/corrections\n"
            f"  commands: ipc://{self.folder}/commands\n")
        self.web = Web(self, self.folder, "--config", self.folder / "lab.yaml", "--operate")

    def token(self) -> str:
        with self.web.tab() as tab:
            return tab.wait_kind("hello")[0]["csrf"]

    def curl(self, path: str, *arguments: str) -> str:
        if shutil.which("curl") is None:
            self.skipTest("SKIPPED: curl is not here")
        done = subprocess.run(["curl", "-sS", "-i", "--max-time", "20", *arguments, self.web.origin + path],
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    # --- files ---
    def test_the_page_comes_with_a_strict_policy_and_is_not_sent_twice(self):
        page = (SOURCE / "clients/web/page/index.html").read_text()
        answer = self.curl("/")
        self.assertIn("200 OK", answer)
        self.assertTrue(answer.endswith(page[-40:]))
        headers = dict(line.split(": ", 1) for line in answer.split("\r\n\r\n")[0].split("\r\n")[1:])
        policy = {part.split()[0]: part.split()[1:] for part in headers["Content-Security-Policy"].split(";")}
        self.assertEqual(policy["default-src"], ["'none'"])
        self.assertEqual(policy["script-src"], ["'self'"])
        self.assertEqual(policy["style-src"], ["'self'"])
        self.assertEqual(policy["frame-ancestors"], ["'none'"])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        again = self.curl("/", "-H", "If-None-Match: " + headers["ETag"])
        self.assertIn("304 Not Modified", again)
        self.assertEqual(again.split("\r\n\r\n")[1], "")
        head = self.curl("/", "-I")
        self.assertIn(f"Content-Length: {len(page.encode())}", head)

    def test_every_file_of_the_page_is_served_with_its_type(self):
        types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
        folder = SOURCE / "clients/web/page"
        for file in folder.rglob("*.*"):
            with urllib.request.urlopen(f"{self.web.origin}/{file.relative_to(folder)}", timeout=DEADLINE_S) as reply:
                self.assertEqual(reply.read(), file.read_bytes(), file)
                self.assertTrue(reply.headers["Content-Type"].startswith(types.get(file.suffix, "")), file)

    def test_there_is_nothing_beside_the_page(self):
        for path in ("/../main.cpp", "/%2e%2e/main.cpp", "/etc/passwd", "//", "/index.html/", "/a%00b"):
            self.assertEqual(self.web.answer(get(path))[0], 404, path)

    def test_a_target_is_a_path(self):
        for target in ("?", "?instance=lab", "*", "index.html", "http://localhost/", "http://localhost/api/command"):
            for method in ("GET", "POST"):
                self.assertEqual(self.web.answer(get(target, method=method))[0], 400, (method, target))
        self.assertEqual(self.web.answer(get("/?instance=lab"))[0], 200)

    # --- who asks ---
    def test_a_name_bound_anew_is_refused(self):
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.", "user@localhost", "",
                     "[::1", "localhost:99999999", "localhost:80:80"):
            self.assertEqual(self.web.answer(get(host=host))[0], 421, host)
            self.assertEqual(self.web.answer(get("/ws", host, Origin=f"http://{host}", **UPGRADE))[0], 421, host)
        for host in ("localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]:19540"):
            self.assertEqual(self.web.answer(get(host=host))[0], 200, host)

    def test_another_name_is_its_own_where_it_is_told(self):
        web = Web(self, self.folder, "--host", "scope.lab", "--config", self.folder / "lab.yaml")
        self.assertEqual(web.answer(get(host="scope.lab"))[0], 200)
        self.assertEqual(web.answer(get(host="other.lab"))[0], 421)

    def test_a_foreign_page_gets_no_stream(self):
        for origin in ("http://evil.example", "null", "", "http://localhost:1", f"http://{self.web.address}.evil.example"):
            status, text = self.web.answer(get("/ws", self.web.address, Origin=origin, **UPGRADE))
            self.assertEqual(status, 403, (origin, text))
        self.assertEqual(self.web.answer(get("/ws", self.web.address, **UPGRADE))[0], 403)
        with self.connected(get("/ws", self.web.address, Origin=self.web.origin, **UPGRADE)) as peer:
            self.assertTrue(peer.recv(1000).startswith(b"HTTP/1.1 101 "))
        with self.connected(get("/ws", "localhost:8080", Origin="https://localhost:8080", **UPGRADE)) as peer:
            self.assertTrue(peer.recv(1000).startswith(b"HTTP/1.1 101 "))  # by a proxy that speaks TLS

    def connected(self, request: bytes) -> socket.socket:
        peer = self.web.connect()
        peer.sendall(request)
        return peer

    def test_repeated_headers_are_refused(self):
        good = get("/").replace(b"\r\n\r\n", b"\r\nHost: localhost\r\n\r\n")
        self.assertEqual(self.web.answer(good)[0], 400)
        for header in ("Origin: http://localhost", "content-type: a", "X-CSRF-Token: a", "Content-Length: 0", "Accept: a"):
            request = get("/").replace(b"\r\n\r\n", f"\r\n{header}\r\n{header}\r\n\r\n".encode())
            self.assertEqual(self.web.answer(request)[0], 400, header)
        self.assertEqual(self.web.answer(b"GET / HTTP/1.1\r\n\r\n")[0], 400)
        self.assertEqual(self.web.answer(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")[0], 505)
        chunked = get("/api/command", method="POST", Transfer_Encoding="chunked")
        self.assertEqual(self.web.answer(chunked + b"0\r\n\r\n")[0], 411)

    # --- commands ---
    def test_a_command_needs_its_token_its_origin_and_its_type(self):
        token, command = self.token(), {"command": {"command": "lock"}}
        self.assertEqual(self.web.post(command, token)[0], 502)  # no daemon: it was let through
        for status, headers in ((403, {"X_CSRF_Token": None}), (403, {"X_CSRF_Token": ""}),
                                (403, {"X_CSRF_Token": token[:-1]}), (403, {"X_CSRF_Token": token + "0"}),
                                (403, {"X_CSRF_Token": "0" * len(token)}), (403, {"Origin": None}),
                                (403, {"Origin": "http://evil.example"}), (403, {"Origin": "null"}),
                                (403, {"Origin": self.web.origin + "0"}), (415, {"Content_Type": "text/plain"}),
                                (415, {"Content_Type": "application/x-www-form-urlencoded"})):
            self.assertEqual(self.web.post(command, token, **headers)[0], status, headers)

    def test_nothing_acts_by_get(self):
        token = self.token()
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            status, text = self.web.answer(get("/api/command?command=lock", self.web.address, method, Origin=self.web.origin,
                                               X_CSRF_Token=token))
            self.assertEqual(status, 405, (method, text))
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(self.web.answer(get("/", method=method, Content_Length="0"))[0], 405, method)

    def test_what_is_no_command_is_refused(self):
        token = self.token()
        for body in ([], 1, {}, {"command": "lock"}, {"command": {}}, {"command": {"command": 1}},
                     {"command": {"command": "lock"}, "instance": 1},
                     {"command": {"command": "status"}, "tool": {"tool": "stop"}}, {"tool": {"tool": "stop"}, "command": 1}):
            self.assertEqual(self.web.post(body, token)[0], 400, body)
        self.assertEqual(self.web.post({"command": {"command": "lock"}, "instance": "other"}, token)[0], 404)
        for command in ({"command": "stage", "instance": "0" * 16}, {"command": "snapshot"}):
            status, reply = self.web.post({"command": command}, token)
            self.assertEqual((status, reply["code"]), (403, "forbidden"), command)

    def test_without_operate_only_what_observes_is_let_through(self):
        web = Web(self, self.folder, "--config", self.folder / "lab.yaml")
        with web.tab() as tab:
            hello = tab.wait_kind("hello")[0]
        self.assertEqual(hello["role"], "observe")
        self.assertIn("--operate", hello["why_observe"])
        for command in ("lock", "unlock", "reset", "move", "calibrate", "no_such_command"):
            status, reply = web.post({"command": {"command": command}}, hello["csrf"])
            self.assertEqual((status, reply["code"]), (403, "forbidden"), command)
        for fields in ({"command": "markers", "find": True}, {"command": "record", "start": True},
                       {"command": "place", "save": "a"}, {"command": "place", "show": "a", "remove": "a"},
                       {"command": "record", "frames": 1}):
            self.assertEqual(web.post({"command": fields}, hello["csrf"])[0], 403, fields)
        for fields in ({"command": "status"}, {"command": "markers"}, {"command": "record"}, {"command": "place"},
                       {"command": "place", "show": "a"}, {"command": "calibration"}, {"command": "access"}):
            self.assertEqual(web.post({"command": fields}, hello["csrf"])[0], 502, fields)  # no daemon

    # --- peers that take much ---
    def test_an_endless_header_and_a_large_body_are_cut(self):
        with self.web.connect() as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            sent = 0
            try:
                while sent < 10_000_000:
                    sent += peer.send(b"a" * 65536)
            except OSError:
                pass
            self.assertLess(sent, 10_000_000)
        self.assertEqual(self.web.answer(get("/", X="a" * 9000))[0], 431)
        self.assertEqual(self.web.answer(get("/" + "a" * 9000))[0], 431)
        self.assertEqual(self.web.answer(get("/", X="a" * 7000))[0], 200)
        token = self.token()
        self.assertEqual(self.web.post({"command": {"command": "lock", "x": "a" * 70_000}}, token)[0], 413)
        self.assertEqual(self.web.post({"command": {"command": "lock", "x": "a" * 3900}}, token)[0], 502)
        self.assertLess(self.web.rss_kb(), 60_000 if SLOW == 1 else 600_000)  # sanitizers keep what was freed

    def test_a_slow_header_ends_after_five_seconds(self):
        begin = time.monotonic()
        with self.web.connect() as peer:
            peer.settimeout(0.3)
            peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            while True:
                try:
                    if not peer.recv(100):
                        break
                except TimeoutError:
                    peer.sendall(b"X%d: a\r\n" % int(1e6 * time.monotonic()))  # each on time, for ever
                except OSError:
                    break
                self.assertLess(time.monotonic() - begin, DEADLINE_S)
        self.assertGreater(time.monotonic() - begin, 4)

    def test_a_crowd_that_says_nothing_keeps_nobody_out(self):
        crowd = [self.web.connect() for _ in range(200)]
        for peer in crowd:
            self.addCleanup(peer.close)
        self.assertEqual(self.web.answer(get())[0], 200)
        descriptors = len(list(pathlib.Path(f"/proc/{self.web.process.child.pid}/fd").iterdir()))
        self.assertLess(descriptors, 64 + 40)

    def test_viewers_are_counted_and_others_still_answered(self):
        tabs = [self.web.tab() for _ in range(56)]
        for tab in tabs:
            self.addCleanup(tab.socket.close)
        with self.assertRaises(websocket.WebSocketBadStatusException) as refused:
            self.web.tab()
        self.assertEqual(refused.exception.status_code, 503)
        self.assertEqual(self.web.answer(get())[0], 200)
        tabs[0].socket.close()
        tabs[0] = until_let_in(self.web)
        self.assertEqual(tabs[0].wait_kind("hello")[0]["instances"], ["lab"])
        self.addCleanup(tabs[0].socket.close)

    # --- WebSockets that break the rules ---
    def test_what_is_no_wish_ends_the_stream(self):
        for said in ("", "[]", "{}", '{"want":1}', '{"want":{"images":1}}', '{"want":{"other":true}}',
                     '{"want":{"region":[1,2,3]}}', '{"want":{"region":[1,2,3,1e9]}}', '{"want":{},"x":1}', "{" * 3000,
                     "a" * 5000):
            with self.web.tab() as tab:
                tab.socket.send(said)
                self.assert_ends(tab, said[:40])
        with self.web.tab() as tab:
            tab.socket.send_binary(b'{"want":{"images":true}}')
            self.assert_ends(tab, "binary")
        with self.web.tab() as tab:  # this one stays
            tab.want(images=True, region=[0, 0, 100, 100], spectrum=False)
            tab.socket.ping("still")
            while tab.socket.recv_data(control_frame=True)[0] != websocket.ABNF.OPCODE_PONG:
                pass

    def assert_ends(self, tab: Tab, why: str) -> None:
        end = time.monotonic() + DEADLINE_S
        try:
            while time.monotonic() < end:
                if tab.socket.recv_data()[0] == websocket.ABNF.OPCODE_CLOSE:
                    return
        except (websocket.WebSocketConnectionClosedException, ConnectionError):
            return
        self.fail(f"goes on: {why}")

    def test_unmasked_frames_end_the_stream(self):
        with self.connected(get("/ws", self.web.address, Origin=self.web.origin, **UPGRADE)) as peer:
            self.assertTrue(peer.recv(1000).startswith(b"HTTP/1.1 101 "))
            text = b'{"want":{"images":true}}'
            peer.sendall(bytes([0x81, len(text)]) + text)
            read_answer(peer)  # to its end

    def test_a_stranger_instance_has_no_stream(self):
        with self.assertRaises(websocket.WebSocketBadStatusException) as refused:
            self.web.tab("other")
        self.assertEqual(refused.exception.status_code, 404)
        self.assertEqual(self.web.answer(get("/ws"))[0], 426)
        self.assertEqual(self.web.answer(get("/", self.web.address, Origin=self.web.origin, **UPGRADE))[0], 404)

    # --- the command line ---
    def run_web(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([BIN / "driftd-web", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def test_another_address_than_loopback_is_refused(self):
        for listen in ("0.0.0.0:0", "[::]:0", "192.0.2.1:80", "localhost:0", "127.0.0.1", "127.0.0.1:70000", "unix:",
                       "unix:name"):
            done = self.run_web("--listen", listen)
            self.assertEqual(done.returncode, 2, (listen, done.stderr))
            self.assertIn("ssh -L", done.stderr)

    def test_what_cannot_be_served_is_told(self):
        done = self.run_web("--listen", self.web.address)
        self.assertEqual((done.returncode, "Address already in use" in done.stderr), (5, True), done.stderr)
        for arguments in (["--config", "/no/such/file.yaml"], ["--config", f"../a={self.folder}/lab.yaml"],
                          ["--config", self.folder / "lab.yaml", "--config", self.folder / "lab.yaml"],
                          ["--host", "a:1"], ["--page", self.folder / "none"], ["--page", self.folder]):
            done = self.run_web("--listen", "127.0.0.1:0", *arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))

    def test_a_socket_file_for_a_proxy(self):
        path = self.folder / "http"
        for turn in range(2):  # the second replaces what a killed one left
            web = self.enter_context(Process("unix", [BIN / "driftd-web", "--listen", f"unix:{path}"], self.folder))
            web.wait_for(f"serving unix:{path}")
            self.assertEqual(path.stat().st_mode & 0o777, 0o660)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(path))
                peer.sendall(get())
                self.assertEqual(read_answer(peer)[0], 200)
            if turn == 0:
                web.kill()
                self.assertTrue(path.exists())
            else:
                self.assertEqual(self.run_web("--listen", f"unix:{path}").returncode, 5)
                path.rename(self.folder / "of the first")
                with Process("second", [BIN / "driftd-web", "--listen", f"unix:{path}"], self.folder) as second:
                    second.wait_for(f"serving unix:{path}")
                    self.assertEqual(web.stop(), 0)
                    self.assertTrue(path.exists())  # which is another one's by now
                    self.assertEqual(second.stop(), 0)
                self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
