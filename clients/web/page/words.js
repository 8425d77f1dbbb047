// SPDX-License-Identifier: MIT
// The daemon's values as people read them. A value that does not exist is a dash. Pure.

export const kNone = "\u2013";

export function number(value, digits = 0) {
  return typeof value === "number" && Number.isFinite(value)
    ? value.toFixed(digits).replace("-", "\u2212") : kNone;
}

export function signed(value, digits) {
  if (typeof value !== "number" || !Number.isFinite(value)) return kNone;
  return (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(digits);
}

export const inWords = (name) => String(name).replaceAll("_", " ");

/** "0:03:12", or days before it. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(whole / 86400);
  const time = `${Math.floor(whole / 3600) % 24}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return days === 0 ? time : `${days} ${days === 1 ? "day" : "days"} ${time}`;
}

/** The time of the day of this computer. */
export function clock(ms) {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** The same, after the date where that is not today's. */
export function moment(ms, now_ms = Date.now()) {
  const at = new Date(ms);
  if (at.toDateString() === new Date(now_ms).toDateString()) return clock(ms);
  return `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")} ${clock(ms)}`;
}

/** The daemon's sentence, which terminals are meant to show: its `commands` in quotation marks, its first letter large. */
export function sentence(text) {
  const said = text.replace(/`([^`]*)`/g, "\u201c$1\u201d");
  return said.slice(0, 1).toUpperCase() + said.slice(1);
}

const kStates = {
  idle: { name: "Not locked", sign: "\u25cb", text: "Nothing holds the sample: it drifts." },
  referencing: { name: "Taking the reference", sign: "\u25d4", text: "Where the markers are now is being measured." },
  locked: { name: "Locked", sign: "\u25a0", text: "Corrections go to the stage, and hold the sample." },
  holding: { name: "Held", sign: "\u25b2", text: "No correction leaves. The stage stays where it was told last." },
  lost: { name: "Lost", sign: "\u2715", text: "The lock was given up. The stage stays where it was told last." },
  fault: { name: "Fault", sign: "\u2715", text: "A part of the daemon failed. No correction leaves." },
  calibrating: { name: "Calibrating", sign: "\u25d4", text: "The stage is moved, to see how it answers." },
};

export function stateOf(status) {
  const known = kStates[status.state] ?? { name: inWords(status.state), sign: "?", text: "" };
  if (status.state !== "referencing" || !(status.reference_frames_left > 0)) return known;
  return { ...known, text: `Where the markers are now is being measured: ${status.reference_frames_left} frames left.` };
}

/** Why it is in this state: "held too long: no frames, at first too few markers". "" where there is nothing to say. */
export function reasonOf(status) {
  if (!status.reason || status.reason === "none") return "";
  let text = status.reason;
  if (status.held_for && status.held_for !== "none") text += `: ${status.held_for}`;
  if (status.held_first && status.held_first !== "none") text += `, at first ${status.held_first}`;
  return inWords(text);
}

/** What holds z, as `status` itself tells of x and y; null where z is measured only, or not at all. */
export const axialLock = (status) => status?.axial?.lock ?? null;

/** Why no images may be taken: of the gate of x and y, or of z. */
export function whyNotInLock(gate) {
  const left_nm = "residual_z_nm" in gate ? [gate.residual_z_nm] : [gate.residual_x_nm, gate.residual_y_nm];
  const worst = Math.max(...left_nm);
  const known = left_nm.every((nm) => typeof nm === "number");
  const against = `${Number(worst.toPrecision(3))} nm, tolerance ${gate.tolerance_nm} nm`;
  if (known && gate.reason === "residual") return `residual ${against}`;
  if (known && gate.reason === "settling") return `settling at ${against}`;
  if (known && gate.reason === "moved") return `a frame was off by ${against}`;
  if (gate.reason === "axial") return "z does not lie still, or is not held";
  return gate.reason === undefined || gate.reason === "in_lock" || gate.reason === "not_locked" ? "" : inWords(gate.reason);
}
