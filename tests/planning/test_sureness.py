"""What stands beside a promise from a recording: its interval, a drift, and who carries the plan."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from made_traffic import made_traffic
from mobfl import InputError, Scenario, plan, read_crossings
from mobfl.cli import cli
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import write_crossings
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.notices import fewest_for_half, read
from mobfl.planning.overlaps import empty_and_uploads, stays_of
from mobfl.planning.sureness import DRIFT_FALSE_ALARM, drifts, valid_prob_interval
from mobfl.planning.trace import ImaginedRounds, Trace
from mobfl.theory import Conditions, Delays

H, T = 24, 11.8
LEVEL = 1e-4  # at which these tests cry wolf


def rounds_of(paper: Scenario, crossings: Crossings) -> ImaginedRounds:
    return Trace(crossings, 1.0).rounds(Conditions.of(paper), H, T)


def doubled(seed: int) -> Crossings:
    """Half an hour of traffic, and half an hour of twice as much."""
    first, second = made_traffic(0.1, 1800.0, seed), made_traffic(0.2, 1800.0, seed + 1)
    shift = first.enter_s[-1] - second.enter_s[0] + 5.0
    enter, leave = (
        np.append(a, b + shift) for a, b in ((first.enter_s, second.enter_s), (first.leave_s, second.leave_s))
    )
    return Crossings.sorted(np.arange(len(enter)), enter, leave)


def with_parked(parked: int) -> Crossings:
    """A hundred vehicles that pass in 10 s, twenty seconds after each other, and some that stay for half an hour."""
    enter, leave = 20.0 * np.arange(100), 20.0 * np.arange(100) + 10.0
    stand = 5.0 * np.arange(1, parked + 1)
    return Crossings.sorted(np.arange(100 + parked), np.append(enter, stand), np.append(leave, stand + 1800.0))


@settings(max_examples=60)
@given(
    stays=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=12),
    start=st.integers(-5, 90),
    t=st.integers(1, 30),
)
def test_a_round_counts_everybody_with_his_seconds_in_it(stays: list[tuple[int, int]], start: int, t: int) -> None:
    """Against the product over all vehicles, of times that often coincide; steps of one second without jitter."""
    enter, length = (np.array(column, float) for column in zip(*sorted(stays), strict=True))
    laws = Delays.paper(0.0, 0.0, 1.0, 0.5).laws(4)
    empty, uploads = empty_and_uploads(
        np.array([start - 3.0, float(start)]), float(t), stays_of(enter, enter + length), laws, 0.8
    )
    windows = np.minimum(enter + length, start + t) - np.maximum(enter, start)
    chances = 0.8 * np.where(windows > 4.0, 1 - np.exp(-(windows - 4.0) / 2.0), 0.0)
    assert uploads[1] == pytest.approx(chances.sum(), abs=1e-12)
    assert empty[1] == pytest.approx(np.prod(1 - chances), abs=1e-12)


@pytest.mark.parametrize("signal", [False, True])
def test_of_a_hundred_recordings_the_interval_holds_ninety_five(paper: Scenario, signal: bool) -> None:
    """Each interval is held against the next recording of the same road and length."""
    pairs = []
    for seed in range(150):
        crossings = made_traffic(0.2, 1200.0, seed, signal=signal)
        rounds = rounds_of(paper, crossings)
        pairs.append((1 - rounds.empty.mean(), valid_prob_interval(rounds, float(crossings.dwell_s.mean()))))
    values = [value for value, _ in pairs]
    held = sum(low <= value <= high for (_, (low, high)), value in zip(pairs, values[1:] + values[:1], strict=True))
    assert stats.binomtest(held, len(pairs), 0.95).pvalue > LEVEL


def test_a_road_that_drifts_is_told_from_one_that_does_not(paper: Scenario) -> None:
    def told(crossings: Crossings) -> bool:
        return drifts(rounds_of(paper, crossings), float(crossings.dwell_s.mean()))

    false = sum(told(made_traffic(0.1, 3600.0, seed, signal=seed % 2 > 0)) for seed in range(100))
    assert stats.binomtest(false, 100, DRIFT_FALSE_ALARM, alternative="greater").pvalue > LEVEL
    assert sum(told(doubled(seed)) for seed in range(20)) >= 18


def test_a_drift_is_said_with_what_changed(paper: Scenario) -> None:
    found = plan(paper, doubled(3))
    (sentence,) = found.notices
    assert "the traffic changed while it was recorded: in the first half" in sentence
    assert found.planner == "trace"
    low, high = found.valid_round_prob_interval
    assert 0 < low < found.valid_round_prob < high < 1


def test_rounds_that_are_never_empty_may_still_be_elsewhere() -> None:
    """150 rounds of 20 s that share nobody: fewer than one in fifty would have shown with a chance of 95 %."""
    starts = np.arange(600) * 5.0
    rounds = ImaginedRounds(starts, 10.0, np.zeros(600), np.ones(600), np.ones(600))
    low, high = valid_prob_interval(rounds, 10.0)
    assert high == 1.0
    assert low == pytest.approx(0.05 ** (1 / 150))


def test_a_few_parked_vehicles_are_counted_and_named(paper: Scenario) -> None:
    parked = 3
    found = plan(paper, with_parked(parked))
    assert found.half_from_vehicles <= parked
    assert found.local_steps > 100  # where passing takes 10 s, in which 40 steps fit
    sentence = found.notices[-1]
    assert "half of this plan" in sentence
    assert f"of {100 + parked} stays, from 1800 s on" in sentence
    assert len(with_parked(parked).up_to(60.0)) == 100
    assert not any("half of this plan" in each for each in plan(paper, with_parked(0)).notices)


def test_the_fewest_for_half_are_counted_by_leaving_them_out(paper: Scenario) -> None:
    """Stays of 40, 30, 20 and 10 s in turn: all that H = 100 needs are those of 30 s and above, a quarter each."""
    steady = Conditions.of(paper.with_values({"compute.extra_step_s": 0}))
    enter = 100.0 * np.arange(80)
    trace = Trace(Crossings(np.arange(80), enter, enter + np.tile([40.0, 30.0, 20.0, 10.0], 20)), 1.0)

    def steps(some: Trace) -> float:
        return float(some.rounds(steady, 100, 50.0).steps.mean())

    count = fewest_for_half(trace, steps)
    by_hand = [steps(trace.without_longest(k)) for k in (count - 1, count)]
    assert by_hand[0] > steps(trace) / 2 >= by_hand[1]
    assert 10 < count < 30


def test_anytime_plans_from_a_trace_are_as_sure(paper: Scenario) -> None:
    crossings = made_traffic(0.1, 900.0, 1, signal=True)
    found = plan_anytime(paper, "leaving", crossings)
    low, high = found.valid_round_prob_interval
    assert low < found.valid_round_prob < high
    assert found.planner == "trace"
    road, trace = Conditions.of(paper), Trace(crossings, 1.0)
    reading = read(trace, lambda some: some.anytime_rounds(road, found.round_s, "leaving"))
    assert (reading.half_from_vehicles, reading.notices) == (found.half_from_vehicles, found.notices)
    exact = plan_anytime(paper).to_dict()
    assert exact["planner"] == "exact"
    assert "notices" not in exact


def test_the_command_says_how_sure_it_is(tmp_path: Path) -> None:
    write_crossings(with_parked(3), tmp_path / "parked.csv")
    command = ["plan", "--trace", str(tmp_path / "parked.csv")]
    table = CliRunner().invoke(cli, command).stdout
    assert "in 95 of 100 further recordings as long" in table
    assert "Note: 3 vehicles carry half of this plan" in table or "Note: 2 vehicles carry half of this plan" in table
    cut = CliRunner().invoke(cli, [*command, "--longest-stay", "60", "--json"])
    assert cut.stderr == "3 of 103 stays are longer than 60 s and left out\n"
    told = json.loads(cut.stdout)
    low, high = told["valid_round_prob_interval"]
    assert 0 < low < told["valid_round_prob"] < high < 1
    assert (told["planner"], told["local_steps"] < 40) == ("trace", True)


def test_a_plan_for_anytime_rounds_from_a_trace_shows_the_trace(tmp_path: Path) -> None:
    """And not the scenario's road and traffic, which it does not use."""
    write_crossings(with_parked(1), tmp_path / "parked.csv")
    table = CliRunner().invoke(cli, ["plan", "--for", "anytime", "--trace", str(tmp_path / "parked.csv")]).stdout
    assert table.startswith(f"Trace {tmp_path / 'parked.csv'}")
    assert "101        vehicles on the section" in table
    assert "road.length_m" not in table


def test_an_exact_plan_has_no_interval() -> None:
    told = json.loads(CliRunner().invoke(cli, ["plan", "--json"]).stdout)
    assert told["planner"] == "exact"
    assert "valid_round_prob_interval" not in told


def test_a_longest_stay_that_leaves_nobody_is_refused(tmp_path: Path) -> None:
    write_crossings(with_parked(1), tmp_path / "parked.csv")
    file = tmp_path / "parked.csv"
    assert len(read_crossings(file, longest_stay_s=10.0)) == 100
    for seconds, rule in (
        (5.0, "must leave someone, got 5 where the shortest stay is 10 s"),
        (0.0, "must be > 0, got 0"),
    ):
        with pytest.raises(InputError, match=rule):
            read_crossings(file, longest_stay_s=seconds)
    with pytest.raises(InputError, match="must be > 0, got nan"):
        read_crossings(file, longest_stay_s=math.nan)
