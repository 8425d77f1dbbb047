# SPDX-License-Identifier: MIT
"""Markers that are no longer where their ROIs are: found again by themselves, judged by the truth."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import SLOW, SOURCE, drain, new_rig, rms  # noqa: E402

LIMITS = {"step_limit_nm": 20, "rate_limit_nm_per_s": 2000, "range_limit_nm": 5000}
PIXEL_NM = 100
# 25 and 18 px: nothing of a marker of 1.3 px sigma is left in its ROI of 13 px.
JUMP_NM = {"x_nm": 2500, "y_nm": -1800}


class MarkersGone(unittest.TestCase):
    def setUp(self):
        self.rig = new_rig()
        self.addCleanup(self.rig.close)

    def start_locked(self, **config):
        self.rig.start_locked(control=LIMITS, **config)

    def wait_found(self):
        """Until frames are good again."""
        # Idle, a marker's reference is its place in one frame: that makes an outlier of a few.
        self.rig.wait_until(lambda s: s["markers"]["found_again"] == 1 and
                            (s["markers"]["used"] or 0) >= s["markers"]["tracking"] - 3, "found again")

    def assert_within_limits(self, corrections):
        """By what was sent, as a stage driver sees it."""
        for axis in "xy":
            for c in corrections:
                self.assertLessEqual(abs(c[f"delta_{axis}_nm"]), LIMITS["step_limit_nm"])
                self.assertLessEqual(abs(c[f"total_{axis}_nm"]), LIMITS["range_limit_nm"])
            # A subscriber that a busy machine keeps from reading misses some.
            in_a_row = [(a, b) for a, b in zip(corrections, corrections[1:])
                        if b["seq"] == a["seq"] + 1]
            self.assertGreater(len(in_a_row), len(corrections) / 2)
            for a, b in in_a_row:
                if a["lock_id"] != b["lock_id"]:
                    continue
                step = abs(b[f"total_{axis}_nm"] - a[f"total_{axis}_nm"])
                self.assertLessEqual(step, LIMITS["step_limit_nm"] + 1e-3)
            for a, b in zip(corrections, corrections[50:]):  # a tenth of a second and more
                if a["lock_id"] != b["lock_id"]:
                    continue
                seconds = (b["sent_ns"] - a["sent_ns"]) * 1e-9
                moved = abs(b[f"total_{axis}_nm"] - a[f"total_{axis}_nm"])
                # The limit counts the loop's own times, which lie up to some ms before `sent_ns`.
                self.assertLessEqual(moved, LIMITS["rate_limit_nm_per_s"] * (seconds + 0.02) +
                                     LIMITS["step_limit_nm"])

    def zero_of_the_drift(self, seconds=0.5):
        """The sample's true place less the drift published of it: mean and rms of single frames."""
        truth = self.rig.truth()
        positions = self.rig.subscribe("position")
        self.rig.sleep(seconds * SLOW)
        true_of = {t["frame_count"]: t for t in truth.drain()}
        pairs = [(p, true_of[p["frame_id"]]) for _, p in drain(positions, 0.1)
                 if p["valid"] and p["frame_id"] in true_of]
        self.assertGreater(len(pairs), 50)
        zero, scatter = {}, {}
        for axis in "xy":
            zeros = [t[f"sample_{axis}_nm"] - p[f"frame_{axis}_nm"] for p, t in pairs]
            zero[axis] = sum(zeros) / len(zeros)
            scatter[axis] = rms(zeros)
        return zero, scatter

    def assert_same_zero(self, before):
        """The drift is still counted from the same place: a jump in between is part of it."""
        after, scatter = self.zero_of_the_drift()
        for axis in "xy":
            self.assertLess(scatter[axis], 1.0)
            # Pixels answer not quite alike (gain_pattern of 0.5 %): some tenths of a nm elsewhere.
            self.assertLess(abs(after[axis] - before[axis]), self.rig.bound(0.5, 2))

    def mean_truth(self, seconds=0.5):
        seen = self.rig.truth().collect(seconds * SLOW)
        return {axis: sum(t[f"sample_{axis}_nm"] for t in seen) / len(seen) for axis in "xy"}

    def found_event(self, events):
        found = [e for _, e in drain(events, 0.2) if e["code"] == "markers_found_again"]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_idle_the_drift_is_the_jump(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        rig.wait_markers()
        events = rig.subscribe("event")
        ids = [m["id"] for m in rig.client.request("markers")[0]["markers"]]
        zero, _ = self.zero_of_the_drift()
        rig.fault("step", **JUMP_NM)
        self.wait_found()
        self.assertEqual(rig.status()["state"], "idle")
        event = self.found_event(events)
        self.assertEqual(event["markers"], 13)
        self.assertGreaterEqual(event["found"], 10)  # in one frame
        for axis in "xy":
            # The drift before and the time until it was found: some nm.
            self.assertAlmostEqual(event[f"displacement_{axis}_nm"], JUMP_NM[f"{axis}_nm"], delta=40)
            self.assertAlmostEqual(event[f"displacement_{axis}_nm"],
                                   PIXEL_NM * event[f"displacement_{axis}_px"], delta=1e-6)
        self.assertEqual([m["id"] for m in rig.client.request("markers")[0]["markers"]], ids)
        self.assert_same_zero(zero)

    def test_locked_a_jump_beyond_what_is_plausible_is_measured_and_not_followed(self):
        rig = self.rig
        self.start_locked(lock={"hold_timeout_s": 3 * SLOW})
        zero, _ = self.zero_of_the_drift()
        corrections = rig.subscribe("correction")
        corrections.receive(5 * SLOW)
        rig.fault("step", **JUMP_NM)
        rig.wait_state("holding")
        drain(corrections, 0.1)
        self.wait_found()
        self.assertEqual(rig.status()["state"], "holding")
        self.assert_same_zero(zero)
        self.assertEqual(rig.wait_state("lost")["reason"], "held_too_long")
        self.assertEqual(drain(corrections, 0.2), [])
        rig.client.lock()
        rig.wait_state("locked")
        rig.sleep(1 * SLOW)
        sent = [c for _, c in drain(corrections, 0.1)]
        self.assertTrue(sent)
        self.assert_within_limits(sent)
        rig.wait_still(1.0)

    def test_locked_a_jump_said_to_be_plausible_is_brought_back_within_the_limits(self):
        rig = self.rig
        self.start_locked(lock={"max_jump_nm": 4000})
        zero = self.mean_truth()
        corrections = rig.subscribe("correction")
        corrections.receive(5 * SLOW)
        rig.fault("step", **JUMP_NM)
        rig.wait_state("holding")
        rig.wait_state("locked")
        rig.sleep(2.5 * SLOW)  # 2500 nm at the rate limit of 2000 nm/s, and settling
        back = self.mean_truth()
        for axis in "xy":
            self.assertLess(abs(back[axis] - zero[axis]), rig.bound(0.5, 5))
        sent = [c for _, c in drain(corrections, 0.1)]
        self.assert_within_limits(sent)
        self.assertGreater(max(abs(c["total_x_nm"]) for c in sent), 2000)

    def test_jumps_while_holding_and_while_lost(self):
        rig = self.rig
        self.start_locked(lock={"hold_timeout_s": 2})
        corrections = rig.subscribe("correction")
        corrections.receive(5 * SLOW)
        rig.fault("hide_markers", seconds=0.5)
        rig.wait_state("holding")
        drain(corrections, 0.1)
        rig.fault("step", **JUMP_NM)
        self.wait_found()
        rig.wait_state("lost")
        rig.fault("step", x_nm=-4000, y_nm=0)
        rig.wait_until(lambda s: s["markers"]["found_again"] == 2, "found again while lost")
        self.assertEqual(drain(corrections, 0.2), [])
        rig.client.lock()
        rig.wait_state("locked")

    def test_referencing_starts_over_at_the_new_place(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config(control=LIMITS, lock={"reference_frames": int(1000 / SLOW)}))
        rig.wait_markers()
        corrections = rig.subscribe("correction")
        rig.client.lock()
        rig.wait_state("referencing")
        rig.sleep(0.5)  # of 2 s that the reference takes
        self.assertEqual(rig.status()["state"], "referencing")
        rig.fault("step", **JUMP_NM)
        rig.wait_state("locked")
        rig.sleep(1 * SLOW)
        rig.wait_state("locked")
        sent = [c for _, c in drain(corrections, 0.1)]
        self.assert_within_limits(sent)
        self.assertLess(max(abs(c["total_x_nm"]) for c in sent), 100)

    def test_camera_restarted_over_a_displaced_sample(self):
        rig = self.rig
        self.start_locked(lock={"max_jump_nm": 4000, "hold_timeout_s": 20},
                          fitter={"estimator": "poisson"},
                          camera={"gain_e_per_adu": 4, "offset_adu": 100, "read_noise_e": 3})
        zero = self.mean_truth()
        corrections = rig.subscribe("correction")
        corrections.receive(5 * SLOW)
        rig.fault("vanish", seconds=2)
        rig.wait_state("holding")
        drain(corrections, 0.2)
        rig.fault("step", **JUMP_NM)
        self.assertEqual(drain(corrections, 0.3), [])
        rig.wait_until(lambda s: s["state"] == "locked" and s["markers"]["found_again"] == 1,
                       "locked again")
        rig.sleep(2.5 * SLOW)
        back = self.mean_truth()
        for axis in "xy":
            self.assertLess(abs(back[axis] - zero[axis]), rig.bound(0.5, 5), rig.daemon.text())
        self.assert_within_limits([c for _, c in drain(corrections, 0.1)])
        self.assertGreaterEqual(rig.status()["camera"]["reconnects"], 1)

    def listed(self, markers, dx_px, dy_px):
        entries = [f"{{id: {m['id'] + 100}, x_px: {m['x_px'] + dx_px:.1f}, y_px: {m['y_px'] + dy_px:.1f}, "
                   f"role: {m['role']}}}" for m in markers]
        return {"mode": "list", "list": f"[{', '.join(entries)}]"}

    def test_markers_listed_20_px_off(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon()
        rig.wait_markers()
        markers = rig.client.request("markers")[0]["markers"]
        rig.daemon.stop()
        rig.start_daemon(rig.config(control=LIMITS, markers=self.listed(markers, 20, -8),
                                    lock={"at_start": "true"}))
        corrections = rig.subscribe("correction")
        rig.wait_state("locked")
        after = {m["id"]: m for m in rig.client.request("markers")[0]["markers"]}
        for m in markers:  # each under its own id, where it really is
            for axis in "xy":
                self.assertAlmostEqual(after[m["id"] + 100][f"{axis}_px"], m[f"{axis}_px"], delta=1)
        rig.sleep(1 * SLOW)
        self.assert_within_limits([c for _, c in drain(corrections, 0.1)])
        self.assertEqual(rig.status()["markers"]["found_again"], 1)

    def test_a_regular_grid_is_ambiguous_and_left_alone(self):
        places = [[50 + 40 * i, 50 + 40 * j] for i in range(4) for j in range(4)]
        demo = (SOURCE / "config/examples/scenario-demo.yaml").read_text()
        scenario = demo.replace("  count: 16\n", f"  positions_px: {places}\n")
        self.assertIn("positions_px", scenario)
        rig = self.rig
        rig.start_sim(scenario)
        rig.start_daemon()
        rig.wait_markers()
        events = rig.subscribe("event")
        rig.fault("step", x_nm=2000, y_nm=2000)
        rig.wait_until(lambda s: s["markers"]["searches"] >= 3, "three searches")
        self.assertEqual(rig.status()["markers"]["found_again"], 0)
        told = [e for _, e in drain(events) if e["code"] == "markers_not_found_again"]
        self.assertEqual(len(told), 1)
        self.assertIn("ambiguous", told[0]["text"])

    def test_never_when_told_so_and_not_while_the_markers_are_there(self):
        rig = self.rig
        rig.start_sim()
        rig.start_daemon(rig.config(markers={"find_again_after_ms": 0}))
        rig.wait_markers()
        rig.fault("step", **JUMP_NM)
        rig.sleep(2 * SLOW)
        self.assertEqual(rig.status()["markers"]["searches"], 0)
        rig.daemon.stop()
        rig.start_daemon()
        rig.wait_markers()
        rig.sleep(1 * SLOW)
        rig.fault("hide_markers", seconds=0.2)
        rig.sleep(1 * SLOW)
        self.assertEqual(rig.status()["markers"]["searches"], 0)


if __name__ == "__main__":
    unittest.main()
