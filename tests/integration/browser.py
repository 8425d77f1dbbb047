# SPDX-License-Identifier: MIT
"""driftd-web and a real browser that looks at its page: Debian's chromium, chromium-driver and python3-selenium, without
a window."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import time
import unittest

from harness import BIN, DEADLINE_S, CalmRig, Process, Rig

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:  # the tests are skipped: see MISSING
    webdriver = Keys = None

MISSING = ("SKIPPED: the page is tested in a real browser: apt-get install chromium chromium-driver python3-selenium "
           "(125 MB to load, 400 MB on the disk)")


def until(condition, what: str, timeout_s: float = DEADLINE_S):
    """The condition's value once it is true."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)
    return value


def make_small(file: pathlib.Path, width: int) -> None:
    """For the docs."""
    from PIL import Image  # python3-pil
    with Image.open(file) as image:
        small = image.convert("RGB").resize((width, image.height * width // image.width), Image.LANCZOS)
    small.quantize(256, method=1).save(file, optimize=True)


class Web:
    """driftd-web on a port of the kernel's choice."""

    def __init__(self, rig: Rig, *arguments: str, listen: str = "127.0.0.1:0", **environment: str):
        self.process = rig.enter_context(Process(
            "web", [BIN / "driftd-web", "--listen", listen, *arguments], rig.folder, **environment))
        self.process.wait_for("serving http://")
        self.url = "http://" + self.process.text().split("serving http://")[1].split("/")[0] + "/"


class Browser:
    """A tab of Chromium; what it logs and asks for is kept."""

    def __init__(self, scope: contextlib.ExitStack, *arguments: str):
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if webdriver is None or chromium is None or driver is None:
            raise unittest.SkipTest(MISSING)
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                         "--disable-background-networking", "--hide-scrollbars", "--disable-component-update", "--force-color-profile=srgb",
                         *arguments):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(driver, env={**os.environ, "SE_OFFLINE": "true"})
        try:
            self.driver = webdriver.Chrome(service=service, options=options)
        except WebDriverException as error:
            raise unittest.SkipTest(f"SKIPPED: Chromium does not start here: {error.msg}") from error
        scope.callback(self.driver.quit)
        self.driver.set_script_timeout(DEADLINE_S)
        self.resize(1400, 1000)
        self._messages: list[dict] = []

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile})

    def prefer(self, scheme: str) -> None:
        """'light' or 'dark'."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, url: str) -> None:
        self.driver.get(url)

    def element(self, name: str):
        return self.driver.find_element(By.ID, name)

    def text(self, name: str) -> str:
        """What is seen of it: nothing where it is hidden."""
        try:
            return self.element(name).text
        except StaleElementReferenceException:
            return ""

    def wait_text(self, name: str, part: str) -> str:
        try:
            return until(lambda: text if part in (text := self.text(name)) else "", part)
        except AssertionError:
            raise AssertionError(f"{name} never said {part!r}, but {self.text(name)!r}\n{self.errors()}") from None

    def is_shown(self, name: str) -> bool:
        return self.element(name).is_displayed()

    def click(self, name: str) -> None:
        """By the mouse, once it may be pressed. Where it may not be any more when the mouse is there (a lock that is held for a
        moment), or has moved away, again."""
        button = self.element(name)

        def pressed() -> bool:
            if not button.is_enabled():
                return False
            self.run("window.pressed = false; arguments[0].scrollIntoView({block: 'center'});"
                     "arguments[0].addEventListener('click', () => { window.pressed = true; }, {capture: true, once: true})", button)
            button.click()
            try:
                return self.run("return window.pressed !== false")
            except WebDriverException:
                return True  # it has another page loaded

        until(pressed, f"{name} may be pressed")

    def click_at(self, name: str, x: float, y: float) -> None:
        """At a place of an element, in its own pixels."""
        element = self.element(name)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        size = element.size
        ActionChains(self.driver).move_to_element_with_offset(element, round(x - size["width"] / 2), round(y - size["height"] / 2)) \
            .click().perform()

    def answer(self, yes: bool, part: str = "") -> None:
        """The page's question, which says `part`."""
        until(lambda: self.element("question").is_displayed(), f"a question: {part}")
        question = self.text("question-text")
        assert part in question, (part, question)
        self.click("question-yes" if yes else "question-no")
        until(lambda: not self.element("question").is_displayed(), "the question is gone")

    def press(self, *keys: str) -> None:
        """Keys to what has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def set(self, name: str, value) -> None:
        """A field's or a slider's value, as typed or dragged."""
        self.run("arguments[0].value = arguments[1];"
                 "arguments[0].dispatchEvent(new Event('input', {bubbles: true}));"
                 "arguments[0].dispatchEvent(new Event('change', {bubbles: true}))", self.element(name), str(value))

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def module(self, name: str, script: str, *arguments):
        """What `script` returns, with the page's module `name` as `m`."""
        result = self.driver.execute_async_script(
            f"const done = arguments[arguments.length - 1]; const args = [...arguments].slice(0, -1);"
            f"import('/{name}').then((m) => done({{value: ((m) => {{ {script} }})(m)}}))"
            f".catch((error) => done({{error: `${{error}} ${{error.stack}}`}}))", *arguments)
        assert "error" not in result, result
        return result["value"]

    def canvas(self, name: str) -> dict:
        """Pixels of a canvas: width, height, and red, green, blue, alpha of each."""
        return self.run("const c = document.getElementById(arguments[0]);"
                        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
                        "return {width: d.width, height: d.height, data: Array.from(d.data)}", name)

    def fingerprint(self, name: str) -> int:
        """Of a canvas: another one where it shows something else."""
        self.run("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", name)  # it is drawn where it is seen
        return self.run("const c = document.getElementById(arguments[0]); let h = 0;"
                        "for (const b of c.getContext('2d').getImageData(0, 0, c.width, c.height).data) h = (31 * h + b) | 0;"
                        "return h", name)

    def errors(self) -> list[str]:
        """What the browser logged as wrong: scripts' errors, violations of the policy, files that were not there."""
        self._messages += self.driver.get_log("browser")
        return [message["message"] for message in self._messages if message["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """All addresses that the page asked for, WebSockets among them."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
            elif message["method"] == "Network.webSocketCreated":
                found.append(message["params"]["url"])
        return found

    def heap_bytes(self) -> int:
        """After a collection, buffers included."""
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        usage = self.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
        return int(usage["usedSize"] + usage.get("backingStorageSize", 0))

    def picture(self, file: str) -> None:
        self.driver.save_screenshot(file)


class PageRig(CalmRig):
    """A calm rig, driftd-web beside it, and a browser at its page."""

    def __init__(self, *arguments: str):
        super().__init__()
        self._arguments = arguments

    def begin(self, scenario: str | None = None, **config: dict) -> Browser:
        browser = Browser(self)  # skips, where there is none, before anything else is started
        self.start_sim(scenario)
        file = self.config(**{"gate": {"tolerance_nm": 20}, **config})  # which a busy machine keeps, too
        self.start_daemon(file)
        self.wait_markers()
        self.web = Web(self, "--config", f"lab={file}", *self._arguments)
        browser.open(self.web.url)
        browser.wait_text("state-word", "Not locked")
        return browser

    def lock(self) -> None:
        self.client.lock()
        self.wait_state("locked")


class Clean(unittest.TestCase):
    """Whatever a page does: no script fails, the policy is kept, and nothing else is asked than driftd-web."""

    def check(self, browser: Browser, url: str, allowed: str = "") -> None:
        errors = [error for error in browser.errors() if not allowed or allowed not in error]
        self.assertEqual(errors, [])
        own = (url, url.replace("http://", "ws://"), "data:", "blob:")
        self.assertEqual([asked for asked in browser.requests() if not asked.startswith(own)], [])


__all__ = ["Browser", "Clean", "Keys", "PageRig", "Web", "make_small", "until"]
