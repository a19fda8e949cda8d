"""`mobfl deploy` where nothing needs to be started: its input, who is let on the road, the trainer, the table."""

import io
import socket
import threading
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from deployed_road import deployment
from mobfl import Crossings, InfeasibleError, InputError, Scenario, load_scenario
from mobfl.cli import cli
from mobfl.cli.deployment import _following, deploy
from mobfl.cli.tables.runs import deployment_table
from mobfl.deploy.events import EventLog
from mobfl.deploy.flower_app import write_app
from mobfl.deploy.local.board import Board, EventTail
from mobfl.deploy.local.fleet import Visit, visits_of
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.keeping_up import DueUploads, KeepingUp
from mobfl.deploy.vehicle.trainer import Trainer, TrainerServer
from mobfl.deploy.vehicle.trainer_link import UPLOAD, TrainerError, ask_trainer
from mobfl.learning.codecs.plain import Plain
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.job import training_site

SMALL = Scenario.from_dict({"training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 60.0}})


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "mobfl deploy must be given either --local or --app FOLDER"),
        (("--local", "--app", "x"), "mobfl deploy must be given either --local or --app FOLDER"),
        (("--app", "x", "--trace", "t.csv"), "--trace goes with --local, got --app"),
        (("--local", "--vehicles", "0"), "--vehicles must be >= 1, got 0"),
        (("--local", "--workers", "0"), "--workers must be >= 1, got 0"),
        (("--local", "--scale", "0"), "--scale must be 0.1 to 1000 wall-clock seconds per second, got 0"),
        (("--local", "--plan", "fedasync"), "--plan must see only the past to be deployed"),
        (("--local", "--resume"), "must hold a run to resume, got none"),
        (("--local", "--set", "road.length_m=-1"), "road.length_m must be > 0, got -1"),
    ],
)
def test_wrong_input_gets_a_sentence(tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    with pytest.raises(InputError, match=line.replace("(", r"\(")):
        CliRunner().invoke(cli, ["deploy", *arguments, "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert not (tmp_path / "run").exists()


def test_a_road_without_a_plan_is_status_3(tmp_path: Path) -> None:
    given = ["--local", "--set", "road.length_m=40", "--out", str(tmp_path / "run")]
    with pytest.raises(InfeasibleError, match=r"No plan is possible: the vehicles leave after 2.0 s"):
        CliRunner().invoke(cli, ["deploy", *given], catch_exceptions=False)  # which `main` ends with status 3


def test_the_app_folder_holds_the_whole_deployment(tmp_path: Path) -> None:
    given = ["--app", str(tmp_path / "app"), "highway", "--plan", "adaptive", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(deploy, [*given, "--set", "training.momentum=0.5"], catch_exceptions=False)
    assert done.exit_code == 0
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    components = project["tool"]["flwr"]["app"]["components"]
    assert components == {
        "serverapp": "mobfl.deploy.station.server_app:app",
        "clientapp": "mobfl.deploy.vehicle.client_app:app",
    }
    told = Deployment.of_app(tmp_path / "app")
    assert (told.plan, told.built_scenario.training.momentum, told.impose) == ("adaptive", 0.5, False)
    with pytest.raises(InputError, match="must be a new or empty folder"):
        write_app(tmp_path / "app", told)
    with pytest.raises(InputError, match="must be a folder that mobfl deploy --app wrote"):
        Deployment.of_app(tmp_path)


def test_the_vehicles_app_loads_nothing_heavy() -> None:
    from test_shape import loaded_by

    assert not loaded_by("import mobfl.deploy.vehicle.client_app") & {
        "torch",
        "numba",
        "scipy",
        "pyarrow",
        "matplotlib",
    }


# ---- who is let on the road ----------------------------------------------------------------------------------------


def test_no_more_vehicles_than_the_machine_holds() -> None:
    enter = np.array([0.0, 1.0, 2.0, 3.0, 11.0, 40.0])
    crossings = Crossings(np.arange(6), enter, enter + 10.0)
    visits, left_out = visits_of(training_site(SMALL, 0, crossings), most=2)
    # The first leaves as training begins, the last enters as it ends.
    assert [(visit.name, visit.enter_s) for visit in visits] == [("1", 1.0), ("2", 2.0), ("4", 11.0)]
    assert left_out == 1


def test_every_visit_has_a_name_that_files_can_bear() -> None:
    names, enter = np.array(["first", 'b/../"x', "a", "a", "last"]), np.array([0.0, 5.0, 8.0, 30.0, 50.0])
    visits, _ = visits_of(training_site(SMALL, 0, Crossings(names, enter, enter + 10.0)), most=9)
    assert [visit.name for visit in visits] == ["b_____x", "a", "a.2"]
    assert len({visit.key for visit in visits}) == 3


def test_poisson_traffic_from_before_the_start_to_the_end() -> None:
    visits, left_out = visits_of(training_site(SMALL, 0, None), most=100)
    assert left_out == 0
    assert all(visit.leave_s > 0 and visit.enter_s < 60.0 for visit in visits)
    assert visits == sorted(visits)
    assert isinstance(visits[0], Visit)


# ---- the trainer ---------------------------------------------------------------------------------------------------


@pytest.fixture
def trainer(tmp_path: Path):  # type: ignore[no-untyped-def]
    taught = Trainer.of(deployment(SMALL, tmp_path, "10,6"))
    with TrainerServer(taught, tmp_path / "socket", workers=2) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield str(tmp_path / "socket")
        server.shutdown()


WISH = {"vehicle": "car", "attempt": 1, "local_steps": 3, "learning_rate": 0.1}


def test_a_trainer_answers_with_weights_samples_and_the_delay(trainer: str) -> None:
    told, weights = ask_trainer(trainer, WISH, {"w": np.zeros(1, np.float32)}, 10.0)
    again, same = ask_trainer(trainer, WISH, {"w": np.zeros(1, np.float32)}, 10.0)
    assert told == again
    assert (weights[UPLOAD] == same[UPLOAD]).all()
    assert Plain().decode(weights[UPLOAD].tobytes(), {})["w"].shape == (1,)
    assert 20 <= told["samples"] <= 40
    assert told["delay_s"] > 2.0 + 3 * 0.2
    assert Path(trainer).stat().st_mode & 0o077 == 0  # nobody else may ask


def test_orders_that_are_over_are_not_trained_any_more(tmp_path: Path) -> None:
    """Six of them wait for their turn behind one that takes long: the next order does not wait for them."""
    taught, trained, go = Trainer.of(deployment(SMALL, tmp_path, "10,6")), list[int](), threading.Event()

    with TrainerServer(taught, tmp_path / "socket", workers=1) as server:
        server.trainer = SimpleNamespace(  # type: ignore[assignment]
            answer=lambda wish, _: (trained.append(wish["attempt"]), go.wait(20), ({}, b""))[-1]
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = [{**WISH, "attempt": i, "deadline_unix_s": time.time() + (0.5 if i else 60)} for i in range(7)]
        threads = [threading.Thread(target=_asks, args=(tmp_path / "socket", each)) for each in asked]
        for thread in threads:
            thread.start()
            while not trained:
                time.sleep(0.01)
        for thread in threads[1:]:
            thread.join()  # they were told, while the first is still in training
        assert trained == [0]
        go.set()
        threads[0].join()
        _asks(tmp_path / "socket", {**WISH, "attempt": 7, "deadline_unix_s": time.time() + 60})
        assert trained == [0, 7]
        server.shutdown()


def _asks(path: Path, wish: dict[str, object]) -> None:
    with suppress(TrainerError):
        ask_trainer(str(path), wish, {"w": np.zeros(1, np.float32)}, 30.0)


@pytest.mark.parametrize("model", [{}, {"v": np.zeros(1, np.float32)}, {"w": np.zeros(2, np.float32)}])
def test_a_trainer_says_what_is_wrong_and_lives_on(trainer: str, model: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
    with pytest.raises(TrainerError, match="the model must be the task's"):
        ask_trainer(trainer, WISH, model, 10.0)
    assert ask_trainer(trainer, WISH, {"w": np.zeros(1, np.float32)}, 10.0)


@pytest.mark.parametrize(
    "noise", [b"", b"\0" * 8, b"\xff" * 8, b"GET / HTTP/1.1\r\n\r\n", (20).to_bytes(8, "big") + b"x" * 20]
)
def test_noise_at_its_socket_does_not_stop_a_trainer(trainer: str, noise: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(trainer)
        connection.sendall(noise)
    assert ask_trainer(trainer, WISH, {"w": np.zeros(1, np.float32)}, 10.0)


def test_a_vehicle_without_a_trainer_is_told_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="start mobfl trainer"):
        ask_trainer(str(tmp_path / "nobody"), WISH, {}, 1.0)


# ---- the table -----------------------------------------------------------------------------------------------------


def test_the_table_follows_the_events(tmp_path: Path) -> None:
    log, tail, board = EventLog(tmp_path / "events.jsonl"), EventTail(tmp_path), Board()
    assert tail.new() == []
    log.add("started", 0, 0.0, unix_s=0.0, scale=2.0)
    log.add("began", 0, 0.0, node="123456", vehicle="", attempt=0)
    log.add("began", 0, 1.0, node="7", vehicle="", attempt=0)
    log.add("uploaded", 0, 4.0, node="123456", vehicle="car", attempt=0)
    log.add("left", 0, 5.0, node="7", vehicle="", attempt=0)
    row = {"start_s": 0.0, "end_s": 6.0, "local_steps": 5, "present": 2, "uploads": 1, "rejected": 0}
    log.add("ended", 0, 6.0, overshoot_s=0.01, **row)
    for event in tail.new():
        board.add(event)
    assert board.vehicles == {"123456": "uploaded"}
    assert [row["round"] for row in board.rounds] == [0]
    console = Console(width=100, file=io.StringIO())
    console.print(deployment_table(board))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2 s per second, 2 orders, 1 uploads" in shown
    assert "car uploaded" in shown


def test_a_file_in_the_sockets_place_stays(tmp_path: Path) -> None:
    precious = tmp_path / "notes.txt"
    precious.write_text("years of work")
    with pytest.raises(InputError, match=r"socket .*notes.txt must be a new name or an old socket, got another file"):
        TrainerServer(Trainer.of(deployment(SMALL, tmp_path, "10,6")), precious, 1)
    assert precious.read_text() == "years of work"


# ---- keeping up ------------------------------------------------------------------------------------------------------


def test_uploads_that_were_due_and_did_not_come_are_counted_and_said() -> None:
    """Who should have uploaded is what simulation says, on the same crossings with the same draws."""
    road = load_scenario("paper").with_values({"training.duration_s": 300.0})
    site = training_site(road, 3, None)
    visits, _ = visits_of(site, most=1000)
    due = DueUploads(visits, site.draws)
    traffic = training_site(road, 3, None).traffic  # it can be walked through once
    rounds = next(simulate_rounds(traffic, FixedPlan(10, 12.0), site.delays, 3, start_s=site.start_s))
    spans = [(start_s, start_s + 12.0) for start_s in rounds.start_s[:25].tolist()]
    uploads = rounds.uploads[:25].tolist()
    assert [due.in_round(*span, 10) for span in spans] == uploads
    assert sum(uploads) > 40

    keeping = KeepingUp(DueUploads(visits, site.draws), site.start_s, 3.0)
    for number, (start_s, end_s) in enumerate(spans):
        row = {"start_s": start_s - site.start_s, "end_s": end_s - site.start_s, "local_steps": 10}
        came = uploads[number] // 2
        keeping.add({**row, "uploads": came}, [0.1, 2.5] if number == 1 else [], 0.9 if number == 2 else 0.01)
    told = keeping.describe()
    assert (told["uploads_due"], told["delays_missed"], told["rounds_late"]) == (sum(uploads), 1, 1)
    assert told["behind_s"] == {"median": 2.5, "most": 2.5}
    lost, late = keeping.notices()
    assert lost.startswith(f"The machine did not keep up: {told['uploads']} of {told['uploads_due']} uploads that")
    assert "(--scale, now 3)" in lost
    assert late.startswith("1 of 25 rounds ended late, by up to 0.9 s")


def test_where_all_comes_in_time_nothing_is_said() -> None:
    keeping = KeepingUp(None, 0.0, 1.0)
    keeping.add({"uploads": 0, "start_s": 0.0, "end_s": 1.0, "local_steps": 1}, [], 0.0)
    assert (keeping.notices(), keeping.describe()["uploads_due"]) == ([], None)


def test_stages_are_told_at_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board()
    with _following() as follow:
        follow(board)
        board.stage = "waiting for the server"
        follow(board)
        follow(board)
        board.add({"kind": "measured", "round": -1, "at_s": 0.0, "round_trip_s": 2.81})
        follow(board)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == (
        "", ["Starting …", "Waiting for the server …", "A message takes 2.8 s; planning …"],
    )  # fmt: skip
