// SPDX-License-Identifier: MIT
// What the last calibration of the stage proposes, as `driftctl calibrate` words it, and the button that writes it.
import { $, ask, setList, setText, show } from "./dom.js";
import { sentence } from "./words.js";

export class Proposal {
  /** hooks: tool(request) -> reply; onChange() */
  constructor({ tool, onChange }) {
    this.tool_ = tool;
    this.onChange_ = onChange;
    $("stage-is-right").addEventListener("change", () => { void this.ask_(); });
    $("do-write").addEventListener("click", () => { void this.write_(); });
    this.forget();
  }

  forget() {
    this.run_ = null; // of which something was asked
    this.reply_ = null;
    this.state = "none"; // or "open": to be written, "written", "problem"
    $("stage-is-right").checked = false;
    this.show_();
  }

  /** A calibration's reply: of one that is done what it proposes is asked for. */
  see({ phase, run }) {
    if (phase !== "done") {
      if (this.run_ !== null) this.forget();
      return;
    }
    if (run === this.run_) return;
    this.forget();
    this.run_ = run;
    void this.ask_();
  }

  async ask_() {
    const run = this.run_;
    const reply = await this.tool_({ tool: "proposal", stage_is_right: $("stage-is-right").checked });
    if (run !== this.run_) return;
    this.reply_ = reply.ok === true ? reply : { problem: reply.error };
    this.show_();
  }

  show_() {
    const { findings = [], lines = [], question = null, problem = "", written = null, file = "" } = this.reply_ ?? {};
    this.state = this.reply_ === null ? "none" : written !== null ? "written" : problem ? "problem" : "open";
    show($("proposal"), this.reply_ !== null);
    setText($("proposal-findings"), findings.join("\n"));
    setText($("proposal-lines"), lines.join("\n"));
    show($("proposal-question"), question !== null && this.state !== "written");
    setText($("proposal-question-text"), (question ?? []).join("\n"));
    setText($("proposal-problem"), this.state === "problem" ? `\u25b2 Not to be written from here: ${sentence(problem)}` : "");
    setText($("proposal-file"), this.state === "open" ? `It goes to ${file}; the file before is kept beside it.` : "");
    setList($("proposal-written"), (written?.lines ?? []).map(sentence));
    show($("do-write-restart"), written?.restart === true);
    $("do-write").disabled = this.state !== "open";
    this.onChange_();
  }

  async write_() {
    const run = this.run_;
    if (!(await ask("Write these values beside the configuration? driftd goes by them from then on.", "Write"))) return;
    $("do-write").disabled = true;
    const reply = await this.tool_({ tool: "write_stage", run, stage_is_right: $("stage-is-right").checked });
    if (run !== this.run_) return;
    this.reply_ = reply.ok === true ? { ...this.reply_, written: reply, problem: "" } : { ...this.reply_, problem: reply.error };
    this.show_();
  }
}
