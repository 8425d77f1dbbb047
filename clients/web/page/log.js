// SPDX-License-Identifier: MIT
// The log of events, the newest on top; the last ones alone are kept.
import { moment } from "./words.js";

const kKept = 200;
const kSigns = { info: "\u00b7", warning: "\u25b2 warning", error: "\u2715 error" };

export class Log {
  constructor(list) {
    this.list_ = list;
    this.forget();
  }

  forget() {
    this.list_.replaceChildren();
    this.now_ = null;
  }

  /** The daemon's clock now: events tell by it when they were. */
  setNow(time_ns) {
    const today = new Date().toDateString();
    const isSame = this.now_ !== null && this.now_.today === today; // what was today's has its date tomorrow
    this.now_ = { time_ns, ms: Date.now(), today };
    if (isSame) return;
    for (const item of this.list_.children) this.setTime_(item);
  }

  add(events) {
    for (const event of events) {
      const item = document.createElement("li");
      item.dataset.level = event.level;
      item.dataset.time_ns = event.time_ns;
      const time = document.createElement("time");
      const level = document.createElement("span");
      level.textContent = kSigns[event.level] ?? event.level;
      const text = document.createElement("span");
      text.textContent = event.text;
      item.append(time, level, text);
      this.setTime_(item);
      this.list_.prepend(item);
    }
    while (this.list_.children.length > kKept) this.list_.lastElementChild.remove();
  }

  setTime_(item) {
    if (this.now_ === null) return;
    item.firstChild.textContent = moment(this.now_.ms - (this.now_.time_ns - Number(item.dataset.time_ns)) * 1e-6);
  }
}
