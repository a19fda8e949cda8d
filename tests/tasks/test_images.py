"""Pictures: CIFAR-10's files are read as they are described, generated ones repeat, and the CNN learns from them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mobfl.errors import InputError
from mobfl.learning.holdings import check_samples, held_samples
from mobfl.learning.task import SgdTerms, Task, TaskRequest
from mobfl.rng import generator, stream
from mobfl.runs.task_check import check_task
from mobfl.scenario import Scenario
from mobfl.tasks.catalogue import build_task
from mobfl.tasks.images.cifar import FOLDER, read_cifar10
from mobfl.tasks.images.generated import generated_pictures
from mobfl.tasks.images.model import PictureNet
from mobfl.tasks.images.pictures import Pictures, commonest_class
from places import DATA

NAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]


def record(label: int, red: int = 0, green: int = 0, blue: int = 0) -> bytes:
    """A picture of one colour with a white pixel at its upper right."""
    planes = np.repeat(np.array([[red], [green], [blue]], np.uint8), 1024, axis=1)
    planes[:, 31] = 255
    return bytes([label]) + planes.tobytes()


def cifar(folder: Path) -> Path:
    """Four pictures in every file; the file's number is their amount of green."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(NAMES):
        records = (record(label, 10 + label, number, 30) for label in (3, 9, 0, 3))
        (folder / name).write_bytes(b"".join(records))
    return folder


def small(**options: object) -> Task:
    settings = {"width": 8, "training_samples": 1000, "validation_samples": 200}
    return build_task("images", TaskRequest(settings | options))


# CIFAR-10's files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", FOLDER])
def test_files_are_read_as_they_are_described(tmp_path: Path, below: str) -> None:
    cifar(tmp_path / below)
    train, validation = read_cifar10(tmp_path)
    assert (len(train), len(validation)) == (20, 4)
    assert train.labels.tolist() == [3, 9, 0, 3] * 5
    assert train.pixels[:, :, 5, 5].tolist() == [[10 + k, file, 30] for file in range(5) for k in (3, 9, 0, 3)]
    assert (train.pixels[:, :, 0, 31] == 255).all()
    assert (validation.pixels[:, 1, 31, 0] == 5).all()
    assert commonest_class(train, validation) == {"accuracy": 0.5}


def pickled(folder: Path) -> None:
    for name in NAMES:
        (folder / name).rename(folder / name.removesuffix(".bin"))


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (changed("data_batch_2.bin", lambda b: b[:6139]), "batch_2.bin must have a multiple of 3073 bytes, got 6139"),
        (changed("test_batch.bin", lambda _: b""), "test_batch.bin must have a multiple of 3073 bytes, got 0"),
        (
            changed("data_batch_5.bin", lambda b: b[:3073] + b"\x0a" + b[3074:]),
            "data_batch_5.bin must have labels from 0 to 9, got 10 in record 1",
        ),
        (without("data_batch_4.bin"), "test_batch.bin, got FOLDER without data_batch_4.bin"),
        (without("test_batch.bin"), "test_batch.bin, got FOLDER without test_batch.bin"),
        (pickled, "CIFAR-10's binary version (cifar-10-binary.tar.gz), for the pickled one is not read, got FOLDER"),
    ],
)  # fmt: skip
def test_damage_gets_one_sentence(tmp_path: Path, damage: Callable[[Path], None], sentence: str) -> None:
    damage(cifar(tmp_path))
    with pytest.raises(InputError) as caught:
        build_task("images", TaskRequest(data=tmp_path))
    assert sentence.replace("FOLDER", str(tmp_path)) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_pickled_version_is_also_known_by_its_folder(tmp_path: Path) -> None:
    pickled(cifar(tmp_path / "cifar-10-batches-py"))
    with pytest.raises(InputError, match=r"the pickled one is not read, got .*cifar-10-batches-py$"):
        read_cifar10(tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data must be a folder with CIFAR-10, got .*nowhere$"):
        read_cifar10(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"without data_batch_1.bin$"):
        read_cifar10(tmp_path)


def test_a_task_on_files(tmp_path: Path) -> None:
    task = build_task("images", TaskRequest(data=cifar(tmp_path / "mine"), options={"width": 4}))
    assert task.record["data"] == "mine"
    assert (task.record["training_samples"], task.record["validation_samples"]) == (20, 4)
    assert task.baselines == {"commonest class": {"accuracy": 0.5}}


REAL = next((place for place in (DATA / "cifar10" / FOLDER, DATA / "cifar10") if (place / NAMES[0]).exists()), None)


@pytest.mark.skipif(REAL is None, reason=f"{DATA / 'cifar10'} holds no data_batch_1.bin: its to_binary.py makes them")
def test_the_real_pictures() -> None:
    assert REAL is not None
    train, validation = read_cifar10(REAL)
    assert (len(train), len(validation)) == (50_000, 10_000)
    assert np.bincount(train.labels).tolist() == [5000] * 10
    assert np.bincount(validation.labels).tolist() == [1000] * 10
    # As published: 125.3, 123.0 and 113.9.
    assert train.pixels.mean(axis=(0, 2, 3)) == pytest.approx([125.3, 123.0, 113.9], abs=0.5)


# Generated pictures ---------------------------------------------------------------------------------------------------


def same(one: Pictures, other: Pictures) -> bool:
    return np.array_equal(one.pixels, other.pixels) and np.array_equal(one.labels, other.labels)


def test_generated_pictures_repeat_and_more_of_them_only_add() -> None:
    train, validation = generated_pictures(3, 300, 40)
    generated_pictures.cache_clear()
    assert all(map(same, generated_pictures(3, 300, 40), (train, validation)))
    more, others = generated_pictures(3, 700, 20)
    assert same(Pictures(more.pixels[:300], more.labels[:300]), train)
    assert same(Pictures(validation.pixels[:20], validation.labels[:20]), others)
    assert not same(generated_pictures(4, 300, 40)[0], train)
    assert not (train.pixels[:40] == validation.pixels).all(axis=(1, 2, 3)).any()


def test_generated_pictures_are_varied() -> None:
    train, _ = generated_pictures(0, 2000, 10)
    assert train.pixels.shape == (2000, 3, 32, 32)
    assert train.pixels.dtype == np.uint8
    assert np.bincount(train.labels, minlength=10).min() > 150
    assert train.pixels.mean() == pytest.approx(120, abs=6)
    # No class is told by its colour: their means lie close together in comparison with the pictures'.
    colours = train.pixels.mean(axis=(2, 3))
    of_classes = np.array([colours[train.labels == label].mean(axis=0) for label in range(10)])
    assert of_classes.std(axis=0).max() < 0.25 * colours.std(axis=0).min()


# The task -------------------------------------------------------------------------------------------------------------


def test_the_network_has_as_many_parameters_as_it_says() -> None:
    assert sum(each.numel() for each in PictureNet(16).parameters()) == 50_106
    assert PictureNet(16)(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 10)


def test_it_learns() -> None:
    task = small()
    check_task(task, 0)
    start = task.initial_weights(1)
    before = task.evaluate(start)
    batches = np.random.default_rng(1).integers(1000, size=(60, 64))
    after = task.evaluate(task.local_steps(start, batches, SgdTerms(0.05, momentum=0.9)))
    assert after["loss"] < 0.85 * before["loss"]
    assert 0.25 < after["accuracy"] < 0.9


def test_a_vehicle_may_hold_one_class_alone() -> None:
    task = small()
    training = Scenario().with_values({"training.split": "class", "training.samples_per_vehicle": 64}).training
    check_samples(task.pool, training)
    held = held_samples(generator(stream(0, "samples"), np.uint64(1)), task.pool, training)
    assert task.pool.labels is not None
    assert len(set(task.pool.labels[held].tolist())) == 1


def test_what_a_run_remembers() -> None:
    record = dict(small(data_seed=2).record)
    assert len(record.pop("fingerprint")) == 64
    assert record == {
        "data": "generated pictures", "data_seed": 2, "width": 8, "model": "PictureNet", "backend": "torch",
        "device": "cpu", "training_samples": 1000, "validation_samples": 200,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (TaskRequest({"width": 6}), "option width must be a multiple of 4, got 6"),
        (TaskRequest({"training_samples": 0}), "option training_samples must be > 0, got 0"),
        (TaskRequest({"depth": 3}), "option depth is not a known key"),
        (TaskRequest(backend="fused"), "backend must be auto or torch for images, got 'fused'"),
        (TaskRequest(device="tpu"), "device must be cpu or cuda, got 'tpu'"),
        (
            TaskRequest({"data_seed": 1}, data=Path("mine")),
            "option data_seed is the generated pictures' and must not come with data, got mine",
        ),
    ],
)
def test_wrong_choices_get_a_line(request_: TaskRequest, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        build_task("images", request_)
    assert str(caught.value).startswith(sentence)
