"""How quickly the page follows a slider, how it goes with a thousand runs, and how much a visit loads.

    python benchmarks/page.py [--only runs]

All of it in headless Chromium.

The mouse drags the slider of the mean speed to and fro for some seconds. A redraw is the optimum, its numbers and both
figures; its latency is from the browser's event to the end of the drawing. Times on a shared machine are noisy: the
median of several drags is printed with the least and the most.

The thousand runs are copies of a small one, under 200 plans with five seeds each. Measured is the time until all are
known, from a click on a line to the frame after it, and from a sort to that frame; a click must not rebuild the table.
"""

import argparse
import json
import math
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


RUNS, SEEDS, CLICKS = 1000, 5, 20
# From an action to the second frame after it, in milliseconds, and how many lines of the table were added meanwhile.
TIMED = """async (action) => {
  const body = document.querySelector("#runs-table tbody");
  let added = 0;
  const watch = new MutationObserver((changes) => changes.forEach(({ addedNodes }) => (added += addedNodes.length)));
  watch.observe(body, { childList: true });
  const since = performance.now();
  const done = { click: (at) => body.rows[at].cells[0].firstChild.click(), sort: (at) => heads()[2 + at].click() };
  const heads = () => [...document.querySelectorAll("#runs-table th button")];
  done[action.what](action.at);
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  await new Promise((told) => setTimeout(told));
  watch.disconnect();
  return [performance.now() - since, added];
}"""


@contextmanager
def served(*options: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mobfl", "app", "--no-browser", "--port", str(port), *options]
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


def make_runs(folder: Path) -> None:
    """Copies of one small run with other plans and seeds: the page reads all of them."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from fake_task import CountingTask
    from mobfl import Job, Scenario, train

    road = Scenario.from_dict({"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 600.0}})
    first = folder / "first"
    train(Job(CountingTask(), road, (10, 9.0), 1), first)
    description = json.loads((first / "run.json").read_text())
    for number in range(RUNS - 1):
        place = folder / f"run-{number:04}"
        shutil.copytree(first, place)
        plan, seed = divmod(number, SEEDS)
        description["plan"] |= {"local_steps": 5 + plan % 40, "round_s": 8.0 + plan // 40}
        (place / "run.json").write_text(json.dumps(description | {"seed": 100 + seed}))


def watch_runs(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    for by in ("run", "plan"):
        start = time.perf_counter()
        page.goto("about:blank")
        page.goto(f"{address}#runs?by={by}")
        page.get_by_text(f"{RUNS} runs, {RUNS} done").wait_for(timeout=300_000)
        there_s = time.perf_counter() - start
        page.wait_for_timeout(1500)
        lines = page.locator("#runs-table tbody tr").count()
        clicks = [page.evaluate(TIMED, {"what": "click", "at": 7 * k % lines}) for k in range(CLICKS)]
        sorts = [page.evaluate(TIMED, {"what": "sort", "at": k % 3}) for k in range(CLICKS)]
        assert all(added == 0 for _, added in clicks), "a click must not rebuild the table"
        assert page.evaluate("mobfl.runs.chosen.length") > 1, "the clicks must have chosen something"
        took = [spread([ms for ms, _ in each]) for each in (clicks, sorts)]
        print(f"  by {by:4s} all known after {there_s:.1f} s, a click {took[0]} ms, a sort {took[1]} ms")
    page.close()


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


def follow_sliders(browser: Any, address: str) -> None:
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


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=["sliders", "runs"])
    only = parser.parse_args().only
    program = shutil.which("chromium")
    if program is None:
        sys.exit("needs Debian's chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=program, args=FLAGS)
        if only != "runs":
            with served() as address:
                follow_sliders(browser, address)
        if only != "sliders":
            make_runs(Path(folder))
            print(f"{RUNS} runs, median [least, most] of {CLICKS}")
            with served("--runs", folder) as address:
                watch_runs(browser, address)
        browser.close()


if __name__ == "__main__":
    main()
