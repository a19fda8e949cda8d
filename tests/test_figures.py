from pathlib import Path

import pytest

from mobfl import Scenario, plan
from mobfl.figures import draw_plan


def test_equal_plans_draw_equal_bytes(paper: Scenario, tmp_path: Path) -> None:
    for suffix in ("png", "svg", "pdf"):
        one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
        draw_plan(paper, plan(paper), one)
        draw_plan(paper, plan(paper), two)
        assert one.read_bytes() == two.read_bytes()


def test_text_stays_text_with_units(paper: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    draw_plan(paper, plan(paper), file)
    drawn = file.read_text(encoding="utf-8")
    for text in (
        "round length T (s)",
        "g (valid local steps per second)",
        "local steps H",
        "H = 24, T = 11.8 s",
    ):
        assert text in drawn


def test_fonts_are_embedded_as_truetype(paper: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "plan.pdf"
    draw_plan(paper, plan(paper), file)
    assert b"/Type3" not in file.read_bytes()
    assert b"/FontFile2" in file.read_bytes()


@pytest.mark.parametrize(
    "values",
    [
        {"road.length_m": 45.0},  # only one step fits
        {"compute.extra_step_s": 0.0},  # g jumps
        {"traffic.arrivals_per_s": 1e-7},
        {"traffic.arrivals_per_s": 100.0},
        {"traffic.speed_sd_mps": 5.0},
        {"compute.min_step_s": 1e-5},
    ],
)
def test_extreme_roads_can_be_drawn(paper: Scenario, values: dict[str, float], tmp_path: Path) -> None:
    """Matplotlib's complaints are errors here."""
    scenario = paper.with_values(values)
    draw_plan(scenario, plan(scenario), tmp_path / "plan.png")
    assert [file.name for file in tmp_path.iterdir()] == ["plan.png"]
