"""A real browser, Debian's Chromium without a window, driven by selenium: nothing of it is ever downloaded.

`apt-get install chromium chromium-driver` and the extra `test-browser` are all it needs. Where it is missing, tests are
skipped and say so; with ``BROWSER=required`` in the environment they fail.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
MISSING = "NOT RUN: no Chromium; apt-get install chromium chromium-driver"
AXE = Path(__file__).resolve().parents[2] / "tools" / "js" / "node_modules" / "axe-core" / "axe.min.js"


def start(width: int = 1440, height: int = 1000) -> Any:
    """Return a browser; skip the test where there is none."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        webdriver = None  # type: ignore[assignment]
    if binary is None or driver is None or webdriver is None:
        if os.environ.get("BROWSER") == "required":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=webdriver.ChromeService(driver), options=options)


class Page:
    """A page in the browser: a file, or an address."""

    def __init__(
        self, driver: Any, path: Path | str, fragment: str = "", dark: bool = False, forced: bool = False,
        still: bool = False,
    ) -> None:  # fmt: skip
        self.driver = driver
        wanted = {
            "prefers-color-scheme": "dark" if dark else "light", "forced-colors": "active" if forced else "none",
            "prefers-reduced-motion": "reduce" if still else "no-preference",
        }  # fmt: skip
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get("about:blank")
        driver.get_log("browser")
        begin = time.perf_counter()
        driver.get((path if isinstance(path, str) else path.resolve().as_uri()) + fragment)
        self.wait("document.documentElement.dataset.ready === 'true'")
        self.seconds = time.perf_counter() - begin

    def js(self, expression: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {expression}", *arguments)

    def wait(self, expression: str, seconds: float = 10) -> None:
        for _ in range(int(40 * seconds)):
            if self.js(expression):
                return
            time.sleep(0.025)
        raise AssertionError(f"in vain: {expression}; {self.messages()}")

    def messages(self) -> list[str]:
        """Return what the console has said since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def frame(self) -> None:
        """Wait until what has changed is on the screen."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def click(self, selector: str) -> None:
        self.driver.execute_script(
            "const at = document.querySelector(arguments[0]);"
            "if (at.click) at.click(); else at.dispatchEvent(new MouseEvent('click', {bubbles: true}))",
            selector,
        )
        self.frame()

    def key(self, *names: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        for name in names:
            self.driver.execute_script(
                "(document.activeElement ?? document.body).dispatchEvent("
                "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true, cancelable: true}))",
                name,
            )
        self.frame()

    def count(self, selector: str) -> int:
        return int(self.js("document.querySelectorAll(arguments[0]).length", selector))

    def text(self, selector: str) -> str:
        return str(self.js("document.querySelector(arguments[0]).textContent", selector))

    def choose(self, selector: str, value: str) -> None:
        """Choose a value of a list."""
        self.driver.execute_script(
            "const at = document.querySelector(arguments[0]); at.value = arguments[1];"
            "at.dispatchEvent(new Event('change', {bubbles: true}))", selector, value,
        )  # fmt: skip
        self.frame()

    def search(self, words: str) -> None:
        """Search, and take what is found first."""
        self.driver.execute_script(
            "const at = document.getElementById('search'); at.value = arguments[0];"
            "at.dispatchEvent(new Event('input'));"
            "at.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))", words,
        )  # fmt: skip
        self.frame()

    def complaints(self) -> list[str]:
        """Return what axe-core finds wrong about what is shown, once `AXE` has been run."""
        found: list[str] = self.driver.execute_async_script(
            "const said = (v) => v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150)).join(' | ');"
            "axe.run({resultTypes: ['violations']}).then("
            "(r) => arguments[0](r.violations.map((v) => `${v.id}: ${said(v)}`)))"
        )
        return found
