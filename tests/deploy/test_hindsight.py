"""What other plans would have done: the replay agrees with what happened, and with simulation of the true road."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from deployed_log import line, simulated_deployment, write_deployment
from deployed_road import StoryClock, deployment, story_grid
from mobfl import (
    AsManyAsFit,
    Crossings,
    InputError,
    RecordedDeployment,
    Scenario,
    in_hindsight,
    plan,
    read_crossings,
    read_deployment,
)
from mobfl.cli import cli
from mobfl.deploy.events import read_events
from mobfl.deploy.hindsight import Hindsight
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.server import serve
from mobfl.deploy.vehicle.trainer import Trainer
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.history import Row
from mobfl.theory import Delays

ROAD = Scenario.from_dict(
    {"training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 600.0}},
)
SCALE = 2.5  # a look every 20 ms of the road
DRAWS = 60


def crossings(count: int = 140) -> Crossings:
    random = np.random.default_rng(1)
    enter = np.cumsum(random.exponential(5.0, count))
    return Crossings(np.arange(count), enter, enter + random.uniform(8.0, 25.0, count))


class Killed(Exception):  # noqa: N818
    """Stands for kill -9 between two rounds."""


def deployed(settings: Deployment, kill_after: int | None = None) -> Path:
    """The real server's loop over nodes in this process, which are as slow as simulation draws it."""
    clock = StoryClock(scale=SCALE)
    grid = story_grid(crossings(), Trainer.of(settings), clock)

    def begin(start_s: float, begins_unix_s: float, scale: float) -> StoryClock:
        clock.start_s, clock.begins_unix_s, clock.scale, clock.passed_s = start_s, begins_unix_s, scale, 0.0
        return clock

    def progress(row: Row) -> None:
        if row["round"] == kill_after:
            raise Killed

    serve(settings, grid, "7", crossings(), begin, progress=progress)
    return Path(settings.out)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deployed(deployment(ROAD, tmp_path_factory.mktemp("fixed") / "run", "10,6", scale=SCALE))


@pytest.fixture(scope="module")
def recorded(fixed: Path) -> RecordedDeployment:
    return read_deployment(fixed)


def simulated(asked: FixedPlan, recorded: RecordedDeployment) -> np.ndarray:
    """Uploads per round and valid local steps per second of the true road in the recorded time, over many seeds."""
    (start_s, end_s), found = recorded.observed_s, list[tuple[float, float]]()
    for seed in range(DRAWS):
        blocks = list(
            simulate_rounds([crossings()], asked, Delays.of(ROAD), seed, start_s=start_s, keep_vehicles=False)
        )
        rounds = [block.first(int(np.sum(block.start_s + block.round_s <= end_s + 1e-6))) for block in blocks]
        uploads, valid = (np.concatenate([getattr(each, name) for each in rounds]) for name in ("uploads", "longest"))
        found.append((uploads.mean(), valid.sum() / (len(valid) * asked.round_s)))
    return np.array(found)


# ---- the recording ---------------------------------------------------------------------------------------


def test_a_deployment_becomes_the_traffic_that_it_had(recorded: RecordedDeployment) -> None:
    """To the time between two looks at who is there."""
    start_s, end_s = recorded.observed_s
    there = crossings().between(start_s, end_s)
    there = there.take(there.leave_s - np.maximum(there.enter_s, start_s) > 0.2)
    found = recorded.crossings
    assert abs(len(found) - len(there)) <= 1  # one may come as the last round ends
    names = {
        str(int(i) + 1): (enter, leave)
        for i, enter, leave in zip(there.vehicle, there.enter_s, there.leave_s, strict=True)
    }
    for name, enter_s, leave_s in zip(found.vehicle, found.enter_s, found.leave_s, strict=True):
        assert enter_s == pytest.approx(max(names[name][0], start_s), abs=0.1)
        assert leave_s == pytest.approx(min(names[name][1], end_s), abs=0.1)


def test_measured_delays_are_those_that_were_imposed(recorded: RecordedDeployment) -> None:
    assert recorded.transfer_s == pytest.approx(2.0, abs=0.03)
    assert recorded.law.min_step_s == pytest.approx(0.2, abs=0.01)
    answers = recorded.seen.ended.sum()
    assert abs(recorded.law.extra_step_s - 0.2) < 4 * 0.2 / np.sqrt(answers)  # one recording in 15,000 is beyond


def test_a_deployment_that_was_killed_tells_the_same(tmp_path: Path, recorded: RecordedDeployment) -> None:
    settings = deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE)
    with pytest.raises(Killed):
        deployed(settings, 10)
    again = read_deployment(deployed(replace(settings, resume=True)))
    assert again.crossings.vehicle.tolist() == recorded.crossings.vehicle.tolist()
    np.testing.assert_allclose(again.crossings.enter_s, recorded.crossings.enter_s, atol=0.1)
    np.testing.assert_allclose(again.crossings.leave_s, recorded.crossings.leave_s, atol=0.1)
    differs = np.abs(again.rounds.uploads - recorded.rounds.uploads).sum()  # where a look decides about a deadline
    assert differs <= 2


# ---- replays ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hindsight(recorded: RecordedDeployment) -> Hindsight:
    return in_hindsight(recorded, ["10,6", "5,12", "20,15", "anytime:8", "anytime:8,knows=leaving"], DRAWS)


def test_the_replay_of_what_was_run_agrees_with_what_happened(hindsight: Hindsight) -> None:
    """Of recordings at most 7 % are beyond all draws; as the law is from the same recording, far fewer."""
    assert hindsight.disagreement is None
    assert hindsight.false_alarm == pytest.approx(4 / 61)
    same = hindsight.plans[0]
    assert same.rounds.tolist() == hindsight.as_it_was.rounds.tolist() == [len(hindsight.recorded.rounds)] * DRAWS
    np.testing.assert_allclose(same.uploads, hindsight.as_it_was.uploads)
    np.testing.assert_allclose(same.valid_steps_per_s, hindsight.as_it_was.valid_steps_per_s)


@pytest.mark.parametrize(
    ("place", "asked"),
    [
        (1, FixedPlan(5, 12.0)),
        (2, FixedPlan(20, 15.0)),
        (3, FixedPlan(AsManyAsFit(), 8.0)),
        (4, FixedPlan(AsManyAsFit("leaving"), 8.0)),
    ],
)
def test_another_plan_is_as_in_simulation_of_the_true_road(hindsight: Hindsight, place: int, asked: FixedPlan) -> None:
    """The true mean lies among replays, which know the law from one recording: by chance it does not once in 30."""
    truth, replayed = simulated(asked, hindsight.recorded), hindsight.plans[place]
    for column, drawn in enumerate((replayed.uploads, replayed.valid_steps_per_s)):
        assert drawn.min() < truth[:, column].mean() < drawn.max()
        assert drawn.mean() == pytest.approx(truth[:, column].mean(), rel=0.1)
        assert drawn.std() == pytest.approx(truth[:, column].std(), rel=0.6)


def test_plans_meet_the_same_draws(recorded: RecordedDeployment, hindsight: Hindsight) -> None:
    """One plan more or less shifts no other's, and the same seed gives the same."""
    alone = in_hindsight(recorded, ["20,15"], DRAWS)
    assert alone.plans[0].uploads.tolist() == hindsight.plans[2].uploads.tolist()
    other = in_hindsight(recorded, ["20,15"], DRAWS, seed=1)
    assert other.plans[0].uploads.tolist() != hindsight.plans[2].uploads.tolist()


def test_the_conclusion_names_the_best(hindsight: Hindsight) -> None:
    means = {each.name: each.valid_steps_per_s.mean() for each in hindsight.plans}
    assert hindsight.best.name == max(means, key=means.__getitem__)
    assert hindsight.conclusion.startswith(f"The best of these, {hindsight.best.name}, would have given ")
    gain = hindsight.best.gain_over(hindsight.as_it_was)
    assert gain.low < gain.value < gain.high


def test_an_anytime_deployment_is_replayed_as_it_was(tmp_path: Path) -> None:
    again = read_deployment(deployed(deployment(ROAD, tmp_path / "run", "anytime:8", scale=SCALE)))
    seen = in_hindsight(again, ["10,6"], DRAWS)
    assert seen.disagreement is None
    assert seen.as_it_was.fits
    truth = simulated(FixedPlan(10, 6.0), again)
    assert seen.plans[0].valid_steps_per_s.mean() == pytest.approx(truth[:, 1].mean(), rel=0.1)


def test_an_adaptive_deployment_is_replayed_order_by_order(tmp_path: Path) -> None:
    """It begins with the plan for vehicles that are four times as slow as those that come."""
    road, plan = ROAD.with_values({"traffic.speed_mps": 5.0}), "adaptive:every_s=20,evidence=2"
    again = read_deployment(deployed(deployment(road, tmp_path / "run", plan, scale=SCALE)))
    assert len(set(again.rounds.local_steps.tolist())) > 1
    seen = in_hindsight(again, [], DRAWS)
    assert set(seen.as_it_was.rounds.tolist()) == {float(len(again.rounds))}
    assert seen.disagreement is None


def test_delays_that_a_replay_cannot_know_are_told(tmp_path: Path) -> None:
    """Two kinds of vehicles by turns: for an hour all answer at once, then nobody does. Uploads are never so few."""
    rows, lines = [], [line("started", 0, 0.0, unix_s=0.0, scale=1.0)]
    for number in range(200):
        start_s, quick = 10.0 * number, number < 100
        for node in range(10):
            lines.append(line("began", number, start_s, f"{number} {node}"))
            if quick:
                lines.append(line("uploaded", number, start_s + 6, f"{number} {node}", compute_s=4.0))
            lines.append(line("left", number, start_s + 9.9, f"{number} {node}"))
        lines.append(line("ended", number, start_s + 10, overshoot_s=0.0))
        row = {"start_s": start_s, "end_s": start_s + 10, "local_steps": 4, "present": 10, "uploads": 10 * quick}
        rows.append(row)
    seen = in_hindsight(read_deployment(write_deployment(tmp_path, ROAD, rows, lines)), [], DRAWS)
    assert seen.disagreement is not None
    assert "valid local steps per second, where 0.2 happened" in seen.disagreement
    assert seen.to_dict()["agrees"] is False
    assert seen.to_dict()["notices"][0] == seen.disagreement


# ---- the command -----------------------------------------------------------------------------------------


def replay(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["replay", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_the_table_tells_what_happened_and_what_would_have(fixed: Path) -> None:
    told = replay(str(fixed), "--plan", "5,12", "--plan", "anytime:8", "--draws", "20")
    assert [row.split()[0] for row in told.splitlines()[2:4]] == ["what", "as"]
    assert "5,12" in told
    assert "The best of these, anytime:8, would have given" in told
    assert "attempts were cut off and count as longer" in told


def test_json_has_it_all(fixed: Path, recorded: RecordedDeployment) -> None:
    told = json.loads(replay(str(fixed), "--plan", "5,12", "--draws", "20", "--json"))
    assert told["agrees"] is True
    assert told["happened"]["rounds"] == len(recorded.rounds)
    assert [(each["plan"], each["local_steps"], each["round_s"]) for each in told["plans"]] == [("5,12", 5, 12.0)]
    assert told["plans"][0]["gain_interval"][0] < told["plans"][0]["gain"] < told["plans"][0]["gain_interval"][1]


def test_by_default_the_recordings_own_plan_and_anytime(fixed: Path, recorded: RecordedDeployment) -> None:
    told = json.loads(replay(str(fixed), "--draws", "20", "--json"))
    best = plan(recorded.scenario, recorded.crossings)
    assert [each["plan"] for each in told["plans"]] == ["mobfl", "anytime"]
    assert (told["plans"][0]["local_steps"], told["plans"][0]["round_s"]) == (best.local_steps, best.round_s)


@pytest.mark.parametrize("name", ["trace.csv", "trace.parquet"])
def test_the_trace_can_be_planned_from(tmp_path: Path, fixed: Path, recorded: RecordedDeployment, name: str) -> None:
    file = tmp_path / name
    told = replay(str(fixed), "--out", str(file))
    assert told.startswith(f"{len(recorded.crossings)} crossings in {file}")
    np.testing.assert_allclose(read_crossings(file).leave_s, recorded.crossings.leave_s)
    planned = CliRunner().invoke(cli, ["plan", str(tmp_path / "trace.scenario.toml"), "--trace", str(file), "--json"])
    best = plan(recorded.scenario, recorded.crossings)
    assert (json.loads(planned.output)["local_steps"], planned.exit_code) == (best.local_steps, 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--plan", "fedasync"), "--plan must have rounds of a length T to be replayed, got 'fedasync'"),
        (("--plan", "0,5"), "--plan"),
        (("--plan", "anytime:8,knows=predicted"), "--plan anytime:8,knows=predicted must not need positions"),
        (("--plan", "10,9999"), "--plan 10,9999 must have rounds no longer than the recording's"),
        (("--draws", "3"), "--draws must be >= 20, got 3"),
        (("--seed", "-1"), "--seed must be >= 0, got -1"),
        (("--out", "trace.txt"), "crossings are written to .csv or .parquet, got 'trace.txt'"),
        (("--out", "trace.csv", "--json"), "--json goes with plans that are replayed, got --out without --plan"),
    ],
)
def test_wrong_input_gets_a_sentence(fixed: Path, arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace(".", r"\.")):
        CliRunner().invoke(cli, ["replay", str(fixed), *arguments], catch_exceptions=False)
    assert not Path("trace.csv").exists()


def test_vehicles_say_how_long_their_steps_took(fixed: Path) -> None:
    told = [event for event in read_events(fixed) if event["kind"] == "uploaded"]
    assert all(event["compute_s"] >= 10 * 0.2 for event in told)


def test_a_log_that_simulation_tells_is_replayed_as_well(tmp_path: Path) -> None:
    """Without a server: three thousand seconds, three of four attempts cut off."""
    random = np.random.default_rng(5)
    enter_s = np.sort(random.uniform(0.0, 3000.0, 450))
    traffic = Crossings(np.arange(450), enter_s, enter_s + 20.0)
    folder = simulated_deployment(tmp_path, ROAD, traffic, FixedPlan(24, 11.8), 3)
    seen = in_hindsight(read_deployment(folder), ["10,6"], DRAWS)
    assert seen.disagreement is None
