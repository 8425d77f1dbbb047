# SPDX-License-Identifier: MIT
"""driftd-stage between a publisher of corrections and the simulator's stage input, both played here.
Reports are read as strictly as docs/reference/protocol.md says them."""
from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import re
import socket
import tempfile
import threading
import time

import zmq

from harness import BIN, DEADLINE_S, Process

NUMBER = (int, float)
MAYBE = (int, float, type(None))
REPORT = {
    "command": str, "instance": str, "driver": str, "description": str, "max_rate_hz": NUMBER,
    "axes": list, "state": str, "text": str, "error": int, "on_target": (bool, type(None)),
    "time_ns": int, "session": (str, type(None)), "lock_id": (int, type(None)),
    "total_x_nm": MAYBE, "total_y_nm": MAYBE, "carried_out": int, "ignored": int, "refused": int,
    "rate_hz": NUMBER, "latency_us": dict}
AXIS = {"axis": str, "name": str, "min_nm": NUMBER, "max_nm": NUMBER, "resolution_nm": NUMBER,
        "closed_loop": bool, "position_nm": MAYBE, "target_nm": MAYBE}
LATENCY = {"n": int, "p50": MAYBE, "p99": MAYBE, "max": MAYBE}
STATES = ("ready", "servo_off", "not_referenced", "limit", "error", "disconnected", "stopped")


def check(body: dict, fields: dict) -> None:
    """Exactly these keys in this order, of these types; a truth value is no number."""
    assert list(body) == list(fields), f"{list(body)} instead of {list(fields)}"
    for name, kind in fields.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        good = isinstance(body[name], kinds) and (bool in kinds or not isinstance(body[name], bool))
        assert good, f"{name}: {body[name]!r}"


def check_report(text: bytes) -> dict:
    def no_such(number):
        raise AssertionError(f"{number} is no JSON")
    report = json.loads(text, parse_constant=no_such)
    check(report, REPORT)
    check(report["latency_us"], LATENCY)
    assert report["command"] == "stage" and report["state"] in STATES, report
    assert re.fullmatch("[0-9a-f]{16}", report["instance"]), report["instance"]
    assert len(report["axes"]) in (0, 2)
    for axis, name in zip(report["axes"], "xy"):
        check(axis, AXIS)
        assert axis["axis"] == name and axis["min_nm"] < axis["max_nm"]
    assert (report["session"] is None) == (report["lock_id"] is None)
    assert report["state"] == "ready" or report["text"], report
    return report


class StageInput:
    """The simulator's `--stage-input`: obeys "move X Y", answers "read"; may be away or silent."""

    def __init__(self, path: pathlib.Path, x_nm: float = 0.0, y_nm: float = 0.0):
        self.path, self.place = path, [x_nm, y_nm]
        self.moves: list[tuple[int, float, float]] = []  # monotonic ns, x, y
        self.silent = False
        self._start()

    def _start(self):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self._socket.bind(str(self.path))
        self._socket.settimeout(0.05)
        self._running = True
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while self._running:
            try:
                data, sender = self._socket.recvfrom(200)
            except TimeoutError:
                continue
            words = data.decode().split()
            if self.silent:
                continue
            if words[:1] == ["read"] and len(words) == 1:
                x, y = self.place
                self._socket.sendto(f"{x:.4f} {y:.4f} {x:.4f} {y:.4f}".encode(), sender)
            else:
                assert words[0] == "move" and len(words) == 3, data
                self.place = [float(words[1]), float(words[2])]
                self.moves.append((time.monotonic_ns(), *self.place))

    def stop(self):
        self._running = False
        self._thread.join()
        with contextlib.suppress(FileNotFoundError):  # first: nobody finds a name with nothing behind it
            self.path.unlink()
        self._socket.close()

    def restart(self, x_nm: float, y_nm: float):
        self.stop()
        self.place = [x_nm, y_nm]
        self._start()


class FakeDaemon:
    """Publishes corrections and answers reports."""

    def __init__(self, folder: pathlib.Path):
        self._context = zmq.Context()
        self.corrections = self._context.socket(zmq.PUB)
        self.corrections.setsockopt(zmq.LINGER, 0)
        self.corrections.setsockopt(zmq.SNDHWM, 4)
        self.corrections.bind(f"ipc://{folder}/corrections")
        self._commands = self._context.socket(zmq.ROUTER)
        self._commands.setsockopt(zmq.LINGER, 0)
        self._commands.bind(f"ipc://{folder}/commands")
        self.reply: dict | bytes | None = {"ok": True, "session": "s", "state": "locked"}
        self.reports: collections.deque[tuple[int, dict]] = collections.deque(maxlen=2000)
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._stop.is_set():
            if not self._commands.poll(20):
                continue
            *envelope, request = self._commands.recv_multipart()
            try:
                self.reports.append((time.monotonic_ns(), check_report(request)))
            except (AssertionError, ValueError) as error:
                self.wrong.append(repr(error))
            if self.reply is not None:
                reply = self.reply if isinstance(self.reply, bytes) else json.dumps(self.reply).encode()
                self._commands.send_multipart([*envelope, reply])

    def close(self):
        self._stop.set()
        self._thread.join()
        self._context.destroy(linger=0)


class Rig(contextlib.ExitStack):
    """A folder with the program, a stage and a daemon, each there when started."""

    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path(self.enter_context(
            tempfile.TemporaryDirectory(prefix="driftd-stage-", ignore_cleanup_errors=True)))
        self.daemon: FakeDaemon | None = None
        self.stage: StageInput | None = None
        self.program: Process | None = None
        self.session, self.lock_id, self.total = "a", 1, [0.0, 0.0]
        self.seq = 0
        self.realtime = "off"
        self.timeout_ms = 2000  # of the controller, which is a thread of this busy process
        self.named = False  # whether the program looks for the sockets in the runtime directory
        self.callback(self._close)

    def _close(self):
        if self.program:
            self.program.__exit__()
        if self.daemon:
            self.daemon.close()
        if self.stage:
            self.stage.stop()

    def start_daemon(self):
        self.daemon = FakeDaemon(self.folder)

    def start_stage(self, x_nm=1000.0, y_nm=-2000.0):
        self.stage = StageInput(self.folder / "input", x_nm, y_nm)

    def config(self, more: str = "", controller: str = "") -> pathlib.Path:
        """Writes the configuration; `more`: instead of the axes' mapping."""
        controller = controller or f"driver: simulator, device: {self.folder}/input, timeout_ms: {self.timeout_ms}"
        file = self.folder / "stage.yaml"
        file.write_text(
            f"controller: {{{controller}}}\n"
            f"realtime: {{mode: '{self.realtime}'}}\n"
            + ("" if self.named else f"daemon: {{corrections: 'ipc://{self.folder}/corrections', "
               f"commands: 'ipc://{self.folder}/commands'}}\n")
            + (more or "x: {axis: x}\ny: {axis: 'y'}\n"))
        return file

    def start(self, more: str = "", wait: str | None = "driftd-stage ready", controller: str = "",
              **environment):
        self.program = Process(f"driftd-stage-{time.monotonic_ns()}",
                               [BIN / "driftd-stage", "--config", self.config(more, controller)],
                               self.folder, **environment)
        if wait:
            self.program.wait_for(wait)

    def send(self, dx=0.0, dy=0.0, valid_s=60.0, **changes):
        """The next correction; a key with the value ... is left out."""
        self.total = [self.total[0] + dx, self.total[1] + dy]
        now = time.monotonic_ns()
        body = {"v": 1, "seq": self.seq, "session": self.session, "lock_id": self.lock_id,
                "frame_id": self.seq, "camera_time_ns": now, "arrival_ns": now, "sent_ns": now,
                "expires_ns": now + int(valid_s * 1e9), "total_x_nm": self.total[0],
                "total_y_nm": self.total[1], "delta_x_nm": dx, "delta_y_nm": dy, "probe": False,
                "limited": [], **changes}
        self.seq += 1
        body = {key: value for key, value in body.items() if value is not ...}
        self.daemon.corrections.send_string("correction " + json.dumps(body))

    def listen(self):
        """Waits until the program hears the publisher, by corrections that are out of date. Each is waited for, except
        those before it is connected, so that none is on its way afterwards."""
        before = self.report()["ignored"]
        end = time.monotonic() + DEADLINE_S
        heard = False
        while not heard:
            assert time.monotonic() < end, f"it hears no corrections\n{self.program.text()}"
            self.send(valid_s=-1)
            with contextlib.suppress(AssertionError):
                self.wait(lambda r: r["ignored"] > before, 1)
                heard = True
        before = self.report()["ignored"] + 1
        self.send(session="the last", valid_s=-1)  # what came before has been counted when this is
        self.wait(lambda r: r["ignored"] >= before)

    def report(self) -> dict:
        return self.wait(lambda report: True)

    def wait_ignored(self, count: int) -> dict:
        """Waits until there are so many in all."""
        report = self.wait(lambda r: r["ignored"] >= count)
        assert report["ignored"] == count, report
        return report

    def wait(self, condition, timeout_s=DEADLINE_S) -> dict:
        """The first report from now on that `condition` takes."""
        begin = time.monotonic_ns()
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            assert not self.daemon.wrong, self.daemon.wrong[0]
            if self.daemon.reports:
                came_ns, report = self.daemon.reports[-1]
                if came_ns > begin and condition(report):
                    return report
            time.sleep(0.005)
        raise AssertionError(f"no such report; the last: {self.daemon.reports and self.daemon.reports[-1]}"
                             f"\n{self.program.text()}")

    def wait_moves(self, count: int, timeout_s=DEADLINE_S):
        end = time.monotonic() + timeout_s
        while len(self.stage.moves) < count:
            assert time.monotonic() < end, f"{len(self.stage.moves)} moves\n{self.program.text()}"
            time.sleep(0.002)
