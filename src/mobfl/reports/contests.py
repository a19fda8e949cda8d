"""A study in which algorithms meet a baseline: times to targets, scores, what they cost, and who is heard."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from mobfl import figures
from mobfl.errors import InputError
from mobfl.experiments.comparison import SPENT, Contest, Row, TimeTo
from mobfl.experiments.heard import Share, by_class, by_speed, shares
from mobfl.experiments.predictors import MEASURES, Field, fields_of, mean_steps_until
from mobfl.experiments.replay import Replay
from mobfl.experiments.studies import Labelled
from mobfl.learning.task import LOSS
from mobfl.reports.sections import Drawing, Section, interval, said
from mobfl.rounds.estimates import Estimate

_CURVES = 7  # of algorithms beside the baseline in one figure
_UNITS = {"bytes": (1e6, "MB"), "energy_j": (1e3, "kJ")}


def show_contest(section: Section, contest: Contest, name: str, drawing: Drawing) -> None:
    """Tables and figures of a study that has a baseline with finished runs."""
    rows = contest.rows
    section.heading(f"Against {contest.comparison.baseline}")
    if contest.targets:
        section.text(_explained(contest))
        heads = [_head(_in_words(contest, target.column), value) for target, value in contest.targets]
        header = ("", "seeds", *(word for head in heads for word in head))
        section.table("times to targets", header, [_times(row, row is rows[0]) for row in rows])
        caption = (
            f"How many times as fast as {contest.comparison.baseline}; arrows are bounds, where a time was cut off. An"
            " interval that does not hold 1 is a difference."
        )
        drawing.show(section, f"{name}-faster", caption, partial(figures.draw_faster, rows), also_narrow=False)
    _show_scores(section, contest, rows)
    _show_spent(section, contest)
    _show_curves(section, contest, name, drawing)


def _explained(contest: Contest) -> str:
    targets = ", ".join(
        f"{target} is {_in_words(contest, target.column)} {value:.4g}" for target, value in contest.targets
    )
    return (
        f"Targets: {targets}; shares are of the way from the initial to the best value of"
        f" {contest.comparison.baseline}, means over its seeds. A run that did not get there counts with T_A in the"
        " mean. “Times as fast” is the geometric mean over seeds of the baseline's time over its own, with Student's"
        " 95 % interval of the logarithms; ≥ and ≤ say that a time cut off at T_A makes it a bound."
    )


def _head(column: str, value: float) -> tuple[str, str]:
    return f"s to {column} {value:.4g} (reached)", "times as fast (95 %)"


def _in_words(contest: Contest, column: str) -> str:
    """A column as a person reads it."""
    return said(next(iter(contest.baseline.values())).history.kpi(column))


def _times(row: Row, is_baseline: bool) -> tuple[str, ...]:
    return row.label, f"{row.runs}", *(word for time in row.times for word in _time(time, is_baseline))


def _time(time: TimeTo, is_baseline: bool) -> tuple[str, str]:
    faster = "1" if is_baseline else f"{time.bound} {interval(time.faster, 2)}".strip()
    return f"{time.mean_s:.0f} ({time.reached}/{time.runs})", faster


def _show_scores(section: Section, contest: Contest, rows: Sequence[Row]) -> None:
    names = {"min_loss": "L_min", "last_loss": "last loss"}
    kpi = contest.study.kpi
    if kpi != LOSS:
        names |= {f"last_{kpi.name}": f"last {said(kpi)}", f"best_{kpi.name}": f"best {said(kpi)}"}
    header = ["", *(word for score in rows[0].scores for word in (names[score.name], "against the baseline (95 %)"))]
    header += ["effective steps per s", "delivered steps per s"]
    table = [(row.label, *_scores(row, row is rows[0]), *_steps(contest.study.by_name[row.label])) for row in rows]
    section.table("scores", header, table)


def _scores(row: Row, is_baseline: bool) -> list[str]:
    differences = ["–" if is_baseline else interval(score.above) for score in row.scores]
    means = [f"{score.mean:.4f}" for score in row.scores]
    return [word for pair in zip(means, differences, strict=True) for word in pair]


def _steps(runs: Mapping[int, Labelled]) -> tuple[str, str]:
    """Per second of virtual time, means over seeds."""
    duration_s = next(iter(runs.values())).run.scenario.training.duration_s
    measured = mean_steps_until(runs.values(), duration_s)
    effective, delivered = (measured[name] / duration_s for name in MEASURES[::2])
    return "–" if np.isnan(effective) else f"{effective:.3f}", f"{delivered:.3f}"


def _show_spent(section: Section, contest: Contest) -> None:
    """One table of bytes and energy, where the runs have them."""
    header, columns = [""], list[dict[str, tuple[str, str]]]()
    for column in SPENT:
        scale, unit = _UNITS[column]
        for target, value in contest.targets:
            if found := contest.spent(column, target, value):
                header += [f"{unit} to {_in_words(contest, target.column)} {value:.4g}", "times the baseline's (95 %)"]
                columns.append({name: _cost(mean / scale, times) for name, (mean, times) in found.items()})
    if columns:
        section.text(
            "Bytes both ways and the vehicles' energy until a target, over the share of the baseline's way that was"
            " made by then; of a run that did not get there, all that it spent over what it made."
        )
        rows = [(row.label, *(word for each in columns for word in each[row.label])) for row in contest.rows]
        section.table("costs", header, rows)


def _cost(mean: float, times: Estimate) -> tuple[str, str]:
    return f"{mean:.4g}", interval(times, 2)


def _show_curves(section: Section, contest: Contest, name: str, drawing: Drawing) -> None:
    """The baseline in every figure, with as many others as can be told apart."""
    baseline, groups = contest.comparison.baseline, contest.study.groups
    others = [label for label in groups if label != baseline]
    for kpi in contest.study.columns:
        caption = "The least validation loss so far" if kpi == LOSS else f"The best {said(kpi)} so far"
        for first in range(0, max(len(others), 1), _CURVES):
            chosen = {label: groups[label] for label in (baseline, *others[first : first + _CURVES])}
            part = f"-{1 + first // _CURVES}" if len(others) > _CURVES else ""
            text = (
                f"{caption} over virtual time; mean over seeds, bands from the least to the most. The thick line is the"
                " best at the end; where bands overlap, another seed may have turned the order."
            )
            drawing.show(section, f"{name}-{kpi.name}{part}", text, partial(figures.draw_curves, chosen, kpi.name))


# ---- what predicts ----------------------------------------------------------------------------------


def predictor_sections(contests: Sequence[Contest], drawing: Drawing) -> list[Section]:
    section = Section("predictors", "What predicts who is ahead")
    section.text(
        "Effective steps are found without training: every upload advances a number by its steps under the server's"
        " own schedule and rule. g is Theorem 1's for rounds of one H and T, v its bound for anytime rounds. Delivered"
        " steps are those of all uploads. A pair is an algorithm in one study, its mean over seeds; 95 % bootstrap over"
        " pairs."
    )
    for number, field in enumerate(fields_of(contests), start=1):
        _show_field(section, field, f"predictors-{number}", drawing)
    return [section]


def _show_field(section: Section, field: Field, name: str, drawing: Drawing) -> None:
    section.heading(field.title)
    for entrant in field.entrants:
        if (reason := entrant.unknown) is not None:
            section.text(f"No effective steps for {entrant.label}: {reason}.", "soft")
    found = field.correlations
    rows = [(result, *(_rho(*cells[measure]) for measure in MEASURES)) for result, cells in found.items()]
    section.table(f"{name} correlation", ("Spearman's ρ of", *MEASURES), rows)
    at_s = field.instants_s[len(field.instants_s) // 2]
    caption = (
        f"What every algorithm had reached by {at_s:g} s against what was known of it without training: the nearer to a"
        " rising line, the better the prediction."
    )
    drawing.show(section, name, caption, partial(figures.draw_predictors, field, at_s), also_narrow=False)


def _rho(rho: Estimate, pairs: int) -> str:
    return f"{interval(rho, 2)} of {pairs}" if not np.isnan(rho.value) else f"not defined ({pairs} pairs)"


# ---- who is heard -----------------------------------------------------------------------------------


def heard_sections(contests: Sequence[Contest]) -> list[Section]:
    """For studies whose vehicles differ in class or speed; none where all are alike."""
    section = Section("heard", "Who is heard")
    section.text(
        "Shares of visits, uploads, local steps and of how far the model moved, by class of vehicles and by speed, from"
        " the schedule alone; means over seeds. The model is one for all, so its scores belong to no group."
    )
    words = len(section.parts)
    for contest in contests:
        _show_heard(section, contest)
    return [section] if len(section.parts) > words else []


def _show_heard(section: Section, contest: Contest) -> None:
    rows = list[tuple[str, ...]]()
    for label, runs in contest.study.by_name.items():
        for group, columns in _heard(list(runs.values())).items():
            rows.append((label, group, *("–" if np.isnan(value) else f"{value:.1%}" for value in columns)))
    if rows:
        section.heading(contest.study.title)
        header = ("", "group", "of the visits", "heard", "of the uploads", "of the steps", "of the way")
        section.table(f"who is heard, {contest.study.title}", header, rows)


def _heard(runs: Sequence[Labelled]) -> dict[str, Sequence[float]]:
    """By group, means over seeds; nothing where vehicles are alike or a run cannot be replayed."""
    found = dict[str, list[Share]]()
    for each in runs:
        try:
            replay = Replay.of(each.run, each.plan, each.rule)
        except InputError:
            return {}
        groupings = [by_class(replay)] if len(replay.scenario.classes) > 1 else []
        groupings += [speeds] if (speeds := by_speed(replay)) is not None else []
        for share in (row for grouping in groupings for row in shares(replay, grouping)):
            found.setdefault(share.group, []).append(share)
    return {
        group: [float(np.mean([getattr(each, name) for each in every])) for name in _HEARD]
        for group, every in found.items()
    }


_HEARD = ("visits", "heard", "uploads", "local_steps", "moved")
