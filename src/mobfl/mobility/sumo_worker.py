"""The child process that holds SUMO: reads a job from its argument, writes progress and crossings to a file.

What SUMO itself says stays on the standard output, between lines of JSON that tell how far it is.
"""

import json
import sys
from pathlib import Path
from typing import Any

import libsumo
import numpy as np

from mobfl.errors import InputError
from mobfl.mobility.clocks import Codes, Lanes
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.following import Follower
from mobfl.mobility.samples import ELSEWHERE, JUNCTION, Rows
from mobfl.mobility.sections import parse_section

_REPORT_EVERY = 200  # steps
_STEPS_AT_ONCE = 500
_Sample = tuple[int, float, float, float, int, float, float, int]


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    try:
        _simulate(job)
    except InputError as error:
        print("\n" + json.dumps({"refused": str(error)}), flush=True)


def _simulate(job: dict[str, Any]) -> None:
    libsumo.start(
        [
            "sumo", "-c", job["config"], "--step-length", str(job["step_s"]), "--seed", str(job["seed"]),
            "--no-step-log", "true", "--no-warnings", "true", "--duration-log.disable", "true",
        ]
    )  # fmt: skip
    try:
        counted_from = libsumo.simulation.getTime() + job["warmup_s"]
        sections = {str(i): parse_section(text) for i, text in enumerate(job["sections"])}
        lanes = Lanes(sections.values())
        follower = Follower(sections, Codes(), lanes, bool(job["tracks"]))
        _check_edges(lanes)
        _Watch(follower, job["step_s"], bool(job["tracks"])).follow(job["duration_s"])
    finally:
        libsumo.close()
    for name, crossings in follower.finish().items():
        _write(crossings.take(crossings.enter_s >= counted_from), Path(job["folder"]) / f"{name}.npz")


def _check_edges(lanes: Lanes) -> None:
    """Every edge of the network counts as seen, so that a wrong one is named with those that are like it."""
    lanes.seen.update(libsumo.edge.getIDList())
    lanes.check()


def _write(crossings: Crossings, file: Path) -> None:
    columns: dict[str, Any] = {} if crossings.tracks is None else dict(vars(crossings.tracks))
    columns |= {} if crossings.cut is None else {"cut": crossings.cut}
    columns |= {"vehicle": np.array([str(name) for name in crossings.vehicle], "U")}
    np.savez(file, enter_s=crossings.enter_s, leave_s=crossings.leave_s, **columns)


class _Watch:
    """Looks at the vehicles that sections may need, after every step."""

    def __init__(self, follower: Follower, step_s: float, keep_tracks: bool) -> None:
        self._follower, self._step_s, self._keep_tracks = follower, step_s, keep_tracks
        sections = follower.sections.values()
        self._edges = list(follower.lanes.watched)
        self._everywhere = not all(section.along_edges for section in sections)
        self._samples, self._followed, self._places = list[_Sample](), set[str](), dict[str, tuple[float, float]]()

    def follow(self, duration_s: float | None) -> None:
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
            self._look(now, step)
            if step % _STEPS_AT_ONCE == 0:
                self._hand_over()
            if step % _REPORT_EVERY == 0 and end > start:
                print(json.dumps({"share": (now - start) / (end - start)}), flush=True)
        self._hand_over()

    def _look(self, now: float, step: int) -> None:
        """At all vehicles if a section is told by places, else at those on the edges and those who just left them."""
        vehicle, nan = libsumo.vehicle, np.nan
        there = {name for edge in self._edges for name in libsumo.edge.getLastStepVehicleIDs(edge)}
        alive = set(vehicle.getIDList())
        # Who comes onto an edge was elsewhere before; who departed on it was not.
        came = set() if self._everywhere else there - self._followed - set(libsumo.simulation.getDepartedIDList())
        for name in sorted(came):
            x, y = self._places.get(name, (nan, nan))
            self._add(name, now - self._step_s, x, y, ELSEWHERE, nan, nan, step - 1)
        self._samples.append((-1, now, nan, nan, ELSEWHERE, nan, nan, step))
        along_edges, self._followed = (there | self._followed) & alive, there
        for name in vehicle.getIDList() if self._everywhere else sorted(along_edges):
            x, y = vehicle.getPosition(name) if self._everywhere or self._keep_tracks else (nan, nan)
            edge, along_m, speed_mps = ELSEWHERE, nan, nan
            if name in along_edges:
                edge = self._follower.lanes.of_edge(vehicle.getRoadID(name))
                along_m, speed_mps = vehicle.getLanePosition(name), vehicle.getSpeed(name)
            if edge == JUNCTION:  # which may be within a chain
                self._followed.add(name)
            self._add(name, now, x, y, edge, along_m, speed_mps, step)
        if self._keep_tracks and not self._everywhere:
            self._places = {name: vehicle.getPosition(name) for name in alive}

    def _add(self, name: str, *sample: Any) -> None:
        self._samples.append((self._follower.codes[name], *sample))

    def _hand_over(self) -> None:
        kinds = (np.int64, float, float, float, np.int64, float, float, np.int64)
        columns = zip(*self._samples, strict=True) if self._samples else [()] * len(kinds)
        self._follower.see(Rows(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True))))
        self._samples.clear()


main()
