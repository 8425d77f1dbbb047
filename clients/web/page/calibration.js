// SPDX-License-Identifier: MIT
// The calibration that is under way or was the last: how far it is, what it found beside what is configured, and the
// stage's answer to a step beside the model's.
import { colour, Surface } from "./canvas.js";
import { $, setText, show, Table } from "./dom.js";
import { ticks } from "./range.js";
import { inWords, kNone, number } from "./words.js";

const kAsk_ms = 1000;
const kUnderWay = ["quiet", "moving", "returning", "fitting"];
const kLeft = 40;
const kBottom = 22;

/** What the daemon says of a calibration, asked again while it is under way. */
export class CalibrationWatch {
  /** command: what it is asked by; order(command) -> reply; onReply(reply): of the daemon, each time */
  constructor(command, order, onReply) {
    this.command_ = command;
    this.order_ = order;
    this.onReply_ = onReply;
    this.asking_ = false;
  }

  forget() {
    clearTimeout(this.timer_);
    this.asking_ = false;
  }

  /** Something about a calibration has happened, or may have. */
  async ask() {
    this.again_ = this.asking_;
    if (this.asking_) return;
    this.asking_ = true;
    const reply = await this.order_(this.command_);
    if (!this.asking_) return; // forgotten meanwhile
    this.asking_ = false;
    if (reply.ok !== true) return;
    this.onReply_(reply);
    clearTimeout(this.timer_);
    if (this.again_) void this.ask();
    else if (isUnderWay(reply)) this.timer_ = setTimeout(() => { void this.ask(); }, kAsk_ms);
  }
}

export const isUnderWay = ({ phase }) => kUnderWay.includes(phase);

/** How far it is, or how it ended. */
export function progressOf(reply) {
  const { phase, progress, text } = reply;
  if (phase === "none") return "None since the daemon's start.";
  return `${inWords(phase)}.${isUnderWay(reply) ? ` ${number(100 * progress)} %.` : ""} ${text ?? ""}`;
}

export class CalibrationView {
  /** order(command) -> reply; onReply(reply): of the daemon, each time */
  constructor(order, onReply) {
    this.watch_ = new CalibrationWatch({ command: "calibration" }, order, (reply) => {
      this.show_(reply);
      onReply(reply);
    });
    this.table_ = new Table($("calibration-rows"));
    this.surface_ = new Surface($("calibration-plot"), (context, width, height) => this.draw_(context, width, height));
    this.forget();
  }

  forget() {
    this.watch_.forget();
    this.response_ = null;
    this.table_.update([]);
    setText($("calibration-text"), "");
    show($("calibration-found"), false);
  }

  ask() { return this.watch_.ask(); }

  show_(reply) {
    const { result } = reply;
    setText($("calibration-text"), progressOf(reply));
    show($("calibration-found"), result != null);
    this.response_ = result?.response ?? null;
    this.table_.update(result == null ? [] : rowsOf(result));
    this.surface_.redraw();
  }

  draw_(context, width, height) {
    const { time_ms, x, y, model } = this.response_ ?? {};
    if (!(time_ms?.length > 1)) return;
    const first = time_ms[0];
    const span = time_ms.at(-1) - first;
    const at = (ms) => kLeft + ((width - kLeft - 8) * (ms - first)) / span;
    const up = (value) => 8 + ((height - kBottom - 8) * (1.5 - value)) / 2; // from -0.5 to 1.5
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const value of [0, 0.5, 1]) {
      context.fillStyle = colour("faint");
      context.fillRect(kLeft, Math.round(up(value)), width - kLeft - 8, 1);
      context.fillStyle = colour("quiet");
      context.textAlign = "right";
      context.fillText(value.toFixed(1), kLeft - 6, up(value));
    }
    context.textAlign = "center";
    for (const ms of ticks(first, time_ms.at(-1))) context.fillText(`${Math.round(ms)} ms`, at(ms), height - kBottom / 2);
    const draw = (values, name, dashes) => {
      context.strokeStyle = colour(name);
      context.lineWidth = 1.5;
      context.setLineDash(dashes);
      context.beginPath();
      values.forEach((value, i) => { if (value !== null) context.lineTo(at(time_ms[i]), up(value)); });
      context.stroke();
      context.setLineDash([]);
    };
    draw(x, "x", []);
    draw(y, "y", []);
    draw(model, "text", [6, 4]);
    context.textAlign = "left";
    [["x", "x", 8], ["y", "y", 22], ["text", "- - model", 36]].forEach(([name, text, left]) => {
      context.fillStyle = colour(name);
      context.fillText(text, kLeft + left, 14);
    });
  }
}

/** [name, found, its sd, configured, proposed] */
export function rowsOf(result) {
  const { present = {}, proposal = {} } = result;
  const matrix = (m) => (Array.isArray(m) ? m.map((row) => row.map((one) => number(one, 4)).join(", ")).join("; ") : kNone);
  const row = (name, key, digits, unit, sd = null) =>
    [name, `${number(result[key], digits)} ${unit}`, sd === null ? kNone : number(result[sd], digits),
     number(present[key], digits), number(proposal.stage?.[key], digits)];
  return [
    ["Image to stage", matrix(result.image_to_stage), matrix(result.image_to_stage_sd), matrix(present.image_to_stage), matrix(proposal.stage?.image_to_stage)],
    row("Dead time", "delay_us", 0, "\u00b5s", "delay_sd_us"),
    row("Time constant", "time_constant_us", 0, "\u00b5s", "time_constant_sd_us"),
    row("Resonance", "resonance_hz", 1, "Hz", "resonance_sd_hz"),
    row("Damping", "damping", 3, "", "damping_sd"),
    ["Stage's noise", `${number(result.stage_noise_nm, 2)} nm`, kNone, kNone, kNone],
    ["A lock would leave", kNone, kNone, `${number(present.residual_nm, 2)} nm`, `${number(proposal.residual_nm, 2)} nm`],
    ["Right pixel size", `${number(result.pixel_size?.ratio * result.pixel_size?.configured_nm, 2)} nm`, kNone,
     number(result.pixel_size?.configured_nm, 2), kNone],
  ];
}
