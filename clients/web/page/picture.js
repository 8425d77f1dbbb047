// SPDX-License-Identifier: MIT
// The live picture: 16 bits of the camera, of which contrast by hand makes greys; saturated pixels are marked. Over it the
// markers' ROIs, and arrows of their residuals. The view is in the frame's pixels, so that a picture of a part or of
// fewer pixels lies where it belongs.
import { colour, Surface } from "./canvas.js";

const kMostZoom = 64;
const kRegionWait_ms = 250;
const kLongestArrow = 400;
const kSaturated = [255, 140, 0];

/** Black and white that leave out a hundredth of the darkest and a thousandth of the brightest pixels. */
export function contrastOf(pixels) {
  const counts = new Uint32Array(65536);
  for (const value of pixels) ++counts[value];
  const at = (share) => {
    let left = share * pixels.length;
    for (let value = 0; value < 65536; ++value) {
      left -= counts[value];
      if (left < 0) return value;
    }
    return 65535;
  };
  const black = at(0.01);
  return { black, white: Math.max(at(0.999), black + 1) };
}

/** Greys by value, as RGBA; saturated values in the colour of their mark. */
export function greysOf(black, white, saturated_at) {
  const greys = new Uint8ClampedArray(4 * 65536);
  const scale = 255 / Math.max(1, white - black);
  for (let value = 0; value < 65536; ++value) {
    const grey = (value - black) * scale;
    const marked = saturated_at > 0 && value >= saturated_at;
    for (let i = 0; i < 3; ++i) greys[4 * value + i] = marked ? kSaturated[i] : grey;
    greys[4 * value + 3] = 255;
  }
  return new Uint32Array(greys.buffer);
}

/** How a marker is drawn: colour, dashes, and the word beside its number. */
export function styleOf(marker) {
  if (marker.excluded) return { colour: "bad", dashes: [2, 4], word: "excluded" };
  if (marker.health === "unreferenced") return { colour: "witness", dashes: [6, 3], word: "" };
  if (marker.health !== "good") return { colour: "bad", dashes: [2, 4], word: marker.health.replaceAll("_", " ") };
  if (marker.role === "witness") return { colour: "witness", dashes: [8, 4], word: "witness" };
  return { colour: "good", dashes: [], word: "" };
}

export class Picture {
  /** hooks: onContrast({black, white, most}), onRegion(region), onPlace(x_px, y_px, marker): of the frame; onMoved(): the view was. */
  constructor(canvas, hooks) {
    this.hooks_ = hooks;
    this.canvas_ = canvas;
    this.store_ = document.createElement("canvas");
    this.storeContext_ = this.store_.getContext("2d");
    this.arrow_ = 20; // pixels of the screen a nm
    this.showsMarkers = true;
    this.selected = null;
    this.points = []; // places of the frame, marked by crosses
    this.surface_ = new Surface(canvas, (context, width, height) => this.draw_(context, width, height));
    this.clear();
    this.listen_();
  }

  /** The view and the contrast stay. */
  forget() {
    this.image = null;
    this.pixels = null;
    this.markers_ = [];
    this.points = [];
    this.surface_.redraw();
  }

  clear() {
    this.forget();
    this.contrast = null;
    this.zoom_ = 1; // of what fits
    this.middle_ = null;
    this.frame_ = "";
  }

  show(image, pixels) {
    const frame = [image.full_width, image.full_height, image.max_value, image.saturated_at].join();
    const other = frame !== this.frame_; // of another camera, or its image was set otherwise
    this.frame_ = frame;
    this.image = image;
    this.pixels = pixels;
    if (other) this.zoom_ = 1;
    if (this.middle_ === null || other) this.middle_ = { x: image.full_width / 2, y: image.full_height / 2 };
    if (this.contrast === null) this.setContrastOnce();
    else if (other) this.setContrast(this.contrast.black, this.contrast.white);
    this.paint_();
    this.surface_.redraw();
  }

  mark(markers) {
    this.markers_ = markers;
    this.surface_.redraw();
  }

  update() { this.surface_.redraw(); }

  arrows(pixels_per_nm) {
    this.arrow_ = pixels_per_nm;
    this.surface_.redraw();
  }

  /** From what the picture shows now; it stays so until somebody changes it. */
  setContrastOnce() {
    if (this.pixels === null) return;
    const { black, white } = contrastOf(this.pixels);
    this.setContrast(black, white);
  }

  setContrast(black, white) {
    if (this.image === null) return;
    const most = this.image.max_value;
    black = Math.min(Math.max(Math.round(black), 0), most - 1);
    white = Math.min(Math.max(Math.round(white), black + 1), most);
    this.contrast = { black, white };
    this.greys_ = greysOf(black, white, this.image.saturated_at);
    this.hooks_.onContrast({ black, white, most });
    this.paint_();
    this.surface_.redraw();
  }

  zoom(factor, at = null) {
    if (this.image === null) return;
    const before = this.scale_();
    this.zoom_ = Math.min(Math.max(this.zoom_ * factor, 1), kMostZoom);
    const after = this.scale_();
    if (at !== null) {  // what is there stays there
      this.middle_.x += (at.x - this.surface_.width / 2) * (1 / before - 1 / after);
      this.middle_.y += (at.y - this.surface_.height / 2) * (1 / before - 1 / after);
    }
    this.moved_();
  }

  whole() {
    this.zoom_ = 1;
    this.moved_();
  }

  pan(x, y) {
    if (this.image === null) return;
    this.middle_.x += x / this.scale_();
    this.middle_.y += y / this.scale_();
    this.moved_();
  }

  /** A line of pixels through a marker, along x or y, `half` to each side: [{at_px, value}], at_px from its centre. */
  profile(marker, along, half) {
    const { image, pixels } = this;
    if (pixels === null || marker.x_px === null) return [];
    const place = (px, offset, first) => (px - offset - first + 0.5) / image.bin - 0.5;
    const x = place(marker.x_px, image.offset_x_px, image.x0);
    const y = place(marker.y_px, image.offset_y_px, image.y0);
    const line = [];
    const [centre, across, most, rows] = along === "x" ? [x, y, image.width, image.height] : [y, x, image.height, image.width];
    const row = Math.round(across);
    if (row < 0 || row >= rows) return [];
    for (let i = Math.max(0, Math.ceil(centre - half / image.bin)); i < most && i <= centre + half / image.bin; ++i) {
      const value = along === "x" ? pixels[row * image.width + i] : pixels[i * image.width + row];
      line.push({ at_px: (i - centre) * image.bin, value });
    }
    return line;
  }

  /** What the middle of the view shows, a place of the frame. */
  middle() { return this.image === null ? null : { ...this.middle_ }; }

  scale_() {
    const { full_width, full_height } = this.image;
    return this.zoom_ * Math.min(this.surface_.width / full_width, this.surface_.height / full_height);
  }

  toScreen_(x, y) {
    const scale = this.scale_();
    return { x: this.surface_.width / 2 + (x - this.middle_.x) * scale,
             y: this.surface_.height / 2 + (y - this.middle_.y) * scale };
  }

  toFrame_(x, y) {
    const scale = this.scale_();
    return { x: this.middle_.x + (x - this.surface_.width / 2) / scale,
             y: this.middle_.y + (y - this.surface_.height / 2) / scale };
  }

  /** The view changed: it stays in the frame, and the server is told which part is seen. */
  moved_() {
    if (this.image === null) return;
    const { full_width, full_height } = this.image;
    const scale = this.scale_();
    const half = { x: this.surface_.width / 2 / scale, y: this.surface_.height / 2 / scale };
    const within = (value, most, reach) =>
      2 * reach >= most ? most / 2 : Math.min(Math.max(value, reach), most - reach);
    this.middle_ = { x: within(this.middle_.x, full_width, half.x), y: within(this.middle_.y, full_height, half.y) };
    this.hooks_.onMoved();
    this.surface_.redraw();
    clearTimeout(this.timer_);
    this.timer_ = setTimeout(() => this.tellRegion_(half), kRegionWait_ms);
  }

  tellRegion_(half) {
    if (this.image === null) return;
    const { full_width, full_height } = this.image;
    if (this.zoom_ <= 1) {
      this.hooks_.onRegion(null);
      return;
    }
    const left = Math.max(0, Math.floor(this.middle_.x - half.x));
    const top = Math.max(0, Math.floor(this.middle_.y - half.y));
    const right = Math.min(full_width, Math.ceil(this.middle_.x + half.x));
    const bottom = Math.min(full_height, Math.ceil(this.middle_.y + half.y));
    this.hooks_.onRegion([left, top, Math.max(1, right - left), Math.max(1, bottom - top)]);
  }

  paint_() {
    const { width, height } = this.image;
    if (this.store_.width !== width || this.store_.height !== height || !this.data_) {
      this.store_.width = width;
      this.store_.height = height;
      this.data_ = this.storeContext_.createImageData(width, height);
      this.words_ = new Uint32Array(this.data_.data.buffer);
    }
    const { pixels, greys_, words_ } = this;
    for (let i = 0; i < words_.length; ++i) words_[i] = greys_[pixels[i]];
    this.storeContext_.putImageData(this.data_, 0, 0);
  }

  draw_(context) {
    if (this.image === null) return;
    const { x0, y0, width, height, bin } = this.image;
    const scale = this.scale_();
    const first = this.toScreen_(x0, y0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.store_, first.x, first.y, width * bin * scale, height * bin * scale);
    if (this.showsMarkers) {
      context.font = "bold 12px system-ui, sans-serif";
      context.textBaseline = "bottom";
      context.textAlign = "left";
      for (const marker of this.markers_) this.drawMarker_(context, marker, scale);
      this.drawScale_(context);
    }
    for (const point of this.points) this.drawPoint_(context, point);
  }

  roiOf_(marker) {
    const roi = (this.image.rois ?? []).find((one) => one.id === marker.id);
    if (roi !== undefined) return { x: roi.x_px, y: roi.y_px, side: roi.side_px };
    if (marker.x_px === null) return null;
    const at = this.centreOf_(marker);
    return { x: at.x - 6, y: at.y - 6, side: 12 };
  }

  centreOf_(marker) {
    return { x: marker.x_px - this.image.offset_x_px + 0.5, y: marker.y_px - this.image.offset_y_px + 0.5 };
  }

  drawMarker_(context, marker, scale) {
    const roi = this.roiOf_(marker);
    if (roi === null) return;
    const style = styleOf(marker);
    const corner = this.toScreen_(roi.x, roi.y);
    const side = roi.side * scale;
    const outlined = (draw) => {
      for (const [width, stroke] of [[4, "#000a"], [marker.id === this.selected ? 3 : 1.5, colour(`pic-${style.colour}`)]]) {
        context.lineWidth = width;
        context.strokeStyle = stroke;
        draw();
      }
    };
    context.setLineDash(style.dashes);
    outlined(() => context.strokeRect(corner.x, corner.y, side, side));
    context.setLineDash([]);
    const text = style.word === "" ? `${marker.id}` : `${marker.id} ${style.word}`;
    context.lineWidth = 3;
    context.strokeStyle = "#000c";
    context.strokeText(text, corner.x, corner.y - 2);
    context.fillStyle = colour(`pic-${style.colour}`);
    context.fillText(text, corner.x, corner.y - 2);
    if (marker.residual_x_nm === null || marker.residual_y_nm === null || marker.x_px === null) return;
    const centre = this.centreOf_(marker);
    const at = this.toScreen_(centre.x, centre.y);
    let length = { x: marker.residual_x_nm * this.arrow_, y: marker.residual_y_nm * this.arrow_ };
    const whole = Math.hypot(length.x, length.y);
    if (whole > kLongestArrow) length = { x: (length.x * kLongestArrow) / whole, y: (length.y * kLongestArrow) / whole };
    outlined(() => drawArrow(context, at, length));
  }

  drawScale_(context) {
    const y = this.surface_.height - 12;
    for (const [width, stroke] of [[5, "#000a"], [2, "#fff"]]) {
      context.lineWidth = width;
      context.strokeStyle = stroke;
      drawArrow(context, { x: 10, y }, { x: this.arrow_, y: 0 });
    }
    context.lineWidth = 3;
    context.strokeStyle = "#000c";
    context.fillStyle = "#fff";
    context.strokeText("residual of 1 nm", 18 + this.arrow_, y + 7);
    context.fillText("residual of 1 nm", 18 + this.arrow_, y + 7);
  }

  drawPoint_(context, point) {
    const at = this.toScreen_(point.x, point.y);
    for (const [width, stroke] of [[5, "#000c"], [2, "#fff"]]) {
      context.lineWidth = width;
      context.strokeStyle = stroke;
      context.beginPath();
      context.moveTo(at.x - 9, at.y);
      context.lineTo(at.x + 9, at.y);
      context.moveTo(at.x, at.y - 9);
      context.lineTo(at.x, at.y + 9);
      context.stroke();
    }
  }

  markerAt(x, y) {
    for (const marker of this.markers_) {
      const roi = this.roiOf_(marker);
      if (roi !== null && x >= roi.x && y >= roi.y && x < roi.x + roi.side && y < roi.y + roi.side) return marker;
    }
    return null;
  }

  listen_() {
    const canvas = this.canvas_;
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;  // the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.25 : 0.8, { x: event.offsetX, y: event.offsetY });
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const act = { "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5), "0": () => this.whole(),
                    ArrowLeft: () => this.pan(-40, 0), ArrowRight: () => this.pan(40, 0),
                    ArrowUp: () => this.pan(0, -40), ArrowDown: () => this.pan(0, 40) }[event.key];
      if (act === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      act();
    });
    let start = null;
    canvas.addEventListener("pointerdown", (event) => { start = { x: event.offsetX, y: event.offsetY, moved: false }; });
    canvas.addEventListener("pointermove", (event) => {
      if (start === null || event.buttons === 0) return;
      const x = event.offsetX - start.x;
      const y = event.offsetY - start.y;
      if (!start.moved && Math.hypot(x, y) < 5) return;
      if (this.zoom_ > 1) this.pan(-x, -y);
      start = { x: event.offsetX, y: event.offsetY, moved: true };
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = start !== null && !start.moved;
      start = null;
      if (!clicked || this.image === null) return;
      const { x, y } = this.toFrame_(event.offsetX, event.offsetY);
      this.hooks_.onPlace(x, y, this.markerAt(x, y));
    });
  }
}

function drawArrow(context, at, length) {
  const whole = Math.hypot(length.x, length.y);
  const tip = { x: at.x + length.x, y: at.y + length.y };
  context.beginPath();
  context.moveTo(at.x, at.y);
  context.lineTo(tip.x, tip.y);
  if (whole > 4) {
    const head = Math.min(7, whole / 2) / whole;
    for (const side of [-0.6, 0.6]) {
      context.moveTo(tip.x, tip.y);
      context.lineTo(tip.x - head * (length.x - side * length.y), tip.y - head * (length.y + side * length.x));
    }
  }
  context.stroke();
}
