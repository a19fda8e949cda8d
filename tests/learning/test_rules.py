"""Rules by hand: every link's arithmetic, chains of them, and what they remember."""

from dataclasses import replace
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


def test_yogi_is_reddis_algorithm_2() -> None:
    """By hand from the paper: v grows by a hundredth of Δ² while it is below, else it falls by as much."""
    chain, model = rule_named("yogi:rate=0.1,tau=0.001"), weights(0.0, 4.0)
    state, x = chain.init(model), model["w"].astype(float)
    m, v = np.zeros(2), np.full(2, 1e-6)
    for target in ([1.0, 4.0], [0.5, 3.0], [0.01, 2.0], [0.02, 2.0]):
        change = np.array(target) - x
        m = 0.9 * m + 0.1 * change
        v = np.where(v < change**2, v + 0.01 * change**2, v - 0.01 * change**2)
        x = x + 0.1 * m / (np.sqrt(v) + 1e-3)
        state, model = chain.apply(state, model, [Upload(weights(*target), 1, model)])
        assert model["w"] == pytest.approx(x, rel=1e-5)
    with pytest.raises(InputError, match="yogi must have a beta2 >= 0 and < 1, got 1"):
        rule_named("yogi:beta2=1")


def test_weighted_afl_counts_those_less_whose_training_and_upload_took_long() -> None:
    """Half a second each is usual; two seconds more of training cost 0.9², one more of upload 0.9."""
    usual = Upload(weights(10), 5, compute_s=0.5, upload_s=0.5)
    assert applied("afl", weights(0), [usual]) == [5.0]
    assert applied("afl", weights(0), [replace(usual, compute_s=2.5)]) == pytest.approx([5 * 0.81])
    assert applied("afl", weights(0), [replace(usual, compute_s=2.5, upload_s=1.5)]) == pytest.approx([5 * 0.729])
    assert applied("afl", weights(0), [replace(usual, staleness=3)]) == [5.0]
    assert applied("afl:staleness_power=0.5", weights(0), [replace(usual, staleness=3)]) == [2.5]
    assert applied("afl:mixing=1", weights(0), [replace(usual, compute_s=0.0)]) == [10.0]  # never more than all of it
    assert applied("afl:usual_s=1e6", weights(0), [usual]) == [10.0]  # 0.9 to the power of minus a million
    for wrong in ("mixing=0", "training=1.1", "upload=-1", "usual_s=-1", "staleness_power=nan"):
        with pytest.raises(InputError, match=f"afl must have {wrong.partition('=')[0]}"):
            rule_named(f"afl:{wrong}")


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


def length(rule: str, uploads: list[float], then: float, **more: int) -> float:
    """How long a change of `then` is after others of these lengths, which came one by one."""
    chain, model = rule_named(rule), weights(0.0)
    state = chain.init(model)
    for each in uploads:
        state, _ = chain.apply(state, model, [Upload(weights(each), 1, model)])
    return float(chain.apply(state, model, [Upload(weights(then), 1, model, **more)])[1]["w"][0])


def test_the_bound_follows_honest_uploads_up_and_down_but_no_liar() -> None:
    assert length("clip:times=3", [1.0] * 9, 1e9) == pytest.approx(3.0)
    assert length("clip:times=3", [1.0, 1.0, 1e9] * 6, 1e9) == pytest.approx(3.0)  # one of three lies
    assert length("clip:times=3", [1e9], 1.0) == 1.0  # a lone first liar, and the next is bounded by the honest one
    assert length("clip:times=3", [1e9, 1.0, 1.0], 1e9) == pytest.approx(3.0)
    assert length("clip:times=3", [0.0] * 9 + [1.0], 1.0) == 1.0  # who sends nothing back says nothing
    assert length("clip:times=3", [100 * 0.8**k for k in range(40)], 1e9) < 3 * 100 * 0.8**28
    growing = [1.1**k for k in range(40)]
    assert length("clip:times=3", growing, 1.1**40) == pytest.approx(1.1**40)
    assert (
        length("clip:times=3", [1.0] * 9, 20.0, local_steps=10) == 20.0
    )  # ten times the steps may go ten times as far


def test_clipping_bounds_statistics_and_keeps_a_variance_positive() -> None:
    def sent(weight: float, variance: float) -> dict[str, np.ndarray]:
        return {"w": np.full(1, weight, np.float32), "norm.running_var": np.full(1, variance, np.float32)}

    chain, model = rule_named("clip:times=2"), sent(0.0, 1.0)
    state = chain.init(model)
    for _ in range(5):
        state, same = chain.apply(state, model, [Upload(sent(1.0, 0.9), 1, model)])
        assert same["norm.running_var"][0] == np.float32(0.9)
    for hostile in (1e30, 0.0):
        _, new = chain.apply(state, model, [Upload(sent(1.0, hostile), 1, model)])
        assert new["w"][0] == 1.0  # only what is too long is shortened
        assert 0 <= new["norm.running_var"][0] <= 1 + 2 * 10 * 0.1 + 1e-5


def test_nobody_claims_more_samples_than_is_usual() -> None:
    """One of five who claims 10,000 where the others hold 64 has a third of the mean, not 97 %."""
    honest = [Upload(weights(0.0), 64)] * 4
    assert applied("mean", weights(0), [*honest, Upload(weights(1.0), 10_000)])[0] > 0.97
    assert applied("cap+mean", weights(0), [*honest, Upload(weights(1.0), 10_000)]) == pytest.approx([1 / 3])
    assert applied("cap+mean", weights(0), [honest[0], Upload(weights(1.0), 10_000)]) == pytest.approx([2 / 3])
    equal = [Upload(weights(value), 64) for value in (0.1, 0.7, 0.3)]
    assert applied("cap+mean", weights(0), equal) == applied("mean", weights(0), equal)
    within = [Upload(weights(value), samples) for value, samples in ((0.1, 20), (0.7, 40), (0.3, 33))]
    assert applied("cap+mean", weights(0), within) == applied("mean", weights(0), within)


def test_the_trimmed_mean_is_scipys() -> None:
    from scipy.stats import trim_mean

    values = np.random.default_rng(1).standard_normal((10, 4)).astype(np.float32)
    uploads = [Upload(weights(*row), 1 + k) for k, row in enumerate(values)]
    for share in (0.1, 0.2, 0.4):
        expected = trim_mean(values, share, axis=0)
        assert applied(f"trimmed:share={share}", weights(0, 0, 0, 0), uploads) == pytest.approx(expected, rel=1e-5)


def test_the_trimmed_mean_leaves_out_one_at_either_end_of_three_and_nobody_of_two() -> None:
    uploads = [Upload(weights(value), 1) for value in (1.0, 2.0, 1e9, 3.0, 5.0)]
    assert applied("trimmed", weights(0), uploads[:1]) == [1.0]
    assert applied("trimmed", weights(0), uploads[:2]) == [1.5]
    assert applied("trimmed", weights(0), uploads[:3]) == [2.0]
    assert applied("trimmed", weights(0), uploads) == pytest.approx([10 / 3])


def krum_by_hand(values: np.ndarray, hostile: int) -> int:
    """The paper's definition, word for word."""
    scores = []
    for i, mine in enumerate(values):
        squares = sorted(float(np.square(mine - other).sum()) for j, other in enumerate(values) if j != i)
        scores.append(sum(squares[: len(values) - hostile - 2]))
    return int(np.argmin(scores))


def test_krum_is_its_definition() -> None:
    random = np.random.default_rng(3)
    for count, hostile in ((5, 1), (10, 2), (14, 2)):
        values = random.standard_normal((count, 6)).astype(np.float32)
        values[:hostile] += 40
        uploads = [Upload(weights(*row), 7) for row in values]
        best = krum_by_hand(values.astype(float), hostile)
        assert applied("krum:share=0.2", weights(*[0] * 6), uploads) == values[best].tolist()
        several = np.array(applied("krum:share=0.2,keep=3", weights(*[0] * 6), uploads))
        assert np.abs(several).max() < 5  # none of the hostile ones is among them
        lying = [replace(upload, samples=10_000 if k == count - 1 else 7) for k, upload in enumerate(uploads)]
        assert applied("krum:share=0.2,keep=3", weights(*[0] * 6), lying) == several.tolist()  # claims do not count
    few = [Upload(weights(value), 1) for value in (1.0, 2.0, 1e9, 3.0)]
    assert applied("krum", weights(0), few) == [2.5]  # the median of four
    assert applied("krum", weights(0), few[:1]) == [1.0]


def test_krum_does_not_take_its_statistics_from_one_vehicle() -> None:
    def sent(weight: float, mean: float) -> dict[str, np.ndarray]:
        return {"w": np.full(1, weight, np.float32), "norm.running_mean": np.full(1, mean, np.float32)}

    uploads = [Upload(sent(value, mean), 1) for value, mean in ((1, 1), (2, 2), (2.1, 1e9), (3, 3), (9, 4))]
    chain = rule_named("krum")
    new = chain.apply({}, sent(0, 0), uploads)[1]
    assert (new["w"][0], new["norm.running_mean"][0]) == (pytest.approx(2.1, abs=0.2), 3.0)


def distance_to_ten(model: Weights, samples: int) -> float:
    return abs(10.0 - float(model["w"][0])) + 0 * samples


def test_held_out_samples_tell_a_lone_liar() -> None:
    """From 4, at a distance of 6, honest uploads come nearer to 10; a rise of a tenth is forgiven."""
    chain, model = rule_named("heldout:rise=0.1+mean").with_heldout(distance_to_ten), weights(4)
    good, odd, bad = (Upload(weights(value), 1, model) for value in (5, 3.5, 3.3))
    assert merge(chain, {}, model, [good, odd])[2] == []
    state, new, reasons = merge(chain, {}, model, [bad])
    assert (new is model, reasons) == (True, ["refused by heldout"])
    _, new, reasons = merge(chain, state, model, [bad, good])
    assert (new["w"][0], reasons) == (5.0, ["refused by heldout"])
    stale = Upload(weights(3), 1, weights(1), staleness=4)  # better than what it started from
    assert merge(chain, {}, model, [stale])[2] == []
    with pytest.raises(InputError, match="rule heldout needs a task with the method heldout_loss, got none"):
        merge(rule_named("heldout"), {}, model, [good])


def test_what_is_not_sound_changes_neither_model_nor_state() -> None:
    chain, model = rule_named("clip+mean+momentum"), weights(4)
    state = chain.init(model)
    after, new, reasons = merge(chain, state, model, [Upload(weights(5), 1, model)] * 2, lambda _: False)
    assert (after is state, new is model, reasons) == (True, True, ["spoilt the model"] * 2)


def test_a_chain_is_applied_from_left_to_right() -> None:
    uploads = [Upload(weights(value), 1, weights(0)) for value in (1, 2, 90)]
    assert applied("median+momentum:beta=0,rate=0.5", weights(0), uploads) == [1.0]
    assert applied("mean", weights(0), uploads) == [31.0]
    assert str(rule_named("clip+adam")) == "clip:times=3+mean+adam:rate=0.01,beta1=0.9,beta2=0.99,tau=0.001"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("mena", "rule must be one of clip, cap, heldout, scaffold, mean, median, .* got 'mena'; did you mean mean?"),
        ("mean+median", "rule must have one way to combine uploads, got 2 in 'mean.median'"),
        ("adam+clip", "a step of the server stands before a guard"),
        ("mean:weight=2", "rule mean has no parameter weight: it takes none"),
        ("adam:rat=2", "rule adam has no parameter rat: its parameters are rate, beta1, beta2, tau"),
        ("adam:rate=0", "adam must have a rate > 0, got 0"),
        ("adam:rate=inf", "adam must have a rate > 0, got inf"),
        ("yogi:tau=inf", "yogi must have a tau > 0, got inf"),
        ("momentum:rate=inf", "momentum must have a rate > 0, got inf"),
        ("steps:power=-1", "steps must have a power >= 0, got -1"),
        ("clip:times=-1", "clip must have times > 0, got -1"),
        ("cap:times=0.5", "cap must have times >= 1, got 0.5"),
        ("trimmed:share=0.5", "trimmed must have a share >= 0 and < 0.5, got 0.5"),
        ("krum:share=0.7", "krum must have a share >= 0 and < 0.5, got 0.7"),
        ("krum:keep=0", "krum must keep a whole number >= 1, got 0"),
        ("heldout:rise=-1", "heldout must have a rise >= 0, got -1"),
        ("heldout:samples=0", "heldout must have a whole number of samples >= 1, got 0"),
        ("momentum:beta=1", "momentum must have a beta >= 0 and < 1, got 1"),
        ("adam:rate=1,rate=2", "must give rate once, got it twice"),
        ("clip:3", "rule clip must have parameters as NAME=VALUE, got '3'"),
    ],
)
def test_a_rule_that_makes_no_sense_gets_a_sentence(rule: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as error:
        rule_named(rule)
    assert len(error.value.lines) == 1


@pytest.mark.parametrize(
    "rule", ["mean", "median", "trimmed", "krum", "fedasync", "fedbuff", "clip+cap+mean", "mean+adam", "mean+momentum"]
)
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
