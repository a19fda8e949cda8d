"""Anytime rounds of vehicles that predict their leaving from the way left and their present speed."""

from dataclasses import replace

import numpy as np
import pytest

from mobfl import AsManyAsFit, Crossings, Scenario
from mobfl.mobility.poisson import poisson_crossings
from mobfl.mobility.tracks import STEADILY, Tracks
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Outcome, joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.rounds.simulation import simulate
from mobfl.theory import Delays

PREDICTED = AsManyAsFit("predicted")


def traffic(*vehicles: list[tuple[float, float]]) -> Crossings:
    """From (time, metres) of every vehicle, in the order of entering."""
    first = np.append(0, np.cumsum([len(each) for each in vehicles]))
    times, way = np.array([sample for each in vehicles for sample in each], float).T
    tracks = Tracks(first, times, way, np.zeros_like(way), way)
    return Crossings(np.arange(len(vehicles)), times[first[:-1]], times[first[1:] - 1], tracks)


def test_a_story_row_by_row(paper: Scenario) -> None:
    """Steps of 0.2 s and transfers of 1 s each, rounds of 10 s.

    Vehicle 0 brakes: at 0 s it expects to need 8 s for 80 m and trains for 6 s; it leaves at 12 s and is heard. At 10 s
    it goes 5 m/s, has 10 m left, and 2 s are too few for a step. Vehicle 1 speeds up: it stands at first, so it trains
    until the round's end, and is gone at 9 s: lost. Vehicle 2 stands from 11 to 19 s: in the second round it sees 20 m
    at 5 m/s, and trains for 2 s; in the third it has 10 m left at 5 m/s.
    """
    road = paper.with_values({"compute.extra_step_s": 0})
    vehicles = traffic(
        [(0, 0), (2, 20), (4, 40), (12, 80)],
        [(1, 0), (3, 0), (9, 60)],
        [(10, 0), (11, 5), (19, 5), (21, 15), (22, 20)],
    )
    blocks = simulate_rounds([vehicles], FixedPlan(PREDICTED, 10.0), Delays.of(road), 0, until_s=30.0)
    rows = joined(list(blocks)).vehicles
    assert rows is not None
    told = list(zip(rows.round.tolist(), rows.vehicle.tolist(), rows.steps.tolist(), rows.outcome, strict=True))
    assert told == [
        (0, 0, 30, Outcome.UPLOADED),
        (0, 1, 35, Outcome.LEFT_EARLY),
        (1, 0, 0, Outcome.SAT_OUT),
        (1, 2, 10, Outcome.UPLOADED),
        (2, 2, 0, Outcome.SAT_OUT),
    ]


def test_at_one_speed_predicting_is_knowing(paper: Scenario) -> None:
    block = next(poisson_crossings(paper.with_values({"traffic.speed_sd_mps": 4}), 3))
    plain = Crossings(block.vehicle[:2000], block.enter_s[:2000], block.leave_s[:2000])
    first, ends = 2 * np.arange(2001), np.stack([plain.enter_s, plain.leave_s], axis=1).ravel()
    kept = replace(plain, tracks=Tracks(first, ends, *(np.tile([0.0, 400.0], 2000) for _ in range(3))))
    known, assumed, seen = (
        simulate(paper, asked, 9.0, 10**6, 1, crossings).to_dict()
        for asked, crossings in ((AsManyAsFit("leaving"), plain), (PREDICTED, plain), (PREDICTED, kept))
    )
    assert assumed == known | {"knows": "predicted", "assumed": STEADILY}
    for key in ("objective", "uploads", "longest_steps"):
        assert seen[key] == pytest.approx(known[key], rel=1e-3)
    assert "assumed" not in seen
    half = simulate(paper.with_values({"traffic.participation": 0.5}), PREDICTED, 9.0, 10**6, 1, kept)
    assert half.uploads.measured.value == pytest.approx(known["uploads"] / 2, rel=0.1)
