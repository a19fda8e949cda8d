"""What tests of the page share: how to wait for it, and how it writes numbers."""

import json
from collections.abc import Callable
from typing import Any

import mobfl
from browser import until
from mobfl.planning.plans import AnytimePlan

SMALL = {"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}}
MARKUP = "<img src=x onerror=alert(1)>"

Open = Callable[..., Any]


def settled(page: Any) -> None:
    """Until the server's own answer is on the page."""
    page.wait_for_selector("#results[data-settled=true]")


def anytime_settled(page: Any) -> None:
    """Until what the server says of both plans is there."""
    page.wait_for_selector("#results[data-settled=true][data-anytime=true]")


def wait_for_text(page: Any, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for()


def two_frames(page: Any) -> None:
    """Until what was done has been drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def runs_read(page: Any) -> None:
    """Until all runs of the folder are in the table and in the figures."""
    until(page, "Boolean(window.mobfl?.runs?.rows?.size) && !mobfl.runs.loading")
    two_frames(page)


def road_ready(page: Any) -> None:
    """Until the first rounds of the road are there, and nothing is said of waiting for them."""
    until(page, "document.querySelector('#road-expected').innerText !== '–'")
    until(page, "document.querySelector('#road-says').hidden")


def wait_for_value(page: Any, selector: str, value: str) -> None:
    until(page, f"document.querySelector({json.dumps(selector)}).value === {json.dumps(value)}")


def shown_plan(page: Any) -> tuple[str, ...]:
    return tuple(page.inner_text(f"#best-{name}") for name in ("h", "t", "g", "uploads", "valid"))


def as_shown(best: mobfl.Plan) -> tuple[str, ...]:
    h, t, g = best.numbers
    assert best.expected_uploads is not None
    numbers = (f"{t:.4g} s", f"{g:.4g} /s", f"{best.expected_uploads:.4g}")
    return (str(h), *numbers, f"{100 * best.valid_round_prob:.1f} %")  # type: ignore[operator]


def shown_anytime_plan(page: Any) -> tuple[str, ...]:
    names = ("steps", "t", "v", "average", "uploads", "valid")
    return tuple(page.inner_text(f"#anytime-{name}") for name in names)


def as_shown_anytime(best: AnytimePlan) -> tuple[str, ...]:
    t, v, average, uploads, valid, steps = (
        best.round_s, best.objective, best.averaged_objective, best.expected_uploads, best.valid_round_prob,
        best.local_steps,
    )  # fmt: skip
    assert None not in (t, v, average, uploads, valid, steps)
    return (f"{steps:.3g}", f"{t:.4g} s", f"{v:.4g} /s", f"{average:.4g} /s", f"{uploads:.4g}", f"{100 * valid:.1f} %")  # type: ignore[operator]
