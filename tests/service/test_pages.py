# SPDX-License-Identifier: MIT
"""The man pages and the completions that tools/pages makes.

DRIFTD_BUILD_DIR names the build folder with the finished pages; DRIFTD_BIN that with the programs.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["DRIFTD_BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "tools/pages"))
from driftd_pages import command_line, completion, markdown, scdoc  # noqa: E402

PROGRAMS = {"driftd": 8, "driftctl": 1, "driftd-exporter": 8, "driftd-web": 8,
            "driftd-stage": 8, "driftd-sim": 1, "driftfit": 1}
PAGES = [f"{name}.{section}" for name, section in PROGRAMS.items()] + [
    "driftd.yaml.5", "driftd-stage.yaml.5", "driftd-protocol.7", "driftd-stage-emulator.1"]


def described(program):
    return json.loads(subprocess.run([BUILD / "bin" / program, "--describe-command-line"], check=True,
                                     capture_output=True, text=True).stdout)


def keys(schema, outer=""):
    for name, about in schema.get("properties", {}).items():
        yield outer + name
        yield from keys(about, f"{outer}{name}.")


def read_as_text(page):
    """The page as a person sees it, its lines joined: no word is divided."""
    shown = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-rHY=0", "-P-cbou", page], check=True,
                           capture_output=True, text=True).stdout
    return re.sub(r"\s+", " ", shown)


class Markdown(unittest.TestCase):
    def test_what_means_something_to_scdoc_is_escaped(self):
        self.assertEqual(markdown.page("a_b and *c*\n"), "a\\_b and _c_\n\n")
        self.assertEqual(markdown.page("`--a_b`, **c**"), "*\\--a\\_b*, *c*\n\n")
        self.assertEqual(scdoc.plain("-x *y* [z]"), r"\-x \*y\* \[z\]")
        self.assertEqual(markdown.inline("1 s*. *: CR"), r"1 s\*. \*: CR")

    def test_a_table_becomes_terms(self):
        page = markdown.page("| key | default | meaning |\n| --- | --- | --- |\n| `a.b` | `1` | how *much* |\n")
        self.assertEqual(page, "*a.b*\n\t_default_: *1*\n\n\thow _much_\n\n")
        self.assertEqual(markdown.page("| a | b |\n| - | - |\n| x\\|y | z |\n"), "x\\|y\n\tz\n\n")

    def test_code_keeps_its_lines_and_fits(self):
        long = "{" + ",".join(f'"key_{i}":{i}' for i in range(20)) + "}"
        page = markdown.page(f"```json x\n{long}\na\\b\n```\n")
        lines = page.split("\n")
        self.assertEqual((lines[0], lines[-4:]), ("```", ["a\\\\b", "```", "", ""]))
        self.assertTrue(all(len(line) <= markdown.WIDTH for line in lines), lines)
        self.assertEqual("".join(line.strip() for line in lines[1:-4]), long)

    def test_lists_links_and_headings(self):
        page = markdown.page("# Title\ntext\n## A `b`\n- one\n  more\n- [two](x.md#y), [web](https://e.example)\n\n"
                             "2. three\n")
        self.assertEqual(page, "# DESCRIPTION\n\ntext\n\n# A B\n\n- one more\n- two, web (https://e.example)\n\n"
                               ". three\n\n")

    def test_what_is_not_understood_is_said_with_its_line(self):
        for text, line in (("a\n\n<table>\n", 3), ("```\nx\n", 1), ("|a|\n|b|\n", 1),
                           ("| a | b |\n|-|-|\n| 1 |\n", 1)):
            with self.subTest(text), self.assertRaisesRegex(markdown.NotUnderstood, f"^p.md:{line}: "):
                markdown.page(text, "p.md")


class CommandLine(unittest.TestCase):
    def test_an_option_is_told_with_what_is_allowed(self):
        option = {"names": ["-n", "--number"], "positional": False, "several": False, "required": False,
                  "value": "INT:INT in [1 - 8]", "default": "3", "group": "Options", "text": "How many"}
        app = {"text": "Counts.", "options": [option], "commands": [], "end": "Exit codes:\n  0  done\n  2  not\n"}
        self.assertEqual(command_line.page("p", 1, "9", app, "# T\n"), (
            'p(1) "driftd 9" "driftd"\n\n# NAME\n\np - counts\n\n# SYNOPSIS\n\n*p* [_options_]\n\n# OPTIONS\n\n'
            "*\\-n*, *\\--number* _INT_\n\tHow many. Allowed: INT in \\[1 - 8\\]. Default: *3*.\n\n"
            "# EXIT STATUS\n\n*0*\n\tdone\n\n*2*\n\tnot\n\n# T\n"))
        option["value"] = "FLOAT:NM"
        self.assertEqual((command_line.value_of(option), command_line.allowed_of(option)), ("NM", ""))


class Pages(unittest.TestCase):
    def setUp(self):
        if not (BUILD / "man").is_dir():
            self.skipTest("SKIPPED: the man pages are not built (scdoc is missing)")
        if not shutil.which("groff"):
            self.skipTest("SKIPPED: groff is not installed")

    def test_no_page_has_a_mistake(self):
        self.assertEqual(sorted(PAGES), sorted(p.name for p in (BUILD / "man").glob("*.[1-8]")))
        for page in PAGES:
            with self.subTest(page):
                # Left-aligned, as scdoc's pages ask before .TH, by which groff 1.23 forgets it: a line of one
                # word, which cannot be stretched to the right margin, is none of the page's mistakes.
                done = subprocess.run(["groff", "-man", "-dAD=l", "-ww", "-z", "-Tutf8", "-Kutf8",
                                       BUILD / "man" / page], capture_output=True, text=True)
                self.assertEqual(done.stderr, "")

    def test_every_option_and_command_is_on_the_page(self):
        def names(app):
            for option in app["options"]:
                yield from option["names"]
            for command in app["commands"]:
                yield command["name"]
                yield from names(command)

        for name, section in PROGRAMS.items():
            page = read_as_text(BUILD / f"man/{name}.{section}").replace("‐", "-")
            for word in names(described(name)):
                self.assertIn(word, page, name)

    def test_every_key_is_on_the_page(self):
        for schema, page in (("driftd", "driftd.yaml.5"), ("driftd-stage", "driftd-stage.yaml.5")):
            text = read_as_text(BUILD / "man" / page)
            for key in keys(json.loads((SOURCE / f"config/{schema}.schema.json").read_text())):
                self.assertIn(key, text)


class Completion(unittest.TestCase):
    def setUp(self):
        if not shutil.which("bash"):
            self.skipTest("SKIPPED: bash is not installed")

    def complete(self, program, *words):
        """What bash offers for the last of the words."""
        code = (completion.bash(program, described(program)) +
                f"COMP_WORDS=({' '.join(map(repr, (program, *words)))}); COMP_CWORD={len(words)}\n"
                f"_{program.replace('-', '_')}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands_and_options(self):
        self.assertIn("calibrate", self.complete("driftctl", ""))
        self.assertEqual(self.complete("driftctl", "unl"), ["unlock"])
        self.assertEqual(self.complete("driftctl", "calibrate", "cam"), ["camera"])
        self.assertEqual(self.complete("driftctl", "--json", "calibrate", "camera", "--dark-r"), ["--dark-result"])
        self.assertEqual(self.complete("driftctl", "status", "--inst"), ["--instance"])
        self.assertEqual(self.complete("driftd", "--check"), ["--check-config"])

    def test_values(self):
        self.assertEqual(self.complete("driftctl", "--config", ""), [])  # bash then offers files
        self.assertEqual(self.complete("driftctl", "snapshot", "fra"), [])
        self.assertEqual(completion.choices_of({"value": "TEXT:{auto,cpu,cuda}"}), ["auto", "cpu", "cuda"])


class Version(unittest.TestCase):
    def test_the_packages_have_the_project_s(self):
        project = re.search(r"^project\(driftd VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
        changelog = (SOURCE / "packaging/debian/changelog").read_text()
        self.assertRegex(changelog.splitlines()[0], rf"^driftd \({re.escape(project)}-\d+\) ")


if __name__ == "__main__":
    unittest.main()
