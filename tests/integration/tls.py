# SPDX-License-Identifier: MIT
"""Certificates of a test's own, by the openssl program, and clients that speak TLS: Python's ssl and http.client."""
from __future__ import annotations

import http.client
import json
import pathlib
import shutil
import ssl
import subprocess
import unittest

from harness import BIN, DEADLINE_S, Process
from web_client import Tab

OBSERVER, OPERATOR = "observer-token-0123456789", "operator-token-0123456789"
LOGINS = (f"tokens:\n  - {{name: office, role: observe, token: {OBSERVER}}}\n"
          f"  - {{name: bench, role: operate, token: {OPERATOR}}}\n")


def openssl(*arguments) -> str:
    if shutil.which("openssl") is None:
        raise unittest.SkipTest("SKIPPED: openssl is not here")
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_certificate(folder: pathlib.Path, name: str = "server", days: int = 30) -> None:
    """NAME.crt and NAME.key, signed by itself: the lines of docs/use/web.md."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", days,
            "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
    (folder / f"{name}.key").chmod(0o600)


def make_client(folder: pathlib.Path, common_name: str, file: str, ca: str = "ca") -> None:
    """FILE.crt and FILE.key of a client, signed by NAME.crt."""
    if not (folder / f"{ca}.crt").exists():
        make_certificate(folder, ca)
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={common_name}",
            "-keyout", folder / f"{file}.key", "-out", folder / f"{file}.csr")
    openssl("x509", "-req", "-in", folder / f"{file}.csr", "-CA", folder / f"{ca}.crt", "-CAkey", folder / f"{ca}.key",
            "-CAcreateserial", "-days", 30, "-out", folder / f"{file}.crt")


class SecureWeb:
    """driftd-web by TLS and with a login, on a port of the kernel's choice; its certificate is server.crt."""

    def __init__(self, stack, folder: pathlib.Path, *arguments, listen: str = "127.0.0.1:0", logins: str = LOGINS, name: str = "web"):
        self.folder = folder
        self.logins = folder / f"{name}.logins.yaml"
        self.set_logins(logins)
        if not (folder / "server.crt").exists():
            make_certificate(folder)
        self.process = stack.enter_context(Process(
            name, [BIN / "driftd-web", "--listen", listen, "--certificate", folder / "server.crt", "--key", folder / "server.key",
                   "--logins", self.logins, *arguments], folder))
        self.process.wait_for("serving https://")
        self.address = self.process.text().split("serving https://")[1].split("/")[0]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.host = f"127.0.0.1:{self.port}"
        self.origin = f"https://{self.host}"

    def set_logins(self, text: str) -> None:
        """As an editor does: another file in its place."""
        fresh = self.logins.with_suffix(".new")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.rename(self.logins)

    def context(self, client: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "server.crt"))
        if client:
            context.load_cert_chain(self.folder / f"{client}.crt", self.folder / f"{client}.key")
        return context

    def ask(self, method: str, path: str, body=None, source: str = "127.0.0.1", client: str = "", **headers) -> tuple[int, str, dict]:
        """Status, text and headers of an answer; a header None is left out."""
        said = {"Host": self.host} | ({"Origin": self.origin, "Content-Type": "application/json"} if method == "POST" else {})
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=DEADLINE_S, context=self.context(client),
                                                 source_address=(source, 0))
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {k: v for k, v in said.items() if v is not None})
            reply = connection.getresponse()
            return reply.status, reply.read().decode(), dict(reply.getheaders())
        finally:
            connection.close()

    def log_in(self, token: str, **options) -> tuple[int, str]:
        """Status, and the cookie as a browser sends it; "" without one."""
        status, _, headers = self.ask("POST", "/api/login", {"token": token}, **options)
        return status, headers.get("Set-Cookie", "").split(";")[0]

    def post(self, command, cookie: str, csrf: str, **headers) -> tuple[int, dict | str]:
        status, text, _ = self.ask("POST", "/api/command", {"command": command}, Cookie=cookie or None, X_CSRF_Token=csrf, **headers)
        return status, json.loads(text) if text.startswith("{") else text

    def tab(self, cookie: str = "", client: str = "", **options) -> Tab:
        return SecureTab(self, cookie, client, **options)


class SecureTab(Tab):
    def __init__(self, web: SecureWeb, cookie: str, client: str, **options):
        import websocket
        more = {"cookie": cookie} if cookie else {}
        self.socket = websocket.create_connection(
            f"wss://{web.host}/ws", **{"origin": web.origin, "timeout": DEADLINE_S, "sslopt": {"context": web.context(client)}}
            | more | options)
