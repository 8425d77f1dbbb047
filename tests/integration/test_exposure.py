# SPDX-License-Identifier: MIT
"""Exposure and gain over the wire, before the real daemon and the simulator's camera, which gets brighter by them."""
import statistics
import unittest

from harness import BIN, SLOW, driftd, new_rig, protocol

OFFSET_ADU = 100  # of scenario-demo.yaml


class ExposureAndGain(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start(self, **config):
        rig = self.rig
        rig.start_sim()
        self.file = rig.config(**config)
        rig.start_daemon(self.file)
        rig.wait_markers()
        rig.wait_until(lambda s: (s["markers"]["used"] or 0) >= 10, "markers measured")

    def amplitude(self) -> float:
        return statistics.median(m["amplitude_adu"] for m in self.rig.client.markers() if m["health"] == "good")

    def driftctl(self, *arguments, code=0):
        done = self.rig.run_program([BIN / "driftctl", "--config", self.file, *arguments])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_the_picture_gets_brighter_and_a_lock_goes_by_it(self):
        rig = self.rig
        self.start()
        reply = rig.client.request("exposure")[0]
        self.assertEqual(protocol.differences(protocol.examples()["exposure"], reply), [])
        before, ids = self.amplitude(), {m["id"]: m["role"] for m in rig.client.markers()}
        now = rig.client.exposure(exposure_us=reply["exposure"]["exposure_us"] / 2)
        self.assertAlmostEqual(now["exposure_us"], reply["exposure"]["exposure_us"] / 2, delta=1)
        self.assertAlmostEqual(self.amplitude() / before, 0.5, delta=0.05)
        now = rig.client.exposure(gain_db=6)
        self.assertAlmostEqual(now["gain_db"], 6, delta=0.1)
        self.assertAlmostEqual(self.amplitude() / before, 1, delta=0.1)
        self.assertEqual({m["id"]: m["role"] for m in rig.client.markers()}, ids)
        rig.client.lock()
        rig.wait_state("locked")
        rig.wait_still(3)
        with self.assertRaisesRegex(driftd.DriftdError, "`locked`.*`driftctl unlock` first") as caught:
            rig.client.exposure(gain_db=0)
        self.assertEqual(caught.exception.code, "refused")
        self.assertAlmostEqual(rig.client.exposure()["gain_db"], 6, delta=0.1)

    def test_it_outlives_a_camera_that_was_away(self):
        rig = self.rig
        self.start()
        wanted = rig.client.exposure()["exposure_us"] / 2
        rig.client.exposure(exposure_us=wanted)
        rig.fault("vanish", seconds=1.5 * SLOW)
        rig.wait_until(lambda s: not s["camera"]["connected"], "away")
        with self.assertRaises(driftd.DriftdError) as caught:
            rig.client.exposure(exposure_us=2 * wanted)
        self.assertEqual(caught.exception.code, "no_frame")
        rig.wait_until(lambda s: s["camera"]["connected"], "there again")
        self.assertAlmostEqual(rig.client.exposure()["exposure_us"], wanted, delta=1)

    def place_nm(self) -> tuple:
        seen = self.rig.truth().collect(0.5 * SLOW)
        return tuple(statistics.mean(t[f"sample_{axis}_nm"] for t in seen) for axis in "xy")

    def test_a_lost_lock_is_gone_back_to_in_another_exposure(self):
        """Its references are places: nothing of how bright the markers were is used."""
        rig = self.rig
        self.start(lock={"hold_timeout_s": 1}, gate={"tolerance_nm": 5})
        rig.client.lock()
        rig.wait_state("locked")
        rig.sleep(1 * SLOW)
        before = self.place_nm()
        rig.fault("hide_markers", seconds=6 * SLOW)
        rig.wait_state("lost")
        rig.wait_until(lambda s: (s["markers"]["used"] or 0) >= 10, "markers measured")
        rig.client.exposure(exposure_us=rig.client.exposure()["exposure_us"] / 2)
        rig.wait_until(lambda s: s["interrupted"]["phase"] == "found" and s["interrupted"]["moved_x_nm"] is not None, "an offer")
        rig.client.request("lock", resume=True)
        rig.wait_state("locked")
        rig.wait_until(lambda s: s["gate"]["in_lock"], "back")
        for now, then in zip(self.place_nm(), before):
            self.assertLess(abs(now - then), rig.bound(1.5, 5))

    def test_limits_are_told_and_kept(self):
        self.start()
        said = self.driftctl("exposure")
        self.assertIn("10 to 1e+06", said)
        self.assertIn("0 to 24", said)
        self.assertIn("can be 0 to 24 dB now, not 30", self.driftctl("exposure", "--gain-db", "30", code=1))
        self.assertIn("can be 10 to", self.driftctl("exposure", "--exposure-us", "5", code=1))
        self.driftctl("exposure", "--exposure-us", "nan", code=2)
        self.driftctl("exposure", "--gain-db", "inf", code=2)
        self.assertIn("500 us", self.driftctl("exposure", "--exposure-us", "500"))

    def test_what_was_chosen_is_kept_in_drop_ins_and_holds_after_a_restart(self):
        rig = self.rig
        self.start()
        self.assertIn("no markers were chosen", self.driftctl("markers", "--write", "--yes", code=4))
        ids = sorted(m["id"] for m in rig.client.markers())
        said = self.driftctl("markers", "--remove", *map(str, ids[:4]), "--witness", str(ids[4]), "--write", "--yes")
        self.assertIn("markers.list", said)  # that a restart is needed for
        self.driftctl("exposure", "--exposure-us", "600", "--gain-db", "3", "--write", "--yes")
        folder = self.file.parent / (self.file.name + ".d")
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["exposure.yaml", "markers.yaml"])
        self.assertRegex((folder / "markers.yaml").read_text(), "^# Chosen by `driftctl markers --write`, 20")
        places = {m["id"]: (m["x_px"], m["y_px"], m["role"]) for m in rig.client.markers()}
        sizes = rig.status()["fitter"]
        rig.daemon.stop()
        rig.start_daemon(self.file)
        rig.wait_until(lambda s: (s["markers"]["used"] or 0) >= 8, "markers measured")
        now = {m["id"]: (m["x_px"], m["y_px"], m["role"]) for m in rig.client.markers()}
        self.assertEqual({i: role for i, (_, _, role) in now.items()}, {i: role for i, (_, _, role) in places.items()})
        for i, (x, y, _) in now.items():
            self.assertLess(max(abs(x - places[i][0]), abs(y - places[i][1])), 2)
        self.assertEqual(rig.status()["fitter"]["roi_px"], sizes["roi_px"])
        exposure = rig.client.exposure()
        self.assertAlmostEqual(exposure["exposure_us"], 600, delta=1)
        self.assertAlmostEqual(exposure["gain_db"], 3, delta=0.1)


if __name__ == "__main__":
    unittest.main()
