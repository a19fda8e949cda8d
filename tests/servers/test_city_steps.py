"""When a cloud does what: one stream in the order of time, for stations that are not in step."""

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mobfl.scenario import Cloud
from mobfl.servers.city import Average, HandIn, city_steps
from mobfl.servers.steps import Contribution, ServerStep

END_S = 100.0


def rounds(round_s: float) -> Iterator[ServerStep]:
    number = 0
    while (number + 1) * round_s <= END_S:
        yield ServerStep(number, number * round_s, (number + 1) * round_s, 1, 0, ())
        number += 1


lengths = st.lists(st.floats(3.0, 40.0), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(1, 4), st.sampled_from([0.0, 0.5, 7.0]))
def test_every_station_has_ended_kappa_rounds_between_averages(
    round_s: list[float], kappa: int, backhaul_s: float
) -> None:
    events = list(city_steps([rounds(t) for t in round_s], Cloud(every_rounds=kappa, backhaul_s=backhaul_s), END_S))
    times = [event.at_s if isinstance(event, HandIn) else event.end_s for event in events]
    assert times == sorted(times)
    since, comes_s = [0] * len(round_s), 0.0
    for event in events:
        if isinstance(event, ServerStep):
            since[event.station] += event.end_s >= comes_s
        elif isinstance(event, HandIn):
            assert min(since) >= kappa
            since = [0] * len(round_s)
        else:
            assert event.comes_s == event.end_s + backhaul_s
            comes_s = event.comes_s
    averages = [event for event in events if isinstance(event, Average)]
    assert [each.number for each in averages] == list(range(len(averages)))
    assert all(one.end_s == other.start_s for one, other in pairwise(averages))


@settings(max_examples=40, deadline=None)
@given(lengths, st.floats(2.0, 50.0))
def test_a_cloud_with_a_clock_averages_on_it(round_s: list[float], every_s: float) -> None:
    events = list(city_steps([rounds(t) for t in round_s], Cloud(every_s=every_s), END_S))
    averages = [event.end_s for event in events if isinstance(event, Average)]
    assert len(averages) in (int(END_S / every_s), int(END_S / every_s * (1 + 1e-9)))
    assert all(abs(at - (n + 1) * every_s) < 1e-6 for n, at in enumerate(averages))


def test_one_model_is_numbered_through_and_kept_while_anybody_trains_on_it() -> None:
    """B's only round began with version 0, and A has made three of the model's steps before it ends."""

    def uploading(steps: Iterator[ServerStep], key: int) -> Iterator[ServerStep]:
        for step in steps:
            yield ServerStep(step.number, step.start_s, step.end_s, 1, 1, (Contribution(key, 0, step.number, 0.0, 1),))

    streams = [uploading(rounds(25.0), 1), uploading(rounds(90.0), 2)]
    steps = [step for step in city_steps(streams, Cloud(every_rounds=0), END_S) if isinstance(step, ServerStep)]
    told = [(step.station, step.number, step.uploads[0].version, sorted(step.still_in_use)) for step in steps]
    assert told == [(0, 0, 0, [0]), (0, 1, 1, [0]), (0, 2, 2, [0]), (1, 3, 0, [3]), (0, 4, 3, [4])]


def test_a_backhaul_that_takes_for_ever_takes_no_time_to_find_out() -> None:
    """The next tick after it would be the 200,000,000,000th."""
    events = list(city_steps([rounds(10.0)], Cloud(every_s=5.0, backhaul_s=1e12), END_S))
    assert [type(event) for event in events].count(HandIn) == 1
    assert not any(isinstance(event, Average) for event in events)


def test_ticks_that_come_while_an_average_is_on_its_way_are_left_out() -> None:
    events = list(city_steps([rounds(10.0)], Cloud(every_s=10.0, backhaul_s=15.0), END_S))
    assert [event.at_s for event in events if isinstance(event, HandIn)] == [10.0, 40.0, 70.0, 100.0]
