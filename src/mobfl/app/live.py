"""Runs as they train: a stream of server-sent events that tells what has changed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from mobfl.app.background import Background
from mobfl.app.runs import RunsFolder

_EVERY_S = 1.0
_TICK_S = 0.1


async def changes(folder: RunsFolder, background: Background, closing: Callable[[], bool]) -> AsyncIterator[str]:
    """First all rows, then those that are new or different and who is gone; it ends with the server."""
    known = dict[str, tuple[Any, ...]]()
    first = True
    while not closing():
        seen = await background.run(folder.look)
        stamps = {name: each.stamp for name, each in seen.items()}
        rows = [each.row for name, each in seen.items() if name not in known or known[name] != each.stamp]
        gone = [name for name in known if name not in seen]
        # A line that says nothing keeps the connection, and notices when nobody is there any more.
        news = {"rows": rows, "gone": gone, "all": first, "more": folder.more}
        yield _event(news) if rows or gone or first else ": nothing new\n\n"
        known, first = stamps, False
        for _ in range(round(_EVERY_S / _TICK_S)):
            if not closing() and not folder.more:
                await asyncio.sleep(_TICK_S)


def _event(content: object) -> str:
    return f"data: {json.dumps(content, allow_nan=False)}\n\n"
