#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants plausible mistakes one by one and tells which of them the tests find.

The mistakes are listed in tests/mutation/<folder>/*.mistakes: exact text of a source, and what a
mistake makes of it. A mistake is planted in a copy of the working tree under build/mutation; only
the tests that the list names are built and run there, and the copy is restored. The results are
kept in build/mutation/results.json, so a run that was interrupted goes on where it stopped.

  tests/mutation/run.py                        every mistake that has no result yet
  tests/mutation/run.py control/consensus      those of one list, or of sources or ids that begin like this
  tests/mutation/run.py --survivors daemon     those again that the tests did not find
  tests/mutation/run.py --check                every mistake still fits its source (a test of ctest)
  tests/mutation/run.py --report               the table of docs/internals/testing.md from the results
  tests/mutation/run.py --list                 ids and reasons
"""

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import os
import pathlib
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTS = pathlib.Path(__file__).resolve().parent
FOUND, SURVIVED, BROKEN, TIME_OUT = "found", "survived", "did not compile", "time-out"
# A test may use so many times the CPU time that it needs without a mistake, and may wait so long: a
# loop without end and a dead lock count as found, a busy machine is not mistaken for one.
CPU_FACTOR, CPU_FLOOR_S = 5, 10
WALL_FACTOR, WALL_FLOOR_S = 10, 120
# One instruction set of the CPU fits is enough, and compiles several times faster than all.
FLAGS = "-O1 -DNDEBUG -w"
CONFIGURE = [
    "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS_DEBUG={FLAGS}",
    f"-DCMAKE_C_FLAGS_DEBUG={FLAGS}", "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF",
    "-DDRIFTD_CUDA=OFF", "-DDRIFTD_CPU_TARGETS=avx2",
]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One entry of a list."""

    name: str  # <source>:<id>, unique
    source: str
    reason: str
    old: str
    new: str
    tests: tuple[str, ...]
    listed_in: str

    def planted_in(self, text: str) -> str:
        """The source with the mistake; ValueError unless its text is there exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: its old text is {count} times in {self.source}")
        if self.old == self.new:
            raise ValueError(f"{self.name}: changes nothing")
        return text.replace(self.old, self.new)


def read_list(path: pathlib.Path) -> list[Mistake]:
    """One list. Its lines, in the order in which they come:

    source PATH     of the mistakes below
    tests A; B      that run on them, the likeliest to find them first
    [ID] REASON     a mistake begins
    - TEXT          a line, or part of one, of the source as it is
    + TEXT          and as the mistake has it; none: it is left out
    """
    listed_in = str(path.relative_to(ROOT))
    source, tests, entries = "", (), []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        if not line or word == "#":
            continue
        if word == "source":
            source = rest
        elif word == "tests":
            tests = tuple(test.strip() for test in rest.split(";"))
        elif word.startswith("[") and word.endswith("]"):
            entries.append({"name": f"{source}:{word[1:-1]}", "source": source, "reason": rest,
                            "tests": tests, "-": [], "+": []})
        elif word == "-" and entries and entries[-1]["+"]:
            raise ValueError(f"{listed_in}:{number}: '-' after '+'")
        elif word in ("-", "+") and entries:
            entries[-1][word].append(rest)
        else:
            raise ValueError(f"{listed_in}:{number}: not understood: {line}")
    return [Mistake(old="\n".join(entry.pop("-")), new="\n".join(entry.pop("+")),
                    listed_in=listed_in, **entry) for entry in entries]


def read_lists() -> list[Mistake]:
    """Every list; ValueError for an id used twice in a source, or a mistake without its text."""
    mistakes = [m for path in sorted(LISTS.glob("*/*.mistakes")) for m in read_list(path)]
    names = set()
    for mistake in mistakes:
        if mistake.name in names or not mistake.old or not mistake.tests or not mistake.reason:
            raise ValueError(f"{mistake.listed_in}: {mistake.name} is there twice, or incomplete")
        names.add(mistake.name)
    return mistakes


def moved_to(mistake: Mistake) -> str:
    """A hint where the old text is now, when another file has it."""
    for folder in ("base", "config", "control", "daemon"):
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            if mistake.old in path.read_text(errors="replace"):
                return f" (it is in {path.relative_to(ROOT)})"
    return ""


def check(mistakes: list[Mistake]) -> int:
    """Whether the lists still fit the sources; prints what does not."""
    wrong = 0
    for mistake in mistakes:
        source = ROOT / mistake.source
        try:
            if not source.is_file():
                raise ValueError(f"{mistake.name}: there is no {mistake.source}")
            mistake.planted_in(source.read_text())
        except ValueError as error:
            wrong += 1
            print(f"{mistake.listed_in}: {error}{moved_to(mistake)}")
    print(f"{len(mistakes)} mistakes, {wrong} do not fit their sources")
    if wrong:
        print("Write their old text anew from the source, or drop them with what they were about.")
    return 1 if wrong else 0


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Results:
    """What is known of each mistake, by name; saved after each."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._known = json.loads(path.read_text()) if path.is_file() else {}

    def of(self, mistake: Mistake) -> dict | None:
        """None when the source has changed since, or the mistake."""
        known = self._known.get(mistake.name)
        current = digest((ROOT / mistake.source).read_text(), mistake.old, mistake.new)
        return known if known and known["digest"] == current else None

    def save(self, mistake: Mistake, source: str, outcome: str, by: str, seconds: float) -> None:
        """@param source  the text that it was planted in"""
        self._known[mistake.name] = {"outcome": outcome, "by": by, "seconds": round(seconds, 1),
                                     "digest": digest(source, mistake.old, mistake.new)}
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self._known, indent=1, sort_keys=True) + "\n")
        partial.replace(self._path)


@dataclasses.dataclass(frozen=True)
class Limits:
    cpu_s: float
    wall_s: float


BUILD_LIMITS = Limits(600, 1200)


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def limit_cpu(seconds: float) -> None:
    whole = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))


class Tree:
    """The copy of the working tree, its build folder, and the tests as they are without mistakes."""

    def __init__(self, work: pathlib.Path, jobs: int):
        self._tree, self._build, self._jobs = work / "tree", work / "build", jobs
        self._log = work / "last.log"
        self._limits: dict[str, Limits] = {}

    def refresh(self) -> None:
        """Copies what git tracks or would track; files that did not change keep their time."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        wanted = {name for name in listed if name and (ROOT / name).is_file()}
        for name in wanted:
            source, target = ROOT / name, self._tree / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        for path in list(self._tree.rglob("*")):
            if path.is_file() and str(path.relative_to(self._tree)) not in wanted:
                path.unlink()
        if not (self._build / "build.ninja").is_file():
            linker = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold"] if shutil.which("mold") else []
            launcher = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")
                        ] if shutil.which("ccache") else []
            if self._run(["cmake", "-S", str(self._tree), "-B", str(self._build), *CONFIGURE,
                          *linker, *launcher], BUILD_LIMITS) != 0:
                sys.exit(f"could not configure; see {self._log}")

    def build(self, tests: tuple[str, ...]) -> bool:
        targets = dict.fromkeys(shlex.split(test)[0] for test in tests)
        return self._run(["cmake", "--build", str(self._build), "--parallel", str(self._jobs),
                          "--target", *targets], BUILD_LIMITS) == 0

    def measure(self, tests: tuple[str, ...]) -> None:
        """Runs tests without a mistake: they must pass, and their time bounds the later runs."""
        fresh = [test for test in tests if test not in self._limits]
        if not fresh:
            return
        if not self.build(tuple(fresh)):
            sys.exit(f"the tests do not build without a mistake; see {self._log}")
        for test in fresh:
            begin, cpu_begin = time.monotonic(), children_cpu_s()
            if self._test(test, Limits(600, 600)) != 0:
                sys.exit(f"{test} fails without a mistake; see {self._log}")
            if "No test cases matched" in self._log.read_text(errors="replace"):
                sys.exit(f"{test}: no test is named so; see {self._log}")
            wall_s, cpu_s = time.monotonic() - begin, children_cpu_s() - cpu_begin
            self._limits[test] = Limits(max(CPU_FLOOR_S, CPU_FACTOR * cpu_s),
                                        max(WALL_FLOOR_S, WALL_FACTOR * wall_s))
            print(f"{test}: {wall_s:.1f} s, of which {cpu_s:.1f} s of CPU", flush=True)

    def source(self, mistake: Mistake) -> str:
        return (self._tree / mistake.source).read_text()

    def verdict(self, mistake: Mistake) -> tuple[str, str]:
        """(outcome, the test that found it) of a mistake, planted and taken out again."""
        path = self._tree / mistake.source
        clean = path.read_text()
        path.write_text(mistake.planted_in(clean))
        try:
            for test in mistake.tests:
                if not self.build((test,)):  # only now: what the test before finds needs no more
                    return BROKEN, ""
                status = self._test(test, self._limits[test])
                if status is None:
                    return TIME_OUT, test
                if status != 0:
                    return FOUND, test
            return SURVIVED, ""
        finally:
            path.write_text(clean)

    def _test(self, test: str, limits: Limits) -> int | None:
        program, *arguments = shlex.split(test)
        return self._run([str(self._build / "bin" / program), "--abort", *arguments], limits)

    def _run(self, command: list[str], limits: Limits) -> int | None:
        """The status; None when it took too long. The output is in last.log."""
        with self._log.open("w") as log:
            log.write(shlex.join(command) + "\n")
            log.flush()
            process = subprocess.Popen(command, cwd=self._tree, stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True,
                                       preexec_fn=lambda: limit_cpu(limits.cpu_s))
            try:
                status = process.wait(limits.wall_s)
                return None if status == -signal.SIGXCPU else status
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def plant(mistakes: list[Mistake], results: Results, tree: Tree) -> None:
    tree.refresh()
    for number, mistake in enumerate(mistakes, 1):
        tree.measure(mistake.tests)
        begin = time.monotonic()
        outcome, by = tree.verdict(mistake)
        seconds = time.monotonic() - begin
        results.save(mistake, tree.source(mistake), outcome, by, seconds)
        print(f"{number}/{len(mistakes)} {outcome:15} {seconds:5.0f} s  {mistake.name}"
              f"{' by ' + by if by else ': ' + mistake.reason}", flush=True)


def report(mistakes: list[Mistake], results: Results) -> None:
    """Markdown: a line a file, a line a folder; then what was not found."""
    rows: dict[str, dict[str, int]] = {}
    missed = []
    for mistake in mistakes:
        known = results.of(mistake)
        kind = ("not run" if known is None else FOUND if known["outcome"] == TIME_OUT
                else known["outcome"])
        folder = mistake.source.split("/")[0] + "/"
        for key in (folder, mistake.source):
            row = rows.setdefault(key, {})
            row[kind] = row.get(kind, 0) + 1
        if kind in (SURVIVED, BROKEN):
            missed.append(f"- `{mistake.name}` ({kind}): {mistake.reason}")
    print("| source | planted | found | share |\n| --- | --- | --- | --- |")
    for key, row in sorted(rows.items()):
        planted = row.get(FOUND, 0) + row.get(SURVIVED, 0)
        share = f"{100 * row.get(FOUND, 0) / planted:.0f} %" if planted else ""
        name = f"**{key}**" if key.endswith("/") else f"`{key}`"
        not_run = f", {row['not run']} not run" if "not run" in row else ""
        print(f"| {name} | {planted}{not_run} | {row.get(FOUND, 0)} | {share} |")
    print("\n" + "\n".join(missed) if missed else "\nAll that were run were found.")


def chosen(mistakes: list[Mistake], wanted: list[str]) -> list[Mistake]:
    lists = {m.listed_in for m in mistakes}  # control/law is a list, and a folder
    files = {w: file for w in wanted if (file := f"tests/mutation/{w}.mistakes") in lists}
    picked = [m for m in mistakes
              if not wanted or any(m.listed_in == files[w] if w in files else m.name.startswith(w) or m.name.endswith(":" + w)
                                   for w in wanted)]
    if not picked:
        sys.exit(f"no mistake is named like {' or '.join(wanted)}")
    return picked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", help="lists; beginnings of source paths or of names; ids")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--check", action="store_true", help="only whether each fits its source")
    modes.add_argument("--report", action="store_true", help="only the table of the results")
    modes.add_argument("--list", action="store_true", help="only names and reasons")
    modes.add_argument("--survivors", action="store_true", help="again those that were not found")
    modes.add_argument("--again", action="store_true", help="whatever is known of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/mutation",
                        help="folder of the copy, its build and the results (build/mutation)")
    options = parser.parse_args()
    mistakes = chosen(read_lists(), options.wanted)
    if options.check:
        return check(mistakes)
    if options.list:
        for mistake in mistakes:
            print(f"{mistake.name}: {mistake.reason}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and the children with it
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    results = Results(work / "results.json")
    if options.report:
        report(mistakes, results)
        return 0
    with (work / "lock").open("w") as lock:  # one run at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = Results(work / "results.json")  # with those of the run before
        todo = []
        for mistake in mistakes:
            known = results.of(mistake)
            wanted = (options.again or known is None or
                      (options.survivors and known["outcome"] in (SURVIVED, BROKEN)))
            if wanted:
                todo.append(mistake)
        plant(todo, results, Tree(work, options.jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
