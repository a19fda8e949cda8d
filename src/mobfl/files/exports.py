"""Results as files for other programs; the ending says which kind."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from mobfl.errors import InputError
from mobfl.files.atomic import replaced
from mobfl.files.json import plain


def check_export(file: Path, endings: Sequence[str]) -> None:
    """Whether it can be written, before anything is computed for it."""
    if file.suffix.lower() not in endings:
        raise InputError(f"export must end in one of {', '.join(endings)}, got {str(file)!r}")
    if not file.parent.is_dir():
        raise InputError(f"export {str(file)!r} cannot be written: there is no folder {str(file.parent)!r}")


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """CSV with the keys of the first row as its header; what is None stays empty."""
    with replaced(file) as temporary, temporary.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def write_geojson(file: Path, collection: Mapping[str, Any]) -> None:
    with replaced(file) as temporary:
        temporary.write_text(json.dumps(plain(collection), allow_nan=False) + "\n", encoding="utf-8")


def write_toml(file: Path, tables: Mapping[str, Any]) -> None:
    with replaced(file) as temporary:
        temporary.write_text(tomli_w.dumps(tables), encoding="utf-8")
