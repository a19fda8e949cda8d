"""A deployment in one table, which travels in the Flower app's own configuration from the person to every machine."""

import json
import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.rules import Chain
from mobfl.learning.task import Task, TaskRequest
from mobfl.mobility.crossings import Crossings
from mobfl.runs.job import Job
from mobfl.scenario import Scenario
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
    vehicles: int | None = None  # and how many at a time at most
    scale: float | None = None  # wall-clock seconds per second of the road; None: as many as delays need
    impose: bool = False  # vehicles answer after the scenario's delays instead of as fast as they can
    lead_s: float = 0.0  # wall-clock time from being ready to the first round
    resume: bool = False
    rule: str | None = None
    local: str | None = None
    codec: str | None = None
    home: str | None = None  # the folder where the command was given

    def __post_init__(self) -> None:
        if self.scale is not None and not 0.1 <= self.scale <= 1000:
            raise InputError(f"scale must be 0.1 to 1000 wall-clock seconds per second, got {self.scale:g}")
        if not 0 <= self.lead_s < math.inf:
            raise InputError(f"lead_s must be >= 0, got {self.lead_s:g}")

    @property
    def measures(self) -> bool:
        """Whether it must be known how long messages take, to plan for them or to stretch the road."""
        return not self.resume and (self.scale is None or not self.impose)

    @property
    def built_scenario(self) -> Scenario:
        return Scenario.from_dict(self.scenario)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Deployment":
        try:
            table = json.loads(text)
        except ValueError as error:
            raise InputError(f"{CONFIG_KEY} must be JSON, got {error}") from None
        known = {field.name for field in fields(cls)}
        if not isinstance(table, dict) or not {"scenario", "out"} <= table.keys() <= known:
            raise InputError(f"{CONFIG_KEY} must be a table with scenario, out and known keys, got {text[:80]!r}")
        return cls(**table)

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
        """The task of that name; one of somebody's own is looked for where the command was given, too."""
        self.enter_home()
        data = None if self.data is None else Path(self.data)
        scale = self.built_scenario.training.loss_scale
        return build_task(self.task, TaskRequest(self.options, data, scale, self.backend, self.device))

    def enter_home(self) -> None:
        """Parts of one's own lie in the folder where the command was given."""
        if self.home is not None and self.home not in sys.path and Path(self.home).is_dir():
            sys.path.insert(0, self.home)

    def job(self, task: Task, scenario: Scenario, crossings: Crossings | None = None) -> Job:
        """As for `mobfl train`; raises where no plan is possible on this road."""
        self.enter_home()
        trace = None if self.trace is None else Path(self.trace).name
        return Job(task, scenario, self.plan, self.seed, crossings, trace, self.rule, self.local, self.codec)

    def vehicle_job(self, task: Task) -> Job:
        """What a vehicle must know of it: how to train, and how uploads travel."""
        return self.job(task, self.built_scenario)


def refuse_along(rule: Chain) -> None:
    """Orders and answers carry a model and nothing beside it."""
    if rule.along is not None:
        raise InputError(
            f"rule {rule} sends arrays along with the model, which is for simulation only: deploy another rule"
        )
