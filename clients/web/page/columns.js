// SPDX-License-Identifier: MIT
// What the plots draw: rings of columns, each with the least and the greatest value of its time. A ring takes its memory
// once: twelve values take 0.2 MB, a day and all finer spans. Pure.

/** A bin is shown by as many columns at most. */
const kFinest = 20;

/** Spans that can be shown, and the columns that they are shown by. */
export const kSpans = [
  { span_s: 60, step_s: 0.1 },
  { span_s: 600, step_s: 1 },
  { span_s: 2 * 3600, step_s: 10 },
  { span_s: 24 * 3600, step_s: 120 },
];

/** The newest `count` columns of `step_s` each, of so many series. */
export class Ring {
  constructor(step_s, count, series) {
    this.step_s = step_s;
    this.count = count;
    this.series = series;
    this.low_ = new Float32Array(count * series).fill(NaN);
    this.high_ = new Float32Array(count * series).fill(NaN);
    this.newest = null; // number of the newest column: its time over step_s
  }

  /** Takes a value, or a column's least and greatest, in. What is older than the ring is left out. */
  add(t_s, series, low, high = low) {
    if (!Number.isFinite(t_s) || !Number.isFinite(low) || !Number.isFinite(high)) return;
    const column = Math.floor(t_s / this.step_s);
    this.advance_(column);
    if (column <= this.newest - this.count) return;
    const at = this.slot_(column) * this.series + series;
    if (!(this.low_[at] <= low)) this.low_[at] = low;
    if (!(this.high_[at] >= high)) this.high_[at] = high;
  }

  /** Time goes on, whether or not there are values. */
  advance(t_s) {
    if (Number.isFinite(t_s)) this.advance_(Math.floor(t_s / this.step_s));
  }

  /** Whether there is a value at this time. */
  has(t_s, series) {
    const column = Math.floor(t_s / this.step_s);
    if (this.newest === null || column > this.newest || column < this.oldest) return false;
    return !Number.isNaN(this.low(column, series));
  }

  low(column, series) { return this.low_[this.slot_(column) * this.series + series]; }
  high(column, series) { return this.high_[this.slot_(column) * this.series + series]; }
  get oldest() { return this.newest - this.count + 1; }

  /** Least and greatest of these series; null where there is nothing. */
  extent(list) {
    let low = Infinity;
    let high = -Infinity;
    for (let slot = 0; slot < this.count; ++slot) {
      for (const series of list) {
        const at = slot * this.series + series;
        if (this.low_[at] < low) low = this.low_[at];
        if (this.high_[at] > high) high = this.high_[at];
      }
    }
    return low <= high ? { low, high } : null;
  }

  slot_(column) { return ((column % this.count) + this.count) % this.count; }

  advance_(column) {
    if (this.newest === null) this.newest = column;
    if (column <= this.newest) return;
    const first = Math.max(this.newest + 1, column - this.count + 1);
    for (let c = first; c <= column; ++c) {
      const at = this.slot_(c) * this.series;
      this.low_.fill(NaN, at, at + this.series);
      this.high_.fill(NaN, at, at + this.series);
    }
    this.newest = column;
  }
}

/** A ring for each span that can be shown. */
export class Rings {
  constructor(series) {
    this.series = series;
    this.clear();
  }

  clear() {
    this.rings_ = kSpans.map(({ span_s, step_s }) => new Ring(step_s, Math.round(span_s / step_s), this.series));
  }

  add(t_s, series, value) {
    for (const ring of this.rings_) ring.add(t_s, series, value);
  }

  advance(t_s) {
    for (const ring of this.rings_) ring.advance(t_s);
  }

  /** A bin of a history, from `t_s` on. Finer columns take it where nothing finer is known of their time. */
  addBin(t_s, bin_s, series, low, high) {
    if (!Number.isFinite(low) || !Number.isFinite(high)) return;
    for (const ring of this.rings_) {
      if (ring.step_s >= bin_s) {
        ring.add(t_s + bin_s / 2, series, low, high);
        continue;
      }
      if (bin_s > kFinest * ring.step_s) continue; // it would be a block
      for (let part_s = ring.step_s / 2; part_s < bin_s; part_s += ring.step_s) {
        if (!ring.has(t_s + part_s, series)) ring.add(t_s + part_s, series, low, high);
      }
    }
  }

  of(span_s) { return this.rings_[kSpans.findIndex((one) => one.span_s === span_s)]; }
}

/** The newest `count` of rows of numbers: for the target. */
export class Trail {
  constructor(count, width) {
    this.count = count;
    this.width = width;
    this.values_ = new Float32Array(count * width);
    this.clear();
  }

  clear() {
    this.length = 0;
    this.next_ = 0;
  }

  add(...row) {
    this.values_.set(row, this.next_ * this.width);
    this.next_ = (this.next_ + 1) % this.count;
    this.length = Math.min(this.length + 1, this.count);
  }

  /** Number `item` of row `age`, counted back from the newest, which is 0. */
  at(age, item) {
    return this.values_[((this.next_ - 1 - age + 2 * this.count) % this.count) * this.width + item];
  }
}
