// SPDX-License-Identifier: MIT
// What a lock needs, in the order in which it is set up, and what to do about what is missing. Pure.
import { inWords } from "./words.js";

/** The brightest pixels should reach this share of what the camera can tell. */
const kBrightShare = 0.1;

/** [{state: "done", "missing" or "open", text}]; open: it cannot be told from here. */
export function stepsOf(status, image) {
  return [camera(status), exposure(status, image), markers(status), driver(status), stage(status), lock(status)];
}

const done = (text) => ({ state: "done", text });
const missing = (text) => ({ state: "missing", text });
const open = (text) => ({ state: "open", text });

function camera({ camera }) {
  if (!camera.connected) return missing(`Camera: ${camera.problem || "not connected"}.`);
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
    return missing(`Exposure: ${image.saturated} pixels are saturated. Less light, or less camera.exposure_us or camera.gain_db.`);
  const share = brightest(image.histogram ?? []);
  const percent = Math.round(100 * share);
  if (share < kBrightShare)
    return missing(`Exposure: the brightest pixel is below ${percent} % of the range. More light, or more camera.exposure_us.`);
  return done(`Exposure: the brightest pixel is at ${percent} % of the range, none is saturated.`);
}

function markers({ markers, fitter }) {
  if (!(markers.tracking > 0))
    return missing("Markers: none. Focus on them, see that they are in the picture and bright enough, and find markers.");
  const size = fitter?.size_reason ? ` ${fitter.size_reason}.` : "";
  if (markers.used === null || markers.used < markers.tracking / 2)
    return missing(`Markers: ${markers.used ?? 0} of ${markers.tracking} are seen. Find markers anew where the sample was moved.`);
  return done(`Markers: ${markers.used} of ${markers.tracking}, and ${markers.witness} witnesses.${size}`);
}

function driver({ stage_driver }) {
  if (stage_driver === null)
    return open("Stage: no driver has told of itself. driftd-stage does; one that only takes corrections is not seen from here.");
  if (stage_driver.state !== "ready")
    return missing(`Stage: ${stage_driver.driver} says ${inWords(stage_driver.state)}. ${stage_driver.text}`);
  return done(`Stage: ${stage_driver.driver} is ready.`);
}

function stage({ acquaintance }) {
  const text = acquaintance?.text ? ` ${acquaintance.text}` : "";
  const states = {
    told: open("How the stage answers: as the configuration says. Calibrate where nobody has measured it."),
    under_way: open(`How the stage answers: being found out.${text}`),
    known: done(`How the stage answers: found out by a lock.${text}`),
  };
  return states[acquaintance?.state] ?? missing(`How the stage answers: not known.${text} Calibrate.`);
}

function lock({ state }) {
  return state === "locked" ? done("Lock: it holds.") : open("Lock: not yet.");
}
