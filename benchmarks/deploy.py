"""What the base station of a deployment holds.

    python benchmarks/deploy.py --nodes 1000 --rounds 200          # the server alone, over a grid in this process
    python benchmarks/deploy.py --supernodes 4,8,16 --round 20     # with real vehicles on this machine
    python benchmarks/deploy.py --messages 100 --cpu 4,16 --least-round 1,2,3,4,5,6,8,10    # half an hour

The first: rounds of real Flower messages without transport, every node answering a little before the deadline or not at
all; how late rounds ended, and how memory grew. The second: for each number of vehicles three rounds in which all of
them upload; how many did, how late the rounds ended, and how long answers took. The third: Flower's own node against
`mobfl vehicle`, alternating; round trips of messages without work, SuperLink's processor time by the number of nodes,
and the least of some round lengths in which vehicles that stay for 20 s take part.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import latency
import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from mobfl import Scenario
from mobfl.deploy.clock import WallClock
from mobfl.deploy.events import EventLog, read_events
from mobfl.deploy.local.deployment import deploy_locally
from mobfl.deploy.local.fleet import Visit
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.messages import ANSWER, MODEL, ORDER
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.round_loop import Agreement, RoundLoop, RoundWork
from mobfl.learning.codecs.plain import Plain
from mobfl.learning.rules import merge, rule_named

PARAMETERS = 7462  # as many as the smaller Lidar2D has


class Node:
    """Answers with the model that it got, at its own share of the round; one in ten is too late."""

    def __init__(self, number: int, round_s: float) -> None:
        share = np.random.default_rng(number).uniform(0.2, 1.05)
        self._delay_s = float(share) * round_s

    def __call__(self, message: Message, now_s: float) -> tuple[Message, float]:
        order, told = message.content[ORDER], {"run": "benchmark", "samples": 64}
        answer = ConfigRecord({**told, "round": order["round"], "nonce": order["nonce"]})  # type: ignore[dict-item]
        content = RecordDict({MODEL: message.content[MODEL], ANSWER: answer})
        return Message(content, reply_to=message), now_s + self._delay_s


def memory_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmRSS:")[1].split()[0]) / 1024


def server_alone(nodes: int, rounds: int, round_s: float) -> None:
    clock = WallClock(0.0, time.time())
    grid = InProcessGrid([InProcessNode(i, -1.0, np.inf, Node(i, round_s)) for i in range(1, nodes + 1)], clock)
    model = {"w": np.zeros(PARAMETERS, np.float32)}
    overshoot_s, uploads, memory = list[float](), list[int](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        loop = RoundLoop(grid, clock, "benchmark", EventLog(Path(folder) / "events.jsonl"), Agreement(64, Plain()))
        for number in range(rounds):
            seen = loop.run_round(RoundWork(number, number * round_s, round_s, 24, 0.1, model))
            _, model, _ = merge(rule_named("mean"), {}, model, seen.uploads)  # type: ignore[assignment]
            overshoot_s.append(seen.overshoot_s)
            uploads.append(len(seen.uploads))
            memory.append(memory_mb())
    if not sum(uploads):
        raise SystemExit("no upload came: nothing was measured")
    print(f"{nodes} nodes, {rounds} rounds of {round_s:g} s: {np.mean(uploads):.0f} uploads per round")
    print(f"rounds ended late by: median {np.median(overshoot_s):.3f} s, most {max(overshoot_s):.3f} s")
    tenth = max(rounds // 10, 1)
    print(f"memory: {np.mean(memory[tenth : 2 * tenth]):.0f} MB early, {np.mean(memory[-tenth:]):.0f} MB at the end")
    print(f"processor time: {sum(resource.getrusage(resource.RUSAGE_SELF)[:2]):.0f} s")


def with_supernodes(counts: Sequence[int], round_s: float) -> None:
    road = Scenario.from_dict(
        {
            "link": {"download_s": 0.001, "upload_s": 0.001},
            "compute": {"min_step_s": 0.001, "extra_step_s": 0.0},
            "training": {"duration_s": 3 * round_s, "samples_per_vehicle": 64, "batch_size": 64},
        }
    )
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            deployment = Deployment(road.to_dict(), str(out), plan=f"1,{round_s:g}", scale=1.0, impose=True)
            visits = [Visit(-10.0, 4 * round_s, str(i), i, -10.0) for i in range(count)]
            deploy_locally(deployment, visits, workers=1)
            _tell(count, round_s, out)


def _tell(count: int, round_s: float, out: Path) -> None:
    events = read_events(out)
    began = {(event["round"], event["node"]): event["at_s"] for event in events if event["kind"] == "began"}
    took = [e["at_s"] - began[e["round"], e["node"]] for e in events if e["kind"] == "uploaded"]
    late = [event["overshoot_s"] for event in events if event["kind"] == "ended"]
    uploads = [event["uploads"] for event in events if event["kind"] == "ended"]
    told = {
        "supernodes": count,
        "round_s": round_s,
        "uploads": uploads,
        "answers_took_s": [round(float(q), 2) for q in np.quantile(took, [0.5, 0.9, 1.0])] if took else None,
        "rounds_ended_late_by_s": [round(value, 3) for value in late],
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--round", type=float, default=5.0, help="seconds")
    parser.add_argument("--supernodes", help="how many, one after the other: 4,8,16")
    parser.add_argument("--messages", type=int, default=0, help="round trips of each kind of node")
    parser.add_argument("--cpu", default="", help="numbers of nodes, one after the other: 4,16")
    parser.add_argument("--least-round", default="", help="round lengths, in seconds, rising: 1,2,4")
    given = parser.parse_args()
    if given.messages or given.cpu or given.least_round:
        latency.tell(
            given.messages,
            [int(count) for count in given.cpu.split(",") if count],
            [float(round_s) for round_s in given.least_round.split(",") if round_s],
        )
    elif given.supernodes:
        with_supernodes([int(count) for count in given.supernodes.split(",")], given.round)
    else:
        server_alone(given.nodes, given.rounds, given.round)
