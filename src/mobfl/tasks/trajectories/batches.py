"""Scenes side by side: one batch as flat tensors, and the tables of who takes from whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl.tasks.trajectories.lane_graph import KINDS
from mobfl.tasks.trajectories.scenes import Scene
from mobfl.tasks.trajectories.sums import Pairs, Table


@dataclass(frozen=True)
class Batch:
    steps: Tensor  # (A, 3, 20)
    actors: Tensor  # (A, 2)
    future: Tensor  # (A, 30, 2)
    seen: Tensor  # (A, 30)
    agents: Tensor  # (scenes,): which actors are the agents
    nodes: Tensor  # (N, 2)
    directions: Tensor  # (N, 2)
    meta: Tensor  # (N, 4)
    relations: Table  # rows: nodes; sources: node · 15 + relation, the node's own first
    actors_to_map: Pairs
    map_to_actors: Pairs
    actors_to_actors: Pairs

    def to(self, device: torch.device) -> "Batch":
        return self if device.type == "cpu" else Batch(*(getattr(self, name).to(device) for name in _FIELDS))


_FIELDS = tuple(Batch.__dataclass_fields__)


def batch_of(scenes: Sequence[Scene]) -> Batch:
    actor_starts, node_starts = (
        np.append(0, np.cumsum([len(getattr(scene, name)) for scene in scenes])) for name in ("actors", "nodes")
    )

    def joined(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(scene, name) for scene in scenes]))

    def pairs(name: str, lookers: NDArray[Any], seen: NDArray[Any]) -> Pairs:
        shifts = np.stack([lookers, seen], axis=1).astype(np.int32)
        rows = [getattr(scene, name) + shifts[i] for i, scene in enumerate(scenes)]
        return Pairs.of(np.concatenate(rows), int(lookers[-1]), int(seen[-1]))

    return Batch(
        steps=joined("steps").transpose(1, 2).contiguous(),
        actors=joined("actors"),
        future=joined("future"),
        seen=joined("seen"),
        agents=torch.from_numpy(actor_starts[:-1].astype(np.int64)),
        nodes=joined("nodes"),
        directions=joined("directions"),
        meta=joined("meta").float(),
        relations=_relations(scenes, node_starts),
        actors_to_map=pairs("actors_to_map", node_starts, actor_starts),
        map_to_actors=pairs("map_to_actors", actor_starts, node_starts),
        actors_to_actors=pairs("actors_to_actors", actor_starts, actor_starts),
    )


def _relations(scenes: Sequence[Scene], node_starts: NDArray[Any]) -> Table:
    starts, columns, taken = [np.zeros(1, np.int32)], [], 0
    for scene, first in zip(scenes, node_starts[:-1], strict=True):
        starts.append(scene.relations.starts[1:] + np.int32(taken))
        columns.append(scene.relations.taken + np.int32(first * KINDS))
        taken += len(columns[-1])
    return Table.of(np.concatenate(starts), np.concatenate(columns), int(node_starts[-1]) * KINDS)
