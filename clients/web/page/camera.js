// SPDX-License-Identifier: MIT
// The camera's calibration: dark, then light, what they tell beside what is configured, and the line of photon transfer.
import { colour, Surface } from "./canvas.js";
import { $, ask, setList, setText, show, Table } from "./dom.js";
import { Keeper } from "./keep.js";
import { ticks, tickStep, tickText } from "./range.js";
import { kNone, number, sentence } from "./words.js";

const kLeft = 60;
const kBottom = 34;

export class CameraCalibration {
  /** start(request); tool(request) -> reply */
  constructor(start, tool) {
    this.table_ = new Table($("camera-found-rows"));
    this.surface_ = new Surface($("camera-plot"), (context, width, height) => this.draw_(context, width, height));
    $("do-camera-dark").addEventListener("click", () => { void this.measure_(start, true); });
    $("do-camera-light").addEventListener("click", () => { void start({ tool: "camera", dark: false }); });
    this.keeper_ = new Keeper("camera", { tool, question: "Write these values beside the configuration?" });
    this.show(null);
  }

  async measure_(start, dark) {
    if (await ask("Is it dark? Close the shutter or switch the light off first. A lock that holds is lost without light.", "It is dark")) {
      await start({ tool: "camera", dark });
    }
  }

  show(result) {
    this.result_ = result;
    show($("camera-found"), result !== null);
    show($("camera-plot"), (result?.light?.curve?.length ?? 0) > 0);
    this.table_.update(result === null ? [] : rowsOf(result));
    setList($("camera-warnings"), (result?.warnings ?? []).map((text) => `\u25b2 ${sentence(text)}`));
    setText($("camera-problem"), result?.why_not_written ? `Not to be written: ${sentence(result.why_not_written.replace(" (--dark)", ""))}` : "");
    this.keeper_.forget();
    $("do-camera-write").disabled = result === null || Boolean(result.why_not_written);
    this.surface_.redraw();
  }

  setStatus(status) { this.keeper_.setStatus(status); }

  draw_(context, width, height) {
    const points = this.result_?.light?.curve ?? [];
    if (points.length === 0) return;
    const most = { x: Math.max(...points.map((p) => p.mean_adu)), y: Math.max(...points.map((p) => p.variance_adu2 + p.sd_adu2)) };
    const least_x = Math.min(0.9 * most.x, ...points.map((p) => p.mean_adu));
    const at = (x) => kLeft + ((width - kLeft - 12) * (x - least_x)) / Math.max(most.x - least_x, 1e-9);
    const up = (y) => 12 + ((height - kBottom - 12) * (most.y - y)) / Math.max(most.y, 1e-9);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colour("quiet");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const y of ticks(0, most.y, 4)) {
      context.fillStyle = colour("faint");
      context.fillRect(kLeft, Math.round(up(y)), width - kLeft - 12, 1);
      context.fillStyle = colour("quiet");
      context.fillText(tickText(y, tickStep(most.y, 4)), kLeft - 6, up(y));
    }
    context.textAlign = "center";
    for (const x of ticks(least_x, most.x, 5)) context.fillText(tickText(x, tickStep(most.x - least_x, 5)), at(x), height - kBottom + 10);
    context.fillText("mean, ADU", (kLeft + width) / 2, height - 8);
    context.textAlign = "left";
    context.fillText("variance, ADU\u00b2", kLeft + 6, 12);
    const line = lineOf(points, this.result_.gain_e_per_adu);
    context.strokeStyle = colour("text");
    context.lineWidth = 1.5;
    context.setLineDash([6, 4]);
    context.beginPath();
    for (const x of [least_x, most.x]) context.lineTo(at(x), up(line(x)));
    context.stroke();
    context.setLineDash([]);
    context.strokeStyle = context.fillStyle = colour("x");
    for (const { mean_adu, variance_adu2, sd_adu2 } of points) {
      context.beginPath();
      context.arc(at(mean_adu), up(variance_adu2), 3, 0, 2 * Math.PI);
      context.moveTo(at(mean_adu), up(variance_adu2 - sd_adu2));
      context.lineTo(at(mean_adu), up(variance_adu2 + sd_adu2));
      context.stroke();
    }
  }
}

/** Variance over mean: the slope is 1 / gain, through the points' weighted mean. */
export function lineOf(points, gain_e_per_adu) {
  let weights = 0;
  let mean = 0;
  let variance = 0;
  for (const { mean_adu, variance_adu2, sd_adu2 } of points) {
    const weight = 1 / Math.max(sd_adu2, 1e-9) ** 2;
    weights += weight;
    mean += weight * mean_adu;
    variance += weight * variance_adu2;
  }
  return (x) => variance / weights + (x - mean / weights) / gain_e_per_adu;
}

/** [name, found, configured, proposed] */
export function rowsOf(result) {
  const { configured = {}, proposal } = result;
  const found = (value, sd, digits, unit) => (value === null ? kNone : `${number(value, digits)} \u00b1 ${number(sd, digits)} ${unit}`);
  const row = (name, text, key) => [name, text, configured[key] > 0 ? String(configured[key]) : "not set", String(proposal.camera[key] ?? kNone)];
  return [
    row("Gain", found(result.gain_e_per_adu, result.gain_sd_e_per_adu, 3, "e\u207b/ADU"), "gain_e_per_adu"),
    row("Offset", result.offset_adu !== null ? found(result.offset_adu, result.offset_sd_adu, 3, "ADU")
      : `between ${number(Math.max(0, result.light.least_offset_adu), 1)} and ${number(result.light.most_offset_adu, 1)} ADU: measure the dark, too`, "offset_adu"),
    row("Read noise", found(result.read_noise_e, result.read_noise_sd_e, 3, "e\u207b"), "read_noise_e"),
    row("Saturation", result.saturation_adu === null ? "not reached" : `${number(result.saturation_adu)} ADU`, "saturation_adu"),
    ...(proposal.camera.gain_db === undefined ? [] // the camera's gain is the configured one
      : [["Measured at", `${number(result.gain_db, 1)} dB`, `${number(configured.gain_db, 1)} dB`, String(proposal.camera.gain_db)]]),
  ];
}
