"""Figures for print: legible in greyscale, units on every axis. Needs the extra `figures`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mobfl.figures.canvas import check_plot_file
    from mobfl.figures.cities import draw_stations
    from mobfl.figures.contests import draw_faster, draw_predictors
    from mobfl.figures.experiments import draw_fig2, draw_fig3, draw_proxy, draw_proxy_over_time
    from mobfl.figures.following import draw_following
    from mobfl.figures.forecasts import draw_forecasts
    from mobfl.figures.histories import draw_curves, draw_history, draw_times_to_target
    from mobfl.figures.look import Look, looking
    from mobfl.figures.maps import draw_sections, draw_sites
    from mobfl.figures.over_day import draw_day
    from mobfl.figures.plans import draw_plan
    from mobfl.figures.radio import draw_radio
    from mobfl.figures.radio_plans import draw_kept_promises, draw_radio_plan
    from mobfl.figures.simulations import draw_anytime_simulation, draw_simulation, draw_uploads

# Loaded when first asked for: a plan is drawn without what draws runs, which need the extra `simulate`.
_LATER = {
    "Look": "mobfl.figures.look",
    "check_plot_file": "mobfl.figures.canvas",
    "draw_anytime_simulation": "mobfl.figures.simulations",
    "draw_curves": "mobfl.figures.histories",
    "draw_day": "mobfl.figures.over_day",
    "draw_faster": "mobfl.figures.contests",
    "draw_fig2": "mobfl.figures.experiments",
    "draw_fig3": "mobfl.figures.experiments",
    "draw_following": "mobfl.figures.following",
    "draw_forecasts": "mobfl.figures.forecasts",
    "draw_history": "mobfl.figures.histories",
    "draw_kept_promises": "mobfl.figures.radio_plans",
    "draw_plan": "mobfl.figures.plans",
    "draw_predictors": "mobfl.figures.contests",
    "draw_proxy": "mobfl.figures.experiments",
    "draw_proxy_over_time": "mobfl.figures.experiments",
    "draw_radio": "mobfl.figures.radio",
    "draw_radio_plan": "mobfl.figures.radio_plans",
    "draw_sections": "mobfl.figures.maps",
    "draw_simulation": "mobfl.figures.simulations",
    "draw_sites": "mobfl.figures.maps",
    "draw_stations": "mobfl.figures.cities",
    "draw_times_to_target": "mobfl.figures.histories",
    "draw_uploads": "mobfl.figures.simulations",
    "looking": "mobfl.figures.look",
}
__all__ = [
    "Look",
    "check_plot_file",
    "draw_anytime_simulation",
    "draw_curves",
    "draw_day",
    "draw_faster",
    "draw_fig2",
    "draw_fig3",
    "draw_following",
    "draw_forecasts",
    "draw_history",
    "draw_kept_promises",
    "draw_plan",
    "draw_predictors",
    "draw_proxy",
    "draw_proxy_over_time",
    "draw_radio",
    "draw_radio_plan",
    "draw_sections",
    "draw_simulation",
    "draw_sites",
    "draw_stations",
    "draw_times_to_target",
    "draw_uploads",
    "looking",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'mobfl.figures' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
