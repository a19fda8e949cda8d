"""Serving a deployment: settle what it goes by, open the run, and run round after round over a grid."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flwr.serverapp import Grid

from mobfl.deploy.clock import Clock, WallClock
from mobfl.deploy.events import EVENTS, EventLog, read_events
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.answers import Fetch
from mobfl.deploy.station.base_station import BaseStation
from mobfl.deploy.station.keeping_up import KeepingUp
from mobfl.deploy.station.measuring import RoundTrips, measured_round_trips
from mobfl.deploy.station.round_loop import Agreement, RoundLoop
from mobfl.deploy.station.settling import Settled, settle
from mobfl.errors import InputError
from mobfl.learning.weights import Weights
from mobfl.mobility.crossings import Crossings
from mobfl.runs import folder as run_folder
from mobfl.runs.history import History, Row
from mobfl.runs.recording import Recording, begin, take_up

# Of the road's time at the start, when that is on the wall, and the scale.
MakeClock = Callable[[float, float, float], Clock]
Measure = Callable[[Grid, str, Weights, EventLog, Fetch | None], RoundTrips]


def serve(
    deployment: Deployment,
    grid: Grid,
    run: str,
    crossings: Crossings | None = None,
    make_clock: MakeClock = WallClock,
    measure: Measure = measured_round_trips,
    fetch: Fetch | None = None,
    progress: Callable[[Row], None] = lambda _: None,
) -> History:
    """Runs the deployment's rounds to the end of its training; `run` is what its messages are told apart by."""
    out, task = Path(deployment.out), deployment.build_task()
    run_folder.make(out)
    if not deployment.resume and (out / run_folder.RUN).exists():
        raise InputError(f"out {out} must be a new folder, got a run, which can be resumed")
    with run_folder.locked(out):
        log, model = EventLog(out / EVENTS), task.initial_weights(deployment.seed)
        settled = settle(deployment, task, crossings, partial(measure, grid, run, model, log, fetch))
        recording = (take_up if deployment.resume else begin)(settled.description, task, deployment.seed, out)
        if recording.status == "done":
            return recording.history
        station = BaseStation(settled, recording, log)
        there = station.remember(events := read_events(out))
        keeping_up = KeepingUp.of(deployment, settled.job, settled.scale)
        keeping_up.remember(recording.rows, events)
        clock = _announced(deployment, settled, station, recording, log, make_clock)
        loop = RoundLoop(grid, clock, run, log, Agreement.of(settled.job, settled.round_trip_s), there, fetch)
        _run_rounds(station, loop, recording, keeping_up, progress)
        return recording.history


def _announced(
    deployment: Deployment,
    settled: Settled,
    station: BaseStation,
    recording: Recording,
    log: EventLog,
    make_clock: MakeClock,
) -> Clock:
    """The clock of the rounds, after everybody was told when they begin."""
    recording.save("running", 1)
    begins_unix_s, start_s = time.time() + deployment.lead_s, station.next_start_s
    log.add("started", len(recording.rows), start_s, unix_s=begins_unix_s, scale=settled.scale)
    clock = make_clock(start_s, begins_unix_s, settled.scale)
    clock.wait(deployment.lead_s)
    return clock


def _run_rounds(
    station: BaseStation,
    loop: RoundLoop,
    recording: Recording,
    keeping_up: KeepingUp,
    progress: Callable[[Row], None],
) -> None:
    try:
        while (work := station.next_work()) is not None:
            seen = loop.run_round(work)
            row = station.finish(work, seen)
            keeping_up.add(row, seen.behind_s, seen.overshoot_s)
            recording.remarks, recording.notices = {"keeping_up": keeping_up.describe()}, keeping_up.notices()
            progress(row)
    except Exception as error:
        recording.save("failed", 1, str(error))
        raise
    station.close()
