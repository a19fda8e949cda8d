"""LaneGCN as one would port it straightforwardly to PyTorch: the peer of benchmarks and the oracle of a test.

A loop over scenes joins the graphs and finds the pairs of every attention in the forward pass; relations and pairs are
gathered and added with PyTorch's own indexing; features of a pair are joined and go through one matrix. The
parameters are those of `lanegcn.LaneGCN`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mobfl.tasks.trajectories.lane_graph import KINDS
from mobfl.tasks.trajectories.lanegcn import Attention, LaneConvolution, LaneConvolutions, LaneGCN
from mobfl.tasks.trajectories.scenes import ACTOR_TO_ACTOR_M, ACTOR_TO_MAP_M, MAP_TO_ACTOR_M, Scene

Edges = list[tuple[Tensor, Tensor]]  # per relation: who takes, from whom


def plain_forward(model: LaneGCN, scenes: Sequence[Scene]) -> tuple[Tensor, Tensor]:
    def joined(name: str) -> Tensor:
        return torch.cat([torch.from_numpy(np.array(getattr(scene, name))) for scene in scenes])

    actors_at, nodes_at = joined("actors"), joined("nodes")
    counts = [(len(scene.actors), len(scene.nodes)) for scene in scenes]
    edges = _joined_edges(scenes)
    actors = model.actor_net(joined("steps").transpose(1, 2))
    nodes = functional.relu(model.map_net.place(nodes_at) + model.map_net.shape(joined("directions")))
    nodes = _convolutions(model.map_net.convolutions, nodes, edges)
    nodes = model.meta(torch.cat([nodes, joined("meta").float()], dim=1))
    turned = [(n, a) for a, n in counts]
    for layer in model.actors_to_map.layers:
        nodes = _attention(layer, nodes, nodes_at, actors, actors_at, turned, ACTOR_TO_MAP_M)
    nodes = _convolutions(model.map_to_map, nodes, edges)
    for layer in model.map_to_actors.layers:
        actors = _attention(layer, actors, actors_at, nodes, nodes_at, counts, MAP_TO_ACTOR_M)
    same = [(a, a) for a, _ in counts]
    for layer in model.actors_to_actors.layers:
        actors = _attention(layer, actors, actors_at, actors, actors_at, same, ACTOR_TO_ACTOR_M)
    return model.predictor(actors, actors_at)


def _joined_edges(scenes: Sequence[Scene]) -> Edges:
    parts: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(KINDS)]
    first = 0
    for scene in scenes:
        taken = torch.from_numpy(np.array(scene.relations.taken)).long()
        who = torch.repeat_interleave(
            torch.arange(len(scene.nodes)), torch.from_numpy(np.diff(scene.relations.starts)).long()
        )
        for kind in range(1, KINDS):
            mine = taken % KINDS == kind
            parts[kind].append((who[mine] + first, taken[mine] // KINDS + first))
        first += len(scene.nodes)
    return [(torch.cat([a for a, _ in part]), torch.cat([b for _, b in part])) for part in parts[1:]]


def _convolutions(convolutions: LaneConvolutions, nodes: Tensor, edges: Edges) -> Tensor:
    for layer in convolutions.layers:
        nodes = _convolution(layer, nodes, edges)
    return nodes


def _convolution(layer: LaneConvolution | Any, nodes: Tensor, edges: Edges) -> Tensor:
    own, *matrices = torch.split(layer.matrices.weight, layer.width)
    gathered = nodes @ own.T
    for matrix, (who, whom) in zip(matrices, edges, strict=True):
        gathered = gathered.index_add(0, who, nodes[whom] @ matrix.T)
    return functional.relu(layer.output(functional.relu(layer.norm(gathered))) + nodes)


def _attention(
    layer: Attention | Any,
    lookers: Tensor,
    at: Tensor,
    seen: Tensor,
    seen_at: Tensor,
    counts: Sequence[tuple[int, int]],
    range_m: float,
) -> Tensor:
    whos, whoms = [], []
    first, seen_first = 0, 0
    for mine, theirs in counts:
        apart = at[first : first + mine, None] - seen_at[None, seen_first : seen_first + theirs]
        who, whom = torch.nonzero(apart.square().sum(dim=2) <= range_m**2, as_tuple=True)
        whos.append(who + first)
        whoms.append(whom + seen_first)
        first, seen_first = first + mine, seen_first + theirs
    who, whom = torch.cat(whos), torch.cat(whoms)
    features = [layer.distance(at[who] - seen_at[whom]), layer.query(lookers[who]), seen[whom]]
    messages = layer.context_output(functional.relu(layer.context_norm(layer.context(torch.cat(features, dim=1)))))
    taken = layer.own(lookers).index_add(0, who, messages)
    return functional.relu(layer.output(functional.relu(layer.norm(taken))) + lookers)
