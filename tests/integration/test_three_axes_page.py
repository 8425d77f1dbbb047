# SPDX-License-Identifier: MIT
"""docs/use/three-axes.md says what happens: its files are taken, its commands run, and what they print is as it says, but for
numbers. The daemon and its sample are in virtual time; the pretenders and the driver, which are not, only start. In real time
(tests/service/packages) all programs are the page's, and work together."""
from __future__ import annotations

import re
import shlex
import sys
import unittest

from harness import BIN, SOURCE, Process, loopback_address, new_rig

PAGE = (SOURCE / "docs/use/three-axes.md").read_text(encoding="utf-8")
EMULATOR = SOURCE / "tools/stage-emulator/driftd-stage-emulator"
#: Of the driver, which the virtual daemon has none of.
OF_DRIVER = ("stage       pi_gcs2",)


def blocks(kind: str) -> list[str]:
    return [text for told, text in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", PAGE) if told == kind]


def commands() -> list[tuple[list[str], list[str]]]:
    """The words of each command, and the lines that it prints by the page."""
    told: list[tuple[list[str], list[str]]] = []
    for line in "".join(blocks("")).splitlines():
        if line.startswith("$ "):
            told.append((shlex.split(line[2:].removesuffix(" &")), []))
        else:
            told[-1][1].append(line)
    return told


def plain(line: str) -> str:
    """Without numbers, times, and what depends on the computer."""
    line = re.sub(r"^(\.\.\. |[0-9-]+ [0-9:.]+ )?(info|warning) ", "", line)
    return " ".join(re.sub(r"[+-]?\d+([.:]\d+)*", "#", line).split())


class Page(unittest.TestCase):
    def compare(self, told: list[str], printed: str) -> None:
        """The lines told come in this order; where no `...` is before one, right after the one before."""
        lines = [plain(line) for line in printed.splitlines()]
        at = 0
        gap = False
        for line in told:
            if line == "...":
                gap = True
                continue
            if line.startswith(OF_DRIVER):
                continue
            wanted = plain(line)
            anywhere = gap or line.startswith("... ") or "(...)" in line
            pattern = re.escape(wanted).replace(re.escape("(...)"), r"\(.*\)").replace(re.escape("AVX#"), ".*")
            places = [k for k in range(at, len(lines)) if re.fullmatch(pattern, lines[k])]
            self.assertTrue(places, f"{line!r} of the page is not in what was printed from line {at + 1} on:\n{printed}")
            if not anywhere:
                self.assertEqual(places[0], at, f"before {line!r} of the page more is printed:\n{printed}")
            at, gap = places[0] + 1, False

    def setUp(self):
        self.rig = self.enterContext(new_rig())
        if self.rig.is_virtual:
            self.rig.start_sim(SOURCE / "config/examples/scenario-three-axes.yaml", rate_hz=250)
        self.files = blocks("yaml")
        self.lab = self.rig.folder / "lab.yaml"

    def write_lab(self, text: str) -> None:
        wire = f"wire: {{publish: {self.rig.publish}, corrections: {self.rig.corrections}, commands: {self.rig.commands}}}\n"
        text = text.replace("127.0.0.7", self.rig.address)
        self.lab.write_text(text.replace("frame_rate_hz: 250", "frame_rate_hz: 100") + wire)  # which is sooner done

    def test_it_goes_as_the_page_says(self):
        lab, stage, axial = self.files
        self.write_lab(lab)
        # In virtual time the driver is not the daemon's: its stage does not move with the sample.
        daemon = "" if self.rig.is_virtual else \
            f"daemon: {{corrections: '{self.rig.corrections}', commands: '{self.rig.commands}'}}\n"
        (self.rig.folder / "stage.yaml").write_text(stage + daemon)
        ran = 0
        for words, told in commands():
            with self.subTest(command=" ".join(words)):
                self.compare(told, self.run_command(words, lab, axial))
            ran += 1
        self.assertEqual(ran, 15)

    def run_command(self, words: list[str], lab: str, axial: str) -> str:
        """What it prints; programs that the page leaves running are stopped again."""
        if words[0] == "driftctl":
            if words[1] == "status":
                self.rig.sleep(4)
            words = [word for word in words if word not in ("--config", "lab.yaml")]
            as_seen = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&1', BIN / "driftctl", "--config", self.lab]
            ran = self.rig.run_program([*as_seen, *words[1:]], answer_s=0.2)
            self.assertEqual(ran.returncode, 0, ran.stdout)
            return self.said(ran.stdout)
        if words[0] == "kill":  # -HUP, after the last file of the page
            self.write_lab(lab[:lab.index("axial:")] + axial)
            self.rig.daemon.reload()
            self.rig.wait_until(lambda s: s["axial"]["valid"], "z is measured")
            return self.said(self.rig.daemon.text())
        if "--check-config" in words:
            ran = self.rig.run_program([BIN / words[0], *self.in_folder(words[1:])])
            return self.said(ran.stdout)
        if words[0] == "driftd":
            self.rig.start_daemon(self.lab)
            self.rig.wait_until(lambda s: s["markers"]["used"] and s["camera"]["rate_hz"], "markers are found")
            return self.rig.daemon.text().replace("virtual camera", "driftd-sim SIM01 at 127.0.0.7")
        return self.start_for_real(words)

    def said(self, text: str) -> str:
        text = text.replace(f"{self.rig.folder}/", "")
        return re.sub(r"warning: no driver has reported for the stage( of z)?\n", "", text)

    def in_folder(self, words: list[str]) -> list[str]:
        return [str(self.rig.folder / word) if word in ("lab.yaml", "stage.yaml") else word for word in words]

    def start_for_real(self, words: list[str]) -> str:
        """driftd-sim, the emulator and the driver in front of it, at free addresses; they stay until the test is over."""
        words = [str(SOURCE / word[3:]) if word.startswith("../") else word for word in words]
        if words[0] == "driftd-sim":
            words[words.index("127.0.0.7")] = loopback_address() if self.rig.is_virtual else self.rig.address
            words[0] = str(BIN / words[0])
        elif words[0] == "driftd-stage-emulator":
            words[words.index("127.0.0.1:50000")] = "127.0.0.1:0"
            words[:1] = [sys.executable, str(EMULATOR)]
        else:
            file = self.rig.folder / "stage.yaml"
            file.write_text(file.read_text().replace("tcp://127.0.0.1:50000", self.device))
            words = [str(BIN / words[0]), *self.in_folder(words[1:])]
        words = [str(self.rig.folder / word) if word == "stage-input" else word for word in words]
        process = self.rig.enter_context(Process(f"of-the-page-{len(words)}", words, self.rig.folder))
        process.wait_for("ready")
        text = process.text()
        if "driftd-stage-emulator" in text:
            self.device = text.partition(" at ")[2].partition(",")[0]
        return text


if __name__ == "__main__":
    unittest.main()
