import numpy as np
import pytest

from mobfl import Scenario, plan, theory
from mobfl.planning.sensitivity import sensitivity


@pytest.mark.parametrize(("noise", "more_steps"), [(0, 29), (2, 26)])
def test_losses_against_hand_made_ratios(paper: Scenario, noise: float, more_steps: int) -> None:
    road = paper.with_values({"training.noise_uploads": noise})
    best = plan(road)
    h, t, g = best.numbers
    rows = {row.name: row for row in sensitivity(road, best)}
    assert rows["round_s"].loss_below == pytest.approx(1 - theory.objective(road, h, 0.8 * t) / g)
    assert rows["local_steps"].loss_above == pytest.approx(1 - theory.objective(road, more_steps, t) / g)
    busy = road.with_values({"traffic.arrivals_per_s": 0.12})
    regret = 1 - theory.objective(busy, h, t) / plan(busy).numbers[2]
    assert rows["traffic.arrivals_per_s"].loss_above == pytest.approx(regret)


@pytest.mark.parametrize("noise", [0, 2])
def test_every_loss_is_a_share(paper: Scenario, noise: float) -> None:
    scenario = paper.with_values({"training.noise_uploads": noise})
    losses = [loss for row in sensitivity(scenario, plan(scenario)) for loss in (row.loss_below, row.loss_above)]
    assert np.all([loss is not None and 0 < loss < 1 for loss in losses])


def test_a_road_that_becomes_infeasible_has_no_loss(paper: Scenario) -> None:
    short = paper.with_values({"road.length_m": 50})
    rows = {row.name: row for row in sensitivity(short, plan(short))}
    assert rows["traffic.speed_mps"].loss_above is None  # 50 m at 24 m/s leaves less than 2.2 s
    assert rows["traffic.speed_mps"].loss_below is not None
