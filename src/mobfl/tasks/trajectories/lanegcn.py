"""LaneGCN (Liang et al., "Learning Lane Graph Representations for Motion Forecasting", ECCV 2020).

Everything of a batch lies flat, scene after scene, so there is no loop over scenes, and a scene without pairs cannot
shift the indices of another. Normalisation is over the channels of one actor or node (GroupNorm with one group; over
rows that is LayerNorm, which is faster), so scenes do not see each other.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from mobfl.tasks.trajectories.batches import Batch, Pairs
from mobfl.tasks.trajectories.fused import network as fused
from mobfl.tasks.trajectories.lane_graph import KINDS, META
from mobfl.tasks.trajectories.recordings import PREDICTED

Edges = tuple[Tensor, Tensor, Tensor]  # who takes in, in which relation, whom

MODES = 6
PUBLISHED_WIDTH = 128
_FUSED_LAYERS, _ATTENTION_LAYERS = 4, 2


class NormedLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int, activated: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.LayerNorm(outputs)
        self.activated = activated

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.linear(x))
        return functional.relu(x) if self.activated else x


class ResidualLinear(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = NormedLinear(width, width), NormedLinear(width, width, activated=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(self.first(x)) + x)


class NormedConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1, activated: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, size, stride, padding=(size - 1) // 2, bias=False)
        self.norm = nn.GroupNorm(1, outputs)
        self.activated = activated

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return functional.relu(x) if self.activated else x


class ResidualConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = NormedConv(inputs, outputs, stride=stride)
        self.second = NormedConv(outputs, outputs, activated=False)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else NormedConv(inputs, outputs, 1, stride, activated=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(self.first(x)) + self.shortcut(x))


class ActorNet(nn.Module):
    """An actor's 20 steps to one feature vector: residual convolutions over time, and a feature pyramid."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width // 4, width // 2, width]
        inputs = [3, *widths[:-1]]
        self.groups = nn.ModuleList(
            nn.Sequential(ResidualConv(before, after, stride=1 if level == 0 else 2), ResidualConv(after, after))
            for level, (before, after) in enumerate(zip(inputs, widths, strict=True))
        )
        self.lateral = nn.ModuleList(NormedConv(each, width, activated=False) for each in widths)
        self.output = ResidualConv(width, width)

    def forward(self, steps: Tensor) -> Tensor:
        levels = []
        for group in self.groups:
            steps = group(steps)  # (A, width/4, 20), (A, width/2, 10), (A, width, 5)
            levels.append(steps)
        out = self.lateral[-1](levels[-1])
        for lateral, level in zip(self.lateral[-2::-1], levels[-2::-1], strict=True):
            out = functional.interpolate(out, scale_factor=2, mode="linear", align_corners=False) + lateral(level)
        return self.output(out)[:, :, -1]


class LaneConvolution(nn.Module):
    """A node's own features and those of its neighbours in every relation, each through its own matrix."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.matrices = nn.Linear(width, KINDS * width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.output = NormedLinear(width, width, activated=False)
        self.width = width

    def forward(self, nodes: Tensor, edges: Edges) -> Tensor:
        who, kind, whom = edges
        own, *matrices = torch.split(self.matrices.weight, self.width)
        gathered = nodes @ own.T
        for number, matrix in enumerate(matrices, 1):
            mine = kind == number
            gathered = gathered.index_add(0, who[mine], nodes[whom[mine]] @ matrix.T)
        return functional.relu(self.output(functional.relu(self.norm(gathered))) + nodes)


class LaneConvolutions(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LaneConvolution(width) for _ in range(_FUSED_LAYERS))

    def forward(self, nodes: Tensor, edges: Edges) -> Tensor:
        for layer in self.layers:
            nodes = layer(nodes, edges)
        return nodes


class MapNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.place, self.shape = _point_net(width), _point_net(width)
        self.convolutions = LaneConvolutions(width)

    def forward(self, nodes: Tensor, directions: Tensor, edges: Edges) -> Tensor:
        return self.convolutions(functional.relu(self.place(nodes) + self.shape(directions)), edges)


def _point_net(width: int, activated: bool = False) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), NormedLinear(width, width, activated))


class Attention(nn.Module):
    """Who looks takes in what it sees of others within range."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.distance, self.query = _point_net(width, activated=True), NormedLinear(width, width)
        self.context, self.context_norm = nn.Linear(3 * width, width, bias=False), nn.LayerNorm(width)
        self.context_output = nn.Linear(width, width, bias=False)
        self.own, self.norm = nn.Linear(width, width, bias=False), nn.LayerNorm(width)
        self.output = NormedLinear(width, width, activated=False)
        self.width = width

    def forward(self, lookers: Tensor, seen: Tensor, pairs: Pairs) -> Tensor:
        features = [self.distance(pairs.apart), self.query(lookers)[pairs.lookers], seen[pairs.seen]]
        messages = self.context_output(functional.relu(self.context_norm(self.context(torch.cat(features, dim=1)))))
        taken = self.own(lookers).index_add(0, pairs.lookers, messages)
        return functional.relu(self.output(functional.relu(self.norm(taken))) + lookers)


class Attentions(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(width) for _ in range(_ATTENTION_LAYERS))

    def forward(self, lookers: Tensor, seen: Tensor, pairs: Pairs) -> Tensor:
        at_each_other = seen is lookers  # then a layer sees what the one before has made of them
        for layer in self.layers:
            lookers = layer(lookers, lookers if at_each_other else seen, pairs)
        return lookers


class Predictor(nn.Module):
    """Six futures of an actor, and a score for each that knows where it ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.futures = nn.ModuleList(
            nn.Sequential(ResidualLinear(width), nn.Linear(width, 2 * PREDICTED)) for _ in range(MODES)
        )
        self.end, self.end_mix = _point_net(width, activated=True), NormedLinear(2 * width, width)
        self.score = nn.Sequential(ResidualLinear(width), nn.Linear(width, 1))

    def forward(self, actors: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        moved = torch.stack([future(actors) for future in self.futures], dim=1).view(-1, MODES, PREDICTED, 2)
        futures = moved + at[:, None, None]
        ends = self.end(-moved[:, :, -1].detach().reshape(-1, 2))
        mixed = self.end_mix(torch.cat([ends, actors.repeat_interleave(MODES, dim=0)], dim=1))
        return futures, self.score(mixed).view(-1, MODES)


class LaneGCN(nn.Module):
    """Futures (A, 6, 30, 2) and scores (A, 6) of all actors of a batch; 3,701,161 parameters at width 128."""

    def __init__(self, width: int = PUBLISHED_WIDTH) -> None:
        super().__init__()
        self.actor_net, self.map_net = ActorNet(width), MapNet(width)
        self.meta = NormedLinear(width + META, width)
        self.actors_to_map, self.map_to_map = Attentions(width), LaneConvolutions(width)
        self.map_to_actors, self.actors_to_actors = Attentions(width), Attentions(width)
        self.predictor = Predictor(width)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if batch.nodes.device.type == "cpu" and self.meta.norm.weight.dtype == torch.float32:
            return self.predictor(fused.actor_features(self, batch), batch.actors)
        return self.predictor(self.actor_features(batch), batch.actors)

    def actor_features(self, batch: Batch) -> Tensor:
        """By PyTorch's own operations, on any device and in any precision: what the fused layers are held against."""
        actors, edges = self.actor_net(batch.steps), batch.edges()
        nodes = self.map_net(batch.nodes, batch.directions, edges)
        nodes = self.meta(torch.cat([nodes, batch.meta], dim=1))
        nodes = self.actors_to_map(nodes, actors, batch.actors_to_map)
        nodes = self.map_to_map(nodes, edges)[batch.looked_at]
        actors = self.map_to_actors(actors, nodes, batch.map_to_actors)
        return self.actors_to_actors(actors, actors, batch.actors_to_actors)
