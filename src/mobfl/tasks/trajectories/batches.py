"""Scenes side by side: one batch as flat tensors, and who takes from whom.

Nodes whose features cannot reach an actor are left out. The others stand scene by scene, in the order of their hops.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl.tasks.trajectories.fused.blocks import Blocks, blocks_of
from mobfl.tasks.trajectories.scenes import Scene

MOST_HOPS = 8  # layers of relations in LaneGCN: features from farther away reach nobody
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Who looks at whom. `asking` names those who look at anybody; `queries` is the place of a pair's looker there."""

    lookers: Tensor  # (P,)
    seen: Tensor  # (P,)
    apart: Tensor  # (P, 2): from whom is seen to who looks, in m
    asking: Tensor
    queries: Tensor  # (P,)

    @classmethod
    def of(cls, lookers: Integers, seen: Integers, apart: NDArray[np.float32], most: int) -> "Pairs":
        """Of lookers below `most`."""
        asks = np.zeros(most, bool)
        asks[lookers] = True
        queries = (np.cumsum(asks) - 1)[lookers]
        return cls(*map(torch.from_numpy, (lookers, seen, apart, np.flatnonzero(asks), queries)))

    def __len__(self) -> int:
        return len(self.lookers)

    @property
    def sides(self) -> tuple[Integers, Integers, Integers]:
        return self.lookers.numpy(), self.queries.numpy(), self.seen.numpy()

    def to(self, device: torch.device) -> "Pairs":
        return Pairs(*(getattr(self, name).to(device) for name in Pairs.__dataclass_fields__))


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
    looked_at: Tensor  # the nodes that actors look at, ascending
    actors_to_map: Pairs  # a node looks at an actor
    map_to_actors: Pairs  # an actor looks at one of `looked_at`
    actors_to_actors: Pairs
    blocks: Blocks  # relations of nodes

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """The relations as a list: who takes in, in which of them, whom."""
        who, kind, whom = (torch.from_numpy(each).long().to(self.nodes.device) for each in self.blocks.edges())
        return who, kind, whom

    def to(self, device: torch.device) -> "Batch":
        moved = {name: getattr(self, name).to(device) for name in Batch.__dataclass_fields__ if name != "blocks"}
        return replace(self, **moved)


@dataclass(frozen=True)
class _Nodes:
    """The nodes that are taken, scene by scene, and where each of a scene's nodes then stands: -1 for nowhere."""

    orders: list[Integers]
    places: list[Integers]

    @classmethod
    def of(cls, scenes: Sequence[Scene]) -> "_Nodes":
        orders, places, first = [], [], 0
        for scene in scenes:
            order = np.argsort(scene.hops, kind="stable")
            order = order[: np.searchsorted(scene.hops[order], MOST_HOPS, side="right")]
            place = np.full(len(scene.hops), -1)
            place[order] = np.arange(first, first + len(order))
            orders.append(order)
            places.append(place)
            first += len(order)
        return cls(orders, places)

    def taken(self, rows: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([row[order] for row, order in zip(rows, self.orders, strict=True)])


def batch_of(scenes: Sequence[Scene]) -> Batch:
    nodes = _Nodes.of(scenes)
    actors = _counted(len(scene.actors) for scene in scenes)
    hops = nodes.taken(scene.hops for scene in scenes)
    at, nodes_at = _joined(scene.actors for scene in scenes), nodes.taken(scene.nodes for scene in scenes)
    looked_at = np.flatnonzero(hops == 0)
    among_looked_at = np.cumsum(hops == 0) - 1

    def pairs(name: str, lookers: Sequence[Integers], seen: Sequence[Integers]) -> tuple[Integers, Integers]:
        found = [getattr(scene, name) for scene in scenes]
        who, whom = (
            np.concatenate([place[each[:, side]] for place, each in zip(places, found, strict=True)])
            for side, places in enumerate((lookers, seen))
        )
        return who[who >= 0], whom[who >= 0]

    to_map = pairs("actors_to_map", nodes.places, actors)
    to_actors = pairs("map_to_actors", actors, nodes.places)
    each_other = pairs("actors_to_actors", actors, actors)
    return Batch(
        steps=torch.from_numpy(_joined(scene.steps for scene in scenes)).transpose(1, 2).contiguous(),
        actors=torch.from_numpy(at),
        future=torch.from_numpy(_joined(scene.future for scene in scenes)),
        seen=torch.from_numpy(_joined(scene.seen for scene in scenes)),
        agents=torch.tensor([place[0] for place in actors]),
        nodes=torch.from_numpy(nodes_at),
        directions=torch.from_numpy(nodes.taken(scene.directions for scene in scenes)),
        meta=torch.from_numpy(nodes.taken(scene.meta for scene in scenes).astype(np.float32)),
        looked_at=torch.from_numpy(looked_at),
        actors_to_map=Pairs.of(*to_map, nodes_at[to_map[0]] - at[to_map[1]], len(nodes_at)),
        map_to_actors=Pairs.of(
            to_actors[0], among_looked_at[to_actors[1]], at[to_actors[0]] - nodes_at[to_actors[1]], len(at)
        ),
        actors_to_actors=Pairs.of(*each_other, at[each_other[0]] - at[each_other[1]], len(at)),
        blocks=blocks_of([scene.relations for scene in scenes], nodes.orders, hops),
    )


def _joined(rows: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.asarray(row) for row in rows])


def _counted(sizes: Iterable[int]) -> list[Integers]:
    """Numbers from 0 on, cut into pieces of these sizes."""
    ends = np.cumsum(list(sizes))
    return np.split(np.arange(ends[-1]), ends[:-1])
