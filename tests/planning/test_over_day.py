"""Plans by the hour: what they gain over one plan for all, and hours that have none."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import mobfl
from mobfl.cli import cli
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import write_crossings
from mobfl.planning.over_day import DayPlans, plan_over_day

PAPER = mobfl.load_scenario("paper")
SPAN_S = 600.0


def changing_road() -> Crossings:
    """Ten minutes each: busy and slow, quiet and quick, three vehicles, busy and slow again."""
    random, enter, stay = np.random.default_rng(1), [], []
    for span, (rate, stays_s) in enumerate([(0.15, 40.0), (0.03, 12.0), (0.0, 12.0), (0.15, 40.0)]):
        count = random.poisson(rate * SPAN_S) if rate else 3
        enter.append(np.sort(random.uniform(span * SPAN_S, (span + 1) * SPAN_S, count)))
        stay.append(np.full(count, stays_s))
    enter_s, stay_s = np.concatenate(enter), np.concatenate(stay)
    return Crossings(np.arange(len(enter_s)), enter_s, enter_s + stay_s)


@pytest.fixture(scope="module")
def day() -> DayPlans:
    return plan_over_day(PAPER, changing_road(), SPAN_S)


def test_spans_begin_at_whole_multiples_and_lie_within_what_was_observed(day: DayPlans) -> None:
    start, end = changing_road().observed_s
    assert [span.start_s for span in day.spans] == [start, 600, 1200, 1800]
    assert [span.end_s for span in day.spans] == [600, 1200, 1800, end]
    enter_s = changing_road().enter_s
    assert [span.vehicles for span in day.spans] == [
        ((enter_s >= span.start_s) & (enter_s < span.end_s)).sum() for span in day.spans
    ]


def test_own_plans_suit_their_span_and_the_gain_is_measured_on_its_own_traffic(day: DayPlans) -> None:
    busy, quiet, empty, again = day.spans
    assert busy.plan.local_steps > 1.3 * quiet.plan.local_steps
    assert all(span.gain is not None and span.gain > -1e-3 for span in (busy, quiet, again))
    assert quiet.gain > 0.2
    assert empty.plan.reason == "a plan needs at least 10 vehicles that enter, got 3"
    assert empty.gain is None
    assert empty.kept_objective == empty.one_objective


def test_a_span_too_short_for_ten_good_rounds_keeps_the_one_plan() -> None:
    """The best rounds of this road last 16 s, and ten of them are more than the 100 s of a span."""
    busy = changing_road().take(changing_road().enter_s < SPAN_S)
    found = plan_over_day(PAPER, busy, 100.0)
    kept = [span for span in found.spans if "gives more" in (span.plan.reason or "")]
    assert len(kept) >= 3
    assert all(span.kept_objective == span.one_objective and span.gain is None for span in kept)
    rule = "of plans with ten rounds in 100 s none gives more than the one for all: take longer spans"
    assert kept[1].plan.reason == rule
    assert found.gain is not None
    assert found.gain > -0.01


def test_one_plan_gives_in_the_spans_what_it_gives_over_all(day: DayPlans) -> None:
    lasts = np.array([span.lasts_s for span in day.spans])
    given = np.array([span.one_objective for span in day.spans])
    assert (lasts * given).sum() / lasts.sum() == pytest.approx(day.one_plan.objective, rel=0.03)
    own = np.array([span.kept_objective for span in day.spans])
    assert day.gain == pytest.approx((lasts * own).sum() / (lasts * given).sum() - 1)


def test_one_span_is_the_whole_recording_and_gains_nothing() -> None:
    crossings = changing_road().take(np.arange(len(changing_road())) < 60)
    whole = plan_over_day(PAPER, crossings, 1e6)
    assert len(whole.spans) == 1
    assert whole.spans[0].plan.numbers == pytest.approx(mobfl.plan(PAPER, crossings).numbers, rel=1e-9)
    assert whole.gain == pytest.approx(0.0, abs=1e-9)


def test_anytime_rounds_by_span() -> None:
    found = plan_over_day(PAPER, changing_road(), 2 * SPAN_S, anytime="nothing")
    assert found.one_plan.schedule == "anytime"
    assert all(span.plan.objective > 0 for span in found.spans)
    assert all(span.gain > -0.01 for span in found.spans)
    assert json.loads(json.dumps(found.to_dict()))["spans"][0]["status"] == "ok"


@pytest.mark.parametrize("every", [0.0, -5.0, np.inf, np.nan, 1e-4])
def test_spans_that_are_none_are_refused(every: float) -> None:
    with pytest.raises(InputError, match="every must"):
        plan_over_day(PAPER, changing_road(), every)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["plan", *map(str, words)])


def test_the_command_prints_a_table_and_writes_csv_and_a_figure(day: DayPlans, tmp_path: Path) -> None:
    road, table, figure = tmp_path / "road.csv", tmp_path / "day.csv", tmp_path / "day.png"
    write_crossings(changing_road(), road)
    done = run("--trace", road, "--every", "10min", "--export", table, "--plot", figure)
    assert done.exit_code == 0, done.output
    assert "0:20: no plan of its own, a plan needs at least 10 vehicles that enter, got 3." in done.stdout
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["status"] for row in rows] == ["ok", "ok", "infeasible", "ok"]
    assert [float(row["gain"] or "nan") for row in rows] == pytest.approx(
        [np.nan if span.gain is None else span.gain for span in day.spans], nan_ok=True
    )
    assert figure.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--every", "1h"], "--every goes with --trace"),
        (["--trace", "x.csv", "--every", "1 fortnight"], "--every must be a time such as 1h, 30min or 900s"),
        (["--trace", "x.csv", "--every", "0h"], "--every must be a time"),
        (["--trace", "x.csv", "--every", "1h", "--export", "x.pdf"], "--export must end in one of .csv"),
        (["--export", "x.csv"], "--export goes with --every"),
        (["--trace", "x.csv", "--every", "1h", "--within", "1%"], "without --least-uploads and --within"),
    ],
)
def test_what_does_not_go_together_is_said(words: list[str], said: str) -> None:
    done = run(*words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
