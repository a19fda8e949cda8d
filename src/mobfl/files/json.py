"""JSON on disk: written as a whole or not at all, and read with a sentence about what is wrong."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.files.atomic import replaced
from mobfl.files.bounds import read_bytes
from mobfl.files.regular import open_regular

_MOST_BYTES = 64 << 20  # a sweep of 10,000 runs has some MiB


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    with replaced(file) as temporary:
        temporary.write_text(json.dumps(plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(file: Path, what: str) -> dict[str, Any]:
    """The table in a file that makes its folder a `what`."""
    try:
        text = read_bytes(lambda _: open_regular(file), _MOST_BYTES).decode("utf-8-sig")
        content = json.loads(text)
    except FileNotFoundError:
        raise InputError(f"{file.parent} must be {what} with a {file.name}, got none") from None
    except RecursionError:
        raise InputError(f"{file} must be JSON, got tables within tables without end") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{file} must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{file} must hold a table, got {type(content).__name__}")
    return content


def plain(value: Any) -> Any:
    """As JSON can say it: what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
