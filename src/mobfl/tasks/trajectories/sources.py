"""Where recordings come from: Argoverse 1, Argoverse 2, or the generated town."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from mobfl.errors import InputError
from mobfl.tasks.trajectories.argoverse1 import read_sequence, sequence_files
from mobfl.tasks.trajectories.argoverse2 import read_scenario
from mobfl.tasks.trajectories.argoverse_maps import read_map
from mobfl.tasks.trajectories.lane_graph import LaneGraph, lane_graph
from mobfl.tasks.trajectories.recordings import Recording
from mobfl.tasks.trajectories.store import Source
from mobfl.tasks.trajectories.town import town_recordings
from mobfl.tasks.trajectories.town_map import town_map


@dataclass(frozen=True)
class Argoverse1:
    files: tuple[Path, ...]
    maps: Path  # a folder that holds the cities' maps
    cities: tuple[str, ...] = ("MIA", "PIT")

    @property
    def identity(self) -> str:
        return "argoverse1-" + _digest(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def read(self, number: int) -> tuple[Recording, LaneGraph]:
        recording = read_sequence(self.files[number])
        if recording.city not in self.cities:
            raise InputError(f"{self.files[number]}: CITY_NAME must be MIA or PIT, got {recording.city!r}")
        return recording, _city_graph(self.maps, recording.city)


@dataclass(frozen=True)
class Argoverse2:
    folders: tuple[Path, ...]
    cities: tuple[str, ...] = ("austin", "dearborn", "miami", "palo-alto", "pittsburgh", "washington-dc")

    @property
    def identity(self) -> str:
        return "argoverse2-" + _digest([next(folder.glob("scenario_*.parquet")) for folder in self.folders])

    def __len__(self) -> int:
        return len(self.folders)

    def read(self, number: int) -> tuple[Recording, LaneGraph]:
        recording, lanes = read_scenario(self.folders[number])
        city = recording.city.split()[0]  # without the scenario's own name, which names its map
        if city not in self.cities:
            raise InputError(f"{self.folders[number]}: city must be one of {', '.join(self.cities)}, got {city!r}")
        return replace(recording, city=city), lane_graph(lanes)


@dataclass(frozen=True)
class Town:
    seed: int
    first: int
    count: int
    cities: tuple[str, ...] = ("TOWN",)

    @property
    def identity(self) -> str:
        return f"town-{self.seed}-{self.first}-{self.count}"

    def __len__(self) -> int:
        return self.count

    def read(self, number: int) -> tuple[Recording, LaneGraph]:
        (recording,) = town_recordings(self.seed, self.first + number, 1)
        return recording, _town_graph()


def argoverse_sources(folder: Path) -> tuple[Source, Source]:
    """Training and validation: subfolders `train` and `val`, of Argoverse 1 or 2, and for the first maps below it."""
    if not folder.is_dir():
        raise InputError(f"data {folder} must be a folder with train and val: there is none")
    parts = [folder / name for name in ("train", "val")]
    for part in parts:
        if not part.is_dir():
            raise InputError(f"data {folder} must hold the folders train and val, got no {part.name}")
    scenarios = [tuple(sorted(file.parent for file in part.glob("*/scenario_*.parquet"))) for part in parts]
    if all(scenarios):
        return Argoverse2(scenarios[0]), Argoverse2(scenarios[1])
    train, validation = (Argoverse1(tuple(sequence_files(part)), folder) for part in parts)
    return train, validation


def _digest(files: Sequence[Path]) -> str:
    """Changes when a file's name, size or time does."""
    digest = hashlib.blake2b(digest_size=12)
    for file in files:
        state = file.stat()
        digest.update(f"{file.resolve()} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@cache
def _city_graph(maps: Path, city: str) -> LaneGraph:
    return lane_graph(read_map(maps, city))


@cache
def _town_graph() -> LaneGraph:
    return lane_graph(town_map())
