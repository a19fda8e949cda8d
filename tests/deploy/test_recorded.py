"""What a deployment's folder tells: who was there, how long attempts took, and what was cut off."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from deployed_log import Line, line, simulated_deployment, write_deployment
from deployed_road import deployment
from mobfl import AsManyAsFit, Crossings, InputError, RecordedDeployment, Scenario, read_deployment
from mobfl.deploy.step_law import SeenSteps
from mobfl.deploy.vehicle.trainer import Trainer
from mobfl.rounds.orders import FixedPlan

ROAD = Scenario.from_dict({"traffic": {"participation": 0.5}})
H = 4


def row(number: int, uploads: int, present: int = 2) -> Line:
    return {
        "start_s": 10.0 * number,
        "end_s": 10.0 * number + 10,
        "local_steps": H,
        "present": present,
        "uploads": uploads,
    }


def of_round(number: int, *lines: Line) -> list[Line]:
    return [*lines, line("ended", number, 110.0 + 10 * number, overshoot_s=0.0)]


# Rounds of ten seconds from 100 s on. b answers in all but the first; a and c leave; d joins, dies and comes again.
STORY = [
    line("measured", -1, 0.0, round_trip_s=0.5),
    line("started", 0, 100.0, unix_s=0.0, scale=1.0),
    *of_round(
        0,
        line("began", 0, 100.0, "1"),
        line("began", 0, 100.0, "2"),
        line("began", 0, 103.0, "3"),
        line("uploaded", 0, 106.0, "1", compute_s=4.0),
        line("left", 0, 107.0, "3"),
        line("cut_off", 0, 110.0, "2"),
    ),
    *of_round(
        1,
        line("began", 1, 110.0, "1", 1),
        line("began", 1, 110.0, "2", 1),
        line("left", 1, 114.0, "1", 1),
        line("late", 1, 110.5, "2", 0),
        line("rejected", 1, 118.0, "2", 1, compute_s=6.0, reason="not finite"),
    ),
    *of_round(
        2,
        line("began", 2, 120.0, "2", 2),
        line("began", 2, 125.0, "4"),
        line("gave_up", 2, 129.0, "4"),
        line("uploaded", 2, 125.0, "2", 2, compute_s=3.0),
    ),
    *(
        event
        for number in range(3, 12)
        for event in of_round(
            number,
            line("began", number, 100.0 + 10 * number, "2", number),
            line("uploaded", number, 104.0 + 10 * number, "2", number, compute_s=2.0),
        )
    ),
]
ROWS = [row(0, 1, 3), row(1, 1), row(2, 1), *(row(number, 1, 1) for number in range(3, 12))]


def told(folder: Path, lines: list[Line] = STORY, **more: object) -> RecordedDeployment:
    return read_deployment(write_deployment(folder, ROAD, ROWS, lines, **more))  # type: ignore[arg-type]


def test_a_story_of_four_vehicles(tmp_path: Path) -> None:
    """Download and upload take 2 s; a step is what remains, by four."""
    seen = told(tmp_path)
    crossings = zip(seen.crossings.vehicle, seen.crossings.enter_s, seen.crossings.leave_s, strict=True)
    assert list(crossings) == [("1", 100.0, 114.0), ("2", 100.0, 220.0), ("3", 103.0, 107.0), ("4", 125.0, 130.0)]
    assert seen.observed_s == (100.0, 220.0)
    assert seen.transfer_s == 2.0
    steps = list(zip(seen.seen.visit.tolist(), seen.seen.step_s.tolist(), seen.seen.ended.tolist(), strict=True))
    assert steps == [
        (0, 1.0, True),
        (1, 2.0, False),  # to the round's end
        (2, 0.5, False),  # until it left
        (0, 0.5, False),
        (1, 1.5, True),  # it came in time, though it could not be averaged
        (1, 0.75, True),
        (3, 0.5, False),  # until it gave up
        *[(1, 0.5, True)] * 9,
    ]
    assert seen.rounds.uploads.tolist() == [1] * 12
    assert seen.rounds.valid_steps_per_s == pytest.approx(0.4)
    (cut,) = seen.notices
    assert cut.startswith("4 of 16 attempts were cut off and count as longer than they had time")


def test_the_scenario_is_the_runs_own_with_what_was_measured(tmp_path: Path) -> None:
    road = told(tmp_path).scenario
    assert (road.link.download_s, road.link.upload_s) == (1.0, 1.0)
    assert (road.compute.law, road.compute.min_step_s) == ("measured", 0.5)
    assert road.traffic.participation == 1.0  # all of these took part
    assert road.road == ROAD.road


def test_who_is_started_again_counts_once(tmp_path: Path) -> None:
    """What was said of a round before its server was killed is void."""
    at = STORY.index(line("ended", 2, 130.0, overshoot_s=0.0))
    lost = [line("began", 3, 130.0, "2", 3), line("began", 3, 130.0, "9"), line("uploaded", 3, 131.0, "9")]
    again = line("started", 3, 130.0, unix_s=0.0, scale=1.0)
    whole, killed = (
        told(tmp_path / "whole"),
        told(tmp_path / "killed", [*STORY[: at + 1], *lost, again, *STORY[at + 1 :]]),
    )
    assert killed.crossings.fingerprint() == whole.crossings.fingerprint()
    assert killed.seen.step_s.tolist() == whole.seen.step_s.tolist()


def test_a_node_that_comes_again_is_another_visit(tmp_path: Path) -> None:
    """Also where its leaving was not told: its first attempt says so."""
    lines = [*STORY]
    lines.insert(-1, line("began", 11, 215.0, "4"))
    visits = told(tmp_path, lines).crossings
    assert [(enter, leave) for name, enter, leave in zip(visits.vehicle, visits.enter_s, visits.leave_s, strict=True) if name == "4"] == [(125.0, 130.0), (215.0, 220.0)]  # fmt: skip # noqa: E501


def test_nobody_is_quick_by_saying_so(tmp_path: Path) -> None:
    """It claims no time at all for its steps; six seconds of transfers are three times the others'."""
    claims = [{**each, "compute_s": 1e-9} if each["at_s"] == 118.0 else each for each in STORY]
    seen = told(tmp_path, claims).seen
    assert (seen.step_s[4], seen.step_s.min()) == (1.5, 0.5)


@pytest.mark.parametrize(
    ("deployment", "transfer_s", "source"),
    [
        ({"scale": 0.5}, 1.0, "of every delay 1 s, the median of messages before the first round, count as transfers"),
        ({"impose": True}, 2.0, "of every delay 2 s, which were imposed, count as transfers"),
    ],
)
def test_an_old_log_says_what_is_assumed(
    tmp_path: Path, deployment: dict[str, object], transfer_s: float, source: str
) -> None:
    old = [{key: value for key, value in each.items() if key != "compute_s"} for each in STORY]
    seen = told(tmp_path, old, **deployment)
    assert seen.transfer_s == transfer_s
    assert seen.notices[0] == f"Its events do not say how long local steps took: {source}"


def test_transfers_that_leave_no_time_for_steps_are_cut(tmp_path: Path) -> None:
    old = [{key: value for key, value in each.items() if key not in ("compute_s", "round_trip_s")} for each in STORY]
    seen = read_deployment(write_deployment(tmp_path, ROAD.with_values({"link.upload_s": 9.0}), ROWS, old))
    assert seen.transfer_s == pytest.approx(3.6)  # of the four seconds of the quickest
    assert "Messages took 10 s, but an answer came after 4 s: 3.6 s count as transfers" in seen.notices[1]


# ---- damage --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk",
    [
        '{"kind": "uploaded", "round": 1, "at_',
        "null",
        '{"kind": "began", "round": "x", "at_s": 110.0, "node": "2", "attempt": 0}',
        '{"kind": "began", "round": 1, "at_s": NaN, "node": "2", "attempt": 0}',
        '{"kind": "began", "round": 1, "at_s": 1e999, "node": "2", "attempt": 0}',
        '{"kind": "began", "round": 1, "at_s": 110.0, "node": 2, "attempt": 0}',
        '{"kind": "began", "round": 1, "at_s": 110.0, "node": "2"}',
        '{"kind": "began", "round": 1, "at_s": 1e9, "node": "2", "attempt": 0}',
        '{"kind": "uploaded", "round": 1, "at_s": 1e9, "node": "2", "attempt": 0}',
        "[" * 100_000,
        "\0\0\0",
    ],
)
def test_a_damaged_line_costs_a_sentence(tmp_path: Path, junk: str) -> None:
    whole, file = told(tmp_path), tmp_path / "events.jsonl"
    lines = file.read_text().splitlines()
    at = next(i for i, text in enumerate(lines) if '"kind": "began", "round": 1' in text)
    file.write_text("\n".join([*lines[: at + 2], junk, *lines[at + 2 :]]) + "\n")
    seen = read_deployment(tmp_path)
    assert seen.crossings.fingerprint() == whole.crossings.fingerprint()
    assert seen.seen.step_s.tolist() == whole.seen.step_s.tolist()
    assert seen.notices == ("1 lines of events.jsonl cannot be understood and are left out", *whole.notices)


def test_kinds_that_are_not_known_yet_cost_nothing(tmp_path: Path) -> None:
    lines = [*STORY, line("overtaken", 3, 131.0, "2"), line("began", 99, 131.0, "7"), line("broke", -1, 0.0)]
    assert told(tmp_path / "new", lines).notices == told(tmp_path / "old").notices


def test_values_that_make_no_sense_are_as_if_they_were_not_said(tmp_path: Path) -> None:
    odd = [{**each, "compute_s": "long"} if "compute_s" in each else each for each in STORY]
    assert told(tmp_path, odd, impose=True).transfer_s == 2.0


@pytest.mark.parametrize("lost", range(0, len(STORY), 3))
def test_any_line_may_be_missing(tmp_path: Path, lost: int) -> None:
    seen = told(tmp_path, STORY[:lost] + STORY[lost + 1 :])
    assert 3 <= len(seen.crossings) <= 5
    assert seen.crossings.leave_s.max() <= 220.0


# ---- wrong input ---------------------------------------------------------------------------------------


def without(key: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        run = json.loads((folder / "run.json").read_text())
        del run[key]
        (folder / "run.json").write_text(json.dumps(run))

    return damage


def events(lines: list[Line]) -> Callable[[Path], None]:
    return lambda folder: (
        (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines)) and None
    )


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (without("deployment"), "must hold a deployment, got a run that was simulated"),
        (lambda folder: (folder / "events.jsonl").unlink(), "must have events in events.jsonl, got none"),
        (events([]), "must have events in events.jsonl, got none"),
        (events(STORY[:5]), "must tell in events.jsonl when its rounds ended, got no such line"),
        (events(STORY[:20]), "must have 10 answers or more to tell how long local steps take, got 3"),
        (lambda folder: (folder / "run.json").unlink(), "run.json"),
    ],
)
def test_what_is_no_recorded_deployment_gets_a_sentence(
    tmp_path: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    damage(write_deployment(tmp_path, ROAD, ROWS, STORY))
    with pytest.raises(InputError, match=sentence):
        read_deployment(tmp_path)


def test_a_plan_of_ones_own_must_say_what_vehicles_knew(tmp_path: Path) -> None:
    fitted = [{**each, "steps": 3} if each["kind"] == "uploaded" else each for each in STORY]
    with pytest.raises(InputError, match=r"must say in run\.json what vehicles knew of their leaving"):
        told(tmp_path, fitted)


@pytest.mark.parametrize("impose", [True, False])
def test_a_trainer_says_how_long_its_steps_took(tmp_path: Path, impose: bool) -> None:
    """On the road's clock: as long as is imposed without the transfers, or what was measured over the scale."""
    road = ROAD.with_values({"training.samples_per_vehicle": 20, "training.batch_size": 8})
    paced = {"task": "deployed_road:paced_task", "options": {"each_s": 0.01}, "impose": impose}
    trainer = Trainer.of(deployment(road, tmp_path, "5,6", **paced))
    wish = {"vehicle": "a", "attempt": 0, "local_steps": 5, "learning_rate": 0.1, "scale": 0.1}
    took, _ = trainer.answer(wish, trainer.reference)
    if impose:
        assert took["compute_s"] == pytest.approx(took["delay_s"] - 2.0)
    else:
        assert took["compute_s"] >= 0.5


# ---- the law of steps ----------------------------------------------------------------------------------


def test_kaplan_meier_is_that_of_scipy() -> None:
    """Below what was seen; the draws stand for its steps in 2000 parts."""
    random = np.random.default_rng(1)
    true_s, window_s = 0.2 + random.exponential(0.2, 400), random.uniform(0.2, 0.7, 400)
    ended = true_s <= window_s
    step_s = np.minimum(true_s, window_s)
    law = SeenSteps(step_s, ended, np.arange(400)).law
    survival = ecdf(CensoredData.right_censored(step_s, ~ended)).sf
    for at_s in np.linspace(0.21, law.seen_up_to_s - 0.01, 40):
        assert (law.samples_s > at_s).mean() == pytest.approx(survival.evaluate(at_s), abs=1.01 / 2000)


def test_one_attempt_does_not_stand_for_all_that_were_cut_off() -> None:
    """Of a hundred that were cut off at half a second one had a little more time, and answered."""
    step_s = np.array([*np.linspace(0.2, 0.5, 50), *[0.5] * 100, 0.501])
    law = SeenSteps(step_s, np.array([True] * 50 + [False] * 100 + [True]), np.arange(151)).law
    assert (law.seen_up_to_s, law.unseen_share) == (0.5, pytest.approx(101 / 151))
    assert (law.samples_s > 0.6).mean() > 0.5


def test_nothing_cut_off_is_the_sample_itself() -> None:
    law = SeenSteps(np.array([0.5, 0.2, 0.3]), np.ones(3, bool), np.arange(3)).law
    assert (law.samples_s.tolist(), law.unseen_share) == ([0.2, 0.3, 0.5], 0.0)


def poisson(seed: int, lasts_s: float, stay_s: float = 20.0) -> Crossings:
    random = np.random.default_rng(seed)
    enter_s = np.sort(random.uniform(0.0, lasts_s, random.poisson(0.2 * lasts_s)))
    return Crossings(np.arange(len(enter_s)), enter_s, enter_s + stay_s)


PAPER = Scenario.from_dict({})
SURE = 4.0  # standard deviations: of recordings of this law one in 15,000 is beyond


@pytest.mark.parametrize("tells_steps", [True, False])
def test_alpha_and_beta_are_found_though_most_attempts_are_cut_off(tmp_path: Path, tells_steps: bool) -> None:
    """From answers alone β would be less than half: only quick attempts answer."""
    seen = read_deployment(
        simulated_deployment(tmp_path, PAPER, poisson(2, 6000.0), FixedPlan(24, 11.8), 3, tells_steps)
    )
    answers, law = seen.seen.step_s[seen.seen.ended], seen.law
    assert seen.transfer_s == pytest.approx(2.0)
    assert len(answers) < 0.5 * len(seen.seen.ended)
    assert 0.2 <= law.min_step_s <= 0.2 + 10 * 0.2 / len(answers)  # beyond with a chance of e^−10
    assert abs(law.extra_step_s - 0.2) < SURE * 0.2 / math.sqrt(len(answers))
    assert answers.mean() - answers.min() < 0.1


def test_beta_of_other_visits_spreads_as_it_should(tmp_path: Path) -> None:
    """β/√(answers), as of any exponential law, whatever was cut off."""
    seen = read_deployment(simulated_deployment(tmp_path, PAPER, poisson(2, 3000.0), FixedPlan(24, 11.8), 3)).seen
    others = [seen.law_of_others(np.random.default_rng(each)).extra_step_s for each in range(100)]
    assert np.std(others) == pytest.approx(0.2 / math.sqrt(seen.ended.sum()), rel=0.35)


@pytest.mark.parametrize("knows", ["nothing", "leaving"])
def test_anytime_rounds_tell_the_law_too(tmp_path: Path, knows: str) -> None:
    """Who sits out needs longer than it had for one step; who leaves is lost however quick it is, and not counted."""
    road = PAPER.with_values({"compute.min_step_s": 1.0, "compute.extra_step_s": 2.0})
    plan = FixedPlan(AsManyAsFit(knows), 8.0)  # type: ignore[arg-type]
    seen = read_deployment(simulated_deployment(tmp_path, road, poisson(4, 6000.0), plan, 3))
    answers = int(seen.seen.ended.sum())
    assert (~seen.seen.ended).sum() > 100
    assert abs(seen.law.extra_step_s - 2.0) < SURE * 2.0 / math.sqrt(answers)
    assert seen.asked == AsManyAsFit(knows)  # type: ignore[arg-type]
