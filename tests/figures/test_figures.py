import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from mobfl import Plan, Scenario, plan, theory
from mobfl.errors import InputError
from mobfl.experiments.analysis import Point, spearman_over_time
from mobfl.experiments.comparison import Row, TimeTo
from mobfl.experiments.targets import Target
from mobfl.figures import (
    draw_curves,
    draw_faster,
    draw_fig2,
    draw_fig3,
    draw_history,
    draw_plan,
    draw_proxy,
    draw_proxy_over_time,
    draw_times_to_target,
    draw_uploads,
)
from mobfl.figures.look import Look, looking
from mobfl.learning.task import Kpi
from mobfl.rounds.estimates import Estimate
from mobfl.runs.history import COLUMNS, History

Draw = Callable[[Scenario, Path], None]
NAN = math.nan
FORMATS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


KPIS = (Kpi("top_10", "top-10 accuracy"), Kpi("min_ade_6", "minADE of 6", "m", more_is_better=False))


def history(h: int, t: float, seed: int, nan_rounds: Sequence[int] = ()) -> History:
    """A run that learns with the number of valid steps, a little luckier with a higher seed."""
    rows = []
    for k in range(12):
        left = math.exp(-0.02 * (k + 1) * h * (1 + 0.1 * seed) / (1 + abs(t - 12)))
        loss = NAN if k in nan_rounds else 2 + 3 * left
        rows.append(
            dict.fromkeys(COLUMNS, k)
            | {"end_s": t * (k + 1), "loss": loss, "top_10": 1 - left, "min_ade_6": 1 + 4 * left}
        )
    return History.of_rows({"loss": 5.0, "top_10": 0.0, "min_ade_6": 5.0}, rows, KPIS)


def points(paper: Scenario, steps: Sequence[int], rounds: Sequence[float], seeds: int = 1) -> list[Point]:
    return [
        Point(h, t, seed, float(theory.objective(paper, h, t)), history(h, t, seed))
        for h in steps
        for t in rounds
        for seed in range(seeds)
    ]


def grid(paper: Scenario) -> list[Point]:
    return points(paper, (8, 24, 40), (5.0, 11.8, 20.0, 30.0), seeds=2)


def over_time(paper: Scenario) -> dict[str, tuple[list[float], list[Estimate]]]:
    times = [0.0, 50.0, 100.0]
    return {name: (times, spearman_over_time(times, grid(paper))) for name in ("paper's", "per sample")}


ROWS = [(0.9, Estimate(0.95, 0.9, 1.0)), (2.0, Estimate(1.8, 1.7, 1.9)), (3.0, Estimate(3.1, -np.inf, np.inf))]
TIMES: dict[str, list[float | None]] = {"MOB-FL": [30.0, 20.0, 25.0], "all": [40.0, None, None], "one": [None, None]}


def contestant(label: str, value: float, low: float, high: float, bound: str = "") -> Row:
    target = Target("loss", 0.9, True)
    times = tuple(TimeTo(target, loss, 3, 3, 9.0, Estimate(value, low, high), bound, 3) for loss in (2.5, 2.0))
    return Row(label, 3, times, ())


CONTESTANTS = [
    contestant("MOB-FL's plan", 1, 1, 1),
    contestant("anytime", 1.4, 1.2, 1.7, "≥"),
    contestant("one seed", 0.7, 0.0, math.inf),
    contestant("never there", NAN, NAN, NAN),
]

FIGURES: dict[str, Draw] = {
    "plan": lambda paper, file: draw_plan(paper, plan(paper), file),
    "history": lambda _, file: draw_history(history(24, 11.8, 0), file),
    "fig2": lambda paper, file: draw_fig2(grid(paper), paper, file),
    "fig3": lambda paper, file: draw_fig3(grid(paper), paper, "top_10", file),
    "curves": lambda _, file: draw_curves({"a": [history(24, 12.0, s) for s in (0, 1)]}, "loss", file, target=3.0),
    "uploads": lambda _, file: draw_uploads(ROWS, file),
    "proxy": lambda paper, file: draw_proxy(grid(paper), "min_ade_6", file),
    "proxy_over_time": lambda paper, file: draw_proxy_over_time(over_time(paper), file),
    "faster": lambda _, file: draw_faster(CONTESTANTS, file),
    "times": lambda _, file: draw_times_to_target(TIMES, "top-10 accuracy 0.8", file),
}
EVERY_FIGURE = pytest.mark.parametrize("name", FIGURES)


@pytest.fixture(scope="module")
def gallery(paper: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every figure in every format."""
    folder = tmp_path_factory.mktemp("gallery")
    for name, draw in FIGURES.items():
        for suffix in FORMATS:
            draw(paper, folder / f"{name}.{suffix}")
    return folder


def test_the_files_are_what_their_names_say(gallery: Path) -> None:
    assert len(list(gallery.iterdir())) == len(FIGURES) * len(FORMATS)
    for file in gallery.iterdir():
        assert file.read_bytes().startswith(FORMATS[file.suffix[1:]])


@EVERY_FIGURE
def test_equal_runs_draw_equal_bytes(paper: Scenario, gallery: Path, name: str, tmp_path: Path) -> None:
    for suffix in FORMATS:
        FIGURES[name](paper, tmp_path / f"again.{suffix}")
        assert (tmp_path / f"again.{suffix}").read_bytes() == (gallery / f"{name}.{suffix}").read_bytes()


@EVERY_FIGURE
def test_fonts_are_embedded_as_truetype(gallery: Path, name: str) -> None:
    drawn = (gallery / f"{name}.pdf").read_bytes()
    assert b"/Type3" not in drawn
    assert b"/FontFile2" in drawn


@EVERY_FIGURE
def test_nothing_is_loaded_from_elsewhere(gallery: Path, name: str) -> None:
    drawn = (gallery / f"{name}.svg").read_text(encoding="utf-8")
    loaded = re.findall(r"""(?:href|src)\s*=\s*["']([^"']*)|url\(\s*["']?([^)"']*)|@import\s*([^;]*)""", drawn)
    assert all("".join(found).startswith(("#", "data:")) for found in loaded)


def test_text_stays_text_with_units(gallery: Path) -> None:
    expected = {
        "plan": ("round length T (s)", "g (valid local steps per second)", "local steps H", "H = 24, T = 11.8 s"),
        "history": ("virtual time (s)", "validation loss", "top-10 accuracy"),
        "fig2": ("local steps H", "round length T (s)", "MOB-FL's choice: H = 24, T = 11.8 s"),
        "fig3": ("best top-10 accuracy", "g (1/s)", "MOB-FL: H = 24, T = 11.8 s", "H = 40"),
        "curves": ("virtual time (s)", "target 3"),
        "uploads": ("Theorem 1's Λ (uploads per round)", "(b) difference and 95 % interval"),
        "proxy": ("best minADE of 6 (m)", "g (valid local steps per second)"),
        "proxy_over_time": ("virtual time t (s)", "per sample"),
        "faster": ("times as fast as the baseline (95 % intervals over seeds)", "to loss 2.5", "anytime", "→"),
        "times": ("virtual time to the target (s)", "2 of 3 not reached", "not reached"),
    }
    assert expected.keys() == FIGURES.keys()
    for name, texts in expected.items():
        drawn = (gallery / f"{name}.svg").read_text(encoding="utf-8")
        assert [text for text in texts if f">{text}<" not in drawn] == []


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


@pytest.mark.parametrize(
    ("steps", "rounds"),
    [
        ((24,), (11.8,)),  # a single run
        ((24,), (6.0, 11.8, 20.0)),  # one H
        ((8, 24, 40), (11.8,)),  # one T
        ((4, 8, 12, 16, 20, 24, 28, 32), (9.0, 15.0)),  # more H than panels
    ],
)
def test_any_set_of_runs_can_be_drawn(
    paper: Scenario, steps: Sequence[int], rounds: Sequence[float], tmp_path: Path
) -> None:
    runs = points(paper, steps, rounds)
    draw_fig2(runs, paper, tmp_path / "fig2.png")
    for column in ("loss", "top_10", "min_ade_6"):
        draw_fig3(runs, paper, column, tmp_path / "fig3.png")
        draw_proxy(runs, column, tmp_path / "proxy.png")
    assert len(list(tmp_path.iterdir())) == 3


def test_losses_that_are_nan_can_be_drawn(paper: Scenario, tmp_path: Path) -> None:
    spoilt = history(8, 9.0, 0, nan_rounds=range(3, 12))
    unknown = History({**spoilt.initial, "loss": NAN}, {**spoilt.columns, "loss": np.full(12, NAN)}, spoilt.kpis)
    runs = [*grid(paper), Point(8, 9.0, 0, 0.7, spoilt), Point(8, 7.0, 0, 0.6, unknown)]
    file = tmp_path / "figure.png"
    draw_fig2(runs, paper, file)
    draw_fig2(runs[-1:], paper, file)
    draw_fig3(runs, paper, "loss", file)
    draw_proxy(runs, "loss", file)
    draw_curves({"spoilt": [spoilt], "unknown": [unknown], "well": [history(24, 12.0, 0)]}, "loss", file)
    draw_proxy_over_time({"all": ([0.0], [Estimate(NAN, NAN, NAN)])}, file)


def test_the_best_curve_comes_first(tmp_path: Path) -> None:
    groups = {"slow": [history(4, 12.0, 0)], "fast": [history(40, 12.0, 0)], "medium": [history(12, 12.0, 0)]}
    for column in ("loss", "top_10", "min_ade_6"):
        draw_curves(groups, column, tmp_path / "curves.svg")
        drawn = (tmp_path / "curves.svg").read_text(encoding="utf-8")
        assert re.findall(">(slow|medium|fast)<", drawn) == ["fast", "medium", "slow"]


def looks_of(groups: dict[str, list[History]], column: str, folder: Path) -> dict[str, tuple[Any, ...]]:
    drawn = list[Figure]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mobfl.figures.canvas._save", lambda figure, *_: drawn.append(figure))
        draw_curves(groups, column, folder / "curves.svg")
    lines = [line for line in drawn[0].axes[0].lines if line.get_label() in groups]
    return {str(line.get_label()): (line.get_color(), line.get_marker(), line.get_linewidth()) for line in lines}


def test_a_label_has_one_look_whatever_is_drawn_and_the_best_line_is_the_thickest(tmp_path: Path) -> None:
    """Top-10 accuracy rises where the distance, of which less is better, does not."""
    other = history(4, 12.0, 0)
    other = History(other.initial, {**other.columns, "top_10": np.full(12, 1.0)}, other.kpis)
    groups = {"first": [history(40, 12.0, 0)], "second": [other], "third": [history(12, 12.0, 0)]}
    looks = {column: looks_of(groups, column, tmp_path) for column in ("loss", "top_10")}
    for label in groups:
        assert looks["loss"][label][:2] == looks["top_10"][label][:2]
    assert len({look[:2] for look in looks["loss"].values()}) == 3
    best = {column: max(found, key=lambda label: found[label][2]) for column, found in looks.items()}
    assert best == {"loss": "first", "top_10": "second"}


@pytest.mark.parametrize(
    "name", ["plan", "history", "fig2", "fig3", "curves", "uploads", "proxy", "proxy_over_time", "times"]
)
def test_a_narrow_figure_holds_all_its_words(paper: Scenario, name: str, tmp_path: Path) -> None:
    """As a telephone shows it: a file is cut to what is drawn, so words that reach beyond the edge make it wide."""
    with looking(Look(narrow=True)):
        FIGURES[name](paper, tmp_path / "narrow.png")
    with Image.open(tmp_path / "narrow.png") as picture:
        assert picture.width / 200 < 3.9  # inches, by our style's dots


def test_the_fastest_policy_is_at_the_top(gallery: Path, tmp_path: Path) -> None:
    drawn = (gallery / "times.svg").read_text(encoding="utf-8")
    assert re.findall(">(MOB-FL|all|one)<", drawn) == ["one", "all", "MOB-FL"]  # ticks count upwards
    draw_times_to_target({"one": [None]}, "loss 1", tmp_path / "none.png")


def test_a_level_of_mobfl_is_that_of_the_greatest_g(paper: Scenario, tmp_path: Path) -> None:
    runs = points(paper, (8, 40), (9.0, 30.0))
    best = max(runs, key=lambda run: Plan.at(paper, run.local_steps, run.round_s).numbers[2])
    draw_fig3(runs, paper, "top_10", tmp_path / "fig3.svg")
    drawn = (tmp_path / "fig3.svg").read_text(encoding="utf-8")
    assert f">MOB-FL: H = {best.local_steps}, T = {best.round_s:.1f} s<" in drawn


def test_what_cannot_be_shown_is_an_error(paper: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "figure.png"
    for draw in (
        lambda: draw_fig2([], paper, file),
        lambda: draw_fig3([], paper, "loss", file),
        lambda: draw_proxy([], "loss", file),
        lambda: draw_uploads([], file),
        lambda: draw_curves({}, "loss", file),
        lambda: draw_times_to_target({}, "loss 1", file),
        lambda: draw_proxy_over_time({}, file),
    ):
        with pytest.raises(InputError, match="a figure must have something to show"):
            draw()
    with pytest.raises(InputError, match="at most 8 to be told apart, got 9"):
        draw_curves({str(k): [history(8, 9.0, 0)] for k in range(9)}, "loss", file)
    assert not list(tmp_path.iterdir())
