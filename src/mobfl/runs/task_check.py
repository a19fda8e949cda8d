"""Mistakes of a task, found before the first round and said in words."""

from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.task import Kpi, Pool, Task


def check_task(task: Task, seed: int) -> None:
    """Raises a sentence for what would otherwise end as a run in which nothing works."""
    name = getattr(task, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"a task must have a name, got {name!r}")
    for method in ("initial_weights", "local_steps", "evaluate"):
        if not callable(getattr(task, method, None)):
            raise InputError(f"task {name} must have the method {method}, got none")
    for attribute in ("kpis", "baselines", "record"):
        if not hasattr(task, attribute):
            raise InputError(f"task {name} must have {attribute}, which may be empty, got none")
    pool = getattr(task, "pool", None)
    if not isinstance(pool, Pool):
        raise InputError(f"task {name} must have a pool of training samples (mobfl.Pool), got {pool!r:.60}")
    _check_kpis(name, task.kpis)
    _check_weights(name, task.initial_weights(seed))


def _check_kpis(name: str, kpis: Any) -> None:
    if isinstance(kpis, str) or not all(isinstance(kpi, Kpi) for kpi in kpis):
        raise InputError(f"task {name} must list its KPIs as mobfl.Kpi, got {kpis!r:.80}")
    names = [kpi.name for kpi in kpis]
    if len(set(names)) < len(names) or "loss" in names:
        raise InputError(f"task {name} must give its KPIs different names, none of them loss, got {', '.join(names)}")
    if sum(kpi.leads for kpi in kpis) > 1:
        raise InputError(f"task {name} must have one KPI that leads, got {sum(kpi.leads for kpi in kpis)}")


def _check_weights(name: str, model: Any) -> None:
    if not model:
        raise InputError(f"task {name} must have a model with at least one parameter, got none")
    for key, values in model.items():
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        if kind != np.float32:
            raise InputError(f"task {name} must have weights that are arrays of float32, got {kind} for {key!r}")


def checked_scores(task: Task, scores: Any) -> dict[str, float]:
    """What a task says of a model, if it says all that it has promised."""
    wanted = ["loss", *(kpi.name for kpi in task.kpis)]
    missing = [name for name in wanted if not isinstance(scores, dict) or name not in scores]
    if missing:
        raise InputError(f"task {task.name} must score {', '.join(wanted)} when it evaluates, got no {missing[0]}")
    return {name: float(scores[name]) for name in wanted}
