"""The guide, taken at its word: three machines do what its page says, with the page's own commands."""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from machines import Machine, machines, until
from mobfl.deploy.events import read_events
from places import ROOT, TESTS

PAGE = ROOT / "docs/guides/deployment.md"
TOOLS = [tool for tool in ("ip", "tc", "unshare", "nginx", "ssh-keygen") if not shutil.which(tool)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces"),
    pytest.mark.skipif(bool(TOOLS), reason=f"needs {', '.join(TOOLS)}"),
]
STAYS = "# stays alive"
STRANGER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from strangers import CONTROL, RUNTIME, ask
for kind, calls in (("control", CONTROL), ("runtime", RUNTIME)):
    for call in calls:
        print(ask(8443, f"/v1/{{kind}}/{{call}}", ca=Path("/srv/ca.crt"), host="station.example")[0])
"""


def guide() -> dict[str, list[str]]:
    """The page's commands by the step that they stand in."""
    text = PAGE.read_text(encoding="utf-8").partition("## On several machines")[2].partition("\n## ")[0]
    steps = re.split(r"^\*\*(\d)\. ", text, flags=re.MULTILINE)[1:]
    console = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    return {number: console.findall(said) for number, said in zip(steps[::2], steps[1::2], strict=True)}


@dataclass
class Road:
    station: Machine
    vehicles: list[Machine]
    steps: dict[str, list[str]]

    @property
    def run(self) -> Path:
        return self.station.srv / "run"

    def uploads(self, vehicle: str) -> list[int]:
        return [
            event["round"] for event in self.events() if (event["kind"], event.get("vehicle")) == ("uploaded", vehicle)
        ]

    def events(self) -> list[dict]:
        return list(read_events(self.run)) if (self.run / "events.jsonl").exists() else []

    def until(self, what: str, happened) -> None:
        def tell() -> str:
            said = {machine.name: machine.text()[-2000:] for machine in (self.station, *self.vehicles)}
            return f"{said}; {self.events()[-12:]}"

        until(what, happened, tell)


def named(commands: str, vehicle: Machine) -> str:
    return re.sub(r"\bcar\b", vehicle.name, commands)


def test_every_block_of_the_guide_is_taken() -> None:
    assert {number: len(blocks) for number, blocks in guide().items()} == {
        "1": 1, "2": 1, "3": 1, "4": 1, "5": 2, "6": 1, "7": 0,
    }  # fmt: skip


@pytest.mark.parametrize("way", ["mobfl vehicle", "flower-supernode"])
def test_three_machines_do_what_the_guide_says(way: str) -> None:
    with machines("station", "car", "van") as [station, *vehicles]:
        road = Road(station, vehicles, guide())
        open_station(road)
        register(road)
        hand_out_the_app(road)
        assert_strangers_get_nothing(road)
        drive(road, way)
        go(road)
        road.until("both have uploaded", lambda: all(road.uploads(vehicle.name) for vehicle in vehicles))
        cut_a_link(road)
        assert [status for vehicle in vehicles for status in vehicle.end()] == [0, 0] or way != "mobfl vehicle"
        assert station.end() == [0], station.text()
        assert "is closed" in station.text()


def open_station(road: Road) -> None:
    [commands] = road.steps["1"]
    assert STAYS in commands
    road.station.start(commands)
    road.until("the station is open", lambda: "is open at 0.0.0.0:8443" in road.station.text())
    before = (road.station.srv / "station" / "ca.crt").read_bytes()
    status, said = road.station.run(commands)
    assert (status, "must not be open" in said) == (2, True), said
    assert (road.station.srv / "station" / "ca.crt").read_bytes() == before


def register(road: Road) -> None:
    [[key], [join]] = road.steps["2"], road.steps["3"]
    for vehicle in road.vehicles:
        status, said = vehicle.run(named(key, vehicle))
        assert status == 0, said
        public = vehicle.srv / f"{vehicle.name}.pub"
        before = public.read_bytes()
        status, said = vehicle.run(named(key, vehicle))
        assert (status, "already exists" in said, public.read_bytes()) == (1, True, before), said
        shutil.copy(public, road.station.srv)
        status, said = road.station.run(named(join, vehicle))
        assert (status, "registered successfully" in said) == (0, True), said
        status, said = road.station.run(named(join, vehicle))
        assert (status, "already in use" in said) == (1, True), said


def hand_out_the_app(road: Road) -> None:
    [app] = road.steps["4"]
    status, said = road.station.run(app)
    assert status == 0, said
    status, said = road.station.run(app)
    assert (status, "must be a new or empty folder" in said) == (2, True), said
    for vehicle in road.vehicles:
        shutil.copytree(road.station.srv / "road", vehicle.srv / "road")
        shutil.copy(road.station.srv / "station" / "ca.crt", vehicle.srv)


def assert_strangers_get_nothing(road: Road) -> None:
    """A vehicle's machine reaches neither Control nor Runtime, nor the SuperLink's own port."""
    program = STRANGER.format(tests=str(TESTS))
    status, said = road.vehicles[0].run(f"{sys.executable} - <<'end'\n{program}\nend\n")
    assert (status, set(said.split())) == (0, {"403"}), said
    config = (road.station.srv / "station" / "flower" / "config.toml").read_text()
    [port] = re.findall(r"127\.0\.0\.1:(\d+)", config)
    status, said = road.vehicles[0].run(f"exec 3<> /dev/tcp/station.example/{port}")
    assert (status, "refused" in said.lower()) == (1, True), said


def drive(road: Road, way: str) -> None:
    [commands] = [block for block in road.steps["5"] if way in block]
    assert STAYS in commands
    road.vehicles[1].narrow("1mbit")
    for vehicle in road.vehicles:
        vehicle.start(named(commands, vehicle))
    if way == "mobfl vehicle":
        first = road.vehicles[0]
        road.until("it has joined", lambda: "has joined" in first.text())
        status, said = first.run(named(commands, first))  # its key is at work already
        assert (status, "has joined" in said) == (2, False), said
        assert all(process.poll() is None for process in first.running)


def go(road: Road) -> None:
    [commands] = road.steps["6"]
    status, said = road.station.run(commands)
    assert status == 0, said
    road.until("the first round begins", lambda: any(event["kind"] == "started" for event in road.events()))
    status, said = road.station.run(commands)  # a second server finds the folder in use, says so and ends
    assert status == 0, said
    home = re.findall(r"^export .*$", commands, re.MULTILINE)[0]
    why = "out /srv/run must be a new folder"
    road.until("the second server has ended", lambda: why in road.station.run(f"{home}\nflwr list --format json")[1])


def cut_a_link(road: Road) -> None:
    """The vehicle's uploads stop, the other's go on; when the link is there again so is the vehicle."""
    cut, other = road.vehicles
    cut.link("down")
    until_now, others = len(road.uploads(cut.name)), len(road.uploads(other.name))
    road.until("the other goes on", lambda: len(road.uploads(other.name)) >= others + 2)
    assert len(road.uploads(cut.name)) <= until_now + 1  # one may have been complete, and not yet told
    cut.link("up")
    until_now = len(road.uploads(cut.name))
    road.until("the vehicle is back", lambda: len(road.uploads(cut.name)) > until_now)
    assert not [event for event in road.events() if event["kind"] == "broke"]
