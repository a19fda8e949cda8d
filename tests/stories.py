"""Roads, traffic and short ways for stories with a few vehicles."""

from typing import Any

from fake_task import CountingTask
from mobfl import Crossings, Job, Scenario
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.loop import Learnt, fresh_start, learn

# No jitter: a vehicle needs 1 + 3 · 0.2 + 1 = 2.6 s for H = 3.
STEADY = Scenario.from_dict(
    {
        "compute": {"extra_step_s": 0.0},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 15.0},
    }
)
BUSY = Scenario.from_dict(
    {
        "traffic": {"arrivals_per_s": 0.3},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 200.0},
    }
)


def crossings(*rows: tuple[str, float, float]) -> Crossings:
    """Those of the story between one that has left at 0 and one that enters at 20."""
    return Crossings.sorted(*zip(("first", -1.0, 0.0), *rows, ("last", 20.0, 30.0), strict=True))


STORY = crossings(("a", 0.5, 9.0), ("b", 1.0, 3.0), ("c", 4.0, 12.0))


def story(plan: Any, scenario: Scenario = STEADY, traffic: Crossings | None = STORY, **parts: Any) -> list[Learnt]:
    """What is learnt on the story's traffic by a task that counts."""
    return run(Job(CountingTask(), scenario, plan, 7, traffic, **parts))


def run(
    job: Job, workers: int = 1, begun: Checkpoint | None = None, scores: dict[str, float] | None = None
) -> list[Learnt]:
    start, initial = fresh_start(job.task, job.seed)
    return list(learn(job, begun or start, scores or initial, workers))


def columns(learnt: list[Learnt], *names: str) -> list[tuple[float, ...]]:
    return [tuple(round(each.row[name], 9) for name in names) for each in learnt]
