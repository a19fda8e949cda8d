"""`mobfl vehicle`: joins, trains, survives what goes wrong, and leaves; with a real SuperLink on loopback."""

import importlib
import inspect
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from test_deploy_processes import ROAD
from test_deploy_security import GuardedLoopback

from deployed_road import deployment
from loopback import Loopback, loopback
from mobfl import InputError, MobflError
from mobfl.cli import cli
from mobfl.deploy.flower_app import write_app
from mobfl.deploy.local.garage import Garage
from mobfl.deploy.local.processes import carrying, free_port
from mobfl.deploy.vehicle import flower, link
from mobfl.deploy.vehicle.settings import Vehicle
from mobfl.deploy.vehicle.waits import Attention, retries_s
from mobfl.learning.weights import Weights

# ---- waits ---------------------------------------------------------------------------------------------------------


def test_a_vehicle_looks_often_when_an_order_is_due_and_rests_while_there_is_none() -> None:
    attention = Attention(joined_unix_s=1000.0)
    assert 0.05 < attention.wait_s(1000.1) <= 0.1  # an order for who has just joined
    assert 0.2 < attention.wait_s(1010.0) <= 0.4  # one may come at any time
    attention.expect(1030.0)
    assert 1.0 < attention.wait_s(1012.0) <= 2.0  # none before the round is over
    assert attention.wait_s(1029.5) == pytest.approx(0.3)  # it does not sleep through the next one's beginning
    assert 0.05 < attention.wait_s(1029.9) <= 0.1
    assert 0.2 < attention.wait_s(1034.0) <= 0.4


def test_calling_again_is_soon_and_jittered_and_never_more_than_two_seconds_apart() -> None:
    waits = [[wait_s for _, wait_s in zip(range(12), retries_s(), strict=False)] for _ in range(50)]
    assert all(0.05 <= each[0] <= 0.1 for each in waits)
    assert all(1.0 <= wait_s <= 2.0 for each in waits for wait_s in each[6:])
    assert len({each[0] for each in waits}) > 40  # vehicles that lost the same link do not call in step


# ---- what is taken from Flower --------------------------------------------------------------------------------------


def test_flower_has_what_a_vehicle_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    given = inspect.signature(flower.pull_and_inflate_object_from_tree).parameters
    assert {"initial_backoff", "backoff_cap", "return_type"} <= set(given)
    assert "timeout" in inspect.signature(flower.FleetHttpClient).parameters
    assert flower.HEARTBEAT_MIN_INTERVAL * flower.HEARTBEAT_PATIENCE > 2 * link._BEAT_S
    monkeypatch.setitem(sys.modules, "flwr.supernode.fleet_http_client", types.ModuleType("another Flower"))
    with pytest.raises(MobflError, match=r"a vehicle needs Flower 1\.41 .*FleetHttpClient"):
        importlib.reload(flower)
    monkeypatch.undo()
    importlib.reload(flower)


# ---- its input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "mobfl vehicle must be given either APP or --trainer SOCKET"),
        (("app", "--trainer", "x"), "mobfl vehicle must be given either APP or --trainer SOCKET"),
        (("--trainer", "x", "--superlink", "station"), "--superlink must be HOST:PORT, got 'station'"),
        (("--trainer", "x", "--superlink", "http://a:80"), "--superlink must be HOST:PORT, got 'http://a:80'"),
        (("--trainer", "x", "--superlink", "a:99999"), "--superlink must be HOST:PORT, got 'a:99999'"),
        (("--trainer", "x", "--name", ""), "--name must be 1 to 80 printable characters, got ''"),
        (("--trainer", "x", "--name", "a\nb"), r"--name must be 1 to 80 printable characters, got 'a\nb'"),
        (("--trainer", "x", "--insecure", "--key", "k"), "--insecure must come without root-certificates and key"),
        (("--trainer", "x", "--key", "none"), "--key none must be a private key's file, got No such file"),
        (("--trainer", "x", "--key", "text"), "--key text must be a private key without a password, got"),
        (
            ("--trainer", "x", "--root-certificates", "none"),
            "--root-certificates none must be a file with certificates, got No such file",
        ),
        (
            ("--trainer", "x", "--root-certificates", "text"),
            "--root-certificates text must be a file with certificates",
        ),
        (("text",), "text must be a folder that mobfl deploy --app wrote"),
    ],
)
def test_wrong_input_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("no key, no certificate, no app")
    with pytest.raises(InputError, match=re.escape(line)):
        CliRunner().invoke(cli, ["vehicle", "--superlink", "a:1", *arguments], catch_exceptions=False)


def test_help_lists_the_command() -> None:
    assert "vehicle " in CliRunner().invoke(cli, ["--help"]).output


# ---- on the road ---------------------------------------------------------------------------------------------------


class Started:
    """`mobfl vehicle` with these arguments, and what it says."""

    def __init__(self, road: Loopback, log: str, *arguments: str, insecure: bool = True) -> None:
        self.temporary = road.logs.parent / f"tmp-{log}"
        self.temporary.mkdir()
        self.mark = f"TMPDIR={self.temporary}"  # which is in the environment of all that it starts
        self._log, address = road.logs / f"{log}.log", f"127.0.0.1:{road.port}"
        words = ("vehicle", *arguments, "--superlink", address, *(["--insecure"] if insecure else []))
        environment = {**road.environment, "TMPDIR": str(self.temporary)}
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mobfl", *words], env=environment, stdout=output, stderr=output
            )

    def said(self, text: str) -> bool:
        return text in self._log.read_text(errors="replace")

    def forked(self) -> int:
        """The process that is the vehicle: it has our command, not the trainer's."""
        ours = Path(f"/proc/{self.process.pid}/cmdline").read_text()
        others = [each for each in carrying(self.mark) if each != self.process.pid]
        return next(each for each in others if Path(f"/proc/{each}/cmdline").read_text() == ours)

    def left(self, number: int = signal.SIGTERM) -> int:
        """Its status; nothing of it may be left."""
        self.process.send_signal(number)
        status = self.process.wait(60)
        assert carrying(self.mark) == []
        assert list(self.temporary.iterdir()) == []
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def nodes_that(road: Loopback, kind: str, vehicle: str) -> set[str]:
    return {event["node"] for event in road.see() if event["kind"] == kind and event["vehicle"] == vehicle}


def test_a_crash_costs_one_order_and_a_name_may_be_there_twice(tmp_path: Path) -> None:
    """Two vehicles of one name, each with its own trainer; one's trainer crashes in its first training."""
    settings = deployment(ROAD.with_values({"training.duration_s": 600.0}), tmp_path / "run", "10,5", scale=1.0)
    write_app(tmp_path / "app", settings)
    crashes = {"task": "deployed_road:crashing_task", "options": {"mark": str(tmp_path / "crashed")}}
    write_app(tmp_path / "crashing", replace(settings, **crashes))
    with loopback(settings, tmp_path) as road:
        whole = Started(road, "whole", str(tmp_path / "app"), "--name", "twin")
        broken = Started(road, "broken", str(tmp_path / "crashing"), "--name", "twin")
        try:
            road.start_server(lead_s=0.0)
            road.until("both upload", lambda: len(nodes_that(road, "uploaded", "twin")) == 2)
            assert (tmp_path / "crashed").exists()
            assert broken.said("an order could not be carried out: TrainerError: the other side hung up")
            assert broken.said("the trainer has ended by itself, with status 7: starting it again")
            os.kill(broken.forked(), signal.SIGKILL)
            road.until("it is let out again", lambda: broken.said("twin has ended by itself, with status -9"))
            road.until("a third node uploads", lambda: len(nodes_that(road, "uploaded", "twin")) == 3)
            assert not whole.said("has ended by itself")
            assert [each.left() for each in (whole, broken)] == [0, 0]
            road.until("the base station sees it", lambda: road.count("left") >= 2)
        finally:
            whole.close()
            broken.close()


def test_told_to_leave_in_the_middle_of_training(tmp_path: Path) -> None:
    """Three vehicles that were there before their SuperLink; each gets another signal while it trains."""
    asked, go_on = list[str](), threading.Event()

    def say(vehicle: str, told: dict[str, Any], weights: Weights) -> tuple[dict[str, Any], Weights]:
        asked.append(vehicle)
        go_on.wait(600)
        return told, weights

    settings = deployment(ROAD.with_values({"training.duration_s": 600.0}), tmp_path / "run", "10,200", scale=1.0)
    signals = {"one": signal.SIGTERM, "two": signal.SIGINT, "three": signal.SIGHUP}
    with loopback(settings, tmp_path, say) as road:
        road.kill_superlink()
        words = ("--trainer", str(tmp_path / "trainer"), "--name")
        vehicles = {name: Started(road, name, *words, name) for name in signals}
        try:
            for each in vehicles.values():
                road.until("it says so", lambda each=each: each.said("no answer from the SuperLink 127.0.0.1:"))
            road.start_superlink()
            for name, each in vehicles.items():
                road.until("it joins", lambda name=name, each=each: each.said(f"{name} has joined 127.0.0.1:"))
            road.start_server(lead_s=0.0)
            road.until("all train", lambda: len(set(asked)) == 3)
            for name, number in signals.items():
                assert vehicles[name].left(number) == 0  # though the training goes on until the test is over
                assert vehicles[name].said(f"{name} has left 127.0.0.1:")
            road.until("all have left", lambda: road.count("left") == 3)
        finally:
            go_on.set()
            for each in vehicles.values():
                each.close()


def test_a_link_on_which_nothing_moves_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody listens, takes what is sent and says nothing: as when a vehicle is out of reach."""
    monkeypatch.setattr(link, "_ASKING_S", 0.2)
    said, enough = list[str](), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        vehicle = Vehicle("car", f"127.0.0.1:{silent.getsockname()[1]}", "none", insecure=True)
        called = link.Link(vehicle, lambda line: (said.append(line), enough.set()))
        threading.Thread(target=lambda: enough.wait(20) and called.leave()).start()
        with pytest.raises((httpx.TransportError, RuntimeError)):  # as it leaves in the middle of calling
            called.join()
    assert said == [f"no answer from the SuperLink {vehicle.superlink} (timed out): trying again"]


def test_a_superlink_that_has_forgotten_its_nodes_is_joined_again(tmp_path: Path) -> None:
    settings = deployment(ROAD, tmp_path / "run", "10,5", scale=1.0)
    with loopback(settings, tmp_path) as road:
        vehicle = Started(road, "car", "--trainer", str(tmp_path / "trainer"), "--name", "car")
        try:
            road.until("it joins", lambda: vehicle.said("car has joined"))
            road.kill_superlink()
            road.until("it misses it", lambda: vehicle.said("no answer from the SuperLink"))
            for file in tmp_path.glob("superlink.db*"):
                file.unlink()
            road.start_superlink()
            road.until("it is back", lambda: vehicle.said("has forgotten car: joining again"))
            road.start_server(lead_s=0.0)
            road.until("it uploads", lambda: nodes_that(road, "uploaded", "car"))
            assert vehicle.left() == 0
        finally:
            vehicle.close()


@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="needs openssl and ssh-keygen")
def test_who_is_not_let_in_gets_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_REFUSED_FOR_S", 0.3)
    settings = deployment(ROAD, folder / "run", "10,10", scale=1.0)
    with loopback(settings, folder, kind=GuardedLoopback) as road:
        assert isinstance(road, GuardedLoopback)
        road.register("car")
        stranger = Vehicle("car", f"127.0.0.1:{road.port}", "none", root_certificates=str(road.station / "ca.crt"))
        said = list[str]()

        def refused(**changed: Any) -> str:
            called = link.Link(replace(stranger, **changed), said.append)
            with pytest.raises(InputError) as refusal:
                called.join()
            called.leave()
            return str(refusal.value)

        assert "--key must be registered at the SuperLink" in refused(key=str(folder / "thief"))
        assert "--key must be given, as the SuperLink" in refused()
        assert "--root-certificates must vouch for the SuperLink" in refused(root_certificates=None)
        assert said[0].endswith(f"got {folder / 'thief'}: trying again")
        words = ("--trainer", str(folder / "trainer"), "--name", "car", "--key", str(folder / "car"))
        trusted = ("--root-certificates", str(road.station / "ca.crt"))
        vehicle = Started(road, "car", *words, *trusted, insecure=False)
        try:
            road.until("it joins", lambda: vehicle.said("car has joined"))
            assert "and nobody else be there with it" in refused(key=str(folder / "car"))
            road.start_server(lead_s=0.0)
            road.until("it uploads", lambda: nodes_that(road, "uploaded", "car"))
            assert vehicle.left() == 0
            link_again = link.Link(replace(stranger, key=str(folder / "car")), said.append)
            assert link_again.join() > 0  # who has left may come again at once
            link_again.leave()
        finally:
            vehicle.close()


# ---- the garage ----------------------------------------------------------------------------------------------------


def test_the_garage_lets_nobody_out_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    garage = Garage()
    garage._vehicles["car"] = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
    vehicle = {"name": "car", "superlink": f"127.0.0.1:{free_port()}", "trainer": "none", "insecure": True}
    try:
        garage.obey({"start": vehicle, "log": str(tmp_path / "log")})
        assert "name must be unlike any other's on the road, got car again" in capsys.readouterr().err
    finally:
        os.kill(garage._vehicles["car"], signal.SIGKILL)
        os.waitpid(garage._vehicles["car"], 0)
