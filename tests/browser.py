"""Debian's chromium, driven by Playwright; without either, the tests in a browser are skipped with that reason."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def chromium() -> Iterator[Any]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Debian's chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()


PATIENCE_S = 300.0  # with a page on busy cores, where the first answer compiles


def until(page: Any, condition: str, most_s: float = PATIENCE_S) -> None:
    """Waits for a condition in JavaScript; Playwright's own wait would need eval, which the page forbids."""
    for _ in range(int(20 * most_s)):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {condition}")
