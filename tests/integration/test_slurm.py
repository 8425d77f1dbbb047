# SPDX-License-Identifier: MIT
"""`driftfit slurm` on a Slurm of its own: a real munged, slurmctld and slurmd of this computer, on loopback, which end
with the test. As root, which slurmd needs."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit/tools/driftfit"))
from driftfit_program import PROGRAM, WithFolder, drifting  # noqa: E402

ENDS = "thunderstorm.csv", "locs.hdf5", "locs.yaml"
DAEMONS = "munged", "slurmctld", "slurmd"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Slurm:
    """A cluster of one node with two processors."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.daemons = folder, []
        for name in "state", "spool":
            (folder / name).mkdir(parents=True)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munge = folder / "munge.socket"
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}
        node = socket.gethostname().split(".")[0]
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if self.version() >= (23,) else "CgroupAutomount=no\n")
        (folder / "slurm.conf").write_text(
            f"ClusterName=driftfit\nSlurmctldHost={node}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
            f"AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={munge},cred_expire=5\n"
            f"SlurmctldPort={free_port()}\nSlurmdPort={free_port()}\n"
            f"StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n"
            f"SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n"
            f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n"
            "AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/builtin\n"
            "SchedulerParameters=sched_min_interval=0,batch_sched_delay=0\nReturnToService=2\nKillWait=2\n"
            f"NodeName={node} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n"
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
        self.start("munged", "--foreground", "--force", f"--socket={munge}", f"--key-file={key}",
                   f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        self.wait(munge.exists, "munged has no socket")
        self.start("slurmctld", "-D", "-c")
        self.start("slurmd", "-D", "-c")
        self.wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T", check=False), "the node is not idle")

    def version(self):
        said = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout
        return tuple(map(int, re.findall(r"\d+", said)))

    def start(self, name, *arguments):
        program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        with open(self.folder / f"{name}.out", "w") as out:
            self.daemons.append(subprocess.Popen([program, *arguments], env=self.environment, stdout=out, stderr=out,
                                                 stdin=subprocess.DEVNULL))

    def run(self, *call, check=True):
        done = subprocess.run(call, env=self.environment, capture_output=True, text=True)
        if check and done.returncode:
            raise AssertionError(f"{call}: {done.stderr}{done.stdout}")
        return done.stdout

    def wait(self, is_so, what, most_s=300):
        end = time.monotonic() + most_s
        while not is_so():
            if time.monotonic() > end:
                logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*.[lo][ou][gt]"))
                raise AssertionError(f"{what}\n{self.run('squeue', check=False)}{logs}")
            time.sleep(0.2)

    def stop(self):
        self.run("scancel", "--user=root", check=False)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


class OnSlurm(WithFolder):  # tier: full
    def setUp(self):
        super().setUp()
        missing = [name for name in DAEMONS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
        if missing or os.geteuid() != 0:
            self.skipTest("SKIPPED: " + (f"{', '.join(missing)} not installed (slurmctld, slurmd, slurm-client, munge)"
                                         if missing else "slurmd wants root"))
        self.slurm = Slurm(self.folder / "slurm")
        self.addCleanup(self.slurm.stop)
        self.stack = self.write_raw(drifting(60)[0], "a stack's.raw")
        self.run_program(self.stack, "--every-spot", "-o", self.folder / "one")
        self.out = self.folder / "100% out"

    def submit(self, shards, program=PROGRAM):
        """The script that driftfit writes, with another program in its place where a shard is to fail."""
        said = self.run_program("slurm", "--shards", shards, "--sbatch=--comment=a test's", self.stack, "--every-spot", "-o",
                                self.out)
        script = pathlib.Path(f"{self.out}_slurm.sh")
        self.assertIn(f"written: {script}\n", said)
        text = script.read_text()
        # Its own, however this computer names it.
        script.write_text(text.replace(str(pathlib.Path(PROGRAM).resolve()), str(program)))
        said = self.slurm.run("sh", str(script))
        self.assertRegex(said, rf"^shards: job \d+, {shards} of them; merge: job \d+, begins when all have ended\n")
        self.slurm.wait(lambda: not self.slurm.run("squeue", "-h"), "jobs do not end")
        return pathlib.Path(f"{self.out}_slurm-merge.log").read_text()

    def wrapper(self, then):
        """A driftfit that does `then` before shard 2 of 3."""
        file = self.folder / "wrapped"
        file.write_text(f'#!/bin/sh\ncase "$*" in *"--shard 2/3") {then} ;; esac\nexec {PROGRAM} "$@"\n')
        file.chmod(0o755)
        return file

    def assert_merged(self):
        for end in ENDS:
            self.assertEqual(pathlib.Path(f"{self.out}_{end}").read_bytes(), (self.folder / f"one_{end}").read_bytes(), end)
        self.assertEqual(list(self.folder.glob("*shard*")), [])

    def test_shards_and_merge_make_what_one_run_makes(self):
        self.assertIn("3 shards, 60 frames, 300 localizations", self.submit(3))
        self.assert_merged()

    def test_a_shard_that_is_killed_is_queued_again(self):
        mark = self.folder / "killed"
        said = self.submit(3, self.wrapper(f"[ -e {mark} ] || {{ touch {mark}; kill -9 $$; }}"))
        self.assertTrue(mark.exists())
        self.assertIn("shard 2 was killed (code 137) and is queued again",
                      pathlib.Path(f"{self.out}_slurm-2.log").read_text())
        self.assertIn("3 shards, 60 frames, 300 localizations", said)
        self.assert_merged()

    def test_a_merge_says_which_shard_failed_and_goes_on_when_that_is_there(self):
        said = self.submit(3, self.wrapper("echo no such disk; exit 1"))
        self.assertIn("1 of 3 shards is not there, or not whole: --shard 2/3 (frames 20 to 39)", said)
        self.assertEqual(list(self.folder.glob("100% out_locs*")), [])
        self.run_program(self.stack, "--every-spot", "--shard", "2/3", "-o", self.out, "--threads", 1)
        self.run_program("merge", "-o", self.out)
        self.assert_merged()


if __name__ == "__main__":
    unittest.main()
