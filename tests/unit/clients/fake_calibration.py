# SPDX-License-Identifier: MIT
"""A driftd that only calibrates its stage, on a ROUTER socket: it answers as docs/reference/protocol.md says, or as
the test wants. Prints SKIPPED and exits without pyzmq."""
import json
import math
import sys
import threading

try:
    import zmq
except ImportError:
    print("SKIPPED: python3-zmq is not installed")
    sys.exit(0)

MATRIX = [[-0.9925, 0.1219], [0.1217, 0.993]]


def result(**changes):
    """What a run of a stage of the second order brings."""
    times = [0.25 * i for i in range(120)]
    model = [0.0 if t < 3.1 else 1 - math.exp(-(t - 3.1) * 0.66) * math.cos((t - 3.1) * 0.67) for t in times]
    return {
        "image_to_stage": MATRIX, "image_to_stage_sd": [[0.0011, 0.001], [0.0012, 0.0011]],
        "mirrored": True, "rotation_deg": 173.0, "scale": [0.9999, 1.0005],
        "delay_us": 3304.2, "delay_sd_us": 40.1, "waiting_us": 200, "order": 2, "time_constant_us": None,
        "time_constant_sd_us": None, "bandwidth_hz": 149.3, "bandwidth_sd_hz": 4.0,
        "resonance_hz": 150.2, "damping": 0.7, "cross_talk": [0.003, 0.001], "hysteresis": [0.02, 0.019],
        "stage_noise_nm": 0.21, "noise_nm": [0.4, 0.41], "fit_residual_nm": [0.45, 0.46],
        "drift_nm_per_s": [1.2, -0.8],
        "spectrum": {"frequency_hz": [0.25 * (i + 1) for i in range(400)],
                     "x_nm2_per_hz": [0.001 + (0.5 if i == 199 else 0) for i in range(400)],
                     "y_nm2_per_hz": [0.001] * 400},
        "markers": [{"id": i, "noise_nm": 0.5 + 0.1 * i} for i in range(1, 14)],
        "returned_nm": [0.3, -0.2], "seconds": 18.2, "samples": 9100,
        "response": {"time_ms": times, "x": model, "y": [None] + [0.98 * v for v in model[1:]], "model": model},
        "present": {"image_to_stage": [[1, 0], [0, 1]], "delay_us": 3000, "time_constant_us": 1000,
                    "integral": 0.3, "proportional": 0, "residual_nm": 2.1},
        "proposal": {"stage": {"image_to_stage": MATRIX, "delay_us": 3104.2, "time_constant_us": 1010.4},
                     "control": {"integral": 0.35, "proportional": 0.0}, "residual_nm": 0.53},
        "pixel_size": {"configured_nm": 100.0, "ratio": 1.0, "ratio_sd": 0.001},
        **changes,
    }


def nulls():
    """The same with nothing known."""
    def null(value):
        if isinstance(value, dict):
            return {key: null(inner) for key, inner in value.items()}
        return None
    return null(result())


class FakeCalibration:
    """`words` are told one after the other when asked for the calibration, the last one for ever:
    dicts that change a word, bytes as they are, or None for no answer. After `stop` those of `words_after_stop`."""

    def __init__(self):
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self.endpoint = f"tcp://127.0.0.1:{self._router.bind_to_random_port('tcp://127.0.0.1')}"
        self.start = {"ok": True, "run": 7, "excursion_nm": 100, "seconds": 20}
        self.words = [{"phase": "quiet", "progress": 0.1}, {"phase": "moving", "progress": 0.5},
                      {"phase": "returning"}, {"phase": "fitting"}, {"phase": "done", "result": result()}]
        self.words_after_stop = [{"phase": "returning"}, {"phase": "stopped", "text": "by command; the stage is back at its start"}]
        self.status = {"camera": {"description": "driftd simulator SIM01 at 127.0.0.1", "pixel_format": "Mono12"}}
        self.requests = []
        self.started = self.stopped = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def commands(self):
        """What was asked, without the questions."""
        return [request for request in self.requests if request["command"] not in ("calibration", "status")]

    def _reply(self, request):
        if request["command"] == "calibrate":
            if request.get("stop"):
                self.stopped = True
                self.words = self.words_after_stop
                return {"ok": True}
            self.started = bool(isinstance(self.start, dict) and self.start.get("ok"))
            return self.start
        if request["command"] == "status":
            return {"ok": True, "status": self.status}
        word = {"ok": True, "run": 7, "phase": "none", "progress": None, "text": "", "result": None}
        if not self.started:
            return word
        change = self.words.pop(0) if len(self.words) > 1 else self.words[0]
        return {**word, **change} if isinstance(change, dict) else change

    def _serve(self):
        while not self._end.is_set():
            if not self._router.poll(10):
                continue
            *envelope, request = self._router.recv_multipart()
            request = json.loads(request)
            self.requests.append(request)
            reply = self._reply(request)
            if reply is not None:
                data = json.dumps(reply).encode() if isinstance(reply, dict) else reply
                self._router.send_multipart(envelope + [data])

    def close(self):
        """As if the daemon were gone; a second call does nothing."""
        self._end.set()
        self._thread.join()
        self._router.close()
        self._context.term()
