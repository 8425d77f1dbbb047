# SPDX-License-Identifier: MIT
"""Messages and commands of driftd from Python (docs/protocol.md). Needs pyzmq only.

    import driftd

    driftd.Client().lock()
    for topic, message in driftd.subscribe(topics=["position"]):
        print(message["x_nm"], message["y_nm"])

Lengths are nanometres in the sample plane (``_nm``), pixels are full-sensor pixels (``_px``), times
are nanoseconds of the daemon host's monotonic clock (``_ns``): ``time.monotonic_ns()`` there.
Axes: x right, y down; corrections are in stage axes. A value that does not exist is ``None``.

``driftd.fit`` and ``driftd.search`` are those of driftd_fit, which needs numpy and libdriftfit, too.
"""
from __future__ import annotations

import json
import time
from array import array
from typing import Any, Iterable, Iterator

import zmq

PUBLISH = "tcp://127.0.0.1:5555"
COMMANDS = "tcp://127.0.0.1:5556"
TOPICS = ("position", "correction", "markers", "status", "event")


def __getattr__(name: str) -> Any:
    if name not in ("fit", "search"):
        raise AttributeError(f"module 'driftd' has no attribute '{name}'")
    import driftd_fit  # not before it is asked for
    return getattr(driftd_fit, name)


class DriftdError(Exception):
    """driftd said no. ``code`` is one of docs/protocol.md: bad_request, refused, timeout."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Unreachable(DriftdError):
    """driftd did not answer in time."""


class Message(dict):
    """One published message: its fields as in docs/protocol.md, and what the subscriber saw.

    Attributes
    ----------
    lost : int
        Messages of this topic that were sent before this one and never came.
    restarted : bool
        True for the first message of a topic that comes from another run of the daemon.
    """

    lost: int = 0
    restarted: bool = False


class Subscription:
    """An iterator over ``(topic, message)``; see `subscribe`.

    Attributes
    ----------
    lost : int
        All messages missed since the start.
    """

    def __init__(self, endpoint: str = PUBLISH, topics: Iterable[str] = TOPICS, *,
                 newest_only: bool = False, timeout_s: float | None = None) -> None:
        topics = tuple(topics)
        unknown = set(topics) - set(TOPICS)
        if unknown or not topics:
            raise ValueError(f"topics {sorted(unknown)}: allowed are {', '.join(TOPICS)}")
        if newest_only and len(topics) != 1:
            raise ValueError("newest_only keeps one message in all, so it needs exactly one topic")
        self.lost = 0
        self._newest_only = newest_only
        self._timeout_s = timeout_s
        self._seen: dict[str, tuple[str, int]] = {}  # topic: (session, seq) of its last message
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        if newest_only:
            self._socket.setsockopt(zmq.CONFLATE, 1)
        for topic in topics:
            self._socket.setsockopt(zmq.SUBSCRIBE, topic.encode() + b" ")
        self._socket.connect(endpoint)

    def __iter__(self) -> Iterator[tuple[str, Message]]:
        return self

    def __next__(self) -> tuple[str, Message]:
        return self.receive(self._timeout_s)

    def receive(self, timeout_s: float | None = None) -> tuple[str, Message]:
        """The next message.

        Parameters
        ----------
        timeout_s : float, optional
            Seconds to wait; None waits for ever.

        Returns
        -------
        topic : str
        message : Message

        Raises
        ------
        TimeoutError
            Nothing came in time.
        ValueError
            What came is not a message of the protocol.
        """
        if timeout_s is not None and not self._socket.poll(max(0, round(timeout_s * 1000))):
            raise TimeoutError(f"no message for {timeout_s} s")
        topic, _, body = self._socket.recv().decode().partition(" ")
        message = Message(json.loads(body))
        self._follow(topic, message)
        return topic, message

    def _follow(self, topic: str, message: Message) -> None:
        session, seq = message["session"], message["seq"]
        if topic in self._seen:
            last_session, last_seq = self._seen[topic]
            message.restarted = session != last_session
            if not message.restarted and not self._newest_only:
                message.lost = seq - last_seq - 1
                self.lost += message.lost
        self._seen[topic] = (session, seq)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def subscribe(endpoint: str = PUBLISH, topics: Iterable[str] = TOPICS, *,
              newest_only: bool = False, timeout_s: float | None = None) -> Subscription:
    """Iterate over what the daemon publishes.

    Parameters
    ----------
    endpoint : str
        ``wire.publish`` of the configuration.
    topics : iterable of str
        Any of `TOPICS`.
    newest_only : bool
        Keep the newest message only (ZMQ_CONFLATE), for a reader that may be slower than the
        camera. Exactly one topic; losses are then not counted.
    timeout_s : float, optional
        Iteration raises TimeoutError after this long without a message; None waits for ever, also
        for a daemon that is not there yet.

    Returns
    -------
    Subscription
        Yields ``(topic, message)``; ``message.lost`` and ``message.restarted`` tell of gaps.
    """
    return Subscription(endpoint, topics, newest_only=newest_only, timeout_s=timeout_s)


class Client:
    """Sends commands. Not for several threads at once.

    Parameters
    ----------
    endpoint : str
        ``wire.commands`` of the configuration.
    timeout_s : float
        How long to wait for each answer.
    """

    def __init__(self, endpoint: str = COMMANDS, timeout_s: float = 2.0) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s

    def request(self, command: str, **fields: Any) -> tuple[dict, bytes]:
        """Any command of docs/protocol.md.

        Returns
        -------
        reply : dict
        attachment : bytes
            The second part of the reply, empty when there is none.

        Raises
        ------
        Unreachable
            No answer within the time-out.
        DriftdError
            driftd refused; ``code`` says why.
        """
        with zmq.Context.instance().socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self._endpoint)
            socket.send(json.dumps({"command": command, **fields}).encode())
            if not socket.poll(round(self._timeout_s * 1000)):
                raise Unreachable(f"no answer from driftd at {self._endpoint} "
                                  f"within {self._timeout_s} s", "timeout")
            parts = socket.recv_multipart()
        reply = json.loads(parts[0])
        if not reply["ok"]:
            raise DriftdError(reply["error"], reply["code"])
        return reply, b"".join(parts[1:])

    def status(self) -> dict:
        """The status as published."""
        return self.request("status")[0]["status"]

    def lock(self) -> str:
        """Take the reference anew and hold the sample there. Returns the state that follows."""
        return self.request("lock")[0]["state"]

    def unlock(self) -> str:
        """Stop correcting. Returns the state; no correction is sent after this returned."""
        return self.request("unlock")[0]["state"]

    def reset(self) -> str:
        """From ``lost`` or ``fault`` to ``idle``. Returns the state."""
        return self.request("reset")[0]["state"]

    def markers(self) -> list[dict]:
        """The markers, each as in the topic ``markers``."""
        return self.request("markers")[0]["markers"]

    def find_markers(self) -> tuple[list[dict], list[dict]]:
        """Look for markers anew, only while idle. Returns the markers and what was rejected."""
        reply, _ = self.request("markers", find=True)
        return reply["markers"], reply["rejected"]

    def snapshot(self) -> tuple[dict, memoryview]:
        """The current frame.

        Returns
        -------
        frame : dict
            ``frame_id``, ``width_px``, ``height_px``, ``offset_x_px``, ``offset_y_px``, ``bits`` and
            ``rois``.
        pixels : memoryview
            Shape (height_px, width_px), uint16, camera units (adu); ``numpy.asarray(pixels)`` is
            free.
        """
        reply, data = self.request("snapshot")
        frame = reply["frame"]
        pixels = array("H", data)
        if memoryview(b"\1\0").cast("H")[0] != 1:  # a big-endian host; the wire is little-endian
            pixels.byteswap()
        shape = (frame["height_px"], frame["width_px"])
        return frame, memoryview(pixels).cast("B").cast("H", shape)

    def wait_for(self, state: str, timeout_s: float = 10.0) -> None:
        """Return once the daemon is in a state, such as ``"locked"``.

        Raises
        ------
        TimeoutError
            It is still in another one; the text names it.
        """
        deadline = time.monotonic() + timeout_s
        while (now := self.status()["state"]) != state:
            if time.monotonic() > deadline:
                raise TimeoutError(f"still {now}, not {state}, after {timeout_s} s")
            time.sleep(0.05)
