"""Files that are there as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".part"


def remove_parts(folder: Path) -> None:
    """Removes what processes that were killed while writing have left."""
    for file in folder.glob(f".*{PART}"):
        with suppress(OSError):  # such as a folder of that name, which is not ours
            file.unlink()


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """A temporary name beside `file`; what was written there becomes `file` at once, or vanishes on an error.

    Content and name are on the disk when this ends: of two files written one after the other, the second is never
    there without the first, even if the power fails.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}{PART}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
        _sync_names(file.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_names(folder: Path) -> None:
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
