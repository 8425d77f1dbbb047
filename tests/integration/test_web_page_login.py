# SPDX-License-Identifier: MIT
"""The login of driftd-web in a real browser, by TLS with a certificate that it does not know."""
from __future__ import annotations

from browser import Browser, Clean, PageRig, until
from tls import OBSERVER, OPERATOR, SecureWeb


class LogIn(Clean):
    def test_a_browser_logs_in_and_out(self):
        with PageRig() as rig:
            browser = Browser(rig, "--ignore-certificate-errors")
            rig.start_sim()
            file = rig.config()
            rig.start_daemon(file)
            rig.wait_markers()
            web = SecureWeb(rig, rig.folder, "--config", file, "--operate", name="secure")
            url = web.origin + "/"
            browser.open(url)
            self.enter(browser, "wrong")
            browser.wait_text("login-text", "this token is nobody's")
            self.enter(browser, OBSERVER)
            browser.wait_text("state-word", "Not locked")
            self.assertFalse(browser.is_shown("do-lock"))
            self.assertIn("office", browser.text("role"))
            self.assertEqual(browser.run("return document.cookie"), "")  # no script reads it
            cookie = browser.driver.get_cookies()[0]
            self.assertEqual([cookie[key] for key in ("secure", "httpOnly", "sameSite")], [True, True, "Strict"])
            browser.click("log-out")
            self.enter(browser, OPERATOR)
            browser.wait_text("state-word", "Not locked")
            browser.click("do-lock")
            rig.wait_state("locked")
            browser.wait_text("state-word", "Locked")
            # Taken back while somebody looks: the page asks for a token by itself.
            web.set_logins(f"tokens:\n  - {{name: office, role: observe, token: {OBSERVER}}}\n")
            self.wait_form(browser)
            errors = [error for error in browser.errors() if "401" not in error and "WebSocket connection to" not in error]
            self.assertEqual(errors, [])
            own = (url, url.replace("https://", "wss://"), "data:", "blob:")
            self.assertEqual([asked for asked in browser.requests() if not asked.startswith(own)], [])

    def wait_form(self, browser: Browser) -> None:
        until(lambda: browser.run("return document.readyState === 'complete' && document.getElementById('token') !== null"), "the form")

    def enter(self, browser: Browser, token: str) -> None:
        self.wait_form(browser)
        browser.set("token", token)
        browser.run("document.getElementById('login').requestSubmit()")


if __name__ == "__main__":
    import unittest
    unittest.main()
