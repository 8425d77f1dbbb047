// SPDX-License-Identifier: MIT
// The histogram of the whole frame, counts logarithmic, with black and white of the contrast: is the exposure right?
import { colour, Surface } from "./canvas.js";

export class Histogram {
  constructor(canvas) {
    this.surface_ = new Surface(canvas, (context, width, height) => this.draw_(context, width, height));
    this.contrast_ = null;
    this.forget();
  }

  forget() {
    this.image_ = null;
    this.surface_.redraw();
  }

  show(image) {
    this.image_ = image;
    this.surface_.redraw();
  }

  setContrast(contrast) {
    this.contrast_ = contrast;
    this.surface_.redraw();
  }

  draw_(context, width, height) {
    const counts = this.image_?.histogram;
    if (!Array.isArray(counts) || counts.length === 0) return;
    const { full_width, full_height, max_value, saturated_at } = this.image_;
    const most = Math.log(1 + full_width * full_height); // of the frame, so that it does not stretch
    const each = width / counts.length;
    const x = (adu) => (width * adu) / (max_value + 1);
    counts.forEach((count, i) => {
      const tall = ((height - 2) * Math.log(1 + count)) / most;
      const isFull = saturated_at > 0 && ((i + 1) * (max_value + 1)) / counts.length > saturated_at;
      context.fillStyle = colour(isFull ? "y" : "x");
      context.fillRect(i * each, height - tall, Math.max(1, each - 1), tall);
    });
    if (this.contrast_ === null) return;
    context.fillStyle = colour("text");
    for (const adu of [this.contrast_.black, this.contrast_.white]) context.fillRect(Math.round(x(adu)), 0, 2, height);
  }
}
