"""Anytime rounds whose T follows the traffic: what is seen of them, what is made of it, and where it leads."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import AsManyAsFit, Crossings, InputError, Job, Scenario, plan_anytime, theory, train
from mobfl.mobility.poisson import poisson_crossings
from mobfl.policies.adaptive.choices import OnlyT
from mobfl.policies.adaptive.controller import Settings
from mobfl.policies.adaptive.following import follow
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.policies.adaptive.watching import Watcher
from mobfl.rounds.orders import FixedPlan, Order
from mobfl.rounds.rows import joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.servers.names import plan_name, server_of
from mobfl.theory import KNOWLEDGE, Delays, Knows
from stories import BUSY


def test_what_a_base_station_sees_of_attempts(paper: Scenario) -> None:
    """Ann replies after 40 steps, Bob is lost, Cy has 2.1 s and would need 2.2, Di replies after 5."""
    steady = paper.with_values({"compute.extra_step_s": 0})
    traffic = Crossings(
        np.array(["ann", "bob", "cy", "di", "last"]),
        np.array([0.0, 5.0, 7.9, 17.0, 40.0]),
        np.array([10.0, 8.6, 9.99, 20.0, 40.0]),
    ).take(np.argsort([0.0, 5.0, 7.9, 17.0, 40.0]))
    for knows, windows in (("nothing", [10.0, 2.09, 3.0]), ("mean", [10.0, 3.0])):
        plan = FixedPlan(AsManyAsFit(knows, 30.0), 10.0)
        rounds = joined(list(simulate_rounds([traffic], plan, Delays.of(steady), 0))[:1])
        seen = Watcher(2.0).see(rounds)
        assert seen.window_s.tolist() == pytest.approx(windows)
        told = [(10.0, 40.0), (np.nan, 1.0), (3.0, 5.0)] if knows == "nothing" else [(10.0, 40.0), (3.0, 5.0)]
        assert np.allclose(np.stack([seen.reply_s, seen.steps], axis=1), told, equal_nan=True)


def orders(policy: AdaptivePolicy, truth: Scenario, until_s: float) -> list[Order]:
    blocks = simulate_rounds([next(poisson_crossings(truth, 3))], policy, Delays.of(truth), 1, until_s=until_s)
    given = []
    for block in blocks:
        given.append(Order(block.local_steps, block.round_s))
        if block.start_s[-1] > until_s:
            break
    return given


@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_it_finds_the_best_t_from_a_wrong_beginning(paper: Scenario, knows: Knows) -> None:
    prior = paper.with_values({"traffic.arrivals_per_s": 0.02, "traffic.speed_mps": 5, "compute.min_step_s": 1.0})
    policy = AdaptivePolicy(prior, Delays.of(paper), chooser=OnlyT(AsManyAsFit(knows, prior.dwell_s)))
    given = orders(policy, paper, 4000.0)
    best = plan_anytime(paper, knows)
    first, last = (float(theory.anytime_objective(paper, each.round_s, knows)) for each in (given[0], given[-1]))
    assert first < 0.9 * best.objective
    assert last > 0.96 * best.objective
    for before, after in itertools.pairwise(given):
        assert 0.5 <= after.round_s / before.round_s <= 2.0
    asked = given[-1].local_steps
    assert isinstance(asked, AsManyAsFit)
    assert asked.knows == knows
    assert asked.mean_stay_s == pytest.approx(paper.dwell_s, rel=0.02)  # as it was seen


def test_unequal_steps_tell_transfers_from_steps(paper: Scenario) -> None:
    """Where all take one H only τ + αH shows; here the prior of τ is off by 40 %, and is mended."""
    prior = paper.with_values({"link.download_s": 0.6, "link.upload_s": 0.6, "compute.extra_step_s": 0.1})
    policy = AdaptivePolicy(prior, Delays.of(paper), chooser=OnlyT(AsManyAsFit()))
    orders(policy, paper, 4000.0)
    known = policy.controller.knowledge().delay
    assert known.transfer_s.value == pytest.approx(2.0, rel=0.05)
    assert known.min_step_s.value == pytest.approx(0.2, rel=0.05)
    assert known.extra_step_s.value == pytest.approx(0.2, rel=0.25)


def test_following_is_compared_with_keeping(paper: Scenario) -> None:
    """Vehicles stay for 10 s where the scenario says 100: who trains until the end of its long rounds is lost."""
    truth = paper.with_values({"traffic.arrivals_per_s": 0.3, "traffic.speed_mps": 40.0})
    crossings = next(poisson_crossings(truth, 2)).between(0.0, 3000.0)
    prior = paper.with_values({"traffic.speed_mps": 4.0})
    came = follow(prior, 10**6, 1, crossings, Settings(every_s=30.0), chooser=OnlyT(AsManyAsFit()))
    assert came.changes >= 1
    assert came.objective > 1.2 * came.kept_objective
    assert {note.local_steps for note in came.notes} == {None}
    assert came.notes[-1].round_s < came.notes[0].round_s / 2


def test_names_descriptions_and_nonsense(paper: Scenario) -> None:
    for given, more in (("adaptive:knows=nothing", {}), ("adaptive:knows=leaving,error=0.1", {"error": 0.1})):
        server = server_of(given, None, paper, None)
        told = server.describe()
        assert (told["policy"], told["local_steps"], told["round_s"]) == ("adaptive", None, None)
        assert {name: told[name] for name in more} == more
        assert str(server.rule) == "clip:times=3+cap:times=2+steps:power=1"
        assert server_of(plan_name(told), None, paper, None).describe() == told
    assert "knows" not in server_of("adaptive", None, paper, None).describe()
    for given, sentence in (
        ("adaptive:knows=all", "knows one of nothing, mean, predicted, leaving, got 'all'"),
        ("adaptive:knows=", "knows one of nothing, mean, predicted, leaving, got ''"),
        ("adaptive:error=0.1", "plan adaptive must have an error with knows=leaving, got 0.1 without it"),
        ("adaptive:knows=mean,error=0.1", "an error >= 0 and <= 100, with knows=leaving, got 0.1 with knows=mean"),
    ):
        with pytest.raises(InputError, match=sentence):
            server_of(given, None, paper, None)
    noisy = paper.with_values({"training.noise_uploads": 2})
    with pytest.raises(InputError, match="noise_uploads must be 0 for anytime rounds"):
        server_of("adaptive:knows=nothing", None, noisy, None)


def test_a_training_follows_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    road = BUSY.with_values({"training.duration_s": 600.0, "traffic.speed_mps": 40.0})
    traffic = next(poisson_crossings(BUSY, 4)).between(0.0, 900.0)
    job = Job(CountingTask(), road, "adaptive:knows=mean,every_s=30,evidence=0,worth=0", 7, traffic)
    whole = train(job, tmp_path / "whole")
    lengths_s = np.diff(whole.columns["end_s"])
    assert len(np.unique(lengths_s.round(6))) > 1
    assert json.loads((tmp_path / "whole/run.json").read_text())["plan"]["knows"] == "mean"

    def stop(row: dict[str, object]) -> None:
        if row["round"] == 25:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(job, tmp_path / "parts", checkpoint_s=0.0, progress=stop, workers=2)
    train(job, tmp_path / "parts", resume=True)
    for name in ("rounds.parquet", "last.safetensors"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
