"""LaneGCN's kernels against PyTorch's autograd in double precision, layer by layer and as a whole."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mobfl.learning.torch_steps import prepare_cpu
from mobfl.tasks.trajectories.batches import MOST_HOPS, Batch, batch_of
from mobfl.tasks.trajectories.fused import network
from mobfl.tasks.trajectories.fused.actor_net import actor_net
from mobfl.tasks.trajectories.fused.blocks import BLOCK, Blocks, blocks_of
from mobfl.tasks.trajectories.fused.lanes import lane_convolution
from mobfl.tasks.trajectories.fused.linear import linear, normed_linear, points
from mobfl.tasks.trajectories.fused.pairs import Parts, add_context
from mobfl.tasks.trajectories.fused.residual import normed_residual
from mobfl.tasks.trajectories.lane_graph import KINDS, Relations
from mobfl.tasks.trajectories.lanegcn import LaneGCN
from mobfl.tasks.trajectories.loss import lanegcn_loss
from mobfl.tasks.trajectories.scenes import Scene, scene_of
from mobfl.tasks.trajectories.sources import Town

Function = Callable[..., Tensor]


def agree(ours: Function, exact: Function, *given: Tensor, rows: Any = slice(None)) -> None:
    """Outputs, and the gradients of a random sum of them in everything that is given; of these rows only."""
    single, double = (
        [each.clone().to(kind).requires_grad_() for each in given] for kind in (torch.float32, torch.float64)
    )
    found, true = ours(*single)[rows], exact(*double)[rows]
    weights = torch.randn(true.shape, generator=torch.Generator().manual_seed(9))
    assert (found - true).abs().max() < 2e-5 * (true.abs().max() + 1)
    gradients = (torch.autograd.grad((out * weights).sum(), into) for out, into in ((found, single), (true, double)))
    for one, other in zip(*gradients, strict=True):
        assert (one - other).abs().max() < 2e-5 * (other.abs().max() + 1)


def norm(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(rows, rows.shape[1:], weight, bias)


def residual(gathered: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
    weight, bias, matrix, output_weight, output_bias = parameters
    active = functional.relu(norm(gathered, weight, bias))
    return functional.relu(norm(active @ matrix.T, output_weight, output_bias) + given)


def draw(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


# Around a block's size, none at all, one.
@pytest.mark.parametrize("rows", [0, 1, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("width", [16, 48])
def test_layers_of_rows(rows: int, width: int) -> None:
    if rows == 0:
        assert linear(*draw(0, (0, width), (width, width))).shape == (0, width)
        return
    x, more, wide, square, weight, bias = draw(
        1, (rows, width), (rows, 4), (width, width + 4), (width, width), (width,), (width,)
    )
    agree(linear, lambda x, m: x @ m.T, x, square)
    for activated in (True, False):
        agree(
            lambda x, m, w, b, on=activated: normed_linear(x, m, (w, b), width, on, more),
            lambda x, m, w, b, on=activated: (functional.relu if on else lambda y: y)(
                norm(torch.cat([x, more.to(x.dtype)], dim=1) @ m.T, w, b)
            ),
            x, wide, weight, bias,
        )  # fmt: skip
    places, two = draw(2, (rows, 2), (width, 2))
    agree(lambda m, b: points(places, m, b), lambda m, b: functional.relu(places.to(m.dtype) @ m.T + b), two, bias)
    given, output_weight, output_bias = draw(3, (rows, width), (width,), (width,))
    agree(
        lambda g, x, w, b, m, ow, ob: normed_residual(g, x, (w, b), m, (ow, ob), width),
        residual,
        x, given, weight, bias, square, output_weight, output_bias,
    )  # fmt: skip


def random_blocks(seed: int, sizes: tuple[int, ...], most: int) -> Blocks:
    """Scenes of so many nodes, each taking in up to so many neighbours, some of them twice in one relation."""
    rng = np.random.default_rng(seed)
    relations, orders, hops = [], [], []
    for size in sizes:
        taken = [np.sort(rng.choice(size * KINDS, rng.integers(0, most + 1))) for _ in range(size)]
        taken = [each[np.argsort(each % KINDS, kind="stable")] for each in taken]
        starts = np.append(0, np.cumsum([len(each) for each in taken])).astype(np.int32)
        relations.append(Relations(starts, np.concatenate([np.empty(0, int), *taken]).astype(np.int32)))
        orders.append(rng.permutation(size)[: size - size // 10])
        hops.append(np.sort(rng.integers(0, 4, len(orders[-1]))).astype(np.int8))
    return blocks_of(relations, orders, np.concatenate(hops))


@pytest.mark.parametrize(("sizes", "most"), [((150, 1, 0, 70), 40), ((BLOCK, 2 * BLOCK), 3), ((5,), 0), ((300,), 90)])
@pytest.mark.parametrize("hops", [3, 1])
def test_lane_convolutions(sizes: tuple[int, ...], most: int, hops: int) -> None:
    """Of all nodes, and of those that a later layer reads; their neighbours are there, what else is there is NaN."""
    width, blocks = 16, random_blocks(len(sizes), sizes, most)
    part, nodes = blocks.within(hops), len(blocks.hops)
    who, kind, whom = (torch.from_numpy(each).long() for each in blocks.edges())
    computed = np.concatenate([np.arange(first, first + count) for first, count in zip(*part.spans, strict=True)])
    assert computed.tolist() == np.flatnonzero(blocks.hops <= hops).tolist()
    read = np.union1d(computed, whom[torch.isin(who, torch.from_numpy(computed))].numpy())

    def exact(x: Tensor, matrices: Tensor, *others: Tensor) -> Tensor:
        gathered = x @ matrices[0].T
        for k in range(1, KINDS):
            gathered = gathered.index_add(0, who[kind == k], x[whom[kind == k]] @ matrices[k].T)
        return residual(gathered, x, *others)

    def ours(x: Tensor, matrices: Tensor, *others: Tensor) -> Tensor:
        unread = torch.from_numpy(~np.isin(np.arange(nodes), read))[:, None]
        x = torch.where(unread, torch.full_like(x, torch.nan), x)
        weight, bias, matrix, output_weight, output_bias = others
        return lane_convolution(x, matrices, (weight, bias), matrix, (output_weight, output_bias), width, part)

    vectors, square = [(width,)] * 2, (width, width)
    given = draw(5, (nodes, width), (KINDS, *square), *vectors, square, *vectors)
    agree(ours, exact, *given, rows=torch.from_numpy(computed))


@pytest.mark.parametrize("pairs", [1, 64, 150])
def test_the_context_of_pairs(pairs: int) -> None:
    width, lookers, seen = 32, 9, 7
    rng = np.random.default_rng(pairs)
    who, whom = rng.integers(0, lookers, pairs), rng.integers(0, seen, pairs)
    asking, queries = np.unique(who, return_inverse=True)

    def exact(own: Tensor, distance: Tensor, query: Tensor, by_seen: Tensor, *rest: Tensor) -> Tensor:
        matrix, weight, bias, output = rest
        mixed = functional.relu(norm(distance @ matrix.T + query[queries] + by_seen[whom], weight, bias))
        return own.index_add(0, torch.from_numpy(who), mixed @ output.T)

    def fused(own: Tensor, distance: Tensor, query: Tensor, by_seen: Tensor, *rest: Tensor) -> Tensor:
        matrix, weight, bias, output = rest
        parts, sides = Parts(distance, query, by_seen), (who, queries, whom)
        return add_context(own.clone(), parts, matrix, (weight, bias), output, width, sides)  # which adds in place

    agree(
        fused,
        exact,
        *draw(6, (lookers, width), (pairs, width), (len(asking), width), (seen, width)),
        *draw(7, (width, width), (width,), (width,), (width, width)),
    )


# The whole network ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    prepare_cpu()
    town = Town(3, 0, 6)
    return [scene_of(*town.read(number)) for number in range(6)]


def doubled(batch: Batch) -> Batch:
    pairs = {
        name: replace(getattr(batch, name), apart=getattr(batch, name).apart.double())
        for name in ("actors_to_map", "map_to_actors", "actors_to_actors")
    }
    return replace(
        batch, **pairs, **{n: getattr(batch, n).double() for n in ("steps", "actors", "nodes", "directions", "meta")}
    )


@pytest.mark.parametrize("width", [8, 16, 32])
def test_the_network_of_actors(scenes: list[Scene], width: int) -> None:
    """Standing actors too, whose channels hardly differ; and channels that do not fill a vector."""
    torch.manual_seed(width)
    net, steps = LaneGCN(width).actor_net, batch_of(scenes).steps
    exact = copy.deepcopy(net).double()
    steps[0, :2] = 0.0
    found, true = actor_net(net, steps), exact(steps.double())
    assert (found[:, width:] == 0).all()
    assert (found[:, :width] - true).abs().max() < 1e-4
    weights = torch.randn(true.shape)
    (found[:, :width] * weights).sum().backward()
    (true * weights).sum().backward()
    for (name, one), other in zip(net.named_parameters(), exact.parameters(), strict=True):
        assert one.grad is not None, name
        assert other.grad is not None
        assert (one.grad - other.grad).abs().max() < 1e-3 * other.grad.abs().max() + 1e-5, name


@pytest.mark.parametrize("width", [12, 16, 32])
def test_the_whole_network(scenes: list[Scene], width: int) -> None:
    """Futures, scores and every parameter's gradient: within single precision of autograd in double."""
    torch.manual_seed(width)
    model, batch = LaneGCN(width), batch_of(scenes)
    exact = copy.deepcopy(model).double()
    for module, given in ((model, batch), (exact, doubled(batch))):
        futures, scores = module(given)
        loss = lanegcn_loss(futures, scores, given.future, given.seen)
        (loss + scores.square().sum() + futures.square().mean()).backward()
    for one, other in zip(model(batch), exact(doubled(batch)), strict=True):
        assert (one - other).abs().max() < 1e-4
    off = []
    for (name, one), other in zip(model.named_parameters(), exact.parameters(), strict=True):
        assert one.grad is not None, name
        assert other.grad is not None
        off.append(float((one.grad - other.grad).abs().max() / (other.grad.abs().max() + 1e-6)))
    assert max(off) < 0.02  # where a ReLU's input is zero but for rounding, it may be taken for the other side
    assert np.median(off) < 1e-4


def test_nodes_too_far_away_for_any_actor_change_nothing(scenes: list[Scene]) -> None:
    """Left out of the batch, against all of them in it by PyTorch's own operations."""
    torch.manual_seed(4)
    model = LaneGCN(16)
    few = [replace(each, map_to_actors=each.map_to_actors[:1]) for each in scenes[:3]]
    few = [replace(each, hops=each.relations.hops_from(each.map_to_actors[:, 1])) for each in few]
    batch = batch_of(few)
    assert len(batch.nodes) < sum(len(each.nodes) for each in few)
    everything = batch_of([replace(each, hops=np.minimum(each.hops, MOST_HOPS)) for each in few])
    assert len(everything.nodes) == sum(len(each.nodes) for each in few)
    assert torch.allclose(network.actor_features(model, batch), model.actor_features(everything), atol=1e-4)


def test_two_threads_and_two_runs_give_the_same_bytes(scenes: list[Scene]) -> None:
    torch.manual_seed(5)
    start = LaneGCN(16)

    def trained(seed: int) -> bytes:
        model, batch = copy.deepcopy(start), batch_of(scenes[seed : seed + 3])
        for _ in range(3):
            model.zero_grad()
            futures, scores = model(batch)
            lanegcn_loss(futures, scores, batch.future, batch.seen).backward()
        return b"".join(each.grad.numpy().tobytes() for each in model.parameters() if each.grad is not None)

    one_by_one = [trained(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(trained, range(3))) == one_by_one
    assert len(set(one_by_one)) == 3
