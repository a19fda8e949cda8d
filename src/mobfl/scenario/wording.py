"""What is wrong with an input as a sentence: which field or line, which rule, which value."""

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mobfl.errors import brief, shown

_RULES = {
    "greater_than": "> {gt:g}",
    "greater_than_equal": ">= {ge:g}",
    "less_than": "< {lt:g}",
    "less_than_equal": "<= {le:g}",
    "finite_number": "finite",
    "float_type": "a number",
    "int_type": "a whole number",
    "count_or_range": "a whole number > 0 or a pair [least, most] of these",
    "step_samples": "a list of 1 to 10000 numbers of seconds, each > 0 and <= 1e6",
    "tuple_type": "a list of tables",
    "too_long": "a list of at most {max_length} tables",
    "missing": "given",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "size": "<= {most:g}",
    "least": ">= {least:g}",
    "literal_error": "one of {expected}",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def broken_rule(field: str, rule: str, value: Any, reason: str | None = None) -> str:
    """`road.length_m must be > 0, got -5.0`."""
    return f"{field} must be {rule}, got {shown(value)}" + (f": {reason}" if reason else "")


def unknown_key(key: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known key, if one is near."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    return f"{brief(key)} is not a known key" + (f", did you mean {near[0]}?" if near else "")


def mistakes(error: ValidationError, known: Iterable[str], reasons: dict[str, str]) -> list[str]:
    """A line per finding; `reasons` explains the rules of some fields."""
    return [
        _line(finding, list(known), reasons)
        for finding in error.errors(include_url=False)
        if finding["type"] != "default_factory_not_called"  # it only follows from another finding
    ]


def _line(finding: ErrorDetails, known: list[str], reasons: dict[str, str]) -> str:
    field = ".".join(map(str, finding["loc"]))
    context = finding.get("ctx", {})
    match finding["type"]:
        case "extra_forbidden":
            return unknown_key(field, known)
        case "value_error":  # raised by our own validators, as a whole sentence
            return str(context["error"])
        case kind if kind in _RULES:
            return broken_rule(field, _RULES[kind].format(**context), finding["input"], reasons.get(field))
        case _:
            return f"{field}: {finding['msg']}, got {shown(finding['input'])}"
