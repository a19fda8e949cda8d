"""Where to put n base stations: of many sections with recorded traffic, those that together serve a goal best.

A vehicle can train for one station at a time. So two sections in which vehicles are at once for more than a hundredth
of the smaller one's time are never chosen together, and nothing is counted twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mobfl.display import Displayed, Sheet, Tabular, columns_of, rows_of
from mobfl.errors import InfeasibleError, InputError
from mobfl.mobility.crossings import Crossings
from mobfl.planning.goals import DistrictsHeard, MostSteps, MostVehicles, hear_all_soonest, slowest_after
from mobfl.planning.greedy import Excluded, greedy, greedy_from_all
from mobfl.planning.planner import plan_on_trace
from mobfl.planning.plans import Plan
from mobfl.planning.quick import plan_in_passing
from mobfl.planning.served import FEWEST_OF_DISTRICT, GOALS, GoalName, Served
from mobfl.planning.trace import Trace
from mobfl.scenario import AnyScenario, Scenario, scenario_of

if TYPE_CHECKING:
    from mobfl.mobility.given import AnyCrossings

NOBODY = "nobody crosses it, or positions come too rarely to tell"
UNITS: dict[GoalName, str] = {
    "steps": "valid local steps per second",
    "vehicles": "vehicles heard",
    "districts": "seconds until all districts are heard",
}


@dataclass(frozen=True)
class ChosenSite:
    """One of the chosen sections.

    Args:
        name: Of the section.
        plan: Its own best H and T.
        value: What it and those chosen before it give together.
        gain: By how much it raised that; of districts, by how many seconds it brought it down.
        vehicles: How many different ones cross the section.
        crossings_per_hour: How many enter.
        median_stay_s: Of their stays.
    """

    name: str
    plan: Plan
    value: float
    gain: float
    vehicles: int
    crossings_per_hour: float
    median_stay_s: float


@dataclass(frozen=True, repr=False)
class SiteChoice(Displayed, Tabular):
    """The chosen sections in their order, and how good the choice is at least.

    Args:
        goal: "steps", "vehicles" or "districts".
        sites: The chosen ones.
        screened_values: What 1, 2, … of them give with the plans with which they were chosen.
        bounds: What no 1, 2, … candidates exceed (of districts: fall below, for all of them alone) with such plans.
        share_of_best: At least this share of the best value was reached, and of districts of the best time at most its
            inverse.
        objectives: g of every candidate in the choice.
        left_out: Why sections are no candidates.
        districts: How many vehicles begin in each.
        wanted: How many were asked for.
    """

    goal: GoalName
    sites: tuple[ChosenSite, ...]
    screened_values: tuple[float, ...]
    bounds: tuple[float, ...]
    share_of_best: float
    objectives: dict[str, float]
    left_out: dict[str, str]
    districts: dict[str, int]
    wanted: int

    @property
    def value(self) -> float:
        return self.sites[-1].value

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.rows())

    def _brief(self) -> str:
        return f"{', '.join(site.name for site in self.sites)}: {self.value:.4g} {UNITS[self.goal]}"

    def _sheet(self) -> Sheet:
        names = ("rank", "name", "plan", "objective", "value", "gain", "crossings_per_hour", "median_stay_s")
        return Sheet(f"Sites: {self.value:.4g} {UNITS[self.goal]}", rows_of(self.rows(), names), names)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for every chosen site, as tables and maps want it; its plan as `--plan` takes it."""
        told = list[dict[str, Any]]()
        for rank, site in enumerate(self.sites, start=1):
            (h, t, g), rest = site.plan.numbers, vars(site)
            numbers = {"plan": f"{h},{t:.6g}", "local_steps": h, "round_s": t, "objective": g}
            told.append({"rank": rank, **rest, **numbers})
        return told

    def to_dict(self) -> dict[str, Any]:
        sites = [vars(site) | {"rank": rank, "plan": site.plan.to_dict()} for rank, site in enumerate(self.sites, 1)]
        told = {"goal": self.goal, "unit": UNITS[self.goal], "value": self.value, "sites": sites}
        rest = asdict(self)
        return told | {key: each for key, each in rest.items() if key not in ("goal", "sites")}


def choose_sites(
    scenario: AnyScenario,
    crossings: "Mapping[str, AnyCrossings]",
    count: int,
    goal: GoalName = "steps",
    districts: "Mapping[str, AnyCrossings] | None" = None,
    horizon_s: float | None = None,
    exact: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> SiteChoice:
    """The sections that together give the most steps per second, hear the most vehicles, or all districts soonest.

    Candidates are compared with plans that are nearly the best of their section; the chosen ones are planned as `plan`
    plans recorded crossings, and their figures are of these plans.

    Args:
        scenario: The delays, and the share of vehicles that takes part: a `Scenario`, a packaged one's name, a file or
            tables.
        crossings: Of every candidate section, by its name, from one recording; or files of them.
        count: How many are wanted.
        goal: "steps": the sum of g. "vehicles": how many different vehicles upload at least once in the recording, on
            average. "districts": the time until the slowest district is first heard, on average over when stations
            begin, at most `horizon_s`.
        districts: Crossings of areas that cover the map; a vehicle is from where it is seen first. Only for that goal.
        horizon_s: Of the goal "districts"; by default 600 s, or a third of a shorter recording.
        exact: Plan every candidate fully; takes seconds for each instead of milliseconds.
        progress: Is told how many candidates are planned.
    """
    road = scenario_of(scenario)
    known, areas = (_read(given, road) for given in (crossings, districts or {}))
    _check(known, count, goal, None if districts is None else areas)
    everywhere = Served(road, known, areas, horizon_s)
    plans, left_out = _plans(everywhere, exact, progress)
    served = everywhere.only(plans)
    _check_districts(served, goal)
    names = list(plans)
    found = _choose(served.goal(goal, plans), count, served.excluded())
    chosen = {
        name: plans[name] if exact else plan_on_trace(road, served.trace(name))
        for name in map(names.__getitem__, found.chosen)
    }
    values = _values_of_all(served.goal(goal, chosen))
    before = (served.horizon_s if goal == "districts" else 0.0, *values)
    sites = tuple(
        _site(name, each, served.trace(name), value, abs(value - was))
        for (name, each), value, was in zip(chosen.items(), values, before, strict=False)
    )
    objectives = {name: each.numbers[2] for name, each in plans.items()}
    begin = served.origins.vehicles if goal == "districts" else {}
    return SiteChoice(goal, sites, found.values, found.bounds, found.share_of_best, objectives, left_out, begin, count)


def _read(given: "Mapping[str, AnyCrossings]", road: Scenario) -> dict[str, Crossings]:
    from mobfl.mobility.given import crossings_given

    return {name: cast("Crossings", crossings_given(each, road)) for name, each in given.items()}


@dataclass(frozen=True)
class _Found:
    """Candidates by number, what 1, 2, … of them give, and what none exceeds."""

    chosen: tuple[int, ...]
    values: tuple[float, ...]
    bounds: tuple[float, ...]
    share_of_best: float


def _choose(goal: MostSteps | MostVehicles | DistrictsHeard, count: int, excluded: Excluded) -> _Found:
    if isinstance(goal, DistrictsHeard):
        soonest = hear_all_soonest(goal, count, excluded)
        if not soonest.slowest_s:
            raise InfeasibleError(
                f"no candidate hears a vehicle of any district within the horizon of {goal.horizon_s:g} s: choose a"
                " longer one"
            )
        share = soonest.bound_s / soonest.slowest_s[-1]
        return _Found(soonest.picked.chosen, soonest.slowest_s, (soonest.bound_s,), min(share, 1.0))
    picked = greedy_from_all(goal, count, excluded)
    values = tuple(np.cumsum(picked.gains).tolist())
    return _Found(picked.chosen, values, picked.bounds, min(picked.value / picked.bound, 1.0))


def _values_of_all(goal: MostSteps | MostVehicles | DistrictsHeard) -> tuple[float, ...]:
    """What the first 1, 2, … candidates give, one after the other as they are."""
    if isinstance(goal, DistrictsHeard):
        return slowest_after(goal, tuple(range(len(goal.logs))))
    count = len(goal)
    picked = greedy(goal, count, np.zeros((count, count), np.bool_), range(count))
    return tuple(np.cumsum(picked.gains).tolist())


def _plans(served: Served, exact: bool, progress: Callable[[int], None]) -> tuple[dict[str, Plan], dict[str, str]]:
    """The plans of all sections that have one, and why the others have none."""
    plans, left_out, crossings = dict[str, Plan](), dict[str, str](), served.crossings
    make = plan_on_trace if exact else plan_in_passing
    for done, (name, each) in enumerate(crossings.items(), start=1):
        if not len(each):
            left_out[name] = NOBODY
        elif (found := make(served.scenario, served.trace(name))).reason is None:
            plans[name] = found
        else:
            left_out[name] = found.reason
        progress(done)
    if not plans:
        busiest = max(crossings, key=lambda name: len(crossings[name]))
        raise InfeasibleError(
            f"none of {len(crossings)} candidates has a plan; of {busiest}, the busiest: {left_out[busiest]}"
        )
    return plans, left_out


def _site(name: str, chosen: Plan, trace: Trace, value: float, gain: float) -> ChosenSite:
    there, per_hour = trace.crossings, 3600.0 * trace.arrivals_per_s
    return ChosenSite(
        name, chosen, value, gain, len(np.unique(there.vehicle_keys)), per_hour, float(np.median(there.dwell_s))
    )


def _check(
    crossings: Mapping[str, Crossings], count: int, goal: GoalName, districts: Mapping[str, Crossings] | None
) -> None:
    if goal not in GOALS:
        raise InputError(f"goal must be one of {', '.join(GOALS)}, got {goal!r}")
    if not 1 <= count <= len(crossings):
        raise InputError(f"count must be >= 1 and <= {len(crossings)}, the candidates, got {count}")
    if (goal == "districts") != bool(districts):
        raise InputError(f"districts must be given for the goal 'districts' and for no other, got goal {goal!r}")


def _check_districts(served: Served, goal: GoalName) -> None:
    if goal != "districts":
        return
    if not served.origins.vehicles:
        most = f"areas in which at least {FEWEST_OF_DISTRICT} vehicles are seen first"
        raise InputError(f"districts must be {most}, got none")
    room_s = served.observed_s[1] - served.observed_s[0]
    if not 0 < served.horizon_s <= room_s:
        raise InputError(f"horizon_s must be > 0 and <= {room_s:g}, the recording's length, got {served.horizon_s:g}")
