"""What a shell offers after Tab: packaged scenarios and sweeps, parts by their names, keys of a scenario, and files."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _matching(names: Iterable[str], incomplete: str, or_files: bool = False) -> list[CompletionItem]:
    """Names that begin so; files where none does, which a shell only looks for if that is said first."""
    files = [CompletionItem(incomplete, type="file")] if or_files else []
    return [*files, *(CompletionItem(name) for name in names if name.startswith(incomplete))]


def completing(kind: str) -> Complete:
    """The names of a kind of parts, `module:KIND`; the last one of a chain such as clip+median."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        module, _colon, name = kind.partition(":")
        parts: Any = getattr(import_module(module), name)
        before, plus, last = incomplete.rpartition("+")
        return _matching(
            (f"{before}{plus}{each}" for each in (*parts.ours, *parts.installed())), f"{before}{plus}{last}"
        )

    return complete


def completing_words(*words: str) -> Complete:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _matching(words, incomplete)

    return complete


def complete_packaged(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mobfl.scenario import packaged_scenarios

    return _matching(packaged_scenarios(), incomplete)


def complete_scenario(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mobfl.scenario import packaged_scenarios

    return _matching(packaged_scenarios(), incomplete, or_files=True)


def complete_sweep(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mobfl.experiments.sweep_file import packaged_sweeps

    return _matching(packaged_sweeps(), incomplete, or_files=True)


def complete_setting(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mobfl.scenario import FIELDS, RADIO_FIELDS

    return _matching((f"{key}=" for key in (*FIELDS, *RADIO_FIELDS)), incomplete)
