"""What plans on a radio promise, and what rounds deliver."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.figures.canvas import canvas, check_something_to_draw, panels
from mobfl.planning.plans import Plan
from mobfl.planning.radio import in_seconds
from mobfl.rounds.estimates import Estimate
from mobfl.rounds.kept_promises import KeptPromise, delivered_objective
from mobfl.rounds.simulation import Simulation, simulate
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_LENGTHS = 101
_LONGEST = 2.5  # times the planned T
_SIMULATED = (0.7, 1.0, 1.4, 2.0)  # times the planned T


def draw_kept_promises(kept: Sequence[KeptPromise], file: Path) -> None:
    """Draws promised and delivered chances of an empty round, and g, over arrivals, where there is a plan."""
    planned = [each for each in kept if each.rounds is not None]
    check_something_to_draw(planned)
    rates = np.array([each.arrivals_per_s for each in planned])
    with canvas(file) as figure:
        empty, objective = panels(figure, 2)
        _promised(empty, rates, [each.promised_empty_prob for each in planned])
        _delivered(empty, rates, [each.rounds.empty_prob for each in planned if each.rounds is not None])
        _promised(objective, rates, [each.promised_objective for each in planned])
        _delivered(objective, rates, [each.objective for each in planned if each.objective is not None])
        empty.set(ylabel="chance of a round without upload", ylim=(0, 1))
        empty.set_title("(a) empty rounds of the quick plan")
        objective.set(ylabel="g (valid local steps per second)", ylim=(0, None))
        objective.set_title("(b) what they are worth")
        for axes in (empty, objective):
            axes.set(xscale="log", xlabel="arrivals λ (1/s)")
            axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
            axes.minorticks_off()
        empty.legend(loc="lower left")


def draw_radio_plan(scenario: Scenario, plan: Plan, file: Path, rounds: int = 400, seed: int = 0) -> None:
    """Draws Λ and g over T at the plan's H: for constant seconds, for those that every T causes, and simulated.

    Args:
        scenario: With a radio.
        plan: The quick one for it.
        file: PNG, PDF or SVG.
        rounds: How many are simulated with the planned T; with other T they last as long together.
        seed: Of the simulated rounds.
    """
    if plan.reason is not None:
        raise InputError(f"a figure must have a plan to show, got none: {plan.reason}")
    h, t_best, _ = plan.numbers
    t = np.linspace(0.0, _LONGEST * t_best, _LENGTHS)[1:]
    fixed = in_seconds(scenario, theory.mean_transfers(scenario, h, t_best))
    constant = np.stack([np.asarray(each) for each in theory.promise(fixed, h, t)])
    caused = np.array([_promise_at(scenario, h, each) for each in t]).T
    tried = [simulate(scenario, h, share * t_best, round(rounds / share), seed) for share in _SIMULATED]
    with canvas(file) as figure:
        uploads, objective = panels(figure, 2)
        _draw_lengths(uploads, t, constant[0], caused[0], tried, lambda each: each.mean_uploads)
        _draw_lengths(objective, t, constant[2], caused[2], tried, delivered_objective)
        uploads.set(ylabel="Λ (uploads per round)")
        uploads.set_title(f"(a) Λ({h}, ·)")
        objective.set(ylabel="g (valid local steps per second)")
        objective.set_title(f"(b) g({h}, ·)")
        for axes in (uploads, objective):
            axes.axvline(t_best, color="0.8", linewidth=0.8, zorder=0)
            axes.set(xlim=(0, t[-1]), ylim=(0, None), xlabel="round length T (s); grey: planned")
        handles, labels = uploads.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, handlelength=3)


def _promise_at(scenario: Scenario, h: int, t: float) -> tuple[float, float, float]:
    """Λ, the chance of a valid round and g with the mean transfer times that this H and T cause."""
    uploads, valid, g = theory.promise(in_seconds(scenario, theory.mean_transfers(scenario, h, t)), h, t)
    return float(uploads), float(valid), float(g)


def _draw_lengths(
    axes: "Axes",
    t: Array,
    constant: Array,
    caused: Array,
    tried: Sequence[Simulation],
    measured: Callable[[Simulation], Estimate],
) -> None:
    axes.plot(t, constant, color="0.75", linewidth=4, label="constant seconds of the plan's mean")
    axes.plot(t, caused, color="black", linewidth=1.2, label="fixed point at every T")
    _delivered(axes, np.array([each.round_s for each in tried]), [measured(each) for each in tried])


def _promised(axes: "Axes", x: Array, values: Sequence[float | None]) -> None:
    axes.plot(x, np.array(values, float), "s--", color="0.45", markersize=5, markerfacecolor="white", label="promised")


def _delivered(axes: "Axes", x: Array, measured: Sequence[Estimate]) -> None:
    value, low, high = np.array([(each.value, each.low, each.high) for each in measured]).T
    reach = np.where(np.isfinite(high - low), [value - low, high - value], np.nan)
    look = {"color": "black", "markersize": 4, "elinewidth": 0.9, "capsize": 2}
    axes.errorbar(x, value, yerr=reach, fmt="o", label="simulated, 95 % intervals", **look)  # type: ignore[arg-type]
