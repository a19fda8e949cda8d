"""The tasks by their names. A task's libraries are loaded when it is asked for."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mobfl.errors import InputError, MissingExtraError
from mobfl.learning.task import Task
from mobfl.scenario import Table
from mobfl.scenario.wording import mistakes

Build = Callable[[Any, Path | None, str, str, str, Callable[[int], None], int], Task]


def _beams() -> tuple[type[Table], Build]:
    from mobfl.tasks.beams.task import BeamOptions, beam_task

    return BeamOptions, beam_task


def _trajectories() -> tuple[type[Table], Build]:
    if find_spec("torch") is None:
        raise MissingExtraError("the task trajectories", "torch")
    from mobfl.tasks.trajectories.task import TrajectoryOptions, trajectory_task

    return TrajectoryOptions, trajectory_task


_TASKS = {"beams": _beams, "trajectories": _trajectories}


def build_task(
    name: str,
    options: Mapping[str, Any],
    data: Path | None,
    loss_scale: str,
    backend: str = "auto",
    device: str = "cpu",
    progress: Callable[[int], None] = lambda _: None,
    workers: int = 1,
) -> Task:
    """The task of this name with its options, on these data or on generated ones.

    With more than one worker, processes prepare what is not prepared yet: the caller's module must then be importable.
    """
    if name not in _TASKS:
        raise InputError(f"TASK must be one of {', '.join(_TASKS)}, got {name!r}")
    kind, build = _TASKS[name]()
    try:
        chosen = kind.model_validate(dict(options))
    except ValidationError as error:
        raise InputError(f"--option {line}" for line in mistakes(error, kind.model_fields, {})) from None
    return build(chosen, data, loss_scale, backend, device, progress, workers)
