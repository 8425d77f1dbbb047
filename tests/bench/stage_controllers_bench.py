#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Stage controllers, emulated: how soon a correction is with the controller, and how still the sample is held.

For each controller on its line, paced to its speed:
1. Corrections at 500 a second from a publisher in Python, on a path on which no two targets near in time are
   alike, so that each move in the emulator's record is known for its correction. From the correction's `sent_ns` to the
   last byte of both axes' command received; beside it what driftd-stage publishes of itself: until it was written.
2. A lock through simulator, driftd, driftd-stage and emulator, driftd told of the median latency of part 1;
   before it the same lock with the simulator's own stage, which has that latency and the controller's resolution.
"""
import argparse
import json
import os
import pathlib
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/integration"))
import harness  # noqa: E402
import stage_rig  # noqa: E402
from lock_rig import CONTROLLERS, SCENARIO, Controller, LockRig  # noqa: E402

STEP_NM = 3.0  #: of the path, twice the coarsest resolution
LEG = 200  #: steps in one direction
KEPT = 3000  #: moves that one answer of the emulator holds
OWN_DELAY_MS = 2.5  #: of the scenario's stage
SETTLING_S = 5
TRIES = 3  #: a lock that a busy machine held for a moment tells nothing of the controller


def triangle(count: int) -> float:
    count %= 2 * LEG
    return STEP_NM * (count if count < LEG else 2 * LEG - count)


def place(count: int) -> tuple[float, float]:
    """A closed path from 0,0; x turns where y is half-way."""
    return triangle(count), triangle(count + LEG // 2) - triangle(LEG // 2)


class Publisher:
    """Corrections in step with the clock."""

    def __init__(self, daemon: stage_rig.FakeDaemon, rate_hz: float):
        self._socket, self._rate_hz = daemon.corrections, rate_hz
        self.sent: list[tuple[int, float, float]] = []  # sent_ns, totals

    def send(self, expired: bool = False) -> None:
        x, y = place(len(self.sent))
        before = place(max(0, len(self.sent) - 1))
        text = ('correction {"v":1,"seq":%d,"session":"bench","lock_id":1,"frame_id":1,"camera_time_ns":1,'
                '"arrival_ns":1,"expires_ns":%d,"total_x_nm":%.4f,"total_y_nm":%.4f,"delta_x_nm":%.4f,'
                '"delta_y_nm":%.4f,"probe":false,"limited":[],"sent_ns":' %
                (len(self.sent), 1 if expired else time.monotonic_ns() + 50_000_000, x, y, x - before[0],
                 y - before[1]))
        sent_ns = time.monotonic_ns()
        self._socket.send_string(f"{text}{sent_ns}}}")
        if not expired:
            self.sent.append((sent_ns, x, y))

    def run(self, seconds: float) -> None:
        begin = time.monotonic()
        for i in range(int(seconds * self._rate_hz)):
            while (early := begin + i / self._rate_hz - time.monotonic()) > 0:
                time.sleep(early)
            self.send()


def received_us(sent: list, zero_nm: list[float], moves: list) -> list[float]:
    """Times from sending a correction to the first moment at which both axes had its target; of those that came."""
    result, seen = [], set()
    begin = 0
    for at_ns, target_nm in moves:
        while begin < len(sent) and sent[begin][0] < at_ns - 400_000_000:  # half a round of the path
            begin += 1
        for index in range(begin, len(sent)):
            sent_ns, x, y = sent[index]
            if sent_ns > at_ns:
                break
            if (abs(zero_nm[0] + x - target_nm[0]) < 0.49 * STEP_NM and
                    abs(zero_nm[1] + y - target_nm[1]) < 0.49 * STEP_NM):
                if index not in seen:
                    seen.add(index)
                    result.append((at_ns - sent_ns) / 1e3)
                break
    return sorted(result)


def percentiles(values: list[float]) -> dict:
    return {"n": len(values), "p50": values[len(values) // 2], "p99": values[int(0.99 * (len(values) - 1))],
            "max": values[-1]}


def latency(controller: Controller, rate_hz: float, seconds: float) -> dict:
    """Part 1."""
    with LockRig(controller, rate_hz) as rig:
        daemon = stage_rig.FakeDaemon(rig.folder)
        rig.callback(daemon.close)
        rig.start_emulator("--noise", "0", sim=False)
        rig.start_driver()
        zero_nm = rig.ask("stats 0")["target_nm"]
        publisher = Publisher(daemon, rate_hz)
        end = time.monotonic() + 10
        while not (daemon.reports and daemon.reports[-1][1]["ignored"]):  # until it hears
            publisher.send(expired=True)
            time.sleep(0.05)
            assert time.monotonic() < end, rig.said()
        time.sleep(0.2)
        moves: list = []
        piece_s = 2.0  # 1,000 corrections are at most 2,000 moves
        for _ in range(round(seconds / piece_s)):
            publisher.run(piece_s)
            stats = rig.ask(f"stats {KEPT}")
            last_ns = moves[-1][0] if moves else 0
            moves += [m for m in zip(stats["moves_ns"], stats["targets_nm"]) if m[0] > last_ns]
        time.sleep(0.2)
        report = daemon.reports[-1][1]
        assert stats["refused"] == 0 and stats["syntax_errors"] == 0, stats["last_syntax_error"]
        assert not daemon.wrong, daemon.wrong
    latencies = received_us(publisher.sent, zero_nm, moves)
    return {"sent": len(publisher.sent), "carried_out": report["carried_out"],
            "received_us": percentiles(latencies), "driver_us": report["latency_us"],
            "moves_per_s": report["carried_out"] / (len(publisher.sent) / rate_hz),
            "resolution_nm": report["axes"][0]["resolution_nm"]}


def lock(controller: Controller | None, rate_hz: float, seconds: float, delay_us: float, resolution_nm: float) -> dict:
    """Part 2; `controller` None: the simulator's own stage with that latency and resolution."""
    with LockRig(controller, rate_hz) as rig:
        scenario = SCENARIO
        if controller is None:
            text = SCENARIO.read_text()
            for old, new in ((f"delay_ms: {OWN_DELAY_MS}", f"delay_ms: {OWN_DELAY_MS + delay_us / 1e3:.3f}"),
                             ("quantisation_nm: 0.05", f"quantisation_nm: {max(0.05, resolution_nm):.4f}")):
                assert text.count(old) == 1
                text = text.replace(old, new)
            scenario = rig.folder / "scenario.yaml"
            scenario.write_text(text)
        rig.start_world(scenario, own_stage=controller is None)
        if controller:
            rig.start_emulator()
            rig.start_driver()
        rig.start_daemon_for(round(delay_us), lock={"reference_frames": 250}, camera={
            "frame_rate_hz": rate_hz, "readout_us": 300, "offset_adu": 100, "gain_e_per_adu": 4,
            "read_noise_e": 3}, realtime={"loop_cpu": 1, "stream_cpu": 1})
        if controller:
            rig.wait_driver("ready")
        rig.client.lock()
        rig.wait_state("locked")
        time.sleep(SETTLING_S)
        events = rig.subscribe("event")
        before = rig.ask("stats 0")["moves"] if controller else 0
        with rig.truth() as truth:
            seen = truth.collect(seconds)
        status = rig.status()
        changes = [m["text"] for _, m in harness.drain(events, 0.1) if m["code"] == "state_changed"]
        result = {"residual_nm": {a: harness.rms([t[f"sample_{a}_nm"] for t in seen]) for a in "xy"},
                  "frames": len(seen), "state": status["state"], "changes": changes}
        if controller:
            driver = status["stage_driver"]
            result |= {"moves": rig.ask("stats 0")["moves"] - before, "off_nm": driver["off_nm"],
                       "rate_hz": driver["rate_hz"], "driver_us": driver["latency_us"]}
    return result


def measure(name: str, arguments) -> dict:
    controller = CONTROLLERS[name]
    result = {"controller": controller.text, "load_before": os.getloadavg()[0]}
    result |= latency(controller, arguments.rate, arguments.seconds)
    delay_us = result["received_us"]["p50"]
    for key, who in (("own_stage", None), ("lock", controller)):
        for attempt in range(1, TRIES + 1):
            result[key] = lock(who, arguments.rate, arguments.seconds, delay_us, result["resolution_nm"])
            result[key]["attempt"] = attempt
            if not result[key]["changes"]:
                break
    result["ratio"] = {a: result["lock"]["residual_nm"][a] / result["own_stage"]["residual_nm"][a] for a in "xy"}
    result["load_after"] = os.getloadavg()[0]
    return result


HEAD = ("| controller | received, us: p50 | p99 | max | written, us: p50 | p99 | moves/s | residual x / y, nm | "
        "own stage | ratio |\n|" + " --- |" * 10)


def row(r: dict) -> str:
    got, told, residual, own = r["received_us"], r["driver_us"], r["lock"]["residual_nm"], r["own_stage"]["residual_nm"]
    return (f"| {r['controller']} | {got['p50']:.0f} | {got['p99']:.0f} | {got['max']:.0f} | {told['p50']:.0f} | "
            f"{told['p99']:.0f} | {r['moves_per_s']:.0f} | {residual['x']:.2f} / {residual['y']:.2f} | "
            f"{own['x']:.2f} / {own['y']:.2f} | {r['ratio']['x']:.2f} / {r['ratio']['y']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("controllers", nargs="*", metavar="CONTROLLER", default=list(CONTROLLERS),
                        help="of " + ", ".join(CONTROLLERS))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=500, help="corrections a second")
    parser.add_argument("--json", type=pathlib.Path, help="write the result here, too")
    arguments = parser.parse_args()
    if unknown := set(arguments.controllers) - set(CONTROLLERS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    harness.SLOW = 500 / arguments.rate
    results = {}
    print(HEAD)
    for name in arguments.controllers:
        r = results[name] = measure(name, arguments)
        print(row(r), flush=True)
        print(f"  load {r['load_before']:.1f} to {r['load_after']:.1f}; {r['received_us']['n']} of {r['sent']} "
              f"corrections found in the record; attempts {r['lock']['attempt']}, {r['own_stage']['attempt']}; "
              f"states: {r['lock']['changes'] + r['own_stage']['changes']}",
              file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
