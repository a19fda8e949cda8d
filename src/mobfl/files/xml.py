"""XML as a stream of elements, without anything that a stranger's file could use against us."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from mobfl.errors import broken_line

_CHUNK = 1 << 20

Element = tuple[int, str, dict[str, str]]  # its line, name and attributes


def xml_elements(file: Path, binary: BinaryIO) -> Iterator[Element]:
    """Every element as the file is read. A DOCTYPE, which may define entities that expand without end, is refused."""

    def refuse(*_: object) -> None:
        raise broken_line(file, parser.CurrentLineNumber, "elements only", "a DOCTYPE")

    parser, found = expat.ParserCreate(), list[Element]()
    parser.StartElementHandler = lambda name, values: found.append((parser.CurrentLineNumber, name, values))
    parser.StartDoctypeDeclHandler = refuse
    try:
        while chunk := binary.read(_CHUNK):
            parser.Parse(chunk, False)
            yield from found
            found.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise broken_line(file, error.lineno, "complete XML", expat.errors.messages[error.code]) from None
