"""The warning that traffic is not Poisson, and what is promised of recorded traffic."""

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy import stats

from made_traffic import made_traffic
from mobfl import Scenario, plan, simulate
from mobfl.cli import cli
from mobfl.mobility.recorded import write_crossings
from mobfl.planning.trace import Trace
from mobfl.rounds.not_poisson import FALSE_ALARM, _beyond, excess, replica
from mobfl.theory import Conditions

LEVEL = 1e-4  # at which these tests cry wolf


def test_poisson_roads_raise_no_more_alarms_than_declared(paper: Scenario) -> None:
    road = Conditions.of(paper)
    alarms = sum(excess(Trace(made_traffic(0.15, 900.0, seed), 1.0), road, 24, 11.8).found for seed in range(20))
    assert stats.binomtest(alarms, 20, FALSE_ALARM, alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_a_quarter_of_an_hour_behind_a_signal_is_enough(paper: Scenario, rate: float) -> None:
    for seed in range(3):
        seen = excess(Trace(made_traffic(rate, 900.0, seed, signal=True), 1.0), Conditions.of(paper), 24, 11.8)
        assert seen.empty_prob > seen.poisson_empty_prob + 0.1
        assert seen.found


def test_beyond_means_beyond_all_of_them_on_one_side() -> None:
    assert not _beyond(0.5, [0.1, 0.2, 0.9])
    assert not _beyond(0.5, [0.5])
    assert _beyond(1.0, [0.1, 0.2, 0.9])
    assert _beyond(0.0, [0.1, 0.2, 0.9])
    endless = itertools.cycle([0.1, 0.2, 0.3])
    assert _beyond(5.0, endless)  # plainly, so that no more are asked for


def test_a_replica_has_the_roads_rate_stays_and_time() -> None:
    trace = Trace(made_traffic(0.3, 20_000.0, 1), 1.0)
    one, again, other = (replica(trace, number) for number in (0, 0, 1))
    assert one.crossings.fingerprint() == again.crossings.fingerprint() != other.crossings.fingerprint()
    assert one.observed_s == trace.observed_s
    start_s, end_s = trace.observed_s
    entered = one.crossings.enter_s[one.crossings.enter_s > start_s]
    assert stats.kstest((entered - start_s) / (end_s - start_s), "uniform").pvalue > LEVEL
    assert stats.poisson.sf(len(entered), 0.3 * (end_s - start_s)) > LEVEL
    # As many are there at the beginning as later on.
    there = [
        ((one.crossings.enter_s <= at) & (one.crossings.leave_s > at)).sum() for at in (start_s, (start_s + end_s) / 2)
    ]
    assert stats.binomtest(int(there[0]), int(sum(there)), 0.5).pvalue > LEVEL


def test_recorded_traffic_is_promised_what_its_plan_promises(paper: Scenario) -> None:
    crossings = made_traffic(0.2, 3600.0, 2, signal=True)
    best = plan(paper, crossings)
    result = simulate(paper, *best.numbers[:2], 10**6, crossings=crossings)
    assert result.expected_uploads == pytest.approx(best.expected_uploads, rel=1e-12)
    assert result.expected_empty_prob == pytest.approx(1 - best.valid_round_prob, rel=1e-12)
    assert result.poisson.empty_prob < result.expected_empty_prob - 0.1
    assert result.poisson.uploads == pytest.approx(result.expected_uploads, rel=0.05)
    assert simulate(paper, 24, 11.8, 100).poisson is None


def test_the_advice_fits_what_was_run(tmp_path: Path) -> None:
    write_crossings(made_traffic(0.2, 1800.0, 2, signal=True), tmp_path / "signal.csv")

    def told(*arguments: str) -> str:
        command = ["simulate", "--trace", str(tmp_path / "signal.csv"), "--json", *arguments]
        return str(json.loads(CliRunner().invoke(cli, command).stdout)["warning"])

    assert told().endswith("this plan was made from the crossings and allows for it")
    assert told("--plan", "24,best").endswith("this plan was made from the crossings and allows for it")
    assert told("--plan", "24,11.8").endswith("plan from the crossings instead")
