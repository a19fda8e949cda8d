"""A file that was sent: read through one without a name, and with sentences that call it as the person does."""

import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mobfl.app.requests import megabytes
from mobfl.errors import InputError

MOST_BYTES = 32_000_000  # as it is sent, and as it is once unpacked
_KINDS = (".csv", ".txt", ".xml")


class Upload(NamedTuple):
    file: Path
    kind: str


def file_name(name: str) -> str:
    """Without folders, of whatever system."""
    return PurePosixPath(name.replace("\\", "/")).name


@contextmanager
def uploaded(content: bytes, name: str, most_unpacked: int = MOST_BYTES) -> Iterator[Upload]:
    """The content as a file that is gone afterwards; only the ending of its name is taken from outside."""
    plain_name = file_name(name)
    packed = plain_name.lower().endswith(".gz")
    kind = PurePosixPath(plain_name[:-3] if packed else plain_name).suffix.lower()
    if kind not in _KINDS:
        raise InputError(f"a trace must be a .csv, .txt or .xml file (.gz allowed), got {plain_name!r}")
    # A file without a name: it is gone with this process, however that ends.
    with tempfile.TemporaryFile() as unnamed:
        unnamed.write(_unpacked(content, most_unpacked) if packed else content)
        unnamed.seek(0)
        file = Path(f"/dev/fd/{unnamed.fileno()}")
        try:
            yield Upload(file, kind)
        except InputError as error:
            raise InputError(line.replace(str(file), plain_name) for line in error.lines) from None


def _unpacked(content: bytes, most: int) -> bytes:
    """What was packed by gzip; a little that unpacks to very much is refused on the way."""
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = unpacker.decompress(content, most + 1)
    except zlib.error as error:
        raise InputError(f"a .gz file must be packed by gzip, got {error}") from None
    if len(text) > most:
        raise InputError(f"a trace must be at most {megabytes(most)} when unpacked, got more")
    if not unpacker.eof:
        raise InputError("a .gz file must be complete, got only a part")
    return text
