"""What deployed rounds tell of privacy: the same counts as in simulation, by node, also after being killed."""

import json
from pathlib import Path

import pytest
from flwr.app import Message
from safetensors.numpy import load_file
from test_deployed_rounds import ROAD, SCALE, Killed, deployed, simulated

import deployed_road
from deployed_road import deployment
from mobfl.deploy.messages import Answer, answer_message, read_order
from mobfl.runs.history import Row

RULE = "private:uploads=2,clip=3,noise=1.5"


def told(run: Path) -> dict[str, object]:
    return json.loads((run / "run.json").read_text())["results"]["privacy"]


def test_nodes_are_counted_as_simulation_counts_vehicles(tmp_path: Path) -> None:
    """Cut off once: those who joined before are still counted."""

    def stop(row: Row) -> None:
        if row["round"] == 9:
            raise Killed

    with pytest.raises(Killed):
        deployed(deployment(ROAD, tmp_path / "real", "5,5", scale=SCALE, rule=RULE), stop)
    before = told(tmp_path / "real")
    deployed(deployment(ROAD, tmp_path / "real", "5,5", scale=SCALE, resume=True, rule=RULE))
    assert told(tmp_path / "real") == told(simulated("5,5", tmp_path / "simulated", rule=RULE))
    assert 0 < before["vehicles"] < told(tmp_path / "real")["vehicles"]
    assert told(tmp_path / "real")["most_rounds"] > 1


def test_the_noise_of_a_deployment_cannot_be_drawn_again_from_its_seed(tmp_path: Path) -> None:
    models = []
    for name in ("one", "other"):
        deployed(deployment(ROAD, tmp_path / name, "10,6", scale=SCALE, rule=RULE))
        models.append(load_file(tmp_path / name / "last.safetensors")["w"].tobytes())
    assert models[0] != models[1]


def test_rounds_in_which_every_answer_is_refused_are_noised_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def garbage(vehicle: deployed_road.Vehicle, message: Message, _: float) -> tuple[Message, float]:
        order, _ = read_order(message)
        begin_s = vehicle.clock.start_s + (order.begin_unix_s - vehicle.clock.begins_unix_s) / order.scale
        answer = Answer(order.run, order.round, 30, vehicle.name)
        return answer_message(message, answer, b"no upload at all"), begin_s + 3.0

    monkeypatch.setattr(deployed_road.Vehicle, "__call__", garbage)
    deployed(deployment(ROAD, tmp_path / "run", "10,6", scale=SCALE, rule=RULE))
    results = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    assert results["rejections"]["unreadable"] > 10
    assert results["rounds_with_uploads"] == 0
    assert results["privacy"]["most_rounds"] > 0
    assert load_file(tmp_path / "run" / "last.safetensors")["w"][0] != 0.0
