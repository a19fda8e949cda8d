"""Scenes side by side: one batch as flat tensors, and the tables of who takes from whom.

Nodes stand in the order of their hops, so that those which a layer must still compute are the first ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl.tasks.trajectories.lane_graph import KINDS, Relations
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
    hops: Tensor  # (N,), ascending
    relations: Table  # rows and sources: nodes; kinds: relations, the node's own first
    actors_to_map: Pairs
    map_to_actors: Pairs
    actors_to_actors: Pairs

    def nodes_within(self, hops: int) -> int:
        """How many; they are the first ones."""
        return int(torch.searchsorted(self.hops, hops, right=True))

    def to(self, device: torch.device) -> "Batch":
        return self if device.type == "cpu" else Batch(*(getattr(self, name).to(device) for name in _FIELDS))


_FIELDS = tuple(Batch.__dataclass_fields__)


@dataclass(frozen=True)
class _Rows:
    """Where the rows of scenes stand in a batch: row r of scene s at places[starts[s] + r]."""

    starts: NDArray[np.int32]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, scene_rows: Iterable[NDArray[Any]], order: NDArray[np.int64] | None = None) -> "_Rows":
        starts = np.append(0, np.cumsum([len(rows) for rows in scene_rows])).astype(np.int32)
        places = np.arange(starts[-1], dtype=np.int32)
        return cls(starts, places if order is None else places[np.argsort(order)])

    def renumbered(self, scene_rows: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
        return self.places[np.concatenate([rows + start for rows, start in zip(scene_rows, self.starts, strict=False)])]


def batch_of(scenes: Sequence[Scene]) -> Batch:
    by_hops = np.argsort(np.concatenate([scene.hops for scene in scenes]), kind="stable")
    actors = _Rows.of(scene.actors for scene in scenes)
    nodes = _Rows.of((scene.nodes for scene in scenes), by_hops)

    def of_actors(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(scene, name) for scene in scenes]))

    def of_nodes(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(scene, name) for scene in scenes])[by_hops])

    def pairs(name: str, lookers: _Rows, seen: _Rows) -> Pairs:
        sides = (
            rows.renumbered(getattr(scene, name)[:, side] for scene in scenes)
            for side, rows in enumerate((lookers, seen))
        )
        return Pairs.of(np.stack(list(sides), axis=1), len(lookers.places), len(seen.places))

    return Batch(
        steps=of_actors("steps").transpose(1, 2).contiguous(),
        actors=of_actors("actors"),
        future=of_actors("future"),
        seen=of_actors("seen"),
        agents=torch.from_numpy(actors.starts[:-1].astype(np.int64)),
        nodes=of_nodes("nodes"),
        directions=of_nodes("directions"),
        meta=of_nodes("meta").float(),
        hops=of_nodes("hops"),
        relations=_relations(scenes, nodes.starts, by_hops),
        actors_to_map=pairs("actors_to_map", nodes, actors),
        map_to_actors=pairs("map_to_actors", actors, nodes),
        actors_to_actors=pairs("actors_to_actors", actors, actors),
    )


def _relations(scenes: Sequence[Scene], node_starts: NDArray[np.int32], order: NDArray[np.int64]) -> Table:
    starts, columns, taken = [np.zeros(1, np.int32)], [], 0
    for scene, first in zip(scenes, node_starts[:-1], strict=True):
        starts.append(scene.relations.starts[1:] + np.int32(taken))
        columns.append(scene.relations.taken + np.int32(first * KINDS))
        taken += len(columns[-1])
    ordered = Relations(np.concatenate(starts), np.concatenate(columns)).among(order)
    return Table.of(ordered.starts, ordered.taken, len(order), KINDS)
