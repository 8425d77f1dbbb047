#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A long lock as a laboratory has it: recorded, 17 subscribers that read and 3 that stopped, metrics scraped
each 5 s, commands sent each second, some of them refused. Judged by the simulator's truth and by /proc:

- no frame missed that the camera did not lose, no correction wrong, locked all the time;
- memory (anonymous, of driftd) grows by 1 MiB at most after the first minute;
- p99.9 of frame to correction over the last tenth of the time no worse than over the first (within 10 %).

  /usr/bin/python3 tests/bench/soak_bench.py [--seconds 7200] [--json FILE]
Ends with 1 when one of them does not hold.
"""
import argparse
import array
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/integration"), str(SOURCE / "tests/bench")]
import harness  # noqa: E402
import driftd  # noqa: E402
from lock_bench import SETTLING_S, Corrections, timer_lateness_us  # noqa: E402

READING, STOPPED = 17, 3
DRIFT_NM = 2000  # along each axis in all, of the control.range_limit_nm of 5000
FRAMES_BETWEEN = 1500  # may pass between asking the simulator and the daemon; `lost` counts exactly
SUBSCRIBER = """
import sys, zmq
sockets = []
for _ in range(int(sys.argv[2])):
    s = zmq.Context.instance().socket(zmq.SUB)
    s.subscribe(b"")
    s.connect(sys.argv[1])
    sockets.append(s)
poller = zmq.Poller()
for s in sockets:
    poller.register(s, zmq.POLLIN)
while True:
    for s, _ in poller.poll():
        while True:
            try:
                s.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
"""


def anonymous_kib(pid: int) -> int:
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", text).group(1))


class Latencies(Corrections):
    """Every correction checked, with when it was sent and how long after its frame was complete."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.sent_s, self.us = array.array("d"), array.array("f")

    def _check(self, c: dict) -> None:
        super()._check(c)
        self.sent_s.append(c["sent_ns"] / 1e9)
        self.us.append((c["sent_ns"] - c["arrival_ns"]) / 1e3)

    def percentiles(self, begin_s: float, end_s: float) -> dict:
        values = sorted(us for s, us in zip(self.sent_s, self.us) if begin_s <= s < end_s)
        return {name: round(values[min(len(values) - 1, int(share * len(values)))], 1)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1))}


@contextlib.contextmanager
def subscribers(rig: harness.Rig):
    """Those that read, in one process; those that do not any more, in another."""
    children = [subprocess.Popen([sys.executable, "-c", SUBSCRIBER, rig.publish, str(count)])
                for count in (READING, STOPPED)]
    time.sleep(1)
    children[1].send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def slow_scenario(seconds: float) -> str:
    """The demo's world, whose sample drifts so slowly that the stage's range lasts."""
    text = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
    rate_nm_per_s = min(3.0, DRIFT_NM / seconds)
    text, count = re.subn(r"(linear_nm_per_s: )(-?)[\d.]+", rf"\g<1>\g<2>{rate_nm_per_s:.4f}", text)
    assert count == 2, "the scenario has no drift along both axes any more"
    return text


def says_locked(address: str) -> bool:
    """Whether the exporter does."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return 'driftd_state{driftd_state="locked"} 1' in answer.read().decode()


def measure(seconds: float) -> dict:
    result = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0],
              "idle_timer_lateness_us": timer_lateness_us(5)}
    sample = {axis: array.array("f") for axis in "xy"}
    memory: list[tuple[float, int]] = []
    commands = refused = scrapes = scraped_locked = 0
    with harness.Rig() as rig:
        rig.start_locked(slow_scenario(seconds), realtime={"loop_cpu": 1, "stream_cpu": 1},
                         record={"directory": rig.folder / "records", "keep_free_mb": 500})
        rig.client.request("record", start=True)
        exporter = rig.enter_context(harness.Process(
            "exporter", [harness.BIN / "driftd-exporter", "--publish", rig.publish, "--listen", "127.0.0.1:0"],
            rig.folder))
        exporter.wait_for("serving http://")
        address = exporter.text().split("http://")[1].split("/")[0]
        rig.enter_context(subscribers(rig))
        time.sleep(SETTLING_S)
        truth = rig.truth()
        before = rig.status()
        seen = Latencies(rig, before, {"range": 5000.0, "step": 20.0})
        first_frame = last_frame = None
        begin_s = turn_s = time.monotonic()
        while time.monotonic() - begin_s < seconds:
            turn_s += 1
            time.sleep(max(0.0, turn_s - time.monotonic()))
            for t in truth.drain():
                first_frame = t["frame_count"] if first_frame is None else first_frame
                last_frame = t["frame_count"]
                for axis in "xy":
                    sample[axis].append(t[f"sample_{axis}_nm"])
            seen.read()
            status = rig.status()
            if status["state"] in ("lost", "fault"):
                raise SystemExit(f"soak_bench: the lock is {status['state']}: {status['reason']}")
            rig.client.request("markers")
            try:
                rig.client.request("calibrate")  # refused: it is locked
            except driftd.DriftdError:
                refused += 1
            commands += 3
            if commands % 15 == 0:
                scrapes += 1
                scraped_locked += says_locked(address)
            memory.append((time.monotonic() - begin_s, anonymous_kib(rig.daemon.child.pid)))
        after = rig.status()
        record = rig.client.request("record", stop=True)[0]["record"]
        seen.read()
    end_s = after["time_ns"] / 1e9
    part_s = min(600.0, seconds / 10)
    result["seconds"] = (after["time_ns"] - before["time_ns"]) / 1e9
    result["frames"] = after["camera"]["frames"] - before["camera"]["frames"]
    result["frames_simulated"] = last_frame - first_frame + 1
    for name in ("lost", "incomplete", "superseded", "missing_packets", "resent_packets"):
        result[name] = after["camera"][name] - before["camera"][name]
    result["stale"] = after["loop"]["stale"] - before["loop"]["stale"]
    result["residual_rms_nm"] = {axis: round(harness.rms(sample[axis]), 3) for axis in "xy"}
    result["corrections"] = seen.count
    result["wrong"] = seen.wrong + seen.unlocked()
    result["states"] = seen.states
    result["locked_share"] = seen.locked_share(before["time_ns"], after["time_ns"])
    result["first_us"] = seen.percentiles(seen.sent_s[0], seen.sent_s[0] + part_s)
    result["last_us"] = seen.percentiles(end_s - part_s, end_s)
    minute_s = min(60.0, seconds / 4)
    settled = next(kib for s, kib in memory if s >= minute_s)
    result["memory_kib"] = {"after_a_minute": settled, "most_after": max(k for s, k in memory if s >= minute_s),
                            "last": memory[-1][1],
                            "each_2_minutes": [kib for _, kib in memory[::120]]}
    result["record"] = {key: record[key] for key in ("frames", "bytes") if key in record}
    result["not_recorded"] = after["record"]["not_recorded"]
    result |= {"commands": commands, "refused": refused, "scrapes": scrapes, "scraped_locked": scraped_locked,
               "load_after": os.getloadavg()[0]}
    return result


def failures(r: dict) -> list[str]:
    found = list(r["wrong"])
    if r["lost"] or r["incomplete"] or abs(r["frames"] - r["frames_simulated"]) > FRAMES_BETWEEN:
        found.append(f"{r['lost']} frames lost, {r['incomplete']} incomplete, {r['frames']} of "
                     f"{r['frames_simulated']} came")
    if r["not_recorded"]:
        found.append(f"{r['not_recorded']} frames not recorded")
    if r["locked_share"] < 1:
        found.append(f"locked {100 * r['locked_share']:.3f} % of the time: {r['states'][:5]}")
    elif r["scraped_locked"] < r["scrapes"]:
        found.append(f"the exporter told of a lock {r['scraped_locked']} of {r['scrapes']} times")
    if r["memory_kib"]["most_after"] - r["memory_kib"]["after_a_minute"] > 1024:
        found.append(f"memory grew: {r['memory_kib']}")
    if r["last_us"]["p99_9"] > 1.1 * r["first_us"]["p99_9"]:
        found.append(f"p99.9 {r['last_us']['p99_9']} us at the end, {r['first_us']['p99_9']} us at the beginning")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--json", type=pathlib.Path, help="write the result here, too")
    arguments = parser.parse_args()
    result = measure(arguments.seconds)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    found = failures(result)
    for line in found:
        print(f"NOT HELD: {line}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
