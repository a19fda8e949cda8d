"""A deployment in one table, which travels in the Flower app's own configuration from the person to every machine."""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.planning.plans import Plan
from mobfl.runs.training import Job
from mobfl.scenario import Scenario
from mobfl.servers.names import resolve_plan
from mobfl.tasks.catalogue import build_task

CONFIG_KEY = "deployment"  # in the app's configuration


@dataclass(frozen=True)
class Deployment:
    """What is deployed; the scenario as nested tables, so that it can be told as JSON."""

    scenario: Mapping[str, Any]
    out: str  # the run's folder, on the base station
    task: str = "beams"
    options: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = None
    backend: str = "auto"
    device: str = "cpu"
    plan: str = "mobfl"
    seed: int = 0
    trace: str | None = None  # crossings, where vehicles are simulated
    scale: float | None = None  # wall-clock seconds per second of the road; None: as many as delays need
    impose: bool = False  # vehicles answer after the scenario's delays instead of as fast as they can
    lead_s: float = 0.0  # wall-clock time from being ready to the first round
    resume: bool = False

    def __post_init__(self) -> None:
        if self.scale is not None and not 0.1 <= self.scale <= 1000:
            raise InputError(f"--scale must be 0.1 to 1000 wall-clock seconds per second, got {self.scale:g}")
        if not 0 <= self.lead_s < math.inf:
            raise InputError(f"lead_s must be >= 0, got {self.lead_s:g}")

    @property
    def measures(self) -> bool:
        """Whether it must be known how long messages take, to plan for them or to stretch the road."""
        return not self.resume and (self.scale is None or not self.impose)

    @property
    def road(self) -> Scenario:
        return Scenario.from_dict(self.scenario)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Deployment":
        try:
            told = json.loads(text)
        except ValueError as error:
            raise InputError(f"{CONFIG_KEY} must be JSON, got {error}") from None
        known = {field.name for field in fields(cls)}
        if not isinstance(told, dict) or not {"scenario", "out"} <= told.keys() <= known:
            raise InputError(f"{CONFIG_KEY} must be a table with scenario, out and known keys, got {text[:80]!r}")
        return cls(**told)

    @classmethod
    def of_app(cls, folder: Path) -> "Deployment":
        """The one that a Flower app's folder is for."""
        file = folder / "pyproject.toml"
        try:
            config = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
            return cls.from_json(config[CONFIG_KEY])
        except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{folder} must be a folder that mobfl deploy --app wrote, got {error!r}") from None

    def build_task(self) -> Task:
        """The task of that name, or what the function `MODULE:FUNCTION` makes of the options."""
        module, colon, function = self.task.partition(":")
        if not colon:
            data = None if self.data is None else Path(self.data)
            scale = self.road.training.loss_scale
            return build_task(self.task, self.options, data, scale, self.backend, self.device)
        try:
            build = getattr(import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise InputError(f"--task {self.task} must name a function that can be imported: {error}") from None
        task: Task = build(**self.options)
        return task

    def job(self, task: Task, road: Scenario, crossings: Crossings | None = None) -> Job:
        """As for `mobfl train`; raises where no plan is possible on this road."""
        plan = resolve_plan(self.plan, road, crossings)
        if isinstance(plan, Plan) and plan.reason is not None:
            raise InputError(f"no plan is possible: {plan.reason}")
        return Job(task, road, plan, self.seed, crossings, None if self.trace is None else Path(self.trace).name)
