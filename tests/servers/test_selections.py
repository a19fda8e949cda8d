"""Rounds for those who are chosen, and rounds that end early: vehicles placed by hand."""

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest

from fake_task import CountingTask, QuadraticTask
from mobfl import Crossings, InputError, Job, PartError, Scenario
from mobfl.runs.job import check_job, training_site
from mobfl.servers.names import plan_name, server_of
from mobfl.servers.selections import Candidate, RoundAhead, Seen
from mobfl.servers.selections.bandit import Bandit
from mobfl.servers.selections.fedcs import FedCS
from mobfl.servers.steps import server_steps
from stories import BUSY, STEADY, columns, crossings, run, story

ROW = ("start_s", "local_steps", "present", "uploads", "steps")
AHEAD = RoundAhead(0, 10.0, 20, 1.0, 2.0)


def candidate(key: int, compute_s: float = 4.0, left_s: float = inf, stayed_s: float = 0.0) -> Candidate:
    return Candidate(np.uint64(key), stayed_s, left_s, compute_s, draw=key / 100)


def keys(chosen: Sequence[Candidate]) -> list[int]:
    return [int(each.key) for each in chosen]


# ---- early upload ----------------------------------------------------------------------------------------------------


def test_who_has_time_takes_all_steps_and_the_others_what_fits() -> None:
    """A step takes 0.2 s and both transfers 2 s; a stays from 0.5 to 9, b from 1 to 3, c from 4 to 12."""
    assert columns(story("early:14,5"), *ROW) == [
        (0.0, 12, 3, 1, 12),  # a has 4.5 s: 12 steps instead of 14; b leaves before; c has 1 s
        (5.0, 14, 2, 1, 14),  # c has 5 s: all 14; a leaves before
        (10.0, 0, 1, 0, 0),
    ]
    assert columns(story("early:14,5,knows=leaving"), *ROW)[1] == (5.0, 14, 2, 2, 24)  # a: 4 s, 10 steps


def test_without_a_bound_that_binds_it_is_anytime() -> None:
    early, anytime = (columns(story(plan), *ROW, "count") for plan in ("early:999,5", "anytime:5"))
    assert early == anytime


# ---- who takes part --------------------------------------------------------------------------------------------------


def test_who_comes_during_a_round_waits_for_the_next() -> None:
    assert columns(story("selected:3,5,by=all"), *ROW) == [
        (0.0, 3, 3, 0, 0),  # nobody is there as it begins
        (5.0, 3, 2, 2, 6),  # a and c
        (10.0, 3, 1, 0, 0),  # c leaves at 12, and needs 2.6 s
    ]


@pytest.mark.parametrize("by", ["random", "longest", "bandit", "fedcs"])
def test_two_slots_are_two_however_they_are_written(by: str) -> None:
    two, also_two = (columns(story(f"selected:3,5,by={by},slots={slots}"), "uploads") for slots in ("2", "2.0"))
    assert two == also_two


def test_slots_go_to_those_who_stay_longest() -> None:
    """a and c have been there for 4.5 and 1 s; the mean stay is 5.9 s, so a is expected to leave first."""
    chosen = columns(story("selected:3,5,by=longest,slots=1"), "uploads", "steps")
    assert chosen == [(0, 0), (1, 3), (0, 0)]
    fitting = story("selected:fit,5,by=longest,slots=1,knows=leaving")
    assert columns(fitting, *ROW) == [(0.0, 0, 3, 0, 0), (5.0, 15, 2, 1, 15), (10.0, 0, 1, 0, 0)]  # c, not a


def test_uploads_of_fedcs_wait_for_each_other() -> None:
    """Three are there from the start; 10 steps take 2 s, an upload 1 s: they are done at 4, 5 and 6."""
    three = crossings(("a", 0.0, 20.0), ("b", 0.0, 4.5), ("c", 0.0, 20.0))
    for plan, uploads in {"by=fedcs": [2, 1], "by=fedcs,knows=leaving": [3, 2], "by=fedcs,slots=1": [1, 1]}.items():
        assert [u for (u,) in columns(story(f"selected:10,7,{plan}", traffic=three), "uploads")] == uploads, plan
    assert columns(story("selected:10,5,by=fedcs,knows=leaving", traffic=three), "uploads")[0] == (2,)
    site = training_site(STEADY, 7, three)
    first = next(server_steps(server_of("selected:10,7,by=fedcs,knows=leaving", None, STEADY, three).schedule, site))
    assert [round(each.upload_s, 9) for each in first.uploads] == [3.0, 1.0, 2.0]  # b first, then the others by lot
    assert (first.effort.downloads, first.effort.uploads, round(first.effort.compute_s, 9)) == (3, 3, 6.0)


def test_fedcs_adds_whoever_lengthens_the_sequence_least() -> None:
    """Downloads take 1 s and uploads 2 s; the round has 10 s."""
    quick, slow, later = candidate(1, 2.0), candidate(2, 6.5), candidate(3, 3.0)
    assert keys(FedCS().choose([slow, quick, later], AHEAD, None)) == [1, 3, 2]  # done at 5, 7 and 9.5
    assert keys(FedCS().choose([candidate(5, 7.5), quick, later, candidate(4, 1.0)], AHEAD, None)) == [
        4,
        1,
        3,
    ]  # 4, 6, 8; not 10.5
    assert keys(FedCS(slots=1).choose([slow, quick], AHEAD, None)) == [1]
    assert keys(FedCS().choose([candidate(1, 2.0, left_s=4.9), slow], AHEAD, None)) == [2]
    assert FedCS().choose([], AHEAD, None) == []


def test_the_bandit_tries_all_and_then_what_succeeds() -> None:
    fresh, old = candidate(1, stayed_s=1.0), candidate(2, stayed_s=14.0)
    bandit = Bandit(slots=1, explore=0.1)
    assert keys(bandit.choose([fresh, old], AHEAD, None)) == [1]
    assert keys(bandit.choose([fresh, old], AHEAD, [(fresh, True)])) == [2]  # it was never tried
    assert keys(bandit.choose([fresh, old], AHEAD, [(old, False)])) == [1]
    assert keys(bandit.choose([old, candidate(7, stayed_s=3.0)], AHEAD, [(fresh, True)])) == [7]  # whose like succeed
    assert keys(bandit.choose([old], AHEAD, [])) == [2]  # better than nobody
    bold = Bandit(slots=1, explore=5.0)
    bold.choose([], AHEAD, None)
    assert keys(bold.choose([fresh, old], AHEAD, [(fresh, True)] * 50 + [(old, False)])) == [2]  # worth another try
    assert keys(bandit.choose([fresh, old], AHEAD, None)) == [1]  # a new run, in which nothing is known


def test_the_bandit_learns_on_the_road_who_leaves_too_soon() -> None:
    """With one slot, it uploads more often than chance does; leaving is known to neither."""
    uploads = {}
    for by in ("bandit", "random"):
        road = BUSY.with_values({"training.duration_s": 4000.0})
        server = server_of(f"selected:20,9,by={by},slots=1", None, road, None)
        steps = list(server_steps(server.schedule, training_site(road, 3, None)))
        assert max(len(step.uploads) for step in steps) == 1
        uploads[by] = sum(len(step.uploads) for step in steps)
        assert [s.uploads for s in server_steps(server.schedule, training_site(road, 3, None))] == [
            s.uploads for s in steps
        ]  # asked again it has forgotten
    assert uploads["bandit"] > 1.1 * uploads["random"]


class Twice:
    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:
        return [*there, *there]


class Stranger:
    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:
        return [candidate(1)]


@pytest.mark.parametrize("own", ["Twice", "Stranger"])
def test_a_selection_of_ones_own_must_choose_each_once(own: str) -> None:
    with pytest.raises(PartError, match=f"selection {own} must choose each once of those who are there"):
        story(f"selected:3,5,by=test_selections:{own}")
    job = Job(CountingTask(), STEADY, f"selected:3,5,by=test_selections:{own}", 7)
    assert job.describe()["parts"]["selection"]["file"] == "test_selections.py"


# ---- contact-time uploads --------------------------------------------------------------------------------------------

# 1 s for a whole upload of 1000 bytes.
BYTES = STEADY.with_values({"link.model_bytes": 1000, "link.downlink_bps": 8000.0, "link.uplink_bps": 8000.0})


def test_what_cannot_be_sent_whole_is_sent_in_part() -> None:
    """Twelve steps take 2.4 s, the download 1 s: a is ready at 3.9 and 8.3, c at 7.4 and 11.8."""
    traffic = crossings(("a", 0.5, 9.0), ("b", 1.0, 3.0), ("c", 4.0, 12.0))
    schedule = server_of("mads:12", None, BYTES, traffic).schedule
    steps = list(server_steps(schedule, training_site(BYTES, 7, traffic)))
    assert [(round(s.end_s, 9), s.uploads[0].budget) for s in steps] == [
        (4.9, None),
        (8.4, None),
        (9.0, 700),  # a leaves 0.7 s after it was ready
        (12.0, 200),
    ]
    assert [round(s.uploads[0].upload_s, 9) for s in steps] == [1.0, 1.0, 0.7, 0.2]
    choosy = server_of("mads:12,least_share=0.5", None, BYTES, traffic).schedule
    assert len(list(server_steps(choosy, training_site(BYTES, 7, traffic)))) == 3


def test_a_budget_is_filled_with_the_largest_changes() -> None:
    """With a codec that could send all six numbers; a link of 88 bytes a second takes a second for the model."""
    by_rates = STEADY.with_values({"link.model_bytes": 88, "link.downlink_bps": 704.0, "link.uplink_bps": 704.0})
    rows = run(Job(QuadraticTask(), by_rates, "mads:12", 7, crossings(("a", 0.5, 9.0)), codec="topk:share=1"))
    whole = 30 / 88  # s for six entries of five bytes
    ends = [round(each.row["end_s"], 6) for each in rows]
    assert ends[0] == round(0.5 + 1 + 2.4 + whole, 6)
    assert ends[1] == round(ends[0] + 1 + 2.4 + whole, 6)
    assert len(ends) == 2  # 0.9 s are not enough for twelve steps more
    short = run(Job(QuadraticTask(), by_rates, "mads:12", 7, crossings(("a", 0.5, 4.1)), codec="topk:share=1"))
    moved = {name: int((values != 0).sum()) for name, values in short[0].checkpoint.model.items()}
    assert short[0].row["end_s"] == pytest.approx(4.1)
    assert sum(moved.values()) == 3  # 0.2 s carry 17 of the 30 bytes


def test_only_a_codec_that_keeps_to_a_budget_goes_with_it() -> None:
    with pytest.raises(
        InputError, match="plan mads sends some uploads in part: the codec must take a budget, got plain"
    ):
        check_job(Job(CountingTask(), BYTES, "mads:12", 7, crossings(("a", 0.5, 9.0))))


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names_go_there_and_back(paper: Scenario) -> None:
    for given, said in [
        ("early:24,12", "early:24,12,knows=nothing"),
        ("early:local_steps=24,round_s=12", "early:24,12,knows=nothing"),
        ("early:10,round_s=best", "early:10,6.088,knows=nothing"),
        ("async:local_steps=24", "fedasync:24,mixing=0.6,staleness_power=0.5"),
        ("selected", "selected:24,11.78,by=fedcs,slots=0,knows=mean"),
        ("selected:10,best", "selected:10,6.088,by=fedcs,slots=0,knows=mean"),
        ("selected:fit,8,by=bandit,slots=3", "selected:fit,8,by=bandit,slots=3,bin_s=5,explore=1,knows=mean"),
        ("selected:fit,by=random", "selected:fit,14.28,by=random,slots=2,knows=mean"),
        ("selected:3,5,by=longest,knows=leaving,error=0.2", "selected:3,5,by=longest,slots=2,knows=leaving,error=0.2"),
    ]:
        described = server_of(given, None, paper, None).describe()
        assert plan_name(described) == said
        assert plan_name(server_of(said, None, paper, None).describe()) == said


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("early:fit,8", "plan early must go on with :H,T,NAME=VALUE"),
        ("early:24,12,slots=2", "plan early has no parameter slots"),
        ("early:24,12,local_steps=5", "plan early must give local_steps once, got it twice"),
        ("early:24,12,round_s=5", "plan early must give round_s once, got it twice"),
        ("selected:24,12,round_s=5", "plan selected must give round_s once, got it twice"),
        ("early:local_steps=x", "plan early must go on with :H,T,NAME=VALUE, .* got 'x,best'"),
        ("async:24,local_steps=5", "plan async must give local_steps once, got it twice"),
        ("async:local_steps=x", "plan async must have a whole H >= 1, best or epoch after its colon, got 'x'"),
        ("selected:24,12,13", "plan selected must go on with :H,T,NAME=VALUE"),
        ("selected:24,-1", "plan selected must go on with :H,T,NAME=VALUE"),
        (
            "selected:24,12,by=fedc",
            "selection must be one of all, random, longest, fedcs, bandit, .* did you mean fedcs",
        ),
        ("selected:24,12,by=random,bin_s=2", "selection random has no parameter bin_s: its parameters are slots"),
        ("selected:24,12,by=random,slots=0", "random must have a whole number of slots >= 1, got 0"),
        ("selected:24,12,by=bandit,bin_s=0", "bandit must have a bin_s > 0 s, got 0"),
        ("selected:24,12,by=longest,knows=nothing", "selection longest goes by when vehicles leave"),
        ("selected:fit,8,by=fedcs", "selection fedcs goes by how long H steps take: it must have an H, got fit"),
        ("selected:24,12,knows=x", "plan selected must have knows one of nothing, mean, leaving, got 'x'"),
        ("selected:fit,by=all,knows=x", "knows must be one of nothing, mean, predicted, leaving, got 'x'"),
        ("mads:24", "plan mads must have a link of link.downlink_bps and link.uplink_bps"),
        ("mads:24,knows=nothing", "plan mads must have knows=mean or knows=leaving"),
        ("mads:24,least_share=0", "plan mads must have a least_share > 0 and <= 1, got 0"),
    ],
)
def test_nonsense_is_named(paper: Scenario, given: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        server_of(given, None, paper, None)


def test_an_empty_road_has_empty_rounds() -> None:
    nobody = Crossings.sorted(["x", "y"], [-1.0, 80.0], [0.0, 90.0])
    for plan in ("early:3,5", "selected:3,5,by=fedcs", "selected:3,5,by=bandit"):
        steps = list(server_steps(server_of(plan, None, STEADY, nobody).schedule, training_site(STEADY, 7, nobody)))
        assert [(len(step.uploads), step.effort.downloads) for step in steps] == [(0, 0)] * 3
