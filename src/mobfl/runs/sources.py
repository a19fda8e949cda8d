"""Which code made a run: a digest of the package's sources, for a version stays the same while they change."""

import hashlib
from functools import cache
from pathlib import Path

_DIGITS = 12
# What only shows results: a better page or figure does not make another run.
_SHOWING = ("app", "cli", "figures", "reports")


@cache
def code() -> str:
    return digest(Path(__file__).parents[1])


def digest(package: Path) -> str:
    """Of the names and contents of all modules that results depend on."""
    found = hashlib.blake2b(digest_size=_DIGITS // 2)
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(package)
        if place.parts[0] not in _SHOWING:
            content = file.read_bytes()
            found.update(f"{place.as_posix()} {len(content)} ".encode() + content)
    return found.hexdigest()
