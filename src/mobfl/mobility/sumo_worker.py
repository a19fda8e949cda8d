"""The child process that holds SUMO: reads a job from its argument, writes progress and crossings as JSON lines."""

import json
import sys
from itertools import compress
from typing import Any

import libsumo
import numpy as np

from mobfl.mobility.sections import Edge, Sample, Tracker, parse_section
from mobfl.mobility.tracks import TrackKeeper

_Places = dict[str, tuple[float, float]]

_REPORT_EVERY = 200  # steps


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    libsumo.start(
        [
            "sumo", "-c", job["config"], "--step-length", str(job["step_s"]), "--seed", str(job["seed"]),
            "--no-step-log", "true", "--no-warnings", "true", "--duration-log.disable", "true",
        ]
    )  # fmt: skip
    try:
        counted_from = libsumo.simulation.getTime() + job["warmup_s"]
        keeper = TrackKeeper() if job["tracks"] else None
        tracker = Tracker(parse_section(job["section"]), keeper=keeper)
        _follow(tracker, job["step_s"], job["duration_s"])
    finally:
        libsumo.close()
    counted = [row[1] >= counted_from for row in tracker.crossings]
    if keeper is not None:
        np.savez(job["tracks"], **vars(keeper.tracks().take(np.array(counted, bool))))
    print("\n" + json.dumps({"rows": list(compress(tracker.crossings, counted))}), flush=True)


def _follow(tracker: Tracker, step_s: float, duration_s: float | None) -> None:
    section = tracker.section
    start = libsumo.simulation.getTime()
    end = libsumo.simulation.getEndTime() if duration_s is None else start + duration_s
    step, places = 0, _Places()
    while libsumo.simulation.getMinExpectedNumber() > 0:
        now = libsumo.simulation.getTime()
        if 0 <= end <= now:
            break
        libsumo.simulationStep()
        step += 1
        # SUMO's own files label the state after a step with the time before it, and so do we.
        seen = _on_edge(section, tracker, now, step_s, places) if isinstance(section, Edge) else _everywhere(now)
        for vehicle in [vehicle for vehicle in tracker.last if vehicle not in seen]:
            tracker.lose(vehicle)
        for vehicle, sample in seen.items():
            tracker.see(vehicle, sample)
        if step % _REPORT_EVERY == 0 and end > start:
            print(json.dumps({"share": (now - start) / (end - start)}), flush=True)
        if tracker.keeper is not None and isinstance(section, Edge):
            places = {name: libsumo.vehicle.getPosition(name) for name in libsumo.vehicle.getIDList()}
    tracker.finish()


def _everywhere(now: float) -> dict[str, Sample]:
    vehicle = libsumo.vehicle
    return {name: Sample(now, *vehicle.getPosition(name)) for name in vehicle.getIDList()}


def _on_edge(section: Edge, tracker: Tracker, now: float, step_s: float, places: _Places) -> dict[str, Sample]:
    """Those on the edge and those who were there a step ago; who comes onto it was elsewhere before.

    `places` are all vehicles' of a step ago, where tracks are kept.
    """
    vehicle = libsumo.vehicle
    there = set(libsumo.edge.getLastStepVehicleIDs(section.edge))
    departed = set(libsumo.simulation.getDepartedIDList())
    for name in there - tracker.last.keys() - departed:
        tracker.last[name] = Sample(now - step_s, *places.get(name, ()))
    arrived = set(libsumo.simulation.getArrivedIDList())
    just_left = {name for name, last in tracker.last.items() if last.edge == section.edge} - there - arrived
    found = dict[str, Sample]()
    for name in sorted(there | just_left):
        x, y = vehicle.getPosition(name) if tracker.keeper is not None else (np.nan, np.nan)
        along_m, speed_mps = vehicle.getLanePosition(name), vehicle.getSpeed(name)
        found[name] = Sample(now, x, y, vehicle.getRoadID(name), along_m, speed_mps)
    return found


main()
