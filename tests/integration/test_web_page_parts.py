# SPDX-License-Identifier: MIT
"""The parts of the page of driftd-web that only calculate, in a real browser, and what its plots take of memory."""
from __future__ import annotations

import contextlib
import pathlib
import tempfile
import unittest

from browser import Browser, Clean, Web
from harness import CalmRig
from protocol import examples


class Parts(Clean):
    """The page's parts that only calculate. A browser, and a driftd-web without any daemon."""

    @classmethod
    def setUpClass(cls):
        cls.scope = contextlib.ExitStack()
        with cls.scope:
            cls.browser = Browser(cls.scope)
            rig = cls.scope.enter_context(CalmRig())
            cls.web = Web(rig, "--config", f"lab={rig.config()}")
            cls.browser.open(cls.web.url)
            cls.scope = cls.scope.pop_all()
        cls.addClassCleanup(cls.scope.close)

    def test_each(self):
        """In one browser: it takes longer to start than all of them."""
        for name in (name for name in dir(self) if name.startswith("part_")):
            with self.subTest(name):
                getattr(self, name)()
        self.check(self.browser, self.web.url)

    def part_messages(self):
        self.assertEqual(self.browser.module("wire.js", """
            const text = new TextEncoder().encode('{"kind":"image","width":2,"height":1}');
            const message = new Uint8Array(4 + text.length + 4);
            new DataView(message.buffer).setUint32(0, text.length, true);
            message.set(text, 4);
            message.set([1, 2, 255, 255], 4 + text.length);
            const {header, payload} = m.decode(message.buffer);
            const broken = new Uint8Array([200, 0, 0, 0, 123]);
            return [header.width, [...m.pixelsOf(header, payload)], m.decode(broken.buffer), m.decode(new ArrayBuffer(2)),
                    m.pixelsOf({width: 3, height: 1}, payload), m.decode(new Uint8Array([1, 0, 0, 0, 123]).buffer)];
            """), [2, [513, 65535], None, None, None, None])

    def part_rings_keep_the_least_and_the_greatest(self):
        self.assertEqual(self.browser.module("columns.js", """
            const r = new m.Ring(1, 5, 1);
            for (const [t, v] of [[10.1, 1], [10.9, -3], [12.5, 7]]) r.add(t, 0, v);
            const first = [10, 11, 12].map((c) => [r.low(c, 0), r.high(c, 0)].map((v) => Number.isNaN(v) ? null : v));
            r.add(14, 0, 2);
            r.add(9, 0, 1000);              // older than the ring
            const before = r.extent([0]);
            r.add(15, 0, 2);                // the column of 10 goes
            const after = r.extent([0]);
            r.add(1000, 0, 4);              // all go
            r.add(NaN, 0, 1); r.add(1000, 0, NaN); r.add(1000, 0, Infinity);
            return [first, before, after, r.extent([0])];
            """), [[[-3, 1], [None, None], [7, 7]], {"low": -3, "high": 7}, {"low": 2, "high": 7}, {"low": 4, "high": 4}])

    def part_a_history_fills_only_what_is_not_known_better(self):
        self.assertEqual(self.browser.module("columns.js", """
            const r = new m.Rings(1);
            r.add(105.5, 0, 1);
            r.addBin(100, 10, 0, -50, 50);
            const fine = r.of(600), coarse = r.of(7200);
            return [fine.high(105, 0), fine.high(103, 0), fine.low(109, 0), coarse.low(10, 0), coarse.high(10, 0)];
            """), [1, 50, -50, -50, 50])

    def part_the_target_shows_half_a_minute_of_slow_cameras_too(self):
        self.assertEqual(self.browser.module("target.js", """
            const target = new m.Target(document.createElement("canvas"), () => {});
            const shown = () => [...Array(target.shown_()).keys()].map((age) => target.trail_.at(age, 0));
            const seen = [];
            for (let t = 1e6; t < 1e6 + 100; t += 10) target.add(t, t - 1e6, 0);
            seen.push(shown());
            for (let t = 1e6 + 100; t <= 1e6 + 120; t += 10) target.add(t, null, null);
            seen.push(shown());
            target.add(5, 7, 0);            // another clock
            seen.push(shown());
            return seen;
            """), [[90, 80, 70, 60], [90], [7]])

    def part_times_that_are_not_todays_have_their_date(self):
        self.assertEqual(self.browser.module("words.js", """
            const at = new Date(2026, 1, 3, 4, 5, 6).getTime(), late = new Date(2026, 1, 3, 23, 59, 59).getTime();
            return [m.moment(at, late), m.moment(at, late + 1000), m.moment(late, at)];
            """), ["04:05:06", "2026-02-03 04:05:06", "23:59:59"])

    def part_ranges_go_in_steps(self):
        self.assertEqual(self.browser.module("range.js", """
            const r = new m.Range(-1, 1), seen = [];
            const tell = (changed) => seen.push([changed, r.low, r.high].map((v) => typeof v === 'number' ? Number(v.toFixed(6)) : v));
            tell(r.grow(-0.5, 0.9));
            tell(r.grow(-0.5, 1.01));
            tell(r.grow(-0.5, 1.05));
            tell(r.grow(-37, 0));
            r.fit(0.11, 0.12); tell(true);
            r.scale(2); tell(true);
            return seen;
            """), [[False, -1, 1], [True, -1, 1.5], [False, -1, 1.5], [True, -40, 1.5], [True, 0.105, 0.125], [True, 0.095, 0.135]])

    def part_ticks_are_ones_twos_and_fives(self):
        found = self.browser.module("range.js", """
            return [[0, 1], [-40, 10], [-0.003, 0.004], [1e5, 1.2e5]].map(([a, b]) => m.ticks(a, b).map((t) => m.tickText(t, m.tickStep(b - a))));
            """)
        self.assertEqual(found[0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"])
        self.assertEqual(found[1], ["\u221240", "\u221230", "\u221220", "\u221210", "0", "10"])
        for labels in found:
            self.assertLessEqual(len(labels), 8)
            self.assertEqual(len(labels), len(set(labels)))

    def part_contrast(self):
        self.assertEqual(self.browser.module("picture.js", """
            const pixels = new Uint16Array(10000).fill(100);
            pixels.fill(3000, 0, 20);
            pixels[20] = 5;
            const c = m.contrastOf(pixels), flat = m.contrastOf(new Uint16Array(100).fill(7));
            const greys = new Uint8Array(m.greysOf(100, 355, 4000).buffer);
            return [c, flat, [99, 100, 200, 355, 3999].map((v) => greys[4 * v]), [...greys.slice(4 * 4000, 4 * 4000 + 4)]];
            """), [{"black": 100, "white": 3000}, {"black": 7, "white": 8}, [0, 0, 100, 255, 255], [255, 140, 0, 255]])

    def part_a_picture_as_a_file(self):
        """Read back by Pillow."""
        try:
            from PIL import Image
        except ImportError:
            print("python3-pil is not here: the file was not read")
            return
        data = self.browser.module("tiff.js", "return [...new Uint8Array(m.tiffOf(new Uint16Array([1, 2, 3, 40000, 65535, 6]), 3, 2))]")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "picture.tif"
            file.write_bytes(bytes(data))
            with Image.open(file) as image:
                self.assertEqual(image.size, (3, 2))
                self.assertEqual(list(image.getdata()), [1, 2, 3, 40000, 65535, 6])
                self.assertEqual(image.tag_v2[262], 1)  # 0 is black

    def part_what_a_lock_needs(self):
        self.assertEqual(self.browser.module("begin.js", """
            const histogram = Array(64).fill(0);
            histogram[2] = 9;
            const image = {saturated: 0, histogram};
            const status = {camera: {connected: true, rate_hz: 100, problem: ''}, markers: {tracking: 10, witness: 3, used: 10},
                            stage_driver: null, acquaintance: {state: 'told', text: ''}, state: 'idle', fitter: {size_reason: ''}};
            const states = (changes, picture = image) => m.stepsOf({...status, ...changes}, picture).map((step) => step.state[0]).join('');
            const bright = {...image, histogram: histogram.with(30, 1)};
            return [states({}), states({}, bright), states({}, {...bright, saturated: 3}), states({}, null),
                    states({camera: {connected: false, problem: 'away'}}), states({camera: {connected: true, rate_hz: null}}, bright),
                    states({markers: {tracking: 0, witness: 0, used: 0}}, bright), states({markers: {tracking: 10, witness: 3, used: 4}}, bright),
                    states({stage_driver: {state: 'ready', driver: 'a', text: ''}}, bright),
                    states({stage_driver: {state: 'limit', driver: 'a', text: ''}}, bright),
                    states({acquaintance: {state: 'known', text: ''}, state: 'locked'}, bright),
                    states({acquaintance: {state: 'not_found', text: ''}}, bright)];
            """), ["dmdooo", "dddooo", "dmdooo", "dodooo", "modooo", "mddooo", "ddmooo", "ddmooo", "ddddoo", "dddmoo", "dddodd", "dddomo"])

    def part_what_a_step_is_mended_by(self):
        self.assertEqual(self.browser.module("begin.js", """
            const image = {saturated: 0, histogram: Array(64).fill(0).with(30, 1)};
            const status = {camera: {connected: true, rate_hz: 100, problem: ''}, markers: {tracking: 10, witness: 3, used: 10},
                            stage_driver: null, acquaintance: {state: 'told', text: ''}, state: 'idle', fitter: {size_reason: ''}};
            const stage = (known, changes = {}) => { const {state, act} = m.stepsOf({...status, ...changes}, image, known)[4]; return [state, act]; };
            const acts = (changes, picture = image) => m.stepsOf({...status, ...changes}, picture).map((step) => step.act);
            return [acts({}), acts({markers: {tracking: 0, witness: 0, used: 0}})[2], acts({state: 'locked'})[5],
                    acts({}, {...image, saturated: 3})[1],
                    stage({proposal: 'open', calibrated: false}), stage({proposal: 'open', calibrated: true}),
                    stage({proposal: 'written', calibrated: true}), stage({proposal: 'problem', calibrated: false}),
                    stage({proposal: 'none', calibrated: false}, {acquaintance: {state: 'not_found', text: ''}})];
            """), [[None, None, None, None, "do-calibrate", "do-lock"], "do-find", None, "exposure-us",
                   ["missing", "do-write"], ["missing", "do-write"], ["done", None], ["open", "do-calibrate"], ["missing", "do-calibrate"]])

    def part_a_step_is_not_mended_before_its_cause(self):
        """No markers are seen in a saturated picture, and a lock goes by what is written."""
        saturated, written, states = self.browser.module("begin.js", """
            const image = {saturated: 3, histogram: Array(64).fill(0).with(30, 1)};
            const status = {camera: {connected: true, rate_hz: 100, problem: ''}, markers: {tracking: 10, witness: 3, used: 1},
                            stage_driver: null, acquaintance: {state: 'told', text: ''}, state: 'idle', fitter: {size_reason: ''}};
            const lock = (state, proposal = 'none') => m.stepsOf({...status, state}, image, {proposal, calibrated: false})[5];
            return [m.stepsOf(status, image)[2], ['none', 'open', 'written'].map((proposal) => lock('idle', proposal).text),
                    ['referencing', 'holding', 'lost', 'fault', 'calibrating', 'another'].map((state) => [lock(state).state, lock(state).act])];
            """)
        self.assertEqual(saturated["act"], "exposure-us")
        self.assertIn("saturated pixels are not used", saturated["text"])
        self.assertEqual(["Write first" in text for text in written], [False, True, False])
        self.assertEqual(states, [["open", None], ["missing", None], ["missing", "do-lock"], ["missing", "do-reset"], ["open", None], ["open", "do-lock"]])

    def part_where_z_can_be_calibrated(self):
        whys, asked = self.browser.module("axial.js", """
            const driver = (...axes) => ({axes: axes.map((axis) => ({axis}))});
            const why = (axial, changes = {}) => m.whyNotSwept({state: 'idle', stage_driver: null, axial, ...changes});
            const by = (lock, method = 'astigmatic') => ({method, lock});
            const idle = {state: 'idle', stage_driver: null};
            const {question, command} = m.sweepOf({axial: by(null, 'defocus')}, '', '');
            return [[m.whyNotSwept(null), why(null), why({method: 'another', lock: null}), why(by(null)), why(by(null), {stage_driver: driver('x', 'y')}),
                     why(by(idle)), why(by(idle), {stage_driver: driver('x', 'y')}), why(by(idle), {stage_driver: driver('x', 'y', 'z')}),
                     why(by({state: 'idle', stage_driver: driver('z')}), {stage_driver: driver('x', 'y')}),
                     why(by({...idle, state: 'locked'})), why(by({...idle, state: 'calibrating'})), why(by(idle), {state: 'calibrating'}),
                     why(by(idle, 'reflection'), {state: 'locked'})],
                    [question.includes('300 nm'), command, m.sweepOf({axial: by(null)}, '150', '10').command]];
            """)
        self.assertEqual([why if why is None else why.split(":")[0].split(" is being")[0] for why in whys],
                         [None, None, None, "", "", "", "No stage of z", "", "", "z is locked", "It is under way.", "The stage of x and y", ""])
        self.assertEqual(asked, [True, {"command": "calibrate", "axes": "z"},
                                 {"command": "calibrate", "axes": "z", "range_nm": 150, "step_nm": 10}])

    def part_what_is_to_be_set_is_set_on_the_page(self):
        """Where it can be: no option is named."""
        texts = self.browser.module("begin.js", """
            const status = {camera: {connected: true, rate_hz: 100, problem: ''}, markers: {tracking: 10, witness: 3, used: 10},
                            stage_driver: null, acquaintance: {state: 'told', text: ''}, state: 'idle', fitter: {size_reason: ''}};
            const histogram = Array(64).fill(0).with(2, 1);
            return [{saturated: 3, histogram}, {saturated: 0, histogram}].map((image) => m.stepsOf(status, image)[1].text);
            """)
        self.assertIn("set a shorter exposure or less gain below the picture", texts[0])
        self.assertIn("set a longer exposure below the picture", texts[1])
        self.assertNotIn("camera.", "".join(texts))

    def part_an_exposure_that_can_be_kept(self):
        self.assertEqual(self.browser.module("exposure.js", """
            const now = {exposure_us: 1000, gain_db: 0, configured_exposure_us: 1000, configured_gain_db: 0};
            return [null, {}, {exposure_us: 500}, {gain_db: 6}, {exposure_us: 1004, gain_db: 0.05}, {exposure_us: null, gain_db: null}]
              .map((changes) => m.isOther(changes && {...now, ...changes}));
            """), [False, False, True, True, False, False])

    def part_a_camera(self):
        rows, slope, at = self.browser.module("camera.js", """
            const light = {least_offset_adu: 97.7, most_offset_adu: 105, curve: []};
            const rows = m.rowsOf({gain_e_per_adu: 4.001, gain_sd_e_per_adu: 0.018, offset_adu: null, offset_sd_adu: null, read_noise_e: null,
                                   read_noise_sd_e: null, saturation_adu: null, light, configured: {gain_e_per_adu: 3.5, offset_adu: 0, read_noise_e: 0,
                                   saturation_adu: 0}, proposal: {camera: {gain_e_per_adu: 4.001}}});
            const line = m.lineOf([{mean_adu: 100, variance_adu2: 20, sd_adu2: 1}, {mean_adu: 300, variance_adu2: 70, sd_adu2: 1}], 4);
            return [rows, line(204) - line(200), line(200)];
            """)
        self.assertEqual(rows[0], ["Gain", "4.001 \u00b1 0.018 e\u207b/ADU", "3.5", "4.001"])
        self.assertEqual(rows[1], ["Offset", "between 97.7 and 105.0 ADU: measure the dark, too", "not set", "\u2013"])
        self.assertEqual(rows[3], ["Saturation", "not reached", "not set", "\u2013"])
        self.assertEqual((slope, at), (1, 45))

    def part_a_measurement(self):
        rows = self.browser.module("measure.js", """
            const axis = {drift_nm_per_min: -3.5, about_line_nm: 1.2, frame_noise_nm: 0.3, promised_noise_nm: 0.31,
                          allan_s_nm: [[0.002, 0.4], [0.004, 0.2], [0.008, 0.6]], lines: [{frequency_hz: 12.3, amplitude_nm: 0.25}]};
            return m.figuresOf({seconds: 30, frames: 15000, rate_hz: 500, missing_share: 0.001, markers_allow_nm: [0.2, 0.21], x: axis,
                                y: {...axis, lines: []}});
            """)
        rows = {row[0]: row[1:] for row in rows}
        self.assertEqual(rows["Drift"], ["\u22123.50 nm/min"] * 2)
        self.assertEqual(rows["Vibrations"], ["0.25 nm at 12.30 Hz", "none stands out"])
        self.assertEqual(rows["Least Allan deviation"], ["0.200 nm over 0.004 s"] * 2)

    def part_a_measurement_with_z(self):
        """A column more; without z there is none."""
        z, flat = self.browser.module("measure.js", """
            const axis = {drift_nm_per_min: -3.5, about_line_nm: 1.2, frame_noise_nm: 0.3, promised_noise_nm: 0.31,
                          allan_s_nm: [[0.002, 0.4]], lines: []};
            const all = {seconds: 30, frames: 15000, rate_hz: 500, missing_share: 0, markers_allow_nm: [0.2, 0.21], x: axis, y: axis,
                         markers_allow_z_nm: 1.1, z_missing_share: 0.25, z: {...axis, frame_noise_nm: 1.5}};
            return [m.figuresOf(all), m.figuresOf({...all, z: null, markers_allow_z_nm: null, z_missing_share: null})];
            """)
        self.assertEqual({len(row) for row in z}, {4})
        self.assertEqual({len(row) for row in flat}, {3})
        rows = {row[0]: row[1:] for row in z}
        self.assertEqual(rows["Noise of a frame"][2], "1.500 nm")
        self.assertEqual(rows["as the markers allow"], ["0.200 nm", "0.210 nm", "1.100 nm"])
        self.assertEqual(rows["Time"][2], "25.00 % of these without z")

    def part_the_markers_pattern(self):
        self.assertEqual(self.browser.module("tables.js", """
            return [m.patternRows(null), m.patternRows(undefined),
                    m.patternRows({rotation_mrad: -0.01234, rotation_sd_mrad: 0.004, scale_ppm: 3.21, scale_sd_ppm: 2,
                                   tilt_x_mrad: null, tilt_y_mrad: 0.5, tilt_y_sd_mrad: 0.1})];
            """), [[], [], [["Markers' pattern turned, x towards y", "\u22120.0123 \u00b1 0.0040 mrad"],
                            ["Markers' pattern grown", "+3.2 \u00b1 2.0 ppm"],
                            ["Markers' pattern tilted along y", "+0.500 \u00b1 0.100 mrad"]]])

    def part_z_is_shown_where_it_is_measured(self):
        """And nothing of it, not even a heading, where it is not."""
        shown = self.browser.module("tables.js", """
            const tables = new m.Tables(() => {});
            const marker = {id: 3, role: "tracking", health: "good", reputation_reason: "good", x_px: 1, y_px: 2};
            const seen = () => [[...document.querySelectorAll("#markers th[data-z]")].map((th) => !th.hidden),
                                [...document.getElementById("markers-rows").rows].map((row) => [...row.cells].slice(12).map((cell) => cell.innerText))];
            const all = [];
            for (const deep of [{}, {sigma_y_px: 1.4, z_nm: -12.34, residual_z_nm: 5}, {sigma_y_px: 1.4, z_nm: null}, {z_nm: null}]) {
                tables.setMarkers([{...marker, ...deep}]);
                all.push(seen());
            }
            tables.setMarkers([]);
            return all;
            """)
        self.assertEqual(shown, [[[False, False], [[]]], [[True, True], [["\u221212.3", "+5.0"]]],
                                 [[True, True], [["\u2013", "\u2013"]]], [[False, False], [[]]]])
        shown = self.browser.module("state.js", """
            const state = new m.StateView();
            const status = {state: "locked", reason: "none", time_ns: 1, state_since_ns: 1, markers: {}, gate: {}};
            const all = [];
            for (const axial of [null, {valid: true, warning: "near the end"}, {valid: false, text: "few are read", warning: ""}, {valid: false, reason: "dark"}]) {
                status.time_ns += 1;
                state.setSample({in_lock: true, x_nm: 1, y_nm: 2, z_nm: axial?.valid ? -3.21 : null});
                state.setStatus({...status, axial});
                all.push(["z-head", "z-now", "z-text"].map((id) => id === "z-head" ? !document.getElementById(id).hidden : document.getElementById(id).innerText));
            }
            state.setStatus({...status, time_ns: 9});
            state.forget();
            return all;
            """)
        self.assertEqual(shown, [[False, "\u2013", ""], [True, "\u22123.2", "Near the end"],
                                 [True, "\u2013", "No z: few are read"], [True, "\u2013", "No z: dark"]])

    def part_the_lock_of_z_stands_beside_that_of_x_and_y(self):
        """Its state in words and a sign, why no images may be taken, and what may be done with either alone."""
        locked = {"state": "locked", "reason": "reference_taken", "cure": "", "lock_id": 2, "total_z_nm": -250,
                  "gate": {"in_lock": True, "reason": "in_lock", "residual_z_nm": 1, "tolerance_nm": 5},
                  "move": {"phase": "resting", "z_nm": 20},
                  "stage_driver": {"driver": "pi", "state": "ready", "axes": [
                      {"axis": "x", "position_nm": 1, "min_nm": 0, "max_nm": 10}, {"axis": "z", "position_nm": 4000, "min_nm": 0, "max_nm": 10000}]}}
        off = {**locked, "gate": {**locked["gate"], "in_lock": False, "reason": "residual", "residual_z_nm": 7.25}}
        dark = {**off, "state": "holding", "reason": "z_not_measured", "cure": "see the light",
                "gate": {**off["gate"], "reason": "not_locked", "residual_z_nm": None}}
        locks = [None, locked, off, dark, {**dark, "state": "idle", "reason": "none", "cure": ""}]
        shown = self.browser.module("state.js", """
            const state = new m.StateView();
            const at = (id) => { const e = document.getElementById(id); return e.hidden ? null : e.innerText; };
            const all = [];
            args[0].forEach((lock, i) => {
                state.setSample({in_lock: true, x_nm: 1, y_nm: 2, z_nm: 3});
                state.inLockAt_ms = lock?.gate?.in_lock === false && lock.state !== "idle" ? null : 1;
                state.setStatus({state: "locked", reason: "none", time_ns: i + 2, state_since_ns: 1, markers: {},
                                 gate: {in_lock: state.inLockAt_ms !== null, reason: state.inLockAt_ms === null ? "axial" : "in_lock",
                                        residual_x_nm: 0.5, residual_y_nm: 0.5, tolerance_nm: 1},
                                 axial: {valid: true, warning: "", lock}});
                all.push([at("z-state"), document.getElementById("z-state").dataset.state ?? null, at("in-lock"), at("z-cure")]);
            });
            state.setGone("gone");
            all.push([at("z-state"), document.getElementById("z-state").dataset.state]);
            state.forget();
            return [...all, document.getElementById("z-state").hidden];
            """, locks)
        yes = "In lock: images may be taken"
        self.assertEqual(shown, [[None, None, yes, ""], ["\u25a0 z: locked, in lock", "locked", yes, ""],
                                 ["\u25a0 z: locked, not in lock", "locked", "Not in lock: z: residual 7.25 nm, tolerance 5 nm", ""],
                                 ["\u25b2 z: held: z not measured", "holding", "Not in lock: z is held", "z: See the light"],
                                 ["\u25cb z: not locked", "idle", yes, ""], ["z: no data", "unknown"], True])
        shown = self.browser.module("tables.js", """
            const tables = new m.Tables(() => {});
            const all = [];
            for (const lock of args[0].slice(0, 2)) {
                tables.setStatus({state: "locked", stage: "following", stage_driver: null, drift: {total_x_nm: 100}, camera: {}, control: {},
                                  axial: {range_below_nm: 400, range_above_nm: 380, lock}}, {max_range_nm: 1000, z_max_range_nm: 2000});
                all.push([...document.querySelectorAll("#ranges span")].map((span) => span.innerText.split(",")[0]));
            }
            tables.forget();
            return all;
            """, locks)
        self.assertEqual(shown[0], ["Correction x: 900.0 nm left of \u00b11000 nm"])
        self.assertEqual(shown[1][1:], ["Stage z: 4.00 \u00b5m left to the nearer end", "Correction x: 900.0 nm left of \u00b11000 nm",
                                        "Correction z: 1750.0 nm left of \u00b12000 nm", "z is read: 380 nm left to the nearer end of the curve"])
        shown = self.browser.module("act.js", """
            const sent = [];
            const actions = new m.Actions({order: (command) => { sent.push(command); return new Promise(() => {}); },
                                           picture: {points: [], update: () => {}}, pixelSize_nm: () => 100});
            actions.may_ = true;
            const ids = ["do-lock", "do-unlock", "do-reset", "do-move", "do-move-z"];
            const all = [];
            const see = (state, lock, axes) => {
                document.getElementById("axes").value = axes;
                actions.waiting_ = 0;
                actions.setStatus({state, axial: lock === null ? null : {lock}});
                all.push([!document.getElementById("axes-choice").hidden, ids.filter((id) => !document.getElementById(id).disabled)]);
            };
            const [none, locked, , held] = args[0];
            see("locked", none, "z");
            see("locked", locked, "");
            see("locked", {...locked, state: "idle"}, "z");
            actions.lock_();
            see("locked", {...locked, state: "idle"}, "xyz");
            see("idle", {...locked, state: "idle"}, "xyz");
            actions.lock_();
            see("idle", held, "xy");
            see("idle", held, "z");
            see("locked", {...locked, state: "lost"}, "");
            document.getElementById("move-z").value = "50";
            actions.moveZTo_();
            actions.moveZBy_(-10);
            document.getElementById("axes").value = "";
            driftdPage.actions.enable_();
            return [all, sent];
            """, locks)
        self.assertEqual(shown[0], [
            [False, ["do-unlock", "do-move"]], [True, ["do-unlock", "do-move", "do-move-z"]],
            [True, ["do-lock", "do-move"]], [True, ["do-unlock", "do-move"]], [True, ["do-lock"]],
            [True, ["do-lock"]], [True, ["do-unlock"]], [True, ["do-unlock", "do-reset", "do-move"]]])
        self.assertEqual(shown[1], [{"command": "lock", "axes": "z"}, {"command": "lock", "axes": "xyz"},
                                    {"command": "move", "z_nm": 50}, {"command": "move", "dz_nm": -10}])
        self.browser.open(self.web.url)  # its buttons have two owners by now

    def part_a_calibration(self):
        rows = self.browser.module("calibration.js", """
            return m.rowsOf({image_to_stage: [[1, 0.12], [-0.12, 1]], image_to_stage_sd: [[0.01, 0.01], [0.01, 0.01]], delay_us: 3120.4,
                             delay_sd_us: 40, time_constant_us: null, stage_noise_nm: 0.2, pixel_size: {configured_nm: 100, ratio: 1.01},
                             present: {image_to_stage: [[1, 0], [0, 1]], delay_us: 3000, residual_nm: 0.5},
                             proposal: {stage: {image_to_stage: [[1, 0.12], [-0.12, 1]], delay_us: 3120.4}, residual_nm: 0.31}});
            """)
        rows = {row[0]: row[1:] for row in rows}
        self.assertEqual(rows["Dead time"], ["3120 \u00b5s", "40", "3000", "3120"])
        self.assertEqual(rows["Image to stage"][0], "1.0000, 0.1200; \u22120.1200, 1.0000")
        self.assertEqual(rows["Time constant"][0], "\u2013 \u00b5s")
        self.assertEqual(rows["A lock would leave"][2:], ["0.50 nm", "0.31 nm"])
        self.assertEqual(rows["Right pixel size"][0], "101.00 nm")

    def part_words(self):
        self.assertEqual(self.browser.module("words.js", """
            return [m.number(null), m.number(-1.25, 1), m.signed(0.5, 1), m.duration(90061), m.duration(59),
                    m.reasonOf({reason: 'held_too_long', held_for: 'no_frames', held_first: 'too_few_markers'}),
                    m.reasonOf({reason: 'none'}), m.stateOf({state: 'referencing', reference_frames_left: 7}).text,
                    m.stateOf({state: 'something_new'}).name,
                    m.whyNotInLock({reason: 'residual', residual_x_nm: 2.3456, residual_y_nm: 1, tolerance_nm: 1}),
                    m.whyNotInLock({reason: 'not_locked'}), m.sentence('see `driftctl doctor`'), m.sentence('')];
            """), ["\u2013", "\u22121.3", "+0.5", "1 day 1:01:01", "0:00:59", "held too long: no frames, at first too few markers", "",
                   "Where the markers are now is being measured: 7 frames left.", "something new", "residual 2.35 nm, tolerance 1 nm",
                   "", "See \u201cdriftctl doctor\u201d", ""])

    def test_a_day_of_plots_takes_little_memory(self):  # tier: full
        """A day at 20 samples a second through the page itself, with all else that comes: each ten seconds an event, status,
        markers, advice, history, a picture and a spectrum."""
        before = self.browser.heap_bytes()
        told = {kind: examples()[kind] for kind in ("status", "markers")}
        for hour in range(24):
            self.browser.run("""
                const begin = 1000 + 3600 * arguments[0], {status, markers} = arguments[1];
                const other = (t) => {
                  const pixels = new Uint16Array(65536).map((_, i) => (i * 7 + t) % 4096), density = Array(800).fill(t);
                  const both = (v) => [[v], [v]], bin = {drift_nm: both(t), residual_nm: both(1), correction_nm: both(2)};
                  driftdPage.take_({kind: 'status', status: {...status, time_ns: 1e9 * t}});
                  driftdPage.take_({kind: 'markers', frame_id: t, markers: markers.markers.map((one) => ({...one, photons: t}))});
                  driftdPage.take_({kind: 'advice', advice: [{axis: 'x', text: `advice ${t}`}]});
                  driftdPage.take_({kind: 'history', append: true, span_s: 86400, step_s: 10, t0_s: t - 10, min: bin, max: bin, in_lock: [1]});
                  driftdPage.take_({kind: 'image', frame_id: t, width: 256, height: 256, bin: 1, x0: 0, y0: 0, full_width: 256, full_height: 256,
                                    offset_x_px: 0, offset_y_px: 0, max_value: 4095, saturated_at: 4095, saturated: 0,
                                    histogram: Array(64).fill(t), rois: []}, pixels.buffer);
                  driftdPage.take_({kind: 'spectrum', rate_hz: 100, seconds: 16, spacing_hz: 0.0625, noise_nm: [0.3, 0.4],
                                    density_nm2_per_hz: [density, density], lines: [[], []], allan: [[], []]});
                };
                for (let second = 0; second < 3600; ++second) {
                  const t_s = Array.from({length: 20}, (_, i) => begin + second + i / 20);
                  const pair = () => [t_s.map((t) => Math.sin(t)), t_s.map((t) => Math.cos(t))];
                  driftdPage.take_({kind: 'samples', t_s, drift_nm: pair(), correction_nm: pair(), residual_nm: pair(),
                                    in_lock: t_s.map(() => true)});
                  if (second % 10 === 0)
                    driftdPage.take_({kind: 'event', events: [{level: 'info', text: `event ${second}`, time_ns: 1e9 * t_s[0]}]});
                  if (second % 10 === 0) other(begin + second);
                }
                """, hour, told)
        self.assertEqual(self.browser.run("const e = driftdPage.rings.of(86400).extent([0]); return [e.low < -0.99, e.high > 0.99]"),
                         [True, True])
        self.assertLess(self.browser.run("return document.getElementById('log').children.length"), 300)
        after = self.browser.heap_bytes()
        print(f"the tab's heap: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after a day")
        self.assertLess(after, 50e6)


if __name__ == "__main__":
    unittest.main()
