# SPDX-License-Identifier: MIT
"""A simulator and a daemon of a test's own, on a loopback address and in a folder of its own."""
from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

import zmq

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DRIFTD_BIN", SOURCE / "build/release/bin"))
sys.path[:0] = [str(SOURCE / "clients/python"), str(SOURCE / "tests/support")]
import driftd  # noqa: E402
import protocol  # noqa: E402,F401

# Instrumented code is slower: sanitizer builds get a slower camera and more patience.
SLOW = float(os.environ.get("DRIFTD_TEST_SLOWNESS", "1"))
DEADLINE_S = 300  #: reached only by what never comes, however busy the machine is


def held_nm(limit: float) -> float:
    """The rms that a held sample stays below. Instrumented programs hold it as well as their delays let
    them on a busy machine; not held at all it moves 80 nm."""
    return limit if SLOW == 1 else 30


def without_comments(printed: str) -> str:
    """What --print-config printed without where each value is from."""
    return "".join(line.partition("  # ")[0] + "\n" for line in printed.splitlines())


def loopback_address() -> str:
    """An address in 127/8 that no other test process has: from the process id."""
    pid = os.getpid()
    return f"127.{1 + pid // 62500 % 250}.{1 + pid // 250 % 250}.{1 + pid % 250}"


class Process:
    """A child process with its output in a file, ended by its own id."""

    def __init__(self, name: str, arguments: list, folder: pathlib.Path, **environment: str):
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen([str(a) for a in arguments], stdout=log,
                                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                          env={**os.environ, "STATE_DIRECTORY": str(folder / "state"),
                                               **environment})

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, timeout_s: float = DEADLINE_S) -> None:
        end = time.monotonic() + timeout_s
        while text not in self.text():
            if self.child.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{self.log.name} never said {text!r}:\n{self.text()}")
            time.sleep(0.02)

    def stop(self, sig: int = signal.SIGTERM, timeout_s: float = DEADLINE_S) -> int:
        if self.child.poll() is None:
            self.child.send_signal(sig)
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(f"{self.log.name} did not stop:\n{self.text()}")

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def reload(self) -> None:
        """The daemon's configuration."""
        self.child.send_signal(signal.SIGHUP)
        self.wait_for("configuration_reloaded")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


class Rig(contextlib.ExitStack):
    """The folder, the endpoints, and what runs there.

    Parameters
    ----------
    scenario : str
        YAML of the simulator, over `SCENARIO`.
    config : dict
        Section -> {key: YAML text}, over `config()`'s own.
    """

    is_virtual = False

    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="driftd-")))
        self.address = loopback_address()
        self.publish = f"ipc://{self.folder}/publish"
        self.corrections = f"ipc://{self.folder}/corrections"
        self.commands = f"ipc://{self.folder}/commands"
        self.truth_endpoint = f"ipc://{self.folder}/truth"
        self.control_endpoint = f"ipc://{self.folder}/control"
        self.client = driftd.Client(self.commands, timeout_s=DEADLINE_S)
        self.sim: Process | None = None
        self.daemon: Process | None = None

    # --- time ---
    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def now_ns(self) -> int:
        """The time by the clock of the daemon's messages."""
        return time.monotonic_ns()

    def bound(self, virtual: float, real: float) -> float:
        """A bound on what is late, or grows with being late: in virtual time nothing is late by chance, and the
        result is the same each time."""
        return virtual if self.is_virtual else real

    # --- starting ---
    def start_sim(self, scenario: str | pathlib.Path | None = None, *arguments,
                  rate_hz: float = 500 / SLOW) -> Process:
        file = SOURCE / "config/examples/scenario-demo.yaml"
        if isinstance(scenario, str):
            file = self.folder / "scenario.yaml"
            file.write_text(scenario)
        elif scenario is not None:
            file = scenario
        self.sim = self.enter_context(Process(
            "sim", [BIN / "driftd-sim", "--scenario", file, "--address", self.address,
                    "--stage", self.corrections, "--truth", self.truth_endpoint,
                    "--control", self.control_endpoint, "--rate", str(rate_hz), *arguments],
            self.folder))
        self.sim.wait_for("driftd-sim ready")
        return self.sim

    def config(self, **sections: dict) -> pathlib.Path:
        """Writes the daemon's configuration: simulator.yaml's stage, this rig's address and wire."""
        merged = {
            "camera": {"id": f'"{self.address}"', "frame_rate_hz": 500 / SLOW, "exposure_us": 1000,
                       "packet_size_bytes": 9000, "pixel_format": "Mono12",
                       "stall_timeout_ms": int(100 * SLOW)},
            "stage": {"image_to_stage": "[[0.992546, 0.121869], [0.121869, -0.992546]]", "acquaint": "never"},
            "lock": {"max_frame_age_ms": 20 * SLOW, "reference_frames": 100},
            "wire": {"publish": self.publish, "corrections": self.corrections,
                     "commands": self.commands, "status_interval_ms": 200},
        }
        for name, keys in sections.items():
            merged.setdefault(name, {}).update(keys)
        file = self.folder / "driftd.yaml"
        lines = []
        for name, keys in merged.items():
            lines.append(f"{name}:")
            lines += [f"  {key}: {value}" for key, value in keys.items()]
        file.write_text("\n".join(lines) + "\n")
        return file

    def start_daemon(self, file: pathlib.Path | None = None, wait: str = "publishing on",
                     **environment: str) -> Process:
        file = file or self.config()
        self.daemon = self.enter_context(
            Process("driftd", [BIN / "driftd", "--config", file], self.folder, **environment))
        if wait:
            self.daemon.wait_for(wait)
        return self.daemon

    # --- other programs ---
    def run_program(self, arguments: list, timeout_s: float = 2 * DEADLINE_S, answer_s: float = 0,
                    **options) -> subprocess.CompletedProcess:
        """A client that asks the daemon, be it again and again until something has come about. In virtual time
        `answer_s` pass with each answer."""
        return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=timeout_s,
                              check=False, **options)

    def run_listener(self, arguments: list, seconds: float) -> subprocess.CompletedProcess:
        """A client that hears positions until SIGINT comes, after so long."""
        with subprocess.Popen([str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as child:
            try:
                self.let_listen(seconds)
                child.send_signal(signal.SIGINT)
                output, errors = child.communicate(timeout=DEADLINE_S)
            finally:
                child.kill()
        return subprocess.CompletedProcess(arguments, child.returncode, output, errors)

    def let_listen(self, seconds: float) -> None:
        time.sleep(seconds)

    def asking_takes_time(self) -> contextlib.AbstractContextManager:
        """A context for clients in the test's own process that ask until something has come about."""
        return contextlib.nullcontext()

    def wait_for_move(self, move: dict) -> dict:
        with self.asking_takes_time():
            return self.client.wait_for_move(move["move"], timeout_s=20 * SLOW)

    # --- talking ---
    def subscribe(self, *topics: str, **options) -> "Kept":
        return self.enter_context(Kept(driftd.subscribe(
            driftd.Endpoints(self.publish, self.corrections, self.commands), topics, **options)))

    def fault(self, command: str, **fields) -> dict:
        """A command to the simulator."""
        with zmq.Context.instance().socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self.control_endpoint)
            socket.send_json({"command": command, **fields})
            assert socket.poll(int(1000 * DEADLINE_S)), "the simulator does not answer"
            reply = socket.recv_json()
        assert reply["ok"], reply
        return reply

    def truth(self) -> "Truth":
        return self.enter_context(Truth(self.truth_endpoint))

    def hear(self, subscription: "Kept", condition, what: str, timeout_s: float = DEADLINE_S) -> dict:
        """The first message for which `condition(topic, message)` holds, among others that may go on for ever."""
        end_ns = self.now_ns() + 1e9 * timeout_s
        while self.now_ns() < end_ns:
            topic, message = subscription.receive(timeout_s)
            if condition(topic, message):
                return message
        raise AssertionError(f"never: {what}\n{self.daemon.text()}")

    def status(self) -> dict:
        return self.client.request("status")[0]["status"]

    def wait_until(self, condition, what: str, timeout_s: float = DEADLINE_S):
        """Waits until `condition(status)` holds; returns that status."""
        end_ns = self.now_ns() + 1e9 * timeout_s
        while True:
            status = self.status()
            if condition(status):
                return status
            if self.now_ns() > end_ns:
                raise AssertionError(f"never: {what}; last status {json.dumps(status)}\n"
                                     f"{self.daemon.text()}")
            self.sleep(0.02)

    def wait_still(self, limit_nm: float) -> None:
        """Checks that the sample is held within `limit_nm` rms in x and y over the next two seconds or, on a busy
        machine that delays frames and corrections, over two of the ten after."""
        residuals_nm = []
        for _ in range(6):
            seen = self.truth().collect(2 * SLOW)
            residuals_nm.append(max(rms([t[f"sample_{axis}_nm"] for t in seen]) for axis in "xy"))
            if residuals_nm[-1] < held_nm(limit_nm):
                return
        raise AssertionError(f"residuals {residuals_nm} nm, not below {limit_nm}\n{self.daemon.text()}")

    def wait_state(self, state: str, timeout_s: float = DEADLINE_S) -> dict:
        return self.wait_until(lambda s: s["state"] == state, f"state {state}", timeout_s)

    def wait_holding(self, reason: str, timeout_s: float = DEADLINE_S) -> dict:
        """Whether it is held for this reason, or for stale frames that a busy machine had just then."""
        return self.wait_until(lambda s: s["state"] == "holding" and
                               s["reason"] in (reason, "stale_frame"),
                               f"holding: {reason}", timeout_s)

    def wait_markers(self, timeout_s: float = DEADLINE_S) -> dict:
        return self.wait_until(lambda s: s["markers"]["tracking"] > 0, "markers", timeout_s)

    def start_locked(self, scenario=None, **config: dict) -> None:
        """Starts simulator and daemon, waits for markers, and locks."""
        self.start_sim(scenario)
        self.start_daemon(self.config(**config))
        self.wait_markers()
        self.client.lock()
        self.wait_state("locked")


class CalmRig(Rig):
    """A slow camera and long time-outs, for tests of what programs say to each other: no busy machine makes them fail.
    A lock may be held for a moment there; it is not lost."""

    CALM = {"camera": {"frame_rate_hz": 100 / SLOW, "stall_timeout_ms": 10_000},
            "lock": {"max_frame_age_ms": 2000, "reference_frames": 20, "reference_timeout_s": 60,
                     "hold_timeout_s": 120}}

    def start_sim(self, scenario: str | pathlib.Path | None = None, *arguments, rate_hz: float = 100 / SLOW) -> Process:
        return super().start_sim(scenario, *arguments, rate_hz=rate_hz)

    def config(self, **sections: dict) -> pathlib.Path:
        calm = {name: {**keys, **sections.get(name, {})} for name, keys in self.CALM.items()}
        return super().config(**{**sections, **calm})


class Truth:
    """The simulator's ground truth."""

    def __init__(self, endpoint: str):
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"truth ")
        self._socket.connect(endpoint)

    def drain(self) -> list[dict]:
        """Everything that has come so far."""
        messages = []
        while self._socket.poll(0):
            messages.append(json.loads(self._socket.recv().partition(b" ")[2]))
        return messages

    def collect(self, seconds: float) -> list[dict]:
        """What comes within `seconds` of now."""
        self.drain()
        time.sleep(seconds)
        return self.drain()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()


def rms(values: list[float]) -> float:
    """Root mean square about the mean."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


class Kept:
    """A subscription that is read all the time and kept until it is asked for: on the corrections'
    socket only a few messages wait for a reader, and a test looks after seconds."""

    def __init__(self, subscription: driftd.Subscription):
        self._subscription = subscription
        self._messages: queue.SimpleQueue = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                self._messages.put(self._subscription.receive(0.1))

    def receive(self, timeout_s: float | None = None) -> tuple[str, dict]:
        try:
            return self._messages.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError("no message") from None

    def drain(self, seconds: float = 0.3) -> list:
        """All (topic, message) that have come and that come within `seconds`."""
        end = time.monotonic() + seconds
        result = []
        while True:
            try:
                result.append(self.receive(max(0.0, end - time.monotonic())))
            except TimeoutError:
                return result

    @property
    def lost(self) -> int:
        return self._subscription.lost

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._subscription.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def drain(subscription: Kept, seconds: float = 0.3) -> list:
    """All (topic, message) that have come and that come within `seconds`."""
    return subscription.drain(seconds)


def new_rig() -> Rig:
    """In virtual time where DRIFTD_TEST_CLOCK says so, for tests that mind no packets and no machine's speed."""
    if os.environ.get("DRIFTD_TEST_CLOCK") == "virtual":
        from virtual_rig import VirtualRig
        return VirtualRig()
    return Rig()
