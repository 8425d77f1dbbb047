# SPDX-License-Identifier: MIT
"""What the page of driftd-web promises: how soon a change is seen, and that everybody can use it."""
from __future__ import annotations

import os
import pathlib
import statistics
import time
import unittest

from browser import Clean, PageRig, until
from harness import SLOW

CHANGES = 20
#: Each change's time by the daemon's clock, and when the page showed it by the wall's.
WATCH = """
    const take = driftdPage.take_.bind(driftdPage);
    window.changes = [];
    window.shown = [];
    driftdPage.take_ = (header, payload) => {
      if (header.kind === 'event' && header.past !== true) {
        for (const one of header.events) if (one.state) changes.push([one.state, one.time_ns]);
      }
      take(header, payload);
    };
    const word = document.getElementById('state-word');
    new MutationObserver(() => {
      const text = word.textContent;
      requestAnimationFrame(() => shown.push([text, performance.timeOrigin + performance.now()]));
    }).observe(word, {childList: true, characterData: true, subtree: true});
"""


class InTime(Clean):  # tier: full
    def test_a_change_of_state_is_shown_within_200_ms(self):
        """The median, of locks and unlocks in real time: from the daemon's time of the event to the page's next frame."""
        with PageRig("--operate") as rig:
            browser = rig.begin()
            browser.run(WATCH)
            for number in range(CHANGES // 2):
                for command, state, word in (("lock", "locked", "Locked"), ("unlock", "idle", "Not locked")):
                    rig.client.request(command)
                    rig.wait_state(state)
                    browser.wait_text("state-word", word)
            offset_ms = 1e3 * (time.time() - time.monotonic())
            changes, shown = browser.run("return [changes, shown]")
            took_ms = []
            for state, word in (("locked", "Locked"), ("idle", "Not locked")):
                told = [time_ns / 1e6 + offset_ms for name, time_ns in changes if name == state]
                seen = [at for text, at in shown if text == word]
                self.assertGreaterEqual(len(told), CHANGES // 2)
                for at in told:
                    took_ms.append(min((late - at for late in seen if late >= at - 5), default=float("inf")))
            print(f"{len(took_ms)} changes of state on the page after {statistics.median(took_ms):.0f} ms (median), {max(took_ms):.0f} ms (most)")
            self.assertLess(statistics.median(took_ms), 200 * SLOW)
            self.check(browser, rig.web.url)


class ForEverybody(Clean):
    def test_axe_core_finds_nothing_serious(self):
        """For development: AXE_CORE_JS=node_modules/axe-core/axe.min.js. Each thing that stays hidden is shown first."""
        file = os.environ.get("AXE_CORE_JS", "")
        if not file:
            self.skipTest("SKIPPED: AXE_CORE_JS names no axe.min.js (npm install axe-core), which is no part of this repository")
        with PageRig("--operate") as rig:
            browser = rig.begin()
            rig.lock()
            browser.wait_text("state-word", "Locked")
            until(lambda: browser.run("return driftdPage.picture.image !== null"), "a picture")
            for scheme in ("light", "dark"):
                browser.prefer(scheme)
                for prepare in ("", "document.querySelectorAll('details').forEach((one) => { one.open = true; })",
                                "document.getElementById('question').showModal()"):
                    browser.run(prepare)
                    self.assertEqual(self.found(browser, pathlib.Path(file)), [], (scheme, prepare))
                browser.run("document.getElementById('question').close()")
            browser.open(rig.web.url + "login.html")
            self.assertEqual(self.found(browser, pathlib.Path(file)), [], "login")

    def found(self, browser, file: pathlib.Path) -> list[str]:
        if not browser.run("return 'axe' in window"):
            browser.run(file.read_text())
        result = browser.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(done, (error) => done({error: String(error)}))")
        self.assertNotIn("error", result, result)
        self.assertGreater(len(result["passes"]), 10)
        serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
        return [f"{one['id']} ({one['impact']}): {one['help']}: " + "; ".join(node["html"][:120] for node in one["nodes"][:5]) for one in serious]


if __name__ == "__main__":
    unittest.main()
