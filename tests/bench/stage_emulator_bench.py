#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How soon an emulated controller passes a move on: from the client's send() to the datagram that driftd-sim
would get.

usage: stage_emulator_bench.py [RATE_HZ [SECONDS [KIND...]]]
"""
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tools/stage-emulator/driftd-stage-emulator"
MOVES = {
    "pi_gcs2": lambda i: b"MOV 1 %.4f 2 %.4f\n" % (50 + i % 100 / 1000, 50 - i % 100 / 1000),
    "lc400": lambda i: struct.pack("<BIiB", 0xA2, 0x11831218, i % 1000, 0x55),
    "asi": lambda i: b"M X=%.1f Y=%.1f\r" % (i % 100, -(i % 100)),
    "piezoconcept": lambda i: b"MOXYZ %.4fu 50.0000u 50.0000u\n" % (50 + i % 100 / 1000),
    "thorlabs_apt": lambda i: struct.pack("<HHBBHH", 0x0646, 4, 0xA1, 1, 1, 16000 + i % 1000),
}


def measure(kind: str, rate_hz: float, seconds: float, folder: str) -> tuple[float, list[float]]:
    """Moves a second that were carried out, and their latencies in us, sorted."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as simulator:
        simulator.bind(f"{folder}/{kind}")
        child = subprocess.Popen(
            [sys.executable, PROGRAM, kind, "--listen", "127.0.0.1:0", "--baud", "0", "--servo-on",
             "--sim", f"{folder}/{kind}"], stdout=subprocess.PIPE, text=True)
        try:
            port = int(child.stdout.readline().split("127.0.0.1:")[1].split(",")[0])
            simulator.recv(256)  # the place at power-on
            with socket.create_connection(("127.0.0.1", port)) as wire:
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                begin = time.monotonic()
                seen = sorted(paced(wire, simulator, MOVES[kind], rate_hz, seconds))
                return len(seen) / (time.monotonic() - begin), seen
        finally:
            child.terminate()
            child.wait()
            child.stdout.close()


def paced(wire, simulator, move, rate_hz: float, seconds: float):
    begin = time.monotonic()
    for i in range(int(rate_hz * seconds)):
        while (early := begin + i / rate_hz - time.monotonic()) > 0:
            time.sleep(early)
        sent_ns = time.monotonic_ns()
        wire.sendall(move(i))
        simulator.recv(256)
        yield (time.monotonic_ns() - sent_ns) / 1e3
        wire.setblocking(False)
        try:
            wire.recv(4096)
        except BlockingIOError:
            pass
        wire.setblocking(True)


def main() -> None:
    rate_hz = float(sys.argv[1]) if len(sys.argv) > 1 else 500.0
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    print(f"load {os.getloadavg()[0]:.2f}; {rate_hz:g} moves/s for {seconds:g} s, us")
    print(f"{'kind':14}{'moves/s':>9}{'p50':>7}{'p99':>7}{'max':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in sys.argv[3:] or MOVES:
            carried_hz, seen = measure(kind, rate_hz, seconds, folder)
            print(f"{kind:14}{carried_hz:9.1f}{seen[len(seen) // 2]:7.0f}"
                  f"{seen[int(0.99 * (len(seen) - 1))]:7.0f}{seen[-1]:8.0f}", flush=True)


if __name__ == "__main__":
    main()
