# SPDX-License-Identifier: MIT
"""`driftctl calibrate` against a daemon that is played: what it prints, writes, asks, and how it ends."""
import glob
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from fake_calibration import FakeCalibration, nulls, result  # prints SKIPPED and exits without pyzmq

DRIFTCTL = os.environ.get("DRIFTCTL") or os.path.join(os.environ["DRIFTD_BIN"], "driftctl")
DONE, REFUSED, USAGE, UNREACHABLE, FAILED = range(5)
CONFIG = """\
# my instrument
optics:
  pixel_size_nm: 100      # 6.5 um / 65

stage:
  image_to_stage: [[1, 0],   # x
                   [0, 1]]   # y
  delay_us: 3000
"""
WRITTEN = """\
control:
  proportional: 0
  integral: 0.35
stage:
  image_to_stage: [[-0.9925, 0.1219], [0.1217, 0.993]]
  delay_us: 3104
  time_constant_us: 1010
  acquaint: held
"""
LARGER = [[1.03, 0.0], [0.0, 1.03]]


def larger():
    """A run in which all lengths come out larger by 3 %."""
    return result(image_to_stage=LARGER, mirrored=False, rotation_deg=0.0,
                  proposal={"stage": {"image_to_stage": LARGER}, "control": {}, "residual_nm": 0.5})


class Calibrate(unittest.TestCase):
    def setUp(self):
        self.daemon = FakeCalibration()
        self.addCleanup(self.close_daemon)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.config = self.file("driftd.yaml", CONFIG)
        self.drop_ins = self.config + ".d"
        self.written = os.path.join(self.drop_ins, "stage-calibration.yaml")

    def close_daemon(self):
        if self.daemon:
            self.daemon.close()
        self.daemon = None

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def values(self):
        """What was written, without the comments at its head."""
        return "".join(line for line in self.read(self.written).splitlines(True) if not line.startswith("#"))

    def command(self, *arguments):
        return [DRIFTCTL, "--commands", self.daemon.endpoint, "calibrate", *arguments]

    def run_it(self, *arguments, **how):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=90,
                              stdin=subprocess.DEVNULL, **how)

    def start(self, *arguments, **how):
        process = subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **how)
        self.addCleanup(process.kill)
        return process

    def until(self, condition):
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertTrue(condition())

    def assert_untouched(self):
        self.assertEqual(os.listdir(self.folder), ["driftd.yaml"])
        self.assertEqual(self.read(self.config), CONFIG)

    def test_a_run_is_told(self):
        done = self.run_it("--excursion", "80", "--seconds", "15")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertEqual(self.daemon.commands(), [{"command": "calibrate", "excursion_nm": 80, "seconds": 15}])
        self.assertIn("dead time                    3104 us       40 us     3000 us\n", done.stdout)
        self.assertIn("and waiting                 200 us for the turn of a command", done.stdout)
        self.assertIn("stage.delay_us:         3104                     instead of 3000", done.stdout)
        self.assertIn("The stage moves by up to 100 nm each way for about 20 s", done.stderr)
        self.assertIn("\n 50 %  moving\n", done.stderr)
        self.assertNotIn("\033", done.stderr + done.stdout)
        self.assert_untouched()

    def test_without_options_the_daemon_chooses(self):
        self.run_it()
        self.assertEqual(self.daemon.commands(), [{"command": "calibrate"}])

    def test_json_is_what_came(self):
        done = self.run_it("--json")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertEqual(json.loads(done.stdout)["result"], result())

    def test_what_is_written_is_a_file_of_its_own_beside_the_one_before(self):
        self.daemon.status["stage_driver"] = {"driver": "pi_gcs2", "description": "PI E-727 0123"}
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertEqual(self.read(self.config), CONFIG)
        self.assertEqual(os.listdir(self.drop_ins), ["stage-calibration.yaml"])
        self.assertEqual(self.values(), WRITTEN)
        head = self.read(self.written)
        for line in ("Camera: driftd simulator SIM01 at 127.0.0.1", "Stage: pi_gcs2 (PI E-727 0123)",
                     f"  stage.delay_us: 3000  ({self.config}:8)", f"  stage.image_to_stage: [[1, 0], [0, 1]]  ({self.config}:6)"):
            self.assertIn(f"\n# {line}\n", head)
        self.assertRegex(head, r"\A# Measured by `driftctl calibrate --write`, 20[0-9T:+-]+\.\n")
        self.assertTrue(done.stderr.endswith(
            f"Written to {self.written}.\ndriftd takes it over on reload (`systemctl reload driftd`, or SIGHUP) while the "
            "lock is idle.\n"), done.stderr)

        # What driftd runs with then, and another result.
        present = self.daemon.words[-1]["result"]["present"]
        present.update(image_to_stage=[[-0.9925, 0.1219], [0.1217, 0.993]], delay_us=3104, time_constant_us=1010,
                       integral=0.35, proportional=0, residual_nm=0.53)
        self.daemon.words[-1]["result"]["proposal"]["stage"]["delay_us"] = 3200
        done = self.run_it("--config", "driftd.yaml", "--write", cwd=self.folder)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertEqual(self.values(), WRITTEN.replace("3104", "3200"))
        (old,) = glob.glob(self.written + ".before-*")
        self.assertEqual(self.read(old), head)
        self.assertIn(f"Written to driftd.yaml.d/stage-calibration.yaml; the one before is {old}.", done.stderr)
        self.assertIn("\n#   stage.delay_us: 3000  (driftd.yaml:8)\n", self.read(self.written))

    def test_a_later_drop_in_that_takes_the_place_of_a_value_is_told(self):
        os.mkdir(self.drop_ins)
        later = self.file("driftd.yaml.d/zz.yaml", "stage: {time_constant_us: 1000}\n")
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertIn(f"A later drop-in takes the place of stage.time_constant_us ({later}:1): what was written of it has "
                      "no effect.\n", done.stderr)
        self.assertIn("driftd takes it over on reload", done.stderr)
        before = self.daemon.words[-1]["result"]["present"]
        self.file("driftd.yaml.d/zz.yaml", "stage: {time_constant_us: 1000, delay_us: 3000, image_to_stage: [[1, 0], [0, 1]],\n"
                  " acquaint: first}\n"
                  f"control: {{integral: {before['integral']}, proportional: {before['proportional']}}}\n")
        os.remove(self.written)
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertNotIn("takes it over", done.stderr)  # there is nothing to take over
        self.assertTrue(done.stderr.endswith("what was written of it has no effect.\n"), done.stderr)

    def test_drop_ins_count_for_what_driftd_runs_with(self):
        os.mkdir(self.drop_ins)
        mine = self.file("driftd.yaml.d/mine.yaml", "stage: {delay_us: 2000}\n")
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("stage.delay_us is 2000 there and 3000 in driftd", done.stderr)
        self.file("driftd.yaml.d/mine.yaml", "stage: {delay_us: much}\n")
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn(f"{mine}:1:", done.stderr)
        self.assertEqual(os.listdir(self.drop_ins), ["mine.yaml"])

    def test_what_is_there_already_is_not_written(self):
        self.config = self.file("driftd.yaml", WRITTEN)
        self.daemon.words[-1]["result"]["present"] = {
            "image_to_stage": [[-0.9925, 0.1219], [0.1217, 0.993]], "delay_us": 3104, "time_constant_us": 1010,
            "integral": 0.35, "proportional": 0, "residual_nm": 0.53}
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, DONE)
        self.assertIn("nothing was written", done.stderr)
        self.assertEqual(os.listdir(self.folder), ["driftd.yaml"])

    def test_a_file_with_another_pixel_size_is_not_written(self):
        text = CONFIG.replace("pixel_size_nm: 100 ", "pixel_size_nm: 50 ")
        self.config = self.file("driftd.yaml", text)
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("optics.pixel_size_nm is 50 there and 100 in driftd", done.stderr)
        self.assertEqual(self.read(self.config), text)

    def test_a_file_with_another_stage_or_controller_is_not_written(self):
        for key, value in (("image_to_stage", [[1, 0.001], [0, 1]]), ("delay_us", 2999), ("time_constant_us", 1100),
                           ("resonance_hz", 40), ("damping", 0.3),
                           ("integral", 0.2), ("proportional", 0.1)):
            with self.subTest(key=key):
                self.daemon.words = [{"phase": "done", "result": result()}]
                self.daemon.words[0]["result"]["present"][key] = value
                done = self.run_it("--config", self.config, "--write", "--yes")
                self.assertEqual(done.returncode, FAILED)
                self.assertRegex(done.stderr, rf"is not what driftd runs with: (stage|control)\.{key} is ")
                self.assertNotIn(" there and ", done.stderr.split(" in driftd")[1])
                self.assert_untouched()

    def test_the_same_numbers_after_a_sum_are_the_same(self):
        self.daemon.words[-1]["result"]["present"]["delay_us"] = 3000.0001
        self.assertEqual(self.run_it("--config", self.config, "--write").returncode, DONE)
        self.assertEqual(self.values(), WRITTEN)

    def test_the_file_of_another_camera_is_found_out_before_the_stage_moves(self):
        for camera, code in (("127.0.0.2", FAILED), ('"4711"', FAILED), ("127.0.0.1", DONE), ("SIM01", DONE),
                             ("a name of the user's", DONE)):
            with self.subTest(camera=camera):
                self.daemon.requests.clear()
                self.daemon.words = [{"phase": "done", "result": result()}]
                self.config = self.file("driftd.yaml", CONFIG + f"camera:\n  id: {camera}\n")
                shutil.rmtree(self.drop_ins, ignore_errors=True)
                done = self.run_it("--config", self.config, "--write")
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("camera.id is" in done.stderr, code == FAILED)
                self.assertEqual(bool(self.daemon.commands()), code == DONE)

    def test_a_full_disk_is_found_out_before_the_stage_moves(self):
        def full():
            """As on a full disk, also for root: no file grows beyond some bytes."""
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        process = self.start("--config", self.config, "--write", preexec_fn=full, restore_signals=False)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, FAILED)
        self.assertIn("cannot write", errors)
        self.assertEqual(self.daemon.commands(), [])
        self.assert_untouched()

    def test_what_would_be_worse_is_not_written(self):
        self.daemon.words[-1]["result"]["proposal"]["residual_nm"] = 2.6
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("Nothing is proposed: a lock would leave 2.60 nm, and 2.10 nm as configured.", done.stdout)
        self.assertIn("as configured; nothing was written", done.stderr)
        self.assert_untouched()

    def test_values_that_driftd_would_not_take_are_not_written(self):
        self.daemon.words[-1]["result"]["proposal"]["control"]["integral"] = 0
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("control.integral: found 0", done.stderr)
        self.assert_untouched()

    def test_nothing_known_and_nothing_proposed(self):
        self.daemon.words[-1]["result"] = nulls()
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("Nothing is proposed.", done.stdout)
        self.assert_untouched()

    def test_the_picture_is_xml_with_three_curves(self):
        picture = os.path.join(self.folder, "step.svg")
        done = self.run_it("--plot", picture)
        self.assertEqual(done.returncode, DONE, done.stderr)
        root = xml.etree.ElementTree.parse(picture).getroot()
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, space + "svg")
        self.assertEqual(len(root.findall(space + "path")), 3)
        words = [text.text for text in root.findall(space + "text")]
        for word in ("x, measured", "model", "time since the command (ms)", "dead time 3.30 ms, bandwidth 149 Hz"):
            self.assertIn(word, words)

    def test_a_picture_that_cannot_be_written_is_found_out_before_the_stage_moves(self):
        picture = os.path.join(self.folder, "step.svg")
        os.mkdir(picture)
        done = self.run_it("--plot", picture)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual(self.daemon.commands(), [])

    def test_where_the_picture_fails_the_configuration_stays(self):
        picture = os.path.join(self.folder, "step.svg")
        os.symlink("/dev/full", picture)
        done = self.run_it("--plot", picture, "--config", self.config, "--write")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("cannot write " + picture, done.stderr)
        os.unlink(picture)
        self.assert_untouched()

    def test_no_picture_without_a_response(self):
        del self.daemon.words[-1]["result"]["response"]
        done = self.run_it("--plot", os.path.join(self.folder, "step.svg"))
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("no step response", done.stderr)
        self.assert_untouched()

    def test_wrong_usage_moves_nothing(self):
        for arguments in (["--write"], ["--plot", "a.png"], ["--plot", "/no/folder/a.svg"],
                          ["--excursion", "nan"], ["--seconds", "0"], ["--config", "/no/file"]):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, USAGE, arguments)
        self.assertEqual(self.daemon.requests, [])

    def test_the_refusal_of_the_command(self):
        self.daemon.start = {"ok": False, "error": "the lock is not idle", "code": "refused"}
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual((done.returncode, done.stderr), (REFUSED, "driftctl: the lock is not idle\n"))
        self.assert_untouched()

    def test_the_refusal_of_what_was_found(self):
        self.daemon.words[-1] = {"phase": "refused", "text": "The stage does not move in y."}
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, REFUSED)
        self.assertTrue(done.stderr.endswith("driftctl: The stage does not move in y.\n"), done.stderr)
        self.assertEqual(done.stdout, "")
        self.assert_untouched()

    def test_a_failure(self):
        self.daemon.words[-1] = {"phase": "failed", "text": "the camera is gone", "progress": None}
        done = self.run_it()
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("the calibration failed: the camera is gone", done.stderr)

    def test_ctrl_c_waits_until_the_stage_is_back(self):
        self.daemon.words = [{"phase": "moving", "progress": 0.4}]
        self.daemon.words_after_stop = [{"phase": "returning", "progress": 0.1 * i} for i in range(5)]
        self.daemon.words_after_stop.append({"phase": "stopped", "text": "by command; the stage is at its start"})
        process = self.start("--config", self.config, "--write")
        self.until(lambda: len(self.daemon.requests) > 3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, FAILED)
        self.assertEqual(self.daemon.commands()[1:], [{"command": "calibrate", "stop": True}])
        self.assertIn("stopped: by command; the stage is at its start; nothing was written", errors)
        self.assertEqual(len(self.daemon.words), 1, "all words were heard")
        self.assert_untouched()

    def test_ctrl_c_twice_does_not_wait(self):
        self.daemon.words = [{"phase": "moving", "progress": 0.4}]
        self.daemon.words_after_stop = [{"phase": "returning"}]
        process = self.start()
        self.until(lambda: len(self.daemon.requests) > 3)
        process.send_signal(signal.SIGINT)
        self.until(lambda: self.daemon.stopped)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(process.returncode, FAILED)
        self.assertIn("driftd was told to stop; until driftd has brought it back the stage may stand up to 100 nm",
                      errors)

    def test_ctrl_c_twice_ends_a_wait_for_an_answer(self):
        self.daemon.words = [{"phase": "moving", "progress": 0.4}]
        self.daemon.words_after_stop = [None]
        process = self.start("--timeout", "60")
        self.until(lambda: len(self.daemon.requests) > 3)
        process.send_signal(signal.SIGINT)
        self.until(lambda: self.daemon.stopped)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, FAILED)

    def test_stopped_by_another(self):
        self.daemon.words[-1] = {"phase": "stopped", "text": "unlocked"}
        done = self.run_it()
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("stopped by another: unlocked", done.stderr)

    def test_the_daemon_vanishes(self):
        self.daemon.words = [{"phase": "moving", "progress": 0.4}]
        process = self.start("--timeout", "0.5", "--config", self.config, "--write")
        self.until(lambda: len(self.daemon.requests) > 3)
        self.close_daemon()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, UNREACHABLE)
        self.assertIn("in the middle of the calibration: the stage may stand up to 100 nm from its start", errors)
        self.assert_untouched()

    def test_the_daemon_vanishes_while_it_fits(self):
        self.daemon.words = [{"phase": "fitting"}]
        process = self.start("--timeout", "0.5")
        self.until(lambda: len(self.daemon.requests) > 3)
        self.close_daemon()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, UNREACHABLE)
        self.assertIn("in the middle of the calibration: the stage is back at its start; nothing was written", errors)

    def test_an_answer_that_is_late_is_waited_for(self):
        self.daemon.words.insert(1, None)
        done = self.run_it("--timeout", "1")
        self.assertEqual(done.returncode, DONE, done.stderr)

    def test_a_daemon_that_was_restarted(self):
        for word in ({"phase": "none", "run": 0}, {"phase": "moving", "run": 8}):
            self.daemon.words = [{"phase": "moving"}, word]
            done = self.run_it()
            self.assertEqual(done.returncode, FAILED)
            self.assertIn("driftd knows this calibration no longer", done.stderr)

    def test_a_daemon_that_is_stuck_is_told_to_stop(self):
        self.daemon.words = self.daemon.words_after_stop = [{"phase": "moving", "progress": 0.4}]
        done = self.run_it("--timeout", "1")
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertRegex(done.stderr, r"has told nothing new for [0-9]+ s \(phase moving\)")
        self.assertEqual(self.daemon.commands()[-1], {"command": "calibrate", "stop": True})

    def test_a_fit_that_takes_long_is_waited_for(self):
        self.daemon.words = [{"phase": "fitting"}]
        process = self.start("--timeout", "0.5")
        time.sleep(9)  # more than fifteen of these
        self.assertIsNone(process.poll())
        self.daemon.words = [{"phase": "done", "result": result()}]
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, DONE, errors)
        self.assertEqual(self.daemon.commands(), [{"command": "calibrate"}])

    def test_garbage_in_the_middle_stops_the_run(self):
        for word in (b"\xff not JSON", b"[]", {"ok": False, "error": "broken"}, {"phase": "dancing"},
                     {"phase": 5}, {"progress": "much", "phase": "moving"}, {"run": None, "phase": "moving"},
                     {"phase": "done", "result": None}, {"phase": "done", "result": [1]}):
            with self.subTest(word=word):
                self.daemon.words = [{"phase": "moving"}, word]
                done = self.run_it("--config", self.config, "--write")
                self.assertEqual(done.returncode, REFUSED, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                self.assertIn("driftctl: ", done.stderr)
                if not (isinstance(word, dict) and word.get("phase") == "done"):
                    self.assertEqual(self.daemon.commands()[-1], {"command": "calibrate", "stop": True})
                    self.assertIn("driftd was told to stop", done.stderr)
                self.assert_untouched()

    def test_garbage_instead_of_a_start_stops_the_run(self):
        self.daemon.start = {"ok": True}
        done = self.run_it()
        self.assertEqual(done.returncode, REFUSED)
        self.assertEqual(self.daemon.commands()[-1], {"command": "calibrate", "stop": True})

    def test_garbage_in_the_result(self):
        self.daemon.words[-1]["result"]["delay_us"] = "soon"
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn("docs/reference/protocol.md", done.stderr)
        self.assert_untouched()

    def test_control_characters_do_not_reach_the_terminal(self):
        self.daemon.words.insert(0, {"phase": "moving", "text": "a\x1b[2Jb\nc"})
        self.assertIn("moving: a [2Jb c\n", self.run_it().stderr)

    def test_the_pixel_size_is_proposed_on_request_only(self):
        self.daemon.words[-1]["result"] = larger()
        done = self.run_it("--config", self.config, "--write")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertIn("- The stage is right: a pixel is 103.000 nm instead of 100 nm.", done.stdout)
        self.assertIn("--pixel-size-from-stage", done.stdout)
        self.assertNotIn("pixel_size_nm", self.values())
        self.assertIn("[[1.03, 0],", self.values())

    def test_the_pixel_size_from_the_stage(self):
        self.daemon.words[-1]["result"] = larger()
        done = self.run_it("--config", self.config, "--write", "--pixel-size-from-stage")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertIn("optics:\n  pixel_size_nm: 103\n", self.values())
        self.assertIn("Restart driftd: it takes over optics.pixel_size_nm", done.stderr)

    def on_terminal(self, answers, *arguments):
        """Runs it on a terminal, types an answer at each question, and returns the exit code and all text."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen(self.command(*arguments), stdin=slave, stdout=slave, stderr=slave)
        self.addCleanup(process.kill)
        os.close(slave)
        seen, asked, end = b"", 0, time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([master], [], [], 0.05)[0]:
                try:
                    data = os.read(master, 4096)
                except OSError:  # the other end is closed
                    break
                seen += data
            if seen.count(b"[y/N] ") > asked and asked < len(answers):
                if answers[asked] is signal.SIGINT:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(master, answers[asked])
                asked += 1
        return process.wait(timeout=60), seen.decode()

    def test_on_a_terminal_one_line_is_written_anew(self):
        code, seen = self.on_terminal([])
        self.assertEqual(code, DONE)
        self.assertIn("\r\033[K[##########..........]  50 %  moving", seen)
        self.assertIn("\r\033[Kdone\r\n", seen)

    def test_on_a_terminal_it_asks_before_it_writes(self):
        code, seen = self.on_terminal([b"n\n"], "--config", self.config, "--write")
        self.assertEqual(code, DONE)
        self.assertIn("Nothing was written.", seen)
        self.assert_untouched()
        self.daemon.words = [{"phase": "done", "result": result()}]
        self.on_terminal([b"y\n"], "--config", self.config, "--write")
        self.assertEqual(self.values(), WRITTEN)

    def test_on_a_terminal_it_asks_with_json_too(self):
        _, seen = self.on_terminal([b"n\n"], "--json", "--config", self.config, "--write")
        self.assertIn("Write this to " + self.written + "? [y/N]", seen)
        self.assert_untouched()

    def test_on_a_terminal_it_asks_which_is_right(self):
        self.daemon.words[-1]["result"] = larger()
        code, seen = self.on_terminal([b"y\n", b"\n"], "--config", self.config, "--write")
        self.assertEqual(code, DONE)
        self.assertIn("Is the stage right, so that a pixel is 103.000 nm? [y/N]", seen)
        self.assertIn("optics.pixel_size_nm:   103", seen)
        self.assert_untouched()

    def test_yes_asks_nothing(self):
        self.daemon.words[-1]["result"] = larger()
        code, seen = self.on_terminal([], "--config", self.config, "--write", "--yes")
        self.assertEqual(code, DONE)
        self.assertNotIn("[y/N]", seen)
        self.assertIn("[[1.03, 0],", self.values())

    def test_ctrl_c_at_a_question_writes_nothing(self):
        code, seen = self.on_terminal([signal.SIGINT], "--config", self.config, "--write")
        self.assertEqual(code, FAILED)
        self.assertIn("interrupted; nothing was written", seen)
        self.assert_untouched()


if __name__ == "__main__":
    unittest.main()
