"""Plans by name: what each becomes, and one sentence for what means nothing."""

import math
from typing import Any

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import Crossings, InfeasibleError, InputError, Job, PartError, Plan, Scenario, best_round_s, plan, theory
from mobfl.planning.search import best_count
from mobfl.planning.trace import Trace
from mobfl.servers.names import plan_name, server_of
from mobfl.theory import Conditions


def told(text: Any, scenario: Scenario, crossings: Crossings | None = None, rule: str | None = None) -> dict[str, Any]:
    """As run.json has it."""
    return server_of(text, rule, scenario, crossings).describe()


def numbers(text: str, scenario: Scenario, crossings: Crossings | None = None) -> tuple[int, float]:
    written = told(text, scenario, crossings)
    assert written["policy"] == "rounds"
    return written["local_steps"], written["round_s"]


@pytest.mark.parametrize("values", [{}, {"traffic.speed_sd_mps": 5.0}, {"compute.extra_step_s": 0.0}])
@pytest.mark.parametrize(("name", "share"), [("best,T0", 1.0), ("best, T0/2", 0.5), ("best,7.5", 0.375)])
def test_the_best_h_for_a_given_t_is_that_of_all(
    paper: Scenario, values: dict[str, float], name: str, share: float
) -> None:
    scenario = paper.with_values(values)
    h, t = numbers(name, scenario)
    assert t == share * 20.0
    assert h == 1 + int(np.argmax(theory.objective(scenario, np.arange(1, 120), t)))


@pytest.mark.parametrize(("name", "h"), [("1,best", 1), ("epoch,best", 16), ("24,best", 24)])
def test_the_best_t_for_a_given_h(paper: Scenario, name: str, h: int) -> None:
    promised = Plan.at(paper, h, float(best_round_s(paper, h))).to_dict()
    assert told(name, paper) == {"policy": "rounds", **{k: v for k, v in promised.items() if k not in _NO_PROMISE}}


_NO_PROMISE = ("status", "reason", "planner")


def test_an_epoch_is_one_pass_over_the_middle_of_a_range(paper: Scenario) -> None:
    ranged = paper.with_values({"training.samples_per_vehicle": [100, 400]})
    assert numbers("epoch,9", ranged) == (4, 9.0)  # 250/64 = 3.9
    assert numbers("epoch,9", paper.with_values({"training.samples_per_vehicle": 80})) == (1, 9.0)


@pytest.mark.parametrize(
    "name",
    [
        "24,11.78", "3,5", "wait-for-all:7", "fedasync:24,mixing=0.3", "fedbuff:5,buffer=3", "adaptive:memory_s=300",
        "async:5,uploads=3",
    ],
)  # fmt: skip
def test_the_name_of_a_run_names_its_plan(paper: Scenario, name: str) -> None:
    rule = "median" if name.startswith("async") else None
    written = told(name, paper, rule=rule)
    assert told(plan_name(written), paper, rule=rule) == written
    assert plan_name(written).startswith(name.partition(",")[0])


def test_names_that_leave_everything_to_the_planner(paper: Scenario) -> None:
    assert told("mobfl", paper) == told(" best,best ", paper) == told(plan(paper), paper)
    assert numbers("24,11.776", paper) == (24, 11.776) == numbers((24, 11.776), paper)  # type: ignore[arg-type]
    assert numbers("1e1,T0", paper) == (10, 20.0)
    assert told("24,11.776", paper) == {"policy": "rounds", "local_steps": 24, "round_s": 11.776}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("wait-for-all", {"policy": "wait-for-all", "local_steps": 24}),
        ("wait-for-all:7", {"policy": "wait-for-all", "local_steps": 7}),
        ("fedasync", {"policy": "fedasync", "local_steps": 24, "mixing": 0.6, "staleness_power": 0.5}),
        ("fedasync:best", {"policy": "fedasync", "local_steps": 24, "mixing": 0.6, "staleness_power": 0.5}),
        ("fedasync:epoch", {"policy": "fedasync", "local_steps": 16, "mixing": 0.6, "staleness_power": 0.5}),
        (
            "fedasync:5,mixing=0.3, staleness_power=1",
            {"policy": "fedasync", "local_steps": 5, "mixing": 0.3, "staleness_power": 1},
        ),
        ("fedbuff", {"policy": "fedbuff", "local_steps": 24, "buffer": 10, "server_rate": 1.0}),
        (
            "fedbuff:5,buffer=4,server_rate=0.5",
            {"policy": "fedbuff", "local_steps": 5, "buffer": 4, "server_rate": 0.5},
        ),
    ],
)
def test_other_servers_by_name(paper: Scenario, name: str, written: dict[str, object]) -> None:
    assert told(name, paper) == {"round_s": None, **written}


def test_a_shorthand_is_its_schedule_with_its_rule(paper: Scenario) -> None:
    short = server_of("fedasync:24,mixing=0.5", None, paper, None)
    long = server_of("async:24", "clip+fedasync:mixing=0.5", paper, None)
    assert (short.schedule, str(short.rule)) == (long.schedule, str(long.rule))
    assert short.describe() == long.describe()
    buffered = server_of("async:24,uploads=10", "fedbuff", paper, None)
    assert buffered.describe() == told("fedbuff:24", paper)
    assert told("async:24", paper) == told("fedasync:24", paper)  # its own rule
    assert told("async:24,uploads=4", paper) == told("fedbuff:24,buffer=4", paper)


def test_a_rule_takes_the_place_of_the_plans_own(paper: Scenario) -> None:
    median = server_of("mobfl", "median", paper, None)
    assert (str(median.rule), median.describe()) == ("median", told("mobfl", paper))
    other = server_of("fedasync:24", "median", paper, None)
    assert (other.describe()["policy"], str(other.rule)) == ("async", "median")
    with pytest.raises(InputError, match=r"the rule must be given once, got fedasync:mixing=0.5 in the plan"):
        server_of("fedasync:24,mixing=0.5", "fedasync:mixing=0.3", paper, None)


@pytest.mark.parametrize("plan", ["mobfl", "24,12", "adaptive", "wait-for-all"])
@pytest.mark.parametrize("rule", ["fedasync", "clip+fedbuff"])
def test_a_rule_that_needs_staleness_needs_a_schedule_that_has_some(paper: Scenario, plan: str, rule: str) -> None:
    with pytest.raises(InputError, match=r"weighs uploads by their staleness, and under the plan .* none is stale"):
        server_of(plan, rule, paper, None)


HT = "plan must be H,T with a whole H >= 1, best or epoch, and T > 0 s, best, T0 or T0/2"
ONE_OF = (
    "plan must be H,T, one of mobfl, adaptive, anytime, wait-for-all, async, stay-aware, mads, early, selected,"
    " fedasync, fedbuff, or MODULE:OBJECT of your own"
)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("", f"{ONE_OF}, got ''"),
        ("24", f"{ONE_OF}, got '24'"),
        ("fedasinc", f"{ONE_OF}, got 'fedasinc'; did you mean fedasync?"),
        ("mobfl:3", "plan mobfl must have parameters as NAME=VALUE, got '3'"),
        ("1,2,3", HT),
        ("0,5", HT),
        ("2.5,5", HT),
        ("nan,5", HT),
        ("inf,5", HT),
        ("5,0", HT),
        ("5,nan", HT),
        ("5,1e13", HT),
        ("5,T1", HT),
        ("T0,best", HT),
        ("adaptive:24", "plan adaptive must have parameters as NAME=VALUE, got '24'"),
        ("adaptive:memory=3", "plan adaptive has no parameter memory: its parameters are memory_s, worth"),
        ("adaptive:memory_s=0", "adaptive's memory_s must be > 0, got 0"),
        ("fedasync:0", "plan async must have a whole H >= 1, best or epoch after its colon, got '0'"),
        ("fedasync:5,6", "plan async must go on with :H,NAME=VALUE, got '5,6'"),
        ("fedasync:5,buffer=6", "plan fedasync has no parameter buffer: its parameters are mixing, staleness_power"),
        ("wait-for-all:5,mixing=0.1", "plan wait-for-all has no parameter mixing: its parameters are local_steps"),
        ("fedasync:5,mixing=0", "fedasync must have a mixing > 0 and <= 1, got 0"),
        ("fedasync:5,mixing=nan", "fedasync must have a mixing > 0 and <= 1, got nan"),
        ("fedasync:5,staleness_power=-1", "fedasync must have a staleness_power >= 0, got -1"),
        ("fedbuff:5,buffer=2.5", "async must have a whole number of uploads >= 1 in a step, got 2.5"),
        ("fedbuff:5,buffer=0", "async must have a whole number of uploads >= 1 in a step, got 0"),
        ("fedbuff:5,server_rate=inf", "fedbuff must have a server_rate > 0, got inf"),
    ],
)
def test_names_that_mean_nothing_get_one_sentence(paper: Scenario, name: str, line: str) -> None:
    with pytest.raises(InputError) as error:
        server_of(name, None, paper, None)
    assert line in str(error.value)
    assert len(error.value.lines) == 1


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("100,best", {}, "H = 100 with both transfers takes at least 22 s and nobody has more than 20 s for it"),
        ("best,2", {}, "H = 1 with both transfers takes at least 2.2 s and nobody has more than 2 s for it"),
        ("best,T0", {"link.download_s": 30.0}, "H = 1 with both transfers takes at least 31.2 s"),
        ("mobfl", {"link.download_s": 30.0}, "the vehicles leave after 20 s"),
        ("adaptive", {"link.download_s": 30.0}, "the vehicles leave after 20 s"),
        ("fedbuff", {"link.download_s": 30.0}, "the vehicles leave after 20 s"),
    ],
)
def test_what_is_infeasible_says_why(paper: Scenario, name: str, values: dict[str, float], reason: str) -> None:
    with pytest.raises(InfeasibleError, match=reason) as error:
        server_of(name, None, paper.with_values(values), None)
    assert str(error.value).startswith("No plan is possible: ")
    assert "\n" not in str(error.value)


def test_a_policy_of_ones_own_that_breaks_at_once_is_named(paper: Scenario) -> None:
    class Broken:
        def next_order(self, seen: object) -> None:
            raise ZeroDivisionError("oops")

    with pytest.raises(PartError, match="plan Broken gives no first order: ZeroDivisionError: oops"):
        server_of(Broken(), None, paper, None)  # type: ignore[arg-type]


def test_a_plan_that_is_infeasible_cannot_be_run(paper: Scenario) -> None:
    hopeless = paper.with_values({"link.download_s": 30.0})
    assert plan(hopeless).status == "infeasible"
    with pytest.raises(InfeasibleError, match="the vehicles leave after 20 s"):
        _ = Job(CountingTask(), hopeless, plan(hopeless)).server


def platoons() -> Crossings:
    """Six vehicles every 60 s, as behind a signal."""
    enter = np.sort((60.0 * np.arange(40)[:, None] + np.arange(6) * 2.0).ravel())
    return Crossings(np.arange(len(enter)), enter, enter + np.where(np.arange(len(enter)) % 2, 18.0, 22.0))


def test_names_on_recorded_traffic_follow_its_own_law(paper: Scenario) -> None:
    traffic = platoons()
    trace, road = Trace(traffic, 1.0), Conditions.of(paper)
    h, t = numbers("best,T0", paper, traffic)
    assert t == pytest.approx(20.0)
    promised = [trace.promise(road, each, t).numbers[2] for each in range(1, 100)]
    assert h == 1 + int(np.argmax(promised))
    best = told("10,best", paper, traffic)
    grid = [trace.promise(road, 10, each).numbers[2] for each in np.arange(5.0, 80.0, 2.5)]
    assert best["objective"] >= max(grid) * 0.999
    assert told("fedasync", paper, traffic)["local_steps"] == plan(paper, traffic).numbers[0]
    with pytest.raises(InfeasibleError, match="H = 200"):
        told("200,best", paper, traffic)
    with pytest.raises(InputError, match=r"training.noise_uploads must be 0 for a plan from crossings"):
        told("best,T0", paper.with_values({"training.noise_uploads": 2.0}), traffic)


def test_the_best_count_is_found_without_trying_all() -> None:
    tried = list[int]()

    def objective(h: int) -> float:
        tried.append(h)
        return h * math.exp(-h / 5000)

    assert best_count(objective, 10**9) == (5000, 5000 / math.e)
    assert len(tried) < 500
    assert best_count(lambda h: float(h <= 3), 5) == (1, 1.0)
    assert best_count(lambda _: 0.0, 1) == (1, 0.0)
