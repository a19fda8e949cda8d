"""Aggregation by hand, and who holds which samples."""

import numpy as np
import pytest
from scipy import stats

from mobfl import InputError, Scenario
from mobfl.learning.codecs import codec_named
from mobfl.learning.holdings import check_samples, draw_batches, held_samples
from mobfl.learning.local import local_named
from mobfl.learning.local.fedprox import FedProx
from mobfl.learning.rules import merge, rule_named
from mobfl.learning.task import Pool
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.weights import Weights
from mobfl.rng import generator, stream


def weights(*values: float) -> dict[str, np.ndarray]:
    return {"w": np.array(values, np.float32)}


MODEL = weights(0.0, 0.0)


def aggregate(model: Weights, uploads: list[Upload]) -> tuple[Weights, list[str]]:
    _, new, reasons = merge(rule_named("mean"), {}, model, uploads)
    return new, reasons


def test_uploads_are_weighted_by_their_samples() -> None:
    mean, rejected = aggregate(MODEL, [Upload(weights(1, 10), 100), Upload(weights(4, -20), 200)])
    assert mean["w"].tolist() == [3.0, -10.0]  # (100·1 + 200·4)/300, (100·10 − 200·20)/300
    assert rejected == []


def test_statistics_of_batch_norm_are_averaged_like_everything_else() -> None:
    model = {"norm.running_var": np.ones(1, np.float32)}
    uploads = [Upload({"norm.running_var": np.full(1, v, np.float32)}, d) for v, d in ((2.0, 1), (6.0, 3))]
    assert aggregate(model, uploads)[0]["norm.running_var"].tolist() == [5.0]


def test_one_upload_is_taken_over_bit_for_bit() -> None:
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    mean, _ = aggregate({"w": np.zeros_like(values)}, [Upload({"w": values}, 1023)])
    assert mean["w"].tobytes() == values.tobytes()


def test_without_uploads_the_model_stays_the_very_same() -> None:
    assert aggregate(MODEL, []) == (MODEL, [])
    assert aggregate(MODEL, [])[0] is MODEL


@pytest.mark.parametrize(
    ("upload", "reason"),
    [
        (Upload(weights(1, np.nan), 10), "not finite"),
        (Upload(weights(-np.inf, 1), 10), "not finite"),
        (Upload(weights(1), 10), "wrong shape"),
        (Upload({"w": np.zeros(2)}, 10), "wrong shape"),  # doubles
        (Upload({"v": np.zeros(2, np.float32)}, 10), "another model"),
        (Upload(weights(1, 1) | {"v": np.zeros(2, np.float32)}, 10), "another model"),
        (Upload({}, 10), "another model"),
        (Upload(weights(1, 1), 0), "without samples"),
    ],
)
def test_what_cannot_be_averaged_is_rejected_and_never_averaged(upload: Upload, reason: str) -> None:
    assert fault(MODEL, upload) == reason
    good = Upload(weights(2, 4), 7)
    mean, rejected = aggregate(MODEL, [upload, good, upload])
    assert (mean["w"].tolist(), rejected) == ([2.0, 4.0], [reason, reason])
    assert aggregate(MODEL, [upload])[0] is MODEL


POOL = Pool(np.repeat(np.arange(10), [500, 200, 100, 50, 50, 40, 30, 15, 10, 5]), np.random.default_rng(3).random(1000))


def held(split: str, vehicle: int, **values: object) -> np.ndarray:
    given = {"training.samples_per_vehicle": 100, "training.split": split} | {
        f"training.{k}": v for k, v in values.items()
    }
    training = Scenario().with_values(given).training
    return held_samples(generator(stream(0, "samples"), np.uint64(vehicle)), POOL, training)


@pytest.mark.parametrize("split", ["random", "place", "dirichlet"])
def test_a_vehicle_holds_different_samples_and_always_the_same(split: str) -> None:
    mine = held(split, 1)
    assert len(mine) == len(set(mine.tolist())) == 100
    assert ((mine >= 0) & (mine < len(POOL))).all()
    assert held(split, 1).tolist() == mine.tolist()
    assert held(split, 2).tolist() != mine.tolist()


def test_a_range_of_samples_is_used_up_to_its_ends() -> None:
    sizes = {len(held("random", vehicle, samples_per_vehicle=[64, 67])) for vehicle in range(100)}
    assert sizes == {64, 65, 66, 67}


def test_a_random_split_draws_all_samples_alike() -> None:
    counts = np.bincount(np.concatenate([held("random", vehicle) for vehicle in range(500)]), minlength=1000)
    assert stats.chisquare(counts).pvalue > 1e-4  # each sample 50 times, drawn without repetition: less spread still


def test_by_place_a_vehicle_holds_one_stretch_of_the_road() -> None:
    for vehicle in range(20):
        mine = np.sort(POOL.places[held("place", vehicle)])
        between = (mine[0] <= POOL.places) & (mine[-1] >= POOL.places)
        assert between.sum() == 100


def shares(vehicle: int, alpha: float) -> np.ndarray:
    return np.bincount(POOL.labels[held("dirichlet", vehicle, dirichlet_alpha=alpha)], minlength=10) / 100


def test_dirichlet_goes_from_one_label_to_the_set_itself() -> None:
    of_the_set = np.bincount(POOL.labels) / 1000
    assert np.mean([shares(vehicle, 1e6) for vehicle in range(200)], axis=0) == pytest.approx(of_the_set, abs=0.01)
    # Nearly all of a vehicle's samples have one label, as far as there are enough of that label.
    alone = [shares(vehicle, 1e-4).max() for vehicle in range(50)]
    assert np.median(alone) == 1.0
    middle = np.mean([shares(vehicle, 2.0).max() for vehicle in range(100)])
    assert 0.5 < middle < np.mean(alone)


def test_dirichlet_has_the_mean_and_variance_of_its_law() -> None:
    # 20 of 1000 samples: drawing without repetition hardly matters, so q_0 has Beta(α p, α (1 − p))'s moments.
    drawn = np.array(
        [
            (POOL.labels[held("dirichlet", v, dirichlet_alpha=3.0, samples_per_vehicle=64)] == 0).mean()
            for v in range(4000)
        ]
    )
    beta = stats.beta(3.0 * 0.5, 3.0 * 0.5)
    assert drawn.mean() == pytest.approx(0.5, abs=0.02)
    binomial = (beta.mean() - beta.moment(2)) / 64  # what drawing 64 samples adds
    assert drawn.var() == pytest.approx(beta.var() + binomial, rel=0.1)


def test_batches_come_from_the_vehicles_own_samples_without_repetition() -> None:
    mine = held("random", 5)
    batches = draw_batches(generator(stream(0, "batches"), np.uint64(5), 3), mine, 24, 64)
    assert batches.shape == (24, 64)
    assert set(batches.ravel().tolist()) <= set(mine.tolist())
    assert all(len(set(batch.tolist())) == 64 for batch in batches)
    again = draw_batches(generator(stream(0, "batches"), np.uint64(5), 4), mine, 24, 64)
    assert (again != batches).any()


def test_more_samples_than_there_are_is_wrong_input() -> None:
    with pytest.raises(
        InputError, match=r"training.samples_per_vehicle must be <= the 1000 training samples, got 1024"
    ):
        check_samples(POOL, Scenario().training)


@pytest.mark.parametrize("value", [0, -3, 2.5, True, "64", [100], [200, 100, 50], [200, 100], [0, 10], []])
def test_samples_per_vehicle_is_a_number_or_a_range(value: object) -> None:
    with pytest.raises(InputError, match=r"^training.samples_per_vehicle must be a whole number > 0 or a pair"):
        Scenario().with_values({"training.samples_per_vehicle": value})


def test_a_range_survives_toml(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import tomllib

    ranged = Scenario().with_values({"training.samples_per_vehicle": [512, 2048]})
    assert ranged.training.samples_per_vehicle == (512, 2048)
    assert Scenario.from_dict(tomllib.loads(ranged.to_toml())) == ranged


def test_a_batch_larger_than_what_a_vehicle_holds_is_wrong_input() -> None:
    with pytest.raises(InputError, match=r"training.batch_size must be <= training.samples_per_vehicle \(32\), got 64"):
        Scenario().with_values({"training.samples_per_vehicle": [32, 128]})


def test_momentum_is_given_once() -> None:
    paper, swift = (Scenario().with_values({"training.momentum": value}).training for value in (0.0, 0.5))
    assert str(local_named(None, swift)[1]) == "sgd:momentum=0.5"
    assert str(local_named("sgd:momentum=0.9", paper)[1]) == "sgd:momentum=0.9"
    assert local_named("fedprox:mu=0.1", swift)[0] == FedProx(0.1, 0.5)
    with pytest.raises(
        InputError, match=r"momentum must be given once, got training.momentum = 0.5 and local training"
    ):
        local_named("sgd:momentum=0.9", swift)


@pytest.mark.parametrize("codec", ["plain", "half"])
def test_a_codecs_bytes_are_known_before_they_are_sent(codec: str) -> None:
    part, _ = codec_named(codec)
    random = np.random.default_rng(0)
    base = {name: random.standard_normal(7).astype(np.float32) for name in ("a", "norm.running_var")}
    weights = {name: values + np.float32(0.01) for name, values in base.items()}
    sent = part.encode(weights, base)
    assert len(sent) == part.size(base)
    arrived = part.decode(sent, base)
    assert all(arrived[name] == pytest.approx(values, abs=1e-5) for name, values in weights.items())
    assert all(values.dtype == np.float32 for values in arrived.values())
    for broken in (b"", sent[:-3], b"x" * len(sent)):
        with pytest.raises(ValueError, match="not"):
            part.decode(broken, base)


def test_a_negative_variance_is_no_model() -> None:
    name = "norm.running_var"
    model = {name: np.ones(2, np.float32), "norm.running_mean": np.zeros(2, np.float32)}
    below = {**model, name: np.array([0.5, -0.1], np.float32)}
    assert fault(model, Upload(below, 5)) == "negative variance"
    mean_below = {**model, "norm.running_mean": np.array([0.5, -0.1], np.float32)}
    assert fault(model, Upload(mean_below, 5)) is None
