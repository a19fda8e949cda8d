"""What objects show of themselves: a short line, a table in a notebook, frames of pandas and polars."""

import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mobfl
from fake_task import CountingTask

PAPER = mobfl.load_scenario("paper").with_values(
    {"training.duration_s": 120, "training.samples_per_vehicle": 40, "training.batch_size": 10}
)
ROADS = {"road.length_m": [1, *range(100, 400, 10)]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shown")
    for seed in (1, 2):
        mobfl.train(mobfl.Job(CountingTask(), PAPER, (10, 6.0), seed), folder / f"run-{seed}")
    return folder


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: PAPER, "<Scenario 400 m, 20 m/s, 0.1 vehicles/s, local steps of 0.2 + 0.2 s>"),
        (lambda: mobfl.plan("paper"), "<Plan H = 24, T = 11.7763 s, g = 1.2147 /s>"),
        (lambda: mobfl.plan("paper", least=3), "<GuaranteedPlan H = 41, T = 84.6169 s, g = 0.4822 /s>"),
        (lambda: mobfl.plan_anytime("paper"), "<AnytimePlan anytime, T = 10.0969 s, v = 1.9446 /s>"),
        (lambda: mobfl.plan_many(ROADS), "<Plans for 31 roads, 30 feasible>"),
        (
            lambda: mobfl.Crossings.sorted([1, 2], [0.0, 5.0], [20.0, 25.0]),
            "<Crossings 2 from 0 to 25 s, 20 s each>",
        ),
    ],
)  # fmt: skip
def test_a_line_says_what_matters(make: Callable[[], Any], line: str) -> None:
    assert repr(make()) == line


def test_a_plan_that_is_not_possible_says_why() -> None:
    none = mobfl.plan({"road": {"length_m": 1}})
    assert repr(none).startswith("<Plan infeasible: the vehicles leave after 0.05 s but one step")
    assert "No plan is possible" in none._repr_html_()


def test_runs_tell_what_came_of_them(runs: Path) -> None:
    history, results = mobfl.read_history(runs / "run-1"), mobfl.Results(runs)
    uploads = int(history.columns["uploads"].sum())
    assert repr(history).startswith(f"<History 20 rounds in 120 s, {uploads} uploads: loss 40 → ")
    assert repr(results) == "<Results 2 runs, 2 done, of counting>"


class _Cells(HTMLParser):
    """The text of every cell; raises on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.cells = list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def cells(shown: Any) -> list[str]:
    reader = _Cells()
    reader.feed(shown._repr_html_())
    assert not reader.open
    return reader.cells


def test_a_notebook_shows_tables(runs: Path) -> None:
    assert cells(mobfl.plan("paper"))[:3] == ["H", "24", "local steps of a vehicle"]
    assert "P{M ≥ 3}" in cells(mobfl.plan("paper", least=3))
    assert cells(PAPER)[:3] == ["road.length_m", "400 m", "length of the section"]
    assert "training.duration_s" in cells(PAPER)
    assert "training.momentum" not in cells(PAPER)  # a default
    simulated = mobfl.simulate("paper", 24, 11.776, 200)
    assert cells(simulated)[4:6] == ["uploads per round", f"{simulated.mean_uploads.value:.4f}"]
    assert "promised" in cells(mobfl.simulate("paper", rounds=50, plan="anytime"))
    assert cells(mobfl.read_history(runs / "run-1"))[:5] == [
        "",
        "at the start",
        "at the end",
        "best",
        "validation loss",
    ]
    assert {"run-1", "run-2"} <= set(cells(mobfl.Results(runs)))
    many = cells(mobfl.plan_many(ROADS))
    assert (many[0], many[6], many[-6]) == ("road", "0", "30")
    assert many.count("⋮") == 6  # in between


def test_names_that_are_markup_stay_text() -> None:
    crossings = mobfl.Crossings.sorted(["<b>", "&"], [0.0, 1.0], [2.0, 3.0])
    assert "<b>" in cells(crossings)


def test_spans_and_sites_are_tables(tmp_path: Path) -> None:
    """Where a span has no plan its numbers are missing."""
    enter_s = np.r_[8.0 * np.arange(100), 5000.0]
    crossings = mobfl.Crossings.sorted(np.arange(101), enter_s, enter_s + 20)
    day = mobfl.plan_over_day("paper", crossings, "30min")
    assert re.fullmatch(r"<DayPlans 3 spans of 1800 s, \d+\.\d% more than one plan for all>", repr(day))
    assert {"start_s", "gain", "1800", "–"} <= set(cells(day))
    assert day.to_pandas()["local_steps"].notna().tolist() == [True, False, False]
    assert day.to_arrow().num_rows == 3
    sites = mobfl.choose_sites("paper", {"here": crossings}, 1)
    assert repr(sites).startswith("<SiteChoice here: ")
    assert sites.to_pandas()["plan"].tolist() == [cells(sites)[10]]


@pytest.mark.parametrize("make", [lambda _: mobfl.plan_many(ROADS), mobfl.read_history, mobfl.Results])
def test_tables_become_frames(make: Callable[[Path], Any], runs: Path) -> None:
    import polars as pl

    table = make(runs / "run-1")
    frame, arrow = table.to_pandas(), table.to_arrow()
    assert frame.columns.tolist() == arrow.column_names
    assert pl.DataFrame(table).columns == arrow.column_names  # by Arrow's stream, of the object itself
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "if"]
    for name in numbers:
        np.testing.assert_array_equal(frame[name].to_numpy(), pl.DataFrame(table)[name].to_numpy().astype(float))
    assert len(numbers) >= 5


def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(mobfl.MissingExtraError, match=re.escape("pip install 'mobfl[notebook]'")):
        mobfl.plan_many(ROADS).to_pandas()


def test_progress_is_shown_or_told_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import mobfl.progress as progress

    told = list[int]()
    mobfl.simulate("paper", 24, 11.776, 2000, progress=told.append)
    assert told[-1] == 2000
    mobfl.simulate("paper", 24, 11.776, 100)
    assert capsys.readouterr().err == ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "_LINE_S", 0.0)
        mobfl.simulate("paper", 24, 11.776, 100, progress=True)
        mobfl.train(mobfl.Job(CountingTask(), PAPER, (10, 6.0)), tmp_path / "run", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "simulating: 100% …"
    assert lines[-1].startswith("training: 100%, 120/120 s  round 20  loss ")


def test_a_notebook_has_a_bar_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shell as a notebook has it; what it displays is collected."""
    from mobfl import progress

    pictures = list[str]()

    class Handle:
        def update(self, picture: Any) -> None:
            pictures.append(picture)

    def display(picture: Any, display_id: bool) -> Handle:
        pictures.append(picture)
        return Handle()

    class ZMQInteractiveShell: ...

    class Module:
        get_ipython = staticmethod(ZMQInteractiveShell)
        HTML = staticmethod(str)

    Module.display = staticmethod(display)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", Module)
    monkeypatch.setitem(sys.modules, "IPython.display", Module)
    monkeypatch.setattr(progress, "_REDRAW_S", 0.0)
    mobfl.simulate("paper", 24, 11.776, 100, progress=True)
    assert pictures == [
        '<progress value="0" max="100"></progress> simulating',
        '<progress value="100" max="100"></progress> simulating',
        "",
    ]
