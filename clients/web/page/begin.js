// SPDX-License-Identifier: MIT
// What a lock needs, in the order in which it is set up, and what to do about what is missing: in words, and by the
// button of the page that does it.
import { $, setText, show } from "./dom.js";
import { inWords } from "./words.js";

/** The brightest pixels should reach this share of what the camera can tell. */
const kBrightShare = 0.1;

/**
 * [{state: "done", "missing" or "open", text, act}]; open: it cannot be told from here. act: the id of what mends it, or
 * of what comes next. known: {proposal: state of a Proposal, calibrated: the configuration has a calibration's values}.
 */
export function stepsOf(status, image, known = { proposal: "none", calibrated: false }) {
  return [camera(status), exposure(status, image), markers(status, image), driver(status), stage(status, known), lock(status, known)];
}

const done = (text) => ({ state: "done", text, act: null });
const missing = (text, act = null) => ({ state: "missing", text, act });
const open = (text, act = null) => ({ state: "open", text, act });
const kSigns = { done: "\u2713", missing: "\u25b2", open: "\u2013" };

/** The steps as a list, each with a button where there is one that may be pressed. */
export class Steps {
  constructor(list) {
    this.list_ = list;
    list.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button !== null) press($(button.dataset.act));
    });
  }

  update(steps) {
    while (this.list_.children.length > steps.length) this.list_.lastElementChild.remove();
    steps.forEach(({ state, text, act }, i) => {
      const item = this.list_.children[i] ?? this.add_();
      const [words, button] = item.children;
      setText(words, `${kSigns[state]} ${text}`);
      const target = act === null ? null : $(act);
      const may = target !== null && target.closest("[hidden]") === null;
      show(button, may);
      if (!may) return;
      button.dataset.act = act;
      button.disabled = target.disabled === true;
      setText(button, target.dataset.step ?? target.textContent);
    });
  }

  add_() {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    item.append(document.createElement("span"), button);
    this.list_.append(item);
    return item;
  }
}

/** What is no button is gone to. */
function press(target) {
  if (target instanceof HTMLButtonElement) return target.click();
  target.scrollIntoView({ block: "center" });
  target.focus();
}

function camera({ camera }) {
  if (!camera.connected) return missing(`Camera: ${camera.problem || "not connected"}. Is it on, and its cable in? camera.id says which one, where there are several.`);
  if (camera.rate_hz === null) return missing("Camera: connected, but no frames come.");
  return done(`Camera: ${camera.rate_hz.toFixed(1)} frames/s.`);
}

/** The brightest bin of a histogram that has pixels, as a share of the range. */
export function brightest(histogram) {
  for (let i = histogram.length - 1; i >= 0; --i) {
    if (histogram[i] > 0) return (i + 1) / histogram.length;
  }
  return 0;
}

function exposure({ camera }, image) {
  if (!camera.connected || image === null) return open("Exposure: told when a picture is there.");
  if (image.saturated > 0)
    return missing(`Exposure: ${image.saturated} pixels are saturated. Less light, or set a shorter exposure or less gain below the picture.`, "exposure-us");
  const share = brightest(image.histogram ?? []);
  const percent = Math.round(100 * share);
  if (share < kBrightShare)
    return missing(`Exposure: the brightest pixel is below ${percent} % of the range. More light, or set a longer exposure below the picture.`, "exposure-us");
  return done(`Exposure: the brightest pixel is at ${percent} % of the range, none is saturated.`);
}

function markers({ markers, fitter }, image) {
  const saturated = image !== null && image.saturated > 0;
  if (!(markers.tracking > 0))
    return missing("Markers: none. Focus on them, see that they are in the picture and bright enough, and find markers.", "do-find");
  const size = fitter?.size_reason ? ` ${fitter.size_reason}.` : "";
  const few = markers.used === null || markers.used < markers.tracking / 2;
  if (few && saturated)
    return missing(`Markers: ${markers.used ?? 0} of ${markers.tracking} are seen: those with saturated pixels are not used. The exposure first.`, "exposure-us");
  if (few)
    return missing(`Markers: ${markers.used ?? 0} of ${markers.tracking} are seen. Find markers anew where the sample was moved.`, "do-find");
  return done(`Markers: ${markers.used} of ${markers.tracking}, and ${markers.witness} witnesses.${size}`);
}

function driver({ stage_driver }) {
  if (stage_driver === null)
    return open("Stage: no driver has told of itself. driftd-stage does; one that only takes corrections is not seen from here.");
  if (stage_driver.state !== "ready")
    return missing(`Stage: ${stage_driver.driver} says ${inWords(stage_driver.state)}. ${stage_driver.text}`);
  return done(`Stage: ${stage_driver.driver} is ready.`);
}

function stage({ acquaintance }, { proposal, calibrated }) {
  if (proposal === "open") return missing("How the stage answers: a calibration has found it, and it is not written yet.", "do-write");
  if (calibrated) return done("How the stage answers: calibrated, and written beside the configuration.");
  const text = acquaintance?.text ? ` ${acquaintance.text}` : "";
  const states = {
    told: open("How the stage answers: as the configuration says. Calibrate where nobody has measured it.", "do-calibrate"),
    under_way: open(`How the stage answers: being found out.${text}`),
    known: done(`How the stage answers: found out by a lock.${text}`),
  };
  return states[acquaintance?.state] ?? missing(`How the stage answers: not known.${text} Calibrate.`, "do-calibrate");
}

function lock({ state }, { proposal }) {
  const written = proposal === "open" ? " Write first what the calibration found: as configured it may not hold." : "";
  const states = {
    locked: done("Lock: it holds."),
    referencing: open("Lock: the reference is being taken."),
    holding: missing("Lock: held, no correction leaves. Why, and what to do, is said above."),
    lost: missing("Lock: lost. Why, and what to do, is said above.", "do-lock"),
    fault: missing("Lock: a part of driftd failed. What to do is said above.", "do-reset"),
    calibrating: open("Lock: when the calibration is over."),
  };
  return states[state] ?? open(`Lock: not yet.${written}`, "do-lock");
}
