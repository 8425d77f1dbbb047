// SPDX-License-Identifier: MIT
// State, reason and in_lock, large enough for the other end of the room, what to do, and what is not known any more.
import { $, setText, show } from "./dom.js";
import { axialLock, clock, duration, inWords, number, reasonOf, sentence, signed, stateOf, whyNotInLock } from "./words.js";

/** Without a sign of life for so long nothing on the page is told as the present. */
const kSilent_ms = 1500;
/** Positions come 20 times a second, or with each frame of a slow camera. */
const kNoFrames_ms = 1000;
const kFramesMissed = 3;
/** It closes at once, and opens when it has been open for so long: at the edge of the tolerance it would blink. */
const kSteady_ms = 500;

export class StateView {
  constructor() { this.forget(); }

  forget() {
    this.status = null;
    this.statusAt_ms = null;
    this.samplesAt_ms = null;
    this.closedAt_ms = null;
    this.gone = "";
    this.inLockAt_ms = null; // since when it has been without a break
    this.drift_ = null;
    this.begun_ms = Date.now();
    this.update();
  }

  setStatus(status) {
    const isNew = this.status === null || status.time_ns !== this.status.time_ns;
    this.status = status;
    this.gone = "";
    this.closedAt_ms = null;
    if (isNew) this.statusAt_ms = Date.now();
    this.update();
  }

  /** The newest place of the samples that came just now, and whether it was in lock in all of them. */
  setSample({ in_lock, x_nm, y_nm, z_nm = null }) {
    this.samplesAt_ms = Date.now();
    this.inLockAt_ms = in_lock === true ? this.inLockAt_ms ?? Date.now() : null;
    this.drift_ = { x_nm, y_nm, z_nm };
    this.update();
  }

  setGone(reason) {
    this.gone = reason;
    this.closedAt_ms ??= this.aliveAt_() ?? Date.now();
    this.update();
  }

  aliveAt_() {
    return this.statusAt_ms === null ? this.samplesAt_ms : Math.max(this.statusAt_ms, this.samplesAt_ms ?? 0);
  }

  /** Null, or since when nothing is known. */
  silentSince() {
    if (this.closedAt_ms !== null) return this.closedAt_ms;
    const alive_ms = this.aliveAt_();
    if (alive_ms === null) return Date.now() - this.begun_ms > kSilent_ms ? this.begun_ms : null;
    return Date.now() - alive_ms > kSilent_ms ? alive_ms : null;
  }

  /** Null, or since when no frame has been measured. */
  noFramesSince() {
    const since_ms = this.samplesAt_ms ?? this.begun_ms;
    return Date.now() - since_ms > this.patience_ms() ? since_ms : null;
  }

  /** So long after a frame the next one may come. */
  patience_ms() {
    const rate_hz = this.status?.camera?.rate_hz;
    return Math.max(kNoFrames_ms, rate_hz > 0 ? (kFramesMissed * 1000) / rate_hz : 0);
  }

  /** Also called by a clock: silence sends no message. */
  update() {
    const silent_ms = this.silentSince();
    const frames_ms = silent_ms === null ? this.noFramesSince() : silent_ms;
    document.body.classList.toggle("silent", silent_ms !== null);
    document.body.classList.toggle("no-frames", frames_ms !== null);
    if (silent_ms !== null) this.showSilence_(silent_ms);
    else if (this.status !== null) this.showState_(frames_ms);
    else this.showWaiting_();
    const ago = (ms) => `since ${clock(ms)}, for ${duration((Date.now() - ms) / 1000)}`;
    show($("no-frames"), frames_ms !== null && silent_ms === null);
    if (frames_ms !== null) setText($("no-frames"), `No frame has been measured ${ago(frames_ms)}: picture and plots below are of before.`);
  }

  showWaiting_() {
    setText($("state-sign"), "?");
    setText($("state-word"), "\u2026");
    setText($("in-lock"), "Waiting for the first message.");
    for (const id of ["state-text", "state-cure", "offer"]) setText($(id), "");
    this.showZ_(null);
    $("state").dataset.state = "unknown";
    $("in-lock").dataset.open = "no";
    this.showNumbers_(null);
    document.title = "? driftd";
  }

  showSilence_(since_ms) {
    setText($("state-sign"), "?");
    setText($("state-word"), "No data");
    const last = this.status === null ? "" : ` The last state known is \u201c${stateOf(this.status).name}\u201d.`;
    setText($("state-text"), `Nothing has come since ${clock(since_ms)}, for ${duration((Date.now() - since_ms) / 1000)}.${last}`);
    setText($("state-cure"), this.gone);
    setText($("in-lock"), "Whether the sample is in lock is not known: take no images.");
    setText($("offer"), "");
    if (axialLock(this.status) !== null) {
      setText($("z-state"), "z: no data");
      $("z-state").dataset.state = "unknown";
    }
    setText($("z-cure"), "");
    $("state").dataset.state = "unknown";
    $("in-lock").dataset.open = "no";
    this.showNumbers_(null);
    document.title = "? driftd";
  }

  /** The lock of z, beside that of x and y. */
  showZ_(status) {
    const lock = axialLock(status);
    show($("z-state"), lock !== null);
    setText($("z-cure"), lock?.cure ? `z: ${sentence(lock.cure)}` : "");
    if (lock === null) return;
    const { name, sign } = stateOf(lock);
    const reason = lock.state === "locked" || lock.state === "idle" ? "" : reasonOf(lock);
    const still = lock.state === "locked" ? (lock.gate?.in_lock ? ", in lock" : ", not in lock") : "";
    setText($("z-state"), `${sign} z: ${name.toLowerCase()}${reason === "" ? "" : `: ${reason}`}${still}`);
    $("z-state").dataset.state = lock.state;
  }

  showState_(frames_ms) {
    const { status } = this;
    const { name, sign, text } = stateOf(status);
    setText($("state-sign"), sign);
    setText($("state-word"), name);
    const reason = reasonOf(status);
    const for_s = (status.time_ns - status.state_since_ns) * 1e-9 + (Date.now() - this.statusAt_ms) / 1000;
    const since = status.state_since_ns > 0 ? ` For ${duration(for_s)}.` : "";
    setText($("state-text"), `${reason === "" ? "" : `${sentence(reason)}. `}${text}${since}`);
    setText($("state-cure"), sentence(status.cure || status.camera?.problem || ""));
    const open = this.inLockAt_ms !== null && Date.now() - this.inLockAt_ms >= kSteady_ms && status.gate?.in_lock !== false && frames_ms === null;
    const why = this.whyNot_();
    setText($("in-lock"), open ? "In lock: images may be taken" : `Not in lock${why === "" ? "" : `: ${why}`}`);
    setText($("offer"), [status.acquaintance?.text, status.interrupted?.text].filter(Boolean).map(sentence).join(" "));
    $("state").dataset.state = status.state;
    $("in-lock").dataset.open = open ? "yes" : "no";
    this.showZ_(status);
    this.showNumbers_(frames_ms === null ? status : null);
    document.title = `${sign} ${name}${open ? ", in lock" : ""} \u2013 driftd`;
  }

  /** Of x and y, or of z where these lie still. */
  whyNot_() {
    const lock = axialLock(this.status);
    const of_z = this.status.gate?.reason === "axial" && lock !== null;
    const why = whyNotInLock((of_z ? lock.gate : this.status.gate) ?? {});
    return of_z ? `z${why === "" ? ` is ${stateOf(lock).name.toLowerCase()}` : `: ${why}`}` : why;
  }

  showNumbers_(status) {
    const measure = status?.residual?.in_loop;
    setText($("residual-rms"), `${number(measure?.rms_x_nm, 2)} / ${number(measure?.rms_y_nm, 2)}`);
    const sample = status?.residual?.out_of_loop;
    setText($("witness-rms"), `${number(sample?.rms_x_nm, 2)} / ${number(sample?.rms_y_nm, 2)}`);
    const drift = status === null ? null : this.drift_;
    setText($("drift-now"), `${signed(drift?.x_nm, 2)} / ${signed(drift?.y_nm, 2)}`);
    const axial = status?.axial ?? null;
    if (status !== null) show($("z-head"), axial !== null);
    setText($("z-now"), signed(axial === null ? null : drift?.z_nm, 1));
    const why = axial === null ? "" : axial.valid === true ? axial.warning ?? "" : `No z: ${axial.text || inWords(axial.reason ?? "")}`;
    setText($("z-text"), sentence(why));
    setText($("markers-used"), status === null ? "\u2013" : `${number(status.markers?.used)} of ${number(status.markers?.tracking)}`);
  }
}
