// SPDX-License-Identifier: MIT
// What may be done, where the role allows it. What may cost a lock, a place or a sample's position is asked first. What
// came of it is told by the daemon's reply; nothing is taken for done because it was ordered.
import { sweepOf, whyNotSwept } from "./axial.js";
import { $, ask, rewordQuestion, setText, show } from "./dom.js";
import { axialLock, inWords, number, sentence, signed } from "./words.js";

/** What ends something can be ordered while another order waits for its answer. */
const kAlways = ["do-unlock", "do-reset", "do-stop", "do-calibrate-stop", "do-z-calibrate-stop"];
/** Moves by more than this are asked first. */
const kFar_nm = 100;

export class Actions {
  /** hooks: order(command) -> reply; picture: the Picture; pixelSize_nm() */
  constructor(hooks) {
    this.hooks_ = hooks;
    this.status_ = null;
    this.may_ = false;
    this.waiting_ = 0; // orders without an answer yet
    this.from_ = null;
    for (const [id, act] of Object.entries(this.acts_())) {
      $(id).addEventListener("click", () => { void act(); });
    }
    $("move-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.moveTo_();
    });
    $("z-move-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.moveZTo_();
    });
    $("axes").addEventListener("change", () => this.enable_());
    $("places-rows").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button !== null) void this.place_(button.dataset.act, button.dataset.place);
    });
    for (const button of document.querySelectorAll("[data-restarts]")) button.addEventListener("click", () => { void this.restart_(); });
    $("places").addEventListener("toggle", () => {
      if ($("places").open && this.may_) void this.listPlaces_();
    });
    $("place-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.savePlace_();
    });
  }

  setRole(role, why) {
    this.may_ = role === "operate";
    document.body.dataset.role = role;
    for (const element of document.querySelectorAll("[data-acts]")) show(element, this.may_);
    setText($("role"), this.may_ ? "" : `This page only shows: ${why || "it may not command"}`);
    this.enable_();
    if (this.may_) void this.listPlaces_();
  }

  setStatus(status) {
    this.status_ = status;
    this.enable_();
    rewordQuestion();
  }

  forget() {
    this.status_ = null;
    this.from_ = null;
    setText($("reply"), "");
    this.enable_();
  }

  /** Another instrument: its answers, places and questions are others. */
  clear() {
    this.waiting_ = 0;
    $("places-rows").replaceChildren();
    if ($("question").open) $("question").close("no");
    this.enable_();
  }

  /** A click on the target: the place goes into the fields, nothing moves. */
  aim(x_nm, y_nm) {
    $("move-x").value = x_nm.toFixed(1);
    $("move-y").value = y_nm.toFixed(1);
  }

  /** A click on the picture while a move by two clicks is under way. True where it was taken. */
  click(x_px, y_px) {
    if (!this.twoClicks_) return false;
    const { picture } = this.hooks_;
    if (this.from_ === null) {
      this.from_ = { x: x_px, y: y_px };
      picture.points = [this.from_];
      picture.update();
      setText($("reply"), "Now click where this is to lie.");
      return true;
    }
    const pixel_nm = this.hooks_.pixelSize_nm();
    const by = { dx_nm: (x_px - this.from_.x) * pixel_nm, dy_nm: (y_px - this.from_.y) * pixel_nm };
    this.endTwoClicks_();
    setText($("reply"), "");
    void this.moveBy_(by.dx_nm, by.dy_nm, true);
    return true;
  }

  acts_() {
    return {
      "do-lock": () => this.lock_(),
      "do-resume": () => this.order({ command: "lock", resume: true }),
      "do-unlock": () => this.unlock_(),
      "do-reset": () => this.order({ command: "reset" }),
      "do-find": () => this.find_(),
      "do-home": () => this.home_(),
      "do-stop": () => this.order({ command: "move", stop: true }),
      "do-left": () => this.moveBy_(-this.step_(), 0),
      "do-right": () => this.moveBy_(this.step_(), 0),
      "do-up": () => this.moveBy_(0, -this.step_()),
      "do-down": () => this.moveBy_(0, this.step_()),
      "do-z-up": () => this.moveZBy_(this.step_()),
      "do-z-down": () => this.moveZBy_(-this.step_()),
      "do-two-clicks": () => this.beginTwoClicks_(),
      "do-record": () => this.record_(),
      "do-raw": () => this.order({ command: "record", frames: true }),
      "do-calibrate": () => this.calibrate_(),
      "do-calibrate-stop": () => this.order({ command: "calibrate", stop: true }),
      "do-z-calibrate": () => this.calibrateZ_(),
      "do-z-calibrate-stop": () => this.order({ command: "calibrate", axes: "z", stop: true }),
    };
  }

  /** What lock and unlock are for: "" as the daemon is configured. Nobody chooses where z cannot be held. */
  axes_() { return axialLock(this.status_) === null ? "" : $("axes").value; }

  withAxes_(command) { return this.axes_() === "" ? command : { ...command, axes: this.axes_() }; }

  /** Buttons that the daemon would refuse in this state cannot be pressed. */
  enable_() {
    const state = this.status_?.state ?? "";
    const resting = state === "idle" || state === "lost";
    const found = this.status_?.interrupted?.phase === "found";
    const z = axialLock(this.status_)?.state ?? "idle";
    const zRests = z === "idle" || z === "lost";
    const axes = this.axes_();
    const xyEnds = state !== "" && state !== "fault" && (state !== "idle" || this.status_?.interrupted != null);
    const zEnds = z !== "idle" && z !== "fault";
    show($("axes-choice"), axialLock(this.status_) !== null);
    show($("z-move-form"), axialLock(this.status_) !== null);
    const may = {
      "do-lock": axes === "z" ? state !== "" && zRests : axes === "xyz" ? resting && zRests : resting,
      "do-resume": resting && found, "do-find": resting,
      "do-unlock": axes === "xy" ? xyEnds : axes === "z" ? zEnds : xyEnds || zEnds,
      "do-reset": [state, z].some((one) => one === "lost" || one === "fault"),
      "do-record": state !== "", "do-raw": this.status_?.raw_frames?.kept === true,
      "do-calibrate": state === "idle" && z !== "calibrating", "do-calibrate-stop": state === "calibrating",
      "do-z-calibrate": whyNotSwept(this.status_) === "", "do-z-calibrate-stop": z === "calibrating",
      "do-stop": [state, z].some((one) => one === "locked" || one === "holding"),
      "do-home": state === "locked" || z === "locked",
      "place-save": resting || state === "locked",
    };
    for (const id of ["do-z-up", "do-z-down", "do-move-z"]) may[id] = z === "locked";
    for (const id of ["do-left", "do-right", "do-up", "do-down", "do-two-clicks", "do-move"]) may[id] = state === "locked";
    for (const [id, possible] of Object.entries(may)) $(id).disabled = !(possible && this.may_) || (this.waiting_ > 0 && !kAlways.includes(id));
    setText($("do-record"), this.status_?.record?.recording ? "Stop recording" : "Record");
    show($("do-resume"), found && this.may_);
    show($("do-reset"), this.may_ && may["do-reset"]);
    for (const button of $("places-rows").querySelectorAll("button[data-act='lock']")) button.disabled = !resting || this.waiting_ > 0;
    if (state !== "locked") this.endTwoClicks_();
  }

  /** The daemon's reply, told at the bottom: `done(reply)`, or why not. */
  async order(command, done = null) {
    ++this.waiting_;
    this.enable_();
    $("reply").dataset.ok = "yes";
    setText($("reply"), `${inWords(command.command)}: waiting for the daemon \u2026`);
    const reply = await this.hooks_.order(command);
    --this.waiting_;
    this.enable_();
    $("reply").dataset.ok = reply.ok === true ? "yes" : "no";
    if (reply.ok !== true) setText($("reply"), `Not done: ${reply.error ?? "the reply was not understood"}`);
    else setText($("reply"), [done === null ? `Done: ${inWords(command.command)}.` : done(reply), reply.warning].filter(Boolean).join(" "));
    return reply;
  }

  async lock_() {
    const offered = () => this.status_?.interrupted ?? null;
    const question = () => (offered() === null || this.axes_() === "z" ? null
      : `Lock the sample where it is now? ${offered().text} A new lock that holds forgets that place.`);
    if (question() !== null && !(await ask(question, "Lock here"))) return;
    await this.order(this.withAxes_({ command: "lock" }), (reply) =>
      `Ordered: lock ${reply.lock_id}.${reply.z?.refused ? ` z is not locked: ${reply.z.refused}` : ""}`);
  }

  async unlock_() {
    // The state may change while the question is open: it says what is so at each moment, and is withdrawn where there is
    // nothing to unlock any more.
    const axes = this.axes_();
    if (axes === "z") {
      const zHeld = () => (axialLock(this.status_)?.state ?? "idle") !== "idle";
      const text = "Unlock z? The focus will drift, and its reference is forgotten. x and y stay as they are.";
      if (await ask(() => (zHeld() ? text : null), "Unlock z")) await this.order({ command: "unlock", axes }, () => "Unlocked: z.");
      return;
    }
    const held = () => this.status_?.state !== "idle" || (axes !== "xy" && (axialLock(this.status_)?.state ?? "idle") !== "idle");
    const offered = () => this.status_?.interrupted ?? null;
    const question = () => {
      if (held()) return "Unlock? The sample will drift, and its reference is forgotten.";
      return offered() === null ? null : `Forget the lock that can be gone back to? ${offered().text ?? ""}`;
    };
    if (!(await ask(question, () => (held() ? "Unlock" : "Forget it")))) return;
    await this.order(axes === "" ? { command: "unlock" } : { command: "unlock", axes }, (reply) => `Unlocked. ${reply.forgotten ? "The lock to go back to is forgotten." : ""}`);
  }

  async find_() {
    const question = "Look for the markers anew? Those that are found take the place of the present ones.";
    if (!(await ask(question, "Find markers"))) return;
    await this.order({ command: "markers", find: true }, (reply) => `Found ${reply.markers?.length ?? 0} markers.`);
  }

  step_() { return Math.abs(Number($("move-step").value)) || 0; }

  async moveBy_(dx_nm, dy_nm, asked = false) {
    const far = Math.hypot(dx_nm, dy_nm) > kFar_nm || asked;
    const words = `x ${signed(dx_nm, 1)}, y ${signed(dy_nm, 1)} nm`;
    if (far && !(await ask(`Move the sample by ${words}?`, "Move"))) return;
    await this.move_({ dx_nm, dy_nm });
  }

  async moveTo_() {
    const x_nm = Number($("move-x").value);
    const y_nm = Number($("move-y").value);
    if (!Number.isFinite(x_nm) || !Number.isFinite(y_nm)) return;
    const set = this.status_?.move ?? {};
    const far = !(Math.hypot(x_nm - set.x_nm, y_nm - set.y_nm) <= kFar_nm);
    if (far && !(await ask(`Move the sample to x ${signed(x_nm, 1)}, y ${signed(y_nm, 1)} nm from its reference?`, "Move"))) return;
    await this.move_({ x_nm, y_nm });
  }

  async moveZBy_(dz_nm) {
    if (Math.abs(dz_nm) > kFar_nm && !(await ask(`Move the sample by z ${signed(dz_nm, 1)} nm?`, "Move"))) return;
    await this.move_({ dz_nm });
  }

  async moveZTo_() {
    const z_nm = Number($("move-z").value);
    if ($("move-z").value === "" || !Number.isFinite(z_nm)) return;
    const far = !(Math.abs(z_nm - axialLock(this.status_)?.move?.z_nm) <= kFar_nm);
    if (far && !(await ask(`Move the sample to z ${signed(z_nm, 1)} nm from its reference?`, "Move"))) return;
    await this.move_({ z_nm });
  }

  async home_() {
    if (await ask("Move the sample back to its reference?", "Move")) await this.move_({ home: true });
  }

  async move_(where) {
    const speed = Number($("move-speed").value);
    const command = { command: "move", ...where };
    if ($("move-speed").value !== "" && speed > 0) command.speed_nm_per_s = speed;
    const place = (reply) => ["x", "y", "z"].filter((axis) => typeof reply[`${axis}_nm`] === "number")
      .map((axis) => `${axis} ${signed(reply[`${axis}_nm`], 1)}`).join(", ");
    await this.order(command, (reply) => `Moving to ${place(reply)} nm, in ${number(reply.duration_s, 2)} s.`);
  }

  beginTwoClicks_() {
    this.twoClicks_ = !this.twoClicks_;
    $("do-two-clicks").setAttribute("aria-pressed", String(this.twoClicks_));
    if (!this.twoClicks_) this.endTwoClicks_();
    setText($("reply"), this.twoClicks_ ? "Click what is to be moved in the picture." : "");
  }

  endTwoClicks_() {
    if (!this.twoClicks_ && this.from_ === null) return;
    this.twoClicks_ = false;
    this.from_ = null;
    this.hooks_.picture.points = [];
    this.hooks_.picture.update();
    $("do-two-clicks").setAttribute("aria-pressed", "false");
  }

  async record_() {
    if (!this.status_?.record?.recording) {
      await this.order({ command: "record", start: true }, (reply) => `Recording to ${reply.record?.file}.`);
    } else if (await ask(() => (this.status_?.record?.recording ? "Stop the recording?" : null), "Stop recording")) {
      await this.order({ command: "record", stop: true }, (reply) => `Recorded: ${reply.record?.file}.`);
    }
  }

  async calibrate_() {
    const question = "Calibrate the stage? It is moved by at most 100 nm for 20 s, and then brought back. Take no images meanwhile.";
    if (await ask(question, "Calibrate")) await this.order({ command: "calibrate" }, () => "The calibration has begun.");
  }

  async calibrateZ_() {
    const { command, question } = sweepOf(this.status_, $("z-range").value, $("z-step").value);
    if (!(await ask(question, "Calibrate z"))) return;
    await this.order(command, (reply) => `The calibration of z has begun: ${number(reply.range_nm)} nm each way in steps of ${number(reply.step_nm)} nm, ${number(reply.seconds)} s.`);
  }

  async restart_() {
    const before = await this.hooks_.order({ command: "restart", check: true });
    if (before.ok !== true) {
      $("reply").dataset.ok = "no";
      setText($("reply"), `Not done: ${before.error ?? "the reply was not understood"}`);
      return;
    }
    const lost = before.loses.length === 0 ? "" : ` Lost by it: ${before.loses.map((text) => sentence(text)).join("; ")}.`;
    const stays = before.stays_unlocked ? " It stays unlocked, as it was left." : "";
    const question = `Restart driftd? For some seconds nothing is measured.${lost}${stays}`;
    if (await ask(question, "Restart")) await this.order({ command: "restart" }, () => "driftd starts anew.");
  }

  async listPlaces_() {
    const reply = await this.hooks_.order({ command: "place" });
    if (reply.ok !== true) return;
    const body = $("places-rows");
    body.replaceChildren();
    for (const place of reply.places) {
      const row = body.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = place.name;
      row.append(head);
      row.insertCell().textContent = place.problem || `${number(place.markers)} markers, ${place.saved_at ?? ""} ${place.note ?? ""}`;
      const acts = row.insertCell();
      for (const [act, name] of [["lock", "Lock here"], ["remove", "Remove"]]) {
        if (act === "lock" && place.problem) continue;
        const button = document.createElement("button");
        button.type = "button";
        Object.assign(button.dataset, { act, place: place.name });
        button.textContent = name;
        button.setAttribute("aria-label", `${name}: ${place.name}`);
        acts.append(button);
      }
    }
    this.enable_();
  }

  async place_(act, name) {
    if (act === "remove") {
      if (!(await ask(`Remove the place ${name}? It cannot be brought back.`, "Remove"))) return;
      await this.order({ command: "place", remove: name }, () => `Removed: ${name}.`);
      await this.listPlaces_();
      return;
    }
    if (!(await ask(`Lock at the place ${name}? The stage moves the sample there.`, "Lock"))) return;
    await this.order({ command: "lock", place: name }, (reply) =>
      `The sample is x ${signed(reply.moved_x_nm, 1)}, y ${signed(reply.moved_y_nm, 1)} nm from ${name}, and goes there.`);
  }

  async savePlace_() {
    const name = $("place-name").value.trim();
    if (name === "") return;
    const command = { command: "place", save: name };
    const reply = await this.order(command, () => `Saved: ${name}.`);
    if (reply?.ok === true) $("place-name").value = "";
    await this.listPlaces_();
  }
}
