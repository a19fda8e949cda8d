"""A plan that follows the traffic where transfers share a radio: it knows of the air what replies tell."""

from pathlib import Path

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import Job, Scenario, load_scenario, train
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.radio import as_constants
from mobfl.policies.adaptive.following import follow
from mobfl.policies.adaptive.watching import Watcher
from mobfl.rounds.air import delays_and_channel
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Outcome
from mobfl.rounds.rules import simulate_rounds
from mobfl.servers.choice import PlanRequest
from mobfl.servers.names import adaptive_rounds


@pytest.fixture
def street() -> Scenario:
    """Around a corner from its station, with a model of 15 MB."""
    return load_scenario("urban-radio").with_values({"traffic.participation": 1})


def test_a_reply_takes_as_long_as_it_took_on_the_air(street: Scenario) -> None:
    delays, channel = delays_and_channel(street)
    rounds = simulate_rounds(poisson_crossings(street, 1), FixedPlan(10, 25.0), delays, 1, channel=channel)
    block = next(iter(rounds))
    rows = block.vehicles
    assert rows is not None
    seen = Watcher(0.0).see(block)
    uploaded = rows.outcome == Outcome.UPLOADED
    assert uploaded.sum() > 20
    np.testing.assert_array_equal(np.isfinite(seen.reply_s), uploaded)
    np.testing.assert_allclose(seen.reply_s[uploaded], (rows.end_s - rows.begin_s)[uploaded])
    assert (seen.reply_s[uploaded] > rows.compute_s[uploaded] + 1.0).all()  # a download and an upload of 15 MB


def test_what_is_known_before_are_the_quick_plans_seconds(street: Scenario) -> None:
    constants = as_constants(street)
    assert constants.radio is None
    assert 1.0 < constants.link.upload_s < 20.0
    paper = load_scenario("paper")
    assert as_constants(paper) is paper


def test_it_follows_traffic_that_is_busier_than_was_thought(street: Scenario) -> None:
    thought = street.with_values({"traffic.arrivals_per_s": 0.01})
    busy = next(iter(poisson_crossings(street, 3)))
    followed = follow(thought, 400, 3, busy)
    assert followed.changes > 0
    assert followed.notes[-1].known.arrivals_per_s.value == pytest.approx(0.15, rel=0.35)
    assert followed.objective > followed.kept_objective > 0


def test_a_run_on_the_air_may_be_adaptive(street: Scenario, tmp_path: Path) -> None:
    small = {"training.duration_s": 600, "training.samples_per_vehicle": 32, "training.batch_size": 8}
    road = street.with_values(small)
    schedule = adaptive_rounds(PlanRequest(road))
    history = train(Job(CountingTask(), road, schedule, seed=2), tmp_path)
    assert history.columns["uploads"].sum() > 0


def test_anytime_rounds_follow_too(street: Scenario) -> None:
    schedule = adaptive_rounds(PlanRequest(street), knows="nothing")
    assert schedule.describe()["policy"] == "adaptive"
    followed = follow(street, 60, 1, chooser=schedule.policy.chooser)  # type: ignore[attr-defined]
    assert followed.objective > 0
