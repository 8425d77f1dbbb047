# SPDX-License-Identifier: MIT
"""driftd-web by TLS and with a login, by clients that were not written with it: Python's ssl and http.client, curl, openssl."""
from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

from harness import BIN, DEADLINE_S, SOURCE

sys.path[:0] = [str(SOURCE / "tests/unit/clients")]
from fake_daemon import FakeDaemon  # noqa: E402
from protocol import examples  # noqa: E402
from test_web import Case  # noqa: E402
from tls import LOGINS, OBSERVER, OPERATOR, SecureWeb, make_certificate, make_client, openssl  # noqa: E402
from web_client import Web, get, read_answer, websocket  # noqa: E402


class Secure(Case):
    def setUp(self):
        super().setUp()
        self.fake = self.enter_context(FakeDaemon())
        self.answers("status", lambda: {"status": examples()["status"]})
        self.answers("access", lambda: {"roles": "command"})
        self.answers("lock", lambda: {"state": "referencing"})
        (self.folder / "lab.yaml").write_text(
            f"wire:\n  publish: {self.fake.publish_endpoint}\n  corrections: {self.fake.corrections_endpoint}\n"
            f"  commands: {self.fake.commands_endpoint}\n")

    def answers(self, command: str, fields) -> None:
        self.fake.replies[command] = lambda: [{"ok": True, "id": self.fake.requests[-1]["id"], **fields()}]

    def start(self, *arguments, **options) -> SecureWeb:
        return SecureWeb(self, self.folder, "--config", self.folder / "lab.yaml", "--operate", *arguments, **options)

    def ends(self, tab) -> None:
        """The stream does, by the server."""
        try:
            while tab.socket.recv_data()[0] != websocket.ABNF.OPCODE_CLOSE:
                pass
        except (websocket.WebSocketException, OSError):
            pass


class LogIn(Secure):
    def test_nothing_is_seen_before_a_login(self):
        web = self.start()
        status, text, headers = web.ask("GET", "/")
        self.assertEqual((status, "Log in" in text, "state-word" in text), (200, True, False))
        self.assertIn("Content-Security-Policy", headers)
        self.assertEqual(web.ask("GET", "/api/login")[:2], (200, '{"in":false}\n'))
        with self.assertRaises(websocket.WebSocketBadStatusException) as refused:
            web.tab()
        self.assertEqual(refused.exception.status_code, 401)
        for path in ("/api/command", "/api/logout"):
            for csrf in ("", "0" * 32):
                self.assertEqual(web.ask("POST", path, {"command": {"command": "lock"}}, X_CSRF_Token=csrf)[0], 401, path)
        self.assertEqual([r for r in self.fake.requests if r["command"] == "lock"], [])

    def test_a_token_opens_a_session_of_its_role(self):
        web = self.start()
        status, text, headers = web.ask("POST", "/api/login", {"token": OPERATOR})
        self.assertEqual((status, text), (200, '{"in":true}\n'))
        for word in ("; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/"):
            self.assertIn(word, headers["Set-Cookie"])
        self.assertTrue(headers["Set-Cookie"].startswith("__Host-"))
        self.assertNotIn("Domain", headers["Set-Cookie"])
        cookie = headers["Set-Cookie"].split(";")[0]
        self.assertIn("state-word", web.ask("GET", "/", Cookie=cookie)[1])
        with web.tab(cookie) as tab:
            hello = tab.wait(lambda h: h["kind"] == "hello" and h["role"] == "operate", "the role")[0]
            self.assertEqual((hello["login"], hello["logs_out"]), ("bench", True))
            tab.wait_kind("status")
            self.assertEqual(web.post({"command": "lock"}, cookie, hello["csrf"])[1]["state"], "referencing")
        _, other = web.log_in(OBSERVER)
        with web.tab(other) as tab:
            watcher = tab.wait_kind("hello")[0]
            tab.wait_kind("status")
            self.assertEqual((watcher["role"], watcher["login"]), ("observe", "office"))
            self.assertIn("office", watcher["why_observe"])
            status, reply = web.post({"command": "lock"}, other, watcher["csrf"])
            self.assertEqual((status, reply["code"]), (403, "forbidden"))
            self.assertEqual(web.post({"command": "status"}, other, watcher["csrf"])[0], 200)
            for tool in ("write_stage", "write_camera", "write_markers", "write_exposure", "measure", "camera", "report", "stop"):
                status, text, _ = web.ask("POST", "/api/command", {"tool": {"tool": tool}}, Cookie=other, X_CSRF_Token=watcher["csrf"])
                self.assertEqual((status, json.loads(text)["error"]),
                                 (200, "this page only shows: the login office has the role observe"), tool)
            # Nor with what the other one's page has.
            self.assertEqual(web.post({"command": "lock"}, other, hello["csrf"])[0], 403)
            self.assertEqual(web.post({"command": "lock"}, cookie, watcher["csrf"])[0], 403)
        self.assertEqual(sum(r["command"] == "lock" for r in self.fake.requests), 1)

    def test_without_operate_no_login_commands(self):
        web = SecureWeb(self, self.folder, "--config", self.folder / "lab.yaml")
        _, cookie = web.log_in(OPERATOR)
        with web.tab(cookie) as tab:
            hello = tab.wait_kind("hello")[0]
            self.assertEqual(hello["role"], "observe")
            self.assertIn("--operate", hello["why_observe"])
            self.assertEqual(web.post({"command": "lock"}, cookie, hello["csrf"])[0], 403)

    def test_a_command_needs_its_page(self):
        """Requests that another site's page could make, with the cookie that the browser may add."""
        web = self.start()
        _, cookie = web.log_in(OPERATOR)
        with web.tab(cookie) as tab:
            csrf = tab.wait_kind("hello")[0]["csrf"]
            tab.wait_kind("status")
        for headers in ({"X_CSRF_Token": None}, {"X_CSRF_Token": "0" * 32}, {"Origin": None}, {"Origin": "null"},
                        {"Origin": "https://evil.example"}, {"Origin": f"https://127.0.0.1:{web.port + 1}"},
                        {"Origin": "https://127.0.0.1"}, {"Origin": f"http://{web.host}"}):
            said = {"X_CSRF_Token": csrf, "Cookie": cookie} | headers
            self.assertEqual(web.ask("POST", "/api/command", {"command": {"command": "lock"}}, **said)[0], 403, headers)
            if "Origin" in headers:
                self.assertEqual(web.ask("POST", "/api/login", {"token": OPERATOR}, **headers)[0], 403, headers)
                with self.assertRaises(websocket.WebSocketBadStatusException) as refused:
                    web.tab(cookie, origin=headers["Origin"] or "")
                self.assertEqual(refused.exception.status_code, 403)
        for host in ("evil.example", f"evil.example:{web.port}", "127.0.0.1.evil.example"):
            self.assertEqual(web.ask("GET", "/", Host=host)[0], 421, host)
        self.assertEqual(web.ask("GET", "/api/login?token=" + OPERATOR)[2].get("Set-Cookie"), None)
        self.assertEqual([r for r in self.fake.requests if r["command"] == "lock"], [])

    def test_what_is_no_login_is_refused(self):
        web = self.start()
        for body in ([], {}, {"token": 1}, {"token": OPERATOR, "more": 1}, {"token": [OPERATOR]}, "[" * 3000):
            self.assertEqual(web.ask("POST", "/api/login", body)[0], 400, body)
        self.assertEqual(web.ask("POST", "/api/login", {"token": OPERATOR}, Content_Type="text/plain")[0], 415)
        self.assertEqual(web.ask("POST", "/api/login", {"token": ""})[0], 401)

    def test_no_cookie_is_taken_that_was_not_given(self):
        """Fixed by somebody else, guessed, twice, or another instance's."""
        web = self.start()
        other = SecureWeb(self, self.folder, "--config", self.folder / "lab.yaml", name="other")
        _, theirs = other.log_in(OPERATOR)
        name = theirs.split("=")[0]
        fixed = f"{name}={'a' * 32}"
        for cookie in (theirs, fixed, f"{name}=", "x", "=", f"{name}; {name}", "certificate bench=1"):
            self.assertEqual(web.ask("GET", "/api/login", Cookie=cookie)[1], '{"in":false}\n', cookie)
        status, _, headers = web.ask("POST", "/api/login", {"token": OPERATOR}, Cookie=fixed)
        given = headers["Set-Cookie"].split(";")[0]
        self.assertNotEqual(given, fixed)
        self.assertEqual(web.ask("GET", "/api/login", Cookie=fixed)[1], '{"in":false}\n')
        self.assertEqual(web.ask("GET", "/api/login", Cookie=f"a=b; {given}; c")[1], '{"in":true}\n')
        self.assertEqual(web.ask("GET", "/api/login", Cookie=f"{given}; {fixed}")[1], '{"in":false}\n')
        # A second login ends the first session of this browser.
        _, again = web.log_in(OPERATOR, Cookie=given)
        self.assertEqual(web.ask("GET", "/api/login", Cookie=given)[1], '{"in":false}\n')
        self.assertEqual(web.ask("GET", "/api/login", Cookie=again)[1], '{"in":true}\n')

    def test_a_logout_ends_the_session_and_its_streams(self):
        web = self.start()
        _, cookie = web.log_in(OPERATOR)
        _, other = web.log_in(OPERATOR)
        with web.tab(cookie) as tab, web.tab(other) as stays:
            csrf = tab.wait_kind("hello")[0]["csrf"]
            self.assertEqual(web.ask("POST", "/api/logout", {}, Cookie=cookie, X_CSRF_Token="0" * 32)[0], 403)
            status, text, headers = web.ask("POST", "/api/logout", {}, Cookie=cookie, X_CSRF_Token=csrf)
            self.assertEqual((status, text), (200, '{"in":false}\n'))
            self.assertIn("Max-Age=0", headers["Set-Cookie"])
            self.ends(tab)
            self.assertEqual(web.post({"command": "status"}, cookie, csrf)[0], 401)
            stays.wait_kind("status")

    def test_a_token_that_was_taken_back_ends_its_streams(self):
        web = self.start()
        _, cookie = web.log_in(OPERATOR)
        _, watcher = web.log_in(OBSERVER)
        with web.tab(cookie) as tab, web.tab(watcher) as stays:
            csrf = tab.wait_kind("hello")[0]["csrf"]
            web.set_logins("tokens: 7\n")  # what is wrong changes nothing
            web.process.wait_for("nothing is changed")
            self.assertEqual(web.ask("GET", "/api/login", Cookie=cookie)[1], '{"in":true}\n')
            web.set_logins(f"tokens:\n  - {{name: office, role: observe, token: {OBSERVER}}}\n")  # by itself
            self.ends(tab)
            self.assertEqual(web.post({"command": "status"}, cookie, csrf)[0], 401)
            self.assertEqual(web.log_in(OPERATOR)[0], 401)
            stays.wait_kind("status")
            (self.folder / "server.key").write_text("no key")  # which keeps no token from being taken back
            web.set_logins(LOGINS.replace("role: observe", "role: operate"))  # by SIGHUP, and another role
            web.process.child.send_signal(signal.SIGHUP)
            self.ends(stays)
        _, cookie = web.log_in(OBSERVER)
        with web.tab(cookie) as tab:
            tab.wait(lambda h: h["kind"] == "hello" and h["role"] == "operate", "the other role")
        self.assertNotIn(OBSERVER, web.process.text())
        self.assertNotIn(OPERATOR, web.process.text())

    def test_a_thousand_wrong_tokens(self):
        web = self.start()
        _, cookie = web.log_in(OBSERVER)
        begin = time.monotonic()
        statuses = [web.log_in(f"{OPERATOR[:-4]}{number:04}x")[0] for number in range(1000)]
        waited_s = time.monotonic() - begin
        self.assertEqual(set(statuses), {401, 429})
        self.assertLessEqual(statuses.count(401), 6 + waited_s / 10)  # five at once, and one in ten seconds
        # Nor is the right one tried from there; whoever is in stays, and others come in.
        if web.log_in(OPERATOR)[0] != 429:  # ten seconds were over
            self.assertEqual(web.log_in("wrong")[0], 401)
            self.assertEqual(web.log_in(OPERATOR)[0], 429)
        self.assertEqual(web.ask("GET", "/api/login", Cookie=cookie)[1], '{"in":true}\n')
        self.assertEqual(web.log_in(OPERATOR, source="127.0.0.2")[0], 200)
        self.assertIn("a wrong token from 127.0.0.1", web.process.text())

    def test_loopback_may_ask_for_a_login_without_tls(self):
        (self.folder / "logins.yaml").write_text(LOGINS)
        (self.folder / "logins.yaml").chmod(0o640)
        web = Web(self, self.folder, "--config", self.folder / "lab.yaml", "--logins", self.folder / "logins.yaml")
        with self.assertRaises(websocket.WebSocketBadStatusException) as refused:
            web.tab()
        self.assertEqual(refused.exception.status_code, 401)
        body = f'{{"token":"{OBSERVER}"}}'.encode()
        status, text = web.answer(get("/api/login", web.address, "POST", Origin=web.origin, Content_Type="application/json",
                                      Content_Length=str(len(body))) + body)
        self.assertEqual(status, 200)
        cookie = text.split("Set-Cookie: ")[1].split(";")[0]
        with web.tab(cookie=cookie) as tab:
            self.assertEqual(tab.wait_kind("hello")[0]["login"], "office")


class Certificates(Secure):
    LOGINS = "certificates:\n  - {name: Jane Doe, role: operate}\n  - {name: guest, role: observe}\n"

    def test_a_certificate_is_a_login(self):
        for name in ("Jane Doe", "guest", "stranger"):
            make_client(self.folder, name, name.split()[0])
        make_client(self.folder, "Jane Doe", "forged", ca="other")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=guest/CN=Jane Doe",
                "-keyout", self.folder / "two.key", "-out", self.folder / "two.csr")
        openssl("x509", "-req", "-in", self.folder / "two.csr", "-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key",
                "-CAcreateserial", "-days", 30, "-out", self.folder / "two.crt")
        web = self.start("--client-ca", self.folder / "ca.crt", logins=self.LOGINS)
        with web.tab(client="Jane") as tab:
            hello = tab.wait(lambda h: h["kind"] == "hello" and h["role"] == "operate", "the role")[0]
            self.assertEqual((hello["login"], hello["logs_out"]), ("Jane Doe", False))
            tab.wait_kind("status")
            lock = {"command": "lock"}
            self.assertEqual(web.post(lock, "", hello["csrf"], client="Jane")[0], 200)
            self.assertEqual(web.post(lock, "", hello["csrf"], client="guest")[0], 403)
            self.assertEqual(web.post(lock, "", hello["csrf"])[0], 401)
            self.assertEqual(web.post(lock, "", "0" * 32, client="Jane")[0], 403)
            for client in ("stranger", "two", ""):
                self.assertEqual(web.ask("GET", "/api/login", client=client)[1], '{"in":false}\n', client)
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                web.ask("GET", "/", client="forged")
            web.set_logins(self.LOGINS.replace("Jane Doe", "Joe"))
            self.ends(tab)
        self.assertEqual(web.ask("GET", "/api/login", client="Jane")[1], '{"in":false}\n')


class Tls(Secure):
    def test_a_certificate_is_taken_anew_and_sessions_go_on(self):
        web = self.start()
        _, cookie = web.log_in(OBSERVER)
        served = lambda: ssl.get_server_certificate(("127.0.0.1", web.port))  # noqa: E731
        before = served()
        with web.tab(cookie) as tab:
            tab.wait_kind("status")
            (self.folder / "server.crt").write_text("no certificate")
            web.process.child.send_signal(signal.SIGHUP)
            web.process.wait_for("nothing is changed")
            self.assertEqual(served(), before)
            make_certificate(self.folder)
            web.process.child.send_signal(signal.SIGHUP)
            web.process.wait_for("read again")
            self.assertNotEqual(served(), before)
            self.assertEqual(web.ask("GET", "/api/login", Cookie=cookie)[1], '{"in":true}\n')
            tab.wait_kind("status")

    def test_what_cannot_be_served_by_is_told_at_the_start(self):
        make_certificate(self.folder)
        make_certificate(self.folder, "other")
        make_certificate(self.folder, "open")
        (self.folder / "open.key").chmod(0o644)
        (self.folder / "logins.yaml").write_text(LOGINS)
        (self.folder / "logins.yaml").chmod(0o600)
        (self.folder / "public.yaml").write_text(LOGINS)
        (self.folder / "public.yaml").chmod(0o644)
        for number, text in enumerate(("tokens: []\n", "", "tokens: [{name: a, role: operate, token: short}]\n",
                                       "tokens: [{name: a, role: command, token: 0123456789abcdef}]\n",
                                       "tokens: [{role: operate, token: 0123456789abcdef}]\n",
                                       "tokens: [{name: a, role: operate, token: 0123456789abcdef, more: 1}]\n",
                                       LOGINS + LOGINS.split("\n", 1)[1], "tokens: [7]\n", "certificates: [{name: a, role: operate, token: b}]\n")):
            (self.folder / f"wrong{number}.yaml").write_text(text)
            (self.folder / f"wrong{number}.yaml").chmod(0o600)
        openssl("x509", "-in", self.folder / "server.crt", "-signkey", self.folder / "server.key", "-days", "-1",
                "-out", self.folder / "ended.crt")
        openssl("ec", "-in", self.folder / "server.key", "-aes128", "-passout", "pass:word", "-out", self.folder / "locked.key")
        (self.folder / "locked.key").chmod(0o600)
        server, key, logins = (self.folder / name for name in ("server.crt", "server.key", "logins.yaml"))

        def refused(part: str, certificate=server, key=key, logins=logins, *more, listen="127.0.0.1:0"):
            given = [("--certificate", certificate), ("--key", key), ("--logins", logins)]
            arguments = [str(word) for option in given if option[1] for word in option]
            done = subprocess.run([BIN / "driftd-web", "--listen", listen, *arguments, *map(str, more)], capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 2, (part, done.stderr))
            self.assertIn(part, done.stderr)
            self.assertNotIn("0123456789", done.stderr)

        refused("No such file", certificate=self.folder / "none.crt")
        refused("found no certificate", certificate=key)
        refused("the certificate ended", certificate=self.folder / "ended.crt")
        refused("no key of", key=self.folder / "other.key")
        refused("without a password", key=self.folder / "locked.key")
        refused("everybody may read", self.folder / "open.crt", self.folder / "open.key")
        refused("everybody may read", logins=self.folder / "public.yaml")
        refused("one is of no use without the other", key=None)
        refused("--client-ca", server, key, None, "--client-ca", server)
        refused("no certificate of an authority", server, key, logins, "--client-ca", key)
        for number in range(9):
            refused("wrong", logins=self.folder / f"wrong{number}.yaml")
        for certificate, its_key, who in ((None, None, logins), (server, key, None), (None, None, None)):
            refused("ssh -L", certificate, its_key, who, listen="0.0.0.0:0")

    def test_another_address_by_tls_and_with_a_login(self):
        web = self.start("--host", "scope.lab", listen="0.0.0.0:0")
        self.assertEqual(web.ask("GET", "/", Host="scope.lab")[0], 200)
        self.assertEqual(web.ask("GET", "/", Host="other.lab")[0], 421)
        web.origin = f"https://scope.lab:{web.port}"
        self.assertEqual(web.ask("POST", "/api/login", {"token": OBSERVER}, Host=f"scope.lab:{web.port}")[0], 200)

    def test_http_is_told_to_come_by_tls(self):
        web = self.start()
        with socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE_S) as peer:
            peer.sendall(get())
            status, text = read_answer(peer)
        self.assertEqual(status, 400)
        self.assertIn("https://", text)
        self.assertEqual(web.ask("GET", "/")[0], 200)

    def test_old_tls_and_weak_ciphers_are_refused(self):
        web = self.start()
        for name, words in (("1.0", ["-tls1", "-cipher", "ALL:@SECLEVEL=0"]), ("1.1", ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]),
                            ("no forward secrecy", ["-tls1_2", "-cipher", "AES128-GCM-SHA256:AES256-SHA:@SECLEVEL=0"]),
                            ("CBC", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0"]), ("1.2", ["-tls1_2"]), ("1.3", ["-tls1_3"])):
            done = subprocess.run(["openssl", "s_client", "-connect", web.host, *words], capture_output=True, text=True, input="",
                                  timeout=DEADLINE_S, check=False)
            works = "Verify return code" in done.stdout and "Cipher is (NONE)" not in done.stdout
            self.assertEqual(works, name in ("1.2", "1.3"), (name, done.stdout, done.stderr))

    def test_nothing_is_negotiated_anew_or_resumed(self):
        web = self.start()
        peer = subprocess.Popen(["openssl", "s_client", "-connect", web.host, "-tls1_2", "-sess_out", self.folder / "session"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        peer.stdin.write(b"R\n")
        peer.stdin.flush()
        said = peer.communicate(timeout=DEADLINE_S)[0].decode(errors="replace")
        self.assertIn("RENEGOTIATING", said)
        self.assertIn("no renegotiation", said)
        for version in ("-tls1_2", "-tls1_3"):
            request = get("/", web.host) + b""
            first = subprocess.run(["openssl", "s_client", "-connect", web.host, version, "-reconnect", "-ign_eof"], input=request,
                                   capture_output=True, timeout=DEADLINE_S, check=False).stdout.decode(errors="replace")
            self.assertNotIn("Reused,", first)
        self.assertEqual(web.ask("GET", "/")[0], 200)

    def test_a_slow_handshake_ends_after_five_seconds(self):
        web = self.start()
        hello = self.client_hello()
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE_S) as peer:
            peer.settimeout(0.3)
            sent = 0
            while True:
                try:
                    if not peer.recv(1000):
                        break
                except TimeoutError:
                    with contextlib.suppress(OSError):
                        peer.sendall(hello[sent:sent + 1])  # each byte on time
                    sent += 1
                except OSError:
                    break
                self.assertLess(time.monotonic() - begin, DEADLINE_S)
        self.assertGreater(time.monotonic() - begin, 4)

    def client_hello(self) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def test_half_open_handshakes_keep_nobody_out(self):
        web = self.start()
        _, cookie = web.log_in(OBSERVER)
        with web.tab(cookie) as tab:
            for number in range(200):
                peer = socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE_S)
                self.addCleanup(peer.close)
                if number % 2 == 0:
                    peer.sendall(self.client_hello())
            self.assertEqual(web.ask("GET", "/")[0], 200)
            descriptors = len(list(pathlib.Path(f"/proc/{web.process.child.pid}/fd").iterdir()))
            self.assertLess(descriptors, 64 + 40)
            tab.wait_kind("status")

    def test_what_is_no_tls_ends_nothing(self):
        web = self.start()
        for said in (b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x03\x01", b"\x00" * 1000, b"\x16\x03\x01\xff\xff" + b"a" * 70000):
            with socket.create_connection(("127.0.0.1", web.port), timeout=DEADLINE_S) as peer:
                with contextlib.suppress(OSError):
                    peer.sendall(said)
                read_answer(peer)  # to its end
        self.assertEqual(web.ask("GET", "/")[0], 200)

    def test_curl_takes_it(self):
        if shutil.which("curl") is None:
            self.skipTest("SKIPPED: curl is not here")
        web = self.start()
        curl = ["curl", "-sS", "-i", "--max-time", "60", "--cacert", self.folder / "server.crt"]
        done = subprocess.run([*curl, "-H", f"Origin: {web.origin}", "--json", f'{{"token":"{OBSERVER}"}}', "-c", self.folder / "jar",
                               web.origin + "/api/login"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, "200 OK" in done.stdout), (0, True), done.stderr)
        page = subprocess.run([*curl, "-b", self.folder / "jar", web.origin + "/"], capture_output=True, text=True, check=False)
        self.assertIn("state-word", page.stdout)
        without = subprocess.run(["curl", "-sS", web.origin + "/"], capture_output=True, text=True, check=False)
        self.assertEqual(without.returncode, 60, without.stderr)  # a certificate that nobody has told it of


if __name__ == "__main__":
    import unittest
    unittest.main()
