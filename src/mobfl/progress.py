"""How far long work is: told to a function of the caller's, or shown where a person looks.

In a notebook and on a terminal it is a bar that goes when the work is done; elsewhere a line on stderr now and then.
"""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

Item = TypeVar("Item")
Progress: TypeAlias = bool | Callable[[Item], None]
"""True shows how far the work is, a function is told, False keeps quiet."""
Show: TypeAlias = Callable[[float, str], None]

_LINE_S = 10.0  # between two lines where nobody watches
_REDRAW_S = 0.2  # between two pictures of a notebook


@contextmanager
def following(
    progress: Progress[Item], what: str, total: float, told: Callable[[Item], tuple[float, str]], at_first: str = ""
) -> Iterator[Callable[[Item], None]]:
    """What to call with every item that is done; `told` says of one how much that is, and what there is to say.

    Until the first one is, a bar says what there is to say `at_first`.
    """
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda _: None
    else:
        with _shown(what, total, at_first) as show:
            yield lambda item: show(*told(item))


@contextmanager
def _shown(what: str, total: float, at_first: str) -> Iterator[Show]:
    if _in_notebook():
        with _notebook_bar(what, total, at_first) as show:
            yield show
    elif sys.stderr.isatty():
        with _terminal_bar(what, total, at_first) as show:
            yield show
    else:
        yield _lines(what, total)


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _terminal_bar(what: str, total: float, at_first: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(at_first or what, total=total)
        yield lambda done, said: bar.update(shown, completed=done, description=said or what)


@contextmanager
def _notebook_bar(what: str, total: float, at_first: str) -> Iterator[Show]:
    ipython: Any = import_module("IPython.display")  # which is there, as this is a notebook

    def picture(done: float, said: str) -> Any:
        words = html.escape(": ".join(filter(None, (what, said))))
        return ipython.HTML(f'<progress value="{done:g}" max="{total:g}"></progress> {words}')

    handle, last = ipython.display(picture(0.0, at_first), display_id=True), time.monotonic()

    def show(done: float, said: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _REDRAW_S:
            handle.update(picture(done, said))
            last = time.monotonic()

    try:
        yield show
    finally:
        handle.update(ipython.HTML(""))


def _lines(what: str, total: float) -> Show:
    last = time.monotonic()

    def show(done: float, said: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_S:
            told = ", ".join(filter(None, (f"{what}: {done / total:.0%}", said.strip())))
            print(f"{told} …", file=sys.stderr, flush=True)
            last = time.monotonic()

    return show
