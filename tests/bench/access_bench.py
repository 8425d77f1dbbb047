# SPDX-License-Identifier: MIT
"""What hostile peers and keys cost: a daemon with keys holds a lock against the simulator, at 500 frames/s.

    /usr/bin/python3 tests/bench/access_bench.py [seconds a phase] [rounds]

Phases take turns in one run, so that the load of the machine, which is told, falls on all alike:
quiet; `elsewhere`: a flood of strangers' handshakes, garbage and refused commands at a server that is not the daemon;
`flood`: the same at the daemon. What is measured is `sent_ns - arrival_ns` of each correction (loop and
hand-over), and the way to a subscriber by ipc without and by tcp with keys.
"""
import json
import multiprocessing
import os
import pathlib
import socket
import sys
import time

import zmq
import zmq.auth

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "integration")]
from harness import Rig  # noqa: E402
from test_sockets import free_port  # noqa: E402

HELLO = (b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32) +
         b"\x04\xc8\x05HELLO\x01\x00" + bytes(192))


def flood(port, server_key: bytes, observer: tuple[bytes, bytes], done) -> None:
    """Handshakes that are garbage, of a stranger, and of an observer whose commands are refused."""
    context = zmq.Context()
    stranger = zmq.curve_keypair()
    floods = 0
    while not done.is_set():
        target = port.value
        if target == 0:
            time.sleep(0.01)
            continue
        try:
            with socket.create_connection(("127.0.0.1", target), timeout=1) as peer:
                peer.sendall(HELLO)
        except OSError:
            pass
        for pair in (stranger, observer):
            peer = context.socket(zmq.DEALER)
            peer.linger = 0
            peer.curve_serverkey = server_key
            peer.curve_publickey, peer.curve_secretkey = pair
            peer.connect(f"tcp://127.0.0.1:{target}")
            for _ in range(20):
                try:
                    peer.send(b'{"command":"unlock"}', zmq.DONTWAIT)
                except zmq.Again:
                    break
            time.sleep(0.004)
            peer.close()
        floods += 1
    print(f"  {floods} rounds of one flooder", flush=True)


def elsewhere(port: int, secret: bytes) -> None:
    """A server of the same keys that lets nobody in."""
    context = zmq.Context()
    zap = context.socket(zmq.REP)
    zap.bind("inproc://zeromq.zap.01")
    router = context.socket(zmq.ROUTER)
    router.curve_server, router.curve_secretkey = True, secret
    router.handshake_ivl = 1500
    router.bind(f"tcp://127.0.0.1:{port}")
    while True:
        request = zap.recv_multipart()
        zap.send_multipart([b"1.0", request[1], b"400", b"no", b"", b""])


def quantile(values: list[float], q: float) -> float:
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with Rig() as rig:
        keys = rig.folder / "keys"
        (keys / "clients").mkdir(parents=True)
        zmq.auth.create_certificates(keys, "server")
        os.chmod(keys / "server.key_secret", 0o600)
        pairs = {}
        for name, role in (("observer", "observe"), ("driver", "stage")):
            zmq.auth.create_certificates(rig.folder, name)
            (keys / "clients" / f"{name}.key").write_text(
                (rig.folder / f"{name}.key").read_text().replace("metadata\n", f'metadata\n    role = "{role}"\n'))
            pairs[name] = zmq.auth.load_certificate(rig.folder / f"{name}.key_secret")
        server_key, secret = zmq.auth.load_certificate(keys / "server.key_secret")
        commands, other = free_port(), free_port()
        rig.start_sim()
        rig.start_daemon(rig.config(
            lock={"max_frame_age_ms": 100},
            wire={"corrections": f'["{rig.corrections}", "tcp://127.0.0.1:*"]',
                  "commands": f'["{rig.commands}", "tcp://127.0.0.1:{commands}"]'},
            access={"server_key": "keys/server.key_secret", "clients": "keys/clients"}))
        rig.wait_markers()
        rig.client.lock()
        rig.wait_state("locked")
        port = rig.client.request("access")[0]["ports"]["corrections"]

        context = zmq.Context()
        readers = {}
        for name, endpoint in (("ipc", rig.corrections), ("curve", f"tcp://127.0.0.1:{port}")):
            readers[name] = reader = context.socket(zmq.SUB)
            reader.setsockopt(zmq.SUBSCRIBE, b"correction ")
            if name == "curve":
                reader.curve_serverkey = server_key
                reader.curve_publickey, reader.curve_secretkey = pairs["driver"]
            reader.connect(endpoint)
        target = multiprocessing.Value("i", 0)
        done = multiprocessing.Event()
        flooders = [multiprocessing.Process(target=flood, args=(target, server_key, pairs["observer"], done))
                    for _ in range(2)]
        dummy = multiprocessing.Process(target=elsewhere, args=(other, secret), daemon=True)
        for process in (*flooders, dummy):
            process.start()
        poller = zmq.Poller()
        for reader in readers.values():
            poller.register(reader, zmq.POLLIN)
        loop = {"quiet": [], "elsewhere": [], "flood": []}
        way = {(phase, name): [] for phase in loop for name in readers}
        loads = []
        refused = rig.status()["wire"]["peers_refused"]
        for _ in range(rounds):
            for phase, aim in (("quiet", 0), ("elsewhere", other), ("flood", commands)):
                target.value = aim
                time.sleep(1)
                for reader in readers.values():
                    while reader.poll(0):
                        reader.recv()
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    for reader, _ in poller.poll(100):
                        message = json.loads(reader.recv().partition(b" ")[2])
                        now_ns = time.monotonic_ns()
                        name = "ipc" if reader is readers["ipc"] else "curve"
                        way[phase, name].append((now_ns - message["sent_ns"]) / 1000)
                        if name == "ipc":
                            loop[phase].append((message["sent_ns"] - message["arrival_ns"]) / 1000)
                loads.append(os.getloadavg()[0])
        status = rig.status()
        done.set()
        for process in flooders:
            process.join()
        dummy.terminate()
        print(f"{os.cpu_count()} cores, load {min(loads):.1f} to {max(loads):.1f}; state {status['state']}, "
              f"{status['wire']['peers_refused'] - refused} refused")
        print("arrival to sent, us   n      p50     p99    p99.9   to quiet (p99.9)")
        quiet = quantile(loop["quiet"], 0.999)
        for phase, values in loop.items():
            print(f"{phase:<18}{len(values):>7}{quantile(values, 0.5):>8.0f}{quantile(values, 0.99):>8.0f}"
                  f"{quantile(values, 0.999):>9.0f}{quantile(values, 0.999) / quiet:>8.2f}")
        print("sent to read, us      n      p50     p99    p99.9")
        for (phase, name), values in way.items():
            print(f"{phase + ' ' + name:<18}{len(values):>7}{quantile(values, 0.5):>8.0f}"
                  f"{quantile(values, 0.99):>8.0f}{quantile(values, 0.999):>9.0f}")
        context.destroy(0)


if __name__ == "__main__":
    main()
