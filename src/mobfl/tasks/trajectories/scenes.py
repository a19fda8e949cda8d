"""A recording as LaneGCN sees it: in the agent's own frame, with all that does not change while it learns.

The frame's origin is the agent's last observed position, and the agent drives along its first axis (LaneGCN's
convention). Pairs of attention and relations of lanes are found once, here, not in every step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.trajectories.lane_graph import LaneGraph, Relations
from mobfl.tasks.trajectories.recordings import OBSERVED, Recording

RANGE_M = 100.0
ACTOR_TO_MAP_M, MAP_TO_ACTOR_M, ACTOR_TO_ACTOR_M = 7.0, 6.0, 100.0
MANOEUVRES = ("straight", "left", "right", "stationary")
_TURN_RAD, _STATIONARY_M = np.radians(20.0), 2.0

Floats = NDArray[np.float32]
Pairs = NDArray[np.int32]  # (P, 2): who looks, at whom; in the order of who looks


@dataclass(frozen=True)
class Scene:
    """A actors, the agent first, among N nodes of lanes; lengths in m, in the agent's frame."""

    steps: Floats  # (A, 20, 3): displacement from the step before, and 1 where seen
    actors: Floats  # (A, 2) at the last observed step
    future: Floats  # (A, 30, 2), 0 where not seen
    seen: NDArray[np.bool_]  # (A, 30)
    nodes: Floats  # (N, 2)
    directions: Floats  # (N, 2)
    meta: NDArray[np.int8]  # (N, 4)
    relations: Relations
    hops: NDArray[np.int8]  # (N,): in how many layers of relations a node's features reach one that an actor looks at
    actors_to_map: Pairs  # a node looks at an actor
    map_to_actors: Pairs  # an actor looks at a node
    actors_to_actors: Pairs
    origin: NDArray[np.float64]  # (2,) on the map
    rotation: NDArray[np.float64]  # (2, 2): frame = rotation · (map − origin)

    def to_map(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions of the frame on the map."""
        return positions @ self.rotation + self.origin


def scene_of(recording: Recording, graph: LaneGraph) -> Scene:
    origin, rotation = _frame(recording)
    placed = (recording.positions - origin) @ rotation.T
    placed = placed[_within_range(placed[:, OBSERVED - 1])]
    actors, future = placed[:, OBSERVED - 1].astype(np.float32), placed[:, OBSERVED:]
    chosen = graph.around(origin, rotation, RANGE_M)
    nodes = ((graph.centres[chosen] - origin) @ rotation.T).astype(np.float32)
    seen = np.asarray(np.isfinite(future).all(axis=2))
    relations, map_to_actors = graph.relations.among(chosen), pairs_within(actors, nodes, MAP_TO_ACTOR_M)
    return Scene(
        steps=_displacements(placed[:, :OBSERVED]),
        actors=actors,
        future=np.where(seen[..., None], future, 0.0).astype(np.float32),
        seen=seen,
        nodes=nodes,
        directions=(graph.directions[chosen] @ rotation.T).astype(np.float32),
        meta=graph.meta[chosen],
        relations=relations,
        hops=relations.hops_from(map_to_actors[:, 1]),
        actors_to_map=pairs_within(nodes, actors, ACTOR_TO_MAP_M),
        map_to_actors=map_to_actors,
        actors_to_actors=pairs_within(actors, actors, ACTOR_TO_ACTOR_M),
        origin=origin,
        rotation=rotation,
    )


def _frame(recording: Recording) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    track = recording.positions[0]
    origin = track[OBSERVED - 1]
    came_from = track[OBSERVED - 2] - origin
    if not np.isfinite(came_from).all():
        came_from = np.zeros(2)
    angle = np.pi - np.arctan2(came_from[1], came_from[0])
    return origin, np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _within_range(last: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Who is seen at the last observed step, at most 100 m away; of others nothing can be predicted."""
    return np.nan_to_num(np.abs(last), nan=np.inf).max(axis=1) <= RANGE_M


def _displacements(observed: NDArray[np.float64]) -> Floats:
    """Only the unbroken part of a track that reaches the last observed step counts, as in LaneGCN."""
    there = np.asarray(np.isfinite(observed).all(axis=2))
    unbroken = np.logical_and.accumulate(there[:, ::-1], axis=1)[:, ::-1]
    steps = np.zeros((*observed.shape[:2], 3), np.float32)
    moved = np.diff(np.nan_to_num(observed), axis=1)
    steps[:, 1:, :2] = np.where((unbroken[:, 1:] & unbroken[:, :-1])[..., None], moved, 0.0)
    steps[..., 2] = unbroken
    return steps


def pairs_within(lookers: Floats, seen: Floats, range_m: float) -> Pairs:
    """Pairs at most so far apart, in the order of the lookers."""
    square = sum(np.subtract.outer(lookers[:, axis], seen[:, axis]) ** 2 for axis in (0, 1))
    return np.argwhere(square <= range_m**2).astype(np.int32)


def manoeuvre(recording: Recording) -> int:
    """What the agent does, as an index of MANOEUVRES: by how far it goes and how its heading changes."""
    track = recording.positions[0]
    track = track[np.isfinite(track).all(axis=1)]
    if np.linalg.norm(track[-1] - track[0]) < _STATIONARY_M:
        return MANOEUVRES.index("stationary")
    reach = max(len(track) // 5, 1)  # headings over a second: single steps are noise
    begin, end = track[reach] - track[0], track[-1] - track[-1 - reach]
    turned = (np.arctan2(end[1], end[0]) - np.arctan2(begin[1], begin[0]) + np.pi) % (2 * np.pi) - np.pi
    if min(np.linalg.norm(begin), np.linalg.norm(end)) < _STATIONARY_M / 4 or abs(turned) < _TURN_RAD:
        return MANOEUVRES.index("straight")
    return MANOEUVRES.index("left" if turned > 0 else "right")
