// SPDX-License-Identifier: MIT
// The target: where the sample was, x against y, in the last half minute; newer places stronger. A click takes a place
// over into the fields of a move.
import { colour, Surface } from "./canvas.js";
import { Trail } from "./columns.js";
import { Range, tickStep, tickText } from "./range.js";

const kKept = 600;
const kShown_s = 30;
const kShades = 6;
const kMargin = 18;

export class Target {
  constructor(canvas, onPlace) {
    this.trail_ = new Trail(kKept, 3);
    this.now_s_ = null; // of the newest sample
    this.first_s_ = 0;
    this.range = new Range(-1, 1);
    this.tolerance_nm = null;
    this.set_ = null;
    this.surface_ = new Surface(canvas, (context, width, height) => this.draw_(context, width, height));
    canvas.addEventListener("click", (event) => {
      const scale = this.scale_();
      onPlace((event.offsetX - this.surface_.width / 2) / scale, (event.offsetY - this.surface_.height / 2) / scale);
    });
  }

  /** Where it was at a time, which goes on also where there is no place. */
  add(t_s, x_nm, y_nm) {
    if (this.now_s_ === null || t_s < this.now_s_) { // another clock
      this.trail_.clear();
      this.first_s_ = t_s;
    }
    this.now_s_ = t_s;
    if (!Number.isFinite(x_nm) || !Number.isFinite(y_nm)) return;
    this.trail_.add(x_nm, y_nm, t_s - this.first_s_);
    this.reach_(Math.max(Math.abs(x_nm), Math.abs(y_nm)));
  }

  /** The set-point and the tolerance around it; null where there is none. */
  aim(set, tolerance_nm) {
    this.set_ = set;
    this.tolerance_nm = tolerance_nm;
    this.update();
  }

  update() { this.surface_.redraw(); }

  /** How many of the newest places are of the last half minute. */
  shown_() {
    let shown = 0;
    while (shown < this.trail_.length && this.now_s_ - this.first_s_ - this.trail_.at(shown, 2) <= kShown_s) ++shown;
    return shown;
  }

  fit() {
    let reach = 0;
    const shown = this.shown_();
    for (let age = 0; age < shown; ++age) {
      reach = Math.max(reach, Math.abs(this.trail_.at(age, 0)), Math.abs(this.trail_.at(age, 1)));
    }
    const step = tickStep(2.1 * Math.max(reach, 1e-3), 4);
    this.range.high = step * Math.ceil(reach / step);
    this.range.low = -this.range.high;
    this.update();
  }

  scale(factor) {
    this.range.scale(factor);
    this.update();
  }

  forget() {
    this.trail_.clear();
    this.now_s_ = null;
    this.aim(null, null);
  }

  clear() {
    this.range.reset();
    this.update();
  }

  reach_(nm) {
    if (!this.range.grow(-nm, nm)) return;
    const most = Math.max(-this.range.low, this.range.high);
    this.range.low = -most;
    this.range.high = most;
  }

  scale_() {
    return (Math.min(this.surface_.width, this.surface_.height) / 2 - kMargin) / this.range.high;
  }

  draw_(context, width, height) {
    const scale = this.scale_();
    const middle = { x: width / 2, y: height / 2 };
    const step = tickStep(this.range.span, 6);
    context.lineWidth = 1;
    context.strokeStyle = colour("faint");
    context.beginPath();
    for (let nm = step; nm <= this.range.high * 1.0001; nm += step) {
      context.moveTo(middle.x + nm * scale, middle.y);
      context.arc(middle.x, middle.y, nm * scale, 0, 2 * Math.PI);
    }
    context.moveTo(0, middle.y);
    context.lineTo(width, middle.y);
    context.moveTo(middle.x, 0);
    context.lineTo(middle.x, height);
    context.stroke();
    this.drawPlaces_(context, middle, scale);
    this.drawAim_(context, middle, scale);
    context.fillStyle = colour("quiet");
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (let nm = step; nm <= this.range.high * 1.0001; nm += step)
      context.fillText(tickText(nm, step), middle.x + 3, middle.y - nm * scale);
    context.fillText("x \u2192", 4, middle.y - 9);
    context.fillText("y \u2193", middle.x + 4, height - 8);
    context.textAlign = "right";
    context.fillText("nm", width - 4, middle.y - 9);
  }

  drawPlaces_(context, middle, scale) {
    context.fillStyle = colour("x");
    const shown = this.shown_();
    const each = Math.ceil(shown / kShades) || 1;
    for (let age = shown - 1; age >= 0; --age) {
      context.globalAlpha = 1 - Math.floor(age / each) / (kShades + 1);
      const size = age === 0 ? 8 : 3;
      context.fillRect(middle.x + this.trail_.at(age, 0) * scale - size / 2,
                       middle.y + this.trail_.at(age, 1) * scale - size / 2, size, size);
    }
    context.globalAlpha = 1;
  }

  drawAim_(context, middle, scale) {
    if (this.set_ === null) return;
    const x = middle.x + this.set_.x_nm * scale;
    const y = middle.y + this.set_.y_nm * scale;
    context.strokeStyle = colour("y");
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x - 7, y);
    context.lineTo(x + 7, y);
    context.moveTo(x, y - 7);
    context.lineTo(x, y + 7);
    if (this.tolerance_nm > 0) {
      context.moveTo(x + this.tolerance_nm * scale, y);
      context.arc(x, y, this.tolerance_nm * scale, 0, 2 * Math.PI);
    }
    context.stroke();
  }
}
