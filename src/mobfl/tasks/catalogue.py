"""The tasks by their names."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mobfl.errors import InputError
from mobfl.learning.task import Task
from mobfl.tasks.beams.task import BeamOptions, beam_task
from mobfl.wording import mistakes

_TASKS = {"beams": (BeamOptions, beam_task)}


def build_task(
    name: str,
    options: Mapping[str, Any],
    data: Path | None,
    loss_scale: str,
    backend: str = "auto",
    device: str = "cpu",
    progress: Callable[[int], None] = lambda _: None,
) -> Task:
    """The task of this name with its options, on these data or on generated ones."""
    if name not in _TASKS:
        raise InputError(f"TASK must be one of {', '.join(_TASKS)}, got {name!r}")
    kind, build = _TASKS[name]
    try:
        chosen = kind.model_validate(dict(options))
    except ValidationError as error:
        raise InputError(f"--option {line}" for line in mistakes(error, kind.model_fields, {})) from None
    return build(chosen, data, loss_scale, backend, device, progress)
