"""XML as a stream of elements, without anything that a stranger's file could use against us."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from mobfl.errors import InputError, broken_line

_CHUNK = 1 << 20
# A tag, comment or text in one piece, which the parser keeps until it is complete. SUMO's longest tags have some 2,000.
MOST_TAG_BYTES = 1 << 20
# Elements within each other, which the parser keeps, too. SUMO and Argoverse nest 4 deep.
MOST_DEPTH = 1000

Element = tuple[int, str, dict[str, str]]  # its line, name and attributes


def xml_elements(file: Path, binary: BinaryIO) -> Iterator[Element]:
    """Every element as the file is read. A DOCTYPE, which may define entities that expand without end, is refused."""

    def refuse(*_: object) -> None:
        raise broken_line(file, parser.CurrentLineNumber, "elements only", "a DOCTYPE")

    parser, found, ended = expat.ParserCreate(), list[Element](), list[str]()
    parser.StartElementHandler = lambda name, values: found.append((parser.CurrentLineNumber, name, values))
    parser.EndElementHandler = ended.append
    parser.StartDoctypeDeclHandler = refuse
    read = depth = 0
    try:
        while chunk := binary.read(_CHUNK):
            parser.Parse(chunk, False)
            read, depth = read + len(chunk), depth + len(found) - len(ended)
            _check(file, parser, read, depth)
            yield from found
            found.clear()
            ended.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        fault = expat.errors.messages.get(error.code, str(error))
        raise broken_line(file, error.lineno, "complete XML", fault) from None
    except InputError:
        raise
    except (LookupError, ValueError) as error:  # of Python's decoders, which help where the parser knows no encoding
        raise broken_line(file, 1, "an encoding that XML may have", error) from None
    yield from found


Tags = tuple[list[list[str]], list[tuple[int, list[str]]]]


class OtherTagError(Exception):
    """A tag that was not expected."""


def xml_tags(file: Path, binary: BinaryIO, row: str, mark: str, others: Collection[str]) -> Iterator[Tags]:
    """The attributes of all `row` tags, and those of `mark` with how many rows came before; quick, without lines.

    Attributes come as they stand: names and values in turn. OtherTagError for what is neither, nor among the others.
    """
    parser, rows, marks, ended = expat.ParserCreate(), list[list[str]](), list[tuple[int, list[str]]](), list[str]()
    found = depth = 0

    def start(name: str, values: list[str]) -> None:
        nonlocal found
        found += 1
        if name == row:
            rows.append(values)
        elif name == mark:
            marks.append((len(rows), values))
        elif name not in others:
            raise OtherTagError(name)

    def refuse(*_: object) -> None:
        raise OtherTagError("DOCTYPE")

    parser.ordered_attributes, parser.StartElementHandler = True, start
    parser.EndElementHandler, parser.StartDoctypeDeclHandler = ended.append, refuse
    read = 0
    try:
        while chunk := binary.read(_CHUNK):
            parser.Parse(chunk, False)
            read, depth = read + len(chunk), depth + found - len(ended)
            _check(file, parser, read, depth)
            yield rows, marks
            rows, marks, found = [], [], 0
            ended.clear()
        parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise OtherTagError(str(error)) from None
    yield rows, marks


def _check(file: Path, parser: expat.XMLParserType, read: int, depth: int) -> None:
    if read - parser.CurrentByteIndex > MOST_TAG_BYTES:
        rule = f"tags and comments of at most {MOST_TAG_BYTES} bytes"
        raise broken_line(file, parser.CurrentLineNumber, rule, "a longer one")
    if depth > MOST_DEPTH:
        raise broken_line(file, parser.CurrentLineNumber, f"at most {MOST_DEPTH} elements within each other", depth)
