"""What the fuzz over the readers found once, each by itself."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mobfl import InputError, Scenario
from mobfl.errors import shown
from mobfl.experiments.sweep_file import load_sweep, sweep_from_dict
from mobfl.files.arrays import npz_array
from mobfl.files.bounds import is_there, read_text
from mobfl.files.json import read_json
from mobfl.scenario import load_scenario, parse_setting
from mobfl.tasks.trajectories.argoverse_maps import read_centerlines
from small_files import KINDS, LANES

HUGE = "0x" + "f" * 5000  # more digits than Python turns into text


@pytest.mark.parametrize("key", ["road.length_m", "compute.step_samples", "fleet", "training.split"])
@pytest.mark.parametrize("value", [HUGE, "[" * 300 + "]" * 300, "1979-05-27", '"' + "x" * 10_000 + '"'])
def test_a_setting_that_cannot_be_told_in_full(paper: Scenario, key: str, value: str) -> None:
    if (key, value[0]) == ("training.split", '"'):
        pytest.skip("any text may name a split")
    with pytest.raises(InputError, match=key) as caught:
        paper.with_values(dict([parse_setting(f"{key}={value}")]))
    assert len(str(caught.value)) < 600


def test_values_are_shown_as_far_as_a_sentence_can_hold_them() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(0.5) == "0.5"
    assert "too long" in shown(int(HUGE, 16))
    assert "too long" in shown(deep)
    assert shown("x" * 1000).endswith("… (1002 characters)")


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000])
def test_json_that_is_too_deep_or_too_long(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json must be JSON"):
        read_json(tmp_path / "run.json", "a run's folder")


@pytest.mark.parametrize("content", ["a = " + "[" * 100_000, "a = " + "{a = " * 5000])
def test_toml_that_is_too_deep(tmp_path: Path, content: str) -> None:
    (tmp_path / "deep.toml").write_text(content)
    for load in (load_scenario, load_sweep):
        with pytest.raises(InputError, match=r"deep\.toml' must be TOML"):
            load(tmp_path / "deep.toml")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no file without end")
def test_a_file_without_end_is_not_read_to_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more than 1 MiB"):
        read_text(Path("/dev/zero"), 1 << 20)
    with pytest.raises(InputError, match="scenario '/dev/zero' must be TOML: more than 16 MiB"):
        load_scenario("/dev/zero")
    (tmp_path / "road.toml").write_text('[compute]\nstep_samples = "/dev/zero"\n')
    with pytest.raises(InputError, match="step_samples must be a file with one number per line, got more than 1 MiB"):
        load_scenario(tmp_path / "road.toml")


def test_names_that_no_file_can_have() -> None:
    assert not is_there(Path("x" * 300))
    assert not is_there(Path("a\0b"))
    block = {"tasks": ["images"], "plans": ["mobfl"], "trace": "x" * 300}
    (request,) = sweep_from_dict({"runs": [block]}, data=Path()).requests
    assert request.trace == Path("x" * 300)
    with pytest.raises(InputError, match="must be a file or one of"):
        load_scenario("nowhere/" + "x" * 100)


@pytest.mark.parametrize("task", ["beams", "images", "trajectories"])
def test_data_whose_name_is_too_long(task: str) -> None:
    from mobfl.learning.task import TaskRequest
    from mobfl.tasks.catalogue import build_task

    with pytest.raises(InputError, match=r"data 'xxx.* cannot be read: File name too long"):
        build_task(task, TaskRequest(data=Path("x" * 300)))


@pytest.mark.parametrize(("seconds", "line"), [("-1", 3), ("inf", 3), ("0", 3), ("9" * 5000, 3)])
def test_measured_steps_are_refused_with_their_line(tmp_path: Path, seconds: str, line: int) -> None:
    (tmp_path / "steps.txt").write_text(f"seconds\n0.2\n{seconds}\n")
    (tmp_path / "road.toml").write_text('[compute]\nstep_samples = "steps.txt"\n')
    with pytest.raises(InputError, match=f"each > 0 and <= 1e\\+06, got .* in line {line} of steps.txt"):
        load_scenario(tmp_path / "road.toml")


def test_an_array_that_is_larger_than_it_may_be(tmp_path: Path) -> None:
    """Zeros pack a thousand times: the archive is small, the array is not, and a shape may lie."""
    np.savez_compressed(tmp_path / "a.npz", points=np.zeros(1 << 20))
    with pytest.raises(InputError, match=r"a\.npz: points must have at most 1 MiB, got 8"):
        npz_array(tmp_path / "a.npz", "points", 1 << 20)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("points.npy", header.getvalue())
    with pytest.raises(InputError, match=r"b\.npz"):
        npz_array(tmp_path / "b.npz", "points", 1 << 20)


def test_lanes_that_go_on_for_ever(tmp_path: Path) -> None:
    file = tmp_path / "MIA_lane_centerlines.npz"
    for points, sentence in (
        ([(0.0, 0.0), (1e12, 0.0)], "must lie within 1e"),
        ([(0.0, 0.0), (9e6, 0.0), (0.0, 0.0)], "must have at most 1e"),
    ):
        np.savez(file, points=np.array(points), offsets=np.array([0, len(points)]))
        with pytest.raises(InputError, match=sentence):
            read_centerlines(file)


@pytest.mark.parametrize("far", [1e300, 10**400, float("inf")])
def test_a_boundary_beyond_any_city(tmp_path: Path, far: float) -> None:
    kind, lanes = KINDS["log_map_archive_s1.json"], json.loads(LANES)
    lanes["lane_segments"]["7"]["left_lane_boundary"][0]["x"] = far
    for name, content in (*kind.beside, (kind.name, json.dumps(lanes).encode())):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="lane 7 must be as av2 writes it"):
        kind.read(tmp_path / kind.name)
