# SPDX-License-Identifier: MIT
"""driftd-stage with a driver that is a program of its own: in Python, in shell, and one that fails."""
from __future__ import annotations

import os
import re
import signal
import sys
import time
import unittest

from harness import DEADLINE_S, SOURCE
from stage_rig import Rig

# A stage that is where it was sent last, which it keeps in a file; says what it hears in another.
SHELL = """cd {folder}; echo $$ > pid; echo I start >&2
while read -r word a b expires; do
  case $word in
    hello) echo "hello 1 a stage in shell" ;;
    axis) echo "axis 0 100000 0.1 closed $a" ;;
    move) echo "$a $b" > place; echo ok ;;
    read) read -r x y < place; echo "place $x $y" ;;
    health) {health} ;;
  esac
done
echo over > over
"""


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.rig = Rig()
        self.addCleanup(self.rig.close)
        self.folder = self.rig.folder

    def start(self, program: str, more="", wait: str | None = "driftd-stage ready", connection=""):
        (self.folder / "program.sh").write_text(program)
        (self.folder / "place").write_text("1000 2000\n")
        if not self.rig.daemon:
            self.rig.start_daemon()
        self.rig.start(f"x: {{axis: x}}\ny: {{axis: 'y'}}\n{connection}", wait,
                       f"driver: program, command: /bin/sh {self.folder}/program.sh{more}",
                       PYTHONPATH=str(SOURCE / "clients/python"))
        if wait:
            self.rig.listen()

    def start_python(self, more=""):
        self.rig.start_stage()
        self.start(f"echo $$ > {self.folder}/pid; exec {sys.executable} -B {SOURCE}/tests/support/simulated_stage.py "
                   f"{self.folder}/input --serve\n", more)

    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    def until_ended(self, pid: int):
        end = time.monotonic() + DEADLINE_S
        while os.path.exists(f"/proc/{pid}"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def assertPlace(self, x, y):
        self.assertAlmostEqual(self.rig.stage.place[0], x, delta=0.001)
        self.assertAlmostEqual(self.rig.stage.place[1], y, delta=0.001)


class InPython(ProgramTest):
    def test_it_follows_and_ends_with_its_input(self):
        self.start_python(", timeout_ms: 5000")
        rig = self.rig
        self.assertEqual(rig.stage.moves, [])
        rig.send(12, -5)
        rig.wait_moves(1)
        self.assertPlace(1012, -2005)
        report = rig.wait(lambda r: r["carried_out"] == 1 and r["total_x_nm"] == 12)
        self.assertEqual((report["driver"], report["description"]), ("program", "simulator: SimulatedStage"))
        self.assertEqual([(a["name"], a["min_nm"], a["resolution_nm"], a["closed_loop"]) for a in report["axes"]],
                         [("x", -100_000, 0.001, True), ("y", -100_000, 0.001, True)])
        pid = self.pid()
        self.assertEqual(rig.program.stop(), 0)
        self.until_ended(pid)
        self.assertPlace(1012, -2005)

    def test_one_that_dies_is_started_again_and_goes_on_from_there(self):
        self.start_python(", timeout_ms: 5000")
        rig = self.rig
        rig.send(40, 0)
        rig.wait_moves(1)
        first = self.pid()
        os.kill(first, signal.SIGKILL)
        report = rig.wait(lambda r: r["state"] == "disconnected")
        self.assertIn("the program was ended by signal 9", report["text"])
        rig.wait(lambda r: r["state"] == "ready")
        self.assertNotEqual(self.pid(), first)
        rig.send(5, 0)
        rig.wait_moves(2)
        self.assertPlace(1045, -2000)

    def test_a_stage_that_is_gone_for_its_program_costs_no_program(self):
        self.start_python(", timeout_ms: 5000")
        rig, first = self.rig, self.pid()
        rig.send(40, 0)
        rig.wait_moves(1)
        rig.stage.stop()
        report = rig.wait(lambda r: r["state"] == "disconnected")
        self.assertRegex(report["text"], "(read|hello): (ConnectionRefused|FileNotFound|ConnectionReset|Timeout)Error")
        rig.stage.restart(-7000, 500)
        rig.wait(lambda r: r["state"] == "ready")
        self.assertEqual(self.pid(), first)
        rig.send(5, 1)  # elsewhere: a new zero there
        rig.wait_moves(2)
        self.assertPlace(-6995, 501)

    def test_one_that_hangs_is_ended_and_what_it_was_told_goes_with_it(self):
        self.start_python(", timeout_ms: 1000")
        rig, first = self.rig, self.pid()
        rig.send(1, 0)
        rig.wait_moves(1)
        os.kill(first, signal.SIGSTOP)
        began_ns = time.monotonic_ns()
        rig.send(50, 0)
        report = rig.wait(lambda r: r["state"] == "disconnected")
        self.assertRegex(report["text"], "no whole answer to '.*' within 1000 ms|is starting")
        self.until_ended(first)
        rig.wait(lambda r: r["state"] == "ready")
        self.assertEqual(len(rig.stage.moves), 1)
        told = [report for at_ns, report in rig.daemon.reports if at_ns > began_ns]
        self.assertTrue(any("owed an answer" in report["text"] for report in told))  # reports went on meanwhile

    def test_one_that_stood_still_carries_out_nothing_old(self):
        self.start_python(", timeout_ms: 5000")
        rig = self.rig
        rig.send(1, 0)
        rig.wait_moves(1)
        before = rig.report()
        os.kill(self.pid(), signal.SIGSTOP)
        rig.wait(lambda r: r["state"] == "error" and "owed an answer" in r["text"])
        rig.send(50, 0, valid_s=0.1)
        time.sleep(0.3)
        os.kill(self.pid(), signal.SIGCONT)
        rig.wait(lambda r: r["state"] == "ready" and r["ignored"] == before["ignored"] + 1)
        self.assertEqual(len(rig.stage.moves), 1)


class InShell(ProgramTest):
    def shell(self, health="echo health ready", more=", timeout_ms: 5000", **named):
        self.start(SHELL.format(folder=self.folder, health=health), more, **named)

    def moved_to(self, x, y):
        self.rig.wait(lambda r: [axis["position_nm"] for axis in r["axes"]] == [x, y])

    def test_the_example_of_the_page(self):
        [example] = re.findall("```sh\n(# A stage.*?)```", (SOURCE / "docs/use/stages.md").read_text(), re.DOTALL)
        self.assertLessEqual(len(example.splitlines()), 20)
        self.start(example, ", timeout_ms: 5000")
        report = self.rig.wait(lambda r: r["state"] == "ready")
        x, y = (axis["position_nm"] for axis in report["axes"])
        self.rig.send(12, -5)
        self.moved_to(x + 12, y - 5)
        self.assertEqual(self.rig.program.stop(), 0)

    def test_its_standard_error_is_the_log(self):
        self.shell()
        self.rig.program.wait_for("I start")
        self.rig.send(12, -5)
        self.moved_to(1012, 1995)

    def test_the_end_of_a_service_is_the_end_of_its_input_and_no_signal(self):
        unit = (SOURCE / "systemd/driftd-stage@.service").read_text()
        self.shell()
        pid = self.pid()
        if "\nKillMode=mixed\n" not in unit:  # then systemd tells all that run in the service
            os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.rig.program.stop(), 0)
        self.until_ended(pid)
        self.assertTrue((self.folder / "over").exists())

    def test_its_health_is_the_reports(self):
        self.shell("[ -e off ] && echo health servo_off no 5 by its button || echo health ready yes")
        self.rig.wait(lambda r: r["state"] == "ready" and r["on_target"] is True)
        (self.folder / "off").touch()
        report = self.rig.wait(lambda r: r["state"] == "servo_off")
        self.assertEqual((report["text"], report["error"], report["on_target"]), ("by its button", 5, False))
        ignored = report["ignored"]
        self.rig.send(5, 5)
        self.rig.wait_ignored(ignored + 1)
        (self.folder / "off").unlink()
        self.rig.wait(lambda r: r["state"] == "ready")
        self.moved_to(1000, 2000)
        self.rig.send(5, 5)
        self.moved_to(1005, 2005)

    def test_one_that_floods_is_ended(self):
        self.shell("if [ -e flood ]; then rm flood; exec yes; else echo health ready; fi")
        (self.folder / "flood").touch()
        report = self.rig.wait(lambda r: r["state"] == "disconnected")
        self.assertIn("is 'y', expected health STATE", report["text"])
        self.rig.wait(lambda r: r["state"] == "ready")
        self.rig.send(3, 3)
        self.moved_to(1003, 2003)

    def test_one_that_is_none_at_start_is_exit_3(self):
        for program, text in (("echo usage: program FILE; exit 2\n", "'usage: program FILE'"),
                              ("exit 7\n", "the program ended with exit status 7"),
                              ("cat\n", "is 'axis x', expected axis MIN MAX")):
            self.start(program, ", timeout_ms: 5000", wait=None)
            self.assertEqual(self.rig.program.child.wait(DEADLINE_S), 3)
            self.assertIn(text, self.rig.program.text())

    def test_one_that_starts_slowly_is_waited_for(self):
        self.start("sleep 1\n" + SHELL.format(folder=self.folder, health="echo health ready"), ", timeout_ms: 200",
                   connection="connection: {start_without_controller: true}\n", wait=None)
        self.rig.wait(lambda r: r["state"] == "disconnected" and "is starting, which may take 10000 ms" in r["text"])
        self.rig.wait(lambda r: r["state"] == "ready")

    def test_an_end_does_not_wait_for_one_that_starts(self):
        self.start("echo $$ > pid; exec sleep 600\n".replace("pid", f"{self.folder}/pid"),
                   ", timeout_ms: 200, start_timeout_ms: 60000", wait=None)
        self.rig.wait(lambda r: "is starting" in r["text"])
        pid, begin = self.pid(), time.monotonic()
        self.assertEqual(self.rig.program.stop(), 0)
        self.assertLess(time.monotonic() - begin, 30)
        self.until_ended(pid)


if __name__ == "__main__":
    unittest.main()
