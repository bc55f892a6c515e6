"""A real headless Chromium for testing pages on disk; `dev/stack browser` installs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service

FLAGS = ("--headless=new", "--disable-dev-shm-usage", "--window-size=1200,900", "--hide-scrollbars", "--disable-gpu")
"""`--disable-dev-shm-usage`: containers often have only 64 MB of /dev/shm."""

Browser = webdriver.Chrome


def why_no_browser() -> str:
    """Return why no browser can run here; empty if one can."""
    missing = [name for name in ("chromium", "chromedriver", "tidy") if not shutil.which(name)]
    return f"no {' and no '.join(missing)}: run dev/stack browser" if missing else ""


@contextmanager
def run_browser(home: Path) -> Iterator[Browser]:
    """Start a browser with `home` as its home directory, for pages on disk only."""
    environ = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}
    try:
        browser = _start(environ)
    except WebDriverException:
        # Chromium's own sandbox needs user namespaces, which containers may lack. We only open our own pages.
        browser = _start(environ, "--no-sandbox")
    try:
        yield browser
    finally:
        browser.quit()


def _start(environ: dict[str, str], *more: str) -> Browser:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, *more):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Browser(options=options, service=Service(shutil.which("chromedriver"), env=environ))
