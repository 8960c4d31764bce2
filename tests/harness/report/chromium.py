"""Chromium with its driver, for the tests that look at pages as a reader does."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-prefers-reduced-motion"
)

skip_without_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="no Chromium here: `apt-get install chromium chromium-driver` (Debian) brings it",
)


def opened(profile: Path) -> Iterator[webdriver.Chrome]:
    """Yield a browser whose console and network can be read, with a profile in an empty folder, and end it."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()
