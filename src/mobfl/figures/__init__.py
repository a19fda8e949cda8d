"""Figures for print: legible in greyscale, units on every axis. Needs the extra `figures`."""

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
