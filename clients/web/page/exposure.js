// SPDX-License-Identifier: MIT
// The camera's exposure and gain beside the histogram: what they are, what the camera allows, how full its pixels are, and
// others, where the role allows it and nothing is locked.
import { brightest } from "./begin.js";
import { $, setText, show } from "./dom.js";
import { Keeper } from "./keep.js";
import { number, sentence } from "./words.js";

/** Nearer than that to what is configured is what a camera makes of it. */
const kSame = 0.01; // of the exposure
const kSame_dB = 0.1;
const kEvents = ["exposure_set", "camera_connected", "configuration_reloaded"];

export class ExposureView {
  /** ask(command) -> reply, told nobody; order(command, done) -> reply, told at the bottom; tool(request) -> reply. */
  constructor(ask, order, tool) {
    this.ask_ = ask;
    this.order_ = order;
    this.may_ = false;
    this.status_ = null;
    this.waits_ = false;
    this.keeper_ = new Keeper("exposure", { tool,
      question: "Write this exposure and gain beside the configuration? driftd sets them at its start from then on." });
    this.forget();
    $("exposure-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.set_();
    });
  }

  forget() {
    this.now_ = null;
    this.image_ = null;
    this.status_ = null;
    this.keeper_.forget();
    this.tell_();
  }

  /** Another instrument: what somebody typed was meant for the one before. */
  clear() {
    this.waits_ = false;
    this.forget();
    for (const id of ["exposure-us", "exposure-gain"]) $(id).value = "";
  }

  setRole(role) {
    this.may_ = role === "operate";
    this.enable_();
  }

  setStatus(status) {
    this.status_ = status;
    this.keeper_.setStatus(status);
    this.enable_();
  }

  setImage(image) {
    this.image_ = image;
    this.tell_();
  }

  takeEvents(events) {
    if (events.some(({ code }) => kEvents.includes(code))) void this.ask();
  }

  async ask() {
    const reply = await this.ask_({ command: "exposure" });
    if (reply.ok === true) this.take_(reply.exposure);
  }

  async set_() {
    const command = { command: "exposure" };
    for (const [key, id] of [["exposure_us", "exposure-us"], ["gain_db", "exposure-gain"]]) {
      const field = $(id);
      if (field.value !== "" && !field.disabled && Number(field.value) !== this.now_?.[key]) command[key] = Number(field.value);
    }
    if (Object.keys(command).length === 1) return;
    this.waits_ = true;
    this.enable_();
    const reply = await this.order_(command, ({ exposure }) => `Exposed ${number(exposure.exposure_us)} \u00b5s at ${number(exposure.gain_db, 1)} dB now.`);
    this.waits_ = false;
    if (reply.exposure) this.take_(reply.exposure);
    this.enable_();
  }

  /** What the camera has goes into the fields, but where somebody types. */
  take_(exposure) {
    this.now_ = exposure;
    for (const [id, key, range] of [["exposure-us", "exposure_us", "exposure_range_us"], ["exposure-gain", "gain_db", "gain_range_db"]]) {
      const field = $(id);
      if (field !== document.activeElement && typeof exposure[key] === "number") field.value = Number(exposure[key].toPrecision(6));
      if (exposure[range] !== null) [field.min, field.max] = exposure[range];
    }
    this.tell_();
    this.enable_();
  }

  enable_() {
    const state = this.status_?.state;
    const may = this.may_ && !this.waits_ && (state === "idle" || state === "lost") && this.now_ !== null;
    $("exposure-us").disabled = !(may && this.now_.exposure_range_us !== null);
    $("exposure-gain").disabled = !(may && this.now_.gain_range_db !== null);
    show($("do-exposure-write"), this.may_ && isOther(this.now_));
    $("do-exposure").disabled = $("exposure-us").disabled && $("exposure-gain").disabled;
  }

  tell_() {
    const { now_: now, image_: image } = this;
    const texts = [];
    if (now !== null) {
      const range = (limits, digits) => (limits === null ? "cannot be set" : `${number(limits[0], digits)} to ${number(limits[1], digits)}`);
      texts.push(`Exposure ${number(now.exposure_us)} \u00b5s (${range(now.exposure_range_us, 0)}), gain ${number(now.gain_db, 1)} dB (${range(now.gain_range_db, 1)}).`);
    }
    if (image !== null && Array.isArray(image.histogram)) {
      texts.push(`The brightest pixel is at ${Math.round(100 * brightest(image.histogram))} % of the range; from ${number(image.saturated_at)} ADU on ` +
                 `pixels are saturated, ${image.saturated === 0 ? "and none is" : `and ${number(image.saturated)} are`}.`);
    }
    if (now?.warning) texts.push(sentence(now.warning) + ".");
    setText($("exposure-text"), texts.join(" "));
  }
}

/** Whether the camera has another exposure or gain than driftd's configuration. */
export function isOther(now) {
  if (now === null) return false;
  const off = (is, configured) => (typeof is === "number" && typeof configured === "number" ? Math.abs(is - configured) : 0);
  return off(now.exposure_us, now.configured_exposure_us) > kSame * now.configured_exposure_us ||
    off(now.gain_db, now.configured_gain_db) > kSame_dB;
}
