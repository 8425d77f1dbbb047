#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Watches a microscope from another computer, Windows or macOS as well: Python and pyzmq, nothing of driftd.

    python3 -m pip install pyzmq
    python3 remote_example.py keys                  once: makes client.key_secret and client.key here
    python3 remote_example.py tcp://HOST:5555       with server.key of that computer in this folder

`client.key` goes into the folder `access.clients` on the microscope's computer, with its role: docs/use/security.md.
"""
import json
import os
import sys
import time

import zmq
import zmq.auth


def keyed(context: zmq.Context, kind: int, address: str) -> zmq.Socket:
    """A socket that is connected with the keys in this folder."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
    socket.curve_serverkey, _ = zmq.auth.load_certificate("server.key")
    socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate("client.key_secret")
    if kind == zmq.SUB:
        for topic in (b"position ", b"event "):
            socket.setsockopt(zmq.SUBSCRIBE, topic)
    socket.connect(address)
    return socket


def ask(socket: zmq.Socket, command: str, **fields) -> dict:
    socket.setsockopt(zmq.SNDTIMEO, 5000)  # a client whose key is refused has no connection any more
    try:
        socket.send_json({"command": command, **fields})
        answered = socket.poll(5000)
    except zmq.Again:
        answered = False
    if not answered:
        sys.exit("no answer: is the address right, and client.key in the folder of the allowed ones?")
    reply = json.loads(socket.recv_multipart()[0])
    if not reply["ok"]:
        sys.exit(f"{reply['code']}: {reply['error']}")
    return reply


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "keys":
        umask = os.umask(0o077)  # pyzmq's own would let others read the secret key
        zmq.auth.create_certificates(".", "client")
        os.umask(umask)
        os.chmod("client.key", 0o644)
        print("made client.key_secret, which stays here, and client.key, which goes to the microscope's computer")
        return
    address, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else float("inf")
    context = zmq.Context()
    commands = keyed(context, zmq.REQ, address)
    me = ask(commands, "access")
    print(f"I am {me['name']} ({me['roles']})")
    print("state:", ask(commands, "status")["status"]["state"])
    published = keyed(context, zmq.SUB, f"{address.rpartition(':')[0]}:{me['ports']['publish']}")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if published.poll(200):
            topic, _, text = published.recv().decode().partition(" ")
            message = json.loads(text)
            print(topic, message.get("text") or f"{message['x_nm']} {message['y_nm']}", flush=True)


if __name__ == "__main__":
    main()
