"""Files that somebody else made, read within stated bounds: what is small on disk stays small in memory."""

import gzip
import io
import os
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from mobfl.errors import InputError, brief, broken_line

# Traces shrink 5 to 40 times when they are packed; a file that was made to fill memory or time, up to 1,032 times.
MOST_UNPACKED_TIMES = 200
# What is so small when unpacked may have been packed as well as can be.
FREELY_UNPACKED_BYTES = 64 << 20
# The widest table that is known has 25 columns, a line of it about 200 characters.
MOST_LINE_CHARACTERS = 1 << 20
# A scenario, a sweep or a piece of a map: ten classes of vehicles with 10,000 measured steps each are 2 MiB.
MOST_TEXT_BYTES = 16 << 20

_CHUNK = 1 << 18


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """A file's bytes, those of a .gz unpacked; one that unpacks to very much is refused on the way."""
    with file.open("rb") as binary:
        if file.suffix != ".gz":
            yield binary
            return
        with io.BufferedReader(_Unpacked(file, binary), _CHUNK) as unpacked:
            yield unpacked


@contextmanager
def in_sentences(what: str, file: Path) -> Iterator[None]:
    """Whatever keeps a file's bytes from being read, said of what the file is: `trace`, `network`."""
    try:
        yield
    except OSError as error:  # Arrow's own have no errno, and go on over lines
        reason = error.strerror or next(iter(str(error).splitlines()), "")
        raise InputError(f"{what} {str(file)!r} cannot be read: {brief(reason)}") from None
    except (EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{what} {str(file)!r} must be complete text, got {error}") from None
    except MemoryError:
        raise InputError(f"{what} {str(file)!r} must fit into memory, got more than there is") from None


class _Unpacked(io.RawIOBase):
    """What gzip packed, as long as it is in proportion to what was read for it."""

    def __init__(self, file: Path, packed: BinaryIO) -> None:
        self._file, self._packed, self._gzip, self._bytes = file, packed, gzip.GzipFile(fileobj=packed), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._gzip.read(len(buffer))
        buffer[: len(found)] = found
        self._bytes += len(found)
        if self._bytes > FREELY_UNPACKED_BYTES + MOST_UNPACKED_TIMES * self._packed.tell():
            rule = f"must unpack to at most {MOST_UNPACKED_TIMES} times its size and {FREELY_UNPACKED_BYTES >> 20} MiB"
            raise InputError(f"{self._file} {rule}, got more")
        return len(found)


def lines_of(file: Path, binary: BinaryIO) -> Generator[str]:
    """Lines of UTF-8 with their ends, none longer than a table's line can be."""
    # What is between two line feeds, as in a file opened in binary mode: others are part of the line.
    text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="\n")
    try:
        for number, line in enumerate(iter(partial(text.readline, MOST_LINE_CHARACTERS + 1), ""), start=1):
            if len(line) > MOST_LINE_CHARACTERS:
                raise broken_line(file, number, f"lines of at most {MOST_LINE_CHARACTERS} characters", "a longer one")
            yield line
    finally:
        text.detach()  # whoever opened the bytes closes them


def is_there(path: Path) -> bool:
    """Whether there is a file or folder of that name; of a name that none can have, there is not."""
    return os.path.exists(path)  # noqa: PTH110, for Path.exists raises on a name that is too long


def read_text(file: Any, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """A small file's text, UTF-8 with or without its mark; ValueError if it is no such text or too long."""
    return read_bytes(file.open, most_bytes).decode("utf-8-sig")


def read_bytes(open_file: Callable[[str], Any], most_bytes: int) -> bytes:
    """All of a file, even of one that claims no size and never ends; ValueError if that is too much."""
    with open_file("rb") as binary:
        content: bytes = binary.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"more than {most_bytes >> 20} MiB")
    return content
