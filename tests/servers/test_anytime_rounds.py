"""Training in anytime rounds: vehicles placed by hand, names, and what is refused."""

import pytest

from mobfl import InputError, Scenario, load_scenario
from mobfl.servers.anytime import needs_tracks, predicts
from mobfl.servers.choice import PlanRequest
from mobfl.servers.names import plan_name, server_of
from stories import columns, story


def test_everybody_takes_as_many_steps_as_fit() -> None:
    """A step takes 0.2 s and both transfers 2 s; a stays from 0.5 to 9, b from 1 to 3, c from 4 to 12."""
    learnt = story("anytime:5")
    assert columns(learnt, "start_s", "end_s", "local_steps", "present", "uploads", "steps") == [
        (0.0, 5.0, 12, 3, 1, 12),  # a: 4.5 s; b is lost, as it leaves at 3; c has 1 s and does not take part
        (5.0, 10.0, 15, 2, 1, 15),  # c: 5 s; a is lost, as it leaves at 9
        (10.0, 15.0, 0, 1, 0, 0),  # c leaves at 12
    ]


def test_who_knows_when_it_leaves_is_heard() -> None:
    learnt = story("anytime:5,knows=leaving")
    assert columns(learnt, "local_steps", "present", "uploads", "steps") == [
        (12, 3, 1, 12),  # b has 2 s, and needs 2.2
        (15, 2, 2, 25),  # a: 4 s, 10 steps
        (0, 1, 0, 0),  # c has 2 s
    ]


def test_the_mean_stay_is_what_the_station_knows() -> None:
    """Stays of 1, 8.5, 2, 8 and 10 s: the mean is 5.9."""
    learnt = story("anytime:5,knows=mean")
    assert columns(learnt, "local_steps", "uploads", "steps") == [
        (12, 1, 12),  # a until the end; b is lost
        (14, 1, 14),  # c until 9.9; a expects to leave at 6.4, too early for a step
        (0, 0, 0),  # c has stayed longer than the mean
    ]


def test_vehicles_that_err_about_their_leaving_are_heard_less_often() -> None:
    """With the stays of the story, and an error of as much as the stay itself."""
    sure, unsure = (sum(columns(story(f"anytime:5,knows=leaving,error={error}"), "uploads"), ()) for error in (0, 1))
    assert sum(sure) > sum(unsure)


def test_work_of_every_length_is_averaged_by_steps() -> None:
    by_steps, alike = (columns(story("anytime:5,knows=leaving", **rule), "count") for rule in ({}, {"rule": "mean"}))
    assert by_steps[0] == alike[0] == (12.0,)
    assert by_steps[1][0] > alike[1][0] > 12.0


@pytest.mark.parametrize("plan", ["anytime:8,knows=predicted", "anytime:8, knows = predicted"])
def test_who_predicts_needs_tracks_however_it_is_written(plan: str) -> None:
    assert predicts(plan)
    steady = plan.replace("predicted", "leaving")
    assert not predicts(steady)
    constant, on_air = Scenario.from_dict({}), load_scenario("paper-radio")
    assert [needs_tracks(*each) for each in ((plan, constant), (steady, constant), (steady, on_air))] == [
        True,
        False,
        True,
    ]


def test_names_go_there_and_back(paper: Scenario) -> None:
    request = PlanRequest(paper)
    for given, said in [
        ("anytime:8", "anytime:8,knows=nothing"),
        ("anytime:8,knows=leaving,error=0.1", "anytime:8,knows=leaving,error=0.1"),
        ("anytime", "anytime:10.1,knows=nothing"),
    ]:
        assert plan_name(server_of(given, None, request.scenario, None).describe()) == said


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("anytime:x", "plan anytime must go on with :T,NAME=VALUE, T > 0 s, got 'x'"),
        ("anytime:-1", "plan anytime must have T > 0 s and <= 1e.12 s, got -1"),
        ("anytime:1e300", "plan anytime must have T > 0 s and <= 1e.12 s, got 1e.300"),
        ("anytime:8,knows=all", "plan anytime must have knows one of nothing, mean, predicted, leaving, got 'all'"),
        ("anytime:8,error=1", "plan anytime must have an error .*, with knows=leaving, got 1 with knows=nothing"),
        ("anytime:round_s=x", "plan anytime must go on with :T,NAME=VALUE, T > 0 s, got 'x'"),
        ("anytime:8,round_s=9", "plan anytime must give round_s once, got it twice"),
        ("anytime:8,knows=leaving,error=true", "plan anytime must have a number for error, got 'true'"),
        ("anytime:8,speed=1", "plan anytime has no parameter speed: its parameters are round_s, knows, error"),
    ],
)
def test_nonsense_is_named(paper: Scenario, given: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        server_of(given, None, paper, None)
