"""Recordings too short, too crowded or too odd to plan from: a plan where one can be made, else what is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mobfl import InputError, Scenario
from mobfl.app.traces import compared
from mobfl.errors import InfeasibleError
from mobfl.mobility.crossings import Crossings
from mobfl.planning.planner import plan
from mobfl.policies.adaptive.following import follow
from mobfl.rounds.simulation import simulate
from mobfl.servers.names import server_of

Stays = list[tuple[float, float]]

TOO_SHORT: dict[str, Stays] = {
    "one vehicle": [(0, 30)],
    "two vehicles": [(0, 30), (5, 40)],
    "three vehicles": [(0, 30), (5, 40), (9, 50)],
    "all at once": [(0, 30)] * 20,
    "all at once, leaving one by one": [(0, 30 + i) for i in range(20)],
    "nobody leaves": [(i, 1000) for i in range(50)],
    "one stays for ever": [(0, 1e12), (1, 900)],
}
NO_STAY: dict[str, Stays] = {
    "no stay": [(5.0 * i, 5.0 * i) for i in range(200)],
    "no stay, one vehicle": [(5, 5)],
    "a stay below any clock": [(0, 5e-324), (1, 1)],
}
OUTSIDE: dict[str, Stays] = {"stays only at the ends": [(10, 35)] * 3 + [(100, 125)] * 3}
PLANNED: dict[str, Stays] = {
    "negative times": [(-1000 + 10 * i, -975 + 10 * i) for i in range(100)],
    "three far apart": [(0, 30), (100, 130), (300, 330)],
    "mostly no stay": [(5 * i, 5 * i + 20 * (i % 50 == 0)) for i in range(200)],
}


def crossings(stays: Stays) -> Crossings:
    return Crossings(np.arange(len(stays)), *(np.array(column, float) for column in zip(*stays, strict=True)))


def outcome(attempt: Callable[[], dict[str, Any]]) -> str:
    """What came of it: strict JSON or a sentence; anything else is raised."""
    try:
        return json.dumps(attempt(), allow_nan=False)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(
    ("stays", "missing"),
    [
        *((stays, "rounds of at least 2.2 s on the trace, but") for stays in TOO_SHORT.values()),
        *((stays, "leave as soon as they enter but one step") for stays in NO_STAY.values()),
        *((stays, "no vehicle is there long enough between") for stays in OUTSIDE.values()),
    ],
    ids=[*TOO_SHORT, *NO_STAY, *OUTSIDE],
)
def test_no_plan_says_what_is_missing(paper: Scenario, stays: Stays, missing: str) -> None:
    trace = crossings(stays)
    found = plan(paper, trace)
    assert (found.status, found.local_steps) == ("infeasible", None)
    assert missing in str(found.reason)
    for name in ("mobfl", "1,best", "epoch,best", "best,T0"):
        with pytest.raises((InfeasibleError, InputError)):
            server_of(name, None, paper, trace)


@pytest.mark.parametrize("stays", [*TOO_SHORT.values(), *NO_STAY.values(), *OUTSIDE.values()])
def test_simulation_and_page_say_a_sentence_or_a_number(paper: Scenario, stays: Stays) -> None:
    trace = crossings(stays)
    rows = "".join(f"{i},{enter!r},{leave!r}\n" for i, (enter, leave) in enumerate(stays))
    for attempt in (
        lambda: simulate(paper, 24, 11.7, 100, crossings=trace).to_dict(),
        lambda: follow(paper, 100, crossings=trace).to_dict(),
        lambda: compared(f"vehicle,enter_s,leave_s\n{rows}".encode(), "short.csv", "", paper),
    ):
        told = outcome(attempt)
        assert " must " in told or json.loads(told)


@pytest.mark.parametrize("stays", PLANNED.values(), ids=[*PLANNED])
def test_odd_traces_that_can_be_planned_are(paper: Scenario, stays: Stays) -> None:
    found = plan(paper, crossings(stays))
    h, t, g = found.numbers
    assert h >= 1
    assert 0 < g <= h / t


def test_overlapping_visits_of_one_vehicle_count_each(paper: Scenario) -> None:
    enter = 10.0 * np.arange(100)
    one, many = (Crossings(names, enter, enter + 25) for names in (np.full(100, 7), np.arange(100)))
    assert plan(paper, one) == plan(paper, many)


def test_the_table_of_a_trace_with_one_vehicle(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from mobfl.cli import cli

    (tmp_path / "one.csv").write_text("vehicle,enter_s,leave_s\n1,0,30\n")
    done = CliRunner().invoke(cli, ["plan", "--trace", str(tmp_path / "one.csv")])
    assert (done.exit_code, "record for longer" in done.output) == (3, True)


@pytest.mark.parametrize("command", ["plan", "simulate", "train"])
def test_the_commands_end_in_a_sentence(tmp_path: Path, command: str) -> None:
    from click.testing import CliRunner

    from mobfl.cli import cli

    (tmp_path / "short.csv").write_text("vehicle,enter_s,leave_s\n1,0,30\n2,5,40\n3,9,50\n")
    arguments = {
        "plan": ["plan", "--trace", str(tmp_path / "short.csv")],
        "simulate": ["simulate", "--trace", str(tmp_path / "short.csv"), "--plan", "24,11"],
        "train": ["train", "images", "--trace", str(tmp_path / "short.csv"), "--out", str(tmp_path / "run")],
    }[command]
    done = CliRunner().invoke(cli, arguments)
    told = str(done.exception) + done.output
    assert "trace" in told
    assert "only 0.0 s: record for longer" in told.replace("\n", " ") or "got 0 s" in told
    assert isinstance(done.exception, (InputError, InfeasibleError, SystemExit))
    assert not (tmp_path / "run").exists()
