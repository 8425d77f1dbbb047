// SPDX-License-Identifier: MIT
// A marker to focus by: its width in large figures, over the last minute, and its profile in the picture.
import { colour, Surface } from "./canvas.js";
import { Rings } from "./columns.js";
import { $, setText } from "./dom.js";
import { Plot } from "./plot.js";
import { number } from "./words.js";

const kHalf_px = 12;
const kMargin = 6;

export class Focus {
  constructor(picture, pixelSize_nm) {
    this.picture_ = picture;
    this.pixelSize_nm_ = pixelSize_nm;
    this.rings_ = new Rings(1);
    this.plot_ = new Plot($("focus-plot"), this.rings_, [{ series: 0, name: "\u03c3", colour: "x" }], { low: 1, high: 1.5, unit: "px" });
    this.surface_ = new Surface($("focus-profile"), (context, width, height) => this.draw_(context, width, height));
    $("focus-again").addEventListener("click", () => { this.least_ = Infinity; });
    $("focus-fit").addEventListener("click", () => this.plot_.fit());
    this.clear();
  }

  clear() {
    this.id = null;
    this.marker_ = null;
    this.least_ = Infinity;
    this.rings_.clear();
    this.plot_.clear();
    this.picture_.selected = null;
    this.tell_();
  }

  choose(id) {
    this.clear();
    this.id = id;
    this.picture_.selected = id;
    this.picture_.update();
    this.tell_();
  }

  setMarkers(markers, t_s) {
    if (this.id === null && markers.length > 0) this.choose(markers[0].id);
    this.marker_ = markers.find((marker) => marker.id === this.id) ?? null;
    const sigma_px = this.marker_?.sigma_px;
    if (typeof sigma_px === "number") {
      this.least_ = Math.min(this.least_, sigma_px);
      this.rings_.add(t_s, 0, sigma_px);
    }
    this.plot_.update();
    this.tell_();
  }

  /** A new picture is there. */
  update() { this.surface_.redraw(); }

  tell_() {
    const sigma_px = this.marker_?.sigma_px;
    setText($("focus-id"), this.id === null ? "No marker" : `Marker ${this.id}`);
    setText($("focus-sigma"), `${number(sigma_px, 3)} px`);
    const pixel_nm = this.pixelSize_nm_();
    const wide = typeof sigma_px === "number" && pixel_nm > 0 ? `\u03c3 = ${number(sigma_px * pixel_nm)} nm. ` : "";
    const least = Number.isFinite(this.least_) ? `The least seen is ${number(this.least_, 3)} px. ` : "";
    setText($("focus-text"), `${wide}${least}Height ${number(this.marker_?.amplitude_adu)} over ${number(this.marker_?.background_adu)} ADU.`);
    this.surface_.redraw();
  }

  draw_(context, width, height) {
    if (this.marker_ === null || this.picture_.image === null) return;
    const lines = ["x", "y"].map((along) => this.picture_.profile(this.marker_, along, kHalf_px));
    const most = Math.max(...lines.flat().map((point) => point.value), this.marker_.background_adu + this.marker_.amplitude_adu || 0, 1);
    const scale = 2 ** Math.ceil(Math.log2(most)); // in steps: it does not stretch with each picture
    const x = (px) => width / 2 + (px * (width - 2 * kMargin)) / (2 * kHalf_px);
    const y = (adu) => height - kMargin - 12 - ((height - 2 * kMargin - 12) * adu) / scale;
    context.fillStyle = colour("faint");
    for (let px = -10; px <= 10; px += 5) context.fillRect(Math.round(x(px)), 0, 1, height);
    lines.forEach((line, i) => {
      context.strokeStyle = colour(i === 0 ? "x" : "y");
      context.setLineDash(i === 0 ? [] : [6, 3]);
      context.lineWidth = 2;
      context.beginPath();
      for (const point of line) context.lineTo(x(point.at_px), y(point.value));
      context.stroke();
    });
    context.setLineDash([]);
    context.fillStyle = colour("quiet");
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.fillText("\u221210 px", x(-10) + 2, height - 2);
    context.fillText("+10 px", x(10) - 44, height - 2);
    context.fillText(`${scale} ADU; along x \u2014, along y - -`, 4, 14);
    if (this.picture_.image.bin > 1) context.fillText(`means of ${this.picture_.image.bin} \u00d7 ${this.picture_.image.bin} pixels: zoom in for single ones`, 4, 30);
  }
}
