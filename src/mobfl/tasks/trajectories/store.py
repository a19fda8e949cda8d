"""Scenes on disk: flat arrays that are mapped into memory, made once, in parallel, and resumable.

Scenes are made in parts, a file each, written at once; a preparation that is cut off goes on with the parts that are
missing. When all are there they are joined into one array per field, and `index.json`, written last, says that the
store is whole.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.files.atomic import remove_parts, replaced
from mobfl.tasks.trajectories.lane_graph import LaneGraph, Relations
from mobfl.tasks.trajectories.recordings import Recording
from mobfl.tasks.trajectories.scenes import Scene, manoeuvre, scene_of

_VERSION = 3  # of the format and of what scenes hold: raise it when either changes
_AT_ONCE = 64  # recordings in a part
_INDEX = "index.json"


class _Field(NamedTuple):
    along: str  # fields that share this have equally many rows in a scene
    shape: tuple[int, ...]  # of a row
    kind: type


_FIELDS = {
    "steps": _Field("actors", (20, 3), np.float32),
    "actors": _Field("actors", (2,), np.float32),
    "future": _Field("actors", (30, 2), np.float32),
    "seen": _Field("actors", (30,), np.bool_),
    "nodes": _Field("nodes", (2,), np.float32),
    "directions": _Field("nodes", (2,), np.float32),
    "meta": _Field("nodes", (4,), np.int8),
    "hops": _Field("nodes", (), np.int8),
    "starts": _Field("starts", (), np.int32),
    "taken": _Field("taken", (), np.int32),
    "actors_to_map": _Field("actors_to_map", (2,), np.int32),
    "map_to_actors": _Field("map_to_actors", (2,), np.int32),
    "actors_to_actors": _Field("actors_to_actors", (2,), np.int32),
    "origin": _Field("scene", (2,), np.float64),
    "rotation": _Field("scene", (2, 2), np.float64),
    "label": _Field("scene", (), np.int64),
    "city": _Field("scene", (), np.int64),
}
# A field by which rows are counted, for each kind of rows.
_COUNTED = {field.along: name for name, field in reversed(_FIELDS.items())}


class Source(Protocol):
    """Where recordings come from; it travels to other processes."""

    @property
    def identity(self) -> str:
        """Names the store: the same for the same recordings."""

    def __len__(self) -> int: ...

    def read(self, number: int) -> tuple[Recording, LaneGraph]:
        """Raises InputError if this recording is damaged."""

    @property
    def cities(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class SceneStore:
    """Scenes by their numbers; arrays are read from disk when they are needed."""

    arrays: dict[str, NDArray[Any]]
    bounds: dict[str, NDArray[np.int64]]  # where each scene's rows begin and end
    names: tuple[str, ...]
    cities: tuple[str, ...]
    damaged: tuple[str, ...]  # what was wrong with recordings that were left out

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> Scene:
        part = {name: self._rows(name, number) for name in _FIELDS}
        starts, taken = part.pop("starts"), part.pop("taken")
        for name in ("label", "city"):
            del part[name]
        origin, rotation = part.pop("origin")[0], part.pop("rotation")[0]
        return Scene(**part, relations=Relations(starts, taken), origin=origin, rotation=rotation)

    def scenes(self, numbers: Sequence[int] | NDArray[np.int64]) -> list[Scene]:
        return [self[int(number)] for number in numbers]

    @property
    def labels(self) -> NDArray[np.int64]:
        return np.asarray(self.arrays["label"], np.int64)

    @property
    def city(self) -> NDArray[np.int64]:
        return np.asarray(self.arrays["city"], np.int64)

    @property
    def origins(self) -> NDArray[np.float64]:
        return np.asarray(self.arrays["origin"])

    def _rows(self, name: str, number: int) -> NDArray[Any]:
        bounds = self.bounds[_FIELDS[name].along]
        return np.asarray(self.arrays[name][bounds[number] : bounds[number + 1]])


def open_store(
    source: Source, folder: Path, workers: int = 1, progress: Callable[[int], None] = lambda _: None
) -> SceneStore:
    """The source's scenes, from `folder` if they are there, else made; `progress` is told how many there are."""
    place = folder / f"scenes-{_VERSION}-{source.identity}"
    if not (place / _INDEX).exists():
        place.mkdir(parents=True, exist_ok=True)
        remove_parts(place)
        _make(source, place, workers, progress)
    index = json.loads((place / _INDEX).read_text(encoding="utf-8"))
    arrays = {name: np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _FIELDS}
    bounds = {name: np.load(place / f"bounds-{name}.npy", allow_pickle=False) for name in _COUNTED}
    return SceneStore(arrays, bounds, *(tuple(index[name]) for name in ("names", "cities", "damaged")))


def _make(source: Source, place: Path, workers: int, progress: Callable[[int], None]) -> None:
    parts = [(first, min(first + _AT_ONCE, len(source))) for first in range(0, len(source), _AT_ONCE)]
    done = 0
    for first, end in _in_parallel(partial(_make_part, source, place), parts, workers):
        done += end - first
        progress(done)
    _join([_part_file(place, first) for first, _ in parts], place, source.cities)


def _in_parallel(
    work: Callable[[tuple[int, int]], tuple[int, int]], parts: Sequence[tuple[int, int]], workers: int
) -> Iterator[tuple[int, int]]:
    if workers == 1:
        yield from map(work, parts)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(work, part) for part in parts]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _part_file(place: Path, first: int) -> Path:
    return place / f"part-{first:08d}.npz"


def _make_part(source: Source, place: Path, part: tuple[int, int]) -> tuple[int, int]:
    """Writes the scenes of some recordings; what is damaged is named instead."""
    file = _part_file(place, part[0])
    if file.exists():
        return part
    rows: list[dict[str, NDArray[Any]]] = []
    names, damaged = [], []
    for number in range(*part):
        try:
            recording, graph = source.read(number)
            rows.append(_arrays(recording, scene_of(recording, graph), source.cities.index(recording.city)))
            names.append(recording.name)
        except InputError as error:
            damaged.append(str(error))
    counts = {f"count-{along}": [len(row[name]) for row in rows] for along, name in _COUNTED.items()}
    joined = {name: _stacked(name, rows) for name in _FIELDS}
    with replaced(file) as temporary, temporary.open("wb") as out:
        texts = {"names": np.array(names, str), "damaged": np.array(damaged, str)}
        np.savez(out, allow_pickle=False, **joined, **counts, **texts)
    return part


def _stacked(name: str, rows: list[dict[str, NDArray[Any]]]) -> NDArray[Any]:
    _, shape, kind = _FIELDS[name]
    return np.concatenate([np.empty((0, *shape), kind), *(row[name] for row in rows)]).astype(kind, copy=False)


def _arrays(recording: Recording, scene: Scene, city: int) -> dict[str, NDArray[Any]]:
    return {
        **{name: getattr(scene, name) for name in _FIELDS if hasattr(scene, name)},
        "starts": scene.relations.starts,
        "taken": scene.relations.taken,
        "origin": scene.origin[None],
        "rotation": scene.rotation[None],
        "label": np.array([manoeuvre(recording)]),
        "city": np.array([city]),
    }


def _join(files: Sequence[Path], place: Path, cities: tuple[str, ...]) -> None:
    parts = [np.load(file, allow_pickle=False) for file in files]
    try:
        for name in _COUNTED:
            counts = np.concatenate([part[f"count-{name}"] for part in parts]).astype(np.int64)
            _save(place / f"bounds-{name}.npy", np.append(0, np.cumsum(counts)))
        for name in _FIELDS:
            _save(place / f"{name}.npy", np.concatenate([part[name] for part in parts]))
        names = [str(each) for part in parts for each in part["names"]]
        damaged = [str(each) for part in parts for each in part["damaged"]]
    finally:
        for part in parts:
            part.close()
    if not names:
        raise InputError(f"at least one recording must be undamaged, got {len(damaged)} damaged ones: {damaged[:1]}")
    with replaced(place / _INDEX) as temporary:
        temporary.write_text(json.dumps({"names": names, "cities": cities, "damaged": damaged}), encoding="utf-8")
    for file in files:
        file.unlink()


def _save(file: Path, array: NDArray[Any]) -> None:
    with replaced(file) as temporary, temporary.open("wb") as out:
        np.save(out, array, allow_pickle=False)
