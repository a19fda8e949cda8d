"""What a radio gives along a section."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mobfl.figures.canvas import DASHES, canvas, panels
from mobfl.scenario import Scenario
from mobfl.theory.section import Coverage, coverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_PLACES = 401
_SHADES = ("black", "0.25", "0.45")


def draw_radio(scenario: Scenario, file: Path, senders: "Sequence[int]" = (1, 5, 15)) -> None:
    """Draws the SNR and the rate of an upload over the section, for several numbers of senders."""
    there = coverage(scenario, np.linspace(0.0, scenario.road.length_m, _PLACES), senders)
    with canvas(file) as figure:
        snr, rate = panels(figure, 2)
        _draw_lines(snr, there, there.uplink_snr_db)
        _draw_lines(rate, there, there.uplink_bps / 1e6)
        snr.set(ylabel="SNR of an upload (dB)")
        snr.set_title("(a) SNR along the section")
        rate.set(ylabel="rate of an upload (Mbit/s)", yscale="log")
        rate.set_title("(b) rate along the section")
        rate.yaxis.set_major_formatter("{x:g}")
        for axes in (snr, rate):
            _mark_station(axes, scenario)
        handles, labels = snr.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=3)


def _draw_lines(axes: "Axes", there: Coverage, rows: "np.ndarray") -> None:
    for i, (n, row) in enumerate(zip(there.senders, rows, strict=True)):
        line = "solid" if i == 0 else DASHES[::-1][(i - 1) % len(DASHES)]
        label = "alone" if n == 1 else f"{n} send at once"
        axes.plot(there.way_m, row, linestyle=line, color=_SHADES[min(i, len(_SHADES) - 1)], label=label)


def _mark_station(axes: "Axes", scenario: Scenario) -> None:
    assert scenario.radio is not None
    length_m = scenario.road.length_m
    axes.axvline(scenario.radio.along_m(length_m), color="0.8", linewidth=0.8, zorder=0)
    axes.set(xlim=(0, length_m), xlabel="way into the section (m); grey: the station")
