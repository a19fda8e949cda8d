"""Rules by hand: every link's arithmetic, chains of them, and what they remember."""

from typing import Any

import numpy as np
import pytest

from mobfl import InputError
from mobfl.learning.rules import merge, rule_named
from mobfl.learning.rules.fedasync import FedAsync
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


def weights(*values: float) -> dict[str, np.ndarray]:
    return {"w": np.array(values, np.float32)}


def applied(rule: str, model: Weights, uploads: list[Upload]) -> list[float]:
    chain = rule_named(rule)
    return chain.apply(chain.init(model), model, uploads)[1]["w"].tolist()


def test_fedasyncs_share_of_a_stale_upload() -> None:
    assert [FedAsync(0.6, 0.5).share(stale) for stale in (0, 3, 8)] == pytest.approx([0.6, 0.3, 0.2])
    assert FedAsync(0.6, 0.0).share(4) == 0.6
    assert str(rule_named("fedasync")) == "fedasync:mixing=0.6,staleness_power=0.5"
    fresh, stale = Upload(weights(10, 0), 5), Upload(weights(10, 0), 5, staleness=3)
    assert applied("fedasync:mixing=0.5", weights(0, 1), [fresh]) == [5.0, 0.5]
    assert applied("fedasync:mixing=0.5", weights(0, 1), [stale]) == [2.5, 0.75]
    assert applied("fedasync:mixing=0.5", weights(0, 1), [fresh, stale]) == [6.25, 0.375]


def test_fedbuff_moves_by_the_mean_of_weighted_changes() -> None:
    """From 10: a change of 2 counts whole, one of 8 that is three steps stale half; D_m does not matter."""
    uploads = [Upload(weights(12), 1, weights(10)), Upload(weights(12), 99, weights(4), staleness=3)]
    assert applied("fedbuff", weights(10), uploads) == [13.0]
    assert applied("fedbuff:server_rate=0.5", weights(10), uploads) == [11.5]


def test_fedbuff_keeps_a_variance_positive() -> None:
    """Added to a model that is at 0.1 already, the change from 1 to 0.2 of a stale upload would make it negative."""
    name = "norm.running_var"
    model, old, new = ({name: np.full(1, value, np.float32)} for value in (0.1, 1.0, 0.2))
    chain = rule_named("fedbuff")
    assert chain.apply({}, model, [Upload(new, 1, old, staleness=3)])[1][name] == pytest.approx([0.2])
    both = [Upload(new, 1, old, staleness=3), Upload(model, 1, model)]
    assert chain.apply({}, model, both)[1][name] == pytest.approx([(0.5 * 0.2 + 0.1) / 1.5])


def test_the_median_of_three_is_not_moved_by_a_liar() -> None:
    uploads = [Upload(weights(1, 5), 10), Upload(weights(2, 6), 10), Upload(weights(1e9, -1e9), 10_000)]
    assert applied("median", weights(0, 0), uploads) == [2.0, 5.0]
    assert applied("median", weights(0, 0), uploads[:2]) == [1.5, 5.5]  # of two nobody can be outvoted


def test_longer_trainings_count_more_if_steps_do() -> None:
    """From 0: 10 with one step and 20 samples, 40 with three steps and 10 samples."""
    uploads = [Upload(weights(10), 20, weights(0), local_steps=1), Upload(weights(40), 10, weights(0), local_steps=3)]
    assert applied("mean", weights(0), uploads) == [20.0]
    assert applied("steps:power=0", weights(0), uploads) == [20.0]
    assert applied("steps", weights(0), uploads) == [pytest.approx((10 * 20 + 40 * 30) / 50)]
    assert applied("steps:power=2", weights(0), uploads) == [pytest.approx((10 * 20 + 40 * 90) / 110)]
    assert applied("steps:power=5000", weights(0), uploads) == [40.0]  # the longest alone, without an overflow


def test_fednova_averages_changes_per_step() -> None:
    """From 1: changes of 9 in one step (two thirds of the samples) and 39 in three; τ_eff = 5/3."""
    uploads = [Upload(weights(10), 20, weights(1), local_steps=1), Upload(weights(40), 10, weights(1), local_steps=3)]
    assert applied("fednova", weights(1), uploads) == [pytest.approx(1 + 5 / 3 * (2 / 3 * 9 + 1 / 3 * 13))]
    alike = [Upload(weights(0.1 * n), n, weights(1), local_steps=4) for n in (3, 5, 7)]
    assert applied("fednova", weights(1), alike) == applied("mean", weights(1), alike)


def test_momentum_goes_on_in_the_direction_of_before() -> None:
    chain, model = rule_named("momentum:beta=0.5"), weights(0)
    state = chain.init(model)
    seen = []
    for target in (1.0, 1.0, 1.0):
        state, model = chain.apply(state, model, [Upload(weights(target), 1, model)])
        seen.append(model["w"][0])
    assert seen == [1.0, 1.5, 1.25]  # v = 1, then 0.5 + 0, then 0.25 − 0.5


def test_adam_is_reddis_algorithm_2() -> None:
    chain, model = rule_named("adam:rate=0.1,tau=0.001"), weights(0.0, 4.0)
    state, x = chain.init(model), model["w"].astype(float)
    m, v = np.zeros(2), np.full(2, 1e-6)
    for target in ([1.0, 4.0], [0.5, 3.0], [2.0, 2.0]):
        change = np.array(target) - x
        m, v = 0.9 * m + 0.1 * change, 0.99 * v + 0.01 * change**2
        x = x + 0.1 * m / (np.sqrt(v) + 1e-3)
        state, model = chain.apply(state, model, [Upload(weights(*target), 1, model)])
        assert model["w"] == pytest.approx(x, rel=1e-6)


def test_clipping_shortens_what_is_too_long_and_passes_the_rest_bit_for_bit() -> None:
    chain, model = rule_named("clip:times=2"), weights(0.0, 0.0)
    state = chain.init(model)
    usual = [Upload(weights(3, 4), 1, model)] * 3  # of length 5
    state, new = chain.apply(state, model, usual)
    assert new["w"].tolist() == [3.0, 4.0]
    _, clipped = chain.apply(state, model, [Upload(weights(300, 400), 1, model)])
    assert clipped["w"] == pytest.approx([6.0, 8.0])  # twice the usual length
    odd = weights(np.float32(1) / 3, 0.1)
    _, same = chain.apply(state, model, [Upload(odd, 1, model)])
    assert same["w"].tobytes() == odd["w"].tobytes()
    after, _ = chain.apply(state, model, [Upload(weights(3e9, 4e9), 1, model)])
    assert float(after["0-clip/median"][0]) <= 5 * 1.1 + 1e-9  # a liar lifts the bound by a tenth at most


def test_a_chain_is_applied_from_left_to_right() -> None:
    uploads = [Upload(weights(value), 1, weights(0)) for value in (1, 2, 90)]
    assert applied("median+momentum:beta=0,rate=0.5", weights(0), uploads) == [1.0]
    assert applied("mean", weights(0), uploads) == [31.0]
    assert str(rule_named("clip+adam")) == "clip:times=3+mean+adam:rate=0.01,beta1=0.9,beta2=0.99,tau=0.001"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("mena", "rule must be one of clip, mean, median, .* got 'mena'; did you mean mean?"),
        ("mean+median", "rule must have one way to combine uploads, got 2 in 'mean.median'"),
        ("adam+clip", "a step of the server stands before a guard"),
        ("mean:weight=2", "rule mean has no parameter weight: it takes none"),
        ("adam:rat=2", "rule adam has no parameter rat: its parameters are rate, beta1, beta2, tau"),
        ("adam:rate=0", "adam must have a rate > 0, got 0"),
        ("steps:power=-1", "steps must have a power >= 0, got -1"),
        ("clip:times=-1", "clip must have times > 0, got -1"),
        ("momentum:beta=1", "momentum must have a beta >= 0 and < 1, got 1"),
        ("adam:rate=1,rate=2", "must give rate once, got it twice"),
        ("clip:3", "rule clip must have parameters as NAME=VALUE, got '3'"),
    ],
)
def test_a_rule_that_makes_no_sense_gets_a_sentence(rule: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as error:
        rule_named(rule)
    assert len(error.value.lines) == 1


@pytest.mark.parametrize("rule", ["mean", "median", "fedasync", "fedbuff", "clip+mean", "mean+adam", "mean+momentum"])
def test_bad_uploads_are_rejected_under_every_rule(rule: str) -> None:
    model, chain = weights(4), rule_named(rule)
    state = chain.init(model)
    bad, good = Upload(weights(np.inf), 5, model), Upload(weights(6), 5, model)
    unchanged, same, reasons = merge(chain, state, model, [bad])
    assert (unchanged is state, same is model, reasons) == (True, True, ["not finite"])
    _, merged, reasons = merge(chain, state, model, [bad, good])
    alone = merge(chain, state, model, [good])[1]
    assert (merged["w"].tolist(), reasons) == (alone["w"].tolist(), ["not finite"])


def test_a_link_without_arrays_in_its_state_is_refused() -> None:
    class Forgetful:
        def init(self, model: Weights) -> dict[str, Any]:
            return {"count": 1}

        def apply(self, state: Any, model: Weights, uploads: Any) -> Any:
            return state, model

    from mobfl.learning.rules.chain import Chain, Link
    from mobfl.parts import Wish

    chain = Chain((Link.of(Forgetful(), Wish("forgetful")),))
    with pytest.raises(InputError, match="rule forgetful must keep its state as named arrays"):
        chain.init(weights(0))
