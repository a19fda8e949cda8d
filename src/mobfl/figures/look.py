"""How somebody wants figures: a journal's size, style and letters, honoured last."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mobfl.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_IN, _MOST_IN = 0.5, 100.0
_LEAST_PT, _MOST_PT = 1.0, 100.0
_LETTERS = (
    "font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize",
    "legend.title_fontsize", "figure.titlesize", "figure.labelsize",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What is wanted instead of our own look; None leaves that.

    Args:
        size_in: Width and height of a figure in inches.
        style: A matplotlib style: a file, or the name of one of matplotlib's own.
        font_size: Of all letters, in points.
        narrow: As for a telephone: a figure has the width of a column, its panels stand one above the other.
    """

    size_in: tuple[float, float] | None = None
    style: str | None = None
    font_size: float | None = None
    narrow: bool = False

    def __post_init__(self) -> None:
        if self.size_in is not None and not all(_LEAST_IN <= each <= _MOST_IN for each in self.size_in):
            told = ",".join(f"{each:g}" for each in self.size_in)
            raise InputError(f"size must be width,height, both from {_LEAST_IN:g} to {_MOST_IN:g} inches, got {told}")
        if self.font_size is not None and not _LEAST_PT <= self.font_size <= _MOST_PT:
            raise InputError(f"font_size must be from {_LEAST_PT:g} to {_MOST_PT:g} points, got {self.font_size:g}")
        if self.style is not None:
            _styled(self.style)

    def begin(self, size_in: tuple[float, float], narrow_in: tuple[float, float]) -> tuple[float, float]:
        """Sets what matplotlib draws with from here on; the size that a figure gets."""
        import matplotlib

        params: Any = matplotlib.rcParams
        styled = {} if self.style is None else _styled(self.style)
        params.update(styled)
        if self.font_size is not None:
            params.update(dict.fromkeys(_LETTERS, self.font_size))
        if self.size_in is None and self.narrow:
            return narrow_in
        return self.size_in or styled.get("figure.figsize") or size_in

    def finish(self, figure: "Figure") -> dict[str, Any]:
        """Sets what a figure may have chosen for itself; how it is to be saved."""
        from matplotlib.text import Text

        if self.font_size is not None:
            for text in figure.findobj(Text):
                text.set_fontsize(self.font_size)
        # A size that is asked for is the size of the file: it is not cut to what is drawn.
        return {} if self.size_in is None else {"bbox_inches": figure.bbox_inches}


def _styled(style: str) -> dict[str, Any]:
    """What a style sets, and nothing else."""
    import matplotlib
    from matplotlib import style as styles

    try:
        with _strict():
            known: Any = styles.library
            found: Any = known.get(style) or matplotlib.rc_params_from_file(style, use_default_template=False)
            return dict(found)
    except (OSError, ValueError, KeyError, UnicodeError) as error:
        raise InputError(f"style must be a file or a name of matplotlib's, got {style!r}: {error}") from None


@contextmanager
def _strict() -> Iterator[None]:
    """A key that matplotlib does not know is only logged by it, and nobody would see that it has no effect."""
    import logging

    found = list[str]()

    class _Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(" ".join(record.getMessage().split()))

    logger, handler = logging.getLogger("matplotlib"), _Kept(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    if found:
        raise ValueError(found[0])


OURS = Look()
_WANTED: ContextVar[Look] = ContextVar("look", default=OURS)


def wanted_look() -> Look:
    return _WANTED.get()


@contextmanager
def looking(look: Look) -> Iterator[None]:
    """Figures that are drawn meanwhile look so."""
    before = _WANTED.set(look)
    try:
        yield
    finally:
        _WANTED.reset(before)
