"""What can go wrong, as exceptions.

MobflError
├── InputError         the caller gave something wrong: a line per mistake   (exit status 2)
│   └── DamagedRunError  files of a run cannot be read, or do not belong together
├── InfeasibleError    no vehicle could ever upload with what is asked for   (exit status 3)
├── MissingExtraError  a part of mobfl that is not installed is needed       (exit status 1)
└── PartError          somebody's own part broke                             (exit status 1)

`mobfl.plan` does not raise where nothing is feasible: it returns a `Plan` with status `infeasible`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

_MOST_SHOWN = 300  # characters of a value in a sentence


class MobflError(Exception):
    """Anything that mobfl raises on purpose."""


class InputError(MobflError, ValueError):
    """Wrong input; `lines` holds one sentence per mistake, naming field, rule and value."""

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = [lines] if isinstance(lines, str) else list(lines)
        super().__init__("\n".join(self.lines))


class DamagedRunError(InputError):
    """A run cannot be resumed, since its files cannot be read or do not belong together."""

    def __init__(self, folder: Path, reason: object) -> None:
        super().__init__(
            f"{reason}: the run in {folder} is damaged and cannot be resumed. Move it away, and train it again without"
            " resuming."
        )


class InfeasibleError(MobflError):
    """No plan is possible; `reason` says why and what would help."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"No plan is possible: {reason}")


class MissingExtraError(MobflError, ImportError):
    """A library of an optional part is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs the extra '{extra}': pip install 'mobfl[{extra}]'")


# Libraries that belong to an extra, and what they are needed for.
EXTRAS = {
    "numba": ("simulation", "simulate"),
    "pyarrow": ("simulation", "simulate"),
    "safetensors": ("training", "train"),
    "torch": ("PyTorch", "torch"),
    "duckdb": ("results of many runs", "experiments"),
    "joblib": ("a sweep", "experiments"),
    "matplotlib": ("drawing a figure", "figures"),
    "flwr": ("deployment", "flower"),
    "dp_accounting": ("accounting for privacy", "privacy"),
    "libsumo": ("traffic from SUMO", "sumo"),
}


class PartError(MobflError):
    """A part that is not ours failed; its own exception is the cause."""


def broken_line(file: Path, line: int, rule: str, value: Any) -> InputError:
    """What is wrong where in a file."""
    return InputError(f"{file}, line {line}: there must be {rule}, got {brief(str(value))}")


def counted(count: int, one: str, many: str = "") -> str:
    """`1 run`, `3 runs`; `many` where the plural is another word."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shown(value: Any) -> str:
    """A value as a sentence can hold it, whatever somebody wrote."""
    try:
        return brief(repr(value))
    except (ValueError, RecursionError):  # a number of more than 4,300 digits, or lists within lists
        return f"something of kind {type(value).__name__} that is too long to show"


def brief(text: str) -> str:
    """Of a long text the beginning."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"
