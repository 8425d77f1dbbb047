# SPDX-License-Identifier: MIT
"""The wire: a TCP port or a pseudo-terminal, one client, and the time that bytes take on a serial line."""
from __future__ import annotations

import fcntl
import os
import pty
import select
import socket
import struct
import tty

CHUNK = 4096
TCGETS2 = 0x802C542A  #: Linux, but for MIPS, PowerPC and SPARC
TERMIOS2 = struct.Struct("=4IB19s2I")  #: flags, line discipline, control characters, speeds


class Line:
    """One direction of a serial line: when bytes that follow each other have passed."""

    def __init__(self, baud: int, bits: int = 10) -> None:
        self.byte_ns = bits * 1e9 / baud if baud else 0.0
        self.free_ns = 0.0  #: the last byte has passed

    def pass_bytes(self, count: int, from_ns: float) -> float:
        self.free_ns = max(self.free_ns, from_ns) + count * self.byte_ns
        return self.free_ns


class Gone(Exception):
    """The client went."""


class TcpLink:
    """Listens on 127.0.0.1 and serves one client; a second one is closed at once."""

    def __init__(self, host: str, port: int, say) -> None:
        self._host, self._port, self._say = host, port, say
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None
        self.clients = 0

    def open(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self._host, self._port))
        self._listener.listen()
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]

    @property
    def name(self) -> str:
        return f"tcp://{self._host}:{self._port}"

    def close(self) -> None:
        self.drop_client()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def descriptors(self, reading: bool) -> list:
        sockets = [self._listener]
        if reading:
            sockets.append(self._client)
        return [each for each in sockets if each is not None]

    def ready(self, each) -> bytes:
        """What a readable descriptor has. @raises Gone"""
        if each is self._listener:
            self._accept()
            return b""
        if each is not self._client:
            return b""
        try:
            data = self._client.recv(CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.drop_client()
            raise Gone
        return data

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        # The client before may have gone without our having looked yet.
        if self._client is not None and not self._hung_up():
            self._say("a second client was turned away: one at a time")
            client.close()
            return
        self.drop_client()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = client
        self.clients += 1

    def _hung_up(self) -> bool:
        try:
            return self._client.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(self, data: bytes) -> int:
        if self._client is None:
            return len(data)
        try:
            return self._client.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def wrong_baud(self, baud: int) -> str:
        return ""


def _speeds(descriptor: int) -> set[int]:
    """Speeds in and out, in baud. Asked as termios2: a client may have set a speed without a name (BOTHER)."""
    answer = fcntl.ioctl(descriptor, TCGETS2, bytes(TERMIOS2.size))
    return set(TERMIOS2.unpack(answer)[-2:])


class PtyLink:
    """A pseudo-terminal under a symbolic link. It cannot know how many have it open."""

    def __init__(self, path: str, cooked: bool = False) -> None:
        self._path = path
        self._cooked = cooked
        self._master = self._slave = -1
        self.clients = 0

    def open(self) -> None:
        if os.path.lexists(self._path) and not os.path.islink(self._path):
            raise OSError(f"{self._path} is there and is no symbolic link")
        self._master, self._slave = pty.openpty()  # the open slave keeps it alive between clients
        if not self._cooked:
            tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        if os.path.islink(self._path):
            os.unlink(self._path)
        os.symlink(os.ttyname(self._slave), self._path)
        self.clients += 1

    @property
    def name(self) -> str:
        return self._path

    def close(self) -> None:
        if self._master < 0:
            return
        if os.path.islink(self._path) and os.readlink(self._path) == os.ttyname(self._slave):
            os.unlink(self._path)
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    def descriptors(self, reading: bool) -> list:
        return [self._master] if reading and self._master >= 0 else []

    def ready(self, each) -> bytes:
        try:
            return os.read(self._master, CHUNK)
        except (BlockingIOError, OSError):
            return b""

    def send(self, data: bytes) -> int:
        """A device talks whether or not anybody reads: what a full buffer does not take is lost."""
        if self._master < 0:
            return len(data)
        _, writable, _ = select.select([], [self._master], [], 0)
        if not writable:
            return len(data)
        try:
            return os.write(self._master, data)
        except OSError:
            return len(data)

    def wrong_baud(self, baud: int) -> str:
        """A sentence when the client has set another speed than the device's."""
        if self._master < 0 or not baud:
            return ""
        speeds = _speeds(self._master)
        if speeds == {baud}:
            return ""
        set_to = " and ".join(str(speed) for speed in sorted(speeds))
        return f"the client's line is set to {set_to} baud, the device's to {baud}"
