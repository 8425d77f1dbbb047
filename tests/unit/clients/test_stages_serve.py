# SPDX-License-Identifier: MIT
"""The loop that answers driftd-stage's lines with a stage's calls: its words, and what a stage may do wrong."""
import io
import subprocess
import sys
import time
import unittest

try:
    import zmq  # noqa: F401
except ImportError:
    print("SKIPPED: python3-zmq is not installed")
    sys.exit(0)

from driftd import stages
from driftd.stages.serve import serve

LATER_NS = time.monotonic_ns() + 3600 * 10**9
CONNECTED = ("hello 1", "axis #1", "axis #2")


class FakeStage(stages.Stage):
    """Is at once where it is sent. `fail` maps a call's name to what it raises."""

    def __init__(self):
        self.place_nm = [1000.0, 2000.5]
        self.axes = [stages.Axis("1", 0, 100_000, 0.1), stages.Axis("Piezo Y", None, None, None, False)]
        self.fail, self.calls = {}, []
        self.now = stages.Health()

    def _call(self, name):
        self.calls.append(name)
        if name in self.fail:
            raise self.fail[name]

    def connect(self):
        self._call("connect")
        return self.axes

    def description(self):
        return "fake stage,\n serial 7"

    def move_to(self, positions_nm):
        self._call("move_to")
        self.place_nm = positions_nm

    def read(self):
        self._call("read")
        return self.place_nm

    def health(self):
        self._call("health")
        return self.now


class Serving(unittest.TestCase):
    def setUp(self):
        self.stage = FakeStage()

    def ask(self, *requests):
        """The answers, one for each."""
        answers = io.StringIO()
        serve(self.stage, (request + "\n" for request in requests), answers)
        lines = answers.getvalue().split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertEqual(len(lines), len(requests))
        return lines

    def connected(self, *requests):
        return self.ask(*CONNECTED, *requests)[len(CONNECTED):]

    def test_a_stage_is_opened_and_its_axes_told(self):
        self.assertEqual(self.ask("hello 1", "axis Piezo Y", "axis 1"), [
            "hello 1 python: fake stage, serial 7", "axis - - - open Piezo Y", "axis 0.0 100000.0 0.1 closed 1"])
        self.assertEqual(self.stage.calls, ["connect"])  # and nothing moved

    def test_targets_and_positions_are_in_the_order_in_which_the_axes_were_asked_for(self):
        move = f"move 3.5 -4 {LATER_NS}"
        self.assertEqual(self.connected("read", move, "read"), ["place 1000.0 2000.5", "ok", "place 3.5 -4.0"])
        self.assertEqual(self.stage.place_nm, (3.5, -4.0))
        self.assertEqual(self.ask("hello 1", "axis Piezo Y", "axis #1", move, "read")[3:], ["ok", "place 3.5 -4.0"])
        self.assertEqual(self.stage.place_nm, (-4.0, 3.5))

    def test_an_axis_that_is_named_as_a_number_is_told_from_the_first(self):
        self.stage.axes = [stages.Axis("2"), stages.Axis("1")]
        self.assertEqual(self.ask("hello 1", "axis #1", "axis #2")[1:], ["axis - - - closed 2", "axis - - - closed 1"])
        self.assertEqual(self.ask("hello 1", "axis 1", "axis 2")[1:], ["axis - - - closed 1", "axis - - - closed 2"])

    def test_a_target_that_came_too_late_is_not_sent(self):
        self.assertEqual(self.connected(f"move 1 2 {time.monotonic_ns() - 1}"), ["late"])
        self.assertNotIn("move_to", self.stage.calls)

    def test_targets_for_other_axes_than_were_asked_for_are_not_sent(self):
        for requests in (["hello 1", "axis 1", f"move 1 2 {LATER_NS}"], ["hello 1", f"move {LATER_NS}"],
                         [*CONNECTED, f"move 1 {LATER_NS}"]):
            self.assertEqual(self.ask(*requests)[-1],
                             "gone move: ValueError: each axis that was asked for has a target")
        self.assertNotIn("move_to", self.stage.calls)

    def test_of_three_axes_some_may_stay(self):
        self.stage.axes, self.stage.place_nm = [stages.Axis(name) for name in ("X", "Y", "Z")], [1.0, 2.0, 3.0]
        asked = ("hello 1", "axis X", "axis Y", "axis Z")
        self.assertEqual(self.ask(*asked, "read", f"move 4 5 6.5 {LATER_NS}")[4:], ["place 1.0 2.0 3.0", "ok"])
        self.assertEqual(self.stage.place_nm, (4.0, 5.0, 6.5))
        self.ask(*asked, f"move - - 7 {LATER_NS}")
        self.assertEqual(self.stage.place_nm, (None, None, 7.0))
        self.ask("hello 1", "axis Z", f"move 8 {LATER_NS}")
        self.assertEqual(self.stage.place_nm, (None, None, 8.0))
        self.stage.axes, self.stage.place_nm = [stages.Axis("Z")], [3.0]
        self.assertEqual(self.ask("hello 1", "axis #1", "read")[2], "place 3.0")

    def test_health_has_its_words(self):
        for health, line in ((stages.Health(), "health ready - 0"),
                             (stages.Health("servo_off", "by its\nbutton", 5, False),
                              "health servo_off no 5 by its button"),
                             (stages.Health("error", "", -3, True), "health error yes -3"),
                             (stages.Health("ready", None, True, 1), "health ready yes 1")):
            self.stage.now = health
            self.assertEqual(self.connected("health"), [line])

    def test_a_refusal_has_its_code(self):
        self.stage.fail = {"move_to": stages.Refused("target out\nof limits", 7)}
        self.assertEqual(self.connected(f"move 1 2 {LATER_NS}", "health"),
                         ["refused 7 target out of limits", "health ready - 0"])

    def test_what_a_call_raises_is_a_stage_that_is_gone_and_goes_on(self):
        for call, request in (("connect", "hello 1"), ("read", "read"), ("health", "health"),
                              ("move_to", f"move 1 2 {LATER_NS}")):
            self.stage.fail = {}
            self.connected()
            self.stage.fail = {call: OSError("cable pulled")}
            word = request.split()[0]
            answers = io.StringIO()
            serve(self.stage, [*(() if call == "connect" else CONNECTED), request, "nonsense"], answers)
            self.assertEqual(answers.getvalue().splitlines()[-2:], [
                f"gone {word}: OSError: cable pulled",
                "gone nonsense: ValueError: driftd-stage asks for what this version of driftd.stages does not know"])

    def test_a_refusal_of_what_is_no_target_is_a_stage_that_is_gone(self):
        for call, request in (("connect", "hello 1"), ("read", "read"), ("health", "health")):
            self.stage.fail = {}
            self.connected()
            self.stage.fail = {call: stages.Refused("not now", 7)}
            self.assertEqual(self.ask(*(() if call == "connect" else CONNECTED), request)[-1],
                             f"gone {request.split()[0]}: Refused: not now")

    def test_values_that_make_no_sense_are_faults(self):
        for place in ([1.0], [1, 2, 3], None, "ab"):
            self.stage.place_nm = place
            self.assertRegex(self.connected("read")[0], "^gone read: (Type|Value)Error: ")
        self.stage.place_nm = [1.0, float("nan")]
        self.assertEqual(self.connected("read"), ["place 1.0 nan"])  # which driftd-stage takes for no place
        for health in (stages.Health("fine"), None):
            self.stage.now = health
            self.assertRegex(self.connected("health")[0],
                             r"^gone health: ValueError: health\(\) returned .* none of ready,")

    def test_what_no_axis_has_is_not_known(self):
        self.stage.axes = [stages.Axis("1", -float("inf"), float("inf"), float("nan")), stages.Axis(2, None, 5e3)]
        self.assertEqual(self.ask("hello 1", "axis 1", "axis 2")[1:],
                         ["axis - - - closed 1", "axis - 5000.0 - closed 2"])

    def test_what_can_never_work_is_the_last_answer(self):
        one, two, three = (stages.Axis(name) for name in "abc")
        for axes, requests, text in (
                ([], ["hello 1"], "a stage has one to three axes for driftd, this one has 0"),
                ([one, two, three, one], ["hello 1"], "this one has 4"),
                ([one, two], ["hello 1", "axis #3"], "axis `#3` is to be moved, but the stage has a and b"),
                ([one, two], ["hello 1", "axis c"], "axis `c` is to be moved, but the stage has a and b"),
                ([one, two], ["hello 1", "axis a", "axis #1"], "one each"),
                ([stages.Axis("a", 5, 5), two], ["hello 1", "axis a"], "axis `a` has a travel of 5 to 5 nm"),
                ([stages.Axis("a", 5, -5), two], ["hello 1", "axis a"], "a travel of 5 to -5 nm")):
            self.stage.axes, answers = axes, io.StringIO()
            with self.assertRaisesRegex(stages.SettingsError, text):
                serve(self.stage, requests, answers)
            self.assertIn(text, answers.getvalue().splitlines()[-1])
            self.assertTrue(answers.getvalue().splitlines()[-1].startswith("gone "))

    def test_strange_texts_are_one_line(self):
        strange = "\udc80\x00\u2028\"\\\n" * 1000 + "é漢" * 5000
        self.stage.now = stages.Health("error", strange, -3)
        self.stage.fail = {"read": OSError(strange)}
        for answer in self.connected("health", "read"):
            self.assertLessEqual(len(answer), 300)
            self.assertTrue(answer.isprintable())


class Child(unittest.TestCase):
    PROGRAM = """
import driftd.stages
class Loud(driftd.stages.Stage):
    def connect(self):
        print("opening")
        return [driftd.stages.Axis("1"), driftd.stages.Axis("2")]
    def read(self):
        return 1, 2
    def stop(self):
        print("stopping")
raise SystemExit(driftd.stages.main(lambda options: Loud()))
"""

    def test_what_a_stage_prints_is_no_answer_and_the_end_of_input_stops_it(self):
        done = subprocess.run([sys.executable, "-c", self.PROGRAM, "--serve"], input="hello 1\naxis 1\naxis 2\nread\n",
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines(), ["hello 1 python: Loud", "axis - - - closed 1",
                                                    "axis - - - closed 2", "place 1.0 2.0"])
        self.assertEqual((done.stderr, done.returncode), ("opening\nstopping\n", 0))

    def test_what_a_stage_starts_reads_no_requests(self):
        program = self.PROGRAM.replace("return 1, 2", """
        import subprocess, sys
        print("asked")
        return len(subprocess.run(["head", "-c1"], stdout=subprocess.PIPE).stdout), len(sys.stdin.read())""")
        with subprocess.Popen([sys.executable, "-u", "-c", program, "--serve"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.stdin.write(b"hello 1\naxis 1\naxis 2\nread\n")
            child.stdin.flush()
            self.assertEqual([child.stderr.readline(), child.stderr.readline()], [b"opening\n", b"asked\n"])
            child.stdin.write(b"health\n")
            child.stdin.close()
            self.assertEqual(child.stdout.read().splitlines()[3:], [b"place 0.0 0.0", b"health ready - 0"])


if __name__ == "__main__":
    unittest.main()
