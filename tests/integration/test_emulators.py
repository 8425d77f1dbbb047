# SPDX-License-Identifier: MIT
"""Emulated stage controllers, spoken to as the makers' documents say (tools/stage-emulator/README.md): what a
controller answers, what it refuses, what faults do, and how long bytes take."""
from __future__ import annotations

import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import tty
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = SOURCE / "tools/stage-emulator/driftd-stage-emulator"
BIN = pathlib.Path(os.environ.get("DRIFTD_BIN", SOURCE / "build/release/bin"))
SLOW = float(os.environ.get("DRIFTD_TEST_SLOWNESS", "1"))
PATIENCE_S = 10 * SLOW
sys.path.insert(0, str(PROGRAM.parent))
from driftd_stage_emulator.program import KINDS, make_stage, parser  # noqa: E402
from driftd_stage_emulator.journal import Journal  # noqa: E402
from driftd_stage_emulator.stage import QUEUE, REFUSE, Axis, Stage, StageSettings  # noqa: E402

MS = 1_000_000


class Emulated:
    """A running emulator with a client's connection to it. Its axes are where they are sent, at once and
    without noise: how late a busy machine lets a test look changes nothing."""

    def __init__(self, test: unittest.TestCase, kind: str, *arguments, pty: bool = False,
                 connect: bool = True):
        self.folder = pathlib.Path(test.enter(tempfile.TemporaryDirectory(prefix="driftd-emulator-")))
        self.control_path = self.folder / "control"
        self.link = self.folder / "tty"
        wire = ["--pty", self.link] if pty else ["--listen", "127.0.0.1:0"]
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [str(each) for each in (sys.executable, PROGRAM, kind, *wire, "--control", self.control_path,
                                        "--noise", "0", "--tau-ms", "0", *arguments)],
                stdout=subprocess.PIPE, stderr=log, text=True)
        test.addCleanup(self.stop)
        self.ready = self.child.stdout.readline()
        test.assertIn(f"driftd-stage-emulator ready: {kind} at ", self.ready, self.text())
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        test.addCleanup(self.control.close)
        self.control.bind("")
        self.control.settimeout(PATIENCE_S)
        self.control.connect(str(self.control_path))
        self.port = 0 if pty else int(re.search(r"tcp://127\.0\.0\.1:(\d+)", self.ready)[1])
        self.wire = None
        test.addCleanup(self.hang_up)
        if connect:
            self.connect(*(["B115200"] if pty else []))

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> int:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        code = self.child.wait(PATIENCE_S)
        self.child.stdout.close()
        return code

    def hang_up(self) -> None:
        if self.wire is not None:
            os.close(self.wire)
            self.wire = None

    def connect(self, speed: str = "") -> None:
        """The client's end as a file descriptor."""
        self.hang_up()
        if not self.port:
            self.wire = os.open(self.link, os.O_RDWR | os.O_NOCTTY)
            tty.setraw(self.wire)
            attributes = termios.tcgetattr(self.wire)
            attributes[4] = attributes[5] = getattr(termios, speed)
            termios.tcsetattr(self.wire, termios.TCSANOW, attributes)
            return
        self.wire = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S).detach()
        os.set_blocking(self.wire, True)

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.wire, data):]

    def receive(self, wait_s: float) -> bytes | None:
        """What comes next. b"": the other end closed. None: nothing came."""
        if not select.select([self.wire], [], [], wait_s)[0]:
            return None
        try:
            return os.read(self.wire, 4096)
        except OSError:  # a pty that is gone; a connection that was reset
            return b""

    def ask(self, data: bytes, end: bytes = b"\n", count: int = 1) -> bytes:
        """Sends, and waits for an answer that ends in `end` and has `count` of them."""
        self.send(data)
        answer, deadline = b"", time.monotonic() + PATIENCE_S
        while not (answer.endswith(end) and answer.count(end) >= count):
            more = self.receive(max(0.0, deadline - time.monotonic()))
            if not more:
                raise AssertionError(f"{data!r} was answered by {answer!r} only\n{self.text()}")
            answer += more
        return answer

    def ask_bytes(self, data: bytes, length: int) -> bytes:
        self.send(data)
        answer, deadline = b"", time.monotonic() + PATIENCE_S
        while len(answer) < length:
            more = self.receive(max(0.0, deadline - time.monotonic()))
            if not more:
                raise AssertionError(f"{data!r} was answered by {answer!r} only\n{self.text()}")
            answer += more
        return answer

    def fault(self, text: str) -> str:
        self.control.send(text.encode())
        return self.control.recv(1 << 20).decode()

    def stats(self, count: int = 1000) -> dict:
        return json.loads(self.fault(f"stats {count}"))

    def wait_stats(self, condition, what: str) -> dict:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(stats := self.stats()):
            if time.monotonic() > deadline:
                raise AssertionError(f"never: {what}: {stats}\n{self.text()}")
            time.sleep(0.01)
        return stats


class EmulatorTest(unittest.TestCase):
    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def emulated(self, kind: str, *arguments, **keywords) -> Emulated:
        return Emulated(self, kind, *arguments, **keywords)

    def assert_silent(self, device: Emulated) -> None:
        """Nothing came for longer than any answer takes on loopback."""
        self.assertIsNone(device.receive(0.05 * SLOW))


class PhysikInstrumente(EmulatorTest):
    """PI MS249E, 8.1 and 8.7."""

    def error(self, device: Emulated) -> int:
        return int(device.ask(b"ERR?\n"))

    def test_a_controller_is_asked_who_it_is_and_how_far_it_goes(self):
        device = self.emulated("pi_gcs2", "--range", -50000, 50000, "--axes", "X,Y,Z")
        self.assertEqual(len(device.ask(b"*IDN?\n").split(b",")), 4)
        self.assertEqual(device.ask(b"CSV?\n"), b"2.0\n")
        self.assertEqual(device.ask(b"SAI?\n", count=3), b"X \nY \nZ\n")
        self.assertEqual(device.ask(b"TMN? X Y\n", count=2), b"X=-50.0000 \nY=-50.0000\n")
        self.assertEqual(device.ask(b"TMX? Y\n"), b"Y=50.0000\n")
        self.assertEqual(device.ask(b"PUN? Z\n"), b"Z=um\n")
        self.assertEqual(device.ask(b"POS?\n", count=3), b"X=0.0000 \nY=0.0000 \nZ=0.0000\n")
        self.assertEqual(self.error(device), 0)

    def test_servos_are_off_at_power_on_and_moves_refused(self):
        device = self.emulated("pi_gcs2")
        self.assertEqual(device.ask(b"SVO? 1 2\n", count=2), b"1=0 \n2=0\n")
        device.send(b"MOV 1 60 2 40\n")
        self.assertEqual(self.error(device), 5)
        self.assertEqual(self.error(device), 0)  # reading cleared it
        device.send(b"SVO 1 1\nMOV 1 60 2 40\n")  # axis 2 still off: neither moves
        self.assertEqual(self.error(device), 5)
        self.assertEqual(device.ask(b"MOV? 1\n"), b"1=50.0000\n")
        device.send(b"SVO 2 1\nMOV 1 60.1234 2 40\n")
        self.assertEqual(self.error(device), 0)
        device.wait_stats(lambda stats: stats["moves"] == 1, "the move")
        self.assertEqual(device.ask(b"POS? 2 1\n", count=2), b"2=40.0000 \n1=60.1234\n")
        deadline = time.monotonic() + PATIENCE_S
        while device.ask(b"ONT? 1\n") != b"1=1\n":
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(device.stats()["syntax_errors"], 0)

    def test_one_illegal_target_stops_the_whole_line(self):
        device = self.emulated("pi_gcs2", "--servo-on")
        device.send(b"MOV 1 60 2 100.1\n")
        self.assertEqual(self.error(device), 7)
        self.assertEqual(device.ask(b"MOV? 1\n"), b"1=50.0000\n")
        stats = device.stats()
        self.assertEqual((stats["moves"], stats["refused"], stats["syntax_errors"]), (0, 1, 0))

    def test_mistakes_have_the_codes_of_the_manual_and_no_answer(self):
        device = self.emulated("pi_gcs2", "--servo-on")
        for line, code in ((b"MOV 1 60\r\n", 1), (b"mov 1 60\n", 2), (b"MOV 1\n", 24), (b"MOV\n", 24),
                           (b"MOV 9 60\n", 15), (b"POS? 9\n", 15), (b"MOV 1 60 1 61\n", 22),
                           (b"MOV 1 60,5\n", 25), (b"MOV 1 nan\n", 25), (b"SVO 1 2\n", 17),
                           (b"FRF 1\n", 2), (b" MOV 1 60\n", 1), (b"\n", 1), (b"x" * 600 + b"\n", 2)):
            with self.subTest(line):
                before = device.stats()["syntax_errors"]
                device.send(line)
                if len(line) < 600:  # too long a line is cut, and its rest is another mistake
                    self.assertEqual(self.error(device), code)
                    self.assertEqual(device.stats()["syntax_errors"], before + 1)
                else:
                    self.assertIn(self.error(device), (2, 3))
        self.assertEqual(device.stats()["moves"], 0)

    def test_single_bytes_need_no_line_feed(self):
        device = self.emulated("pi_gcs2", "--servo-on", "--tau-ms", 200)
        self.assertEqual(device.ask(b"\x07"), b"\xb1\n")
        self.assertEqual(device.ask(b"\x05"), b"0\n")
        self.assertEqual(device.ask(b"MOV 1 90\n\x05"), b"1\n")  # axis 1 moves: bit 0
        self.assertEqual(device.ask(b"ONT?\n", count=2), b"1=0 \n2=1\n")
        device.send(b"\x18")
        self.assertEqual(self.error(device), 10)
        place = float(device.ask(b"MOV? 1\n").split(b"=")[1])
        self.assertTrue(50 <= place < 90, place)  # it stayed where it was on its way

    def test_motor_controllers_want_a_reference_first(self):
        device = self.emulated("pi_gcs2", "--servo-on", "--reference", "--unit", "mm")
        self.assertEqual(device.ask(b"FRF? 1\n"), b"1=0\n")
        device.send(b"MOV 1 0.06\n")
        self.assertEqual(self.error(device), 5)
        device.send(b"FRF\n")
        self.assertEqual(device.ask(b"\x07"), b"\xb0\n")
        deadline = time.monotonic() + PATIENCE_S
        while device.ask(b"\x07") == b"\xb0\n":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        device.send(b"MOV 1 0.06\n")
        self.assertEqual(self.error(device), 0)
        self.assertEqual(device.ask(b"MOV? 1\n"), b"1=0.0600000\n")

    def test_faults_show_in_the_error_register(self):
        device = self.emulated("pi_gcs2", "--servo-on")
        self.assertEqual(device.fault("servo_off"), "ok")
        self.assertEqual(device.ask(b"SVO? 1\n"), b"1=0\n")
        self.assertEqual(self.error(device), 1024)
        device.fault("error 72")
        self.assertEqual(self.error(device), 72)
        device.send(b"SVO 1 1\n")
        device.fault("range 40000 60000")
        self.assertEqual(device.ask(b"TMX? 1\n"), b"1=60.0000\n")
        device.send(b"MOV 1 60.5\n")
        self.assertEqual(self.error(device), 7)
        self.assertIn("error: expected one of", device.fault("explode"))
        self.assertIn("error: expected one of", device.fault("range 1"))

    def test_a_move_during_a_move_can_be_refused(self):
        device = self.emulated("pi_gcs2", "--servo-on", "--during-move", "refuse", "--tau-ms", 100)
        device.send(b"MOV 1 60\nMOV 1 61\n")
        self.assertEqual(self.error(device), 93)
        self.assertEqual(device.ask(b"MOV? 1\n"), b"1=60.0000\n")


class NPoint(EmulatorTest):
    """motorNPoint LC400MotorDriver.cpp, LC400MemoryAddr.h."""

    CHANNEL = 0x11831000

    def read(self, device: Emulated, offset: int, channel: int = 1) -> int:
        address = self.CHANNEL + (channel - 1) * 0x1000 + offset
        answer = device.ask_bytes(struct.pack("<BIB", 0xA0, address, 0x55), 10)
        command, again, value, end = struct.unpack("<BIiB", answer)
        self.assertEqual((command, again, end), (0xA0, address, 0x55))
        return value

    def write(self, device: Emulated, offset: int, value: int, channel: int = 1) -> None:
        device.send(struct.pack("<BIiB", 0xA2, self.CHANNEL + (channel - 1) * 0x1000 + offset, value, 0x55))

    def test_a_target_is_read_back_and_reached(self):
        device = self.emulated("lc400", "--servo-on")
        self.assertEqual(self.read(device, 0x078), 100)  # um
        self.assertEqual(self.read(device, 0x084), 1)
        self.write(device, 0x218, 10486, channel=2)  # 1 um
        self.assertEqual(self.read(device, 0x218, channel=2), 10486)
        self.assertEqual(self.read(device, 0x334, channel=2), 10486)
        self.assertEqual(self.read(device, 0x334, channel=1), 0)
        self.write(device, 0x218, -524287)
        self.assertEqual(self.read(device, 0x218), -524287)
        stats = device.stats()
        self.assertEqual(stats["moves"], 2)
        self.assertAlmostEqual(stats["targets_nm"][0][1], 1000.04, delta=0.1)
        self.assertEqual(stats["syntax_errors"], 0)

    def test_open_loop_notes_a_target_and_stays(self):
        device = self.emulated("lc400")
        self.assertEqual(self.read(device, 0x084), 0)
        self.write(device, 0x218, 10486)
        self.assertEqual(self.read(device, 0x218), 10486)
        self.assertEqual(self.read(device, 0x334), 0)
        self.write(device, 0x084, 1)
        self.assertEqual(self.read(device, 0x334), 10486)

    def test_arrays_and_following_words(self):
        device = self.emulated("lc400")
        firmware = device.ask_bytes(struct.pack("<BIIB", 0xA4, 0x11830028, 5, 0x55), 26)
        self.assertEqual(firmware[0], 0xA4)
        self.assertTrue(firmware[5:25].startswith(b"LC403"))
        self.assertEqual(firmware[25], 0x55)
        low, high = struct.unpack("<ii", struct.pack("<d", 123.456))
        self.write(device, 0x728, low)
        device.send(struct.pack("<BiB", 0xA3, high, 0x55))
        gain = device.ask_bytes(struct.pack("<BIIB", 0xA4, self.CHANNEL + 0x728, 2, 0x55), 14)
        self.assertEqual(struct.unpack_from("<d", gain, 5)[0], 123.456)
        channels = device.ask_bytes(struct.pack("<BIB", 0xA0, 0x118303A0, 0x55), 10)
        self.assertEqual(~channels[5] & 0x3F, 0b11)  # inverted: two

    def test_targets_beyond_the_range(self):
        clamping = self.emulated("lc400", "--servo-on")
        self.write(clamping, 0x218, 600000)
        self.assertEqual(self.read(clamping, 0x218), 524287)
        ignoring = self.emulated("lc400", "--servo-on", "--beyond", "ignore")
        self.write(ignoring, 0x218, 600000)
        self.assertEqual(self.read(ignoring, 0x218), 0)
        ignoring.fault("range -1000 1000")
        self.write(ignoring, 0x218, 10486 + 50)
        self.assertEqual(self.read(ignoring, 0x218), 0)
        self.write(ignoring, 0x218, 10400)
        self.assertEqual(self.read(ignoring, 0x218), 10400)

    def test_wrong_frames_are_dropped_and_counted(self):
        device = self.emulated("lc400")
        for wrong in (b"\x00", struct.pack("<BIB", 0xA0, self.CHANNEL, 0x56),
                      struct.pack("<BiB", 0xA3, 5, 0x55), struct.pack("<BIiB", 0xA2, 0x12345678, 1, 0x55)):
            with self.subTest(wrong):
                before = device.stats()["syntax_errors"]
                device.send(wrong)
                self.assertEqual(self.read(device, 0x078), 100)  # it is in step again
                self.assertGreater(device.stats()["syntax_errors"], before)
        self.assertEqual(device.stats()["moves"], 0)


class Asi(EmulatorTest):
    """TG-1000 instruction manual; asiimaging.com docs."""

    def ask(self, device: Emulated, text: str) -> str:
        return device.ask(text.encode() + b"\r", b"\r\n").decode().strip()

    def test_moves_in_tenths_of_micrometres(self):
        device = self.emulated("asi", "--piezo")
        self.assertEqual(self.ask(device, "M X=123.45 Y=-56"), ":A")
        deadline = time.monotonic() + PATIENCE_S
        while self.ask(device, "/") != "N":
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(self.ask(device, "VB Z=2"), ":A")
        self.assertEqual(self.ask(device, "W X Y"), ":A 123.45 -56.00")
        self.assertEqual(self.ask(device, "w y"), ":A -56.00")  # not case-sensitive
        self.assertEqual(self.ask(device, "R Y=1"), ":A")
        self.assertEqual(device.stats()["targets_nm"], [[12345.0, -5600.0], [12345.0, -5500.0]])
        self.assertEqual(self.ask(device, "M X Y=7"), ":A")  # a number not given is 0
        self.assertEqual(device.stats()["target_nm"], [0.0, 700.0])
        self.assertEqual(self.ask(device, "PM X?"), ":A X=0")

    def test_what_a_driver_asks_at_the_start(self):
        device = self.emulated("asi")
        self.assertTrue(self.ask(device, "V").startswith(":A v"))
        self.assertEqual(self.ask(device, "SL X?"), ":A X=-5.000000")
        self.assertEqual(self.ask(device, "SU Y?"), ":A Y=5.000000")
        self.assertEqual(self.ask(device, "UM X?"), ":X=10000.000000")
        build = self.ask(device, "BU X").split("\r")
        self.assertEqual(build[:3], ["TIGER_COMM", "Motor Axes: X Y", "Axis Types: x x"])
        self.assertEqual(self.ask(device, "1VB F=0"), ":A")
        self.assertEqual(device.stats()["syntax_errors"], 0)

    def test_busy_halt_and_the_motor_switch(self):
        device = self.emulated("asi", "--tau-ms", 200)
        self.assertEqual(self.ask(device, "RS X?"), ":A N")
        self.assertEqual(self.ask(device, "M X=10000"), ":A")
        self.assertEqual(self.ask(device, "RS X?"), ":A B")
        self.assertEqual(self.ask(device, "RS Y?"), ":A N")
        self.assertTrue(self.ask(device, "/").startswith("B"))
        self.assertEqual(self.ask(device, "\\"), ":N-21")
        self.assertEqual(self.ask(device, "MC X-"), ":A")
        self.assertEqual(self.ask(device, "MC X?"), ":A 0")
        moves = device.stats()["moves"]
        self.assertEqual(self.ask(device, "M X=0"), ":A")
        self.assertEqual(device.stats()["moves"], moves)

    def test_error_codes(self):
        device = self.emulated("asi", "--range", -50000, 50000)
        for text, code in (("FOO", -1), ("", -1), ("M X=1\n", -1), ("M Q=1", -2), ("M", -3), ("W", -3),
                           ("M X=501", -4), ("M X=1e2", -4), ("M X=1,5", -4), ("M X= 5", -2)):
            with self.subTest(text):
                self.assertEqual(self.ask(device, text), f":N{code}")
        self.assertEqual(device.stats()["moves"], 0)

    def test_an_ms2000_is_slower_and_knows_less(self):
        device = self.emulated("asi", "--model", "ms2000")
        self.assertIn("9600 baud", device.ready)
        self.assertTrue(self.ask(device, "V").startswith(":A Version: USB-"))
        self.assertEqual(self.ask(device, "RS X?"), ":N-2")


class Piezoconcept(EmulatorTest):
    """Piezo_concept_LF2.py; micro-manager PIEZOCONCEPT.cpp."""

    def test_moves_are_acknowledged_and_places_have_a_unit(self):
        device = self.emulated("piezoconcept")
        self.assertEqual(device.ask(b"VERS_\n"), b"Version 3.1.1\n")
        self.assertEqual(device.ask(b"INFOX\n"), b"L,100\n")
        self.assertEqual(device.ask(b"MOVEX 51.000u\n"), b"Ok\n")
        self.assertEqual(device.ask(b"MOXYZ 52u 48000n 50.0u\n"), b"Ok\n")
        self.assertEqual(device.ask(b"MOVRY -500n\n"), b"Ok\n")
        value, unit = device.ask(b"GET_Y\n").split()
        self.assertEqual(unit, b"um")
        self.assertAlmostEqual(float(value), 47.5, delta=0.5 * 100 / 65535 + 1e-4)  # half a step
        self.assertEqual(device.stats()["target_nm"], [52000, 47500, 50000])
        self.assertEqual(device.stats()["syntax_errors"], 0)

    def test_anything_but_ok_is_an_error(self):
        device = self.emulated("piezoconcept", "--error-text", "Nein")
        for line in (b"MOVEX 100.1u\n", b"MOVEX -1n\n", b"MOVEX 50\n", b"MOVEX 50um\n", b"MOVEX 5e1u\n",
                     b"MOVEX  50u\n", b"MOVEX 50u\r\n", b"MOVEX 50u 50u\n", b"MOXYZ 50u 50u\n",
                     b"movex 50u\n", b"MOVEQ 5u\n", b"\n", b"GET_X 1\n"):
            with self.subTest(line):
                self.assertEqual(device.ask(line), b"Nein\n")
        stats = device.stats()
        self.assertEqual((stats["moves"], stats["refused"], stats["syntax_errors"]), (0, 2, 11))

    def test_answers_can_be_switched_off(self):
        device = self.emulated("piezoconcept")
        device.send(b"REOFF\nMOVEX 51u\nGET_X\n")
        device.wait_stats(lambda stats: stats["moves"] == 1, "the move")
        self.assert_silent(device)
        self.assertEqual(device.ask(b"SERIE\n"), b"00000001\n")
        self.assertEqual(device.ask(b"RE_ON\n"), b"Ok\n")
        self.assertEqual(device.ask(b"_RAZ_\n"), b"Ok\n")
        self.assertAlmostEqual(float(device.ask(b"GET_X\n").split()[0]), 0, delta=0.001)

    def test_a_stage_that_no_longer_follows_goes_on_saying_ok(self):
        device = self.emulated("piezoconcept")
        device.fault("servo_off")
        self.assertEqual(device.ask(b"MOVEX 60u\n"), b"Ok\n")
        self.assertAlmostEqual(float(device.ask(b"GET_X\n").split()[0]), 50, delta=0.001)


class ThorlabsApt(EmulatorTest):
    """Thorlabs Motion Controllers Host-Controller Communications Protocol."""

    def short(self, message: int, one: int = 0, two: int = 0, to: int = 0x21) -> bytes:
        return struct.pack("<HBBBB", message, one, two, to, 0x01)

    def move(self, position: int, to: int = 0x21, channel: int = 1) -> bytes:
        return struct.pack("<HHBBHH", 0x0646, 4, to | 0x80, 0x01, channel, position)

    def status(self, device: Emulated, to: int = 0x21):
        answer = device.ask_bytes(self.short(0x0660, 1, to=to), 16)
        header = struct.unpack_from("<HHBB", answer)
        self.assertEqual(header, (0x0661, 10, 0x81, to))
        return struct.unpack_from("<HhhL", answer, 6)

    def test_a_rack_tells_its_bays_and_travel(self):
        device = self.emulated("thorlabs_apt")
        info = device.ask_bytes(self.short(0x0005, to=0x11), 90)
        self.assertEqual(struct.unpack_from("<HHBB", info), (0x0006, 84, 0x81, 0x11))
        self.assertEqual(info[10:18].rstrip(b"\0"), b"BPC303")
        self.assertEqual(device.ask_bytes(self.short(0x0060, 1, to=0x11), 6), b"\x61\x00\x01\x01\x01\x11")
        self.assertEqual(device.ask_bytes(self.short(0x0060, 2, to=0x11), 6), b"\x61\x00\x02\x02\x01\x11")
        travel = device.ask_bytes(self.short(0x0650, 1, to=0x22), 10)
        self.assertEqual(travel, b"\x51\x06\x04\x00\x81\x22\x01\x00\xc8\x00")  # 200 * 100 nm
        self.assertEqual(device.stats()["syntax_errors"], 0)

    def test_moves_are_ignored_in_open_loop(self):
        device = self.emulated("thorlabs_apt")
        device.send(self.move(20000))
        self.assertEqual(self.status(device)[3] & 0x400, 0)
        self.assertEqual(device.stats()["refused"], 1)
        self.assertEqual(device.ask_bytes(self.short(0x0641, 1), 6), b"\x42\x06\x01\x01\x01\x21")
        device.send(self.short(0x0640, 1, 2) + self.move(20000))
        channel, _, position, bits = self.status(device)
        self.assertEqual((channel, position, bits & 0x400), (1, 20000, 0x400))
        self.assertEqual(self.status(device, to=0x22)[2], 16384)  # the other bay stayed
        position = device.ask_bytes(self.short(0x0647, 1), 10)
        self.assertEqual(position, b"\x48\x06\x04\x00\x81\x21\x01\x00" + struct.pack("<H", 20000))
        self.assertEqual(device.stats()["syntax_errors"], 0)

    def test_wrong_messages_are_not_answered(self):
        device = self.emulated("thorlabs_apt", "--servo-on")
        for wrong in (self.short(0x0661, 1), self.move(40000), self.move(1, to=0x50), self.move(1, to=0x11),
                      self.move(1, channel=2), self.move(1)[:4] + b"\x21" + self.move(1)[5:],
                      struct.pack("<HHBBH", 0x0646, 2, 0xA1, 1, 1), struct.pack("<HBBBB", 0x0660, 1, 0, 0x21, 7),
                      self.short(0x0640, 1, 9)):
            with self.subTest(wrong.hex()):
                before = device.stats()["syntax_errors"]
                device.send(wrong)
                self.assertEqual(self.status(device)[0], 1)  # it is in step again, and this is the next answer
                self.assertGreater(device.stats()["syntax_errors"], before)
        self.assertEqual(device.stats()["moves"], 0)

    def test_zeroing_takes_its_time_and_the_stage_with_it(self):
        device = self.emulated("thorlabs_apt", "--servo-on")
        device.send(self.short(0x0658, 1))
        self.assertEqual(self.status(device)[3] & 0x30, 0x20)
        device.send(self.move(20000))
        self.assertEqual(self.status(device)[2], 0)
        deadline = time.monotonic() + PATIENCE_S
        while self.status(device)[3] & 0x30 != 0x10:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_updates_come_unasked_and_an_error_too(self):
        device = self.emulated("thorlabs_apt")
        device.send(self.short(0x0011, to=0x11))
        updates = device.ask_bytes(b"", 64)  # two of both bays
        self.assertEqual([updates[at:at + 2] for at in range(0, 64, 16)], [b"\x61\x06"] * 4)
        self.assertEqual([updates[at + 5] for at in range(0, 64, 16)], [0x21, 0x22, 0x21, 0x22])
        device.send(self.short(0x0012, to=0x11))
        while device.receive(0.3 * SLOW):
            pass
        self.assert_silent(device)
        device.fault("error 7")
        rich = device.ask_bytes(b"", 74)
        self.assertEqual(struct.unpack_from("<HHBBHH", rich), (0x0081, 68, 0x81, 0x21, 0, 7))

    def test_updates_end_without_acknowledgement(self):
        options = parser().parse_args(["thorlabs_apt", "--listen", "127.0.0.1:0"])
        kind, journal = KINDS["thorlabs_apt"], Journal("thorlabs_apt")
        for acknowledged, expected in ((False, 50), (True, 80)):
            stage = make_stage(kind, options, journal)
            controller = kind(stage, journal, options)
            controller.power_on(0)
            controller.handle(self.short(0x0011, to=0x11), 0, 0)
            sent = 0
            for now_ns in range(0, 8_000_000_001, 100 * MS):
                sent += bool(controller.tick(now_ns))
                if acknowledged and now_ns % 1_000_000_000 == 0:
                    controller.handle(self.short(0x0662, to=0x11), now_ns, now_ns)
            self.assertEqual(sent, expected)

    def test_a_k_cube_is_one_channel_at_its_own_address(self):
        device = self.emulated("thorlabs_apt", "--model", "kpz101", "--servo-on")
        device.send(self.move(1000, to=0x50))
        self.assertEqual(self.status(device, to=0x50)[2], 1000)


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
        self.assertLess(took_s, (6 + len(answer)) * 10 / 1200 + 0.2 * SLOW)

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
        begin = time.monotonic()
        for _ in range(10):
            device.ask(b"ERR?\n")
        self.assertLess(time.monotonic() - begin, 0.2 * SLOW)

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
        self.assertTrue(self.refused(device))
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
        device.fault("unplug 0.3")
        self.assertFalse(os.path.lexists(device.link))
        self.assertEqual(device.receive(PATIENCE_S), b"")
        deadline = time.monotonic() + PATIENCE_S
        while not os.path.lexists(device.link):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
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
        device.fault("mute 1.5")
        device.send(b"MOVEX 60u\n")
        device.wait_stats(lambda stats: stats["moves"] == 1, "the move")
        self.assert_silent(device)
        time.sleep(1.5)
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
        self.assertEqual((stats["moves"], stats["moves_per_s"], stats["clients"]), (3, 3, 1))
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
        time.sleep(0.2 * SLOW)
        x_nm, y_nm = self.place(path)[:2]
        self.assertAlmostEqual(x_nm, 300, delta=5)
        self.assertAlmostEqual(y_nm, -100, delta=5)
        places = [float(line.split(b"=")[1]) for line in device.ask(b"POS?\n", count=2).splitlines()]
        self.assertAlmostEqual(places[0], 50.3, delta=0.005)
        self.assertAlmostEqual(places[1], 49.9, delta=0.005)
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
