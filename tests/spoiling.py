"""Files spoilt on purpose: what is valid, with something wrong in its bytes, its words, its columns or its arrays.

python tests/spoiling.py 130      # so many of every kind, and what came of them
"""

import gzip
import json
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from safetensors import SafetensorError

from mobfl import InputError
from small_files import KINDS, Kind, archive, packed_text, raw, table, tensors, text

_HANGS_S = 60
_MEMORY_BYTES = 2 << 30

NUMBERS = (
    "nan", "-inf", "1e400", "-1", "0",
    "-0.0", "5e-324", "1e-320", "1e12", "1e300", "-1e300", "0x" + "f" * 5000, "9" * 5000,
    "1_0", "١٢", " 7 ", "", "1e", "٣.٥", "9223372036854775808", "0.1.2", "--1", "true", "1979-05-27T07:32:00Z", "inf",
)  # fmt: skip
WORDS = (
    "", "x" * 300, "y" * 200_000, "\0", "\ud800", "\n", '"', "'", ",", ";", "<", "&", "&#0;", "&lol;", "]]>", "\ufeff",
    "../../etc/passwd", "{}", "[]", "[" * 3000, "{a=" * 500, "null", "NaN", "😀", "%s", "=", "\r", "\x85", "a\0b",
)  # fmt: skip
ENCODINGS = ("utf-16", "utf-32", "utf-7", "latin-1", "cp037", "utf-8-sig")
XML_ENCODINGS = ("utf-16", "utf-7", "hex", "no-such", "cp037", "shift_jis", "idna", "ascii", "utf-8\0", "")
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 2**70, 10**400, 1e300, -1e300, float("nan"), float("inf"), "", "x", "x" * 300, [], {},
    [[]], {"a": 1}, [1, "a"], 5e-324,
)  # fmt: skip


# ---- what is wrong with bytes and words -----------------------------------------------------------


def _flip(draw: random.Random, content: bytes) -> bytes:
    spoilt = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
    return bytes(spoilt)


def _cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content))]


def _piece(draw: random.Random, content: bytes) -> tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice((1, 4, 30, 300)))


def _lose(draw: random.Random, content: bytes) -> bytes:
    start, end = _piece(draw, content)
    return content[:start] + content[end:]


def _double(draw: random.Random, content: bytes) -> bytes:
    start, end = _piece(draw, content)
    return content[:end] + draw.choice((1, 50)) * content[start:end] + content[end:]


def _blot(draw: random.Random, content: bytes) -> bytes:
    start, end = _piece(draw, content)
    return content[:start] + draw.choice((b"\0", b"\xff", b"\x80")) * (end - start) + content[end:]


def _nothing(draw: random.Random, _: bytes) -> bytes:
    return draw.choice(
        (b"", b"\0" * 100, b"\n" * 100, b"\xef\xbb\xbf", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"<", b"{")
    )


BYTES = (_flip, _cut, _lose, _double, _blot, _nothing)


def _replaced(draw: random.Random, content: str, pattern: str, choices: tuple[str, ...]) -> str:
    places = [found.span() for found in re.finditer(pattern, content)]
    start, end = draw.choice(places) if places else (0, 0)
    return content[:start] + draw.choice(choices) + content[end:]


def _odd_number(draw: random.Random, content: str) -> str:
    return _replaced(draw, content, r"-?\d+(\.\d+)?", NUMBERS)


def _odd_word(draw: random.Random, content: str) -> str:
    return _replaced(draw, content, r"\w+", WORDS)


def _other_word(draw: random.Random, content: str) -> str:
    return _replaced(draw, content, r"\w+", (*re.findall(r"\w+", content), "other"))


def _other_lines(draw: random.Random, content: str) -> str:
    lines = content.splitlines(keepends=True) or [""]
    at, change = draw.randrange(len(lines)), draw.randrange(4)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(draw.randrange(1 + len(lines)), lines[at])
    elif change == 2:
        draw.shuffle(lines)
    else:
        lines[at] = lines[at].rstrip("\n") + draw.choice(("\r", "\r\n", ",", "\t", "\n\n", '"')) + "\n"
    return "".join(lines)


def _encoding(draw: random.Random, content: str) -> str:
    return re.sub(r'encoding="[^"]*"', f'encoding="{draw.choice(XML_ENCODINGS)}"', content, count=1)


TEXTS = (_odd_number, _odd_number, _odd_word, _odd_word, _other_word, _other_lines, _encoding)


def _json_value(draw: random.Random, content: str) -> str:
    """Another value somewhere in JSON."""
    whole = json.loads(content)
    at: Any = whole
    while True:
        key = draw.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.3:
            break
        at = at[key]
    at[key] = draw.choice(VALUES)
    return json.dumps(whole)


# ---- what is wrong with columns and arrays --------------------------------------------------------

ARROW_TYPES = (
    pyarrow.timestamp("us", "Nowhere/Atlantis"), pyarrow.timestamp("ns", "Europe/Rome"), pyarrow.timestamp("s"),
    pyarrow.date32(), pyarrow.date64(), pyarrow.time64("ns"), pyarrow.duration("us"), pyarrow.float16(),
    pyarrow.bool_(), pyarrow.decimal128(38, 4), pyarrow.int8(), pyarrow.uint64(), pyarrow.binary(), pyarrow.null(),
    pyarrow.large_string(),
    pyarrow.list_(pyarrow.float64()), pyarrow.struct([("a", pyarrow.int64())]), pyarrow.string(),
    pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), pyarrow.binary(4),
)  # fmt: skip


def _column(draw: random.Random, count: int) -> Any:
    """A column of some type, with values that fit it."""
    kind = draw.choice(ARROW_TYPES)
    for values in ([draw.choice((2**62, -(2**62), 0, 5))] * count, ["x" * draw.choice((0, 3, 999))] * count):
        try:
            column = pyarrow.array(values).cast(kind)
        except (pyarrow.ArrowException, ValueError):
            continue
        return column
    return pyarrow.nulls(count, kind)


def _odd_column(draw: random.Random, columns: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(columns))
    return {**columns, name: _column(draw, len(columns[name]))}


def _odd_cell(draw: random.Random, columns: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(columns))
    values = list(columns[name])
    odd = (
        ["", None, "x" * 300, "a\0"]
        if isinstance(values[0], str)
        else [None, *map(float, ("nan", "inf", "1e300", "-1"))]
    )
    values[draw.randrange(len(values))] = draw.choice(odd)
    return {**columns, name: values}


def _without(draw: random.Random, columns: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(columns))
    return {key: value for key, value in columns.items() if key != name}


def _renamed(draw: random.Random, columns: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(columns))
    return {draw.choice((*WORDS[:2], "x", name.upper())) if key == name else key: columns[key] for key in columns}


def _no_rows(_: random.Random, columns: dict[str, Any]) -> dict[str, Any]:
    return {name: values[:0] for name, values in columns.items()}


TABLES = (_odd_column, _odd_column, _odd_column, _odd_cell, _odd_cell, _without, _renamed, _no_rows)
ARRAY_KINDS = ("i1", "u8", "f2", "f4", ">f8", "c16", "?", "U3", "S2", "M8[s]", "m8[ns]")


def _odd_array(draw: random.Random, arrays: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(arrays))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {**arrays, name: arrays[name].astype(draw.choice(ARRAY_KINDS))}


def _odd_shape(draw: random.Random, arrays: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(arrays))
    array = arrays[name]
    shapes = (array.T, array[:0], array[:1], array.reshape(-1), array[None], array[..., :1], np.array(3), array[::-1])
    return {**arrays, name: draw.choice(shapes)}


def _odd_element(draw: random.Random, arrays: dict[str, Any]) -> dict[str, Any]:
    name = draw.choice(list(arrays))
    array = arrays[name].astype(float)
    array.flat[draw.randrange(array.size)] = draw.choice((np.nan, np.inf, 1e300, -1e300, -1, 2, 1e9, 5e-324))
    return {**arrays, name: array}


def _objects(draw: random.Random, arrays: dict[str, Any]) -> dict[str, Any]:
    return {**arrays, draw.choice(list(arrays)): np.array([None, {}], dtype=object)}


ARRAYS = (_odd_array, _odd_shape, _odd_element, _odd_element, _without, _objects)
CHANGES: dict[Callable[..., bytes], tuple[Callable[[random.Random, Any], Any], ...]] = {
    text: TEXTS, packed_text: TEXTS, table: TABLES, archive: ARRAYS, tensors: ARRAYS[:4], raw: ARRAYS[:3]
}  # fmt: skip


# ---- a spoilt file, and what comes of it ----------------------------------------------------------


def spoilt(draw: random.Random, kind: Kind) -> bytes:
    """A valid file with one or two things wrong, inside of what it holds or in its bytes."""
    if draw.random() < 0.3:
        return draw.choice(BYTES)(draw, kind.pack(kind.content))
    changes = CHANGES[kind.pack] + ((_json_value,) * 5 if kind.name.endswith(".json") else ())
    content = draw.choice(changes)(draw, kind.content)
    if isinstance(content, str) and draw.random() < 0.3:
        content = draw.choice(TEXTS)(draw, content)
    if isinstance(content, str) and draw.random() < 0.05:
        encoded = content.encode(draw.choice(ENCODINGS), "replace")
        return gzip.compress(encoded) if kind.pack is packed_text else encoded
    try:
        return kind.pack(content)
    except (ValueError, TypeError, KeyError, pyarrow.ArrowException, SafetensorError):  # what cannot even be written
        return draw.choice(BYTES)(draw, kind.pack(kind.content))


@contextmanager
def no_hanging() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"not read within {_HANGS_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(kind: Kind, content: bytes, folder: Path) -> str:
    """`value` or `sentence`; anything else that comes of reading is raised, a warning, too."""
    for name, other in kind.beside:
        (folder / name).write_bytes(other)
    file = folder / kind.name
    file.write_bytes(content)
    try:
        with no_hanging(), warnings.catch_warnings():
            warnings.simplefilter("error")
            kind.read(file)
    except InputError as error:
        _check_sentences(error, kind)
        return "sentence"
    return "value"


def _check_sentences(error: InputError, kind: Kind) -> None:
    assert error.lines
    for line in error.lines:
        assert line.strip(), "an empty sentence"
        assert len(line) < 2000, f"a sentence of {len(line)} characters: {line[:200]}"
        assert "fit into memory" not in line, line
        assert kind.name in line or not kind.names_file, f"no file in: {line}"


def main(each: int) -> None:
    """Spoils so many of every kind, with little memory, and prints what came of them."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY_BYTES,) * 2)
    counts, faults = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS.values():
            for seed in range(each):
                content = spoilt(random.Random(f"{kind.name} {seed}"), kind)
                try:
                    counts[outcome(kind, content, Path(folder))] += 1
                except Exception as error:  # everything else is what is looked for
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    fault = (
                        f"{kind.name} {seed}: {type(error).__name__}: {str(error)[:200]} ({where.name}, {where.lineno})"
                    )
                    faults.append(fault)
    print(json.dumps({"files": each * len(KINDS), **counts, "faults": faults}, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]))
