"""Files that are there as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PART = ".part"


def remove_parts(folder: Path) -> None:
    """Removes what processes that were killed while writing have left."""
    for file in folder.glob(f".*{PART}"):
        file.unlink(missing_ok=True)


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """A temporary name beside `file`; what was written there becomes `file` at once, or vanishes on an error."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}{PART}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
