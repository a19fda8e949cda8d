"""What every figure shares: the style, the sizes, the wording of axes, and how a file is written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobfl.errors import InputError, MissingExtraError
from mobfl.figures.look import wanted_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FORMATS = (".png", ".pdf", ".svg")
TWO_COLUMNS_IN = (7.2, 3.2)  # of a paper
ONE_COLUMN_IN = (3.6, 2.8)
TWO_PANELS_IN = (3.7, 5.2)  # one above the other
_NARROW_IN = 5.0
# Colours that differ in lightness too.
BLUE, BROWN = "#0b4f8a", "#b5651d"
# In greyscale the curves differ by their dashes.
DASHES: tuple[Any, ...] = ("dotted", (0, (3, 1, 1, 1, 1, 1)), "dashed", "dashdot")
L_MIN = r"$L_\mathrm{min}$"


def as_text(label: str) -> str:
    """A label that a person chose, shown as it is: matplotlib reads $ as mathematics and hides what begins with _."""
    return ("\u200b" if label.startswith("_") else "") + label.replace("$", r"\$")


def check_plot_file(file: Path, option: str = "plot") -> None:
    if file.suffix.lower() not in _FORMATS:
        raise InputError(f"{option} must end in one of {', '.join(_FORMATS)}, got {str(file)!r}")


def check_something_to_draw(given: Any) -> None:
    if not given:
        raise InputError("a figure must have something to show, got no runs")


@contextmanager
def canvas(
    file: Path, size_in: tuple[float, float] = TWO_COLUMNS_IN, narrow_in: tuple[float, float] | None = None
) -> "Iterator[Figure]":
    """An empty figure in our style, saved to the file once it is drawn; `narrow_in` is its size on a telephone."""
    check_plot_file(file)
    try:
        import matplotlib
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing a figure", "figures") from None
    with matplotlib.rc_context(), resources.as_file(resources.files("mobfl.figures") / "mobfl.mplstyle") as ours:
        style.use(ours)
        look = wanted_look()
        if narrow_in is None:
            narrow_in = TWO_PANELS_IN if size_in == TWO_COLUMNS_IN else (TWO_PANELS_IN[0], size_in[1])
        figure = Figure(figsize=look.begin(size_in, narrow_in), layout="constrained")
        yield figure
        _save(figure, file, look.finish(figure))


def is_narrow(figure: "Figure") -> bool:
    """Whether it is a column of a paper: then panels stand one above the other, and words are few."""
    return figure.get_figwidth() < _NARROW_IN


def panels(figure: "Figure", count: int) -> "list[Axes]":
    """So many axes, side by side or in a narrow figure one above the other."""
    across = 1 if is_narrow(figure) else count
    return list(figure.subplots(count // across, across, squeeze=False).ravel())


def _save(figure: "Figure", file: Path, how: dict[str, Any]) -> None:
    """Writes beside the file and renames, so that an interruption leaves the old file or the new one."""
    part = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(file.suffix.lower(), {})
    try:
        figure.savefig(part, metadata=undated, **how)
        part.replace(file)
    except OSError as error:
        raise InputError(f"plot {str(file)!r} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink()
