"""Hypothesis strategies: fleets of several classes on roads from the sleepy to the absurd."""

from hypothesis import strategies as st

from mobfl import Scenario
from roads_at_random import JITTER, log_uniform, scenarios


@st.composite
def fleets(
    draw: st.DrawFn,
    roads: st.SearchStrategy[Scenario] | None = None,
    jitter: st.SearchStrategy[float] = JITTER,
    most: int = 4,
) -> Scenario:
    """A road whose classes are up to sixteen times quicker or slower than its own steps; `jitter` is β/α."""
    road = draw(scenarios() if roads is None else roads)
    weights = draw(st.lists(log_uniform(0.05, 1.0), min_size=2, max_size=most))
    shares = [weight / sum(weights) for weight in weights]
    steps_s = [road.compute.min_step_s * draw(log_uniform(1 / 16, 16.0)) for _ in shares]
    return road.with_values(
        {
            "fleet": [
                {"share": share, "min_step_s": step_s, "extra_step_s": min(step_s * draw(jitter), 1e6)}
                for share, step_s in zip(shares, steps_s, strict=True)
            ]
        }
    )


def alone(road: Scenario) -> list[tuple[float, Scenario]]:
    """Every class's share, and the road if all vehicles were of it."""
    times = [(each.share, each.compute) for each in road.classes]
    without = road.with_values({"fleet": []})
    return [
        (
            share,
            without.with_values(
                {"compute.min_step_s": compute.min_step_s, "compute.extra_step_s": compute.extra_step_s}
            ),
        )
        for share, compute in times
    ]
