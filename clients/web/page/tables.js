// SPDX-License-Identifier: MIT
// What stands in tables: markers, range left of the stage, its driver, camera, latency, the law.
import { $, setList, setText, show, Table } from "./dom.js";
import { axialLock, duration, inWords, kNone, number, signed } from "./words.js";

export class Tables {
  constructor(onMarker) {
    this.markers_ = new Table($("markers-rows"), { buttons: true });
    this.stage_ = new Table($("stage-rows"));
    this.camera_ = new Table($("camera-rows"));
    this.latency_ = new Table($("latency-rows"));
    this.law_ = new Table($("law-rows"));
    this.withZ_ = false;
    $("markers-rows").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button !== null) onMarker(Number(button.textContent));
    });
  }

  forget() {
    for (const table of [this.markers_, this.stage_, this.camera_, this.latency_, this.law_]) table.update([]);
    setList($("ranges"), []);
    setText($("record-state"), "");
    setText($("stage-text"), "");
  }

  setMarkers(markers) {
    const withZ = markers.some(({ z_nm, sigma_y_px }) => typeof z_nm === "number" || typeof sigma_y_px === "number");
    if (withZ !== this.withZ_) this.markers_.update([]); // rows of another length
    this.withZ_ = withZ;
    for (const heading of document.querySelectorAll("#markers th[data-z]")) show(heading, withZ);
    this.markers_.update(markers.map((marker) => [
      String(marker.id), inWords(marker.role), doubt(marker), number(marker.x_px, 2), number(marker.y_px, 2),
      signed(marker.residual_x_nm, 2), signed(marker.residual_y_nm, 2), number(marker.x_sd_nm, 2),
      number(marker.sigma_px, 2), number(marker.amplitude_adu), number(marker.photons), number(marker.reputation, 2),
      ...(withZ ? [signed(marker.z_nm, 1), signed(marker.residual_z_nm, 1)] : []),
    ]));
  }

  setStatus(status, config) {
    this.setStage_(status, config);
    this.setCamera_(status);
    this.setLatency_(status);
    this.setLaw_(status);
    setText($("record-state"), recordOf(status));
  }

  setStage_(status, config) {
    const driver = status.stage_driver;
    const rows = [["Looks", inWords(status.stage)]];
    if (driver) {
      rows.push(["Driver", `${driver.driver}: ${inWords(driver.state)}`], ["Stage", driver.description || kNone],
                ["Off its place, rms", `${number(driver.off_nm, 2)} nm`],
                ["Moves", `${number(driver.rate_hz)} /s, at most ${number(driver.max_rate_hz)}`],
                ["Told after", `${number(driver.latency_us?.p50)} \u00b5s, p99 ${number(driver.latency_us?.p99)}`],
                ["Carried out", number(driver.carried_out)], ["Too late", number(driver.ignored)],
                ["Refused", number(driver.refused)]);
    }
    const lock = axialLock(status);
    if (lock !== null) {
      const ofZ = lock.stage_driver;
      rows.push(["z looks", inWords(lock.stage ?? kNone)]);
      if (ofZ) rows.push(["Driver of z", `${ofZ.driver}: ${inWords(ofZ.state)}`], ["z off its place, rms", `${number(ofZ.off_nm, 2)} nm`]);
    }
    this.stage_.update(rows);
    setText($("stage-text"), driver ? driver.text ?? "" : "No driver tells of itself: how much range the stage has left is not known.");
    setRanges(status, config);
  }

  setCamera_({ camera, loop }) {
    const rows = [
      ["Camera", camera.connected ? camera.description ?? kNone : "not connected"],
      ["Image", `${number(camera.width_px)} \u00d7 ${number(camera.height_px)} px, ${camera.pixel_format ?? kNone}`],
      ["Frame rate", `${number(camera.rate_hz, 1)} /s`], ["Frames", number(camera.frames)],
      ["Lost", number(camera.lost)], ["Incomplete", number(camera.incomplete)], ["Skipped", number(camera.superseded)],
      ["Too old", number(loop?.stale)], ["Missing packets", number(camera.missing_packets)],
      ["Connected again", number(camera.reconnects)], ["Temperature", `${number(camera.temperature_c, 1)} \u00b0C`],
      ["Its clock", inWords(camera.clock?.trust ?? kNone)],
    ];
    for (const note of camera.notes ?? []) {
      if (note.severity === "warning") rows.push(["Not as asked", note.text]);
    }
    this.camera_.update(rows);
  }

  setLatency_({ latency_us }) {
    const parts = { total: "Frame to correction", cut: "Cut out", fit: "Fit", control: "Control", publish: "Publish" };
    this.latency_.update(Object.entries(parts).map(([part, name]) => {
      const one = latency_us?.[part] ?? {};
      return [name, number(one.p50), number(one.p99), number(one.p99_9), number(one.max)];
    }));
  }

  setLaw_(status) {
    const { control, residual, pattern } = status;
    const ofZ = axialLock(status)?.control;
    const rows = [];
    if (control?.law) {
      const why = control.reason === "configured" ? "" : ` (${inWords(control.reason)})`;
      rows.push(["Law", `${control.law}${why}`],
                ["Leaves, noise included", `${number(control.left_nm, 2)} nm; PI would ${number(control.pi_left_nm, 2)}`]);
    }
    if (ofZ?.law) rows.push(["Law of z", ofZ.law], ["Leaves in z, noise included", `${number(ofZ.left_nm, 2)} nm; PI would ${number(ofZ.pi_left_nm, 2)}`]);
    const loop = residual?.in_loop;
    for (const tau_s of [0.1, 1, 16]) {
      const near = (loop?.allan ?? []).find((one) => Math.abs(Math.log2(one.tau_s / tau_s)) <= 0.5);
      if (near) rows.push([`Allan deviation, ${number(near.tau_s, near.tau_s < 1 ? 2 : 0)} s`, `${number(near.x_nm, 3)} / ${number(near.y_nm, 3)} nm`]);
    }
    this.law_.update([...rows, ...patternRows(pattern)]);
  }
}

/** How the markers' pattern lies against its reference. */
export function patternRows(pattern) {
  const rows = [];
  const add = (name, key, sd, digits, unit) => {
    if (typeof pattern?.[key] === "number") rows.push([name, `${signed(pattern[key], digits)} \u00b1 ${number(pattern[sd], digits)} ${unit}`]);
  };
  add("Markers' pattern turned, x towards y", "rotation_mrad", "rotation_sd_mrad", 4, "mrad");
  add("Markers' pattern grown", "scale_ppm", "scale_sd_ppm", 1, "ppm");
  add("Markers' pattern tilted along x", "tilt_x_mrad", "tilt_x_sd_mrad", 3, "mrad");
  add("Markers' pattern tilted along y", "tilt_y_mrad", "tilt_y_sd_mrad", 3, "mrad");
  return rows;
}

function doubt(marker) {
  if (marker.health !== "good") return inWords(marker.health);
  if (marker.reputation_reason === "good") return "good";
  return `${marker.excluded ? "excluded: " : ""}${inWords(marker.reputation_reason)}`;
}

function recordOf({ record, raw_frames }) {
  const texts = [];
  if (record?.recording) {
    texts.push(`Recording for ${duration(record.seconds ?? 0)}: ${record.frames} frames, ${number(record.bytes / 1e6, 1)} MB, to ${record.file}.`);
    if (record.not_recorded > 0) texts.push(`${record.not_recorded} frames are left out: the disk is too slow.`);
  } else if (record?.problem) {
    texts.push(`Nothing is recorded: ${record.problem}`);
  }
  if (raw_frames?.saving) texts.push("Raw frames are being saved.");
  if (raw_frames?.problem) texts.push(`Raw frames: ${raw_frames.problem}`);
  return texts.join(" ");
}

/** A bar for each axis of the stage, and how far the corrections have gone of what they may. */
function setRanges(status, config) {
  const bars = [];
  const lock = axialLock(status);
  const axes = [...(status.stage_driver?.axes ?? [])];
  for (const axis of lock?.stage_driver?.axes ?? []) { // one driver may move all three
    if (!axes.some((one) => one.axis === axis.axis)) axes.push(axis);
  }
  for (const axis of axes) {
    if (typeof axis.position_nm !== "number" || !(axis.max_nm > axis.min_nm)) continue;
    const left_nm = Math.min(axis.position_nm - axis.min_nm, axis.max_nm - axis.position_nm);
    bars.push({ text: `Stage ${axis.axis}: ${number(left_nm / 1000, 2)} \u00b5m left to the nearer end, at ${number(axis.position_nm / 1000, 3)} of ${number(axis.min_nm / 1000)} to ${number(axis.max_nm / 1000)} \u00b5m`,
                low: axis.min_nm, high: axis.max_nm, value: axis.position_nm });
  }
  for (const [name, total_nm, most_nm] of [["x", status.drift?.total_x_nm, config?.max_range_nm], ["y", status.drift?.total_y_nm, config?.max_range_nm],
                                           ["z", lock?.total_z_nm, config?.z_max_range_nm]]) {
    if (typeof total_nm !== "number" || !(most_nm > 0)) continue;
    bars.push({ text: `Correction ${name}: ${number(most_nm - Math.abs(total_nm), 1)} nm left of \u00b1${number(most_nm)} nm`,
                low: -most_nm, high: most_nm, value: total_nm });
  }
  const { range_below_nm: below, range_above_nm: above, method } = status.axial ?? {};
  if (lock !== null && typeof below === "number" && typeof above === "number") {
    bars.push({ text: `z is read: ${number(Math.min(below, above))} nm left to the nearer end of the ${method === "reflection" ? "spot's region" : "curve"}`, low: -below, high: above, value: 0 });
  }
  const list = $("ranges");
  while (list.children.length > bars.length) list.lastElementChild.remove();
  bars.forEach((bar, i) => {
    if (i === list.children.length) {
      const item = document.createElement("li");
      item.append(document.createElement("span"), document.createElement("meter"));
      list.append(item);
    }
    const [label, meter] = list.children[i].children;
    setText(label, bar.text);
    const span = bar.high - bar.low;
    Object.assign(meter, { min: 0, max: 1, low: 0.1, high: 0.9, optimum: 0.5, value: (bar.value - bar.low) / span });
    meter.setAttribute("aria-label", bar.text);
  });
}
