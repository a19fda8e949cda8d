"""What a base station goes by, once it is known how long messages take: the road, the plan, and the scale of time."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mobfl.deploy.settings import Deployment, refuse_along
from mobfl.deploy.station.measuring import RoundTrips
from mobfl.errors import InputError
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.rounds.orders import Policy
from mobfl.runs import folder as run_folder
from mobfl.runs.job import Job, check_job
from mobfl.servers.rounds import deployable, knowable
from mobfl.theory import min_delay_s

# Download and upload are constants of a plan. Who takes longer is lost, who takes less only waits: so the plan is made
# for what three of four messages take at most, and imposed delays leave room for nine of ten.
_PLANNED, _IMPOSED = 0.75, 0.9
_ROOM = 1.3  # messages take longer when many vehicles are there


@dataclass(frozen=True)
class Settled:
    """A deployment's job and scale, and how run.json describes it."""

    job: Job
    scale: float
    description: Mapping[str, Any]  # the part that does not change

    @property
    def policy(self) -> Policy:
        return policy_of(self.job)

    @property
    def round_trip_s(self) -> float:
        """The wall-clock time of order and answer as it was measured, 0 if it was not."""
        return float(self.description["deployment"]["round_trip_s"] or 0.0)


def policy_of(job: Job) -> Policy:
    """What gives the rounds their H and T."""
    return deployable(job.server.schedule)


def settle(
    deployment: Deployment, task: Task, crossings: Crossings | None, measure: Callable[[], RoundTrips]
) -> Settled:
    """A new deployment is measured where that matters; a resumed one keeps what was settled."""
    scale, round_trip_s, trips = deployment.scale, None, None
    if deployment.resume:
        scale, round_trip_s, trips = _settled_before(Path(deployment.out), task)
    elif deployment.measures:
        measured = measure()
        round_trip_s, trips = measured.quantile_s(_IMPOSED if deployment.impose else _PLANNED), measured.describe()
    job = _job(deployment, task, crossings, scale, round_trip_s)
    if scale is None:
        scale = _needed_scale(job, round_trip_s) if deployment.impose and round_trip_s is not None else 1.0
    settled = {"scale": scale, "round_trip_s": round_trip_s, "round_trips": trips, "impose": deployment.impose}
    described = job.describe()
    described["versions"] |= {"flwr": version("flwr")}
    return Settled(job, scale, described | {"deployment": settled})


def _settled_before(out: Path, task: Task) -> tuple[float, float | None, Mapping[str, Any] | None]:
    before = run_folder.read_run(out, [kpi.name for kpi in task.kpis]).get("deployment")
    if not isinstance(before, dict) or not {"scale", "round_trip_s"} <= before.keys():
        raise InputError(f"out {out} must hold a deployment to resume, got another run")
    return float(before["scale"]), before["round_trip_s"], before.get("round_trips")


def _job(
    deployment: Deployment, task: Task, crossings: Crossings | None, scale: float | None, round_trip_s: float | None
) -> Job:
    """Where delays are real, what messages take is the time of download and upload."""
    scenario = deployment.built_scenario
    if round_trip_s is not None and not deployment.impose:
        half_s = round_trip_s / (scale or 1.0) / 2
        scenario = scenario.with_values({"link.download_s": half_s, "link.upload_s": half_s})
    job = deployment.job(task, scenario, crossings)
    knowable(policy_of(job), deployment.impose)
    refuse_along(job.server.rule)
    check_job(job)
    return job


def _needed_scale(job: Job, round_trip_s: float) -> float:
    least = policy_of(job).next_order(None).fixed_steps or 1
    return stretched(round_trip_s, float(min_delay_s(job.road, least)))


def stretched(round_trip_s: float, shortest_s: float) -> float:
    """Wall-clock seconds per second such that delays of the road leave time for messages; in tenths, at least 1."""
    return max(1.0, math.ceil(10 * _ROOM * round_trip_s / shortest_s) / 10)
