// SPDX-License-Identifier: MIT
// The spectrum of the drift over the last 16 s, both axes logarithmic, with the lines that were found.
import { colour, Surface } from "./canvas.js";
import { setText } from "./dom.js";
import { number } from "./words.js";

const kLeft = 58;
const kBottom = 24;
const kDecadesShown = 8;

export class SpectrumView {
  constructor(canvas, text) {
    this.text_ = text;
    this.surface_ = new Surface(canvas, (context, width, height) => this.draw_(context, width, height));
    this.forget();
  }

  forget() {
    this.spectrum_ = null;
    this.top_ = null; // decades: they change in whole ones, when something lies beyond
    setText(this.text_, "The first spectrum comes when 16 s of positions are there.");
    this.surface_.redraw();
  }

  show(spectrum) {
    this.spectrum_ = spectrum;
    const most = spectrum.density_nm2_per_hz.reduce((all, axis) => axis.reduce((a, b, i) => (i > 0 && b > a ? b : a), all), 0);
    if (most > 0) this.top_ = Math.max(this.top_ ?? -Infinity, Math.ceil(Math.log10(most)));
    const list = ["x", "y"].map((name, i) => {
      const lines = (spectrum.lines?.[i] ?? []).map((line) => `${number(line.frequency_hz, 2)} Hz ${number(line.amplitude_nm, 2)} nm`);
      const allan = (spectrum.allan?.[i] ?? []).map((one) => `${number(one.averaged_s, 2)} s ${number(one.deviation_nm, 3)}`);
      return `${name}: noise ${number(spectrum.noise_nm?.[i], 2)} nm; ${lines.length === 0 ? "no line stands out" : `lines ${lines.join(", ")}`}` +
        `${allan.length === 0 ? "" : `; Allan deviation in nm, of means over ${allan.join(", ")}`}.`;
    });
    setText(this.text_, `${number(spectrum.seconds, 1)} s at ${number(spectrum.rate_hz, 1)} frames/s. ${list.join(" ")}`);
    this.surface_.redraw();
  }

  draw_(context, width, height) {
    if (this.spectrum_ === null || this.top_ === null) return;
    const { spacing_hz, density_nm2_per_hz } = this.spectrum_;
    const first = Math.log10(spacing_hz);
    const last = Math.log10(spacing_hz * Math.max(2, density_nm2_per_hz[0].length - 1));
    const x = (hz) => kLeft + ((width - kLeft - 8) * (Math.log10(hz) - first)) / (last - first);
    const y = (density) => 8 + ((height - kBottom - 8) * (this.top_ - Math.log10(density))) / kDecadesShown;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let decade = this.top_; decade >= this.top_ - kDecadesShown; decade -= 2) {
      context.fillStyle = colour("faint");
      context.fillRect(kLeft, Math.round(y(10 ** decade)), width - kLeft - 8, 1);
      context.fillStyle = colour("quiet");
      context.textAlign = "right";
      context.fillText(`1e${decade}`, kLeft - 6, y(10 ** decade));
    }
    context.textAlign = "center";
    for (let decade = Math.ceil(first); decade <= last; ++decade) {
      context.fillStyle = colour("faint");
      context.fillRect(Math.round(x(10 ** decade)), 8, 1, height - kBottom - 8);
      context.fillStyle = colour("quiet");
      context.fillText(`${10 ** decade} Hz`, x(10 ** decade), height - kBottom / 2);
    }
    context.textAlign = "left";
    context.fillText("nm\u00b2/Hz", kLeft + 4, 14);
    context.save();
    context.beginPath();
    context.rect(kLeft, 8, width - kLeft - 8, height - kBottom - 8);
    context.clip();
    ["x", "y"].forEach((name, i) => {
      context.strokeStyle = colour(name);
      context.lineWidth = 1.2;
      context.beginPath();
      density_nm2_per_hz[i].forEach((density, bin) => {
        if (bin > 0 && density > 0) context.lineTo(x(bin * spacing_hz), y(density));
      });
      context.stroke();
      context.fillStyle = colour(name);
      context.font = "bold 13px system-ui, sans-serif";
      context.fillText(name, width - 40 + 16 * i, 18);
    });
    context.restore();
  }
}
