# SPDX-License-Identifier: MIT
"""The thread that sends a driver's reports to the daemon, so that no report waits for a slow stage.

Owned by `driftd.stages.Driver`. Reads every reply; finds the daemon again after it was away.
"""
from __future__ import annotations

import json
import logging
import threading
import time

import zmq

import driftd

from .report import Account, plain

PERIOD_S = 0.05
UNKNOWN_PERIOD_S = 5.0  # to a daemon that does not know the command
SILENCE_S = 2.0  # without an answer: look for the daemon anew
LOG = logging.getLogger("driftd.stages")


class Reporter:
    """Reports until `close`.

    Attributes
    ----------
    busy : bool
        Another driver reports to the daemon: this one must not move its stage.
    """

    def __init__(self, account: Account, endpoint: str) -> None:
        self.busy = False
        self._account, self._endpoint = account, endpoint
        self._socket: zmq.Socket | None = None
        self._heard_s = 0.0
        self._said = ""  # the last thing said about the daemon
        self._period_s = PERIOD_S
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driftd stage reports", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Sends the last report and returns; waits a fifth of a second for its answer."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            end_s = time.monotonic() + self._period_s
            try:
                self._send()
                self._read_replies(end_s)
            except Exception as error:  # the stage is driven all the same
                self._say(f"no report: {type(error).__name__}: {plain(error)}")
                self._disconnect()
                self._ended.wait(self._period_s)
        self._send()
        self._read_replies(time.monotonic() + 0.2, one=True)
        self._disconnect(linger_ms=200)

    def _send(self) -> None:
        if self._socket is not None and time.monotonic() - self._heard_s > SILENCE_S + self._period_s:
            self._disconnect()
            self.busy = False
            self._say("the daemon does not answer")
        if self._socket is None and not self._connect():
            return
        data = json.dumps(self._account.message(time.monotonic_ns()), allow_nan=False,
                          ensure_ascii=False).encode(errors="replace")
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            pass  # nobody there now: the next report says all that this one would have

    def _connect(self) -> bool:
        try:
            endpoint = driftd.find_endpoint(self._endpoint)
        except driftd.Unreachable as error:
            self._say(str(error))
            return False
        self._socket = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing waits for a daemon that is away
        self._socket.setsockopt(zmq.SNDHWM, 4)
        self._socket.connect(endpoint)
        self._heard_s = time.monotonic()
        return True

    def _disconnect(self, linger_ms: int = 0) -> None:
        if self._socket is not None:
            self._socket.close(linger_ms)
            self._socket = None

    def _read_replies(self, end_s: float, one: bool = False) -> None:
        while (left_s := end_s - time.monotonic()) > 0:
            if self._ended.is_set() and not one:
                return
            if self._socket is None:
                if one or self._ended.wait(min(left_s, PERIOD_S)):
                    return
            elif self._socket.poll(max(1, min(round(left_s * 1000), 50))):
                self._read(self._socket.recv_multipart()[-1])
                if one:
                    return

    def _read(self, data: bytes) -> None:
        self._heard_s = time.monotonic()
        try:
            reply = json.loads(data)
            ok = reply["ok"]
        except (ValueError, TypeError, KeyError, RecursionError):
            self._say(f"not a reply of driftd: {plain(data[:80])}")
            return
        code, error = (None, "") if ok is True else (reply.get("code"), plain(reply.get("error")))
        self.busy = code == "busy"
        if code is None and reply.get("state") not in ("locked", "holding"):
            self._account.lock_is_over(time.monotonic_ns())
        unknown = code == "bad_request" and "unknown command" in error
        self._period_s = UNKNOWN_PERIOD_S if unknown else PERIOD_S
        if self.busy:
            self._say(f"another driver reports to the daemon; this one waits: {error}")
        elif unknown:
            self._say(f"the daemon knows no stages, corrections are followed all the same: {error}")
        else:
            self._say(f"the daemon refuses: {error}" if code else "the daemon hears")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            LOG.log(logging.INFO if text.endswith("hears") else logging.WARNING, "%s", text)
