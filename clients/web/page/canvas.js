// SPDX-License-Identifier: MIT
// A canvas as large as its place on the page, drawn at most once a frame of the screen and only where it is seen, in the page's own colours.

let colours = null;

/** The page's colours, by the names of style.css without "--". */
export function colour(name) {
  if (colours === null) colours = getComputedStyle(document.documentElement);
  return colours.getPropertyValue(`--${name}`).trim();
}

const surfaces = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours = null;
  for (const surface of surfaces) surface.redraw();
});

export class Surface {
  /** `draw(context, width, height)` is called with sizes in CSS pixels. */
  constructor(canvas, draw) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.draw_ = draw;
    this.waits_ = false;
    this.width = 0;
    this.height = 0;
    surfaces.add(this);
    this.seen_ = true;
    new ResizeObserver(() => this.fit_()).observe(canvas);
    new IntersectionObserver(([entry]) => {
      this.seen_ = entry.isIntersecting;
      this.redraw();
    }).observe(canvas);
  }

  redraw() {
    if (this.waits_ || !this.seen_) return;
    this.waits_ = true;
    requestAnimationFrame(() => {
      this.waits_ = false;
      if (this.width === 0 || this.height === 0) return;
      this.context.setTransform(this.ratio_, 0, 0, this.ratio_, 0, 0);
      this.context.fillStyle = colour("panel");
      this.context.fillRect(0, 0, this.width, this.height);
      this.draw_(this.context, this.width, this.height);
    });
  }

  fit_() {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.ratio_ = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.width = Math.max(1, Math.round(this.width * this.ratio_));
    this.canvas.height = Math.max(1, Math.round(this.height * this.ratio_));
    this.redraw();
  }
}
