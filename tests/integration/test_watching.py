# SPDX-License-Identifier: MIT
"""Whoever watches a lock: the exporter with a real Prometheus, the hook on events, driftctl doctor."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from harness import BIN, DEADLINE_S, SOURCE, CalmRig, Process, Rig

WATCHING = SOURCE / "clients/exporter"


def tool(name: str) -> str:
    """Finds a tool of Debian's package prometheus, installed or unpacked by tests/service/fetch_prometheus."""
    found = shutil.which(name) or str(SOURCE / "build/prometheus/usr/bin" / name)
    if not os.access(found, os.X_OK):
        raise unittest.SkipTest(f"SKIPPED: {name} is not here: tests/service/fetch_prometheus")
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def until(condition, what: str, timeout_s: float = 3 * DEADLINE_S):
    """The condition's value once it is true."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.1)
    return value


class Exporter:
    """driftd-exporter on a port of the kernel's choice."""

    def __init__(self, rig: Rig):
        self.process = rig.enter_context(Process(
            "exporter", [BIN / "driftd-exporter", "--publish", rig.publish, "--listen", "127.0.0.1:0"],
            rig.folder))
        self.process.wait_for("serving http://")
        self.address = self.process.text().split("http://")[1].split("/")[0]

    def text(self, accept: str = "") -> str:
        request = urllib.request.Request(f"http://{self.address}/metrics", headers={"Accept": accept})
        return urllib.request.urlopen(request, timeout=DEADLINE_S).read().decode()

    def samples(self) -> dict[str, float]:
        lines = [line for line in self.text().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


class TestExporter(unittest.TestCase):
    def test_a_daemon_comes_goes_and_comes_again(self):
        with CalmRig() as rig:
            exporter = Exporter(rig)  # before there is a daemon
            self.assertEqual(exporter.samples()["driftd_up"], 0)
            rig.start_locked()
            seen = until(lambda: (s := exporter.samples()).get('driftd_state{driftd_state="locked"}') == 1
                         and s, "locked in the metrics")
            self.assertEqual(seen["driftd_up"], 1)
            self.assertEqual(seen["driftd_camera_temperature_celsius"], 41.5)
            self.assertGreater(seen["driftd_camera_frames_total"], 0)
            self.assertGreaterEqual(
                seen['driftd_latency_seconds_bucket{part="total",le="+Inf"}'],
                seen['driftd_latency_seconds_bucket{part="total",le="1"}'])
            self.assertGreater(seen['driftd_latency_seconds_bucket{part="total",le="1"}'], 0)
            self.assertGreater(seen['driftd_events_total{level="info",code="state_changed"}'], 0)
            # Silent, not gone: a stopped process keeps its sockets.
            rig.daemon.child.send_signal(signal.SIGSTOP)
            silent = until(lambda: (s := exporter.samples())["driftd_up"] == 0 and s, "up is 0")
            self.assertGreater(silent["driftd_status_age_seconds"], 4)
            self.assertNotIn('driftd_state{driftd_state="locked"}', silent)
            self.assertIn("driftd_camera_frames_total", silent)
            rig.daemon.child.send_signal(signal.SIGCONT)
            until(lambda: exporter.samples()["driftd_up"] == 1, "up again")
            self.assertEqual(rig.daemon.stop(), 0)  # a killed one's camera is held for a while
            rig.start_daemon(rig.folder / "driftd.yaml")
            until(lambda: exporter.samples()["driftd_restarts_total"] == 1, "a restart")
            self.assertEqual(exporter.process.stop(), 0)

    def test_an_address_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = subprocess.run([BIN / "driftd-exporter", "--listen",
                                   "127.0.0.1:%d" % taken.getsockname()[1]],
                                  capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 5)
        self.assertIn("Address already in use", done.stderr)


class Prometheus(unittest.TestCase):
    def test_where_it_cannot_be_had_nothing_fails(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            script = folder / "tests/service/fetch_prometheus"
            script.parent.mkdir(parents=True)
            shutil.copy(SOURCE / "tests/service/fetch_prometheus", script)
            apt_get = folder / "apt-get"
            for says in ("exit 100", "echo half > prometheus_1.deb"):  # no network; half a package
                apt_get.write_text(f"#!/bin/sh\n{says}\n")
                apt_get.chmod(0o755)
                done = subprocess.run([script], capture_output=True, text=True, timeout=DEADLINE_S,
                                      env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
                self.assertEqual(done.returncode, 0, done)
                self.assertTrue(done.stdout.splitlines()[-1].startswith("SKIPPED: "), done)
                self.assertEqual(list((folder / "build").iterdir()), [])

    def test_the_alerts(self):
        promtool = tool("promtool")
        for arguments in (["check", "rules", WATCHING / "alerts.yaml"],
                          ["check", "config", WATCHING / "prometheus.yaml"],
                          ["test", "rules", SOURCE / "tests/integration/alerts_test.yaml"]):
            done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("FAILED", done.stdout + done.stderr)

    def test_it_scrapes_and_loads_the_rules_and_the_dashboard(self):
        prometheus, promtool = tool("prometheus"), tool("promtool")
        with CalmRig() as rig:
            rig.start_locked()
            exporter = Exporter(rig)
            until(lambda: exporter.samples()["driftd_up"] == 1, "up")
            checked = subprocess.run([promtool, "check", "metrics"], input=exporter.text(),
                                     capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
            text = (WATCHING / "prometheus.yaml").read_text()
            self.assertIn("127.0.0.1:19539", text)
            file = rig.folder / "prometheus.yaml"
            file.write_text(text.replace("127.0.0.1:19539", exporter.address)
                            .replace("alerts.yaml", str(WATCHING / "alerts.yaml"))
                            .replace(": 5s", ": 1s"))
            port = free_port()
            rig.enter_context(Process("prometheus", [
                prometheus, f"--config.file={file}", f"--storage.tsdb.path={rig.folder}/tsdb",
                f"--web.listen-address=127.0.0.1:{port}"], rig.folder))

            def api(path: str, **query: str):
                url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
                try:
                    return json.load(urllib.request.urlopen(url, timeout=DEADLINE_S))["data"]
                except urllib.error.HTTPError as error:
                    if error.code == 503:  # it starts
                        return {}
                    raise AssertionError(f"{query}: {error.read()}") from error
                except OSError:
                    return {}

            def now(expression: str) -> list:
                return api("query", query=expression).get("result", [])

            until(lambda: now("driftd_up == 1"), "a scrape")
            self.assertEqual([t["health"] for t in api("targets")["activeTargets"]], ["up"])
            self.assertEqual(now('driftd_state{driftd_state="locked"}')[0]["value"][1], "1")
            groups = until(lambda: (g := api("rules")["groups"]) and
                           all(r["health"] == "ok" for r in g[0]["rules"]) and g, "rules evaluated")
            self.assertGreater(len(groups[0]["rules"]), 10)
            # Every expression of the dashboard is one, and most have a value here (no stage's driver, no z).
            dashboard = json.loads((WATCHING / "grafana-dashboard.json").read_text())
            empty = []
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    expression = target["expr"].replace("$instance", ".*")
                    until(lambda: "result" in api("query", query=expression), expression)
                    if not now(expression):
                        empty.append(expression)
            self.assertLessEqual([e for e in empty if "rate(" not in e and "increase(" not in e
                                  and "driftd_stage_" not in e and "driftd_z_" not in e], [], empty)


class Hook(unittest.TestCase):
    def test_a_lost_lock_and_a_daemon_that_ends_while_it_runs(self):
        with CalmRig() as rig:
            hook = rig.folder / "hook"
            hook.write_text(f"""#!/bin/sh
printf '%s %s\\n' "$DRIFTD_EVENT" "$DRIFTD_TEXT" >> {rig.folder}/told
case $DRIFTD_TEXT in lost:*) echo "I wait"; sleep 600 ;; esac
""")
            hook.chmod(0o755)
            rig.start_locked(camera={"stall_timeout_ms": 1000}, lock={"hold_timeout_s": 1}, hook={"on_event": hook})
            rig.sim.stop()
            rig.wait_state("lost")
            told = rig.folder / "told"
            until(lambda: told.exists() and "state_changed lost: held too long" in told.read_text(),
                  "the hook is run for the lost lock")
            self.assertIn("state_changed holding: no frames", told.read_text())
            rig.daemon.wait_for("hook: I wait")
            # Its run does not end, and the daemon answers and measures on.
            rig.start_sim()
            rig.wait_until(lambda s: s["camera"]["connected"] and s["markers"]["used"], "markers used")
            begin = time.monotonic()
            self.assertEqual(rig.daemon.stop(), 0)
            self.assertLess(time.monotonic() - begin, DEADLINE_S)
            self.assertIn("was ended: driftd is stopping", rig.daemon.text())

    def test_the_check_of_a_configuration_tells_of_the_hook(self):
        with Rig() as rig:
            def check(hook) -> subprocess.CompletedProcess:
                return subprocess.run([BIN / "driftd", "--config", rig.config(hook={"on_event": hook}),
                                       "--check-config"], capture_output=True, text=True, timeout=DEADLINE_S)
            relative = check("mail.sh")
            self.assertEqual(relative.returncode, 2)
            self.assertIn("hook.on_event: found mail.sh; allowed an absolute path", relative.stderr)
            absent = check("/nowhere/mail.sh")
            self.assertEqual(absent.returncode, 0)
            self.assertIn("hook.on_event: /nowhere/mail.sh: No such file", absent.stdout)

    def test_the_sample_sends_a_mail(self):
        with Rig() as rig:
            sendmail = rig.folder / "sendmail"
            sendmail.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {rig.folder}/to\ncat > {rig.folder}/mail\n')
            sendmail.chmod(0o755)
            variables = {"DRIFTD_EVENT": "state_changed", "DRIFTD_LEVEL": "warning",
                         "DRIFTD_TEXT": "lost\nBcc: everybody@example.org\n\n$(id) `id`",
                         "DRIFTD_TIME": "2026-11-23T10:01:44Z", "DRIFTD_JSON": "{}",
                         "DRIFTD_LEFT_OUT": "2", "DRIFTD_CONFIG": "/etc/driftd/driftd.yaml",
                         "SENDMAIL": str(sendmail), "PATH": "/usr/bin:/bin"}
            sample = SOURCE / "config/examples/mail-on-event"
            subprocess.run([sample], env=variables, check=True, timeout=DEADLINE_S)
            head, _, body = (rig.folder / "mail").read_text().partition("\n\n")
            self.assertIn("Subject: driftd on ", head)
            self.assertNotIn("Bcc", head)
            self.assertIn("$(id) `id`", body)
            self.assertEqual((rig.folder / "to").read_text().split(), ["-i", "microscope@example.org"])
            (rig.folder / "mail").unlink()
            subprocess.run([sample], env={**variables, "DRIFTD_EVENT": "marker_health"}, check=True,
                           timeout=DEADLINE_S)
            self.assertFalse((rig.folder / "mail").exists())


class Doctor(unittest.TestCase):
    @staticmethod
    def findings(rig: Rig, file: pathlib.Path) -> dict[str, dict]:
        done = subprocess.run([BIN / "driftctl", "--json", "--config", file, "doctor"],
                              capture_output=True, text=True, timeout=DEADLINE_S)
        report = json.loads(done.stdout)
        assert done.returncode == (1 if report["worst"] == "fail" else 0), done
        return {f["check"]: f for f in report["findings"]}

    def test_who_holds_the_camera(self):
        with CalmRig() as rig:
            file = rig.config()
            pathlib.Path(f"{file}.d").mkdir()
            pathlib.Path(f"{file}.d", "mine.yaml").write_text("log: {level: info}\n")
            found = self.findings(rig, file)
            self.assertEqual(found["configuration"]["found"], f"{file} with mine.yaml: no mistakes")
            self.assertIn("no camera answers", found["camera"]["found"])
            rig.start_sim()
            self.assertIn("nobody controls it", self.findings(rig, file)["camera"]["found"])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.bind(("127.0.0.1", 0))
                other.connect((rig.address, 3956))
                other.settimeout(DEADLINE_S)
                # Take control; then a heartbeat time of a minute.
                for number, (register, value) in enumerate([(0x0a00, 2), (0x0938, 60_000)], 1):
                    other.send(struct.pack(">BBHHHII", 0x42, 1, 0x0082, 8, number, register, value))
                    self.assertEqual(struct.unpack(">HHHH", other.recv(100)[:8])[0], 0)
                held = self.findings(rig, file)["camera"]
                self.assertEqual(held["level"], "fail")
                self.assertIn(f"process {os.getpid()} (python3", held["found"])
                self.assertEqual(held["command"], f"kill {os.getpid()}")
                other.send(struct.pack(">BBHHHII", 0x42, 1, 0x0082, 8, 3, 0x0a00, 0))
                other.recv(100)
            rig.start_daemon(file)
            rig.wait_markers()
            found = self.findings(rig, file)
            self.assertIn("is controlled by driftd", found["camera"]["found"])
            if "SCHED_FIFO" not in found["daemon"]["found"]:  # who may not have that priority is told so first
                self.assertIn(f"process {rig.daemon.child.pid}", found["daemon"]["found"])


if __name__ == "__main__":
    unittest.main()
