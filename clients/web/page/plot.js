// SPDX-License-Identifier: MIT
// Plots over time: the least and the greatest value of each column of a ring, nm against the time before now.
import { colour, Surface } from "./canvas.js";
import { Range, tickStep, tickText, ticks } from "./range.js";

const kLeft = 58;
const kRight = 22;
const kTop = 8;
const kBottom = 22;
const kStrip = 6;

/** Ticks of a time axis of so many seconds: distance, unit's length in seconds, and its name. */
export function timeTicks(span_s) {
  if (span_s <= 120) return { step_s: 10, unit_s: 1, unit: "s" };
  if (span_s <= 1200) return { step_s: 120, unit_s: 60, unit: "min" };
  if (span_s <= 7200) return { step_s: 1200, unit_s: 60, unit: "min" };
  return { step_s: 4 * 3600, unit_s: 3600, unit: "h" };
}

export class Plot {
  /**
   * lines: [{series, name, colour}]; strip: the series of a band below, filled where its least value is not 0.
   */
  constructor(canvas, rings, lines, { low, high, unit = "nm", strip = null }) {
    this.rings = rings;
    this.lines = lines;
    this.strip = strip;
    this.unit_ = unit;
    this.range = new Range(low, high);
    this.span_s = 60;
    this.drawn_ = null; // newest column on the canvas
    this.surface_ = new Surface(canvas, (context, width, height) => this.draw_(context, width, height));
  }

  show(span_s) {
    this.span_s = span_s;
    this.drawn_ = null;
    this.update();
  }

  /** New values came: the range takes them in. */
  update() {
    const extent = this.extent_();
    const grew = extent !== null && this.range.grow(extent.low, extent.high);
    const { newest } = this.rings.of(this.span_s);
    if (!grew && newest === this.drawn_) return;
    this.drawn_ = newest;
    this.surface_.redraw();
  }

  fit() {
    const extent = this.extent_();
    if (extent !== null) this.range.fit(extent.low, extent.high);
    this.surface_.redraw();
  }

  scale(factor) {
    this.range.scale(factor);
    this.surface_.redraw();
  }

  clear() {
    this.range.reset();
    this.surface_.redraw();
  }

  extent_() { return this.rings.of(this.span_s).extent(this.lines.map((line) => line.series)); }

  draw_(context, width, height) {
    const area = {
      left: kLeft, top: kTop, width: Math.max(1, width - kLeft - kRight),
      height: Math.max(1, height - kTop - kBottom - (this.strip === null ? 0 : kStrip + 2)),
    };
    const y = (nm) => area.top + area.height * (1 - (nm - this.range.low) / this.range.span);
    this.drawGrid_(context, area, y, height);
    const ring = this.rings.of(this.span_s);
    if (ring.newest === null) return;
    const x = (column) => area.left + (area.width * (column - ring.newest + ring.count - 0.5)) / ring.count;
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, height - area.top);
    context.clip();
    if (this.strip !== null) this.drawStrip_(context, ring, area, x);
    for (const line of this.lines) drawLine(context, ring, line, x, y);
    context.restore();
    this.drawNames_(context, ring, area, y);
  }

  drawGrid_(context, area, y, height) {
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const step = tickStep(this.range.span);
    for (const nm of ticks(this.range.low, this.range.high)) {
      context.fillStyle = Math.abs(nm) < step / 2 ? colour("faint-strong") : colour("faint");
      context.fillRect(area.left, Math.round(y(nm)), area.width, 1);
      context.fillStyle = colour("quiet");
      context.fillText(tickText(nm, step), area.left - 6, y(nm));
    }
    context.save();
    context.translate(12, area.top + area.height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(this.unit_, 0, 0);
    context.restore();
    const { step_s, unit_s, unit } = timeTicks(this.span_s);
    context.textAlign = "center";
    for (let ago_s = 0; ago_s <= this.span_s; ago_s += step_s) {
      const x = Math.round(area.left + area.width * (1 - ago_s / this.span_s));
      context.fillStyle = colour("faint");
      context.fillRect(x, area.top, 1, area.height);
      context.fillStyle = colour("quiet");
      context.fillText(ago_s === 0 ? `0 ${unit}` : tickText(-ago_s / unit_s, 1), x, height - kBottom / 2);
    }
  }

  drawStrip_(context, ring, area, x) {
    const top = area.top + area.height + 2;
    const width = Math.max(1, area.width / ring.count);
    for (let column = ring.oldest; column <= ring.newest; ++column) {
      const least = ring.low(column, this.strip);
      if (Number.isNaN(least)) continue;
      context.fillStyle = least > 0 ? colour("good") : colour("faint");
      const thick = least > 0 ? kStrip : 2;
      context.fillRect(x(column) - width / 2, top, width + 0.5, thick);
    }
  }

  /** Names beside the newest values, apart from each other: colours alone tell nothing. */
  drawNames_(context, ring, area, y) {
    context.font = "bold 13px system-ui, sans-serif";
    context.textAlign = "left";
    const places = [];
    for (const line of this.lines) {
      for (let column = ring.newest; column >= ring.oldest; --column) {
        const value = ring.high(column, line.series);
        if (Number.isNaN(value)) continue;
        places.push({ line, at: Math.min(Math.max(y(value), area.top + 6), area.top + area.height - 6) });
        break;
      }
    }
    places.sort((a, b) => a.at - b.at);
    for (let i = 1; i < places.length; ++i) places[i].at = Math.max(places[i].at, places[i - 1].at + 13);
    for (const { line, at } of places) {
      context.fillStyle = colour(line.colour);
      context.fillText(line.name, area.left + area.width + 5, at);
    }
  }
}

/** Each column from its least to its greatest value, and columns that touch in time joined. */
function drawLine(context, ring, line, x, y) {
  context.strokeStyle = colour(line.colour);
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.beginPath();
  let last = null;
  for (let column = ring.oldest; column <= ring.newest; ++column) {
    const low = ring.low(column, line.series);
    if (Number.isNaN(low)) continue;
    const high = ring.high(column, line.series);
    // Few columns without a value are those between samples that come more seldom than columns.
    if (last !== null && column - last <= 1 + kJoined_s / ring.step_s) context.lineTo(x(column), y(high));
    else context.moveTo(x(column), y(high) - 0.5);
    context.lineTo(x(column), y(low) + 0.5);
    last = column;
  }
  context.stroke();
}

/** Values that are farther apart in time are not joined: nobody knows what was between. */
const kJoined_s = 1;
