# SPDX-License-Identifier: MIT
"""What the daemon publishes: messages of all topics, and the corrections that a stage may be moved by."""
from __future__ import annotations

import json
import time
from typing import Iterable, Iterator

import zmq

from .keys import use_keys
from .places import CORRECTIONS, Endpoints, Unreachable, find_endpoint

TOPICS = ("position", "correction", "axial", "markers", "status", "event")
TOPIC_OF_AXES = {"xy": "correction", "z": "axial"}


class Message(dict):
    """One published message: its fields as in docs/reference/protocol.md, and what the subscriber saw.

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

    def __init__(self, endpoint: str | Endpoints = Endpoints(), topics: Iterable[str] = TOPICS, *,
                 newest_only: bool = False, timeout_s: float | None = None) -> None:
        topics = tuple(topics)
        unknown = set(topics) - set(TOPICS)
        if unknown or not topics:
            raise ValueError(f"topics {sorted(unknown)}: allowed are {', '.join(TOPICS)}")
        if newest_only and len(topics) != 1:
            raise ValueError("newest_only keeps one message in all, so it needs exactly one topic")
        if isinstance(endpoint, Endpoints) and not endpoint.corrections and set(topics) <= set(TOPIC_OF_AXES.values()):
            raise ValueError("corrections: this role may not subscribe to them, or no port has them")
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
        if isinstance(endpoint, Endpoints):
            use_keys(self._socket, endpoint.keys)
        self._missing = [endpoint]  # to be connected to yet
        if isinstance(endpoint, Endpoints):
            self._missing = [endpoint.publish] if set(topics) - set(TOPIC_OF_AXES.values()) else []
            if set(topics) & set(TOPIC_OF_AXES.values()) and endpoint.corrections:
                self._missing.append(endpoint.corrections)
        try:
            self._connect()
        except (Unreachable, ValueError):
            self._socket.close()
            raise

    def _connect(self) -> None:
        """Connects. An endpoint by name that is nowhere yet is left for later."""
        for endpoint in list(self._missing):
            try:
                self._socket.connect(find_endpoint(endpoint))
                self._missing.remove(endpoint)
            except Unreachable as error:
                if error.code != "nobody":
                    raise

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
        self._wait(timeout_s)
        data = self._socket.recv()
        topic, _, text = data.decode().partition(" ")
        body = json.loads(text)
        if not isinstance(body, dict) or not (
                isinstance(body.get("session"), str) and isinstance(body.get("seq"), int)):
            raise ValueError(f"not a message of driftd: {data[:80]!r}")
        message = Message(body)
        self._follow(topic, message)
        return topic, message

    def _wait(self, timeout_s: float | None) -> None:
        """Returns when there is a message; looks for the daemon meanwhile."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._connect()
            wait_s = 0.1 if self._missing else None
            if end is not None:
                left_s = max(0.0, end - time.monotonic())
                wait_s = left_s if wait_s is None else min(wait_s, left_s)
            if self._socket.poll(None if wait_s is None else round(wait_s * 1000)):
                return
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"no message for {timeout_s} s")

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


def subscribe(endpoint: str | Endpoints = Endpoints(), topics: Iterable[str] = TOPICS, *,
              newest_only: bool = False, timeout_s: float | None = None) -> Subscription:
    """Iterate over what the daemon publishes.

    Parameters
    ----------
    endpoint : str or Endpoints
        The endpoint that publishes the topics: corrections have one of their own. `Endpoints` takes
        the right ones.
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


class Corrections:
    """The corrections that a stage may be moved by, for a driver; see docs/reference/protocol.md.

    Keeps the newest only. Leaves out what has expired, as everything has that waited while this
    process stood still, and what belongs to a lock that a newer one has replaced.

    Parameters
    ----------
    endpoint : str or Endpoints
        ``wire.corrections`` of the configuration.
    axes : "xy" or "z"
        Which lock's: ``total_x_nm`` and ``total_y_nm``, or ``total_z_nm``. A driver of both has two.

    Attributes
    ----------
    ignored : int
        Corrections that were left out.

    Raises
    ------
    ValueError
        Other axes, or an endpoint that cannot be connected to.
    """

    def __init__(self, endpoint: str | Endpoints = CORRECTIONS, axes: str = "xy") -> None:
        if axes not in TOPIC_OF_AXES:
            raise ValueError(f"axes {axes!r}: allowed are {', '.join(TOPIC_OF_AXES)}")
        if isinstance(endpoint, Endpoints) and endpoint.keys is not None:
            raise ValueError("corrections expire by the clock of the daemon's computer: a driver runs there")
        self.ignored = 0
        self._subscription = Subscription(endpoint, [TOPIC_OF_AXES[axes]], newest_only=True)
        self._lock: tuple[str, int] | None = None  # session and lock_id of the newest lock
        self._old_sessions: set[str] = set()

    def receive(self, timeout_s: float | None = None) -> Message:
        """The next correction that may be carried out, to be carried out at once.

        Raises
        ------
        TimeoutError
            None came in time, or none that may be carried out: the stage stays where it was told last.
        ValueError
            What came is not a correction of the protocol.
        """
        before = self.ignored
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if end is None else max(0.0, end - time.monotonic())
            try:
                _, message = self._subscription.receive(left_s)
            except TimeoutError:
                raise TimeoutError(f"no correction to carry out for {timeout_s} s; "
                                   f"{self.ignored - before} came and were ignored") from None
            if not all(isinstance(message.get(name), int) for name in ("lock_id", "expires_ns")):
                raise ValueError(f"not a correction of driftd: {dict(message)}")
            if self._is_of_the_newest_lock(message) and time.monotonic_ns() <= message["expires_ns"]:
                return message
            self.ignored += 1

    def _is_of_the_newest_lock(self, message: Message) -> bool:
        session, lock_id = message["session"], message["lock_id"]
        if session in self._old_sessions or (
                self._lock is not None and session == self._lock[0] and lock_id < self._lock[1]):
            return False
        if self._lock is not None and session != self._lock[0]:
            self._old_sessions.add(self._lock[0])
        self._lock = (session, lock_id)
        return True

    def close(self) -> None:
        self._subscription.close()

    def __enter__(self) -> Corrections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
