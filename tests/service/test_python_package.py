# SPDX-License-Identifier: MIT
"""The Python modules from a checkout, from both kinds of installation, and copied elsewhere.

DRIFTD_CMAKE and DRIFTD_BUILD_DIR name cmake and the build folder, DRIFTFIT_LIBRARY and
GPUFIT_LIBRARY the libraries.
"""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

for needed in ("numpy", "zmq"):
    if subprocess.run([sys.executable, "-c", f"import {needed}"], capture_output=True).returncode:
        print(f"SKIPPED: {needed} is not installed for {sys.executable}")
        sys.exit(0)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = {name: pathlib.Path(os.environ[name]) for name in ("DRIFTFIT_LIBRARY", "GPUFIT_LIBRARY")}

#: Fits one spot by each module and prints where it found it: x = 3, y = 5.
USE = """
import driftd
import driftd.stages.micromanager
import driftd_fit
import numpy as np
from pygpufit import gpufit
y, x = np.mgrid[:9, :9]
image = (900 * np.exp(-((x - 3)**2 + (y - 5)**2) / 4.5) + 30).astype(np.float32)
assert driftd.Client and driftd.subscribe and driftd.stages.Driver
start = np.array([[800, 3.2, 4.8, 1.4, 20]], np.float32)
places = [driftd_fit.fit(image, backend="cpu")[["x", "y"]][0],
          driftd.fit(image, backend="cpu")[["x", "y"]][0],
          driftd.search(image, backend="cpu")[0][["x", "y"]][0],
          gpufit.fit(image.reshape(1, -1), None, 1, start)[0][0, 1:3]]
print(*(f"{place[0]:.1f},{place[1]:.1f}" for place in places))
"""
USED = "3.0,5.0 3.0,5.0 3.0,5.0 3.0,5.0\n"


def run(code, *folders, **environment):
    """Python's output for code with these folders as its only path; the libraries are not named."""
    inherited = {name: value for name, value in os.environ.items()
                 if name not in (*LIBRARIES, "LD_LIBRARY_PATH", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, cwd="/",
        env={**inherited, "PYTHONPATH": ":".join(map(str, folders)), **environment})


def copy_sources(folder):
    """Into a checkout of which nothing is a link: links do not survive every way of copying a tree."""
    for part in ("clients/python", "fitter/python"):
        shutil.copytree(SOURCE / part, folder / part, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for path in list(folder.rglob("*")):
        if path.is_symlink():
            target = os.readlink(path)
            path.unlink()
            path.write_text(target)


def without_system_library(name):
    """The test needs that the system has no such library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return
    raise unittest.SkipTest(f"SKIPPED: this system has {name}")


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def check(self, *folders, **environment):
        done = run(USE, *folders, **environment)
        self.assertEqual((done.stdout, done.stderr), (USED, ""))


class Checkout(InFolder):
    def setUp(self):
        super().setUp()
        copy_sources(self.folder)
        self.folders = self.folder / "clients/python", self.folder / "fitter/python"

    def build(self):
        libraries = self.folder / "build/release/lib"
        libraries.mkdir(parents=True)
        for library, name in zip(LIBRARIES.values(), ("libdriftfit.so.1", "libGpufit.so")):
            (libraries / name).symlink_to(library)

    def test_two_folders_have_all_modules(self):
        self.build()
        self.check(*self.folders)
        self.check(*reversed(self.folders))

    def test_the_fits_alone_need_no_client(self):
        self.build()
        code = "import driftd_fit, sys; driftd_fit.Fitter('cpu'); from pygpufit import gpufit; " \
               "print('zmq' in sys.modules)"
        self.assertEqual(run(code, self.folder / "fitter/python").stdout, "False\n")

    def test_without_a_build_it_says_where_it_looked(self):
        without_system_library("libdriftfit.so.1")
        said = run("import driftd_fit; driftd_fit.Fitter()", *self.folders).stderr
        self.assertIn(f"looked for at {self.folder}/build/release/lib/libdriftfit.so.1 and in the "
                      "system's library path", said)
        self.assertRegex(said, r"LibraryMissing: .*\./run build.*set DRIFTFIT_LIBRARY")

    def test_messages_need_no_numpy(self):
        said = run("import sys; sys.modules['numpy'] = None\n"
                   "import driftd\nprint(driftd.PUBLISH)\ndriftd.fit([])", *self.folders)
        self.assertIn("://", said.stdout)
        self.assertRegex(said.stderr, r"(Import|ModuleNotFound)Error: .*numpy")


class Installation(InFolder):
    def test_cmake_installs_modules_that_find_their_libraries(self):
        subprocess.run([os.environ["DRIFTD_CMAKE"], "--install", os.environ["DRIFTD_BUILD_DIR"]],
                       env={**os.environ, "DESTDIR": str(self.folder)}, check=True,
                       capture_output=True)
        [module] = self.folder.rglob("driftd/__init__.py")
        packages = module.parent.parent
        self.assertEqual(packages.name, "dist-packages")
        self.check(packages)

    def test_pip_installs_the_same_modules(self):
        for module in ("pip", "setuptools", "wheel"):
            if subprocess.run([sys.executable, "-c", f"import {module}"],
                              capture_output=True).returncode:
                self.skipTest(f"SKIPPED: {module} is not installed for {sys.executable}")
        source, target = self.folder / "source", self.folder / "target"
        copy_sources(source)  # setuptools leaves files in its source
        shutil.copy(SOURCE / "pyproject.toml", source)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-index",
             "--no-input", "--disable-pip-version-check", "--target", target, source],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check(target, **{name: str(path) for name, path in LIBRARIES.items()})

    def test_both_have_one_version(self):
        versions = [re.search(pattern, (SOURCE / name).read_text(), re.MULTILINE).group(1)
                    for name, pattern in (("pyproject.toml", r'^version = "(.*)"'),
                                          ("CMakeLists.txt", r"^project\(driftd VERSION (\S+)"))]
        self.assertEqual(versions[0], versions[1])


class Elsewhere(InFolder):
    MODULES = (("DRIFTFIT_LIBRARY", "libdriftfit.so.1", "driftd_fit",
                "import driftd_fit as m; m.Fitter('cpu')"),
               ("GPUFIT_LIBRARY", "libGpufit.so", "pygpufit",
                "from pygpufit import gpufit as m; m.cuda_available()"))

    def test_each_module_works_alone_with_its_library_named(self):
        for variable, _, module, code in self.MODULES:
            with self.subTest(module):
                alone = self.folder / variable
                alone.mkdir()
                subprocess.run(["cp", "-r", SOURCE / "fitter/python" / module, alone], check=True)
                done = run(code, alone, **{variable: os.environ[variable]})
                self.assertEqual(done.stderr, "")
                done = run(code, alone, **{variable: "/nowhere/lib.so"})
                self.assertRegex(done.stderr, "(ImportError|LibraryMissing): /nowhere/lib.so: .*"
                                 f"looked for in {variable}. .*set {variable}")

    def test_a_missing_library_is_an_import_error_in_any_folder(self):
        # As though the file lay here; the places near the root have the fewest folders above them.
        folders = ("/", "/a", "/a/b/c/d", "/dist-packages", "/site-packages", "/fitter/python")
        for variable, library, module, _ in self.MODULES:
            without_system_library(library)
            name = {"driftd_fit": "libdriftfit.py", "pygpufit": "gpufit.py"}[module]
            source = SOURCE / "fitter/python" / module / name
            for file in (f"{folder}/{module}/{name}" for folder in folders):
                code = (f"import pathlib\nnames = {{'__file__': {file!r}, '__name__': 'm'}}\n"
                        f"try:\n  exec(pathlib.Path({str(source)!r}).read_text(), names)\n"
                        "  names['load']()\n"
                        "except ImportError as error:\n  print(error)")
                with self.subTest(file):
                    done = run(code)
                    self.assertEqual(done.stderr, "")
                    self.assertRegex(done.stdout, f"{library} was looked for .*set {variable}")


if __name__ == "__main__":
    unittest.main()
