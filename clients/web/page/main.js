// SPDX-License-Identifier: MIT
// The page: takes the messages of one instance to the views, and another instance when it is chosen.
import { Actions } from "./act.js";
import { AxialCalibration } from "./axial.js";
import { stepsOf, Steps } from "./begin.js";
import { CalibrationView } from "./calibration.js";
import { CameraCalibration } from "./camera.js";
import { Chooser } from "./choose.js";
import { Rings } from "./columns.js";
import { $, setList, setText, show } from "./dom.js";
import { ExposureView } from "./exposure.js";
import { keepPicture, keepReport, keepWholePicture } from "./files.js";
import { Focus } from "./focus.js";
import { Histogram } from "./histogram.js";
import { Jobs } from "./jobs.js";
import { Log } from "./log.js";
import { MeasureView } from "./measure.js";
import { Picture } from "./picture.js";
import { Plot } from "./plot.js";
import { Proposal } from "./proposal.js";
import { SpectrumView } from "./spectrum.js";
import { StateView } from "./state.js";
import { Tables } from "./tables.js";
import { Target } from "./target.js";
import { Connection, logOut, order, pixelsOf, useTool } from "./wire.js";
import { axialLock, clock, sentence } from "./words.js";

const kClock_ms = 250;
const kClockWentBack_s = 10;
/** Series of the rings. */
const kSeries = { drift: 0, correction: 2, residual: 4, in_lock: 6, z: 7, correction_z: 8 };
const kSeriesCount = 9;
const kReloads = ["configuration_reloaded", "configuration_rejected"];
const kZ = (series) => ({ series, name: "z", colour: "z" });
const kPair = (first) => [{ series: first, name: "x", colour: "x" }, { series: first + 1, name: "y", colour: "y" }];

class Page {
  constructor() {
    this.instance = new URLSearchParams(location.search).get("instance");
    this.hello = null;
    this.newest_s = null;
    this.region = null; // of the picture, null: the whole
    this.rings = new Rings(kSeriesCount);
    this.plots = {
      drift: new Plot($("plot-drift"), this.rings, [...kPair(kSeries.drift), kZ(kSeries.z)], { low: -5, high: 5 }),
      correction: new Plot($("plot-correction"), this.rings, [...kPair(kSeries.correction), kZ(kSeries.correction_z)], { low: -5, high: 5 }),
      residual: new Plot($("plot-residual"), this.rings, kPair(kSeries.residual), { low: -1, high: 1, strip: kSeries.in_lock }),
    };
    this.state = new StateView();
    this.histogram = new Histogram($("histogram"));
    this.picture = new Picture($("picture"), {
      onContrast: (contrast) => this.showContrast_(contrast),
      onRegion: (region) => {
        this.region = region;
        this.connection.want({ region });
      },
      onPlace: (x, y, marker) => {
        if (this.chooser.click(x, y, marker) || this.actions.click(x, y)) return;
        if (marker !== null) this.focus.choose(marker.id);
      },
      onMoved: () => this.chooser.moved(),
    });
    const pixelSize_nm = () => this.hello?.config?.pixel_size_nm ?? 0;
    this.focus = new Focus(this.picture, pixelSize_nm);
    this.tables = new Tables((id) => this.focus.choose(id));
    this.log = new Log($("log"));
    this.spectrum = new SpectrumView($("spectrum-plot"), $("spectrum-text"));
    this.instancesShown_ = 0;
    const toDaemon = (command) => this.toDaemon_(command);
    this.steps = new Steps($("begin"));
    const tool = (request) => this.ofThisInstance_(useTool, request);
    this.proposal = new Proposal({ tool, onChange: () => this.showSteps_() });
    this.calibration = new CalibrationView(toDaemon, (reply) => this.proposal.see(reply));
    this.axial = new AxialCalibration(toDaemon, tool);
    this.camera = new CameraCalibration((request) => this.jobs.start(request), tool);
    this.measure = new MeasureView((request) => this.jobs.start(request));
    this.jobs = new Jobs(tool, {
      camera: (result) => this.camera.show(result),
      measure: (result) => this.measure.show(result),
      report: () => {},
    });
    this.actions = new Actions({
      order: toDaemon,
      picture: this.picture, pixelSize_nm,
    });
    const told = (command, done) => this.actions.order(command, done);
    this.chooser = new Chooser({ order: told, tool, picture: this.picture, focus: this.focus });
    this.exposure = new ExposureView(toDaemon, told, tool);
    this.target = new Target($("target"), (x_nm, y_nm) => this.actions.aim(x_nm, y_nm));
    this.listen_();
    this.connect_();
    setInterval(() => this.tick_(), kClock_ms);
  }

  /** What is told when nothing comes. */
  tick_() {
    this.state.update();
    const late_ms = Date.now() - this.imageAt_ms - 2 * this.state.patience_ms();
    const isOld = this.picture.image !== null && !document.hidden && late_ms > 0;
    $("look").classList.toggle("old", isOld);
    if (isOld) setText($("picture-text"), `No picture has come since ${clock(this.imageAt_ms)}: this one is of before.`);
  }

  connect_() {
    this.connection = new Connection(this.instance, (header, payload) => this.take_(header, payload),
                                     () => this.state.setGone(`driftd-web does not answer. Is it running, and this computer on its network? The page tries again by itself.${this.stranger_()}`));
  }

  /** A name of the address that was never answered: a browser does not tell a page why. */
  stranger_() {
    return this.instance === null || this.hello !== null ? ""
      : ` Or it shows no microscope called \u201c${this.instance}\u201d: then open this page without ?instance= in its address.`;
  }

  toDaemon_(command) { return this.ofThisInstance_(order, command); }

  /** Ordered of the daemon that is shown. What it answers when another one is shown is told nobody. */
  async ofThisInstance_(how, what) {
    const shown = this.instancesShown_;
    const reply = await how(this.hello?.instance ?? "", this.hello?.csrf ?? "", what);
    return shown === this.instancesShown_ ? reply : new Promise(() => {});
  }

  /** Nothing of before a gap stays on the page, but what was chosen by hand. */
  forget_() {
    this.newest_s = null;
    this.rings.clear();
    for (const view of [this.state, this.picture, this.histogram, this.tables, this.target, this.log, this.spectrum, this.calibration, this.proposal, this.axial, this.jobs, this.actions, this.chooser, this.exposure]) view.forget();
    setList($("advice"), []);
    this.steps.update([]);
  }

  /** Nothing of another instance stays. */
  clear_() {
    ++this.instancesShown_;
    this.forget_();
    this.region = null;
    for (const view of [...Object.values(this.plots), this.picture, this.focus, this.target, this.actions, this.chooser, this.exposure]) view.clear();
  }

  take_(header, payload) {
    const kinds = {
      hello: () => this.takeHello_(header),
      status: () => this.takeStatus_(header.status),
      samples: () => this.takeSamples_(header),
      history: () => this.takeHistory_(header),
      markers: () => this.takeMarkers_(header.markers),
      image: () => this.takeImage_(header, pixelsOf(header, payload)),
      event: () => this.takeEvents_(header.events),
      advice: () => this.takeAdvice_(header.advice),
      spectrum: () => this.spectrum.show(header),
      job: () => this.takeJob_(header),
      gone: () => this.state.setGone(header.reason),
    };
    kinds[header.kind]?.();
  }

  takeHello_(hello) {
    const isFirst = this.greeted_ !== this.connection.socketNumber;
    this.greeted_ = this.connection.socketNumber;
    const isOther = this.hello !== null && this.hello.instance !== hello.instance; // driftd-web was started with others
    this.hello = hello;
    if (isOther) this.clear_();
    else if (isFirst) this.forget_();
    this.showInstances_();
    setText($("version"), `driftd ${hello.version}`);
    this.actions.setRole(hello.role, hello.why_observe);
    show($("log-out"), hello.logs_out === true);
    this.chooser.setRole(hello.role);
    this.exposure.setRole(hello.role);
    if (isFirst) this.tellWants_();
  }

  tellWants_() {
    this.connection.want({ images: !document.hidden, region: this.region, spectrum: !document.hidden && $("spectrum").open });
  }

  takeStatus_(status) {
    if (this.state.status === null || this.state.gone !== "") { // the daemon is there again
      void this.calibration.ask();
      void this.axial.ask();
      void this.exposure.ask();
    }
    this.log.setNow(status.time_ns);
    this.state.setStatus(status);
    $("plot-drift").setAttribute("aria-label", `Drift in x${status.axial ? ", y and z" : " and y"} over time, nm`);
    $("plot-correction").setAttribute("aria-label", `Correction in x${axialLock(status) !== null ? ", y and z" : " and y"} over time, nm`);
    this.tables.setStatus(status, this.hello?.config);
    this.actions.setStatus(status);
    this.axial.setStatus(status);
    this.measure.setStatus(status);
    this.camera.setStatus(status);
    this.chooser.setStatus(status);
    this.exposure.setStatus(status);
    this.showSteps_();
    const { move, gate } = status;
    const known = typeof move?.x_nm === "number" && typeof move?.y_nm === "number";
    this.target.aim(known ? { x_nm: move.x_nm, y_nm: move.y_nm } : null, gate?.tolerance_nm ?? null);
  }

  showSteps_() {
    const { status } = this.state;
    if (status === null) return;
    const known = { proposal: this.proposal.state, calibrated: this.hello?.config?.stage_is_calibrated === true };
    this.steps.update(stepsOf(status, this.picture.image, known));
  }

  /** A report that this tab has asked for is kept as a file as soon as it is there. */
  takeJob_(job) {
    this.jobs.take(job);
    if (job.tool !== "report" || job.phase === "running" || !this.wantsReport_) return;
    this.wantsReport_ = false;
    if (job.phase === "done") void keepReport((request) => this.ofThisInstance_(useTool, request));
  }

  takeEvents_(events) {
    this.log.add(events);
    this.exposure.takeEvents(events);
    if (events.some(({ code }) => code === "calibration")) {
      void this.calibration.ask();
      void this.axial.ask();
    }
    if (events.some(({ code }) => kReloads.includes(code))) this.askProposals_();
  }

  /** Whether what they propose is written, and taken over. */
  askProposals_() {
    void this.proposal.again();
    this.axial.again();
  }

  takeAdvice_(advice) {
    setList($("advice"), advice.map(({ axis, text }) => sentence(axis ? `${axis}: ${text}` : text)));
  }

  takeSamples_(samples) {
    const { t_s } = samples;
    if (t_s.length === 0) return;
    if (t_s.at(-1) < this.newest_s - kClockWentBack_s) this.rings.clear(); // the daemon's computer was started anew
    const pairs = [[samples.drift_nm, kSeries.drift], [samples.correction_nm, kSeries.correction], [samples.residual_nm, kSeries.residual]];
    t_s.forEach((t, i) => {
      this.rings.advance(t);
      for (const [pair, first] of pairs) {
        this.rings.add(t, first, pair?.[0]?.[i]);
        this.rings.add(t, first + 1, pair?.[1]?.[i]);
      }
      this.rings.add(t, kSeries.in_lock, samples.in_lock[i] ? 1 : 0);
      this.rings.add(t, kSeries.z, samples.z_nm?.[i]);
      this.rings.add(t, kSeries.correction_z, samples.correction_z_nm?.[i]);
      this.target.add(t, samples.drift_nm[0][i], samples.drift_nm[1][i]);
    });
    const last = t_s.length - 1;
    this.newest_s = t_s[last];
    if (!samples.past) this.state.setSample({ in_lock: samples.in_lock.every((one) => one === true), x_nm: samples.drift_nm[0][last], y_nm: samples.drift_nm[1][last], z_nm: samples.z_nm?.[last] });
    for (const plot of Object.values(this.plots)) plot.update();
    this.target.update();
  }

  takeHistory_(history) {
    const bins = history.in_lock.length;
    for (let i = 0; i < bins; ++i) {
      const t_s = history.t0_s + i * history.step_s;
      const add = (series, low, high) => this.rings.addBin(t_s, history.step_s, series, low, high);
      for (const [name, first] of [["drift_nm", kSeries.drift], ["correction_nm", kSeries.correction], ["residual_nm", kSeries.residual]]) {
        for (const axis of [0, 1]) add(first + axis, history.min[name][axis][i], history.max[name][axis][i]);
      }
      for (const [name, series] of [["z_nm", kSeries.z], ["correction_z_nm", kSeries.correction_z]]) add(series, history.min[name]?.[i], history.max[name]?.[i]);
      const share = history.in_lock[i];
      if (share !== null) add(kSeries.in_lock, share < 1 ? 0 : 1, share > 0 ? 1 : 0);
    }
    for (const plot of Object.values(this.plots)) plot.update();
  }

  takeMarkers_(markers) {
    this.picture.mark(markers);
    this.focus.setMarkers(markers, this.newest_s ?? NaN);
    this.tables.setMarkers(markers);
    this.chooser.setMarkers(markers);
  }

  takeImage_(image, pixels) {
    if (pixels === null) return;
    this.imageAt_ms = Date.now();
    this.picture.show(image, pixels);
    this.histogram.show(image);
    this.exposure.setImage(image);
    this.focus.update();
    const binned = image.bin > 1 ? `, each pixel the mean of ${image.bin} \u00d7 ${image.bin}` : "";
    const full = image.saturated > 0 ? `${image.saturated} saturated pixels, drawn in orange: less light or gain` : "no saturated pixel";
    setText($("picture-text"), `Frame ${image.frame_id}, ${image.full_width} \u00d7 ${image.full_height} px${binned}; ${full}.`);
  }

  showInstances_() {
    const choice = $("instance");
    const names = this.hello.instances;
    if (choice.options.length !== names.length || names.some((name, i) => choice.options[i].value !== name)) {
      choice.replaceChildren(...names.map((name) => new Option(name || "driftd", name)));
    }
    choice.value = this.hello.instance;
    show($("instances"), names.length > 1);
    setText($("instance-name"), names.length > 1 ? "" : this.hello.instance);
  }

  choose_(instance) {
    this.connection.close();
    this.instance = instance;
    history.replaceState(null, "", `?instance=${encodeURIComponent(instance)}`);
    this.hello = null;
    this.greeted_ = null;
    this.clear_();
    this.connect_();
  }

  showContrast_({ black, white, most }) {
    this.histogram.setContrast({ black, white });
    for (const [name, value] of [["black", black], ["white", white]]) {
      for (const part of ["slider", "field"]) {
        const input = $(`${name}-${part}`);
        input.max = most;
        if (input !== document.activeElement || Number(input.value) !== value) input.value = value;
      }
    }
  }

  listen_() {
    for (const name of ["black", "white"]) {
      for (const [part, when] of [["slider", "input"], ["field", "change"]]) {
        $(`${name}-${part}`).addEventListener(when, (event) => {
          if (this.picture.contrast === null) return;
          const contrast = { ...this.picture.contrast, [name]: Number(event.target.value) };
          if (name === "black") contrast.black = Math.min(contrast.black, contrast.white - 1);
          this.picture.setContrast(contrast.black, contrast.white);
        });
      }
    }
    const clicks = {
      "contrast-once": () => this.picture.setContrastOnce(),
      "zoom-in": () => this.picture.zoom(1.5), "zoom-out": () => this.picture.zoom(1 / 1.5), "zoom-whole": () => this.picture.whole(),
      "save-picture": () => this.savePicture_(), "log-out": () => void logOut(this.hello?.csrf ?? ""),
      "save-whole": () => { void keepWholePicture((request) => this.ofThisInstance_(useTool, request)); },
      "do-report": () => {
        this.wantsReport_ = true;
        void this.jobs.start({ tool: "report" });
      },
      "target-fit": () => this.target.fit(), "target-wider": () => this.target.scale(2), "target-narrower": () => this.target.scale(0.5),
    };
    for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
    for (const [name, plot] of Object.entries(this.plots)) {
      $(`${name}-fit`).addEventListener("click", () => plot.fit());
      $(`${name}-wider`).addEventListener("click", () => plot.scale(2));
      $(`${name}-narrower`).addEventListener("click", () => plot.scale(0.5));
    }
    $("span").addEventListener("change", (event) => {
      for (const plot of Object.values(this.plots)) plot.show(Number(event.target.value));
    });
    $("arrows").addEventListener("change", (event) => this.picture.arrows(Number(event.target.value)));
    $("show-markers").addEventListener("change", (event) => {
      this.picture.showsMarkers = event.target.checked;
      this.picture.update();
    });
    $("instance").addEventListener("change", (event) => this.choose_(event.target.value));
    $("spectrum").addEventListener("toggle", () => this.tellWants_());
    document.addEventListener("visibilitychange", () => {
      this.tellWants_();
      if (!document.hidden) this.askProposals_(); // files may have been removed meanwhile
    });
  }

  savePicture_() {
    const { image, pixels } = this.picture;
    if (image !== null) keepPicture(image.frame_id, pixels, image.width, image.height);
  }
}

// For the tests, and for whoever looks with the browser's own tools.
window.driftdPage = new Page();
