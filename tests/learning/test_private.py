"""Clipped and noised sums: their arithmetic by hand, their sensitivity, the law of the noise, and ε by other ways."""

import importlib.util
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

from mobfl import InputError, MissingExtraError
from mobfl.learning.accounting import Ledger, epsilon
from mobfl.learning.rules import merge, rule_named
from mobfl.learning.rules.draws import addressed_draw, secret_draw
from mobfl.learning.rules.private import Private, change_of, length_of, moved
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, has_negative_variance

FALSE_ALARM = 1e-6  # of every statistical test here
MODEL = {
    "w": np.array([1.0, 2.0, 3.0], np.float32),
    "norm.running_mean": np.array([0.5, -2.0], np.float32),
    "norm.running_var": np.array([4.0, 0.01], np.float32),
}


def weights(*values: float) -> dict[str, np.ndarray]:
    return {"w": np.array(values, np.float32)}


def noise_in(private: Private, seed: int, step: int, model: Weights = MODEL) -> np.ndarray:
    """What a step without any change adds to the model, in standard deviations of the noise."""
    _, new = private.apply({}, model, [], addressed_draw(seed, step)(0))
    change = change_of(new, model)
    sizes = np.concatenate([change[name].ravel() for name in sorted(change)])
    return sizes * private.uploads / (private.noise * private.clip)


# ---- the sum -------------------------------------------------------------------------------------


def test_changes_are_clipped_added_up_and_divided_by_a_fixed_number() -> None:
    """From (10, 0): a change of (3, 4) is shortened to (0.6, 0.8), one of (0, 0.5) stays; D_m does not matter."""
    private, model = Private(uploads=4, clip=1.0), weights(10, 0)
    uploads = [Upload(weights(13, 4), 10_000, model), Upload(weights(10, 0.5), 1, model)]
    assert private.clipped_sum(model, uploads)["w"] == pytest.approx([0.6, 1.3])
    quiet = Private(uploads=4, clip=1.0, noise=1e-12)
    assert quiet.apply({}, model, uploads, addressed_draw(0, 0)(0))[1]["w"] == pytest.approx([10.15, 0.325])


finite = st.floats(-1e6, 1e6, width=32)
variances = st.floats(0.0, 1e6, width=32)


@st.composite
def models(draw: st.DrawFn) -> dict[str, np.ndarray]:
    def array(size: int, values: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), np.float32)

    return {
        "w": array(3, finite),
        "norm.running_mean": array(2, finite),
        "norm.running_var": array(2, variances),
        "alone.running_mean": array(1, finite),
    }


@given(models(), st.lists(models(), min_size=1, max_size=5), models(), st.floats(1e-3, 1e3), st.floats(0.5, 50))
def test_one_upload_moves_the_sum_by_no_more_than_the_clip(
    model: Weights, sent: list[Weights], other: Weights, clip: float, denominator: float
) -> None:
    """By C over the denominator if it becomes no change, by twice that if it becomes any other upload."""
    private = Private(denominator, clip)

    def combined(each: list[Weights]) -> dict[str, np.ndarray]:
        total = private.clipped_sum(model, [Upload(one, 7, model) for one in each])
        return {name: values / denominator for name, values in total.items()}

    def distance(one: Weights, another: Weights) -> float:
        return length_of({name: one[name] - another[name] for name in one})

    bound = clip / denominator * (1 + 1e-9)
    assert distance(combined(sent), combined([model, *sent[1:]])) <= bound
    assert distance(combined(sent), combined([other, *sent[1:]])) <= 2 * bound


@given(models(), models())
def test_a_change_leads_from_one_model_to_the_other(model: Weights, other: Weights) -> None:
    there = moved(model, change_of(other, model))
    for name in model:
        if name.endswith("running_var"):
            np.testing.assert_allclose(there[name], other[name], rtol=1e-6, atol=1e-10)
        else:
            scale = np.abs(model[name]) + np.abs(other[name])
            assert (np.abs(there[name] - other[name]) <= 1e-5 * scale + 1e-6).all()


@given(models(), st.integers(0, 1000))
def test_no_noise_makes_a_variance_negative_or_not_finite(model: Weights, step: int) -> None:
    _, new = Private(1, clip=1.0, noise=1e3).apply({}, model, [], addressed_draw(1, step)(0))
    assert not has_negative_variance(new)
    assert all(np.isfinite(values).all() for values in new.values())


# ---- what must not show --------------------------------------------------------------------------


def test_a_rejected_upload_is_no_change_and_its_step_is_noised() -> None:
    """Byte for byte what "no change" gives: with others, alone, and where the answer was not even an upload."""
    chain, good = rule_named("private:uploads=2,clip=0.5"), Upload(weights(9, 9, 9) | _statistics(), 5, MODEL)
    bad, still = Upload(weights(np.nan, 0, 0) | _statistics(), 5, MODEL), Upload(MODEL, 5, MODEL)
    draw = addressed_draw(3, 8)

    def after(*uploads: Upload, refused: int = 0) -> dict[str, bytes]:
        new = merge(chain, {}, MODEL, uploads, draw=draw, refused=refused)[1]
        return {name: values.tobytes() for name, values in new.items()}

    assert after(good, bad) == after(good, still) != after(good, good)
    unchanged = {name: values.tobytes() for name, values in MODEL.items()}
    assert after(bad) == after(still) == after(refused=1) != unchanged
    assert after() == unchanged  # nobody answered, which everybody can see


def _statistics() -> dict[str, np.ndarray]:
    return {name: values for name, values in MODEL.items() if name != "w"}


def test_other_rules_are_not_asked_where_nothing_is_good() -> None:
    bad = Upload(weights(np.nan), 5)
    assert merge(rule_named("mean"), {}, weights(1), [bad], draw=addressed_draw(3, 8), refused=4)[1]["w"].tolist() == [
        1.0
    ]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("clip+private:uploads=5", "rule private must have no guard before it, got clip: what a guard does"),
        ("private:uploads=5+mean", "rule must have one way to combine uploads, got 2"),
        ("private", "rule private must be given uploads, as private:uploads=…"),
        ("private:uploads=0", "private must have uploads > 0, got 0"),
        ("private:uploads=5,clip=-1", "private must have clip > 0, got -1"),
        ("private:uploads=5,noise=0", "private must have noise > 0, got 0"),
        ("private:uploads=5,noise=inf", "private must have noise > 0, got inf"),
        ("private:uploads=5,delta=1", "private must have a delta > 0 and < 1, got 1"),
    ],
)
def test_what_could_not_be_accounted_for_gets_a_sentence(rule: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        rule_named(rule)


def test_a_missing_accountant_is_named_as_the_rule_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mobfl.learning.rules.private.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"needs the extra 'privacy': pip install 'mobfl\[privacy\]'"):
        rule_named("private:uploads=5")
    assert importlib.util.find_spec("dp_accounting") is not None


# ---- the noise -----------------------------------------------------------------------------------

WIDE = {"w": np.zeros((50, 40), np.float32), "b.running_var": np.full(5, 2.0, np.float32)}


@pytest.mark.parametrize("private", [Private(1), Private(20, clip=0.3, noise=2.5), Private(0.5, clip=7, noise=0.2)])
def test_the_noise_is_normal_with_the_spread_that_is_told(private: Private) -> None:
    drawn = np.concatenate([noise_in(private, seed, step, WIDE) for seed, step in product(range(5), range(5))])
    assert stats.kstest(drawn, "norm").pvalue > FALSE_ALARM


def test_steps_seeds_and_links_draw_independently() -> None:
    private = Private(1)
    addresses = [*product(range(4), range(4)), (2**63, 0), (0, 10**6)]
    drawn = np.array([noise_in(private, seed, step, WIDE) for seed, step in addresses])
    values, pairs = drawn.shape[1], len(addresses) * (len(addresses) - 1) / 2
    most = np.abs(np.corrcoef(drawn) - np.eye(len(addresses))).max()
    assert most < stats.norm.isf(FALSE_ALARM / pairs / 2) / np.sqrt(values)
    first, second = (addressed_draw(0, 0)(place).standard_normal(4) for place in (0, 1))
    assert not np.isin(first, second).any()


def test_the_same_address_draws_the_same_whatever_the_order_of_names() -> None:
    chain, upload = rule_named("private:uploads=2"), Upload(MODEL, 5, MODEL)
    one = merge(chain, {}, MODEL, [upload], draw=addressed_draw(3, 8))[1]
    backwards = {name: MODEL[name] for name in reversed(MODEL)}
    other = merge(chain, {}, backwards, [Upload(backwards, 5, backwards)], draw=addressed_draw(3, 8))[1]
    assert {name: values.tobytes() for name, values in one.items()} == {
        name: values.tobytes() for name, values in other.items()
    }
    assert list(one) == list(MODEL)


def test_a_deployed_server_never_draws_the_same_twice() -> None:
    assert not np.isin(*(secret_draw(0).standard_normal(100) for _ in range(2))).any()


def test_a_link_that_draws_must_be_given_something_to_draw_from() -> None:
    with pytest.raises(ValueError, match="rule private draws"):
        merge(rule_named("private:uploads=2"), {}, MODEL, [Upload(MODEL, 5, MODEL)])


# ---- ε -------------------------------------------------------------------------------------------


def exact_delta(noise: float, rounds: int, eps: float) -> mpf:
    """Balle and Wang's Theorem 8 at 40 digits, for one Gaussian with the noise of k of them: sensitivity √k over σ."""
    with mp.workdps(40):
        far = mp.sqrt(rounds) / mpf(noise)
        return mp.ncdf(far / 2 - mpf(eps) / far) - mp.exp(mpf(eps)) * mp.ncdf(-far / 2 - mpf(eps) / far)


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("rounds", [1, 3, 40, 2000])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_epsilon_is_that_of_the_exact_formula(noise: float, rounds: int, delta: float) -> None:
    found = epsilon(noise, rounds, delta)
    for near, sign in ((found * (1 - 1e-9) - 1e-9, 1), (found * (1 + 1e-9) + 1e-9, -1)):
        assert sign * (exact_delta(noise, rounds, near) - mpf(delta)) > 0


@pytest.mark.parametrize(("noise", "uploads"), [(5.0, [1] * 30), (8.0, [1, 2, 1, 3]), (20.0, [1] * 300)])
def test_epsilon_is_that_of_composing_step_by_step(noise: float, uploads: list[int]) -> None:
    """The library's other accountant: it convolves the distributions of the privacy loss, to 1e-4 and from above."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant, ledger = PLDAccountant(), Ledger(Private(5, noise=noise))
    for each in uploads:
        accountant.compose(GaussianDpEvent(noise / each))
        ledger.add(["a"] * each)
    assert ledger.results()["epsilon"] == pytest.approx(accountant.get_epsilon(1e-5), abs=1e-4)


def test_the_ledger_tells_of_the_vehicle_that_joined_most() -> None:
    ledger = Ledger(Private(5, clip=2.0, noise=3.0, delta=1e-6))
    assert (ledger.results()["epsilon"], ledger.results()["most_rounds"]) == (0.0, 0)
    for step in (["a", "b"], [], ["b", "c"], ["b", "a", "b"]):
        ledger.add(step)
    told = ledger.results()
    assert (told["most_rounds"], told["composed_rounds"], told["vehicles"]) == (3, 1 + 1 + 4, 3)
    assert told["epsilon"] == pytest.approx(epsilon(3.0, 6, 1e-6))
    assert (told["delta"], told["noise"], told["clip"], told["denominator"]) == (1e-6, 3.0, 2.0, 5)
