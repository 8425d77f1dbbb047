# SPDX-License-Identifier: MIT
"""The scripts of those who work on driftd, in repositories of a test's own, where nothing is compiled: what they are
given wrongly is refused, and what has changed is read by clang-tidy."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Programs that are found before the real ones. CMake's writes what the build compiles: all sources.
PRETENDED = {
    "cmake": """#!/usr/bin/python3
import json, pathlib
pathlib.Path("build/clang").mkdir(parents=True, exist_ok=True)
files = [{"file": str(file.resolve())} for file in pathlib.Path().rglob("*.cpp") if file.name != "spare.cpp"]
pathlib.Path("build/clang/compile_commands.json").write_text(json.dumps(files, indent=1))
""",
    "clang-tidy": "#!/bin/sh\n! grep -q WRONG \"$4\" || { echo \"$4: wrong\"; exit 1; }\n",
}
FILES = {
    "a/low.hpp": "int as_it_was;\n", "a/high.hpp": '#include "a/low.hpp"\n',
    "b/apart.cpp": "int apart;\n", "b/uses.cpp": '#include "a/high.hpp"\n', "b/spare.cpp": '#include "a/low.hpp"\n',
    "tests/unit/helper.hpp": "int as_it_was;\n", "tests/unit/test_helper.cpp": '#include "helper.hpp"\n',
    "tests/support/shared.hpp": "int as_it_was;\n", "tests/unit/test_shared.cpp": '#include "support/shared.hpp"\n',
    "b/nobody.hpp": "int as_it_was;\n", ".clang-tidy": "HeaderFilterRegex: '(a|b|tests)/.*'\n",
}


class Scripts(unittest.TestCase):
    def setUp(self):
        if shutil.which("git") is None:
            self.skipTest("git is not here")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="driftd scripts ")))
        self.programs = folder / "bin"
        self.repository = folder / "repository"
        for name, text in PRETENDED.items():
            self.write(self.programs / name, text).chmod(0o755)
        for name in ("run", "tests/style", "tests/repeat", "tests/arrows"):
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.repository / name)

    @staticmethod
    def write(file: pathlib.Path, text: str) -> pathlib.Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def call(self, *arguments, code: int = 0, folder: pathlib.Path | None = None, **environment: str) -> str:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run([str(a) for a in arguments], cwd=folder or self.repository, capture_output=True, text=True,
                              env={**own, "PATH": f"{self.programs}:{os.environ['PATH']}",
                                   "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
                                   "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x",
                                   "GIT_COMMITTER_EMAIL": "x", "DRIFTD_NO_INSTALL": "1", "DRIFTD_PRESET": "",
                                   **environment}, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def commit(self, hour: int, files: dict[str, str]) -> None:
        for name, text in files.items():
            self.write(self.repository / name, text)
        time = f"2026-01-02T{hour:02}:00:00Z"
        self.call("git", "add", *files)
        self.call("git", "commit", "-q", "-m", "x", GIT_AUTHOR_DATE=time, GIT_COMMITTER_DATE=time)

    def make_history(self) -> None:
        """Files, and ten hours later a change to one."""
        self.call("git", "init", "-q", "-b", "main")
        self.commit(1, FILES)
        self.commit(11, {"b/apart.cpp": "int changed;\n"})

    def tidied(self, folder: pathlib.Path | None = None) -> list[str]:
        self.said = self.call("tests/style", "tidy_changed", folder=folder)
        return sorted(((folder or self.repository) / "build/clang/tidied").read_text().split())

    def test_what_changed_is_read_with_one_source_for_each_header(self):
        self.make_history()
        self.assertEqual(self.tidied(), ["b/apart.cpp"])
        self.assertIn("differs from", self.said)
        for header, source in (("a/low.hpp", "b/uses.cpp"), ("a/high.hpp", "b/uses.cpp"),
                               ("tests/unit/helper.hpp", "tests/unit/test_helper.cpp"),
                               ("tests/support/shared.hpp", "tests/unit/test_shared.cpp")):
            with self.subTest(header):
                text = (self.repository / header).read_text()
                self.write(self.repository / header, text + "int now;\n")
                self.assertEqual(self.tidied(), ["b/apart.cpp", source])
                self.write(self.repository / header, text)
        self.write(self.repository / "b/zz_changed.cpp", '#include "a/high.hpp"\nint now;\n')
        self.call("git", "add", "-A")
        self.write(self.repository / "a/high.hpp", FILES["a/high.hpp"] + "int now;\n")
        self.assertEqual(self.tidied(), ["b/apart.cpp", "b/zz_changed.cpp"])  # the header is read with it
        self.call("git", "rm", "-qf", "b/zz_changed.cpp")
        self.write(self.repository / "a/high.hpp", FILES["a/high.hpp"])
        self.write(self.repository / "b/nobody.hpp", "int now;\n")
        self.assertEqual(self.tidied(), ["b/apart.cpp"])
        self.assertIn("no source that the preset clang compiles includes b/nobody.hpp", self.said)
        (self.repository / "b/uses.cpp").rename(self.repository / "a/uses.cpp")
        self.call("git", "add", "-A")
        self.assertEqual(self.tidied(), ["b/apart.cpp"])  # moved, and nothing else
        self.write(self.repository / "b/spare.cpp", FILES["b/spare.cpp"] + "// now\n")
        self.assertEqual(self.tidied(), ["b/apart.cpp"])  # a comment
        self.write(self.repository / "b/apart.cpp", "int WRONG;\n")
        self.assertIn("apart.cpp: wrong", self.call("tests/style", "tidy_changed", code=1))

    def test_clones_of_every_kind_know_what_changed(self):
        self.make_history()
        clone = self.repository.parent / "clone"
        self.call("git", "clone", "-q", self.repository, clone)
        for name in ("run", "tests/style"):
            shutil.copy(SOURCE / name, clone / name)
        self.assertEqual(self.tidied(clone), ["b/apart.cpp"])
        self.call("git", "checkout", "-q", "--detach", folder=clone)
        self.assertEqual(self.tidied(clone), ["b/apart.cpp"])
        self.call("git", "remote", "remove", "origin", folder=clone)
        self.assertEqual(self.tidied(clone), ["b/apart.cpp"])
        shallow = self.repository.parent / "shallow"
        self.call("git", "clone", "-q", "--depth", "1", self.repository.as_uri(), shallow)
        shutil.copy(SOURCE / "tests/style", shallow / "tests/style")
        self.assertEqual(self.tidied(shallow), ["b/apart.cpp", "b/uses.cpp", "tests/unit/test_helper.cpp",
                                                "tests/unit/test_shared.cpp"])
        self.assertIn("no commit to count changes from", self.said)

    def test_includes_that_go_back_up_are_named(self):
        clock, law = '#include "base/clock.hpp"\n', '#include "control/law.hpp"\n'
        good = {"base/clock.hpp": "", "control/law.hpp": clock, "clients/common/view.hpp": clock,
                "clients/demo/plot.hpp": '#include "clients/common/view.hpp"\n'}
        for number, (wrong, said) in enumerate((
                ({}, ""),
                ({"base/clock.hpp": law}, "base/clock.hpp includes control/law.hpp: base/ is below control/"),
                ({"clients/stage/a.cpp": '#include "clients/demo/plot.hpp"\n'}, "clients/demo is a program"),
                ({"tools/one/a.cpp": '#include "tools/two/a.hpp"\n', "tools/two/a.hpp": ""}, "tools/two is a program"),
                ({"daemon/a.cpp": '#include "simulator/a.hpp"\n', "simulator/a.hpp": ""}, "simulator is a program"),
                ({"daemon/a.cpp": '#include "clients/common/view.hpp"\n'}, "clients/common is of the clients"),
                ({"helpers/a.cpp": clock}, "helpers/ is not among the layers"),
                ({"clients/web/a.cpp": "namespace driftd::web {\nnamespace driftd::clients {\nnamespace driftd::page {\n"},
                 "clients/web/a.cpp: namespace driftd::page: no folder of its path is called page"),
                ({"control/lock/a.hpp": law, "control/law.hpp": '#include "control/lock/a.hpp"\n'},
                 "a circle: control/law.hpp includes control/lock/a.hpp; control/lock/a.hpp includes control/law.hpp"))):
            with self.subTest(said):
                root = self.repository.parent / str(number)
                for name, text in {**good, **wrong}.items():
                    self.write(root / name, text)
                self.call("git", "init", "-q", folder=root)
                self.assertIn(said, self.call("tests/arrows", root, code=int(bool(wrong))))
        self.assertIn("control: base\n", self.call("tests/arrows", self.repository.parent / "0", "--list"))
        self.call("git", "init", "-q")
        self.assertIn("no source includes another", self.call("tests/arrows", code=1))

    def test_no_check_passes_where_git_does_not_answer(self):
        for check in ("format", "licence", "links", "arrows", "catch2", "scripts"):
            with self.subTest(check):
                self.assertIn("git does not say",
                              self.call("tests/style", check, code=1, GIT_CEILING_DIRECTORIES=str(self.repository.parent)))
        self.call("git", "init", "-q", folder=self.repository.parent)  # a release, unpacked in another repository
        self.assertIn("git does not say", self.call("tests/style", "licence", code=1))

    def pretend_tests(self, text: str) -> None:
        """A ctest that runs `text` in its build folder."""
        self.write(self.programs / "ctest", f"#!/bin/sh\ncd \"$2\"\n{text}\n").chmod(0o755)
        self.write(self.programs / "clang++", "#!/bin/sh\n").chmod(0o755)

    def test_the_second_part_runs_after_a_failure_and_all_are_counted(self):
        for text, count in (("echo '1/1 Test #1: a ...   Passed    0.01 sec'", "2 passed, 0 failed, 0 skipped"),
                            ("case $PWD in *sanitized) echo '1/1 Test #1: a ...   Passed    0.01 sec' ;;"
                             " *) echo '1/1 Test #1: a ...***Exception: SegFault  0.01 sec'; exit 8 ;; esac", "1 passed, 1 failed, 0 skipped"),
                            ("case $PWD in *sanitized) exit 8 ;; *) echo '1/1 Test #1: a ...   Passed    0.01 sec' ;; esac",
                             "1 passed, 0 failed, 0 skipped"),
                            ("echo '1/1 Test #1: a ...***Skipped   0.01 sec'", "0 passed, 0 failed, 2 skipped"),
                            ("exit 8", "0 passed, 0 failed, 0 skipped")):
            with self.subTest(text):
                self.pretend_tests(text)
                self.assertEqual(self.call("./run", "test", code=int(not count.startswith("2"))).splitlines()[-1], count)

    def test_methods_that_a_passed_file_skipped_are_told_and_counted(self):
        methods = """import unittest
class A(unittest.TestCase):
    def test_runs(self): pass
    def test_two(self): {0}
    def test_three(self): {0}
if __name__ == "__main__": unittest.main()
"""
        skip = 'self.skipTest("SKIPPED: no GPU")'
        for text, count in ((methods.format("pass"), "2 passed, 0 failed, 0 skipped"),
                            (methods.format(skip), "2 passed, 0 failed, 4 skipped"),
                            (methods.format(skip).replace("test_runs", "nothing"), "0 passed, 0 failed, 4 skipped"),
                            ("print('SKIPPED: no numpy')", "0 passed, 0 failed, 2 skipped"),
                            (methods.format("self.fail()"), "0 passed, 2 failed, 0 skipped")):
            with self.subTest(text):
                for build in "test", "test-sanitized":
                    self.write(self.repository / "build" / build / "a.py", text)
                    self.write(self.repository / "build" / build / "CTestTestfile.cmake",
                               'add_test(python_a /usr/bin/python3 a.py -v)\n'
                               'set_tests_properties(python_a PROPERTIES LABELS sanitized SKIP_REGULAR_EXPRESSION "^SKIPPED: ")\n')
                self.write(self.programs / "clang++", "#!/bin/sh\n").chmod(0o755)
                self.write(self.repository / "build/test/CTestTestfile.cmake", (
                    self.repository / "build/test/CTestTestfile.cmake").read_text().replace("LABELS sanitized", ""))
                said = self.call("./run", "test", code=int(not count.startswith("2")), CI="")
                self.assertEqual(said.splitlines()[-1], count)
                if "4 skipped" in count:
                    self.assertEqual(said.count("== skipped in python_a: test_two (__main__.A"), 2, said)

    def test_two_runs_in_one_checkout_wait_for_each_other(self):
        self.pretend_tests("echo \"$$\" >>begun; echo '1/2 Test #1: a ...***Failed    0.01 sec'; while [ -e begun ] && ! [ -e go ]; do sleep 0.05; done\n"
                           "echo '2/2 Test #2: b ...   Passed    0.01 sec'; exit 8")
        begun = self.repository / "build/test/begun"
        environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}", "DRIFTD_NO_INSTALL": "1", "DRIFTD_PRESET": "",
                       "CI": ""}

        def start() -> subprocess.Popen:
            run = subprocess.Popen(["./run", "test", "x"], cwd=self.repository, env=environment, stdout=subprocess.PIPE, text=True)
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)
            return run

        first = start()
        while not begun.exists():
            self.assertIsNone(first.poll())
            time.sleep(0.02)
        second = start()
        self.assertEqual(second.stdout.readline(), "== waiting for another run that is at work in build/test\n")
        self.assertEqual(len(begun.read_text().splitlines()), 1)
        self.write(self.repository / "build/test/go", "")
        for run in first, second:
            self.assertTrue(run.communicate()[0].endswith("1 passed, 1 failed, 0 skipped\n"))
            self.assertEqual(run.returncode, 1)

    def test_wrong_arguments_are_refused_before_anything_is_built(self):
        for arguments, code, text in ((("run", "build", "driftd"), 1, "build takes no arguments"),
                                      (("run", "test", "full", "lock"), 1, "test full takes no names"),
                                      (("run", "tset"), 1, "there is no command 'tset'"),
                                      (("tests/repeat", "often"), 2, "TIMES is 'often'"),
                                      (("tests/repeat", "0"), 2, "TIMES is '0'"),
                                      (("tests/repeat", "1", "build/test", "6x"), 2, "LOAD is '6x'"),
                                      (("tests/repeat", "1", "build/nowhere"), 2, "nothing is built in build/nowhere"),
                                      (("tests/style", "formt"), 2, "usage: tests/style")):
            with self.subTest(arguments):
                self.call("git", "init", "-q")
                self.assertIn(text, self.call(f"./{arguments[0]}", *arguments[1:], code=code))


class Kernels(unittest.TestCase):
    """What `run` prints of the kernels that are compiled."""

    def test_one_line_says_what_there_is_for_gpus_why_and_what_to_do(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not here")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="driftd kernels ")))
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(kernels LANGUAGES CXX)\nset(DRIFTD_CUDA AUTO CACHE STRING \"\")\n"
            f"include({SOURCE}/cmake/cpu.cmake)\ninclude({SOURCE}/cmake/cuda.cmake)\n")
        for name, text in (("nvidia-smi", "[ -n \"$GPU\" ] && echo $GPU"), ("nvcc", "exit 1")):
            Scripts.write(folder / "bin" / name, f"#!/bin/sh\n{text}\n").chmod(0o755)
        none = "Kernels: for processors baseline; for GPUs none, since "
        for number, (gpu, options, said) in enumerate((
                ("", [], f"nvidia-smi tells of no GPU here, though {folder}/bin/nvcc is (cmake -DDRIFTD_CUDA_ARCHITECTURES=all"),
                ("9.0", [], "no CUDA compiler was found (Debian's nvidia-cuda-toolkit is one"),
                ("9.0", ["-DDRIFTD_CUDA=OFF"], "DRIFTD_CUDA is OFF\n"))):
            with self.subTest(said):
                done = subprocess.run(["cmake", "-S", folder, "-B", folder / str(number), "-DDRIFTD_CPU_TARGETS=", *options],
                                      capture_output=True, text=True, check=True,
                                      env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "GPU": gpu,
                                           "CUDACXX": f"{folder}/bin/nvcc"})
                self.assertIn(none + said, done.stdout)


class Services(unittest.TestCase):
    """What `run` installs starts nothing. In a mount namespace, whose /usr/sbin is the test's own, with an apt-get that asks
    policy-rc.d as Debian's packages do."""
    PROGRAMS = {"dpkg-query": "exit 1", "systemctl": "echo systemctl \"$@\" >>\"$TOLD\"",
                "apt-get": "policy=/usr/sbin/policy-rc.d; code=0; [ ! -x $policy ] || $policy munge start || code=$?\n"
                           "echo apt-get: policy $code >>\"$TOLD\"; [ -z \"$DO\" ] || kill -$DO $PPID"}
    DISABLED = [f"systemctl disable --now {name}" for name in ("munge", "slurmctld", "slurmd")]

    def installed(self, before: str = "", do: str = "") -> tuple[list[str], str]:
        """What was told by the programs, and what policy-rc.d is then."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="driftd services ")))
        for name, text in self.PROGRAMS.items():
            Scripts.write(folder / "bin" / name, f"#!/bin/sh\n{text}\n").chmod(0o755)
        shutil.copy(SOURCE / "run", folder / "run")
        (folder / "before").write_text(before)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", """
            mount -t tmpfs none /usr/sbin || exit
            if [ -s before ]; then cp before /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; fi
            ./run deps test_full
            [ ! -x /usr/sbin/policy-rc.d ] || { /usr/sbin/policy-rc.d; echo "left: policy $?" >>"$TOLD"; cp /usr/sbin/policy-rc.d after; }"""], cwd=folder, capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "TOLD": f"{folder}/told", "DO": do,
                                   "DRIFTD_NO_INSTALL": ""})
        if done.returncode != 0:
            self.skipTest(f"SKIPPED: this user may have no mount namespace: {done.stderr}")
        self.assertIn("their services are neither started nor enabled: munge slurmctld slurmd\n", done.stdout)
        after = folder / "after"
        return (folder / "told").read_text().splitlines(), after.read_text() if after.exists() else ""

    def setUp(self):
        if not pathlib.Path("/etc/os-release").read_text().count("ID=debian\n"):
            self.skipTest("SKIPPED: Slurm is installed on Debian alone")

    def test_nothing_is_started_nor_enabled_and_nothing_stays(self):
        self.assertEqual(self.installed(), (["apt-get: policy 101", *self.DISABLED], ""))
        self.assertEqual(self.installed(do="TERM"), (["apt-get: policy 101", *self.DISABLED] * 2, ""))  # it updates, and tries again

    def test_a_policy_that_is_there_stays(self):
        own = "#!/bin/sh\n# of this computer\nexit 104\n"
        self.assertEqual(self.installed(own), (["apt-get: policy 104", *self.DISABLED, "left: policy 104"], own))

    def test_what_a_kill_left_forbids_nothing_and_goes_with_the_next_installation(self):
        told, left = self.installed(do="KILL")
        self.assertEqual(told, ["apt-get: policy 101"] * 2 + ["left: policy 0"])
        self.assertIn("# Of driftd", left)
        self.assertEqual(self.installed(left), (["apt-get: policy 101", *self.DISABLED], ""))


class Mistakes(unittest.TestCase):
    """tests/mutation/run.py, which nothing is planted by here."""

    @staticmethod
    def names(*wanted: str) -> list[str]:
        listed = subprocess.run([SOURCE / "tests/mutation/run.py", "--list", *wanted],
                                capture_output=True, text=True, check=True)
        return [line.split(": ")[0] for line in listed.stdout.splitlines()]

    def test_a_list_is_taken_by_its_name_and_its_mistakes_by_source_and_id(self):
        text = (SOURCE / "tests/mutation/daemon/lock_session.mistakes").read_text()
        ids = [line[1:].split("]")[0] for line in text.splitlines() if line.startswith("[")]
        by_list = self.names("daemon/lock_session")
        self.assertEqual(by_list, [f"daemon/loop/lock_session.cpp:{one}" for one in ids])
        self.assertEqual(self.names("daemon/loop/lock_session"), by_list)
        self.assertEqual(self.names("lock-id", "order-untold"), by_list[:2])

    def test_the_page_counts_what_is_listed(self):
        page = (SOURCE / "docs/internals/testing.md").read_text()
        counted = dict(re.findall(r"^\| `(\w+/\w+)` \| `.*` \| (\d+) \|", page, re.MULTILINE))
        lists = {f"{path.parent.name}/{path.stem}" for path in (SOURCE / "tests/mutation").glob("*/*.mistakes")}
        self.assertEqual(set(counted), lists)
        for name, count in counted.items():
            self.assertEqual(len(self.names(name)), int(count), name)


if __name__ == "__main__":
    unittest.main()
