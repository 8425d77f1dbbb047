// SPDX-License-Identifier: MIT
// A button that has driftd-web write beside the configuration what was measured or chosen, after a question; what was said
// of it, and the restart that takes it over. The elements' ids begin with `name`.
import { $, ask, setList, show } from "./dom.js";
import { sentence } from "./words.js";

export class Keeper {
  /** tool(request) -> reply; question: before it is written */
  constructor(name, { tool, question }) {
    this.name_ = name;
    this.tool_ = tool;
    this.question_ = question;
    this.session_ = null;
    $(`do-${name}-write`).addEventListener("click", () => { void this.write_(); });
    this.forget();
  }

  forget() {
    this.waits_ = false;
    this.restart_ = false;
    this.tell_([]);
  }

  /** A daemon that was started anew has taken over what was written. */
  setStatus({ session }) {
    if (typeof session !== "string" || session === this.session_) return;
    this.session_ = session;
    this.forget();
  }

  tell_(lines) {
    setList($(`${this.name_}-written`), lines.map(sentence));
    show($(`do-${this.name_}-restart`), this.restart_);
  }

  async write_() {
    if (this.waits_ || !(await ask(this.question_, "Write"))) return;
    this.waits_ = true;
    const reply = await this.tool_({ tool: `write_${this.name_}` });
    this.waits_ = false;
    this.restart_ ||= reply.restart === true; // of what was written before, too
    this.tell_(reply.ok === true ? reply.lines : [`\u25b2 Not written: ${reply.error ?? ""}`]);
  }
}
