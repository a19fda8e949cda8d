"""LaneGCN's forward pass by the fused layers; the reference is `lanegcn.LaneGCN`, whose parameters these are.

Channels are filled up with zeros to whole vectors. Zeros stay zeros: their weights are zero, and norms count channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mobfl.tasks.trajectories.batches import MOST_HOPS, Batch, Pairs
from mobfl.tasks.trajectories.fused.actor_net import actor_net
from mobfl.tasks.trajectories.fused.blocks import Part
from mobfl.tasks.trajectories.fused.lanes import lane_convolution
from mobfl.tasks.trajectories.fused.linear import Norm, linear, normed_linear, points
from mobfl.tasks.trajectories.fused.pairs import Parts, add_context
from mobfl.tasks.trajectories.fused.residual import normed_residual
from mobfl.tasks.trajectories.lane_graph import KINDS
from mobfl.tasks.vectors import LANES

if TYPE_CHECKING:
    from mobfl.tasks.trajectories.lanegcn import Attention, LaneConvolution, LaneGCN, NormedLinear


def actor_features(model: LaneGCN, batch: Batch) -> Tensor:
    """Of all actors, after all layers."""
    actors = actor_net(model.actor_net, batch.steps)
    nodes = map_features(model, batch, actors)
    for layer in model.map_to_actors.layers:
        actors = attention(layer, actors, nodes, batch.map_to_actors)
    for layer in model.actors_to_actors.layers:
        actors = attention(layer, actors, actors, batch.actors_to_actors)
    return actors[:, : model.meta.linear.out_features]


def map_features(model: LaneGCN, batch: Batch, actors: Tensor) -> Tensor:
    """Of the nodes that actors look at, after all layers of the map."""
    everything, layers = batch.blocks.within(MOST_HOPS), model.map_net
    places = _point_net(layers.place, batch.nodes), _point_net(layers.shape, batch.directions)
    nodes = functional.relu(places[0] + places[1], inplace=True)
    for layer in layers.convolutions.layers:
        nodes = _lane_convolution(layer, nodes, everything)
    nodes = _normed_linear(model.meta, nodes, batch.meta)
    for layer in model.actors_to_map.layers:
        nodes = attention(layer, nodes, actors, batch.actors_to_map)
    last = model.map_to_map.layers
    for hops, layer in zip(reversed(range(len(last))), last, strict=True):
        nodes = _lane_convolution(layer, nodes, batch.blocks.within(hops))
    return nodes[batch.looked_at]


def attention(layer: Attention | Any, lookers: Tensor, seen: Tensor, pairs: Pairs) -> Tensor:
    width = layer.width
    taken = linear(lookers, _filled(layer.own.weight))
    if len(pairs):
        by_distance, by_query, by_seen = (
            _filled(part).contiguous() for part in torch.split(layer.context.weight, width, dim=1)
        )
        asking = lookers if len(pairs.asking) == len(lookers) else lookers[pairs.asking]
        parts = Parts(
            _point_net(layer.distance, pairs.apart),
            linear(_normed_linear(layer.query, asking), by_query),
            linear(seen, by_seen),
        )
        norm, output = _norm(layer.context_norm), _filled(layer.context_output.weight)
        taken = add_context(taken, parts, by_distance, norm, output, width, pairs.sides)
    output, output_norm = _filled(layer.output.linear.weight), _norm(layer.output.norm)
    return normed_residual(taken, lookers, _norm(layer.norm), output, output_norm, width)


def filled_up(features: Tensor) -> Tensor:
    """With zeros up to whole vectors."""
    return functional.pad(features, (0, -features.shape[1] % LANES)).contiguous()


def _lane_convolution(layer: LaneConvolution | Any, nodes: Tensor, part: Part) -> Tensor:
    width = layer.width
    matrices = _filled(layer.matrices.weight.view(KINDS, width, width))
    output, output_norm = _filled(layer.output.linear.weight), _norm(layer.output.norm)
    return lane_convolution(nodes, matrices, _norm(layer.norm), output, output_norm, width, part)


def _point_net(net: nn.Sequential, places: Tensor) -> Tensor:
    layers: list[Any] = list(net)
    first, _, second = layers
    lacking = -len(first.weight) % LANES
    matrix, bias = functional.pad(first.weight, (0, 0, 0, lacking)), functional.pad(first.bias, (0, lacking))
    return _normed_linear(second, points(places, matrix, bias))


def _normed_linear(layer: NormedLinear, rows: Tensor, more: Tensor | None = None) -> Tensor:
    width = len(layer.linear.weight)
    matrix = _filled(layer.linear.weight[:, :width])
    if more is not None:
        matrix = torch.cat([matrix, functional.pad(layer.linear.weight[:, width:], (0, 0, 0, -width % LANES))], dim=1)
    return normed_linear(rows, matrix, _norm(layer.norm), width, layer.activated, more)


def _norm(norm: nn.LayerNorm) -> Norm:
    lacking = -len(norm.weight) % LANES
    return (
        (functional.pad(norm.weight, (0, lacking)), functional.pad(norm.bias, (0, lacking)))
        if lacking
        else (norm.weight, norm.bias)
    )


def _filled(matrix: Tensor) -> Tensor:
    """Square matrices, with zeros up to whole vectors both ways."""
    lacking = -matrix.shape[-1] % LANES
    return functional.pad(matrix, (0, lacking, 0, lacking)) if lacking else matrix
