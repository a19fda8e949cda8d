"""Codecs: what comes back, how many bytes it took, and what strangers' bytes do."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from mobfl import InputError
from mobfl.learning.codecs import CODECS, Sending, codec_named, encoded
from mobfl.learning.codecs.topk import TopK, largest
from mobfl.learning.codecs.vectors import change
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.weights import Weights

FALSE_ALARM = 1e-6


def model(seed: int = 0, size: int = 300, variance: float = 1.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "out.weight": random.standard_normal((size // 10, 10)).astype(np.float32),
        "norm.running_mean": random.standard_normal(5).astype(np.float32),
        "norm.running_var": (variance * random.random(5)).astype(np.float32),
        "in.bias": random.standard_normal(7).astype(np.float32),
    }


def sent(name: str, weights: Weights, base: Weights, seed: int = 0, **more: Any) -> tuple[bytes, Weights]:
    return encoded(codec_named(name)[0], weights, base, Sending(np.random.default_rng(seed), **{"memory": {}, **more}))


EVERY = [
    "plain",
    "half",
    "topk",
    "topk:share=0.003",
    "topk:share=1,memory=0.5",
    "quantised",
    "quantised:bits=2,bucket=7",
]


@pytest.mark.parametrize("name", [*EVERY, "quantised:bits=16,bucket=1000"])
def test_every_codec_keeps_its_promise_of_size_and_statistics(name: str) -> None:
    codec, base, new = codec_named(name)[0], model(0), model(1, variance=1e-4)
    data, _ = sent(name, new, base)
    assert len(data) == codec.size(base)
    back = codec.decode(data, base)
    assert fault(base, Upload(back, 1)) is None  # of the same shapes and types, and no variance below zero
    if name != "half":
        for statistic in ("norm.running_mean", "norm.running_var"):
            assert back[statistic].tobytes() == new[statistic].tobytes()


def test_sizes_by_hand() -> None:
    """307 trained numbers and 10 statistics: a place takes two bytes; 31 of the changes are a tenth."""
    sizes = {name: codec_named(name)[0].size(model()) for name in EVERY}
    assert sizes["topk"] == 10 * 4 + 31 * (2 + 4)
    assert sizes["topk:share=0.003"] == 10 * 4 + 1 * 6
    assert sizes["quantised"] == 10 * 4 + 1 * 4 + -(-307 * 4 // 8)
    assert sizes["quantised:bits=2,bucket=7"] == 10 * 4 + 44 * 4 + -(-307 * 2 // 8)
    one = {"w": np.zeros(1, np.float32)}
    assert TopK().size(one) == 1 + 4
    assert [TopK(1.0).size({"w": np.zeros(n, np.float32)}) // n for n in (256, 257, 65536, 65537)] == [5, 6, 6, 7]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(0, 30))
def test_the_largest_are_those_that_sorting_finds(values: list[int], count: int) -> None:
    count = min(count, len(values))
    by_sorting = sorted(range(len(values)), key=lambda place: (-abs(values[place]), place))[:count]
    assert largest(np.array(values, float), count).tolist() == by_sorting


def test_top_k_sends_the_largest_changes_and_nothing_else() -> None:
    base = {"w": np.zeros(10, np.float32)}
    new = {"w": np.array([0.1, -9, 0.2, 4, 0, 0, 0, 5, -0.3, 0], np.float32)}
    data, _ = sent("topk:share=0.3", new, base)
    assert TopK(0.3).decode(data, base)["w"].tolist() == [0, -9, 0, 4, 0, 0, 0, 5, 0, 0]
    assert data[0] == 1  # the largest is first,
    first = TopK(0.3).decode_prefix(data[:7], base)["w"]  # so that a beginning is worth most of it
    assert first.tolist() == [0, -9] + [0] * 8


def test_nothing_is_lost_with_a_memory() -> None:
    """What is sent in all, and what is still left out, is what was changed in all."""
    base, name = model(0), "topk:share=0.05,memory=1"
    codec, memory, arrived = codec_named(name)[0], {}, np.zeros(307)
    wanted = np.zeros(307)
    for seed in range(1, 9):
        new = model(seed)
        data, memory = sent(name, new, base, memory=memory)
        wanted += change(new, base)
        arrived += change(codec.decode(data, base), base)
        assert arrived + memory["left_out"] == pytest.approx(wanted, abs=1e-4)
    forgetful = sent("topk:share=0.05,memory=0.5", model(1), base)[1]["left_out"]
    assert forgetful == pytest.approx(0.5 * sent(name, model(1), base)[1]["left_out"], abs=1e-6)
    assert sent("topk:share=0.05", model(1), base)[1] == {}


def test_a_budget_is_filled_and_never_exceeded() -> None:
    base, new, codec = model(0), model(1), TopK(0.1)
    errors = []
    for budget in (-3, 0, 3, 4, 39, 40, 45, 46, 500, 1882, 10**9):
        data, _ = sent("topk", new, base, budget=budget)
        assert len(data) == codec.size(base, budget) <= max(budget, 0)
        assert len(data) > budget - 6 or len(data) == 40 + 307 * 6  # there is no room for another entry, or none left
        errors.append(np.abs(change(codec.decode(data, base), base) - change(new, base)).sum())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-4


@given(st.integers(0, 2000))
def test_any_beginning_of_top_k_can_be_read(cut: int) -> None:
    base, new, codec = model(0), model(1), TopK(0.5)
    data, _ = sent("topk:share=0.5", new, base)
    moved = change(codec.decode_prefix(data[:cut], base), base)
    whole = change(codec.decode(data, base), base)
    assert ((moved == 0) | (moved == whole)).all()
    assert np.count_nonzero(moved) == max(min(cut, len(data)) - 40, 0) // 6


@pytest.mark.parametrize("bits", [2, 4, 7])
def test_quantised_changes_are_right_on_average(bits: int) -> None:
    """The mean of many uploads, against a normal law whose spread is at most half a step of the grid."""
    base, new, name = model(0), model(1), f"quantised:bits={bits},bucket=64"
    codec, exact, uploads = codec_named(name)[0], change(model(1), model(0)), 400
    drawn = np.array([change(codec.decode(sent(name, new, base, seed)[0], base), base) for seed in range(uploads)])
    starts = np.arange(0, 307, 64)
    step = np.repeat(np.maximum.reduceat(np.abs(exact), starts) / (2 ** (bits - 1) - 1), 64)[:307]
    assert (np.abs(drawn - exact) < step * (1 + 1e-6)).all()
    bound = norm.isf(FALSE_ALARM / 307 / 2) * step / 2 / np.sqrt(uploads)
    assert (np.abs(drawn.mean(axis=0) - exact) < bound + 1e-6).all()
    assert drawn.std(axis=0).max() > 0


@pytest.mark.parametrize("bucket", ["10000", "1e300"])
def test_a_bucket_larger_than_the_model_is_one_bucket(bucket: str) -> None:
    base, new = model(0), model(1)
    data, _ = sent(f"quantised:bucket={bucket}", new, base)
    assert data == sent("quantised:bucket=307", new, base)[0]
    back, whole = (codec_named(f"quantised:bucket={each}")[0].decode(data, base) for each in (bucket, "307"))
    assert all(back[name].tobytes() == whole[name].tobytes() for name in base)


def test_the_same_address_gives_the_same_bytes() -> None:
    base, new = model(0), model(1)
    assert sent("quantised", new, base, 5)[0] == sent("quantised", new, base, 5)[0]
    assert sent("quantised", new, base, 5)[0] != sent("quantised", new, base, 6)[0]


@pytest.mark.parametrize("name", EVERY)
def test_a_vehicle_that_diverged_is_seen_to_have(name: str) -> None:
    base, new = model(0), model(1)
    for bad in (np.nan, np.inf, -np.inf):
        new["out.weight"][3, 4] = bad
        data, memory = sent(name, new, base)
        reason = fault(base, Upload(codec_named(name)[0].decode(data, base), 1))
        assert reason == ("not finite" if not (name == "half" and np.isinf(bad)) else None)
        assert all(np.isfinite(values).all() for values in memory.values())


@pytest.mark.parametrize("name", EVERY)
@given(data=st.binary(max_size=2500))
def test_strange_bytes_are_refused_or_are_a_model(name: str, data: bytes) -> None:
    codec, base = codec_named(name)[0], model(0)
    try:
        weights = codec.decode(data, base)
    except ValueError:
        return
    assert name == "plain" or {n: v.shape for n, v in weights.items()} == {n: v.shape for n, v in base.items()}


@pytest.mark.parametrize("name", ["topk:share=0.2", "quantised"])
def test_damaged_bytes_are_refused(name: str) -> None:
    codec, base = codec_named(name)[0], model(0)
    data, _ = sent(name, model(1), base)
    for damaged in (data + b"\0", data[:-1], data[:41]):
        with pytest.raises(ValueError, match="bytes"):
            codec.decode(damaged, base)


def test_places_outside_the_model_or_twice_are_refused() -> None:
    base, data = model(0), sent("topk:share=0.2", model(1), model(0))[0]
    for spoilt in (data[:40] + b"\xff\xff" + data[42:], data[:46] + data[40:42] + data[48:]):
        with pytest.raises(ValueError, match="place"):
            TopK().decode(spoilt, base)
    with pytest.raises(ValueError, match="not statistics and entries"):
        TopK().decode(bytes(10**7), base)


def test_numbers_off_the_grid_are_refused() -> None:
    codec, base = codec_named("quantised")[0], model(0)
    data = sent("quantised", model(1), base)[0]
    with pytest.raises(ValueError, match="at most 14"):
        codec.decode(data[:-1] + b"\xff", base)
    with pytest.raises(ValueError, match="scale"):
        codec.decode(data[:40] + np.float32(-1).tobytes() + data[44:], base)


def test_half_precision_never_turns_a_variance_negative() -> None:
    base = {"norm.running_var": np.full(1, 3.003e-4, np.float32)}
    data, _ = sent("half", {"norm.running_var": np.zeros(1, np.float32)}, base)
    assert codec_named("half")[0].decode(data, base)["norm.running_var"][0] >= 0
    liar = {"norm.running_var": np.full(1, -1e-5, np.float32)}
    arrived = codec_named("half")[0].decode(sent("half", liar, base)[0], base)
    assert fault(base, Upload(arrived, 1)) == "negative variance"


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ("topk:share=0", "topk must have a share > 0 and <= 1, got 0"),
        ("topk:share=nan", "topk must have a share"),
        ("topk:memory=2", "topk must have a memory >= 0 and <= 1, got 2"),
        ("quantised:bits=1", "quantised must have a whole number of bits from 2 to 16, got 1"),
        ("quantised:bits=4.5", "from 2 to 16, got 4.5"),
        ("quantised:bucket=0", "quantised must have a whole number >= 1 in a bucket, got 0"),
        ("topk:k=5", "codec topk has no parameter k: its parameters are share, memory"),
    ],
)
def test_a_codec_that_makes_no_sense_gets_a_sentence(wish: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        codec_named(wish)


def test_the_catalogue_says_what_they_are() -> None:
    assert list(CODECS.ours) == ["plain", "half", "topk", "quantised"]
