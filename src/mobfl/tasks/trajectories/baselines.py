"""What can be predicted without learning: the agent goes on as it went, straight on or along its lane."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.trajectories.lane_graph import KINDS, SCALES
from mobfl.tasks.trajectories.recordings import PREDICTED
from mobfl.tasks.trajectories.scenes import Scene
from mobfl.tasks.trajectories.scores import benchmark_scores

_LOOK_BACK = 5  # steps over which the velocity is taken: half a second
_ON_LANE_M, _ALONG = 3.0, np.cos(np.pi / 4)
_FIRST_SUCCESSOR = 1 + SCALES  # the relation "one piece ahead"

Floats = NDArray[np.float64]


def baseline_scores(scenes: Sequence[Scene]) -> dict[str, dict[str, float]]:
    truth = np.array([scene.future[0] for scene in scenes], np.float64)

    def judged(futures: list[Floats]) -> dict[str, float]:
        return benchmark_scores(np.array(futures)[:, None], np.ones((len(futures), 1)), truth)

    return {
        "constant velocity": judged([straight_on(scene) for scene in scenes]),
        "along the lane": judged([along_the_lane(scene) for scene in scenes]),
    }


def velocity(scene: Scene) -> Floats:
    """The agent's displacement per step, over the last steps that are seen."""
    steps = scene.steps[0, -_LOOK_BACK:]
    moved = steps[1:][steps[1:, 2] * steps[:-1, 2] > 0, :2]  # a track's first step has no displacement
    return moved.mean(axis=0).astype(np.float64) if len(moved) else np.zeros(2)


def straight_on(scene: Scene) -> Floats:
    """(30, 2) in the scene's frame."""
    return scene.actors[0] + np.outer(np.arange(1, PREDICTED + 1), velocity(scene))


def along_the_lane(scene: Scene) -> Floats:
    """At constant speed along the centre line ahead, keeping the distance from it; straight on where there is none."""
    step = velocity(scene)
    speed = float(np.linalg.norm(step))
    start = _own_piece(scene, step)
    if start is None or speed == 0.0:
        return straight_on(scene)
    line = _line_ahead(scene, start, speed * PREDICTED)
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1)))
    here = _project(line[:2], scene.actors[0].astype(np.float64))
    way = here * along[1] + speed * np.arange(PREDICTED + 1)
    on_line = np.stack([np.interp(way, along, line[:, axis]) for axis in (0, 1)], axis=1)
    beyond = np.maximum(way - along[-1], 0.0)  # where the map ends, straight on
    ahead = (line[-1] - line[-2]) / max(float(np.linalg.norm(line[-1] - line[-2])), 1e-9)
    on_line += beyond[:, None] * ahead
    return on_line[1:] + (scene.actors[0] - on_line[0])


def _own_piece(scene: Scene, step: Floats) -> int | None:
    """The nearest piece of lane that runs the agent's way."""
    if not len(scene.nodes):
        return None
    lengths = np.linalg.norm(scene.directions, axis=1) * np.linalg.norm(step)
    along = scene.directions @ step >= _ALONG * lengths
    distance = np.where(along, np.linalg.norm(scene.nodes - scene.actors[0], axis=1), np.inf)
    nearest = int(distance.argmin())
    return nearest if distance[nearest] <= _ON_LANE_M else None


def _line_ahead(scene: Scene, piece: int, length_m: float) -> Floats:
    """Points along the lane from a piece's start on; at a fork the way that bends least."""
    points = [scene.nodes[piece] - scene.directions[piece] / 2, scene.nodes[piece] + scene.directions[piece] / 2]
    length, seen = 0.0, {piece}
    while length <= length_m + np.linalg.norm(scene.directions[piece]):
        nexts = [each for each in _successors(scene, piece) if each not in seen]
        if not nexts:
            break
        straightness = [float(scene.directions[piece] @ scene.directions[each]) for each in nexts]
        piece = nexts[int(np.argmax(straightness))]
        seen.add(piece)
        points.append(scene.nodes[piece] + scene.directions[piece] / 2)
        length += float(np.linalg.norm(scene.directions[piece]))
    return np.array(points, np.float64)


def _successors(scene: Scene, piece: int) -> list[int]:
    taken = scene.relations.taken[scene.relations.starts[piece] : scene.relations.starts[piece + 1]]
    return (taken[taken % KINDS == _FIRST_SUCCESSOR] // KINDS).tolist()


def _project(segment: Floats, point: Floats) -> float:
    """How far along a segment a point lies, as a share of it."""
    step = segment[1] - segment[0]
    return float(np.clip((point - segment[0]) @ step / max(float(step @ step), 1e-9), 0.0, 1.0))
