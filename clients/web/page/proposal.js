// SPDX-License-Identifier: MIT
// What the last calibration proposes, as `driftctl calibrate` words it, and the button that writes it: of the stage, or of z.
import { $, ask, setList, setText, show } from "./dom.js";
import { sentence } from "./words.js";

/** What is seen: ids begin with `of` and `write`; `choice`: the id of a box for the other way to explain what was found. */
const kOfStage = { of: "proposal", write: "do-write", choice: "stage-is-right", tools: { propose: "proposal", write: "write_stage" } };
export const kOfZ = { of: "z-proposal", write: "do-z-write", choice: "keep-curve", tools: { propose: "proposal_z", write: "write_z" } };

export class Proposal {
  /** hooks: tool(request) -> reply; onChange() */
  constructor({ tool, onChange = () => {} }, ids = kOfStage) {
    this.tool_ = tool;
    this.onChange_ = onChange;
    this.ids_ = ids;
    $(ids.choice).addEventListener("change", () => { void this.ask_(); });
    $(ids.write).addEventListener("click", () => { void this.write_(); });
    this.forget();
  }

  forget() {
    this.run_ = this.session_ = null; // of which something was asked
    this.reply_ = null;
    this.asked_ = null;
    this.state = "none"; // or "open": to be written, "written", "problem"
    $(this.ids_.choice).checked = false;
    this.show_();
  }

  /** A calibration's reply: of one that is done what it proposes is asked for. Runs are counted anew at each start of driftd. */
  see({ phase, run, session = null }) {
    if (phase !== "done") {
      if (this.run_ !== null) this.forget();
      return;
    }
    if (run === this.run_ && session === this.session_) return;
    this.forget();
    this.run_ = run;
    this.session_ = session;
    void this.ask_();
  }

  /** What is written, or taken over, may be otherwise by now. */
  async again() {
    if (this.run_ !== null) await this.ask_();
  }

  choice_() { return { [this.ids_.choice.replaceAll("-", "_")]: $(this.ids_.choice).checked }; }

  async ask_() {
    const asked = (this.asked_ = {}); // a later answer is newer
    const reply = await this.tool_({ tool: this.ids_.tools.propose, ...this.choice_() });
    if (asked !== this.asked_) return;
    this.reply_ = reply.ok === true ? reply : { problem: reply.error };
    this.show_();
  }

  show_() {
    const { findings = [], lines = [], question = null, problem = "", written = null, file = "", curve = null } = this.reply_ ?? {};
    const { of, write } = this.ids_;
    const files = curve === null ? `It goes to ${file}; the file before is kept beside it.`
      : `It goes to ${file}, and the curve with its picture to ${curve}; the files before are kept beside them.`;
    this.state = this.reply_ === null ? "none" : written !== null ? "written" : problem ? "problem" : "open";
    show($(of), this.reply_ !== null);
    setText($(`${of}-findings`), findings.join("\n"));
    setText($(`${of}-lines`), lines.join("\n"));
    show($(`${of}-question`), question !== null && this.state !== "written");
    setText($(`${of}-question-text`), (question ?? []).join("\n"));
    setText($(`${of}-problem`), this.state === "problem" ? `\u25b2 Not to be written from here: ${sentence(problem)}` : "");
    setText($(`${of}-file`), this.state === "open" ? files : "");
    setList($(`${of}-written`), (written?.lines ?? []).map(sentence));
    show($(`${write}-restart`), written?.restart === true);
    $(write).disabled = this.state !== "open";
    this.onChange_();
  }

  async write_() {
    const { run_: run, session_: session } = this;
    const { write, tools } = this.ids_;
    if (!(await ask("Write these values beside the configuration? driftd goes by them from then on.", "Write"))) return;
    $(write).disabled = true;
    const reply = await this.tool_({ tool: tools.write, run, session, ...this.choice_() });
    if (run !== this.run_ || session !== this.session_) return;
    this.asked_ = null;
    this.reply_ = reply.ok === true ? { ...this.reply_, written: reply, problem: "" } : { ...this.reply_, problem: reply.error };
    this.show_();
  }
}
