# SPDX-License-Identifier: MIT
"""Records of a running daemon: read as others read them (h5py, numpy), after a kill and with disks that
fail; and what `driftctl export` and `report` make of them, read back as the programs do that they are for."""
import csv
import html.parser
import pathlib
import subprocess
import time
import unittest

import numpy

from harness import BIN, DEADLINE_S, SLOW, CalmRig, Process
from harness import protocol

try:
    import h5py
except ImportError:
    h5py = None
try:
    import PIL.Image
    import tifffile
except ImportError:
    tifffile = None


def driftctl(*arguments) -> str:
    done = subprocess.run([BIN / "driftctl", *map(str, arguments)], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def as_text(value) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def mounts_allowed() -> bool:
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def longest_run(file: pathlib.Path) -> int:
    """How many frames of a lock follow each other without a hole of 100 ms. The report makes spectra from 64 on."""
    try:
        with h5py.File(file) as record:
            rows = record["frames"][:]
    except OSError:  # it was written to at that moment
        return 0
    locked = h5py.check_enum_dtype(rows.dtype["state"])["locked"]
    good = rows["valid"][1:] & (rows["state"][1:] == locked) & (numpy.diff(rows["taken_ns"]) < 100_000_000)
    longest = run = 0
    for each in good:
        run = run + 1 if each else 0
        longest = max(longest, run)
    return longest


class Page(html.parser.HTMLParser):
    """Whether a page is whole, and what it would load from elsewhere."""

    def __init__(self, text: str):
        super().__init__()
        self.text, self.open, self.plots, self.paths, self.loads = text, [], 0, 0, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "line", "rect", "path"):
            self.open.append(tag)
        self.plots += tag == "svg"
        self.paths += tag == "path" and len(dict(attrs).get("d", "")) > 100
        self.loads += [a for a in attrs if a[0] in ("src", "href")] + ([tag] if tag == "script" else [])

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()


@unittest.skipUnless(h5py, "SKIPPED: no python3-h5py")
class Records(unittest.TestCase):
    def start(self, lock=None, **record) -> CalmRig:
        rig = CalmRig()
        self.addCleanup(rig.close)
        rig.start_sim()
        self.records = rig.folder / "records"
        options = {"directory": self.records, "keep_free_mb": 1, **record}
        rig.start_daemon(rig.config(record=options, control={"coast_nm": 0}, lock=lock or {}))
        rig.wait_until(lambda s: s["markers"]["used"], "markers")
        return rig

    def frames_of_hidden_markers(self, rig) -> dict:
        """What was saved of them. A busy machine may hold the lock just before, for a stage that does not follow: then
        some of the frames are in that one's file, and the markers are hidden again."""
        for _ in range(5):
            events = rig.subscribe("event")
            rig.wait_until(lambda s: s["state"] == "locked" and not s["raw_frames"]["saving"], "locked")
            frames = rig.status()["camera"]["frames"]
            rig.wait_until(lambda s: s["camera"]["frames"] > frames + 110 / SLOW, "frames before")  # frames_before_s
            rig.fault("hide_markers", seconds=1 * SLOW)
            event = None
            while event is None or event.get("action") != "saved":
                event = events.receive(DEADLINE_S)[1]
            if event["why"] == "holding: too few markers" and event["before_s"] > 0.8:
                return event
        raise AssertionError(f"never: frames of the second before; last {event}")

    @unittest.skipUnless(tifffile, "SKIPPED: no python3-tifffile, python3-pil")
    def test_raw_frames_around_a_lost_lock_join_the_record_and_are_replayed(self):
        rig = self.start(frames_memory_mb=1000, frames_before_s=1, frames_after_s=0.5 * SLOW, frames_at="holding")
        rig.client.request("lock")
        rig.wait_state("locked")
        record = rig.client.request("record", start=True)[0]["record"]["file"]
        rig.wait_until(lambda s: s["record"]["frames"] > 120 / SLOW, "frames")
        event = self.frames_of_hidden_markers(rig)
        self.assertEqual(event["action"], "saved")
        self.assertGreater(event["after_s"], 0.3 * SLOW)
        rig.client.request("record", stop=True)
        with h5py.File(record) as file:
            rows = {int(row["frame_id"]): row for row in file["frames"][:]}
        with tifffile.TiffFile(event["file"]) as tiff:
            images = tiff.asarray()
            pages = [dict(line.split("=", 1) for line in page.description.splitlines() if "=" in line)
                     for page in tiff.pages]
        self.assertEqual(len(images), event["frames"])
        ids = [int(page["frame_id"]) for page in pages]
        self.assertEqual(ids, sorted(set(ids)))
        held = 0
        for page, image in zip(pages, images):
            row = rows.get(int(page["frame_id"]))
            if row is None:  # skipped or older than the record
                continue
            for name in ("camera_time_ns", "arrival_ns", "taken_ns"):
                self.assertEqual(int(page[name]), row[name], name)
            self.assertLess(abs(int(page["wall_ns"]) - int(row["wall_ns"])), 10_000_000)
            if not row["stale"] and abs(int(page["arrival_ns"]) - int(page["event_ns"])) > 100_000_000 * SLOW:
                held += not row["valid"]
                self.assertEqual(row["valid"], image.max() > images[0].max() / 3, page)  # the markers' light
        self.assertGreater(held, 10)
        with PIL.Image.open(event["file"]) as image:
            self.assertEqual(image.n_frames, len(images))
            image.seek(5)
            numpy.testing.assert_array_equal(numpy.asarray(image), images[5])
        rig.daemon.stop()
        replayed = CalmRig()
        self.addCleanup(replayed.close)
        replayed.start_daemon(replayed.config(
            camera={"source": "replay"}, stage={},
            replay={"path": event["file"], "pace": "recorded", "on_end": "loop"}))
        status = replayed.wait_until(lambda s: s["loop"]["valid"] > 50 / SLOW, "frames of the file")
        self.assertEqual(status["camera"]["width_px"], images.shape[2])

    @unittest.skipUnless(tifffile, "SKIPPED: no python3-tifffile, python3-pil")
    def test_a_lost_lock_is_saved_from_before_it_was_held(self):
        held_s = 3 * SLOW
        rig = self.start(lock={"hold_timeout_s": held_s}, frames_memory_mb=2000, frames_before_s=1, frames_after_s=0.2)
        rig.client.request("lock")
        rig.wait_state("locked")
        frames = rig.status()["camera"]["frames"]
        rig.wait_until(lambda s: s["camera"]["frames"] > frames + 110 / SLOW, "frames before")
        events = rig.subscribe("event")
        rig.fault("hide_markers", seconds=600)
        event = {}
        while event.get("code") != "raw_frames":
            event = events.receive(DEADLINE_S)[1]
        self.assertEqual(event["action"], "saved")
        # On a busy machine it may have been held for something else at first, which is told behind this.
        self.assertTrue(event["why"].startswith("lost: held too long: too few markers"), event["why"])
        self.assertGreater(event["before_s"], held_s + 0.5)
        with tifffile.TiffFile(event["file"]) as tiff:
            brightest = [page.asarray().max() for page in tiff.pages]
        seen = sum(level > max(brightest) / 3 for level in brightest)
        self.assertGreater(seen, 20)  # of the second before the markers were hidden
        self.assertGreater(len(brightest) - seen, 100)  # of the three; a busy machine may hold it a little sooner
        told = driftctl("--commands", rig.commands, "record", "status")
        self.assertIn("raw frames: the last ", told)
        self.assertIn("1 file of raw frames, the last: " + event["file"], told)

    def test_a_kill_costs_at_most_the_last_second(self):
        rig = self.start(at_lock="true")
        self.assertFalse(rig.status()["record"]["recording"])
        rig.client.request("lock")
        rig.wait_state("locked")
        reply = rig.client.request("record", start=True)[0]  # goes on with the lock's
        self.assertEqual(protocol.differences(protocol.examples()["record"], reply), [])
        rig.wait_until(lambda s: s["record"]["frames"] > 300 / SLOW, "frames")
        file = pathlib.Path(rig.status()["record"]["file"])
        end = time.monotonic() + DEADLINE_S
        while longest_run(file) < 64:  # read while it is written
            self.assertLess(time.monotonic(), end)
            time.sleep(0.5)
        rig.daemon.child.kill()
        killed_ns = time.monotonic_ns()
        rig.daemon.child.wait()
        with h5py.File(file) as record:
            self.assertIn("pixel_size_nm: 100", as_text(record.attrs["configuration"]))
            self.assertNotIn("end", record.attrs)
            frames, spots = record["frames"][:], record["localizations"][:]
            units = dict(zip(record["frames"].attrs["columns"], record["frames"].attrs["units"]))
            states = {v: k for k, v in h5py.check_enum_dtype(record["frames"].dtype["state"]).items()}
            codes = [e.decode() for e in record["events"]["code"]]
            clock = record["clock"][:]
        self.assertLess(killed_ns - frames["arrival_ns"][-1], 2.5e9 * SLOW)  # a busy machine writes late
        self.assertEqual((units["x_nm"], units["taken_ns"]), ("nm", "ns"))
        self.assertIn("locked", {states[s] for s in frames["state"]})
        self.assertEqual(codes[0], "record")
        self.assertIn("state_changed", codes)
        measured = frames[~frames["stale"]]
        self.assertTrue(set(spots["frame_id"]) == set(measured["frame_id"]))
        left = frames[frames["correction"] == 1]
        self.assertGreater(len(left), 100 / SLOW)
        self.assertTrue((left["sent_ns"] > left["arrival_ns"]).all())
        self.assertTrue(numpy.isfinite(left["total_x_nm"]).all())
        offset_ns = (clock["wall_ns"] - clock["time_ns"])[0]
        self.assertLess(numpy.abs(frames["wall_ns"] - frames["taken_ns"] - offset_ns).max(), 0.5e9)
        self.exports(rig.folder, file, frames)

    def exports(self, folder, file, frames):
        """The drift in the frames of another camera, by numpy and by driftctl."""
        good = frames[frames["valid"] & (frames["reference"] == frames["reference"][-1])]
        first, last = good["taken_ns"][0], good["taken_ns"][-1]

        def within(begin):
            return good[(good["taken_ns"] >= begin) & (good["taken_ns"] <= begin + 20_000_000)]

        begins = [b for b in range(first + 10_000_000, last - 60_000_000, 50_000_000)
                  if len(within(b))]  # a busy machine may use no frame of 20 ms
        self.assertGreater(len(begins), 10)
        means = numpy.array([[within(b)[axis].astype(float).mean() for axis in ("frame_x_nm", "frame_y_nm")]
                             for b in begins])
        times = folder / "times.txt"
        times.write_text("# a trigger log\nframe,time\n" +
                         "".join(f"{i},{b}\n" for i, b in enumerate(begins)))
        which = ["--times", times, "--column", 2, "--clock", "monotonic", "--unit", "ns",
                 "--exposure-ms", 20]
        driftctl("export", file, "-o", folder / "drift.csv", *which)
        with open(folder / "drift.csv", newline="", encoding="ascii") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual([int(r["frame"]) for r in rows], list(range(len(begins))))
        ours = numpy.array([[float(r["x_nm"]), float(r["y_nm"])] for r in rows])
        zero = (ours - means).mean(axis=0)  # where the curve's zero is, nothing tells
        self.assertLess(numpy.abs(ours - zero - means).max(), 2e-3)
        # Picasso: numpy.loadtxt, subtracted frame by frame, in pixels.
        driftctl("export", file, "-o", folder / "drift.txt", "--format", "picasso", "--pixel-size-nm", 130,
                 *which)
        self.assertTrue((folder / "drift.txt").read_bytes().endswith(b"\r\n"))
        picasso = numpy.loadtxt(folder / "drift.txt", delimiter=" ")
        self.assertLess(numpy.abs(picasso * 130 - ours).max(), 1e-3)
        # ThunderSTORM: by the names in its quoted heading.
        driftctl("export", file, "-o", folder / "drift-ts.csv", "--format", "thunderstorm", *which)
        with open(folder / "drift-ts.csv", newline="", encoding="ascii") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual(list(rows[0]), ["id", "frame", "x [nm]", "y [nm]", "sigma [nm]", "intensity [photon]",
                                         "offset [photon]", "bkgstd [photon]", "uncertainty_xy [nm]"])
        self.assertEqual([float(r["frame"]) for r in rows], [i + 1 for i in range(len(begins))])
        self.assertLess(numpy.abs([float(r["x [nm]"]) - x for r, x in zip(rows, ours[:, 0])]).max(), 1e-3)
        # By the wall clock, as dates, the same within the clocks' reading.
        with h5py.File(file) as record:
            clock = record["clock"][:]
        offset = int(clock["wall_ns"][-1]) - int(clock["time_ns"][-1])
        dates = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((b + offset) // 10**9)) +
                 f".{(b + offset) % 10**9:09d}Z" for b in map(int, begins)]
        (folder / "dates.txt").write_text("\n".join(dates) + "\n")
        said = driftctl("export", file, "-o", folder / "wall.csv", "--times", folder / "dates.txt",
                        "--exposure-ms", 20)
        self.assertIn("joined to within", said)
        wall = numpy.genfromtxt(folder / "wall.csv", delimiter=",", names=True)
        self.assertLess(numpy.median(numpy.abs(wall["x_nm"] - ours[:, 0])), 0.1)
        # By frame numbers; one that is not there has no drift.
        (folder / "ids.txt").write_text("".join(f"{i}\n" for i in good["frame_id"][:5]) + "999999999\n")
        driftctl("export", file, "-o", folder / "ids.csv", "--frame-ids", folder / "ids.txt")
        ids = numpy.genfromtxt(folder / "ids.csv", delimiter=",", names=True)
        self.assertTrue(numpy.isnan(ids["x_nm"][-1]))
        self.assertLess(numpy.abs(ids["x_nm"][:5] - zero[0] - good["frame_x_nm"][:5]).max(), 2e-3)
        # The whole record.
        driftctl("export", file, "-o", folder / "tables")
        table = numpy.genfromtxt(folder / "tables/frames.csv", delimiter=",", names=True, dtype=None,
                                 encoding="ascii")
        self.assertEqual(list(table["frame_id"]), list(frames["frame_id"]))
        self.assertEqual(list(table["wall_ns"]), list(frames["wall_ns"]))
        driftctl("export", file, "-o", folder / "all.h5", "--format", "hdf5")
        with h5py.File(folder / "all.h5") as record:
            copy = record["frames"][:]
        self.assertEqual(copy.tobytes(), frames.tobytes())
        driftctl("report", file, "-o", folder / "report.html")
        page = Page((folder / "report.html").read_text(encoding="utf-8"))
        self.assertEqual((page.open, page.loads), ([], []))
        share = 100 * frames["in_lock"].mean()
        self.assertIn(f"<th>frames in lock (within gate.tolerance_nm: images may be taken)</th><td>{share:.3f} %</td>",
                      page.text)
        self.assertGreaterEqual(page.plots, 6)
        self.assertGreaterEqual(page.paths, 6)  # more, where a busy machine leaves enough frames

    def test_disks_that_fail_end_the_recording_and_nothing_else(self):
        if not mounts_allowed():
            print("SKIPPED: no mount of its own may be made here")
            return
        rig = CalmRig()
        self.addCleanup(rig.close)
        rig.start_sim()
        disk = rig.folder / "disk"
        disk.mkdir()
        file = rig.config(record={"directory": disk / "records", "keep_free_mb": 1, "frames_before_s": 0.5,
                                  "frames_memory_mb": 800}, lock={"hold_timeout_s": 30})
        # A name space of its own with a disk of 6 MB, in which the daemon's process number is the shell's.
        rig.daemon = rig.enter_context(Process(
            "driftd", ["unshare", "-m", "sh", "-c",
                       f"mount -t tmpfs -o size=6m none {disk} && exec {BIN / 'driftd'} --config {file}"],
            rig.folder))
        rig.daemon.wait_for("publishing on")
        pid = rig.daemon.child.pid
        inside = ["nsenter", "-t", str(pid), "-m"]
        rig.wait_until(lambda s: s["markers"]["used"], "markers")
        rig.client.request("lock")
        rig.wait_state("locked")
        events = rig.subscribe("event")

        def failed(why: str) -> str:
            status = rig.wait_until(lambda s: s["record"]["problem"], why)
            self.assertFalse(status["record"]["recording"])
            self.assertIn(why, status["record"]["problem"])
            return status["record"]["file"]

        rig.client.request("record", start=True)
        subprocess.run([*inside, "dd", "if=/dev/zero", f"of={disk}/ballast", "bs=100k", "count=45"],
                       check=True, stderr=subprocess.DEVNULL)
        full = failed("record.keep_free_mb")
        content = subprocess.run([*inside, "cat", full], check=True, capture_output=True).stdout
        (rig.folder / "full.h5").write_bytes(content)
        with h5py.File(rig.folder / "full.h5") as record:  # whole
            self.assertIn("record.keep_free_mb", as_text(record.attrs["end"]))
            self.assertGreater(len(record["frames"][:]), 0)
        subprocess.run([*inside, "dd", "if=/dev/zero", f"of={disk}/more", "bs=100k", "count=20"],
                       check=False, stderr=subprocess.DEVNULL)
        with self.assertRaises(Exception) as refused:
            rig.client.request("record", start=True)
        self.assertIn("record.keep_free_mb", str(refused.exception))
        subprocess.run([*inside, "rm", f"{disk}/ballast", f"{disk}/more"], check=True)
        rig.client.request("record", start=True)
        subprocess.run([*inside, "rm", "-r", f"{disk}/records"], check=True)
        failed("No such file")
        subprocess.run([*inside, "mount", "-o", "remount,ro", disk], check=True)
        with self.assertRaises(Exception) as refused:
            rig.client.request("record", start=True)
        self.assertIn("Read-only", str(refused.exception))
        rig.client.request("record", frames=True)
        problem = rig.wait_until(lambda s: s["raw_frames"]["problem"], "not saved")["raw_frames"]["problem"]
        self.assertIn("Read-only", problem)
        status = rig.status()
        self.assertEqual((status["state"], status["lock_id"]), ("locked", 1))
        self.assertEqual(status["loop"]["queue_dropped"], 0)
        told = []
        while len(told) < 7:
            event = events.receive(DEADLINE_S)[1]
            told += [event["action"]] if event["code"] in ("record", "raw_frames") else []
        self.assertEqual(told, ["begun", "failed", "not_begun", "begun", "failed", "not_begun", "not_saved"])


if __name__ == "__main__":
    unittest.main()
