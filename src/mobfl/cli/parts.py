"""`mobfl parts`."""

import inspect
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import json_option, need
from mobfl.errors import MobflError

if TYPE_CHECKING:
    from mobfl.parts import Kind


_KINDS = ("tasks", "traffic", "schedules", "selections", "rules", "locals", "codecs")


def _complete_kind(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in _KINDS if kind.startswith(incomplete)]


@click.command()
@click.argument("kind", required=False, metavar="[KIND]", shell_complete=_complete_kind)
@json_option
def parts(kind: str | None, as_json: bool) -> None:
    """List what can be exchanged: tasks, traffic, schedules, selections, rules, locals and codecs.

    With their parameters, and with those that installed packages bring. MODULE:OBJECT from the folder where the command
    runs works too.
    """
    need("training", "train", "safetensors")
    kinds = _kinds()
    if kind is not None and kind not in kinds:
        raise click.UsageError(f"KIND must be one of {', '.join(kinds)}, got {kind!r}")
    rows = [row for name, each in kinds.items() if kind in (None, name) for row in _rows(name, each)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for name in kinds:
        _print(name, [row for row in rows if row["kind"] == name])


def _print(name: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo(name)
    for row in rows:
        click.echo(f"  {row['name']:<14} {row['summary']}")
        if row["parameters"]:
            click.echo(f"  {'':<14}   " + ", ".join(f"{key}={value}" for key, value in row["parameters"].items()))


def _kinds() -> "dict[str, Kind]":
    from mobfl.learning.codecs import CODECS
    from mobfl.learning.local import LOCALS
    from mobfl.learning.rules import RULES
    from mobfl.mobility.sources import TRAFFIC
    from mobfl.servers.names import SCHEDULES
    from mobfl.servers.selections import SELECTIONS
    from mobfl.tasks.catalogue import TASKS

    return {kind.plural: kind for kind in (TASKS, TRAFFIC, SCHEDULES, SELECTIONS, RULES, LOCALS, CODECS)}


def _rows(plural: str, kind: "Kind") -> Iterator[dict[str, Any]]:
    from mobfl.parts import REQUIRED, parameters_of

    for name in (*kind.ours, *kind.installed()):
        try:
            found = kind.find(name)
        except MobflError as error:
            yield {"kind": plural, "name": name, "summary": str(error), "parameters": {}}
            continue
        known = parameters_of(found) if callable(found) else {}
        given = {key: "…" if default is REQUIRED else default for key, default in known.items()}
        yield {"kind": plural, "name": name, "summary": _summary(found), "parameters": given}


def _summary(found: Any) -> str:
    return (inspect.getdoc(found) or "").partition("\n")[0]
