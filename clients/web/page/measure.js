// SPDX-License-Identifier: MIT
// A measurement of some seconds, as `driftctl measure` tells it, and what it recommends.
import { $, setList, setText, show, Table } from "./dom.js";
import { kNone, number, sentence } from "./words.js";

export class MeasureView {
  /** start(request) */
  constructor(start) {
    this.figures_ = new Table($("measure-rows"));
    this.markers_ = new Table($("measure-markers"));
    $("measure-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void start({ tool: "measure", seconds: Number($("measure-seconds").value) });
    });
    this.show(null);
  }

  /** Nothing is unlocked by a measurement: it says what it will show. */
  setStatus({ state }) {
    setText($("measure-state"), state === "locked"
      ? "The lock holds: measured now, this shows what it leaves. To see what the sample does by itself, unlock first."
      : "Not locked: this shows what the sample does by itself. Nothing is moved.");
  }

  show(result) {
    show($("measure-found"), result !== null);
    for (const id of ["measure-z", "measure-markers-z"]) show($(id), Boolean(result?.z));
    this.figures_.update([]); // rows of another length
    this.figures_.update(result === null ? [] : figuresOf(result));
    this.markers_.update(result === null ? [] : result.markers.map(markerRow));
    setList($("measure-advice"), (result?.recommendations ?? []).map(({ axis, text }) => sentence(axis ? `in ${axis}: ${text}` : text)));
  }
}

/** [name, x, y], and z where it is measured */
export function figuresOf({ seconds, frames, rate_hz, missing_share, markers_allow_nm, markers_allow_z_nm, x, y, z, z_missing_share }) {
  const axes = z ? [x, y, z] : [x, y];
  const allow = z ? [...markers_allow_nm, markers_allow_z_nm] : markers_allow_nm;
  const row = (name, key, digits, unit) => [name, ...axes.map((axis) => `${number(axis[key], digits)} ${unit}`)];
  const lines = (axis) => (axis.lines.length === 0 ? "none stands out" : axis.lines.slice(0, 3).map(({ frequency_hz, amplitude_nm }) =>
    `${number(amplitude_nm, 2)} nm at ${number(frequency_hz, 2)} Hz`).join(", "));
  const best = (axis) => axis.allan_s_nm.reduce((least, point) => (point[1] < least[1] ? point : least), [NaN, Infinity]);
  const allan = (axis) => `${number(best(axis)[1], 3)} nm over ${number(best(axis)[0], 3)} s`;
  return [
    ["Time", `${number(seconds, 1)} s, ${number(frames)} frames at ${number(rate_hz, 1)} Hz`, `${number(100 * missing_share, 2)} % without a position`,
     ...(z ? [`${number(100 * z_missing_share, 2)} % of these without z`] : [])],
    row("Drift", "drift_nm_per_min", 2, "nm/min"),
    row("rms about that", "about_line_nm", 3, "nm"),
    row("Noise of a frame", "frame_noise_nm", 3, "nm"),
    row("as the frames say", "promised_noise_nm", 3, "nm"),
    ["as the markers allow", ...allow.map((value) => `${number(value, 3)} nm`)],
    ["Vibrations", ...axes.map(lines)],
    ["Least Allan deviation", ...axes.map(allan)],
  ];
}

function markerRow({ id, role, fit_sd_nm, scatter_nm, wander_nm, z, remark }) {
  const figures = (values, ofZ) => (z ? [...values, ofZ] : values).map((value) => number(value, 2)).join(" / ");
  return [String(id), role, figures(fit_sd_nm, z?.fit_sd_nm), figures(scatter_nm, z?.scatter_nm), figures(wander_nm, z?.wander_nm), remark ? `\u25b2 ${remark}` : kNone];
}
