# SPDX-License-Identifier: MIT
"""Commands of the daemon, and how one on another computer is found."""
from __future__ import annotations

import json
import os
import time
from array import array
from typing import Any, Iterable, Sequence

import zmq

from .axial import Axial, Pattern, axial_of, pattern_of
from .keys import read_keys, use_keys
from .lock_words import lock_in_words, lock_of, why_not_in_lock
from .places import COMMANDS, DriftdError, Endpoints, Unreachable, check_listener, find_endpoint


def server(address: str, key: str | os.PathLike | None = None, server_key: str | os.PathLike | None = None, *,
           timeout_s: float = 2.0) -> Endpoints:
    """A daemon on another computer, by the address of its commands, ``tcp://HOST:PORT``; it is asked for the
    others.

    Parameters
    ----------
    key, server_key : path, optional
        As in `read_keys`.

    Raises
    ------
    Unreachable
        Nobody listens, or no answer came: what a daemon that does not let in this key gives, too.
    OSError, ValueError
        As `read_keys`.
    """
    keys = read_keys(address, key, server_key)
    access, _ = Client(Endpoints(commands=address, keys=keys), timeout_s).request("access")
    host, ports = address.rpartition(":")[0], access["ports"]
    there = {name: f"{host}:{ports[name]}" if ports[name] else "" for name in ("publish", "corrections")}
    if not access["corrections"]:
        there["corrections"] = ""
    return Endpoints(there["publish"], there["corrections"], address, keys)


def _given(**fields: Any) -> dict:
    """Those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _speed(speed_nm_per_s: float | None) -> dict:
    return {} if speed_nm_per_s is None else {"speed_nm_per_s": speed_nm_per_s}


class Client:
    """Sends commands. Not for several threads at once.

    Parameters
    ----------
    endpoint : str or Endpoints
        ``wire.commands`` of the configuration, or a `server`.
    timeout_s : float
        How long to wait for each answer.
    """

    def __init__(self, endpoint: str | Endpoints = COMMANDS, timeout_s: float = 2.0) -> None:
        self._endpoint, self._keys = endpoint, None
        if isinstance(endpoint, Endpoints):
            self._endpoint, self._keys = endpoint.commands, endpoint.keys
        self._timeout_s = timeout_s

    def request(self, command: str, **fields: Any) -> tuple[dict, bytes]:
        """Any command of docs/reference/protocol.md.

        Returns
        -------
        reply : dict
        attachment : bytes
            The second part of the reply, empty when there is none.

        Raises
        ------
        Unreachable
            Nobody listens, this user may not connect, or no answer came in time: see its ``code``.
        DriftdError
            driftd refused; ``code`` says why.
        ValueError
            The endpoint cannot be connected to, or the reply is not one of the protocol.
        """
        endpoint = find_endpoint(self._endpoint)
        check_listener(endpoint)
        with zmq.Context.instance().socket(zmq.REQ) as peer:
            peer.setsockopt(zmq.LINGER, 0)
            use_keys(peer, self._keys)
            # A client whose key is refused has no connection any more, and sending would wait for ever.
            peer.setsockopt(zmq.SNDTIMEO, round(self._timeout_s * 1000))
            peer.connect(endpoint)
            sent = True
            try:
                peer.send(json.dumps({"command": command, **fields}).encode())
            except zmq.Again:
                sent = False
            if not sent or not peer.poll(round(self._timeout_s * 1000)):
                keyed = ": it does not let in this key, or it is not the daemon of that one"
                raise Unreachable(f"driftd runs at {endpoint} but did not answer "
                                  f"within {self._timeout_s} s{keyed if self._keys else ''}", "timeout")
            parts = peer.recv_multipart()
        reply = json.loads(parts[0])
        if not isinstance(reply, dict) or not isinstance(reply.get("ok"), bool):
            raise ValueError(f"not a reply of driftd: {parts[0][:80]!r}")
        if not reply["ok"]:
            raise DriftdError(str(reply.get("error", "no reason given")), str(reply.get("code", "")))
        return reply, b"".join(parts[1:])

    def status(self) -> dict:
        """The status as published."""
        return self.request("status")[0]["status"]

    def axial(self) -> Axial | None:
        """How z is measured, and what it is now; None where it is not measured at all."""
        return axial_of(self.status())

    def pattern(self) -> Pattern | None:
        """How the markers' pattern is turned, grown and tilted against its reference; None while that is not known."""
        return pattern_of(self.status())

    def lock(self, resume: bool = False, place: str | None = None, axes: str | None = None) -> str:
        """Take the reference anew and hold the sample there; with `resume`, go back to where a lock held
        it that was lost, or that the daemon's end interrupted; with `place`, to one that `save_place` saved, whose markers are
        looked for in the whole image: that may take seconds, `timeout_s`. `axes`: "xy", "z" or "xyz"; None: x and y,
        and z where ``axial.hold`` is true. Returns the state that follows."""
        return self.request("lock", **_given(resume=True if resume else None, place=place, axes=axes))[0]["state"]

    def save_place(self, name: str, note: str = "", replace: bool = False) -> dict:
        """Save where the markers are now, while locked or idle. Returns when, how many markers, how far they reach."""
        return self.request("place", save=name, note=note, replace=replace)[0]["place"]

    def places(self) -> list[dict]:
        """The saved places, by name; ``problem`` of one is "" unless it is unreadable or another instrument's."""
        return self.request("place")[0]["places"]

    def place(self, name: str) -> dict:
        """All that is kept of a saved place, its markers among it."""
        return self.request("place", show=name)[0]["place"]

    def remove_place(self, name: str) -> None:
        """Remove a saved place."""
        self.request("place", remove=name)

    def unlock(self, axes: str | None = None) -> str:
        """Stop correcting `axes`, "xy", "z" or "xyz"; None: all. Returns the state; no correction of these is sent
        after this returned. With "z" x and y stay held, for a z-stack of your own."""
        return self.request("unlock", **_given(axes=axes))[0]["state"]

    def reset(self) -> str:
        """Go from ``lost`` or ``fault`` to ``idle``; refused while there is a lock. Returns the state."""
        return self.request("reset")[0]["state"]

    def move(self, x_nm: float | None = None, y_nm: float | None = None, *, z_nm: float | None = None,
             relative: bool = False, speed_nm_per_s: float | None = None) -> dict:
        """Move the sample while it is locked, and hold it there: x to the right, y down in the image, z up, from the
        lock's reference or, if `relative`, from where it was moved to before. x and y, z, or all three.

        Returns
        -------
        reply : dict
            ``move`` (its number), ``x_nm`` and ``y_nm``, or ``z_nm``, from the reference, ``speed_nm_per_s``,
            ``duration_s``; of all three ``z`` has these of z.
        """
        place = {("d" if relative else "") + name: nm
                 for name, nm in _given(x_nm=x_nm, y_nm=y_nm, z_nm=z_nm).items()}
        return self.request("move", **place, **_speed(speed_nm_per_s))[0]

    def move_along(self, places: Iterable[tuple], *, repeat: int = 1, speed_nm_per_s: float | None = None) -> dict:
        """Move the sample through places ``(x_nm, y_nm)`` or ``(x_nm, y_nm, dwell_s)`` from the lock's
        reference, at most 100 and 4 KiB of text, `repeat` times. Returns as `move`."""
        path = [dict(zip(("x_nm", "y_nm", "dwell_s"), map(float, place))) for place in places]
        return self.request("move", path=path, repeat=repeat, **_speed(speed_nm_per_s))[0]

    def move_home(self) -> dict:
        """Move the sample back to the lock's reference. Returns as `move`."""
        return self.request("move", home=True)[0]

    def stop_move(self) -> dict:
        """Stay where the sample is on its way. Returns ``x_nm``, ``y_nm``: where that is."""
        return self.request("move", stop=True)[0]

    def wait_for_move(self, move: int, timeout_s: float = 10.0, axes: str = "xy") -> dict:
        """Return the status once the sample has arrived and lies still (``in_lock``).

        Parameters
        ----------
        move : int
            Its number, as `move` returned it.
        axes : "xy" or "z"
            Which lock's move it is.

        Raises
        ------
        DriftdError
            The move will not arrive: ``code`` is the lock's state, ``replaced``, ``stopped`` or ``limits``.
        TimeoutError
            It has not yet; the text says why.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            status = self.status()
            lock = lock_of(status, axes)
            now = lock["move"]
            if now["phase"] == "unlocked":
                raise DriftdError(f"the move is over; the lock is {lock_in_words(lock)}", lock["state"])
            if now["move"] != move:
                raise DriftdError(f"move {now['move']} took the place of move {move}", "replaced")
            if now["phase"] == "resting" and now["ended"] != "done":
                raise DriftdError(f"the move ended: {now['ended']}", now["ended"])
            if now["phase"] == "resting" and not now["moving"] and lock["gate"]["in_lock"]:
                return status
            if time.monotonic() > deadline:
                why = why_not_in_lock(lock) if lock["state"] == "locked" else lock_in_words(lock)
                raise TimeoutError(f"not in lock after {timeout_s} s, {now['phase']}: {why}")
            time.sleep(0.01)

    def markers(self) -> list[dict]:
        """The markers, each as in the topic ``markers``."""
        return self.request("markers")[0]["markers"]

    def find_markers(self) -> tuple[list[dict], list[dict]]:
        """Look for markers anew, only while idle or lost. Returns the markers and what was rejected."""
        reply, _ = self.request("markers", find=True)
        return reply["markers"], reply["rejected"]

    def choose_markers(self, *, add: Sequence[tuple[float, float]] = (), remove: Sequence[int] = (),
                       tracking: Sequence[int] = (), witness: Sequence[int] = ()) -> dict:
        """Change which markers are followed, as a whole or not at all, only while idle or lost.

        Parameters
        ----------
        add : sequence of (x_px, y_px)
            The spots at these places on the sensor are followed, too; the ids are in the reply's ``added``.
        remove, tracking, witness : sequence of int
            Ids of markers that are not followed any more, that take part in the correction, that are only measured.

        Returns
        -------
        dict
            ``markers``, measured in a later frame, ``added``, and ``too_few``: why nothing can be locked by them, or "".
            ``find_markers`` takes all back.
        """
        fields = {"add": [{"x_px": float(x), "y_px": float(y)} for x, y in add], "remove": [int(i) for i in remove],
                  "tracking": [int(i) for i in tracking], "witness": [int(i) for i in witness]}
        return self.request("markers", **{name: values for name, values in fields.items() if values})[0]

    def exposure(self, *, exposure_us: float | None = None, gain_db: float | None = None) -> dict:
        """The camera's exposure time and gain, and what it allows; sets what is given, only while idle or lost.

        Returns
        -------
        dict
            ``exposure_us``, ``gain_db``, ``frame_rate_hz``, the ranges that the camera allows now, and ``warning``.
        """
        fields = {"exposure_us": exposure_us, "gain_db": gain_db}
        return self.request("exposure", **{name: value for name, value in fields.items() if value is not None})[0]["exposure"]

    def restart(self, *, check: bool = False, wait_s: float = 20.0) -> dict:
        """Have driftd start anew, only while the lock is idle; with ``check`` only tell what would come of it.

        Parameters
        ----------
        wait_s : float
            Returns once driftd answers again, which is waited for so long; 0: at once.

        Returns
        -------
        dict
            ``loses``: a sentence each of what was set by command and is over with it; ``stays_unlocked``: it does not
            lock by itself, though ``lock.at_start`` is on, as somebody left it unlocked.

        Raises
        ------
        Unreachable
            It did not come back in time; the text says why.
        """
        reply = self.request("restart", **({"check": True} if check else {}))[0]
        if not check and wait_s > 0:
            self._wait_anew(wait_s)
        return {name: reply[name] for name in ("loses", "stays_unlocked")}

    def _wait_anew(self, wait_s: float) -> None:
        """Asks until somebody answers: the session that ends refuses everything, and as it closes its socket a
        request may be lost."""
        end = time.monotonic() + wait_s
        brief = Client(self._endpoint, min(self._timeout_s, 1.0))
        brief._keys = self._keys
        while True:
            try:
                brief.status()
                return
            except DriftdError as error:
                if not isinstance(error, Unreachable) and error.code != "stopping":
                    raise
                if time.monotonic() > end:
                    raise Unreachable(f"driftd took the command and has not come back within {wait_s} s: {error}",
                                      getattr(error, "code", "timeout")) from error
            time.sleep(0.05)

    def calibrate_z(self, timeout_s: float = 600.0, **fields: float) -> dict:
        """Take the stage of z up and down about the present place and back, and make the curve of widths, or the slope
        of the reflected spot, of what is seen.

        Parameters
        ----------
        timeout_s : float
            When to give it up, s; the stage is then told to go back to its start.
        **fields
            ``range_nm``, ``step_nm``, ``frames``, ``settle_s``; what is left out, driftd chooses.

        Returns
        -------
        result : dict
            As docs/reference/protocol.md, "Calibrating z", has it; ``"\\n".join(result["curve"]["text"])`` is
            the file of ``axial.curve``.

        Raises
        ------
        DriftdError
            It was not begun, or was refused or ended: ``code`` is the phase, the text says why and where the stage is.
        TimeoutError
            It has not come to an end.
        """
        self.request("calibrate", axes="z", **fields)
        deadline = time.monotonic() + timeout_s
        while True:
            now = self.request("calibration", axes="z")[0]
            if now["phase"] == "done":
                return now["result"]
            if now["phase"] in ("none", "refused", "stopped", "failed"):
                raise DriftdError(now["text"], now["phase"])
            if time.monotonic() > deadline:
                self.request("calibrate", axes="z", stop=True)
                raise TimeoutError(f"the calibration of z has not ended in {timeout_s} s; its stage goes back")
            time.sleep(0.2)

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

    def wait_for(self, state: str, timeout_s: float = 10.0, axes: str = "xy") -> None:
        """Return once the lock of `axes`, "xy" or "z", is in a state, such as ``"locked"``.

        Raises
        ------
        TimeoutError
            It is still in another one; the text names it, and says why and what helps.
        """
        deadline = time.monotonic() + timeout_s
        while (lock := lock_of(self.status(), axes))["state"] != state:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {state} after {timeout_s} s: {lock_in_words(lock)}")
            time.sleep(0.05)
