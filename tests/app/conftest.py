"""The page in a real browser, for all tests of it: one server with four small runs, one Chromium per file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import PATIENCE_S, chromium, until
from fake_task import CountingTask
from mobfl import Job, Scenario, train
from page_server import PageServer, page_server
from page_visits import MARKUP, SMALL, Open


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for h, t, seed in ((5, 6.0, 1), (10, 6.0, 1), (10, 9.0, 1), (10, 9.0, 2)):
        train(Job(CountingTask(), Scenario.from_dict(SMALL), (h, t), seed), folder / f"{MARKUP} {h},{t:g} s{seed}")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[PageServer]:
    with page_server("--runs", str(runs)) as started:
        yield started


@pytest.fixture
def visit(browser: Any, server: PageServer) -> Iterator[Open]:
    """Opens the page at an address; afterwards no page may have complained, or asked anybody else."""
    said, asked, opened = list[str](), list[str](), list[Any]()

    def open_page(address: str = "", width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.entrance + address)
        until(page, "window.mobfl !== undefined")
        opened.append(context)
        return page

    yield open_page
    for context in opened:
        context.close()
    # The browser notes what was refused with a sentence; the page shows the sentence.
    assert [
        text
        for text in said
        if not text.startswith("Failed to load resource: the server responded with a status of 400")
    ] == []
    assert {url for url in asked if not url.startswith((server.address, "data:", "blob:"))} == set()
