// SPDX-License-Identifier: MIT
// What an axis shows. It changes in steps, by itself only when something would lie beyond it, and never back. Pure.

const kMost = 1e9;
const kLeast = 1e-4;

/** 1, 2 or 5 times a power of ten: the distance of ticks of which a span has at most `most`. */
export function tickStep(span, most = 6) {
  const wanted = Math.max(span, kLeast) / most;
  const power = 10 ** Math.floor(Math.log10(wanted) + 1e-9);
  for (const factor of [1, 2, 5]) {
    if (factor * power >= wanted * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/** Ticks within low to high. */
export function ticks(low, high, most = 6) {
  const step = tickStep(high - low, most);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) list.push(i * step);
  return list;
}

/** A tick in words: as many digits as its neighbours need to differ. */
export function tickText(value, step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return (Math.abs(value) < step / 1e6 ? 0 : value).toFixed(Math.min(digits, 6)).replace("-", "\u2212");
}

export class Range {
  constructor(low, high) {
    this.start_ = { low, high };
    this.reset();
  }

  reset() {
    this.low = this.start_.low;
    this.high = this.start_.high;
  }

  get span() { return this.high - this.low; }

  /** Takes in what lies beyond, to the next ticks. True where it changed. */
  grow(low, high) {
    if (!(low < this.low || high > this.high)) return false;
    const least = Math.max(Math.min(low, this.low), -kMost);
    const most = Math.min(Math.max(high, this.high), kMost);
    const step = tickStep(1.1 * (most - least));
    const before = { low: this.low, high: this.high };
    if (low < this.low) this.low = Math.max(step * Math.floor((low - 0.1 * step) / step), -kMost);
    if (high > this.high) this.high = Math.min(step * Math.ceil((high + 0.1 * step) / step), kMost);
    return this.low !== before.low || this.high !== before.high;
  }

  /** By hand: to what is there. */
  fit(low, high) {
    if (!(low <= high)) return;
    const step = tickStep(Math.max(1.1 * (high - low), 10 * kLeast), 4);
    this.low = step * Math.floor((low - 0.05 * step) / step);
    this.high = step * Math.ceil((high + 0.05 * step) / step);
  }

  /** By hand: about the middle, by a factor. */
  scale(factor) {
    const middle = (this.low + this.high) / 2;
    const half = Math.min(Math.max((this.span / 2) * factor, kLeast), kMost);
    this.low = middle - half;
    this.high = middle + half;
  }
}
