#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How late driftd-stage tells the controller, from its own reports: corrections at 500 a second from
a publisher in Python; the controller is the simulator's stage input, played here, or a real or
emulated one: --controller 'driver: pi_gcs2, device: tcp://127.0.0.1:50000' --axes 1 2; {input} there is
that input's path."""
import argparse
import json
import math
import os
import pathlib
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/integration"))
import stage_rig  # noqa: E402


def measure(rig: stage_rig.Rig, rate_hz: float, seconds: float) -> dict:
    """A sine of 5 nm and 1 Hz on both axes; returns the last report."""
    rig.listen()
    start = due = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < start + seconds:
        if now < due:
            time.sleep(due - now)
        due += 1 / rate_hz
        wanted = 5 * math.sin(2 * math.pi * (now - start))
        rig.send(wanted - rig.total[0], wanted - rig.total[1], valid_s=0.05)
        sent += 1
    return {"sent": sent, **rig.report()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=500, help="corrections a second")
    parser.add_argument("--controller", default="", help="keys of section controller")
    parser.add_argument("--axes", nargs=2, default=["x", "y"], help="the controller's names")
    parser.add_argument("--more", default="", help="further YAML, such as 'motion: {...}'")
    parser.add_argument("--realtime", choices=("off", "prefer", "require"), default="prefer")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    arguments = parser.parse_args()
    with stage_rig.Rig() as rig:
        rig.realtime = arguments.realtime
        rig.start_daemon()
        rig.start_stage()
        axes = "".join(f"{word}: {{axis: '{name}'}}\n" for word, name in zip("xy", arguments.axes))
        controller = arguments.controller.replace("{input}", f"{rig.folder}/input")
        rig.start(axes + arguments.more + "\n", controller=controller)
        report = measure(rig, arguments.rate, arguments.seconds)
    latency = report["latency_us"]
    print(f"{report['description']}: {report['sent']} corrections at {arguments.rate:g}/s; "
          f"carried out {report['carried_out']}, ignored {report['ignored']}, refused "
          f"{report['refused']}, in the last second {report['rate_hz']:.0f}; realtime.mode "
          f"{arguments.realtime}\n"
          f"from sent_ns to the command written: p50 {latency['p50']:.0f} us, p99 "
          f"{latency['p99']:.0f} us, max {latency['max']:.0f} us (load {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} CPUs)")
    if arguments.json:
        keys = ("description", "sent", "carried_out", "ignored", "refused", "rate_hz", "latency_us")
        arguments.json.write_text(json.dumps({key: report[key] for key in keys}, indent=2) + "\n")


if __name__ == "__main__":
    main()
