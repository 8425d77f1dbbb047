# SPDX-License-Identifier: MIT
"""A daemon's side of a stage driver: publishes corrections, takes reports and checks every one."""
import json
import math
import pathlib
import re
import sys
import tempfile
import threading
import time

try:
    import zmq
except ImportError:
    print("SKIPPED: python3-zmq is not installed")
    sys.exit(0)

from protocol import examples

STATES = ("ready", "servo_off", "not_referenced", "limit", "error", "disconnected", "stopped")
NUMBER, TEXT, COUNT = "number", "text", "count"
#: What a report has: kind of each field, and whether it may be null.
AXIS = {"axis": (TEXT, False), "name": (TEXT, False), "min_nm": (NUMBER, True), "max_nm": (NUMBER, True),
        "resolution_nm": (NUMBER, True), "closed_loop": ("bool", False), "position_nm": (NUMBER, True),
        "target_nm": (NUMBER, True)}
LATENCY = {"n": (COUNT, False), "p50": (NUMBER, True), "p99": (NUMBER, True), "max": (NUMBER, True)}
REPORT = {"command": (TEXT, False), "instance": (TEXT, False), "driver": (TEXT, False),
          "description": (TEXT, False), "max_rate_hz": (NUMBER, False), "axes": ("list", False),
          "state": (TEXT, False), "text": (TEXT, False), "error": ("whole", False),
          "on_target": ("bool", True), "time_ns": (COUNT, True), "session": (TEXT, True),
          "lock_id": (COUNT, True), "total_x_nm": (NUMBER, True), "total_y_nm": (NUMBER, True),
          "carried_out": (COUNT, False), "ignored": (COUNT, False), "refused": (COUNT, False),
          "rate_hz": (NUMBER, False), "latency_us": ("dict", False)}
#: The same of z.
REPORT_OF_Z = {key: kind for key, kind in REPORT.items()
               if key not in ("session", "lock_id", "total_x_nm", "total_y_nm")} | {
                   "z_session": (TEXT, True), "z_lock_id": (COUNT, True), "total_z_nm": (NUMBER, True)}


def is_of_z(report: dict) -> bool:
    return "total_z_nm" in report


def _wrong(value: dict, fields: dict, where: str) -> list[str]:
    kinds = {NUMBER: lambda v: type(v) in (int, float) and math.isfinite(v),
             COUNT: lambda v: type(v) is int and v >= 0, "whole": lambda v: type(v) is int,
             TEXT: lambda v: type(v) is str, "bool": lambda v: type(v) is bool,
             "list": lambda v: type(v) is list, "dict": lambda v: type(v) is dict}
    wrong = [f"{where}{key}: there or missing" for key in value.keys() ^ fields.keys()]
    for key in value.keys() & fields.keys():
        kind, may_be_null = fields[key]
        if not (may_be_null and value[key] is None or kinds[kind](value[key])):
            wrong.append(f"{where}{key}: {value[key]!r} is no {kind}")
    return wrong


def mistakes(data: bytes) -> list[str]:
    """In what a report differs from the stage channel's contract."""
    def no_constant(name):
        raise ValueError(f"{name} in JSON")

    if len(data) > 4096:
        return [f"{len(data)} bytes; a request has at most 4096"]
    report = json.loads(data, parse_constant=no_constant)
    of_z = is_of_z(report)
    wrong = _wrong(report, REPORT_OF_Z if of_z else REPORT, "")
    if wrong:
        return wrong
    wrong += _wrong(report["latency_us"], LATENCY, "latency_us/")
    for axis in report["axes"]:
        wrong += _wrong(axis, AXIS, "axes/")
    if not re.fullmatch("[0-9a-f]{16}", report["instance"]):
        wrong.append(f"instance {report['instance']}")
    if report["command"] != "stage" or report["state"] not in STATES:
        wrong.append(f"{report['command']} {report['state']}")
    if [axis.get("axis") for axis in report["axes"]] not in (["z"] if of_z else ["x", "y"], []):
        wrong.append(f"axes {report['axes']}")
    if (report["latency_us"]["n"] == 0) != (report["latency_us"]["p50"] is None):
        wrong.append(f"latency {report['latency_us']}")
    z_ = "z_" if of_z else ""
    if (report[z_ + "session"] is None) != (report[z_ + "lock_id"] is None):
        wrong.append("session or lock_id alone")
    if report["state"] == "ready" and not (report["axes"] and report["time_ns"] is not None):
        wrong.append("ready without axes or a position")
    return wrong


class StageDaemon:
    """Sockets in a folder of its own; `reply` answers every report, None answers none.

    Attributes
    ----------
    reports : list of dict
        What came, each with ``came_s``.
    mistakes : list of str
        What was wrong with any of them.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="driftd-stage-")
        folder = pathlib.Path(self._folder.name)
        self.corrections = f"ipc://{folder}/corrections"
        self.commands = f"ipc://{folder}/commands"
        self.reports: list[dict] = []
        self.mistakes: list[str] = []
        self.reply: dict | bytes | None = {"ok": True, "session": "0" * 16, "state": "idle"}
        self._context = zmq.Context()
        self.start()

    def start(self) -> None:
        self._pub = self._context.socket(zmq.PUB)
        self._router = self._context.socket(zmq.ROUTER)
        for socket, endpoint in ((self._pub, self.corrections), (self._router, self.commands)):
            socket.setsockopt(zmq.LINGER, 0)
            socket.bind(endpoint)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        """Ends as a daemon does; `start` is its next run."""
        self._over.set()
        self._thread.join()
        self._pub.close()
        self._router.close()

    def close(self) -> None:
        self.stop()
        self._context.term()
        self._folder.cleanup()

    def _serve(self) -> None:
        while not self._over.is_set():
            if not self._router.poll(10):
                continue
            *envelope, data = self._router.recv_multipart()
            self.mistakes += mistakes(data)
            self.reports.append({**json.loads(data), "came_s": time.monotonic()})
            if self.reply is not None:
                reply = self.reply if isinstance(self.reply, bytes) else json.dumps(self.reply).encode()
                self._router.send_multipart([*envelope, reply])

    def send(self, total=(0.0, 0.0), delta=None, *, session="a" * 16, lock_id=1, left_ms=60_000.0, age_ms=0.0,
             **changes) -> None:
        """A correction; a delta of None is that of a lock's first."""
        delta = total if delta is None else delta
        now_ns = time.monotonic_ns()
        self.send_bytes(b"correction " + json.dumps({
            **examples()["correction"], "session": session, "lock_id": lock_id,
            "sent_ns": now_ns - round(age_ms * 1e6), "expires_ns": now_ns + round(left_ms * 1e6),
            "total_x_nm": total[0], "total_y_nm": total[1],
            "delta_x_nm": delta[0], "delta_y_nm": delta[1], **changes}).encode())

    def send_axial(self, total=0.0, delta=None, *, session="a" * 16, lock_id=2, left_ms=60_000.0, **changes) -> None:
        """A correction of z."""
        now_ns = time.monotonic_ns()
        self.send_bytes(b"axial " + json.dumps({
            "v": 1, "seq": 1, "session": session, "lock_id": lock_id, "frame_id": 1, "camera_time_ns": now_ns,
            "arrival_ns": now_ns, "sent_ns": now_ns, "expires_ns": now_ns + round(left_ms * 1e6), "total_z_nm": total,
            "delta_z_nm": total if delta is None else delta, "probe": False, "limited": [], "in_lock": True,
            "move_z_nm": 0.0, "coasting": False, **changes}).encode())

    def send_bytes(self, data: bytes) -> None:
        self._pub.send(data)

    def wait_report(self, condition, timeout_s: float = 60.0) -> dict:
        """The next report of which the condition holds."""
        seen, end_s = len(self.reports), time.monotonic() + timeout_s
        while True:
            for report in self.reports[seen:]:
                seen += 1
                if condition(report):
                    return report
            if time.monotonic() > end_s:
                raise AssertionError(f"no such report; the last: {self.reports[-1:]}")
            time.sleep(0.005)

    def wait_stopped(self, timeout_s: float = 60.0) -> dict:
        """The last report, once it says that the driver has ended; else an AssertionError."""
        end_s = time.monotonic() + timeout_s
        while not self.reports or self.reports[-1]["state"] != "stopped":
            if time.monotonic() > end_s:
                raise AssertionError(f"not stopped; the last: {self.reports[-1:]}")
            time.sleep(0.005)
        return self.reports[-1]
