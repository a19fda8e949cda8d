"""A sweep as one page that opens anywhere: plan, agreement with the theory, figures, tables, settings and data.

The figures are in the page itself and, as PNG, PDF and SVG, in a folder beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from mobfl import figures
from mobfl.errors import InputError, MissingExtraError, counted
from mobfl.experiments.analysis import spearman_over_time
from mobfl.experiments.comparison import contests_of
from mobfl.experiments.studies import LEAST_ROUNDS, Study, differing, sources, uploads_of
from mobfl.experiments.targets import NO_COMPARISON, Comparison
from mobfl.files.atomic import replaced
from mobfl.learning.task import LOSS, Kpi
from mobfl.planning.planner import plan as best_plan
from mobfl.reports.contests import heard_sections, predictor_sections, show_contest
from mobfl.reports.sections import Drawing, Section, interval, said
from mobfl.reports.words import explained
from mobfl.rounds.simulation import simulate
from mobfl.runs.history import History
from mobfl.scenario import FIELDS, RADIO_FIELDS, Scenario

PAGE, FIGURES = "report.html", "figures"
_SIMULATED_ROUNDS = 20_000
_TIMES = 25  # at which the correlation is looked at
_MOST_CURVES = 8


def write_report(
    studies: Sequence[Study],
    out: Path,
    title: str,
    command: str,
    progress: Callable[[str], None] = lambda _: None,
    comparison: Comparison = NO_COMPARISON,
) -> Path:
    """Draws all figures and writes the page; of a sweep that is not finished, what there is."""
    if not studies:
        raise InputError(f"{out} must hold at least one finished run, got none")
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("a report", "experiments") from None
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    drawing = Drawing(out / FIGURES, progress)
    contests = contests_of(studies, comparison)
    before = [_plan(studies[0].scenario, drawing), _agreement(studies, drawing)]
    shown = [_study(study, f"study-{n}", drawing, comparison) for n, study in enumerate(studies, start=1)]
    shown += [*predictor_sections(contests, drawing), *heard_sections(contests)] if contests else []
    grids = _proxy_over_time(studies, drawing)
    sections = [*shown, *before] if contests and not grids else [*before, *shown, *grids]
    sections.append(_settings(studies, command))
    template = (resources.files("mobfl.reports") / "page.html.jinja").read_text(encoding="utf-8")
    waiting = sum(study.waiting for study in studies)
    runs = len({each.run.folder for study in studies for each in study.runs})  # one may stand in several studies
    subtitle = f"{counted(runs, 'finished run')} in {counted(len(studies), 'study', 'studies')}"
    subtitle += f"; {waiting} more {'is' if waiting == 1 else 'are'} not finished" if waiting else ""
    page = jinja2.Environment(autoescape=True).from_string(template)
    text = page.render(title=title, subtitle=subtitle, sections=sections)
    with replaced(out / PAGE) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return out / PAGE


def _plan(scenario: Scenario, drawing: Drawing) -> Section:
    section = Section("plan", "Plan")
    if scenario.radio is not None:
        section.text("The road has a radio, which no formula of g knows: `mobfl plan` finds its plan by simulation.")
        return section
    plan = best_plan(scenario)
    if plan.reason is not None:
        section.text(f"No plan is possible on this road: {plan.reason}.", "note")
        return section
    h, t, g = plan.numbers
    section.text(
        f"MOB-FL chooses H = {h} local steps and rounds of T = {t:.4f} s: g = {g:.4f} valid local steps per second,"
        f" {plan.expected_uploads:.3f} uploads per round, {plan.valid_round_prob:.1%} of the rounds with an upload."
    )
    caption = (
        "g for several H, and over H and T. See how flat the top is: whatever lies within the innermost line is as good"
        " as the plan to 3 %, while too short a T loses everything."
    )
    drawing.show(section, "plan", caption, partial(figures.draw_plan, scenario, plan))
    return section


def _agreement(studies: Sequence[Study], drawing: Drawing) -> Section:
    section, scenario = Section("agreement", "Simulation and theory"), studies[0].scenario
    plan = None if scenario.radio is not None else best_plan(scenario)
    if plan is not None and plan.reason is None:
        h, t, _ = plan.numbers
        drawing.progress(f"simulating {_SIMULATED_ROUNDS} rounds")
        seen = simulate(scenario, h, t, _SIMULATED_ROUNDS)
        section.text(
            f"{seen.rounds} simulated rounds of the plan: {interval(seen.mean_uploads)} uploads per round where"
            f" Theorem 1 says {seen.expected_uploads:.4f}; {interval(seen.empty_prob)} of the rounds empty where"
            f" it says {seen.expected_empty_prob:.4f} (95 % intervals)."
        )
    rows = uploads_of([each for study in studies for each in study.runs])
    if rows:
        caption = (
            f"Uploads per round in the runs below that have {LEAST_ROUNDS} rounds or more, against Theorem 1: points on"
            " the dashed line agree. Runs of one seed meet the same vehicles, so their differences go the same way:"
            " they are one sample of traffic, not many."
        )
        drawing.show(section, "uploads", caption, partial(figures.draw_uploads, [row[1:] for row in rows]))
        table = [(name, f"{expected:.4f}", interval(measured)) for name, expected, measured in rows]
        section.table("uploads per round", ("plan", "Theorem 1", "measured (95 %)"), table)
    return section


def _study(study: Study, name: str, drawing: Drawing, comparison: Comparison) -> Section:
    section = Section(name, _capitalised(study.title))
    training = study.scenario.training
    section.text(
        f"Task {study.task}, T_A = {training.duration_s:g} s of virtual time, loss scale “{training.loss_scale}”,"
        f" learning rate {training.learning_rate:g}; {counted(len(study.runs), 'run')}"
        + (f", {study.waiting} not finished." if study.waiting else ".")
    )
    if words := explained(list(dict.fromkeys(each.plan or each.run.plan for each in study.runs))):
        section.table("what the plans are", ("plan", "what it is"), words)
    if different := differing(study):
        section.text(f"The runs differ in {', '.join(different)}: the first one's are above and in the settings.")
    for failure in study.failures:
        section.text(f"Failed: {failure}", "note")
    contests = contests_of([study], comparison)
    if comparison.baseline and not contests and not study.is_grid:
        section.text(
            f"Nothing is compared: “{comparison.baseline}” has no finished run here, or its runs differ in more than"
            " their seeds.",
            "note",
        )
    if study.is_grid:
        _grid(section, study, name, drawing)
    if contests:
        show_contest(section, contests[0], name, drawing)
    else:
        _curves(section, study, name, drawing)
    if not contests and not study.is_grid:
        _times(section, study, name, drawing)
    _runs(section, study)
    return section


def _capitalised(title: str) -> str:
    """A λ is no Λ."""
    return (title[:1].upper() if title[:1].isascii() else title[:1]) + title[1:]


def _grid(section: Section, study: Study, name: str, drawing: Drawing) -> None:
    points, scenario, kpi = study.points, study.scenario, study.kpi.name
    section.heading("What runs reached, and g")
    draw = partial(figures.draw_fig2, points, scenario)
    drawing.show(
        section,
        f"{name}-fig2",
        "−L_min(T_A) with its fitted surface and the runs, beside g (the paper's Fig. 2). Where the two surfaces are"
        " high at the same H and T, g is a good proxy.",
        draw,
    )
    caption = (
        f"{_capitalised(said(study.kpi))} over T for several H, g(H, ·) behind (the paper's Fig. 3). Runs should rise"
        " and fall with the grey line; what is above the dashed one did better than MOB-FL's plan."
    )
    draw = partial(figures.draw_fig3, points, scenario, kpi)
    drawing.show(section, f"{name}-fig3", caption, draw)
    draw = partial(figures.draw_proxy, points, kpi)
    drawing.show(section, f"{name}-proxy", f"What every plan reached against its g. {_trend(study)}", draw)
    history = points[0].history
    section.text(
        "Spearman's ρ compares two orders: 1 if the plans with more g have also reached more, −1 if they have reached"
        " less, 0 if there is no such order."
    )
    rows = [(said(history.kpi(column)), interval(value, 2)) for column, value in study.correlations().items()]
    section.table("correlation", ("reached, more is better", "Spearman's ρ with g (95 % bootstrap over plans)"), rows)
    section.heading("Regret of MOB-FL's plan")
    lost = list[tuple[str, ...]]()
    for column, found in study.regrets().items():
        beyond = {True: "yes", False: "no", None: "not known, one seed"}[found.exceeds_spread]
        best, chosen = (f"H = {each.local_steps}, T = {each.round_s:.4g} s" for each in (found.best, found.chosen))
        values = (
            f"{found.chosen.mean:.5g}",
            best,
            f"{found.best.mean:.5g}",
            f"{found.difference:.3g} ({found.relative:.1%})",
        )
        lost.append((said(history.kpi(column)), chosen, *values, f"{found.rank} of {found.plans}", beyond))
    header = ("", "greatest g", "reached", "best plan", "reached", "regret", "rank", "more than seeds differ")
    section.table("regret", header, lost)


def _curves(section: Section, study: Study, name: str, drawing: Drawing) -> None:
    groups = study.groups if len(study.groups) <= _MOST_CURVES else _telling_groups(study)
    for kpi in study.columns:
        caption = "The least validation loss so far" if kpi == LOSS else f"The best {said(kpi)} so far"
        draw = partial(figures.draw_curves, groups, kpi.name)
        seeds = len({each.seed for each in study.runs})
        over = "" if seeds == 1 else "; mean over seeds"
        ahead = f" The thick line, “{_ahead(groups, kpi)}”, is the best at the end."
        ahead += " One seed alone shows no difference to rely on." if seeds == 1 else ""
        drawing.show(section, f"{name}-{kpi.name}", f"{caption} over virtual time{over}.{ahead}", draw)


def _ahead(groups: Mapping[str, Sequence[History]], kpi: Kpi) -> str:
    """The label of the best mean at the end."""
    sign = -1.0 if kpi.more_is_better else 1.0

    def reached(label: str) -> float:
        best = [each.min_loss() if kpi == LOSS else each.best(kpi.name) for each in groups[label]]
        return float(np.nan_to_num(sign * np.mean(best), nan=np.inf))

    return min(groups, key=reached)


def _trend(study: Study) -> str:
    """What the correlation of g with the loss says."""
    rho = study.correlations()[LOSS.name]
    if np.isnan(rho.value) or rho.low <= 0 <= rho.high:
        return "These plans are too few, or too alike, to show an order."
    return "The more g, the better." if rho.value > 0 else "Here more g went with a worse loss."


def _telling_groups(study: Study) -> dict[str, Any]:
    """A few of many, evenly: of a grid from the greatest g to the least, otherwise in the order of the sweep."""
    order = [point.name for point in sorted(study.points, key=lambda point: -point.objective)] if study.is_grid else []
    labels = list(dict.fromkeys(order)) or list(study.groups)
    chosen = np.linspace(0, len(labels) - 1, _MOST_CURVES).round().astype(int)
    return {labels[i]: study.groups[labels[i]] for i in chosen}


def _times(section: Section, study: Study, name: str, drawing: Drawing) -> None:
    target = study.target()
    times = study.times_to(target)
    label = f"loss {target:.4g}"
    draw = partial(figures.draw_times_to_target, times, label)
    first = next(iter(times))
    caption = (
        f"Virtual seconds until the validation loss was {target:.4g}, which “{first}” had reached in half of T_A:"
        " shorter bars are faster."
    )
    drawing.show(section, f"{name}-times", caption, draw)


def _runs(section: Section, study: Study) -> None:
    section.heading("Runs")
    rows = list[tuple[str, ...]]()
    for each in study.runs:
        description, history = each.run.description, each.history
        g = each.run.objective
        uploads = int(history.columns["uploads"].sum())
        reached = [f"{history.min_loss():.5g}"]
        reached += [f"{value(kpi.name):.4f}" for kpi in study.columns[1:] for value in (history.best, history.final)]
        where = (f"{description['seed']}", "–" if g is None else f"{g:.4f}", f"{len(history)}", f"{uploads}")
        rows.append((each.label, *where, *reached, description["data"].get("data") or "not told", each.run.name))
    scores = [f"{which} {said(kpi)}" for kpi in study.columns[1:] for which in ("best", "last")]
    header = ("", "seed", "g", "rounds or steps", "uploads", "L_min", *scores, "data", "folder")
    section.table("runs", header, rows)
    for each in study.runs:
        for sentence in each.run.notices:
            section.text(f"{each.label}, seed {each.seed}: {sentence}", "note")


def _proxy_over_time(studies: Sequence[Study], drawing: Drawing) -> list[Section]:
    grids = [study for study in studies if study.is_grid]
    if not grids:
        return []
    section, series = Section("over-time", "Where g holds and where it misleads"), {}
    for study in grids:
        times = np.linspace(0, study.scenario.training.duration_s, _TIMES + 1)[1:]
        series[_capitalised(study.title)] = (times, spearman_over_time(times, study.points))
    section.text(
        "g counts valid local steps per second. It predicts who is ahead while learning is limited by steps; it does"
        " not know that averaging more uploads reduces noise, or that training saturates."
    )
    caption = (
        "Spearman's ρ of g with −L_min(t) over the plans of a grid, as virtual time goes on. Near 1, the plans are in"
        " the order of g; where the band holds 0, nothing is shown."
    )
    drawing.show(section, "proxy-over-time", caption, partial(figures.draw_proxy_over_time, series))
    return [section]


def _settings(studies: Sequence[Study], command: str) -> Section:
    section, first = Section("settings", "Settings, data and versions"), studies[0].runs[0].run.description
    section.text(f"Made by: {command}")
    radios = RADIO_FIELDS if any(study.scenario.radio is not None for study in studies) else ()
    rows = [(key, *(_brief(study.scenario.value(key)) for study in studies)) for key in (*FIELDS, *radios)]
    if any(study.scenario.fleet for study in studies):
        rows.append(("fleet", *(_fleet_in_words(study.scenario) for study in studies)))
    section.table("settings", ("key", *(_capitalised(study.title) for study in studies)), rows)
    section.text("–: not set.", "soft")
    section.heading("Data")
    for source in sources(studies):
        section.text("; ".join(f"{key} {value}" for key, value in source.items()), "soft")
    section.heading("Versions")
    section.text(", ".join(f"{name} {version}" for name, version in first["versions"].items()), "soft")
    return section


def _brief(value: object) -> str:
    """What is not set is a dash; measured samples are too many to be listed."""
    if value is None:
        return "–"
    return f"{len(value)} values" if isinstance(value, tuple) and len(value) > 2 else str(value)


def _fleet_in_words(scenario: Scenario) -> str:
    steps = ((each, each.compute) for each in scenario.classes)
    return "; ".join(
        f"{each.name}: {each.share:g}, {step.law}, {step.min_step_s:g} + {step.extra_step_s:g} s"
        for each, step in steps
    )
