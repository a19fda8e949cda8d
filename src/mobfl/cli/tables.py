"""Plans, simulations and runs as a person reads them in a terminal."""

from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mobfl import theory
from mobfl.planning.plans import AnytimePlan, GuaranteedPlan, Plan, SimulatedAnytimePlan, SimulatedPlan, TracePlan
from mobfl.planning.sensitivity import OFF_BY, sensitivity
from mobfl.scenario import RADIO_FIELDS, Scenario
from mobfl.scenario.symbols import SYMBOLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mobfl.deploy.hindsight import Hindsight, PlayedPlan
    from mobfl.deploy.local.board import Board
    from mobfl.mobility.crossings import Crossings
    from mobfl.policies.adaptive.following import Following
    from mobfl.rounds.airtime import AirResult
    from mobfl.rounds.anytime import AnytimeSimulation
    from mobfl.rounds.by_class import ClassResult
    from mobfl.rounds.estimates import Estimate
    from mobfl.rounds.kept_promises import KeptPromise
    from mobfl.rounds.simulation import Simulation
    from mobfl.runs.by_class import ClassShare
    from mobfl.runs.history import History
    from mobfl.theory.section import Coverage

# What planning depends on, in the order of the symbol table.
_PLANNED_WITH = (
    "road.length_m",
    "traffic.speed_mps",
    "traffic.speed_sd_mps",
    "traffic.arrivals_per_s",
    "traffic.participation",
    "link.download_s",
    "link.upload_s",
    "compute.min_step_s",
    "compute.extra_step_s",
)
_NOISE = "training.noise_uploads"


def print_plan(console: Console, scenario: Scenario, title: str, plan: Plan) -> None:
    print_scenario(console, scenario, title)
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    noise = scenario.training.noise_uploads
    goal, aim = ("g_ν", f" for the greatest g_ν = (H/T)·E[M/(M + ν)], ν = {noise:g}") if noise else ("g", "")
    console.print(f"\n[bold]Plan[/bold]{aim}")
    console.print(_promise_table(scenario, plan))
    if isinstance(plan, GuaranteedPlan):  # which is not the best: being off may even raise g
        console.print(f"\n[bold]Price[/bold]: {_price(plan)}", soft_wrap=True)
        return
    console.print(f"\n[bold]Loss of {goal}[/bold] when a value is off by {OFF_BY:.0%} and the plan is kept")
    console.print(_sensitivity_table(scenario, plan))


def print_simulated_plan(
    console: Console,
    scenario: Scenario,
    title: str,
    crossings: "Crossings | None",
    plan: SimulatedPlan | SimulatedAnytimePlan,
) -> None:
    """On the scenario's road, or on recorded crossings."""
    if crossings is None:
        print_scenario(console, scenario, title)
    else:
        print_trace(console, crossings, title)
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    aim = f" for anytime rounds of vehicles that know {_KNOWN[plan.knows]}" if isinstance(plan, AnytimePlan) else ""
    console.print(f"\n[bold]Plan[/bold] by simulation{aim}")
    noise = scenario.training.noise_uploads
    console.print(_anytime_table(plan) if isinstance(plan, AnytimePlan) else _plan_table(plan, noise))
    console.print(
        f"\nNo other plan is better by more than {plan.regret:.2g} of the objective, but for one search in twenty.",
        soft_wrap=True,
    )
    if isinstance(plan, AnytimePlan) and plan.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {plan.assumed}.", soft_wrap=True)
    if isinstance(plan, SimulatedPlan) and plan.constant_plan is not None:
        other = plan.constant_plan
        console.print(
            f"\nThe plan for constant transfers of the same mean, ({other.local_steps}, {other.round_s:.4g} s),"
            f" promises g = {other.promised_objective:.4g} /s and gives {other.real_objective:.4g} /s on the air.",
            soft_wrap=True,
        )


def print_scenario(console: Console, scenario: Scenario, title: str) -> None:
    console.print(f"[bold]Scenario[/bold] {escape(title)}")
    console.print(_scenario_table(scenario))
    if scenario.fleet:
        console.print("\n[bold]Fleet[/bold]")
        console.print(_fleet_table(scenario))


def print_anytime_plan(console: Console, plan: AnytimePlan, fixed: Plan) -> None:
    """Beside the plan of one H for the same road."""
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    console.print(f"\n[bold]Plan[/bold] for anytime rounds of vehicles that know {_KNOWN[plan.knows]}")
    console.print(_anytime_table(plan))
    if plan.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {plan.assumed}.", soft_wrap=True)
    if fixed.reason is None:
        h, t, g = fixed.numbers
        console.print(f"\nThe best rounds of one H, ({h}, {t:.4g} s), have g = {g:.4g} /s.")
    _print_notices(console, plan.notices)


def print_radio(console: Console, scenario: Scenario, title: str, there: "Coverage", reason: str | None) -> None:
    """What the radio gives along the section."""
    console.print(f"[bold]Scenario[/bold] {escape(title)}")
    of_radio = (key for key in _without_seconds(scenario) if key.startswith(("link.", "radio.")))
    console.print(_values_table(scenario, ["road.length_m", *of_radio]))
    queued = ", of the last in the queue" if scenario.radio is not None and scenario.radio.sharing == "fifo" else ""
    console.print(f"\n[bold]Uploads[/bold] along the section, without shadowing; {_crowds(there)}{queued}")
    console.print(_coverage_table(there))
    if there.upload_s is None:
        console.print("\nlink.model_bytes is not given: how long an upload takes is unknown.", soft_wrap=True)
    if reason is not None:
        console.print(f"\n[bold]No upload is possible[/bold]: {reason}.", soft_wrap=True)


def print_kept_promises(console: Console, kept: "Sequence[KeptPromise]") -> None:
    """Promised and delivered, a line for every number of arrivals."""
    table = Table(box=None)
    for column in (
        "λ (1/s)",
        "H",
        "T (s)",
        "promised empty",
        "simulated empty",
        "promised g (1/s)",
        "simulated g (1/s)",
    ):
        table.add_column(column, justify="right")
    for each in kept:
        table.add_row(f"{each.arrivals_per_s:g}", *_kept_row(each))
    told = "[bold]Rounds without upload, and g[/bold]: promised by the quick plan, and simulated (95 % intervals)"
    console.print(told, soft_wrap=True)
    console.print(table)
    for each in kept:
        if each.plan.reason is not None:
            console.print(f"λ = {each.arrivals_per_s:g}: {each.plan.reason}.", soft_wrap=True)


def _kept_row(kept: "KeptPromise") -> list[str]:
    if kept.rounds is None or kept.objective is None:
        return ["–"] * 6
    h, t, promised = kept.plan.numbers
    empty, g = kept.rounds.empty_prob, kept.objective
    return [
        f"{h}", f"{t:.1f}", f"{kept.rounds.expected_empty_prob:.3f}",
        f"{empty.value:.3f} ± {(empty.high - empty.low) / 2:.3f}",
        f"{promised:.3f}", f"{g.value:.3f} ± {(g.high - g.low) / 2:.3f}",
    ]  # fmt: skip


def _crowds(there: "Coverage") -> str:
    first, *others = (f"{n}" for n in there.senders)
    return f"with {' / '.join((first, *others))} {'senders' if others or first != '1' else 'sender'}"


def _coverage_table(there: "Coverage") -> Table:
    table = Table(box=None)
    for column in ("way", "distance", "SNR (dB)", "rate (Mbit/s)", *["upload (s)"] * (there.upload_s is not None)):
        table.add_column(column, justify="right")
    for place, way_m in enumerate(there.way_m):
        told = [f"{way_m:.0f} m", f"{there.distance_m[place]:.0f} m"]
        told.append(" / ".join(f"{snr:.1f}" for snr in there.uplink_snr_db[:, place]))
        told.append(" / ".join(f"{rate / 1e6:.3g}" for rate in there.uplink_bps[:, place]))
        if there.upload_s is not None:
            told.append(" / ".join(f"{seconds:.3g}" for seconds in there.upload_s[:, place]))
        table.add_row(*told)
    return table


def _anytime_table(plan: AnytimePlan) -> Table:
    table = Table(box=None, show_header=False)
    table.add_row("round_s", f"[bold]{plan.round_s:.4f}[/bold] s", "T, the length of a round")
    table.add_row("objective", f"{plan.objective:.5g} /s", "v, local steps per second of the round's longest training")
    _add_objective_interval(table, plan)
    average = "what an average weighted by steps advances per second"
    if plan.averaged_objective is not None:
        table.add_row("averaged_objective", f"{plan.averaged_objective:.5g} /s", average)
    table.add_row("local_steps", f"{plan.local_steps:.4g}", "of a round's longest training, on average")
    table.add_row("expected_uploads", f"{plan.expected_uploads:.4g}", "uploads per round")
    _add_valid_prob(table, plan)
    _add_planner(table, plan)
    return table


_KNOWN = {
    "nothing": "nothing of their leaving",
    "mean": "the mean stay",
    "predicted": "the way left and their speed",
    "leaving": "when they leave",
}


def _scenario_table(scenario: Scenario) -> Table:
    return _values_table(scenario, [*_without_seconds(scenario), *_more_planned_with(scenario)])


def _values_table(scenario: Scenario, keys: "Iterable[str]") -> Table:
    table = Table(box=None, show_header=False)
    if scenario.radio is not None:  # whose keys are long, and must not be cut
        table.add_column(no_wrap=True)
    for key in keys:
        _add_value(table, scenario, key)
    return table


def _add_value(table: Table, scenario: Scenario, key: str) -> None:
    given = {f"{name}.{key}" for name, keys in scenario.given().items() for key in keys}
    _, unit, meaning = SYMBOLS[key]
    value = scenario.value(key) if key not in _BY_PATH_LOSS else getattr(scenario.radio, _BY_PATH_LOSS[key])
    number = f"{value:,.0f}" if unit in ("Hz", "bytes") else value if isinstance(value, str) else f"{value:g}"
    origin = "" if key in given else _derived_from(scenario, key) or "default"
    table.add_row(key, f"{number} {unit}".rstrip(), meaning, f"[dim]{origin}[/dim]")


# What a radio has for each path loss, unless it is given.
_BY_PATH_LOSS = {"radio.shadowing_db": "shadow_sd_db", "radio.shadowing_m": "shadow_distance_m"}


def _without_seconds(scenario: Scenario) -> list[str]:
    """What planning depends on; where there is a radio, its values instead of the link's seconds."""
    if scenario.radio is None:
        return list(_PLANNED_WITH)
    there = [key for key in (*_LINK_SIZES, *RADIO_FIELDS) if key in _BY_PATH_LOSS or scenario.value(key) is not None]
    place = _PLANNED_WITH.index("link.download_s")
    return [*_PLANNED_WITH[:place], *there, *_PLANNED_WITH[place + 2 :]]


_LINK_SIZES = ("link.model_bytes", "link.download_bytes", "link.upload_bytes")


def _more_planned_with(scenario: Scenario) -> list[str]:
    """What matters only on some roads."""
    compute = scenario.compute
    wanted = {
        "compute.law": compute.law != "exponential",
        "compute.extra_sd_s": compute.extra_sd_s is not None,
        _NOISE: scenario.training.noise_uploads > 0,
    }
    return [key for key, there in wanted.items() if there]


def _derived_from(scenario: Scenario, key: str) -> str | None:
    if scenario.link.model_bytes is not None and key in ("link.download_s", "link.upload_s"):
        return "from model_bytes"
    if key in _BY_PATH_LOSS:
        return "from path_loss"
    measured = scenario.compute.step_samples
    if measured is not None and key in ("compute.min_step_s", "compute.extra_step_s"):
        return f"from {len(measured)} step_samples"
    return None


def _fleet_table(scenario: Scenario) -> Table:
    table = Table(box=None)
    for column in ("class", "share", "least step", "random time on top", "law", "samples"):
        table.add_column(column, justify="left" if column in ("class", "law") else "right")
    for each in scenario.classes:
        compute, samples = each.compute, each.training.samples_per_vehicle
        held = f"{samples[0]} to {samples[1]}" if isinstance(samples, tuple) else f"{samples}"
        times = f"{compute.min_step_s:g} s", f"{compute.extra_step_s:g} s"
        table.add_row(escape(each.name), f"{each.share:g}", *times, compute.law, held)
    return table


def _promise_table(scenario: Scenario, plan: Plan) -> Table:
    h, t, _ = plan.numbers
    contributing = theory.contributing_visit_prob(scenario, h, t)
    table = _plan_table(plan, scenario.training.noise_uploads)
    table.add_row("", f"{3600 / t:.1f}", "rounds per hour")
    table.add_row("", f"{contributing:.2%}", "visits that contribute, of those taking part")
    return table


def _plan_table(plan: Plan, noise_uploads: float = 0.0) -> Table:
    h, t, g = plan.numbers
    table = Table(box=None, show_header=False)
    table.add_row("local_steps", f"[bold]{h}[/bold]", "H, the steps a vehicle takes in a round")
    table.add_row("round_s", f"[bold]{t:.4f}[/bold] s", "T, the length of a round")
    meaning = "g_ν, local steps per second times M/(M + ν)" if noise_uploads else "g, valid local steps per second"
    table.add_row("objective", f"{g:.5g} /s", meaning)
    _add_objective_interval(table, plan)
    if plan.objective_error is not None:
        table.add_row(
            "objective_error", f"{plan.objective_error:.1e}", "share of g by which a better plan may be better"
        )
    table.add_row("expected_uploads", f"{plan.expected_uploads:.4g}", "uploads per round")
    _add_valid_prob(table, plan)
    if isinstance(plan, GuaranteedPlan):
        told = f"P{{M ≥ {plan.least_uploads}}}, chance of at least {plan.least_uploads} uploads"
        table.add_row("least_uploads_prob", f"{plan.least_uploads_prob:.4g}", told)
    _add_planner(table, plan)
    return table


_FOUND = {"exact": "from the road's formulas", "trace": "from the recorded traffic", "simulation": "by simulation"}


def _add_planner(table: Table, plan: Plan | AnytimePlan) -> None:
    table.add_row("planner", plan.planner, f"how it was found: {_FOUND[plan.planner]}")


def _add_objective_interval(table: Table, plan: Plan | AnytimePlan) -> None:
    if isinstance(plan, SimulatedPlan | SimulatedAnytimePlan) and plan.objective_interval is not None:
        low, high = plan.objective_interval
        table.add_row("", f"{low:.5g} to {high:.5g}", "where it is in 95 of 100 simulations")


def _add_valid_prob(table: Table, plan: Plan | AnytimePlan) -> None:
    table.add_row("valid_round_prob", f"{plan.valid_round_prob:.4g}", "chance of a round with an upload")
    if plan.valid_round_prob_interval is not None:
        low, high = plan.valid_round_prob_interval
        simulated = plan.planner == "simulation"
        sure = "where it is in 95 of 100 simulations" if simulated else "in 95 of 100 further recordings as long"
        table.add_row("", f"{low:.4g} to {high:.4g}", sure)


def _print_notices(console: Console, notices: "Sequence[str]") -> None:
    for sentence in notices:
        console.print(f"\n[bold]Note[/bold]: {escape(sentence)}.", soft_wrap=True)


def _price(plan: GuaranteedPlan) -> str:
    return (
        f"{plan.price:.1%} of the objective, which is {plan.free_objective:.5g} /s without asking for"
        f" {plan.least_uploads} uploads with a probability of {plan.with_prob:g}."
    )


def _sensitivity_table(scenario: Scenario, plan: Plan) -> Table:
    table = Table(box=None)
    table.add_column("value")
    table.add_column(f"{-OFF_BY:+.0%}", justify="right")
    table.add_column(f"{OFF_BY:+.0%}", justify="right")
    table.add_column("compared with")
    for row in sensitivity(scenario, plan):
        peer = "the plan" if row.name in ("round_s", "local_steps") else "the best plan there"
        table.add_row(row.name, _share(row.loss_below), _share(row.loss_above), peer)
    return table


def _share(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.2%}"


def print_trace(console: Console, crossings: "Crossings", title: str) -> None:
    stay = crossings.dwell_s
    console.print(f"[bold]Trace[/bold] {escape(title)}")
    table = Table(box=None, show_header=False)
    table.add_row("crossings", f"{len(crossings)}", "vehicles on the section")
    if crossings.enter_s[-1] > crossings.enter_s[0]:
        table.add_row("arrivals", f"{crossings.arrivals_per_s:.4f} /s", "mean rate")
    table.add_row("dwell", f"{stay.mean():.2f} s", f"mean stay, standard deviation {stay.std():.2f} s")
    console.print(table)


def print_trace_plan(console: Console, crossings: "Crossings", title: str, plan: Plan) -> None:
    print_trace(console, crossings, title)
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    console.print("\n[bold]Plan[/bold]")
    console.print(_plan_table(plan))
    if isinstance(plan, TracePlan) and plan.poisson_plan is not None:
        other = plan.poisson_plan
        console.print(
            f"\n[bold]Theorem 1[/bold] would choose H = {other.local_steps}, T = {other.round_s:.4f} s and promise"
            f" g = {other.promised_objective:.4f} /s; on this road it would give {other.real_objective:.4f} /s.",
            soft_wrap=True,
        )
    if isinstance(plan, TracePlan):
        _print_notices(console, plan.notices)


def print_simulation(console: Console, result: "Simulation") -> None:
    console.print(f"[bold]{result.rounds} rounds[/bold] with H = {result.local_steps}, T = {result.round_s:.4f} s")
    rows = (
        ("uploads per round", result.mean_uploads, result.expected_uploads),
        ("chance of an empty round", result.empty_prob, result.expected_empty_prob),
        ("variance/mean of uploads", result.variance_to_mean, 1.0 if result.poisson is None else None),
        ("trainings that count", result.contributing_share, None),
    )
    theorem = None if result.poisson is None else (*result.poisson, 1.0, None)
    console.print(_measured_table(rows, theorem))
    if result.air is not None:
        _print_air(console, result.air)
    if result.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {result.assumed}.", soft_wrap=True)
    if result.classes:
        console.print("\n[bold]By class[/bold]")
        console.print(_class_table(result.classes))
    if result.warning is not None:
        console.print(f"\n[bold]Warning[/bold]: {result.warning}", soft_wrap=True)


def print_anytime_simulation(console: Console, result: "AnytimeSimulation") -> None:
    known = _KNOWN[result.asked.knows] + (f", wrong by {result.asked.error:.0%}" if result.asked.error else "")
    console.print(
        f"[bold]{result.rounds} anytime rounds[/bold] with T = {result.round_s:.4f} s of vehicles that know {known}"
    )
    named = (
        ("steps of the longest training", result.longest_steps),
        ("steps of all uploads", result.delivered_steps),
        ("uploads per round", result.uploads),
        ("chance of an empty round", result.empty_prob),
        ("trainings that are lost", result.lost_share),
    )
    console.print(_measured_table([(name, each.measured, each.expected) for name, each in named]))
    console.print(f"\n[bold]v[/bold] = {result.objective:.4f} valid local steps per second")
    if result.air is not None:
        _print_air(console, result.air)
    if result.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {result.assumed}.", soft_wrap=True)
    if result.classes:
        console.print("\n[bold]By class[/bold]")
        console.print(_class_table(result.classes))


def _print_air(console: Console, air: "AirResult") -> None:
    """What the radio did, beside what the promise above was made with."""
    console.print("\n[bold]On the air[/bold]")
    table, taken = Table(box=None), air.expected
    for column in ("", "measured", *["taken for the promise"] * (taken is not None)):
        table.add_column(column, justify="left" if not column else "right")
    for name, measured, expected in (
        ("a download takes", f"{air.download_s:.3f} s", taken and f"{taken.download_s:.3f} s"),
        ("an upload takes", f"{air.upload_s:.3f} s", taken and f"{taken.upload_s:.3f} s"),
        ("its rate", f"{air.upload_bps / 1e6:.3f} Mbit/s", ""),
        ("sending at a time", f"{air.sending:.3f}", ""),
        ("lost to the radio", f"{air.lost_by_radio:.2%}", ""),
        ("lost to the clock", f"{air.lost_by_clock:.2%}", ""),
    ):
        table.add_row(name, measured, *[expected or ""] * (taken is not None))
    console.print(table)


def _measured_table(
    rows: "Iterable[tuple[str, Estimate, float | None]]", theorem: "Sequence[float | None] | None" = None
) -> Table:
    """With what Theorem 1 says of each row in a column of its own, where something else is promised."""
    table, beside = Table(box=None), theorem is not None
    for column in ("", "measured", "95 % interval", "promised", *["by Theorem 1"] * beside):
        table.add_column(column, justify="left" if not column else "right")
    for i, (name, measured, promised) in enumerate(rows):
        said = [promised] if theorem is None else [promised, theorem[i]]
        numbers = ("" if each is None else f"{each:.4f}" for each in said)
        table.add_row(name, f"{measured.value:.4f}", f"{measured.low:.4f} to {measured.high:.4f}", *numbers)
    return table


_OF_CLASS = {"heard": "heard", "uploads_per_visit": "uploads per visit", "steps_per_visit": "steps per visit"}


def _class_table(classes: "Sequence[ClassResult]") -> Table:
    told = [name for name in _OF_CLASS if hasattr(classes[0], name)]
    table = Table(box=None)
    for column in ("class", "visits", *(word for name in told for word in (_OF_CLASS[name], "promised"))):
        table.add_column(column, justify="left" if column == "class" else "right")
    for each in classes:
        values = [getattr(each, key) for name in told for key in (name, f"expected_{name}")]
        numbers = ("–" if value is None else f"{value:.4f}" for value in values)
        table.add_row(escape(each.name), f"{each.visits}", *numbers)
    return table


def print_class_shares(console: Console, shares: "Sequence[ClassShare]") -> None:
    console.print("[bold]By class[/bold]")
    table = Table(box=None)
    for column in ("class", "visits", "heard", "uploads", "uploads per visit", "local steps"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for each in shares:
        numbers = f"{each.visits}", f"{each.heard:.1%}", f"{each.uploads}", f"{each.uploads_per_visit:.3f}"
        table.add_row(escape(each.name), *numbers, f"{each.local_steps}")
    console.print(table)


def print_following(console: Console, result: "Following") -> None:
    last, gain = result.notes[-1], result.objective / result.kept_objective - 1 if result.kept_objective else None
    table = Table(box=None, show_header=False)
    table.add_row("rounds", f"{result.rounds}", f"in {result.seconds:.0f} s, {result.empty_prob:.1%} without an upload")
    table.add_row("objective", f"[bold]{result.objective:.4g}[/bold] /s", "valid local steps per second")
    better = "" if gain is None else f", following gives {gain:+.1%}"
    table.add_row("kept", f"{result.kept_objective:.4g} /s", f"with the first plan throughout{better}")
    h = "" if last.local_steps is None else f"H = {last.local_steps}, "
    table.add_row("changes", f"{result.changes}", f"of the plan; at last {h}T = {last.round_s:.2f} s")
    console.print(table)
    console.print(f"\n[bold]Known[/bold] after {last.at_s - result.notes[0].at_s:.0f} s, with 95 % intervals")
    known = Table(box=None, show_header=False)
    delay = last.known.delay
    for estimate, unit, meaning in (
        (last.known.arrivals_per_s, "1/s", "arrivals"),
        (last.known.stay_s, "s", "mean stay"),
        (delay.transfer_s, "s", "both transfers"),
        (delay.min_step_s, "s", "least time of a local step"),
        (delay.extra_step_s, "s", "mean random time on top"),
    ):
        known.add_row(f"{estimate.value:.3g} {unit}", f"{estimate.low:.3g} to {estimate.high:.3g}", meaning)
    known.add_row(f"{last.known.variance_to_mean:.2g}", "", "variance/mean of arrivals in 30 s, 1 if Poisson")
    console.print(known)


def print_hindsight(console: Console, result: "Hindsight", title: str) -> None:
    """What was run, the same rounds replayed, and other plans on the same vehicles."""
    recorded, (start_s, end_s) = result.recorded, result.recorded.observed_s
    law = recorded.law
    console.print(
        f"[bold]{escape(title)}[/bold]: {len(recorded.crossings)} visits in {end_s - start_s:.0f} s;"
        f" transfers {recorded.transfer_s:.3g} s, a local step {law.min_step_s:.3g} s and {law.extra_step_s:.3g} s on"
        " average on top",
        soft_wrap=True,
    )
    table = Table(box=None)
    for column in ("plan", "rounds", "uploads/round", "empty", "valid steps/s", "gain"):
        table.add_column(column, justify="left" if column == "plan" else "right")
    seen = result.happened
    told = f"{seen['uploads']:.2f}", f"{seen['empty_share']:.0%}", f"{seen['valid_steps_per_s']:.2f}"
    table.add_row("what happened", f"{seen['rounds']}", *told, "")
    for each in (result.as_it_was, *result.plans):
        table.add_row(*_played_row(each, result.as_it_was))
    if not console.is_terminal:  # a file wants all of it on one line each
        console.width = max(console.width, _HINDSIGHT_WIDTH)
    console.print(table)
    console.print(f"\n{escape(result.conclusion)}", soft_wrap=True)
    _print_notices(console, [*([] if result.disagreement is None else [result.disagreement]), *recorded.notices])


_HINDSIGHT_WIDTH = 120


def _played_row(plan: "PlayedPlan", base: "PlayedPlan") -> list[str]:
    gain = None if plan is base else plan.gain_over(base)
    return [
        escape(f"{plan.name}, replayed" if plan is base else _played_name(plan)),
        f"{plan.rounds.mean():.0f}",
        _spread(plan.estimate("uploads"), ".2f"),
        f"{plan.empty_share.mean():.0%}",
        _spread(plan.estimate("valid_steps_per_s"), ".2f"),
        "" if gain is None else _spread(gain, "+.0%"),
    ]


def _played_name(plan: "PlayedPlan") -> str:
    """With H and T where they were found, not asked for."""
    if plan.round_s is None or any(letter.isdigit() for letter in plan.name):
        return plan.name
    h = "" if plan.local_steps is None else f"{plan.local_steps}, "
    return f"{plan.name} ({h}{plan.round_s:.4g} s)"


def _spread(estimate: "Estimate", form: str) -> str:
    return f"{estimate.value:{form}} \\[{estimate.low:{form}}, {estimate.high:{form}}]"


def print_training(
    console: Console,
    history: "History",
    baselines: "Mapping[str, Mapping[str, float]]",
    goals: "Sequence[tuple[str, float]]",
    notices: "Sequence[str]",
    out: "Path",
    privacy: "Mapping[str, Any] | None" = None,
) -> None:
    uploads = history.columns["uploads"]
    rejected = int(history.columns["rejected"].sum())
    console.print(
        f"[bold]{len(history)} rounds[/bold], {history.columns['end_s'][-1]:.0f} s of virtual time,"
        f" {int(uploads.sum())} uploads in {int((uploads > 0).sum())} rounds, {rejected} rejected"
    )
    if (told := _cost_line(history)) is not None:
        console.print(told)
    table = Table(box=None)
    for column in ("", "at the start", "at the end", "best", *baselines):
        table.add_column(column, justify="left" if not column else "right")
    for name in ("loss", *(kpi.name for kpi in history.kpis)):
        best = history.min_loss() if name == "loss" else history.best(name)
        floors = (f"{scores[name]:.4f}" if name in scores else "" for scores in baselines.values())
        table.add_row(name, f"{history.initial[name]:.4f}", f"{history.final(name):.4f}", f"{best:.4f}", *floors)
    console.print(table)
    for name, value in goals:
        reached = history.time_to(name, value)
        console.print(f"{name} {value:g}: " + ("not reached" if reached is None else f"after {reached:.1f} s"))
    if privacy is not None:
        console.print(_privacy_line(privacy), soft_wrap=True)
    for sentence in notices:
        console.print(f"[bold]Note[/bold]: {escape(sentence)}", soft_wrap=True)
    console.print(f"The run is in {escape(str(out))}.", soft_wrap=True)


def _cost_line(history: "History") -> str | None:
    sent, energy_j = history.total("bytes"), history.total("energy_j")
    if sent is None or energy_j is None:
        return None
    return f"{sent / 1e6:.4g} MB sent, {energy_j / 1e3:.4g} kJ drawn by vehicles"


def _privacy_line(told: "Mapping[str, Any]") -> str:
    return (
        f"[bold]Privacy[/bold]: ε = {told['epsilon']:.4g} at δ = {told['delta']:g} for a vehicle that joined"
        f" {told['most_rounds']} rounds, the most of {told['vehicles']}; clip {told['clip']:g}, noise {told['noise']:g}"
    )


def deployment_table(board: "Board") -> Group:
    """A deployment at a glance: the clock, the vehicles on the road, the latest rounds."""
    rounds = Table(box=None, title_justify="left")
    for column in ("round", "ended at s", "H", "T s", "there", "uploads", "rejected", "late by s"):
        rounds.add_column(column, justify="right")
    for row in board.rounds:
        length_s = row["end_s"] - row["start_s"]
        rounds.add_row(
            str(row["round"]), f"{row['at_s']:.1f}", str(row["local_steps"]), f"{length_s:.1f}", str(row["present"]),
            str(row["uploads"]), str(row["rejected"]), f"{row['overshoot_s']:.2f}",
        )  # fmt: skip
    vehicles = "  ".join(
        f"{board.names.get(node, node[-4:])} {doing}" for node, doing in sorted(board.vehicles.items())
    )
    return Group(_deployment_headline(board), Text(vehicles or "nobody is on the road"), rounds)


def _deployment_headline(board: "Board") -> Text:
    if board.clock is None:
        return Text(board.stage)
    headline = [f"{max(board.clock.now_s(), 0.0):.1f} s on the road"]
    headline += [f"{board.clock.scale:g} s per second"] if board.clock.scale != 1 else []
    headline += [f"{board.counts[kind]} {word}" for kind, word in _COUNTED.items() if board.counts[kind]]
    return Text(", ".join(headline), style="bold")


_COUNTED = {
    "began": "orders",
    "uploaded": "uploads",
    "rejected": "rejected",
    "sat_out": "sat out",
    "cut_off": "cut off",
    "late": "late",
    "failed": "failed",
    "dropped": "dropped",
}
