"""How quickly the page follows a slider, and how much a visit loads, in headless Chromium.

    python benchmarks/page.py

The mouse drags the slider of the mean speed to and fro for some seconds. A redraw is the optimum, its numbers and both
figures; its latency is from the browser's event to the end of the drawing. Times on a shared machine are noisy: the
median of several drags is printed with the least and the most.
"""

import math
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DRAGS, SECONDS = 5, 4.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ROADS = {
    "paper, one speed": "",
    "urban, spread speeds": "#plan?from=urban",
    "highway, ν = 2": "#plan?from=highway&training.noise_uploads=2",
}
# Notes the time from each event of the slider to the numbers that it changed.
WATCH = """() => {
  window.latencies = [];
  let since = null;
  addEventListener("input", () => (since ??= performance.now()), true);
  const note = () => { if (since !== null) latencies.push(performance.now() - since); since = null; };
  new MutationObserver(note).observe(document.querySelector("#best-t"), { childList: true });
}"""


@contextmanager
def served() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mobfl", "app", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = re.search(r"http://\S+", process.stdout.readline())
    assert address is not None
    try:
        yield address.group()  # with the token
    finally:
        process.terminate()
        process.wait()


def drag(page: Any) -> tuple[float, list[float]]:
    """Redraws per second, and the latencies in milliseconds."""
    box = page.locator('[data-key="traffic.speed_mps"] input[type=range]').bounding_box()
    at = (box["x"], box["y"] + box["height"] / 2)
    page.evaluate("latencies.length = 0")
    before, start = page.evaluate("mobfl.plan.redraws"), time.perf_counter()
    page.mouse.move(at[0] + box["width"] / 2, at[1])
    page.mouse.down()
    while (passed := time.perf_counter() - start) < SECONDS:
        page.mouse.move(at[0] + box["width"] * (0.5 + 0.35 * math.sin(2 * passed)), at[1])
    page.mouse.up()
    return (page.evaluate("mobfl.plan.redraws") - before) / (time.perf_counter() - start), page.evaluate("latencies")


def load(browser: Any, address: str) -> tuple[int, int]:
    """Requests and bytes until the plan is there."""
    page, sizes = browser.new_page(), list[int]()
    page.on("response", lambda response: sizes.extend([len(response.body())] if response.ok else []))  # not redirected
    page.goto(address)
    page.wait_for_selector("#results[data-settled=true]")
    page.wait_for_timeout(500)
    page.close()
    return len(sizes), sum(sizes)


def spread(values: list[float], digits: int = 0) -> str:
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def main() -> None:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        sys.exit("needs Debian's chromium: apt-get install chromium")
    with served() as address, sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=program, args=FLAGS)
        requests, size = load(browser, address)
        print(f"a visit: {requests} requests, {size / 1000:.0f} kB")
        print(f"dragging a slider, median [least, most] of {DRAGS} drags of {SECONDS:g} s")
        for name, hash_ in ROADS.items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(address + hash_)
            page.wait_for_selector("#results[data-settled=true]")
            page.evaluate(WATCH)
            rates, latencies = zip(*(drag(page) for _ in range(DRAGS)), strict=True)
            medians = [statistics.median(each) for each in latencies]
            print(f"  {name:22s} {spread(list(rates))} redraws per second, latency {spread(medians, 1)} ms")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
