# SPDX-License-Identifier: MIT
"""A driftd that replays the examples of docs/reference/protocol.md, for tests of clients."""
import json
import sys
import threading

try:
    import zmq
except ImportError:
    print("SKIPPED: python3-zmq is not installed")
    sys.exit(0)

from protocol import examples

ADDRESS = "tcp://127.0.0.63"


class FakeDaemon:
    """Publishes on demand and answers commands from `replies` in a thread of its own.

    `replies[command]` is a list of parts, a dict, then possibly bytes, or gives one when called; a command
    without one is refused. `requests` collects what was asked.
    """

    def __init__(self, address: str = ADDRESS):
        self._address = address
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self.publish_endpoint = self._bind(self._pub)
        self._corrections = self._context.socket(zmq.PUB)
        self.corrections_endpoint = self._bind(self._corrections)
        self._router = self._context.socket(zmq.ROUTER)
        self.commands_endpoint = self._bind(self._router)
        self.replies = {}
        self.requests = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _bind(self, socket):
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)  # a test's flood is lost nowhere
        return f"{self._address}:{socket.bind_to_random_port(self._address)}"

    def publish(self, topic, **changes):
        """The example of the topic with some fields changed."""
        socket = self._corrections if topic == "correction" else self._pub
        socket.send_string(topic + " " + json.dumps({**examples()[topic], **changes}))

    def publish_bytes(self, data: bytes):
        """Any bytes, on both publishing sockets."""
        self._pub.send(data)
        self._corrections.send(data)

    def _serve(self):
        while not self._stop.is_set():
            if not self._router.poll(20):
                continue
            *envelope, request = self._router.recv_multipart()
            request = json.loads(request)
            self.requests.append(request)
            refusal = [{"ok": False, "error": "not in this state", "code": "refused"}]
            reply = self.replies.get(request["command"], refusal)
            reply = reply() if callable(reply) else reply
            parts = [json.dumps(p).encode() if isinstance(p, dict) else p for p in reply]
            self._router.send_multipart(envelope + parts)

    def close(self):
        self._stop.set()
        self._thread.join()
        self._pub.close()
        self._corrections.close()
        self._router.close()
        self._context.term()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
