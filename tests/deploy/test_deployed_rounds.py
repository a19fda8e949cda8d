"""Deployed rounds are simulation's rounds: who uploads when, to which model, also after being killed."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message
from safetensors.numpy import load_file

from deployed_road import StoryClock, deployment, story_grid
from fake_task import CountingTask
from mobfl import Crossings, InputError, Job, Scenario, Weights, read_history, train
from mobfl.app.runs import RunsFolder
from mobfl.deploy.events import read_events
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.measuring import RoundTrips
from mobfl.deploy.station.server import serve
from mobfl.deploy.station.settling import stretched
from mobfl.deploy.vehicle.trainer import Trainer
from mobfl.runs.history import Row

ROAD = Scenario.from_dict(
    {
        "traffic": {"arrivals_per_s": 0.15},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 240.0, "decay_to": 0.5},
    }
)
SCALE = 100.0  # a look every 0.5 ms of the road


def crossings(seed: int = 1, count: int = 60) -> Crossings:
    random = np.random.default_rng(seed)
    enter = np.cumsum(random.exponential(6.0, count))
    return Crossings(np.arange(count), enter, enter + random.uniform(8.0, 25.0, count))


def simulated(plan: str, out: Path, road: Scenario = ROAD, **parts: str) -> Path:
    job = Job(deployment(road, out, plan).build_task(), road, plan, 3, crossings(), **parts)
    train(job, out)
    return out


def deployed(settings: Deployment, progress=lambda _: None) -> None:  # type: ignore[no-untyped-def]
    """Over a grid in this process whose vehicles come, go and are as slow as in simulation."""
    clock = StoryClock(scale=SCALE)
    grid = story_grid(crossings(), Trainer.of(settings), clock)

    def begin(start_s: float, begins_unix_s: float, scale: float) -> StoryClock:
        clock.start_s, clock.begins_unix_s, clock.scale, clock.passed_s = start_s, begins_unix_s, scale, 0.0
        return clock

    serve(settings, grid, "7", crossings(), begin, lambda *_: RoundTrips(((0.5,),)), progress=progress)


@pytest.mark.parametrize("plan", ["10,6", "24,11.8", "5,30", "adaptive:every_s=20,evidence=2"])
def test_deployed_rounds_are_simulations_rounds(tmp_path: Path, plan: str) -> None:
    """No event of these is nearer to a deadline than the time between two looks."""
    deployed(deployment(ROAD, tmp_path / "real", plan, scale=SCALE))
    expected, got = read_history(simulated(plan, tmp_path / "simulated")), read_history(tmp_path / "real")
    for column in ("round", "local_steps", "present", "uploads", "rejected"):
        assert got.columns[column].tolist() == expected.columns[column].tolist(), column
    assert got.columns["uploads"].sum() > 10
    for column in ("start_s", "end_s", "loss", "count"):
        np.testing.assert_allclose(got.columns[column], expected.columns[column], rtol=2e-6, err_msg=column)
    for name in ("best", "last"):
        one, other = (load_file(tmp_path / run / f"{name}.safetensors")["w"] for run in ("real", "simulated"))
        np.testing.assert_allclose(one, other, rtol=2e-6)
    told = json.loads((tmp_path / "real" / "run.json").read_text())
    assert (told["status"], told["deployment"]["scale"]) == ("done", SCALE)


PARTS = {"rule": "clip+mean+momentum:beta=0.3", "local": "fedprox:mu=0.1", "codec": "half"}


def test_rules_local_training_and_codecs_are_deployed_as_they_are_simulated(tmp_path: Path) -> None:
    """Cut off once: what the rule remembers goes on, too."""

    def stop(row: Row) -> None:
        if row["round"] == 5:
            raise Killed

    with pytest.raises(Killed):
        deployed(deployment(ROAD, tmp_path / "real", "10,6", scale=SCALE, **PARTS), stop)
    deployed(deployment(ROAD, tmp_path / "real", "10,6", scale=SCALE, resume=True, **PARTS))
    expected, got = read_history(simulated("10,6", tmp_path / "simulated", **PARTS)), read_history(tmp_path / "real")
    assert got.columns["uploads"].sum() > 10
    for column in expected.columns.keys() - {"bytes", "energy_j"}:  # a base station does not see how far lost ones got
        np.testing.assert_allclose(got.columns[column], expected.columns[column], rtol=2e-6, err_msg=column)
    assert (got.columns["bytes"] >= got.columns["uploads"] * 2 * 64).all()
    stored = json.loads((tmp_path / "real" / "run.json").read_text())
    assert (stored["local"], stored["codec"]) == ("fedprox:momentum=0,mu=0.1", "half")


@pytest.mark.parametrize("codec", ["topk:share=0.4,memory=1", "quantised:bits=5"])
def test_what_codecs_remember_and_draw_is_the_same_on_nodes(tmp_path: Path, codec: str) -> None:
    more = {"task": "deployed_road:quadratic_task", "options": {}, "codec": codec}
    deployed(deployment(ROAD, tmp_path / "real", "5,6", scale=SCALE, **more))
    settings = deployment(ROAD, tmp_path / "simulated", "5,6", **more)
    train(Job(settings.build_task(), ROAD, "5,6", 3, crossings(), codec=codec), tmp_path / "simulated")
    one, other = (read_history(tmp_path / run) for run in ("real", "simulated"))
    assert one.columns["uploads"].tolist() == other.columns["uploads"].tolist()
    assert one.columns["uploads"].sum() > 20
    np.testing.assert_allclose(one.columns["loss"], other.columns["loss"], rtol=2e-5)


def test_a_trainer_remembers_a_vehicle_until_its_next_visit(tmp_path: Path) -> None:
    """Nothing of an upload that will not be sent, nothing of a visit before, and of no more vehicles than some."""
    more = {"task": "deployed_road:quadratic_task", "options": {}, "codec": "topk:share=0.4,memory=1"}
    trainer = Trainer.of(deployment(ROAD, tmp_path, "5,6", **more))

    def answered(vehicle: str, attempt: int, deadline_unix_s: float = 100.0) -> bytes:
        wish = {"vehicle": vehicle, "attempt": attempt, "local_steps": 2, "learning_rate": 0.1}
        told = {"begin_unix_s": 0.0, "scale": 1.0, "deadline_unix_s": deadline_unix_s}
        return trainer.answer(wish | told, trainer.reference)[1]

    fresh = [answered("a", attempt, deadline_unix_s=0.0) for attempt in (0, 1)]
    assert answered("a", 0) == fresh[0]
    assert answered("a", 1) != fresh[1]
    answered("a", 0)  # another visit
    assert answered("a", 1) != fresh[1]
    for other in range(70):
        answered(f"v{other}", 0)
    assert answered("a", 1) == fresh[1]  # it was forgotten


@pytest.mark.parametrize("parts", [{"local": "fedprox:mu=0.2"}, {"codec": "plain"}])
def test_a_vehicle_with_other_parts_refuses(tmp_path: Path, parts: dict[str, str]) -> None:
    station = Trainer.of(deployment(ROAD, tmp_path, "10,6", **PARTS))
    vehicle = Trainer.of(deployment(ROAD, tmp_path, "10,6", **{**PARTS, **parts}))
    wish = {"vehicle": "a", "attempt": 0, "local_steps": 2, "learning_rate": 0.1, **station.digests}
    station.answer(wish, station.reference)
    (kind,) = parts
    with pytest.raises(InputError, match=f"the base station's {kind} must be this vehicle's"):
        vehicle.answer(wish, vehicle.reference)


class Killed(Exception):  # noqa: N818
    """Stands for kill -9 between two rounds."""


@pytest.mark.parametrize("plan", ["10,6", "adaptive:every_s=20,evidence=2"])
def test_a_server_that_is_cut_off_goes_on_with_the_next_round(tmp_path: Path, plan: str) -> None:
    """To what it would have come to: attempts, model, rows, and what the plan has learnt of the road."""
    for out in ("whole", "killed"):
        (tmp_path / out).mkdir()
    deployed(deployment(ROAD, tmp_path / "whole", plan, scale=SCALE))
    resume = False
    for at in (0, 7, 8):

        def stop(row: Row, at: int = at) -> None:
            if row["round"] == at:
                raise Killed

        with pytest.raises(Killed):
            deployed(deployment(ROAD, tmp_path / "killed", plan, scale=SCALE, resume=resume), stop)
        resume = True
    deployed(deployment(ROAD, tmp_path / "killed", plan, scale=SCALE, resume=True))
    whole, killed = (read_history(tmp_path / out) for out in ("whole", "killed"))
    for column in whole.columns:
        rtol = 0.01 if column == "energy_j" else 1e-6  # a base station knows an answer's time to the next look
        np.testing.assert_allclose(killed.columns[column], whole.columns[column], rtol=rtol, err_msg=column)
    assert [event["round"] for event in read_events(tmp_path / "killed") if event["kind"] == "ended"] == list(
        range(len(whole))
    )


def test_two_vehicles_that_never_answer_are_asked_for_fewer_steps(tmp_path: Path) -> None:
    """Through the server itself: an attempt that brought nothing within its round says that it takes longer."""
    road = ROAD.with_values({"training.duration_s": 300.0})
    settings = deployment(road, tmp_path / "run", "adaptive", scale=1.0, impose=False)
    clock = StoryClock()
    never = [InProcessNode(i, -5.0, np.inf, lambda message, _: (message, np.inf)) for i in (1, 2)]

    def begin(start_s: float, begins_unix_s: float, scale: float) -> StoryClock:
        clock.start_s, clock.begins_unix_s, clock.scale, clock.passed_s = start_s, begins_unix_s, scale, 0.0
        return clock

    serve(settings, InProcessGrid(never, clock), "7", None, begin, lambda *_: RoundTrips(((0.5,),)))
    columns = read_history(tmp_path / "run").columns
    assert columns["uploads"].sum() == 0
    assert len(columns["round"]) >= 10
    assert columns["local_steps"][10:].max() < columns["local_steps"][0]


def test_what_did_not_keep_up_is_in_the_run_and_on_the_page(tmp_path: Path) -> None:
    """Vehicles that are three seconds later than their delays; a run that is cut off counts on."""
    clock, many = StoryClock(scale=SCALE), crossings()
    settings = deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE, vehicles=1000)
    on_time = story_grid(many, Trainer.of(settings), clock)

    def late(node: InProcessNode) -> InProcessNode:
        return replace(node, handle=lambda message, now_s: _later(node.handle(message, now_s), 3.0))

    grid = InProcessGrid([late(node) for node in on_time._nodes.values()], clock)

    def begin(start_s: float, begins_unix_s: float, scale: float) -> StoryClock:
        clock.start_s, clock.begins_unix_s, clock.scale, clock.passed_s = start_s, begins_unix_s, scale, 0.0
        return clock

    def stop(row: Row) -> None:
        if row["round"] == 12:
            raise Killed

    with pytest.raises(Killed):
        serve(settings, grid, "7", many, begin, progress=stop)
    serve(replace(settings, resume=True), grid, "8", many, begin)
    due = read_history(simulated("10,6", tmp_path / "simulated")).columns["uploads"]
    results = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    came = int(read_history(tmp_path / "run").columns["uploads"].sum())
    assert (results["keeping_up"]["uploads_due"], results["keeping_up"]["uploads"]) == (int(due.sum()), came)
    assert came < due.sum() / 2
    (told,) = (each for each in results["notices"] if each.startswith("The machine did not keep up"))
    assert f"{came} of {int(due.sum())} uploads that were due came in time" in told
    assert told in RunsFolder(tmp_path).look()["run"].row["notices"]


def _later(answered: tuple[Message, float], by_s: float) -> tuple[Message, float]:
    return answered[0], answered[1] + by_s


@pytest.mark.parametrize("killed_at", [None, 4, 5])
def test_a_model_that_turns_out_bad_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int | None
) -> None:
    """As soon as the evaluation says so, which runs beside the next round; also by a server killed meanwhile."""
    bad = float(read_history(simulated("10,6", tmp_path / "simulated")).columns["count"][4])
    evaluate = CountingTask.evaluate

    def nan_once(task: CountingTask, model: Weights) -> dict[str, float]:
        scores = evaluate(task, model)
        return {**scores, "loss": math.nan} if abs(scores["count"] - bad) < 1e-4 else scores

    def stop(row: Row) -> None:
        if row["round"] == killed_at:
            raise Killed

    monkeypatch.setattr(CountingTask, "evaluate", nan_once)
    settings = deployment(ROAD, tmp_path / "real", "10,6", scale=SCALE)
    if killed_at is not None:
        with pytest.raises(Killed):
            deployed(settings, stop)
        settings = replace(settings, resume=True)
    deployed(settings)
    history, run = read_history(tmp_path / "real"), json.loads((tmp_path / "real" / "run.json").read_text())
    lost = run["results"]["taken_back"]
    assert lost[0] == 4
    assert np.isnan(history.columns["loss"][4])
    assert np.isfinite(history.columns["loss"][lost[-1] + 2 :]).all()
    assert run["results"]["rejections"]["of a model that was taken back"] > 0
    assert any("taken back" in notice for notice in run["results"]["notices"])
    events = [event for event in read_events(tmp_path / "real") if event["kind"] == "taken_back"]
    assert sorted(number for event in events for number in event["rounds"]) == lost
    assert list(load_file(tmp_path / "real" / "last.safetensors")) == ["w"]
    uploads = history.columns["uploads"] - history.columns["rejected"]
    assert uploads[lost[-1] + 2 :].sum() > 5  # it goes on


def test_a_run_that_is_done_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    settings = deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE)
    deployed(settings)
    before = (tmp_path / "run" / "last.safetensors").read_bytes()
    deployed(replace(settings, resume=True))
    assert (tmp_path / "run" / "last.safetensors").read_bytes() == before


def test_a_run_is_not_begun_over_another(tmp_path: Path) -> None:
    simulated("10,6", tmp_path / "run")
    with pytest.raises(InputError, match="must be a new folder, got a run, which can be resumed"):
        deployed(deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE))


def test_a_server_without_rounds_cannot_be_deployed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="plan must see only the past to be deployed"):
        deployed(deployment(ROAD, tmp_path, "fedasync", scale=SCALE))


def test_messages_that_take_longer_than_delays_stretch_the_road() -> None:
    assert stretched(2.0, 6.8) == 1.0
    assert stretched(6.0, 3.9) == 2.0


def test_what_flower_takes_is_planned_for_where_delays_are_real(tmp_path: Path) -> None:
    """Half a second on the wall, at a hundred wall-clock seconds per second of the road."""
    (tmp_path / "run").mkdir()
    deployed(deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE, impose=False))
    link = json.loads((tmp_path / "run" / "run.json").read_text())["scenario"]["link"]
    assert link["download_s"] + link["upload_s"] == pytest.approx(0.5 / SCALE)


def test_a_run_of_another_kind_cannot_be_resumed_as_a_deployment(tmp_path: Path) -> None:
    simulated("10,6", tmp_path / "run")
    with pytest.raises(InputError, match="must hold a deployment to resume, got another run"):
        deployed(deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE, resume=True))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"scenario": {}, "out": "x", "colour": 1}'])
def test_a_deployment_is_a_table_of_known_keys(text: str) -> None:
    with pytest.raises(InputError, match="deployment must be"):
        Deployment.from_json(text)


def test_a_deployment_travels_as_text(tmp_path: Path) -> None:
    settings = deployment(ROAD, tmp_path, "10,6")
    again = Deployment.from_json(settings.to_json())
    assert again.built_scenario == ROAD
    assert again.to_json() == settings.to_json()


def test_a_second_server_leaves_the_events_of_the_first_alone(tmp_path: Path) -> None:
    from mobfl.deploy.station.server_app import tell_broken
    from mobfl.runs.folder import locked

    with locked(tmp_path):
        tell_broken(tmp_path, ValueError("a run is there"))
        assert list(tmp_path.iterdir()) == []
    tell_broken(tmp_path, ValueError("no data"))
    assert [event["reason"] for event in read_events(tmp_path)] == ["ValueError: no data"]
