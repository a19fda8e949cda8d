"""The child process that holds SUMO: reads a job from its argument, writes progress and crossings as JSON lines."""

import json
import sys
from typing import Any

import libsumo

from mobfl.mobility.sections import Edge, Sample, Section, Tracker, parse_section

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
        crossings = _follow(parse_section(job["section"]), job["step_s"], job["duration_s"])
    finally:
        libsumo.close()
    print("\n" + json.dumps({"rows": [row for row in crossings if row[1] >= counted_from]}), flush=True)


def _follow(section: Section, step_s: float, duration_s: float | None) -> list[tuple[Any, float, float]]:
    tracker = Tracker(section)
    start = libsumo.simulation.getTime()
    end = libsumo.simulation.getEndTime() if duration_s is None else start + duration_s
    step = 0
    while libsumo.simulation.getMinExpectedNumber() > 0:
        now = libsumo.simulation.getTime()
        if 0 <= end <= now:
            break
        libsumo.simulationStep()
        step += 1
        # SUMO's own files label the state after a step with the time before it, and so do we.
        seen = _on_edge(section, tracker, now, step_s) if isinstance(section, Edge) else _everywhere(now)
        for vehicle in [vehicle for vehicle in tracker.last if vehicle not in seen]:
            tracker.lose(vehicle)
        for vehicle, sample in seen.items():
            tracker.see(vehicle, sample)
        if step % _REPORT_EVERY == 0 and end > start:
            print(json.dumps({"share": (now - start) / (end - start)}), flush=True)
    tracker.finish()
    return tracker.crossings


def _everywhere(now: float) -> dict[str, Sample]:
    vehicle = libsumo.vehicle
    return {name: Sample(now, *vehicle.getPosition(name)) for name in vehicle.getIDList()}


def _on_edge(section: Edge, tracker: Tracker, now: float, step_s: float) -> dict[str, Sample]:
    """Those on the edge and those who were there a step ago; who comes onto it was elsewhere before."""
    vehicle = libsumo.vehicle
    there = set(libsumo.edge.getLastStepVehicleIDs(section.edge))
    departed = set(libsumo.simulation.getDepartedIDList())
    for name in there - tracker.last.keys() - departed:
        tracker.last[name] = Sample(now - step_s)
    arrived = set(libsumo.simulation.getArrivedIDList())
    just_left = {name for name, last in tracker.last.items() if last.edge == section.edge} - there - arrived
    return {
        name: Sample(
            now,
            edge=vehicle.getRoadID(name),
            along_m=vehicle.getLanePosition(name),
            speed_mps=vehicle.getSpeed(name),
        )
        for name in sorted(there | just_left)
    }


main()
