"""The tasks by their names. A task's libraries are loaded when it is asked for."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mobfl.errors import InputError, shown
from mobfl.learning.task import Task, TaskRequest
from mobfl.parts import Kind
from mobfl.scenario import Table
from mobfl.scenario.wording import mistakes

TASKS = Kind(
    "task",
    "tasks",
    ("local_steps",),
    {
        "beams": "mobfl.tasks.catalogue:beams",
        "trajectories": "mobfl.tasks.catalogue:trajectories",
        "images": "mobfl.tasks.catalogue:images",
    },
)


def build_task(name: str, request: TaskRequest | None = None) -> Task:
    """The task of this name on these data, or on generated ones.

    With more than one worker, processes prepare what is not prepared yet: the caller's module must then be importable.

    Args:
        name: One of ours, an installed package's, or `module:object`, which is a task or makes one.
        request: What it is built from; by default generated data and its usual options.
    """
    request = request or TaskRequest()
    if isinstance(request.data, str):
        request = replace(request, data=Path(request.data))
    wish = TASKS.parse(name)
    task: Task = TASKS.made(TASKS.find(wish.name), wish, request)
    if (code := TASKS.code(wish.name)) is not None:
        with suppress(AttributeError):  # a task that cannot be changed keeps its own record
            task.record = {**getattr(task, "record", {}), "code": code}
    return task


def beams(request: TaskRequest) -> Task:
    """Choose radio beams from what a laser scanner sees: Lidar2D on Raymobtime or a generated street."""
    from mobfl.tasks.beams.task import BeamOptions, beam_task

    return _built(BeamOptions, beam_task, request)


def trajectories(request: TaskRequest) -> Task:
    """Predict where others will drive: LaneGCN on Argoverse or in a generated town."""
    from mobfl.tasks.trajectories.task import TrajectoryOptions, trajectory_task

    return _built(TrajectoryOptions, trajectory_task, request)


def images(request: TaskRequest) -> Task:
    """Tell what a picture shows: a small CNN on CIFAR-10 or on generated pictures."""
    from mobfl.tasks.images.task import ImageOptions, image_task

    return _built(ImageOptions, image_task, request)


def _built(kind: type[Table], build: Callable[[Any, TaskRequest], Task], request: TaskRequest) -> Task:
    try:
        chosen = kind.model_validate(dict(request.options))
    except ValidationError as error:
        raise InputError(f"option {line}" for line in mistakes(error, kind.model_fields, {})) from None
    try:
        return build(chosen, request)
    except OSError as error:
        if request.data is None or not str(error.filename or "").startswith(str(request.data)):
            raise
        raise InputError(f"data {shown(str(request.data))} cannot be read: {error.strerror}") from None
