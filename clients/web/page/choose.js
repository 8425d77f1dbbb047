// SPDX-License-Identifier: MIT
// Which markers are followed, as somebody chooses them: by clicks in the picture, or with its middle by the keyboard, while
// that is turned on. Spots are added; the marker that is looked at (by its row, too) is taken out, or changes its role. The daemon says whether
// it can be; nothing is taken for done because it was ordered.
import { $, setText, show } from "./dom.js";
import { Keeper } from "./keep.js";
import { sentence } from "./words.js";

export class Chooser {
  /** hooks: order(command, done) -> reply; tool(request) -> reply; picture: the Picture; focus: the Focus, whose marker the buttons mean. */
  constructor(hooks) {
    this.hooks_ = hooks;
    this.may_ = false;
    this.status_ = null;
    this.markers_ = [];
    this.isOn_ = false;
    this.waits_ = false; // for an answer
    $("do-choose").addEventListener("click", () => this.turn_(!this.isOn_));
    this.keeper_ = new Keeper("markers", { tool: hooks.tool,
      question: "Write these markers, with their roles and where they are now, beside the configuration? After a restart driftd begins with them, and finds none by itself." });
    this.buttons_ = [...document.querySelectorAll("[data-choose]")]; // beside the picture, and below the rows
    for (const button of this.buttons_) {
      const { choose } = button.dataset;
      button.addEventListener("click", () => { void (choose === "remove" ? this.remove_() : this.role_(choose)); });
    }
    $("picture").addEventListener("keydown", (event) => this.key_(event));
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

  setMarkers(markers) {
    this.markers_ = markers;
    if (this.isOn_) this.aim_();
    this.enable_();
  }

  forget() {
    this.status_ = null;
    this.markers_ = [];
    this.keeper_.forget();
    this.enable_();
  }

  clear() {
    this.waits_ = false;
    this.forget();
  }

  /** A click on the picture: a place of the frame, and the marker there. True where it was taken. */
  click(x_px, y_px, marker) {
    if (!this.isOn_) return false;
    if (marker !== null) this.hooks_.focus.choose(marker.id);
    else void this.add_(x_px, y_px);
    this.enable_();
    return true;
  }

  /** The view was moved or zoomed. */
  moved() {
    if (this.isOn_) this.aim_();
  }

  turn_(on) {
    this.isOn_ = on && this.mayChoose_();
    $("do-choose").setAttribute("aria-pressed", String(this.isOn_));
    this.hooks_.picture.points = [];
    if (this.isOn_) this.aim_();
    this.hooks_.picture.update();
    this.enable_();
  }

  /** The cross is where Enter adds a spot. */
  aim_() {
    const middle = this.hooks_.picture.middle();
    if (middle === null) return;
    this.hooks_.picture.points = [middle];
    this.hooks_.picture.update();
  }

  mayChoose_() {
    const state = this.status_?.state;
    return this.may_ && (state === "idle" || state === "lost");
  }

  enable_() {
    const may = this.mayChoose_();
    if (!may && this.isOn_) return this.turn_(false);
    $("do-choose").disabled = !may;
    show($("choose"), this.isOn_);
    show($("do-markers-write"), this.may_ && this.status_?.markers?.chosen === true);
    const marker = this.marker_();
    const free = may && !this.waits_ && marker !== null;
    for (const button of this.buttons_) {
      const { choose } = button.dataset;
      button.disabled = !(free && (choose === "remove" ? this.markers_.length > 1 : marker.role !== choose));
    }
    for (const text of document.querySelectorAll("[data-chosen]"))
      setText(text, marker === null ? "No marker is chosen." : `Marker ${marker.id}:`);
    setText($("choose-state"), this.status_?.markers?.chosen
      ? sentence("These markers were chosen by hand. `Find markers` gives the choice back to driftd; `Keep these markers` has it begin with them.")
      : "driftd has chosen these markers by itself.");
    return undefined;
  }

  marker_() {
    return this.markers_.find((marker) => marker.id === this.hooks_.focus.id) ?? null;
  }

  key_(event) {
    if (!this.isOn_ || event.ctrlKey || event.altKey || event.metaKey) return;
    const act = {
      Enter: () => {
        const middle = this.hooks_.picture.middle();
        if (middle !== null) this.click(middle.x, middle.y, this.hooks_.picture.markerAt(middle.x, middle.y));
      },
      t: () => this.role_("tracking"), w: () => this.role_("witness"), Delete: () => this.remove_(), Escape: () => this.turn_(false),
    }[event.key];
    if (act === undefined) return;
    event.preventDefault();
    void act();
  }

  async add_(x_px, y_px) {
    const { image } = this.hooks_.picture;
    if (image === null) return;
    // Where the picture has the corner of its first pixel the sensor has (-0.5, -0.5).
    const place = { x_px: x_px + image.offset_x_px - 0.5, y_px: y_px + image.offset_y_px - 0.5 };
    const reply = await this.order_({ add: [place] }, (done) => `Marker ${done.added.join(", ")} is followed, too.`);
    if (reply?.ok === true) this.hooks_.focus.choose(reply.added[0]);
  }

  async role_(role) {
    const marker = this.marker_();
    if (marker === null || marker.role === role) return;
    await this.order_({ [role]: [marker.id] }, () => `Marker ${marker.id} is a ${role === "witness" ? "witness: measured, not corrected by" : "tracking marker"}.`);
  }

  async remove_() {
    const marker = this.marker_();
    if (marker !== null) await this.order_({ remove: [marker.id] }, () => `Marker ${marker.id} is not followed any more.`);
  }

  async order_(change, done) {
    if (this.waits_) return null;
    this.waits_ = true;
    this.enable_();
    const reply = await this.hooks_.order({ command: "markers", ...change },
                                          (told) => [done(told), told.too_few].filter(Boolean).join(" "));
    this.waits_ = false;
    if (reply.ok === true) this.markers_ = reply.markers;
    this.enable_();
    return reply;
  }
}
