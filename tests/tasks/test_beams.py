"""Beam selection: samples from every source, loss and KPI, and what is said of bad data."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from command import but_compiling, mobfl
from mobfl import InputError, TaskRequest, build_task
from mobfl.tasks.beams.generated import generated_samples
from mobfl.tasks.beams.raymobtime import read_raymobtime
from mobfl.tasks.beams.samples import one_hot_targets, seen_from_above, soft_targets
from mobfl.tasks.beams.scores import commonest_beams, scores
from places import DATA

S010 = DATA / "raymobtime" / "s010.npz"


def lidar(count: int = 10) -> np.ndarray:
    grids = np.zeros((count, 20, 200, 10), np.int8)
    grids[:, 2, 105, 4] = -1
    grids[np.arange(count), 7, 10 * np.arange(count) % 200, 1] = -2
    return grids


def beams(count: int = 10) -> np.ndarray:
    return np.random.default_rng(0).random((count, 8, 32))


# Samples --------------------------------------------------------------------------------------------------------------


def test_from_above_the_base_station_hides_the_receiver_and_both_hide_obstacles() -> None:
    grids = np.zeros((1, 20, 200, 10), np.int8)
    grids[0, 0, 0, 3] = 1
    grids[0, 0, 1, [2, 5]] = [1, -2]
    grids[0, 0, 2, [1, 2, 9]] = [-1, -2, 1]
    grids[0, 0, 3, [0, 9]] = [-2, 1]
    assert seen_from_above(grids)[0, 0, :5].tolist() == [1, -2, -1, -2, 0]


def test_soft_targets_follow_the_organisers_rule() -> None:
    """20·log10 of the normalised amplitudes, zero below 6 dB under the row's maximum, then shares."""
    amplitudes = np.random.default_rng(1).random((50, 8, 32)) ** 4
    expected = amplitudes.reshape(50, 256) / amplitudes.max()
    for row in expected:
        level = 20 * np.log10(row + 1e-30)
        row[level < level.max() - 6] = 0
        row /= row.sum()
    assert soft_targets(amplitudes) == pytest.approx(expected, rel=1e-6)
    assert soft_targets(amplitudes).sum(axis=1) == pytest.approx(1.0, abs=1e-6)


def test_a_beam_pairs_index_is_receive_times_32_plus_transmit() -> None:
    amplitudes = np.zeros((1, 8, 32))
    amplitudes[0, 3, 5] = 1.0
    assert soft_targets(amplitudes).argmax() == 3 * 32 + 5


# Loss and KPI ---------------------------------------------------------------------------------------------------------


def test_loss_and_ranks_by_hand() -> None:
    outputs = np.zeros((3, 256), np.float32)
    outputs[0, 7] = 1.0  # the best beam first
    outputs[1, :20] = 2.0  # beam 12: twelve of equal height come before it
    outputs[2, :5], outputs[2, 9] = 3.0, 1.0  # beam 9: after five
    found = scores(outputs, one_hot_targets(np.array([7, 12, 9])), "sample")
    assert (found["top_1"], found["top_5"], found["top_10"]) == (1 / 3, 1 / 3, 2 / 3)


def test_the_loss_is_pytorchs_cross_entropy_and_the_papers_a_256th_of_it() -> None:
    rng = np.random.default_rng(2)
    outputs = 5 * rng.standard_normal((40, 256)).astype(np.float32)
    targets = soft_targets(rng.random((40, 8, 32)))
    exact = torch.nn.functional.cross_entropy(torch.from_numpy(outputs).double(), torch.from_numpy(targets).double())
    assert scores(outputs, targets, "sample")["loss"] == pytest.approx(exact.item(), rel=1e-6)
    assert scores(outputs, targets, "paper")["loss"] == pytest.approx(exact.item() / 256, rel=1e-6)
    nothing_known = scores(np.zeros((40, 256), np.float32), targets, "paper")["loss"]
    assert nothing_known == pytest.approx(np.log(256) / 256, rel=1e-6)  # 0.0217, where the author's curves start


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_outputs_that_are_not_finite_are_misses(value: float) -> None:
    outputs = np.zeros((4, 256), np.float32)
    outputs[:, 7] = 1.0
    outputs[1:3] = value  # all of them
    outputs[3, 7] = value  # the best beam's alone
    found = scores(outputs, one_hot_targets(np.full(4, 7)), "sample")
    assert (found["top_1"], found["top_5"], found["top_10"]) == (0.25, 0.25, 0.25)
    assert np.isnan(found["loss"])


def test_top_k_is_what_sorting_says() -> None:
    rng = np.random.default_rng(3)
    outputs, labels = rng.standard_normal((200, 256)).astype(np.float32), rng.integers(256, size=200)
    order = np.argsort(-outputs, axis=1)
    found = scores(outputs, one_hot_targets(labels), "sample")
    for k in (1, 5, 10):
        assert found[f"top_{k}"] == np.mean([label in row[:k] for label, row in zip(labels, order, strict=True)])


def test_the_floor_is_what_the_commonest_beams_of_training_score() -> None:
    training = np.array([9] * 5 + [3] * 4 + [7] * 3 + [1] * 2 + [2] * 2 + [0])
    assert commonest_beams(training, np.array([9, 3, 2, 200])) == {"top_1": 0.25, "top_5": 0.75, "top_10": 0.75}


# The generated street -------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOBFL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_generated_samples_are_made_once(cache: Path) -> None:
    made: list[int] = []
    train, validation = generated_samples(5, 60, 20, "soft", made.append)
    assert (len(train), len(validation), made[-1]) == (60, 20, 80)
    stored = [file.name for file in cache.iterdir()]
    assert stored == ["street-1-5-60-20.npz"]
    again, _ = generated_samples(5, 60, 20, "soft", lambda _: pytest.fail("made again"))
    assert again.fingerprint() == train.fingerprint()
    hard, _ = generated_samples(5, 60, 20, "one-hot")
    assert (hard.labels == train.labels).all()
    assert set(np.unique(hard.targets)) == {0.0, 1.0}
    assert (train.grids[:, 2, 105] == -1).all()
    assert ((train.grids == -2).sum(axis=(1, 2)) <= 1).all()


def test_a_damaged_cache_is_made_again(cache: Path) -> None:
    train, _ = generated_samples(5, 60, 20, "soft")
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    again, _ = generated_samples(5, 60, 20, "soft")
    assert again.fingerprint() == train.fingerprint()


# Raymobtime -----------------------------------------------------------------------------------------------------------


def organisers(folder: Path, count: int = 10) -> Path:
    for part in ("train", "validation"):
        for name, arrays in (
            ("lidar_input/lidar", {"input": lidar(count)}),
            ("beam_output/beams_output", {"output_classification": beams(count)}),
            ("coord_input/coord", {"coordinates": np.arange(2.0 * count).reshape(count, 2)}),
        ):
            file = folder / "baseline_data" / f"{name}_{part}.npz"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(file, **arrays)
    return folder


def archive(file: Path, count: int = 10, **changes: object) -> Path:
    arrays = {"LIDAR": lidar(count), "Y": np.eye(256)[np.arange(count)], "POS": np.ones((count, 3))}
    np.savez_compressed(file, **{k: v for k, v in (arrays | changes).items() if v is not None})  # type: ignore[arg-type]
    return file


def test_the_organisers_folder(tmp_path: Path) -> None:
    train, validation = read_raymobtime(organisers(tmp_path), "auto")
    assert (len(train), len(validation)) == (10, 10)
    assert (train.labels == beams().reshape(10, 256).argmax(axis=1)).all()
    assert train.targets == pytest.approx(soft_targets(beams()))
    assert train.places.tolist() == list(range(1, 20, 2))
    for file in tmp_path.rglob("coord_*.npz"):
        file.unlink()
    seen, _ = read_raymobtime(tmp_path, "one-hot")
    assert seen.places.tolist() == [429.0 + 1.25 * 10 * k for k in range(10)]  # where the grid shows the receiver


def test_the_organisers_table_of_receivers_gives_the_places(tmp_path: Path) -> None:
    organisers(tmp_path)
    for file in tmp_path.rglob("coord_*.npz"):
        file.unlink()
    rows = ["Val,EpisodeID,SceneID,VehicleArrayID,VehicleName,x,y,z,rays,LOS"]
    for k in range(20):
        rows += [f"V,{k},0,0,flow1.{k},750.5,{500.25 + k},1.59,25,LOS=1", f"I,{k},0,1,flow2.{k},1.0,2.0,1.59,0,LOS=0"]
    table = tmp_path / "CoordVehiclesRxPerScene_s008.csv.gz"
    table.write_bytes(gzip.compress("\n".join(rows).encode()))
    train, validation = read_raymobtime(tmp_path, "auto")
    assert train.places.tolist() == [500.25 + k for k in range(10)]
    assert validation.places.tolist() == [510.25 + k for k in range(10)]
    table.write_bytes(gzip.compress("\n".join(rows[:-4]).encode()))
    with pytest.raises(InputError, match=r"must have as many rows with Val = V as samples \(10 \+ 10\), got 18"):
        read_raymobtime(tmp_path, "auto")
    for content in (b"", b"not gzip", gzip.compress(b"Val,y\nV,north\n"), gzip.compress(b"a,b\n1,2\n")):
        table.write_bytes(content)
        with pytest.raises(InputError, match="CoordVehiclesRxPerScene"):
            read_raymobtime(tmp_path, "auto")


@pytest.mark.skipif(not S010.exists(), reason=f"the data set {S010} is not there")
def test_the_real_table_of_receivers() -> None:
    from mobfl.tasks.beams.raymobtime import _valid_receivers

    assert len(_valid_receivers(S010.parent / "CoordVehiclesRxPerScene_s008.csv.gz")) == 9234 + 1960


def test_an_archive_is_split_in_the_order_of_its_scenes(tmp_path: Path) -> None:
    train, validation = read_raymobtime(archive(tmp_path / "s.npz"), "auto")
    assert (train.labels.tolist(), validation.labels.tolist()) == (list(range(8)), [8, 9])
    assert len(read_raymobtime(tmp_path, "one-hot")[0]) == 8  # its folder does as well


def spoilt(array: np.ndarray, value: object) -> np.ndarray:
    array = array.astype(float)
    array[3].flat[2] = value
    return array


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"LIDAR": None}, "must hold the array LIDAR, got Y, POS"),
        ({"LIDAR": lidar()[:, :, :, :9]}, r"LIDAR must be numbers with the shape \(samples, 20, 200, 10\), got int8"),
        ({"LIDAR": spoilt(lidar(), 2)}, "LIDAR must be -2, -1, 0 or 1 in every cell, got something else in sample 3"),
        ({"LIDAR": spoilt(lidar(), np.nan)}, "LIDAR must be -2, -1, 0 or 1 in every cell"),
        ({"Y": np.eye(256)[:9]}, r"must have as many samples as .*s.npz \(10\), got 9"),
        ({"Y": np.eye(300)[:10]}, r"Y must be numbers with the shape \(samples, 256\), got float64 \(10, 300\)"),
        (
            {"Y": spoilt(np.eye(256)[:10], 1)},
            "Y must be one-hot, a single 1 among zeros, got something else in sample 3",
        ),
        ({"Y": spoilt(np.eye(256)[:10], np.nan)}, "Y must be one-hot"),
        ({"Y": np.array(["beam"] * 10)}, "Y must be numbers"),
        ({"LIDAR": lidar().astype(complex)}, "LIDAR must be numbers with the shape"),
        ({"LIDAR": lidar()[:0]}, "LIDAR must have at least one sample, got none"),
        ({"POS": spoilt(np.ones((10, 3)), np.inf)}, "POS must be finite, got something else in sample 3"),
        ({"POS": np.array([{"a": 1}] * 10, object)}, "must be an undamaged .npz archive, got Object arrays cannot"),
    ],
)
def test_a_bad_archive_gets_one_sentence(tmp_path: Path, changes: dict[str, object], sentence: str) -> None:
    file = archive(tmp_path / "s.npz", **changes)
    with pytest.raises(InputError, match=sentence) as caught:
        read_raymobtime(file, "auto")
    assert len(caught.value.lines) == 1
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("file", "arrays", "sentence"),
    [
        (
            "beam_output/beams_output_train.npz",
            {"output": beams()},
            "must hold the array output_classification, got output",
        ),
        ("beam_output/beams_output_train.npz", {"output_classification": spoilt(beams(), np.nan)}, "must be finite"),
        ("beam_output/beams_output_train.npz", {"output_classification": 0 * beams()}, "positive for some beam pair"),
        (
            "beam_output/beams_output_validation.npz",
            {"output_classification": beams(9)},
            "must have as many samples as",
        ),
        ("coord_input/coord_train.npz", {"coordinates": np.ones((10, 1))}, r"must have the shape \(samples, 2 or 3\)"),
        ("lidar_input/lidar_validation.npz", {"input": lidar()[..., 0]}, "input must be numbers with the shape"),
    ],
)
def test_a_bad_file_of_the_organisers_gets_one_sentence(
    tmp_path: Path, file: str, arrays: dict[str, np.ndarray], sentence: str
) -> None:
    organisers(tmp_path)
    np.savez(tmp_path / "baseline_data" / file, **arrays)
    with pytest.raises(InputError, match=sentence):
        read_raymobtime(tmp_path, "auto")


@pytest.mark.parametrize("keep", [0, 10, 500, -30])
def test_a_truncated_archive_gets_one_sentence(tmp_path: Path, keep: int) -> None:
    file = archive(tmp_path / "s.npz")
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"must be an undamaged .npz archive") as caught:
        read_raymobtime(file, "auto")
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a file or a folder: there is none"):
        read_raymobtime(tmp_path / "s.npz", "auto")
    with pytest.raises(InputError, match=r"must hold lidar_train.npz or exactly one .npz archive, got 0 archives"):
        read_raymobtime(tmp_path, "auto")
    organisers(tmp_path)
    next(tmp_path.rglob("beams_output_validation.npz")).unlink()
    with pytest.raises(InputError, match=r"must hold beams_output_validation.npz, got none"):
        read_raymobtime(tmp_path, "auto")
    with pytest.raises(InputError, match=r"targets must be one-hot for .*, which holds no amplitudes"):
        read_raymobtime(archive(tmp_path / "s.npz"), "soft")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"model": "resnet"}, "option model must be one of 'lidar2d' or 'lidar2d-small', got 'resnet'"),
        ({"targets": "hard"}, "option targets must be one of"),
        ({"training_samples": 0}, "option training_samples must be > 0, got 0"),
        ({"modle": "lidar2d"}, "option modle is not a known key, did you mean model"),
    ],
)
def test_wrong_options_get_a_line(options: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        build_task("beams", TaskRequest(options))


def test_wrong_choices_get_a_line(tmp_path: Path) -> None:
    data = archive(tmp_path / "s.npz")
    with pytest.raises(
        InputError, match=r"task must be one of beams, trajectories, images, .*, got 'beam'; did you mean beams"
    ):
        build_task("beam", TaskRequest(data=data))
    with pytest.raises(InputError, match="backend must be one of auto, fused, torch, got 'jax'"):
        build_task("beams", TaskRequest(data=data, backend="jax"))
    with pytest.raises(InputError, match="device must be cpu or cuda, got 'tpu'"):
        build_task("beams", TaskRequest(data=data, backend="torch", device="tpu"))
    with pytest.raises(InputError, match="backend fused runs on the device cpu, got 'cuda'"):
        build_task("beams", TaskRequest(data=data, backend="fused", device="cuda"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpu_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="device cuda needs a GPU that PyTorch can use"):
        build_task("beams", TaskRequest(data=archive(tmp_path / "s.npz"), device="cuda"))


@pytest.mark.skipif(not S010.exists(), reason=f"the data set {S010} is not there")
def test_the_real_archive() -> None:
    train, validation = read_raymobtime(S010, "auto")
    assert (len(train), len(validation)) == (5821, 1456)
    both = np.concatenate([train.labels, validation.labels])
    assert len(np.unique(both)) == 101
    commonest = np.sort(np.bincount(both))[::-1]
    assert commonest[:10].sum() / len(both) == pytest.approx(0.68, abs=0.01)
    assert (train.grids[:, 2, 105] == -1).all()


# The command ----------------------------------------------------------------------------------------------------------


SMALL = [
    "--set", "training.samples_per_vehicle=64", "--set", "training.batch_size=16", "--set", "training.duration_s=60",
    "--option", "training_samples=200", "--option", "validation_samples=50", "--plan", "3,6",
]  # fmt: skip


def test_train_beams_on_the_command_line(tmp_path: Path) -> None:
    small = [*SMALL, "--set", "training.loss_scale=sample", "--seed", "2"]
    environment = {"MOBFL_CACHE": str(tmp_path / "cache")}
    done = mobfl("train", "beams", *small, "--out", "a", "--workers", "1", cwd=tmp_path, **environment)
    assert (done.returncode, but_compiling(done)) == (0, [])
    assert "10 rounds" in done.stdout
    assert "commonest beams" in done.stdout
    done = mobfl("train", "beams", *small, "--out", "b", "--json", "--target", "loss=9", cwd=tmp_path, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["time_to_s"] == {"loss=9": 0.0}
    assert result["rounds"] == 10
    for name in ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    run = json.loads((tmp_path / "a" / "run.json").read_text())
    assert run["data"]["data"] == "generated street"
    assert run["results"]["min_loss"] < run["initial"]["loss"]


@pytest.mark.slow
def test_a_run_gives_the_same_bytes_compiled_cached_and_resumed(tmp_path: Path) -> None:
    """Three processes with one cache of compiled code: the first compiles, the second does not, the third is cut off."""
    environment = {"MOBFL_CACHE": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    small = ["train", "beams", *SMALL, "--seed", "3", "--workers", "1"]

    def started(*more: str, errors: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "mobfl", *small, *more]
        kept = os.environ | environment
        return subprocess.Popen(command, cwd=tmp_path, env=kept, stdout=subprocess.DEVNULL, stderr=errors, text=True)

    for name in ("compiled", "cached"):
        process = started("--out", name, errors=subprocess.PIPE)
        _, said = process.communicate()
        assert process.returncode == 0
        lines = [line for line in said.splitlines() if "compil" in line]
        if name == "compiled":
            assert lines[0] == "compiling the task's kernels, which later runs find compiled …"
            assert re.fullmatch(r"compiled for \d+ s", lines[1])
        assert len(lines) == (2 if name == "compiled" else 0)
    process = started("--out", "resumed", "--checkpoint", "0")
    while process.poll() is None:
        run = tmp_path / "resumed" / "run.json"
        if run.exists() and ((json.loads(run.read_text())["results"] or {}).get("rounds") or 0) >= 2:
            process.kill()
    assert process.wait() in (-9, 0)  # 0: it was done before it could be killed
    assert started("--out", "resumed", "--resume").wait() == 0
    for name in ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors"):
        contents = {(tmp_path / run / name).read_bytes() for run in ("compiled", "cached", "resumed")}
        assert len(contents) == 1, name


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["beams", "--data", "none.npz"], 2, "--data none.npz must be a file or a folder: there is none"),
        (["ships"], 2, "TASK must be one of beams, trajectories, images, or MODULE:OBJECT of your own, got 'ships'"),
        (["beams", "--plan", "0,5"], 2, "--plan must be H,T"),
        (["beams", *SMALL, "--target", "loss=nan"], 2, "--target must be NAME=NUMBER, got 'loss=nan'"),
        (["beams", *SMALL, "--option", "foo"], 2, "--option must be KEY=VALUE, got 'foo'"),
        (["beams", *SMALL, "--seed", "-1"], 2, "seed must be >= 0, got -1"),
        (["beams", *SMALL, "--target", "loss"], 2, "--target must be NAME=NUMBER, got 'loss'"),
        (
            ["beams", *SMALL, "--target", "top_3=0.5"],
            2,
            "--target must name one of loss, top_1, top_5, top_10, got 'top_3'",
        ),
        (["beams", *SMALL, "--workers", "0"], 2, "--workers must be >= 1, got 0"),
        (["beams", *SMALL, "--checkpoint", "-1"], 2, "--checkpoint must be >= 0"),
        (["beams", "--set", "link.download_s=30"], 3, "No plan is possible"),
        (["beams", *SMALL, "--resume"], 2, "--out run must hold a run to resume, got none"),
    ],
)
def test_what_cannot_be_trained_gets_one_line_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], status: int, line: str
) -> None:
    environment = {"MOBFL_CACHE": str(tmp_path / "cache"), "MOBFL_DATA": ""}
    done = mobfl("train", *arguments, "--out", "run", cwd=tmp_path, **environment)
    assert (done.returncode, done.stdout) == (status, "")
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_data_are_also_looked_for_where_the_environment_says(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    archive(tmp_path / "sets" / "s.npz", count=100)
    train = ["train", "beams", "--data", "s.npz", *SMALL[:6], "--plan", "3,6", "--out", "run"]
    done = mobfl(*train, cwd=tmp_path, MOBFL_DATA="sets")
    assert (done.returncode, but_compiling(done)) == (0, [])
    done = mobfl(*train, "--option", "data_seed=4", cwd=tmp_path / "sets")
    assert done.returncode == 2
    assert "--option data_seed is the generated street's and must not come with data" in done.stderr


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    done = mobfl("train", "beams", *SMALL, "--out", "run", cwd=tmp_path, MOBFL_CACHE=str(tmp_path / "cache"))
    assert (done.returncode, but_compiling(done)) == (0, [])


@pytest.mark.parametrize("kind", ["f2", ">i2", ">f8", "u4"])
def test_numbers_of_any_kind_are_read(tmp_path: Path, kind: str) -> None:
    grids = lidar()
    grids[grids < 0] = 0
    train, _ = read_raymobtime(archive(tmp_path / "s.npz", LIDAR=grids.astype(kind)), "auto")
    assert train.grids.dtype == np.int8


def test_flipped_bits_get_one_sentence_or_go_unnoticed(tmp_path: Path) -> None:
    good = archive(tmp_path / "s.npz").read_bytes()
    rng, sentences = np.random.default_rng(0), list[str]()
    for _ in range(150):
        spoilt_bytes = bytearray(good)
        spoilt_bytes[rng.integers(len(good))] ^= 1 << int(rng.integers(8))
        (tmp_path / "s.npz").write_bytes(spoilt_bytes)
        try:
            read_raymobtime(tmp_path / "s.npz", "auto")
        except InputError as error:
            sentences.append(str(error))
    assert sentences
    assert all(len(sentence.splitlines()) == 1 for sentence in sentences)
