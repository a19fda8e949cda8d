"""Anytime rounds on real nodes: as simulation has them, by a vehicle's own pace, and with strangers among them."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from flwr.app import ConfigRecord, Message
from safetensors.numpy import load_file
from test_deploy_processes import PATHS, SMALL
from test_deployed_rounds import ROAD as LONG_ROAD
from test_deployed_rounds import SCALE, Killed, crossings, deployed, simulated

from deployed_road import StoryClock, deployment
from loopback import loopback
from mobfl import Crossings, InputError, Job, load_scenario, read_history, train
from mobfl.cli import cli
from mobfl.deploy.events import EventLog, read_events
from mobfl.deploy.local.deployment import deploy_locally
from mobfl.deploy.local.fleet import visits_of
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.messages import ANSWER, Answer, TrainingOrder, answer_message, order_message, pack_model, read_order
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.round_loop import Agreement, RoundLoop, RoundSeen, RoundWork, as_rounds
from mobfl.deploy.vehicle.client_app import train as answered
from mobfl.deploy.vehicle.pace import Expected, Pace
from mobfl.deploy.vehicle.trainer import Trainer, TrainerServer
from mobfl.learning.codecs.plain import Plain
from mobfl.learning.rules import merge, rule_named
from mobfl.mobility.recorded import write_crossings
from mobfl.rounds.orders import AsManyAsFit, FixedPlan
from mobfl.rounds.rows import Outcome, joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.history import Row
from mobfl.runs.job import training_site
from mobfl.theory import Delays

ROAD = LONG_ROAD.with_values({"training.duration_s": 120.0})
EVEN = ROAD.with_values({"training.decay_to": 1.0})

# ---- as in simulation -----------------------------------------------------------------------------------------------

PLANS = ["anytime:6", "anytime:9,knows=mean", "anytime:8,knows=leaving,error=0.3"]


@pytest.mark.parametrize("plan", PLANS)
def test_deployed_anytime_rounds_are_simulations(tmp_path: Path, plan: str) -> None:
    """No event of these is nearer to a deadline than the time between two looks."""
    settings = deployment(EVEN, tmp_path / "real", plan, scale=SCALE, vehicles=1000)
    deployed(settings)
    expected = read_history(simulated(plan, tmp_path / "simulated", EVEN))
    got = read_history(tmp_path / "real")
    for column in ("round", "local_steps", "present", "uploads", "rejected"):
        assert got.columns[column].tolist() == expected.columns[column].tolist(), column
    assert got.columns["uploads"].sum() > 20
    for column in ("start_s", "end_s", "loss", "count"):
        np.testing.assert_allclose(got.columns[column], expected.columns[column], rtol=2e-6, err_msg=column)
    for name in ("best", "last"):
        one, other = (load_file(tmp_path / run / f"{name}.safetensors")["w"] for run in ("real", "simulated"))
        np.testing.assert_allclose(one, other, rtol=2e-6)
    real, simulation = (json.loads((tmp_path / run / "run.json").read_text()) for run in ("real", "simulated"))
    assert {key: real[key] for key in ("plan", "rule", "local", "codec")} == {
        key: simulation[key] for key in ("plan", "rule", "local", "codec")
    }
    kept_up = real["results"]["keeping_up"]
    assert kept_up["uploads_due"] == kept_up["uploads"] == expected.columns["uploads"].sum()
    assert_steps_told(tmp_path / "real", settings)


def assert_steps_told(folder: Path, settings: Deployment) -> None:
    """Every upload tells its steps, and whoever sits out says so, as the rows of simulation have it."""
    site = training_site(EVEN, settings.seed, crossings())
    policy = settings.job(settings.build_task(), EVEN, crossings()).server.schedule.policy  # type: ignore[attr-defined]
    blocks = simulate_rounds(site.traffic, policy, site.delays, site.seed, start_s=site.start_s)
    rows, last = joined(list(blocks)).vehicles, int(read_history(folder).columns["round"][-1])
    assert rows is not None
    for kind, outcome in (("uploaded", Outcome.UPLOADED), ("sat_out", Outcome.SAT_OUT)):
        chosen = (rows.outcome == outcome) & (rows.round <= last)
        expected = Counter(zip(rows.round[chosen].tolist(), rows.steps[chosen].tolist(), strict=True))
        assert len(expected) > 3
        told = [event for event in read_events(folder) if event["kind"] == kind]
        assert Counter((event["round"], event.get("steps", 0)) for event in told) == expected


def test_a_rate_that_falls_falls_from_when_a_vehicle_begins(tmp_path: Path) -> None:
    """A look every two milliseconds of the road is all that the two differ by."""
    settings = deployment(
        ROAD, tmp_path / "real", "anytime:9", scale=SCALE, task="deployed_road:rated_task", options={}
    )
    deployed(settings)
    train(Job(settings.build_task(), ROAD, "anytime:9", settings.seed, crossings()), tmp_path / "simulated")
    got, expected = (read_history(tmp_path / run).columns["count"] for run in ("real", "simulated"))
    np.testing.assert_allclose(got, expected, rtol=2e-5)


def test_a_server_that_is_cut_off_goes_on_and_knows_who_has_been_there_since_when(tmp_path: Path) -> None:
    plan = "anytime:6,knows=mean"
    parts = {"rule": "clip+fednova", "codec": "half"}

    def stop(row: Row) -> None:
        if row["round"] == 9:
            raise Killed

    with pytest.raises(Killed):
        deployed(deployment(EVEN, tmp_path / "real", plan, scale=SCALE, **parts), stop)
    deployed(deployment(EVEN, tmp_path / "real", plan, scale=SCALE, resume=True, **parts))
    expected = read_history(simulated(plan, tmp_path / "simulated", EVEN, **parts))
    got = read_history(tmp_path / "real")
    for column in expected.columns.keys() - {"bytes", "energy_j"}:  # a base station does not see how far lost ones got
        np.testing.assert_allclose(got.columns[column], expected.columns[column], rtol=2e-6, err_msg=column)


def test_what_real_vehicles_cannot_know_is_refused_with_a_sentence(tmp_path: Path) -> None:
    asked = ["deploy", "--app", str(tmp_path / "app"), "--out", str(tmp_path / "run"), "--plan"]
    done = CliRunner().invoke(cli, [*asked, "anytime:8,knows=leaving"])
    assert str(done.exception) == (
        "--plan anytime must have knows nothing or mean on real vehicles, which do not know when they leave,"
        " got leaving"
    )
    assert CliRunner().invoke(cli, [*asked, "anytime:8,knows=mean"]).exit_code == 0
    with pytest.raises(InputError, match="must have knows nothing or mean on real vehicles"):
        deployed(deployment(EVEN, tmp_path / "run", "anytime:8,knows=leaving", scale=SCALE, impose=False))


# ---- strangers ------------------------------------------------------------------------------------------------------

MODEL = {"w": np.zeros(3, np.float32)}
T_S, QUICKEST_S = 10.0, 0.5


def saying(steps: Any, sits_out: bool = False, upload: bool = True) -> Any:
    """A vehicle that answers at once, and claims to have taken so many steps."""

    def handle(message: Message, now_s: float) -> tuple[Message, float]:
        order, model = read_order(message)
        trained = Plain().encode({name: values + 1 for name, values in model.items()}, model) if upload else None
        reply = answer_message(message, Answer(order.run, order.round, 4, "v", sits_out=sits_out), trained)
        told = {name: value for name, value in reply.content.config_records[ANSWER].items() if name != "steps"}
        reply.content[ANSWER] = ConfigRecord({**told, **({} if steps is None else {"steps": steps})})
        return reply, now_s + 1.0

    return handle


def one_round(folder: Path, *handles: Any, asked: Any = None) -> tuple[RoundWork, RoundSeen]:
    clock, nodes = StoryClock(), [InProcessNode(i, -1.0, math.inf, each) for i, each in enumerate(handles, 1)]
    agreed = Agreement(10, Plain(), quickest_step_s=QUICKEST_S)
    loop = RoundLoop(InProcessGrid(nodes, clock), clock, "7", EventLog(folder / "events.jsonl"), agreed)
    work = RoundWork(0, 0.0, T_S, asked or AsManyAsFit(), 0.1, MODEL)
    return work, loop.run_round(work)


@pytest.mark.parametrize(
    ("claimed", "counted"),
    [(7, 7), (20, 20), (21, 20), (10**9, 20), (2**62, 20)],
)
def test_a_liar_gains_no_more_than_the_round_could_hold(tmp_path: Path, claimed: int, counted: int) -> None:
    """Ten seconds hold twenty steps of half a second."""
    work, seen = one_round(tmp_path, saying(claimed))
    (upload,) = seen.uploads
    assert upload.local_steps == counted
    block = as_rounds(work, seen.attempts, 2.0)
    assert (block.longest.tolist(), block.steps.tolist(), block.started.tolist()) == ([counted], [counted], [1])
    (event,) = (each for each in read_events(tmp_path) if each["kind"] == "uploaded")
    assert event["steps"] == counted


@pytest.mark.parametrize(
    "claimed", [0, -1, -(10**9), math.nan, math.inf, 3.0, "7", True, None, b"7", [7], ""], ids=repr
)
def test_steps_that_are_none_are_refused(tmp_path: Path, claimed: Any) -> None:
    work, seen = one_round(tmp_path, saying(claimed), saying(5))
    assert seen.refused == ("without steps",)
    assert [upload.local_steps for upload in seen.uploads] == [5]
    block = as_rounds(work, seen.attempts, 2.0)
    assert block.steps.tolist() == [5]


def test_under_the_weights_of_steps_a_liar_counts_as_the_busiest_at_most(tmp_path: Path) -> None:
    _, seen = one_round(tmp_path, saying(10**9), saying(20))
    rule = rule_named("steps")
    ours = [replace(seen.uploads[0], weights={"w": np.full(3, 4.0, np.float32)}), seen.uploads[1]]
    _, merged, reasons = merge(rule, rule.init(MODEL), MODEL, ours)
    assert reasons == []
    np.testing.assert_allclose(merged["w"], 2.5)  # the mean of 4 and 1


def test_who_sits_out_is_no_upload_and_only_anytime_rounds_know_it(tmp_path: Path) -> None:
    work, seen = one_round(tmp_path, saying(0, sits_out=True, upload=False), saying(0, upload=False))
    block = as_rounds(work, seen.attempts, 2.0)
    assert block.vehicles is not None
    assert block.vehicles.outcome.tolist() == [Outcome.SAT_OUT, Outcome.ROUND_OVER]
    assert block.started.tolist() == [1]
    assert [each["kind"] for each in read_events(tmp_path)] == ["began", "began", "sat_out", "gave_up"]
    (tmp_path / "fixed").mkdir()
    work, seen = one_round(tmp_path / "fixed", saying(0, sits_out=True, upload=False), saying(10**9), asked=5)
    assert [upload.local_steps for upload in seen.uploads] == [5]
    assert [each["kind"] for each in read_events(tmp_path / "fixed")] == ["began", "began", "gave_up", "uploaded"]


# ---- a vehicle's own pace -------------------------------------------------------------------------------------------


def test_times_are_expected_as_rfc_6298_says() -> None:
    first = Expected.first(0.4)
    assert (first.mean_s, first.deviation_s, first.most_s) == (0.4, 0.2, pytest.approx(1.2))
    then = first.after(0.8)
    assert then.mean_s == pytest.approx(7 / 8 * 0.4 + 1 / 8 * 0.8)
    assert then.deviation_s == pytest.approx(3 / 4 * 0.2 + 1 / 4 * abs(0.4 - 0.8))


def wish(number: int, left_s: float, received_unix_s: float, **more: Any) -> dict[str, Any]:
    told = {"messages_s": 0.2, "spare_s": 0.0, "spare_round": -1, "local_steps": 10**6}
    return {"vehicle": "v", "round": number, "left_s": left_s, "received_unix_s": received_unix_s, **told, **more}


def test_steps_fit_between_messages_and_never_more_than_are_asked_for() -> None:
    pace = Pace()
    assert pace.steps(wish(0, 100.0, 50.0), 50.0) == 1  # nothing is measured yet
    pace.took(10, 1.0)  # 0.1 s each, expected to take 0.3 s at most, and messages 0.6 s
    assert pace.steps(wish(0, 3.7, 50.0), 50.0) == 10
    assert pace.steps(wish(0, 3.7, 50.0), 51.5) == 5  # it had to wait for its turn
    assert pace.steps(wish(0, 3.7, 50.0, local_steps=3), 50.0) == 3
    assert pace.steps(wish(0, 0.5, 50.0), 50.0) == 0
    assert pace.steps(wish(0, -5.0, 50.0), 50.0) == 0


@pytest.mark.parametrize("clock_off_s", [0.0, -5000.0, 12345.6])
def test_a_vehicle_learns_how_much_time_messages_need_whatever_its_clock_says(clock_off_s: float) -> None:
    """Rounds of 10 s, steps of 0.1 s give or take a tenth, messages of 0.5 to 0.9 s that it is told take 0.2 s."""
    rng, pace, late, taken = np.random.default_rng(5), Pace(), list[bool](), list[int]()
    pace.took(4, 0.4)
    spare_s, answered_round = 0.0, -1
    for number in range(300):
        down_s, up_s = rng.uniform(0.25, 0.45, 2)
        received = 10.0 * number + down_s + clock_off_s
        asked = wish(number, 10.0, received, spare_s=spare_s, spare_round=answered_round)
        steps = pace.steps(asked, received)
        took_s = steps * 0.1 * rng.uniform(0.9, 1.1)
        pace.took(steps, took_s)
        pace.answers(asked, received + took_s)
        spare_s, answered_round = 10.0 - down_s - took_s - up_s, number
        late.append(spare_s < 0)
        taken.append(steps)
    assert np.mean(late[20:]) < 0.03
    assert np.mean(taken[20:]) > 0.75 * 93  # of those that fit if all were known


def test_a_late_answer_leaves_more_time_for_messages() -> None:
    pace = Pace()
    pace.took(10, 1.0)
    before = pace.steps(wish(0, 10.0, 0.0), 0.0)
    pace.answers(wish(0, 10.0, 0.0), 8.0)
    assert pace.steps(wish(1, 10.0, 10.0, spare_s=-1.0, spare_round=0), 10.0) < before  # messages took 3 s


def test_a_bad_hour_does_not_keep_a_vehicle_out_for_good() -> None:
    pace = Pace()
    pace.took(1, 60.0)  # the machine was busy with something else
    assert pace.steps(wish(0, 10.0, 0.0), 0.0) == 0
    tried = [pace.steps(wish(number, 10.0, 0.0), 0.0) for number in range(1, 30)]
    assert 1 in tried


def order_for(number: int, **more: Any) -> TrainingOrder:
    """Of a base station whose clock is an hour ahead."""
    now = 1e9 + 3600.0
    return replace(TrainingOrder("7", number, 0, 50, 0.1, now, now + 5.0), knows="nothing", **more)


def test_the_apps_answer_tells_the_steps_that_it_took_by_its_own_pace(tmp_path: Path) -> None:
    trainer = Trainer.of(deployment(EVEN, tmp_path, "anytime:6", impose=False))
    trainer.warm_up()
    with TrainerServer(trainer, tmp_path / "socket", workers=1) as server:
        import threading

        threading.Thread(target=server.serve_forever, daemon=True).start()
        context: Any = SimpleNamespace(node_config={"trainer": str(tmp_path / "socket"), "vehicle": "v"}, node_id=1)

        def said(order: TrainingOrder) -> tuple[dict[str, Any], bool]:
            InProcessGrid([], StoryClock())  # which says who sends
            message = order_message(1, pack_model(trainer.reference), order, 60.0)
            message.metadata.__dict__["_message_id"] = "1"
            reply = answered(message, context)
            return dict(reply.content.config_records[ANSWER]), bool(reply.content.array_records)

        told, uploaded = said(order_for(0, left_s=30.0))
        assert (told["steps"], told["sits_out"], uploaded) == (50, False, True)  # a step takes next to nothing
        told, uploaded = said(order_for(1, left_s=1.0, messages_s=5.0))
        assert (told["steps"], told["sits_out"], uploaded) == (0, True, False)
        trainer.pace.took(1, 400.0)  # the machine is busy with something else
        told, uploaded = said(order_for(2, left_s=30.0))
        assert (told["sits_out"], uploaded) == (True, False)
        server.shutdown()


# ---- real processes -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_in_processes_vehicles_take_the_steps_of_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is there as a round begins takes as many; who joins later begins when it is seen, which costs some steps."""
    monkeypatch.setenv("PYTHONPATH", PATHS)
    road, t, scale = load_scenario("paper").with_values(SMALL), 8.0, 6.0
    enter = np.array([-20.0, -3.0, 1.0, 6.5, 9.0, 17.0, 22.0, 30.0, 33.5, 49.0])
    those = Crossings(np.array(list("abcdefghij")), enter, enter + 20.0)
    write_crossings(those, tmp_path / "crossings.parquet")
    trace = str(tmp_path / "crossings.parquet")
    settings = deployment(road, tmp_path / "run", f"anytime:{t:g},knows=leaving", scale=scale, trace=trace, vehicles=9)
    site = training_site(road, settings.seed, those)
    deploy_locally(settings, visits_of(site, most=9)[0], workers=1)

    plan, until_s = FixedPlan(AsManyAsFit("leaving"), t), site.start_s + site.duration_s
    blocks = simulate_rounds(site.traffic, plan, Delays.of(road), settings.seed, start_s=site.start_s, until_s=until_s)
    rows = joined(list(blocks)).vehicles
    assert rows is not None
    names = [str(rows.names[i]) for i in rows.vehicle]  # type: ignore[index]
    planned = dict(zip(zip(rows.round.tolist(), names, strict=True), rows.steps.tolist(), strict=True))
    events = [event for event in read_events(tmp_path / "run") if event["kind"] == "uploaded"]
    from_start = [event for event in events if event["attempt"] > 0]
    assert len(from_start) >= 4
    for event in from_start:
        assert event["steps"] == planned[event["round"], event["vehicle"]]
    for event in events:
        assert 1 <= event["steps"] <= planned[event["round"], event["vehicle"]]
    history = read_history(tmp_path / "run").columns
    assert history["local_steps"].max() == max(event["steps"] for event in events)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["plan"]["knows"] == "leaving"


@pytest.mark.slow
def test_in_processes_a_vehicle_stops_in_time_by_its_own_pace(tmp_path: Path) -> None:
    """Nothing is imposed: steps of a twentieth of a second, and messages that take what they take."""
    road = EVEN.with_values({"compute.min_step_s": 0.04, "training.duration_s": 60.0})
    paced = {"task": "deployed_road:paced_task", "options": {"each_s": 0.05}}
    settings = deployment(road, tmp_path / "run", "anytime:6", scale=1.0, impose=False, **paced)
    with loopback(settings, tmp_path) as machines:
        machines.fleet.let_out("one")
        machines.fleet.let_out("two")
        machines.start_server(lead_s=0.0)
        run = machines.out / "run.json"
        machines.until("the run is done", lambda: run.exists() and json.loads(run.read_text())["status"] == "done")
        kinds = ("began", "uploaded", "sat_out", "cut_off", "late", "failed", "dropped")
        counts = {kind: machines.count(kind) for kind in kinds}
    steps = [event["steps"] for event in read_events(tmp_path / "run") if event["kind"] == "uploaded"]
    assert counts["failed"] == counts["dropped"] == 0
    assert counts["cut_off"] <= counts["began"] / 4, counts  # on a busy machine it is careful, and sits out
    assert len(steps) >= 5, counts
    assert 5 < max(steps) <= 150  # what six seconds hold
