# SPDX-License-Identifier: MIT
"""Each emulated stage controller, spoken to as the makers' documents say (tools/stage-emulator/README.md): what it
answers and what it refuses."""
from __future__ import annotations

import struct
import time
import unittest

from emulated import MS, PATIENCE_S, SLOW, Emulated, EmulatorTest

from driftd_stage_emulator.journal import Journal
from driftd_stage_emulator.program import KINDS, make_stage, parser


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


if __name__ == "__main__":
    unittest.main()
