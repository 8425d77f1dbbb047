# SPDX-License-Identifier: MIT
"""What driftd-web costs: the lock's latency without it and with viewers, and its own processor time, at 500 frames/s.

    /usr/bin/python3 tests/bench/web_bench.py [seconds a phase] [rounds]

Phases take turns in one run, so that the load of the machine, which is told, falls on all alike: `without`: no driftd-web;
`nobody`: it runs, nobody looks; `one`: one tab with pictures; `crowd`: 20 tabs with pictures, and 5 that want them and take
nothing, which come anew as often as they are dropped. What is measured is `sent_ns - arrival_ns` of each correction (loop and
hand-over). The tabs are threads of another process, which costs time of its own: on two cores that is part of `crowd`.
"""
from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pathlib
import socket
import sys
import threading
import time

import zmq

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "integration")]
from harness import Rig  # noqa: E402
from web_client import Web, websocket  # noqa: E402

VIEWERS, DEAF = 20, 5
PHASES = {"without": None, "nobody": (0, 0), "one": (1, 0), "crowd": (VIEWERS, DEAF)}


def look(address: str, bytes_seen, done) -> None:
    tab = websocket.create_connection(f"ws://{address}/ws", origin=f"http://{address}", timeout=30)
    tab.send('{"want":{"images":true}}')
    while not done.is_set():
        bytes_seen.value += len(tab.recv())
    tab.close()


def be_deaf(address: str, done) -> None:
    """It wants pictures and takes none of them; dropped, it comes again."""
    while not done.is_set():
        tab = websocket.create_connection(f"ws://{address}/ws", origin=f"http://{address}", timeout=30,
                                          sockopt=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)])
        with contextlib.suppress(OSError, websocket.WebSocketException):
            while not done.is_set():  # what tells that it was dropped is a write
                tab.ping()
                done.wait(1)
        tab.close()


def crowd(address: str, viewers: int, deaf: int, bytes_seen, done) -> None:
    threads = [threading.Thread(target=look, args=(address, bytes_seen, done)) for _ in range(viewers)]
    threads += [threading.Thread(target=be_deaf, args=(address, done)) for _ in range(deaf)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def quantile(values: list[float], q: float) -> float:
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    latency_us = {phase: [] for phase in PHASES}
    cpu = {phase: [] for phase in PHASES}
    sent_mb = {phase: [] for phase in PHASES}
    rss_mb, loads = {phase: 0.0 for phase in PHASES}, []
    with Rig() as rig:
        rig.start_sim()
        file = rig.config(lock={"max_frame_age_ms": 100})
        rig.start_daemon(file)
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        corrections = zmq.Context.instance().socket(zmq.SUB)
        corrections.setsockopt(zmq.SUBSCRIBE, b"correction ")
        corrections.connect(rig.corrections)
        for _ in range(rounds):
            for phase, lookers in PHASES.items():
                with contextlib.ExitStack() as scope:
                    done, bytes_seen = multiprocessing.Event(), multiprocessing.Value("q", 0, lock=False)
                    web = None
                    if lookers is not None:
                        web = Web(scope, rig.folder, "--config", file)
                        lookers = multiprocessing.Process(target=crowd, args=(web.address, *lookers, bytes_seen, done))
                        lookers.start()
                        scope.callback(lookers.join)
                        scope.callback(done.set)
                    time.sleep(2)
                    while corrections.poll(0):
                        corrections.recv()
                    begin, cpu_s, seen = time.monotonic(), web.cpu_s() if web else 0, bytes_seen.value
                    while time.monotonic() < begin + seconds:
                        if corrections.poll(100):
                            message = json.loads(corrections.recv().split(b" ", 1)[1])
                            latency_us[phase].append((message["sent_ns"] - message["arrival_ns"]) / 1e3)
                    took_s = time.monotonic() - begin
                    if web is not None:
                        cpu[phase].append(100 * (web.cpu_s() - cpu_s) / took_s)
                        sent_mb[phase].append((bytes_seen.value - seen) / 1e6 / took_s)
                        rss_mb[phase] = max(rss_mb[phase], web.rss_kb() / 1e3)
                    loads.append(os.getloadavg()[0])
        status = rig.status()
    print(f"{rounds} rounds of {seconds:g} s a phase, {os.cpu_count()} processors, load {min(loads):.1f} to {max(loads):.1f}; "
          f"at the end {status['state']}")
    for phase, values in latency_us.items():
        line = f"{phase:8} {len(values):6} corrections, p50 / p99 / p99.9 / most {quantile(values, 0.5):.0f} / {quantile(values, 0.99):.0f} / " \
               f"{quantile(values, 0.999):.0f} / {max(values):.0f} us"
        if cpu[phase]:
            line += f"; driftd-web {sum(cpu[phase]) / len(cpu[phase]):.2f} % of a core (most {max(cpu[phase]):.2f}), {rss_mb[phase]:.0f} MB, " \
                    f"{sum(sent_mb[phase]) / len(sent_mb[phase]):.1f} MB/s to tabs"
        print(line)
    ratio = quantile(latency_us["crowd"], 0.999) / quantile(latency_us["without"], 0.999)
    print(f"p99.9 with the crowd over that without: {ratio:.2f}")


if __name__ == "__main__":
    main()
