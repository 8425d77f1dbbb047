// SPDX-License-Identifier: MIT
// What driftd-web has driftctl do: measure, calibrate the camera, make a report. One at a time; each tab sees how far it is.
import { $, setText, show } from "./dom.js";
import { inWords, moment, number, sentence } from "./words.js";

/** Tools, and the first part of the ids of what shows them: NAME-text, NAME-progress, do-NAME-stop. */
const kTools = ["measure", "camera", "report"];

export class Jobs {
  /** tool(request) -> reply; results: {NAME: (result) => ...}, null where there is none any more */
  constructor(tool, results) {
    this.tool_ = tool;
    this.results_ = results;
    for (const name of kTools) $(`do-${name}-stop`).addEventListener("click", () => { void this.tool_({ tool: "stop" }); });
    this.forget();
  }

  forget() {
    this.running_ = null;
    this.share_ = null;
    for (const name of kTools) {
      setText($(`${name}-text`), "");
      this.results_[name](null);
    }
    this.enable_();
  }

  /** What it could not be begun for is told where it would have been shown. */
  async start(request) {
    const reply = await this.tool_(request);
    if (reply.ok !== true) setText($(`${request.tool}-text`), `\u25b2 Not begun: ${sentence(reply.error ?? "")}`);
  }

  take({ tool, phase, text, progress = null, result = null, ago_s = 0 }) {
    if (!kTools.includes(tool)) return;
    this.running_ = phase === "running" ? tool : this.running_ === tool ? null : this.running_;
    const told = /^ *(\d+) %/.exec(text ?? "");
    const share = progress ?? (told === null ? null : Number(told[1]) / 100);
    this.share_ = share;
    const words = { running: `Under way${share === null ? "" : `, ${number(100 * share)} %`}.`, done: `Done. It ended at ${moment(Date.now() - 1000 * ago_s)}.`, stopped: "Stopped." };
    setText($(`${tool}-text`), words[phase] ?? `\u25b2 ${inWords(phase)}: ${text}`);
    if (phase === "done") this.results_[tool](result);
    this.enable_();
  }

  enable_() {
    for (const name of kTools) {
      const bar = $(`${name}-progress`); // one without a value would move by itself
      if (bar !== null) {
        show(bar, this.running_ === name && this.share_ !== null);
        bar.value = this.share_ ?? 0;
      }
      show($(`do-${name}-stop`), this.running_ === name);
    }
    for (const button of document.querySelectorAll("[data-starts]")) button.disabled = this.running_ !== null;
  }
}
