// SPDX-License-Identifier: MIT
// The calibration of z by its stage: how far it is, how it ended, what it found and the picture of its curve. Where z cannot
// be calibrated nothing of it is seen.
import { CalibrationWatch, isUnderWay, progressOf } from "./calibration.js";
import { $, setText, show } from "./dom.js";
import { kOfZ, Proposal } from "./proposal.js";
import { axialLock } from "./words.js";

/** Methods that driftd calibrates by the stage, and how far a sweep goes each way at most, nm, unless more is asked for. */
const kRanges_nm = { astigmatic: 400, defocus: 300, reflection: 300 };

/** Why z cannot be calibrated now, a sentence; "": it can. Null: not at all, as the daemon is configured. */
export function whyNotSwept(status) {
  const { axial } = status ?? {};
  if (!(axial?.method in kRanges_nm)) return null;
  const lock = axialLock(status);
  const axes = [...(status.stage_driver?.axes ?? []), ...(lock?.stage_driver?.axes ?? [])];
  // Without a lock of z the daemon does not tell of its driver, and some drivers tell of nothing.
  if (lock !== null && axes.length > 0 && !axes.some(({ axis }) => axis === "z"))
    return "No stage of z: none of the drivers that tell of themselves moves it.";
  if ((lock?.state ?? "idle") === "calibrating") return "It is under way.";
  if ((lock?.state ?? "idle") !== "idle") return "z is locked: unlock it first.";
  return status.state === "calibrating" ? "The stage of x and y is being calibrated." : "";
}

/** What is asked before, and the command; range and step as typed, "" where driftd chooses. */
export function sweepOf(status, range_nm, step_nm) {
  const command = { command: "calibrate", axes: "z" };
  if (range_nm !== "") command.range_nm = Number(range_nm);
  if (step_nm !== "") command.step_nm = Number(step_nm);
  const far_nm = command.range_nm ?? kRanges_nm[status.axial.method];
  return { command, question: `Calibrate z? Its stage takes the sample up and down by at most ${far_nm} nm for about half a minute, and then back. Take no images meanwhile.` };
}

export class AxialCalibration {
  /** order(command) -> reply; tool(request) -> reply */
  constructor(order, tool) {
    this.offered_ = false;
    this.url_ = null;
    this.proposal_ = new Proposal({ tool }, kOfZ);
    this.watch_ = new CalibrationWatch({ command: "calibration", axes: "z" }, order, (reply) => this.see_(reply));
    this.forget();
  }

  forget() {
    this.watch_.forget();
    this.proposal_.forget();
    this.offered_ = false;
    show($("z-calibration"), false);
    setText($("z-calibration-text"), "");
    show($("z-calibration-progress"), false);
    this.showPicture_(null);
  }

  setStatus(status) {
    const why = whyNotSwept(status);
    const begins = why !== null && !this.offered_;
    this.offered_ = why !== null;
    show($("z-calibration"), this.offered_);
    setText($("z-calibration-why"), why ?? "");
    if (begins) void this.ask();
  }

  /** Something about a calibration has happened, or may have. */
  async ask() {
    if (this.offered_) await this.watch_.ask();
  }

  /** What of it is written, or taken over, may be otherwise by now. */
  again() { void this.proposal_.again(); }

  see_(reply) {
    setText($("z-calibration-text"), progressOf(reply));
    const bar = $("z-calibration-progress");
    show(bar, isUnderWay(reply));
    bar.value = reply.progress ?? 0;
    this.showPicture_(reply.result?.curve?.picture ?? null);
    this.proposal_.see(reply);
  }

  /** lines: of an SVG */
  showPicture_(lines) {
    if (this.url_ !== null) URL.revokeObjectURL(this.url_);
    this.url_ = lines === null ? null : URL.createObjectURL(new Blob([lines.join("\n")], { type: "image/svg+xml" }));
    show($("z-curve"), this.url_ !== null);
    if (this.url_ === null) $("z-curve").removeAttribute("src");
    else $("z-curve").src = this.url_;
  }
}
