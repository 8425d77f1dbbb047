# SPDX-License-Identifier: MIT
"""A rig in virtual time: the daemon and the simulator in one process (tests/virtual), whose clock goes on only while
the test lets time pass. As fast as the machine can, the same each time, and no busy machine changes a figure. Its
sockets are real; its camera is not: no Aravis, no packets."""
from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import re
import subprocess
import time

import harness
import plain_words
from harness import BIN, SOURCE

STEP_S = 0.02  #: between two looks at what is waited for
LOGGED = re.compile(r"^[a-z]+ (?:[a-z_]+: )?")  #: level and code of a line of the log
LISTENED_S = 0.05  #: heard by a program at once


class VirtualRig(harness.Rig):
    """As `harness.Rig`; `sleep()` and whatever waits let the virtual time pass."""

    is_virtual = True

    def __init__(self):
        super().__init__()
        self._lab: subprocess.Popen | None = None
        self._printed: list[str] = []  #: by driftctl, for people
        self._readers: list[VirtualReader] = []

    # --- time ---
    def sleep(self, seconds: float) -> None:
        self.order(op="advance", seconds=seconds)

    def now_ns(self) -> int:
        return self.order(op="advance", seconds=0)["now_ns"]

    # --- starting ---
    def start_sim(self, scenario: str | pathlib.Path | None = None, *arguments, rate_hz: float = 500) -> None:
        assert not arguments, f"virtual: there is no driftd-sim to take {arguments}"
        file = scenario or SOURCE / "config/examples/scenario-demo.yaml"
        if isinstance(scenario, str):
            file = self.folder / "scenario.yaml"
            file.write_text(scenario)
        self._log = self.folder / "driftd.log"
        with self._log.open("wb") as log:
            self._lab = subprocess.Popen([BIN / "driftd_in_virtual_time"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=log, text=True,
                                         env={**harness.os.environ, "STATE_DIRECTORY": str(self.folder / "state")})
        self.sim = VirtualSim(self)
        self.callback(self.sim.stop)
        self.order(op="world", scenario=str(file), rate_hz=rate_hz)

    def start_daemon(self, file: pathlib.Path | None = None, wait: str = "", **environment: str) -> "VirtualDaemon":
        self.daemon = VirtualDaemon(self)
        self.order(op="start", config=str(file or self.config()), environment=environment)
        return self.daemon

    # --- other programs ---
    def run_program(self, *arguments, answer_s: float = STEP_S, **options) -> subprocess.CompletedProcess:
        with self.asking_takes_time(answer_s):
            done = super().run_program(*arguments, **options)
        words = [str(word) for word in arguments[0]]
        if words[0].endswith("driftctl") and not {"--json", "export", "report"} & set(words):
            self._printed += (done.stdout + done.stderr).splitlines()
        return done

    def let_listen(self, seconds: float) -> None:
        end_s = time.monotonic() + harness.DEADLINE_S
        while not self.order(op="advance", seconds=0)["subscribed"]:
            assert time.monotonic() < end_s, "nobody listens"
            time.sleep(0.01)
        for _ in range(round(seconds / LISTENED_S)):
            self.sleep(LISTENED_S)
            time.sleep(0.01)  # for the listener: what it leaves unread is dropped in the end
        time.sleep(0.3)

    @contextlib.contextmanager
    def asking_takes_time(self, seconds: float = STEP_S):
        self.order(op="time_of_command", seconds=seconds)
        try:
            yield
        finally:
            self.order(op="time_of_command", seconds=0)

    def hold_corrections(self, seconds: float) -> None:
        """The computer has no time for the thread that sends them."""
        self.order(op="hold_corrections", seconds=seconds)

    def set_driver_period(self, seconds: float) -> None:
        """The stage's driver takes the newest correction each so often."""
        self.order(op="driver_period", seconds=seconds)

    # --- at the first try ---
    def wait_still(self, limit_nm: float) -> None:
        limit_nm /= 2  # which leaves as much for what a busy machine adds
        seen = self.truth().collect(2)
        residuals_nm = [harness.rms([t[f"sample_{axis}_nm"] for t in seen]) for axis in "xy"]
        assert max(residuals_nm) < limit_nm, f"residuals {residuals_nm} nm, not below {limit_nm}\n{self.text()}"

    def wait_holding(self, reason: str, timeout_s: float = harness.DEADLINE_S) -> dict:
        return self.wait_until(lambda s: (s["state"], s["reason"]) == ("holding", reason), f"holding: {reason}",
                               timeout_s)

    # --- talking ---
    def subscribe(self, *topics: str, **options) -> "VirtualReader":
        assert not options, options
        reader = VirtualReader(self, topics)
        self._readers.append(reader)
        self.order(op="wish", topics=list(topics))
        return reader

    def fault(self, command: str, **fields) -> dict:
        return self.order(op="simulator", command=command, **fields)

    def truth(self) -> "VirtualTruth":
        return VirtualTruth(self)

    def text(self) -> str:
        return self._log.read_text(errors="replace")

    # --- the process ---
    def order(self, **order) -> dict:
        try:
            self._lab.stdin.write(json.dumps(order) + "\n")
            self._lab.stdin.flush()
            line = self._lab.stdout.readline()
        except BrokenPipeError:
            line = ""
        assert line, f"driftd_in_virtual_time ended: {self._lab.wait()}\n{self.text()}"
        reply = json.loads(line)
        for message in reply["messages"]:
            topic, _, body = message.partition(" ")
            wanted = [reader for reader in self._readers if topic in reader.topics]
            for reader in wanted:
                reader.queue.append((topic, json.loads(body)))
        assert reply["ok"], (reply.get("error"), order)
        return reply

    def forget(self, reader: "VirtualReader") -> None:
        if reader in self._readers:
            self._readers.remove(reader)

    def end_lab(self) -> None:
        if self._lab.stdin.closed:
            return
        self._readers.clear()
        self._lab.stdin.close()
        try:
            code = self._lab.wait(60)
            assert code == 0, f"driftd_in_virtual_time ended with {code}\n{self.text()}"
        except subprocess.TimeoutExpired:
            self._lab.kill()
            self._lab.wait()
            raise AssertionError(f"driftd_in_virtual_time did not end\n{self.text()}") from None
        finally:
            self._lab.stdout.close()
        self.check_words()

    def check_words(self) -> None:
        """What was logged and printed are sentences for people: names of the code are none of them."""
        known = plain_words.option_names()
        for line in [LOGGED.sub("", line) for line in self.text().splitlines()] + self._printed:
            found = plain_words.identifiers(line, known)
            assert not found, f"{found} in what people read: {line!r}"


class VirtualSim:
    """What tests ask of the simulator's process."""

    def __init__(self, rig: VirtualRig):
        self._rig = rig

    def stop(self, *_) -> int:
        """The world ends, and a daemon in it."""
        self._rig.end_lab()
        return 0


class VirtualDaemon:
    """What tests ask of the daemon's process."""

    def __init__(self, rig: VirtualRig):
        self._rig = rig
        self._before = len(rig.text())

    def text(self) -> str:
        """What was said since it started."""
        return self._rig.text()[self._before:]

    def wait_for(self, text: str, timeout_s: float = harness.DEADLINE_S) -> None:
        """Waits until the log has `text`."""
        end_ns = self._rig.now_ns() + 1e9 * timeout_s
        while text not in self.text():
            assert self._rig.now_ns() < end_ns, f"never said {text!r}:\n{self.text()}"
            self._rig.sleep(STEP_S)

    def stop(self, *_) -> int:
        """Ends it as SIGTERM does."""
        self._rig.order(op="stop")
        return 0

    def kill(self) -> None:
        self._rig.order(op="kill")

    def reload(self) -> None:
        self._rig.order(op="reload")
        self.wait_for("configuration_reloaded")


class VirtualReader:
    """As `harness.Kept`; every message is there, however slow the test is."""

    lost = 0

    def __init__(self, rig: VirtualRig, topics: tuple[str, ...]):
        self._rig, self.topics = rig, topics
        self.queue: collections.deque = collections.deque()

    def receive(self, timeout_s: float = 1e9) -> tuple[str, dict]:
        end_ns = self._rig.now_ns() + 1e9 * timeout_s
        while not self.queue:
            if self._rig.now_ns() >= end_ns:
                raise TimeoutError("no message")
            self._rig.sleep(STEP_S)
        return self.queue.popleft()

    def drain(self, seconds: float = 0.0) -> list:
        if seconds > 0:
            self._rig.sleep(seconds)
        messages = list(self.queue)
        self.queue.clear()
        return messages

    def close(self) -> None:
        self._rig.forget(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class VirtualTruth:
    """As `harness.Truth`."""

    def __init__(self, rig: VirtualRig):
        self._rig, self._reader = rig, rig.subscribe("truth")

    def drain(self) -> list[dict]:
        return [message for _, message in self._reader.drain()]

    def collect(self, seconds: float) -> list[dict]:
        self.drain()
        self._rig.sleep(seconds)
        return self.drain()
