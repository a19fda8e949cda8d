"""A deployment's folder written by hand, and one that simulation tells as a base station would."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mobfl import Crossings, Scenario
from mobfl.rounds.orders import AsManyAsFit, FixedPlan
from mobfl.rounds.rows import Outcome, Rounds
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.folder import write_rows, write_run
from mobfl.runs.history import History
from mobfl.theory import Delays

Line = dict[str, Any]


def line(kind: str, number: int, at_s: float, node: str = "", attempt: int = 0, **more: Any) -> Line:
    told = {"node": node, "vehicle": "", "attempt": attempt} if node else {}
    return {"kind": kind, "round": number, "at_s": at_s, **told, **more}


def write_deployment(
    folder: Path,
    scenario: Scenario,
    rows: Iterable[Mapping[str, Any]],
    lines: Iterable[Line],
    plan: Mapping[str, Any] | None = None,
    **deployment: Any,
) -> Path:
    """`rows` have start, end, H, present and uploads; lines are written as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    settled = {"scale": 1.0, "round_trip_s": None, "round_trips": None, "impose": False, **deployment}
    told = {"plan": plan or {"policy": "rounds"}, "scenario": scenario.to_dict(), "deployment": settled, "seed": 0}
    run = {**told, "initial": {"loss": 1.0}, "kpis": {}, "status": "done", "reason": None, "results": None}
    write_run(folder, run)
    numbered = [{"round": i, "rejected": 0, "loss": math.nan, **row} for i, row in enumerate(rows)]
    write_rows(folder, History.of_rows({"loss": 1.0}, numbered, ()))
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def simulated_deployment(
    folder: Path,
    scenario: Scenario,
    traffic: Crossings,
    plan: FixedPlan,
    seed: int,
    tells_steps: bool = True,
    start_s: float | None = None,
) -> Path:
    """What a base station would write of simulated rounds on this traffic, without running it."""
    delays, start_s = Delays.of(scenario), traffic.observed_s[0] if start_s is None else start_s
    blocks = list(simulate_rounds([traffic], plan, delays, seed, start_s=start_s))
    lines, rows = [line("started", 0, start_s, unix_s=0.0, scale=1.0)], list[Line]()
    for block in blocks:
        lines += _told(block, delays, traffic, tells_steps)
        rows += _rows(block, start_s)
    fits = isinstance(plan.local_steps, AsManyAsFit)
    told = {"policy": "anytime", **plan.local_steps.describe()} if isinstance(plan.local_steps, AsManyAsFit) else None
    return write_deployment(folder, scenario, rows, lines, told, impose=fits)


def _rows(block: Rounds, start_s: float) -> list[Line]:
    columns = (block.start_s - start_s, block.longest, block.present, block.uploads)
    fixed = None if isinstance(block.local_steps, AsManyAsFit) else block.local_steps
    return [
        {"start_s": s, "end_s": s + block.round_s, "local_steps": fixed or h, "present": p, "uploads": u}
        for s, h, p, u in zip(*(each.tolist() for each in columns), strict=True)
    ]


def _told(block: Rounds, delays: Delays, traffic: Crossings, tells_steps: bool) -> list[Line]:
    """In the order of time, a round after the other."""
    rows, lines = block.vehicles, list[Line]()
    assert rows is not None
    leave_s = dict(zip(traffic.vehicle.tolist(), traffic.leave_s.tolist(), strict=True))
    for k, number in enumerate(block.round.tolist()):
        end_s, mine = float(block.start_s[k]) + block.round_s, list[Line]()
        for i in np.flatnonzero(rows.round == number):
            node, attempt, begin_s = str(rows.vehicle[i]), int(rows.attempt[i]), float(rows.begin_s[i])
            mine.append(line("began", number, begin_s, node, attempt))
            compute_s = float(rows.compute_s[i])
            more: Line = {"compute_s": compute_s} if tells_steps else {}
            if isinstance(block.local_steps, AsManyAsFit):
                more["steps"] = int(rows.steps[i])
            if rows.outcome[i] == Outcome.UPLOADED:
                at_s = begin_s + float(delays.transfer_s) + compute_s
                mine.append(line("uploaded", number, min(at_s, end_s), node, attempt, **more))
            elif rows.outcome[i] == Outcome.SAT_OUT:
                mine.append(line("sat_out", number, begin_s, node, attempt))
            if leave_s[int(rows.vehicle[i])] < end_s:
                mine.append(line("left", number, leave_s[int(rows.vehicle[i])], node, attempt))
            elif rows.outcome[i] == Outcome.ROUND_OVER:
                mine.append(line("cut_off", number, end_s, node, attempt))
        lines += sorted(mine, key=lambda each: each["at_s"])
        lines.append(line("ended", number, end_s, overshoot_s=0.0))
    return lines
