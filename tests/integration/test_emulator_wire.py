# SPDX-License-Identifier: MIT
"""What all emulated stage controllers share (tools/stage-emulator/README.md): how long bytes take, what faults
do, how an axis answers, and a real driftd-sim behind it."""
from __future__ import annotations

import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from emulated import BIN, MS, PATIENCE_S, PROGRAM, SOURCE, Emulated, EmulatorTest

from driftd_stage_emulator.stage import QUEUE, REFUSE, Axis, Stage, StageSettings
from driftd_stage_emulator.transport import TCGETS2, TERMIOS2

TCSETS2, BOTHER, CBAUD = 0x402C542B, 0o010000, 0o010017  # <asm/termbits.h>

class Wire(EmulatorTest):
    def test_bytes_take_their_time_on_the_line(self):
        for baud in (115200, 57600):
            with self.subTest(baud):
                device = self.emulated("pi_gcs2", "--servo-on", "--baud", baud)
                line = b"MOV 1 50.1234 2 49.8765\n"
                count = baud // 400
                device.send(line * count)
                stats = device.wait_stats(lambda seen: seen["moves"] == count, "all moves")
                seconds = (stats["moves_ns"][-1] - stats["moves_ns"][0]) * 1e-9
                kept = len(stats["moves_ns"])
                self.assertAlmostEqual((kept - 1) / seconds / (baud / 10 / len(line)), 1, delta=0.05)

    def test_answers_take_their_time_too(self):
        device = self.emulated("piezoconcept", "--baud", 1200)
        begin = time.monotonic()
        answer = device.ask(b"INFOX\n")
        self.assertGreaterEqual(time.monotonic() - begin, (6 + len(answer)) * 10 / 1200)
        begin = time.monotonic()
        answer = device.ask(b"INFOS\n", count=5)
        took_s = time.monotonic() - begin
        self.assertGreaterEqual(took_s, (6 + len(answer)) * 10 / 1200)
        self.assertLess(took_s, 2 * (6 + len(answer)) * 10 / 1200)  # a busy machine asks and reads late

    def test_a_client_that_sends_too_much_has_to_wait(self):
        device = self.emulated("pi_gcs2", "--servo-on", "--latency-ms", 10, "--buffer", 256)
        os.set_blocking(device.wire, False)

        deadline = time.monotonic() + PATIENCE_S
        with self.assertRaises(BlockingIOError):  # the kernel's buffers are full
            while time.monotonic() < deadline:
                os.write(device.wire, b"MOV 1 50.1234\n" * 1000)
        waiting = [device.stats(0)["waiting_bytes"] for _ in range(20)]
        self.assertGreater(max(waiting), 0)
        self.assertLessEqual(max(waiting), 256 + 4096)  # it reads 4096 at once

    def test_latency_holds_back_carrying_out_and_answering(self):
        device = self.emulated("pi_gcs2", "--latency-ms", 40)
        begin = time.monotonic()
        device.ask(b"ERR?\n")
        self.assertGreaterEqual(time.monotonic() - begin, 0.04)
        begin = time.monotonic()
        device.ask(b"ERR?\nERR?\nERR?\n", count=3)  # one after the other
        self.assertGreaterEqual(time.monotonic() - begin, 0.12)
        device.fault("latency 0")
        took_s = []
        for _ in range(20):
            begin = time.monotonic()
            device.ask(b"ERR?\n")
            took_s.append(time.monotonic() - begin)
        self.assertLess(min(took_s), 0.04)

    def test_one_client_at_a_time(self):
        device = self.emulated("pi_gcs2")
        device.ask(b"ERR?\n")
        with socket.create_connection(("127.0.0.1", device.port), timeout=PATIENCE_S) as second:
            self.assertEqual(second.recv(1), b"")
        self.assertEqual(device.ask(b"ERR?\n"), b"0\n")
        device.connect()
        self.assertEqual(device.ask(b"ERR?\n"), b"0\n")

    def test_a_pty_speaks_like_a_port(self):
        device = self.emulated("pi_gcs2", "--servo-on", pty=True)
        self.assertIn(f"at {device.link}, 115200 baud", device.ready)
        self.assertEqual(device.ask(b"MOV 1 60\nMOV? 1\n"), b"1=60.0000\n")
        device.connect("B115200")
        self.assertEqual(device.ask(b"MOV? 1\n"), b"1=60.0000\n")
        self.assertEqual(device.stop(), 0)
        self.assertFalse(os.path.lexists(device.link))
        self.assertFalse(os.path.lexists(device.control_path))

    def test_a_wrong_speed_is_no_connection(self):
        device = self.emulated("pi_gcs2", pty=True)
        device.connect("B9600")
        device.send(b"ERR?\n")
        stats = device.wait_stats(lambda seen: seen["syntax_errors"], "the wrong speed")
        self.assertIn("set to 9600 baud, the device's to 115200", stats["last_syntax_error"])
        device.connect("B115200")
        self.assertEqual(device.ask(b"ERR?\n"), b"0\n")

    def test_a_speed_without_a_name(self):
        device = self.emulated("pi_gcs2", "--baud", 250000, pty=True)
        for speed in (240000, 250000):
            line = list(TERMIOS2.unpack(fcntl.ioctl(device.wire, TCGETS2, bytes(TERMIOS2.size))))
            line[2] = line[2] & ~CBAUD | BOTHER
            line[-2:] = speed, speed
            fcntl.ioctl(device.wire, TCSETS2, TERMIOS2.pack(*line))
            if speed == 240000:
                device.send(b"ERR?\n")
                stats = device.wait_stats(lambda seen: seen["syntax_errors"], "the wrong speed")
                self.assertIn("set to 240000 baud, the device's to 250000", stats["last_syntax_error"])
        self.assertEqual(device.ask(b"ERR?\n"), b"0\n")

    def test_a_fresh_tty_is_not_raw(self):
        device = self.emulated("pi_gcs2", "--cooked", pty=True, connect=False)
        wire = os.open(device.link, os.O_RDWR | os.O_NOCTTY)
        self.addCleanup(os.close, wire)
        self.assertTrue(termios.tcgetattr(wire)[3] & termios.ECHO)

    def test_strict_ends_at_the_first_mistake(self):
        for kind, wrong in (("pi_gcs2", b"MOV 1 60\r\n"), ("lc400", b"\x00"), ("asi", b"M X=1\n\r"),
                            ("piezoconcept", b"MOVEX 50\n"), ("thorlabs_apt", b"\x00" * 6)):
            with self.subTest(kind):
                device = self.emulated(kind, "--strict")
                device.send(wrong)
                self.assertEqual(device.child.wait(PATIENCE_S), 1)
                self.assertIn("ended by --strict: ", device.text())

    def test_addresses_that_cannot_be_had(self):
        taken = self.enter(socket.socket())
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        folder = self.enter(tempfile.TemporaryDirectory())
        file = pathlib.Path(folder, "file")
        file.write_text("precious")
        for arguments, code in ((["--listen", f"127.0.0.1:{taken.getsockname()[1]}"], 1),
                                (["--pty", file], 1), (["--listen", "127.0.0.1:0", "--control", file], 1),
                                (["--listen", "nowhere"], 2), ([], 2),
                                (["--listen", "127.0.0.1:0", "--range", "5", "4"], 2)):
            with self.subTest(arguments):
                child = subprocess.run([sys.executable, PROGRAM, "pi_gcs2", *map(str, arguments)],
                                       capture_output=True, text=True, timeout=PATIENCE_S)
                self.assertEqual(child.returncode, code, child.stderr)
                self.assertTrue(child.stderr)
        self.assertEqual(file.read_text(), "precious")


class Faults(EmulatorTest):
    def refused(self, device: Emulated) -> bool:
        try:
            socket.create_connection(("127.0.0.1", device.port), timeout=PATIENCE_S).close()
        except ConnectionRefusedError:
            return True
        return False

    def test_unplugged_it_is_gone_and_comes_back(self):
        device = self.emulated("pi_gcs2", "--servo-on")
        device.ask(b"MOV 1 60\nERR?\n")
        begin = time.monotonic()
        self.assertEqual(device.fault("unplug 0.5"), "ok")
        self.assertEqual(device.receive(PATIENCE_S), b"")
        while self.refused(device):
            self.assertLess(time.monotonic() - begin, PATIENCE_S)
            time.sleep(0.02)
        self.assertGreaterEqual(time.monotonic() - begin, 0.5)
        device.connect()
        self.assertEqual(device.ask(b"MOV? 1\n"), b"1=60.0000\n")  # it had its power all the time
        self.assertEqual(device.ask(b"SVO? 1\n"), b"1=1\n")

    def test_an_unplugged_pty_hides_its_link(self):
        device = self.emulated("pi_gcs2", "--servo-on", pty=True)
        device.ask(b"ERR?\n")
        begin = time.monotonic()
        device.fault("unplug 0.3")
        self.assertEqual(device.receive(PATIENCE_S), b"")
        deadline = time.monotonic() + PATIENCE_S
        while not os.path.lexists(device.link):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        device.connect("B115200")
        self.assertEqual(device.ask(b"ERR?\n"), b"0\n")

    def test_a_power_cycle_forgets_servos_and_place(self):
        device = self.emulated("pi_gcs2", "--servo-on", "--power-on", "bottom")
        device.ask(b"MOV 1 60\nERR?\n")
        device.fault("restart 0.1")
        self.assertEqual(device.receive(PATIENCE_S), b"")
        deadline = time.monotonic() + PATIENCE_S
        while self.refused(device):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        device.connect()
        self.assertEqual(device.ask(b"SVO? 1\n"), b"1=0\n")
        self.assertEqual(device.ask(b"POS? 1\n"), b"1=0.0000\n")
        device.send(b"MOV 1 60\n")
        self.assertEqual(device.ask(b"ERR?\n"), b"5\n")

    def test_mute_it_obeys_and_says_nothing(self):
        device = self.emulated("piezoconcept")
        device.fault("mute 0.5")
        device.send(b"MOVEX 60u\n")
        device.wait_stats(lambda stats: stats["moves"] == 1, "the move")
        self.assert_silent(device)
        time.sleep(0.5)
        self.assertEqual(device.ask(b"MOVEX 61u\n"), b"Ok\n")

    def test_garbage_comes_unasked(self):
        device = self.emulated("pi_gcs2")
        device.fault("garbage 20")
        garbage = device.ask_bytes(b"", 20)
        self.assertEqual(len(garbage), 20)
        self.assertEqual(device.ask(b"ERR?\n"), b"0\n")

    def test_counts_tell_when_moves_were_there(self):
        device = self.emulated("piezoconcept")
        before = time.monotonic_ns()
        for nm in (50100, 50200, 50300):
            device.ask(b"MOVEX %dn\n" % nm)
        after = time.monotonic_ns()
        stats = device.stats(2)
        self.assertEqual((stats["moves"], stats["clients"]), (3, 1))
        if time.monotonic_ns() - before < 1e9:
            self.assertEqual(stats["moves_per_s"], 3)
        self.assertEqual([targets[0] for targets in stats["targets_nm"]], [50200, 50300])
        first, second = stats["moves_ns"]
        self.assertTrue(before < first < second < after)


class AxisModel(unittest.TestCase):
    def stage(self, **settings) -> Stage:
        stage = Stage([Axis("1", 0, 1000, 0, servo=True), Axis("2", 0, 1000, 0, servo=True)],
                      StageSettings(noise_nm=0, **settings), (0, 0))
        stage.place_at_once((0, 0), -10 ** 12)
        return stage

    def test_it_answers_as_a_low_pass_behind_a_dead_time(self):
        stage = self.stage(tau_ns=2 * MS, dead_ns=3 * MS)
        self.assertTrue(stage.move([(0, 100.0)], 0))
        self.assertEqual(stage.place_nm(0, 3 * MS), 0)
        self.assertAlmostEqual(stage.place_nm(0, 5 * MS), 63.21, places=2)  # 1 - 1/e
        stage.move([(0, 0.0)], 5 * MS)  # replaced on its way, 3 ms later
        self.assertAlmostEqual(stage.place_nm(0, 8 * MS), 91.79, places=2)  # 1 - exp(-2.5)
        self.assertAlmostEqual(stage.place_nm(0, 10 * MS), 33.77, places=2)

    def test_moves_do_not_pile_up_when_nobody_asks(self):
        stage = self.stage(dead_ns=3 * MS)
        for i in range(1000):
            stage.move([(0, float(i))], i * 2 * MS)
        self.assertLessEqual(len(stage.axes[0].coming), 2)

    def test_on_target_is_within_the_window_for_the_settling_time(self):
        stage = self.stage(tau_ns=1 * MS, window_nm=10, settle_ns=5 * MS)
        stage.move([(0, 100.0)], 0)
        self.assertFalse(stage.on_target(0, 7_302_000))  # ln(10) = 2.3026 time constants, and 5 ms
        self.assertTrue(stage.on_target(0, 7_303_000))
        self.assertTrue(stage.on_target(1, 0))
        stage.move([(0, 109.0)], 20 * MS)  # a step within the window never leaves it
        self.assertTrue(stage.on_target(0, 20 * MS))

    def test_a_move_during_a_move_replaces_waits_or_is_refused(self):
        refusing = self.stage(during=REFUSE)
        self.assertTrue(refusing.move([(0, 500.0)], 0))
        self.assertFalse(refusing.move([(0, 600.0), (1, 5.0)], 1 * MS))
        self.assertEqual([axis.target_nm for axis in refusing.axes], [500, 0])
        self.assertTrue(refusing.move([(0, 600.0)], 100 * MS))

        queueing = self.stage(during=QUEUE)
        for nm in (500.0, 600.0, 700.0):
            self.assertTrue(queueing.move([(0, nm)], 0))
        targets, now_ns = [500.0], 0
        while (now_ns := queueing.next_event_ns(now_ns)) is not None:
            queueing.advance(now_ns)
            if queueing.axes[0].target_nm != targets[-1]:
                targets.append(queueing.axes[0].target_nm)
                before = 500.0 if len(targets) == 2 else 600.0
                self.assertAlmostEqual(queueing.place_nm(0, now_ns), before, delta=10)
        self.assertEqual(targets, [500, 600, 700])


class PassThrough(EmulatorTest):
    """A real driftd-sim behind the emulated controller."""

    def simulator(self, path: pathlib.Path):
        # An address that no other test process has, out of the way of harness.loopback_address().
        pid = os.getpid()
        address = f"127.{251 + pid // 62500 % 4}.{1 + pid // 250 % 250}.{1 + pid % 250}"
        child = subprocess.Popen([BIN / "driftd-sim", "--scenario", SOURCE / "config/examples/scenario-demo.yaml",
                                  "--address", address, "--stage-input", path, "--quiet"],
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(lambda: child.poll() is None and child.kill())
        self.assertIn("ready", child.stdout.readline())
        return child

    def place(self, path: pathlib.Path) -> list[float]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.bind("")
            client.settimeout(PATIENCE_S)
            client.connect(str(path))
            client.send(b"read")
            return [float(word) for word in client.recv(256).split()]

    def test_targets_reach_the_simulated_stage_and_its_place_is_read(self):
        folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        path = folder / "stage"
        self.simulator(path)
        device = self.emulated("pi_gcs2", "--servo-on", "--sim", path)
        device.ask(b"MOV 1 50.3 2 49.9\nERR?\n")
        self.assertEqual(self.place(path)[2:], [300, -100])  # the middle of the range is 0
        deadline = time.monotonic() + PATIENCE_S
        while True:  # it needs some milliseconds, and rings
            there = [nm / 1000 + 50 for nm in self.place(path)[:2]]
            told = [float(line.split(b"=")[1]) for line in device.ask(b"POS?\n", count=2).splitlines()]
            if all(abs(x - 50.3) < 0.005 and abs(y - 49.9) < 0.005 for x, y in (there, told)):
                break
            self.assertLess(time.monotonic(), deadline, (there, told))
        device.ask(b"MOV 2 50.1\nERR?\n")  # one axis alone leaves the other where it was sent
        self.assertEqual(self.place(path)[2:], [300, 100])
        device.send(b"MOV 1 200\n")  # refused: nothing moves
        self.assertEqual(device.ask(b"ERR?\n"), b"7\n")
        self.assertEqual(self.place(path)[2:], [300, 100])

    def test_another_zero_and_a_power_cycle(self):
        folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        path = folder / "stage"
        self.simulator(path)
        device = self.emulated("lc400", "--servo-on", "--sim", path, "--zero", 1000, -500)
        self.assertEqual(self.place(path)[2:], [0, 0])
        device.send(struct.pack("<BIiB", 0xA2, 0x11831218, 0, 0x55))
        device.wait_stats(lambda stats: stats["moves"] == 1, "the move")
        self.assertEqual(self.place(path)[2:], [-1000, 0])
        device.fault("restart 0.1")
        self.assertEqual(self.place(path)[2:], [0, 0])

    def test_it_bears_that_the_simulator_goes(self):
        folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        path = folder / "stage"
        simulator = self.simulator(path)
        device = self.emulated("piezoconcept", "--sim", path)
        self.assertEqual(device.ask(b"MOVEX 50.1u\n"), b"Ok\n")
        simulator.terminate()
        simulator.wait(PATIENCE_S)
        self.assertEqual(device.ask(b"MOVEX 50.2u\n"), b"Ok\n")
        self.assertEqual(device.stats()["sim_failures"], 1)
        self.assertIn("driftd-sim is not reached", device.text())
        self.simulator(path)
        self.assertEqual(device.ask(b"MOVEX 50.3u\n"), b"Ok\n")
        self.assertAlmostEqual(self.place(path)[2], 300, delta=1)


if __name__ == "__main__":
    unittest.main()
