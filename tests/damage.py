"""What can become of a run's files: cut, flipped, emptied, gone, something else than a file, or with wrong values.

Every damage is a name and a function that does it to a run's folder.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors", "timing.json")
Damage = tuple[str, Callable[[Path], None]]

_VALUES: dict[str, Any] = {
    "null": None, "true": True, "text": "x", "none": "", "minus": -1, "huge": 10**30, "float": 1.5, "e300": 1e300,
    "nan": float("nan"), "inf": float("inf"), "list": [1, "a"], "table": {"a": {"b": 1}}, "half": "\ud800",
}  # fmt: skip
_COLUMNS: dict[str, Callable[[int], Any]] = {
    "text": lambda n: pa.array(["x"] * n),
    "none": lambda n: pa.nulls(n),
    "gaps": lambda n: pa.array([None, *range(n - 1)], pa.int64()),
    "lists": lambda n: pa.array([[1]] * n),
    "flags": lambda n: pa.array([True] * n),
    "dates": lambda n: pa.array([0] * n, pa.timestamp("s")),
    "unsigned": lambda n: pa.array([2**64 - 1] * n, pa.uint64()),
    "nan": lambda n: pa.array([float("nan")] * n),
    "inf": lambda n: pa.array([float("inf")] * n),
    "decimal": lambda n: pa.array([1] * n, pa.decimal128(10, 2)),
    "bytes": lambda n: pa.array([b"\xff"] * n),
}


def all_damages(run: Path, seed: int = 0) -> Iterator[Damage]:
    draw = random.Random(seed)
    for name in FILES:
        yield from _to_bytes(name, (run / name).read_bytes(), draw)
        yield from _to_place(name)
    yield from _to_json(json.loads((run / "run.json").read_text()))
    for column in pq.read_schema(run / "rounds.parquet").names:
        yield f"rounds.parquet without {column}", partial(_without_column, column)
        for kind in _COLUMNS:
            yield f"rounds.parquet with {kind} in {column}", partial(_column, column, kind)


def _to_bytes(name: str, whole: bytes, draw: random.Random) -> Iterator[Damage]:
    telling = {0, 1, 4, 8, 9, len(whole) // 2, len(whole) - 1, len(whole) - 4, len(whole) - 8}
    for length in sorted(telling | {draw.randrange(len(whole)) for _ in range(8)}):
        yield f"{name} cut to {length}", partial(_write, name, whole[:length])
    for _ in range(25):
        at, bit = draw.randrange(len(whole)), draw.randrange(8)
        yield f"{name} with bit {bit} of {at} flipped", partial(_write, name, _flipped(whole, at, bit))
    yield f"{name} twice", partial(_write, name, whole * 2)
    yield f"{name} of zeros", partial(_write, name, bytes(len(whole)))
    yield f"{name} of noise", partial(_write, name, draw.randbytes(len(whole)))


def _flipped(whole: bytes, at: int, bit: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]


def _to_place(name: str) -> Iterator[Damage]:
    yield f"{name} gone", partial(_replace, name, lambda _: None)
    yield f"{name} a folder", partial(_replace, name, Path.mkdir)
    yield f"{name} a FIFO", partial(_replace, name, os.mkfifo)
    for target in ("/nowhere", "/dev/zero", "/dev/null", name, ".", "/proc/self/mem"):
        yield f"{name} a link to {target}", partial(_replace, name, partial(_link, target))
    for other in FILES:
        if other != name:
            yield f"{name} as {other}", partial(_copy, other, name)


def _to_json(run: dict[str, Any]) -> Iterator[Damage]:
    for path in _paths(run):
        yield f"run.json without {'.'.join(path)}", partial(_set, path, ...)
        for kind, value in _VALUES.items():
            if len(path) == 1 or kind in ("null", "text", "huge", "nan", "table"):
                yield f"run.json with {'.'.join(path)} {kind}", partial(_set, path, value)
    deep = b'{"a":' * 100_000
    yield "run.json without end", partial(_write, "run.json", deep)
    yield "run.json very deep", partial(_write, "run.json", deep + b"1" + b"}" * 100_000)
    yield "run.json in UTF-16", partial(_write, "run.json", json.dumps(run).encode("utf-16"))
    yield "run.json of 70 MiB", partial(_write, "run.json", b'{"a": "' + b"x" * (70 << 20) + b'"}')
    for kind, text in {"list": "[]", "number": "1e999", "text": '"x"', "null": "null", "nothing": "{}"}.items():
        yield f"run.json a {kind}", partial(_write, "run.json", text.encode())


def _paths(table: dict[str, Any], depth: int = 3) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        yield (key,)
        if isinstance(value, dict) and depth > 1:
            yield from ((key, *rest) for rest in _paths(value, depth - 1))


# ---- what does it -----------------------------------------------------------------------------------


def _write(name: str, content: bytes, run: Path) -> None:
    (run / name).write_bytes(content)


def _replace(name: str, make: Callable[[Path], object], run: Path) -> None:
    (run / name).unlink()
    make(run / name)


def _link(target: str, place: Path) -> None:
    place.symlink_to(target)


def _copy(other: str, name: str, run: Path) -> None:
    shutil.copyfile(run / other, run / name)


def _set(path: tuple[str, ...], value: Any, run: Path) -> None:
    content = json.loads((run / "run.json").read_text())
    table = content
    for key in path[:-1]:
        table = table[key]
    if value is ...:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    (run / "run.json").write_text(json.dumps(content))


def _without_column(column: str, run: Path) -> None:
    table = pq.read_table(run / "rounds.parquet", partitioning=None)
    pq.write_table(table.drop_columns([column]), run / "rounds.parquet")


def _column(column: str, kind: str, run: Path) -> None:
    table = pq.read_table(run / "rounds.parquet", partitioning=None)
    at, values = table.column_names.index(column), _COLUMNS[kind](len(table))
    pq.write_table(table.set_column(at, column, values), run / "rounds.parquet")
