"""What comes in from a browser: read within limits, and refused in a sentence."""

import json
from typing import Any, NoReturn

from starlette.exceptions import HTTPException
from starlette.requests import Request

from mobfl.errors import InputError

MOST_JSON_BYTES = 100_000


async def read_body(request: Request, most_bytes: int) -> bytes:
    """All of it, or 413 as soon as it is known to be more than that."""
    too_much = HTTPException(413, f"what is sent must be at most {most_bytes} bytes, got more")
    if int(request.headers.get("content-length", 0)) > most_bytes:  # a number, or the server has refused it
        raise too_much
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise too_much
        parts.append(part)
    return b"".join(parts)


async def read_table(request: Request) -> dict[str, Any]:
    """The JSON object in the body."""
    return table_from(await read_body(request, MOST_JSON_BYTES))


def table_from(text: bytes | str) -> dict[str, Any]:
    try:
        content = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"what is sent must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"what is sent must be a JSON object, got {type(content).__name__}")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant}, which is not a number of JSON")


def whole(table: dict[str, Any], name: str, least: int, most: int) -> int:
    value = table.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return value


def positive(table: dict[str, Any], name: str, most: float) -> float:
    value = table.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
        raise InputError(f"{name} must be a number > 0 and <= {most:g}, got {value!r}")
    return float(value)
