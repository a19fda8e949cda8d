"""All that a run needs to go on, and the file that it lies in.

One safetensors file holds the model that is served under its own names; other versions of it, on which vehicles are
training, as `version/NUMBER/NAME`; what the rule remembers as `rule/NAME`; and where they are needed, what the rule
sent along with such a version as `along/NUMBER/NAME`, what a vehicle remembers as `memory/KEY/NAME`, and which model
it takes to another station as `carried/KEY/NAME`. Where it is
not known whether that model is sound, or known that it is not, the last sound one is there too, as `sound/NAME` and
`sound-rule/NAME`. It is never half of one checkpoint and half of another. The metadata say how many server steps led
to it, how many uploads were rejected on the way, and which rounds' models were taken back.

Of a city it is the model of the last row, with every station's checkpoint in turn below `station/PLACE/`, and the
cloud's latest average, what was handed in to it and what the stations had handed in as `cloud/…`.

Until a run is done, its last checkpoint also holds all that its other files are written from: the rounds as
`rows/COLUMN`, the best model as `best/NAME`, and a digest. So it is enough to go on, whatever becomes of the others.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mobfl.errors import InputError
from mobfl.files.atomic import replaced
from mobfl.files.regular import check_regular
from mobfl.learning.rules import State
from mobfl.learning.turns import Memory
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.weights import Weights, same

_VERSION, _RULE, _SOUND, _SOUND_RULE = "version", "rule", "sound", "sound-rule"
_BEST, _ROWS = "best", "rows"
_ALONG, _MEMORY, _CARRIED = "along", "memory", "carried"
_STATION, _CLOUD = "station", "cloud"
_AVERAGE, _HANDED, _SENT = "average", "handed", "sent"


@dataclass(frozen=True)
class Sound:
    """A model whose full evaluation was finite, after so many server steps, and what the rule remembered then."""

    rounds: int
    model: Weights
    rule_state: State

    def lost_until(self, rounds: int, known: Sequence[int]) -> list[int]:
        """The rounds that are newly taken back by going back to it after so many server steps.

        The last one is among them even where this is a model of that round, which the cloud's had taken the place of.
        """
        return [number for number in range(min(self.rounds, rounds - 1), rounds) if number not in known]


@dataclass(frozen=True)
class CloudState:
    """What the cloud knows, and what is on its way.

    Args:
        samples: D, summed over the uploads to each station since it last handed in its model, as its rule counted them,
        uploads: and how many these were.
        average: The latest; nothing before the first.
        comes_s: When it comes to the stations.
        handed: Models that were handed in and are not averaged yet, by the stations' places,
        shares: and with which weights.
        sent: What stations had handed in for the latest average, which they have not taken up yet.
    """

    samples: tuple[int, ...]
    average: Weights = field(default_factory=dict)
    comes_s: float = 0.0
    handed: Mapping[int, Weights] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    sent: Mapping[int, Weights] = field(default_factory=dict)
    uploads: tuple[int, ...] = ()

    @property
    def models(self) -> list[Weights]:
        return [*([self.average] if self.average else []), *self.handed.values(), *self.sent.values()]


@dataclass(frozen=True)
class Checkpoint:
    """A run after so many server steps: the model that is served, and what else is needed to go on.

    `versions` holds other models by how many steps led to them: those that vehicles are training on, and the one that
    training goes on from where an average of it is served.
    """

    rounds: int
    model: Weights
    versions: Mapping[int, Weights] = field(default_factory=dict)
    rule_state: State = field(default_factory=dict)
    rejections: Mapping[str, int] = field(default_factory=dict)
    sound: Sound | None = None  # where it may be needed: this model is not known to be sound itself
    taken_back: tuple[int, ...] = ()  # the rounds whose models were not sound
    along: Mapping[int, Weights] = field(default_factory=dict)  # what the rule sent along with other versions
    memories: Mapping[int, Memory] = field(default_factory=dict)  # of vehicles that will upload again, by their keys
    stations: "tuple[Checkpoint, ...]" = ()  # those of a city's models, whose last row has this model,
    cloud: CloudState | None = None  # what is above them,
    carried: Mapping[int, Weights] = field(default_factory=dict)  # and what vehicles take from one to the next

    @property
    def alone(self) -> "Checkpoint":
        """The model without what is only needed to go on."""
        return replace(
            self, versions={}, rule_state={}, sound=None, along={}, memories={}, stations=(), cloud=None, carried={}
        )

    @property
    def ended(self) -> "Checkpoint":
        """What remains of a run that is done: the model, of a city those of all stations and the cloud's."""
        cloud = (
            None
            if self.cloud is None
            else CloudState(self.cloud.samples, self.cloud.average, uploads=self.cloud.uploads)
        )
        return replace(self.alone, stations=tuple(each.alone for each in self.stations), cloud=cloud)

    def _settled_city(self) -> "Checkpoint":
        """All stations' models; the last row's, where it is a station's, becomes what that station ends on."""
        ended = tuple(each.settled for each in self.stations)
        own = (new.model for old, new in zip(self.stations, ended, strict=True) if same(old.model, self.model))
        taken_back = tuple(sorted(number for each in ended for number in each.taken_back))
        return replace(self, model=next(own, self.model), stations=ended, taken_back=taken_back)

    @property
    def settled(self) -> "Checkpoint":
        """As a run ends: on a sound model, if there is one."""
        if self.stations:
            return self._settled_city()
        if self.sound is None:
            return self
        lost = self.sound.lost_until(self.rounds, self.taken_back)
        return replace(self, model=self.sound.model, sound=None, taken_back=(*self.taken_back, *lost))


@dataclass(frozen=True)
class Kept:
    """What else a run has that is not done: its other files can be written from it again."""

    run: str  # which it is: the digest of its description
    initial: Mapping[str, float]
    columns: Mapping[str, NDArray[Any]]
    best: Checkpoint


def write_checkpoint(file: Path, checkpoint: Checkpoint, kept: Kept | None = None) -> None:
    tensors, metadata = _flat(checkpoint), _metadata(checkpoint)
    if kept is not None:
        tensors |= {f"{_ROWS}/{name}": values for name, values in kept.columns.items()}
        tensors |= {f"{_BEST}/{name}": values for name, values in kept.best.model.items()}
        metadata["kept"] = {"run": kept.run, "initial": dict(kept.initial), "best": _metadata(kept.best)}
        metadata["digest"] = _digest(tensors, metadata)
    with replaced(file) as temporary:
        temporary.write_bytes(save(tensors, metadata={"mobfl": json.dumps(metadata)}))


def _metadata(checkpoint: Checkpoint) -> dict[str, Any]:
    told: dict[str, Any] = {"rounds": checkpoint.rounds, "rejections": dict(sorted(checkpoint.rejections.items()))}
    if checkpoint.taken_back:
        told["taken_back"] = list(checkpoint.taken_back)
    if checkpoint.sound is not None:
        told["sound"] = checkpoint.sound.rounds
    if checkpoint.stations:
        told["stations"] = [_metadata(each) for each in checkpoint.stations]
    if (cloud := checkpoint.cloud) is not None:
        shares = {str(place): share for place, share in sorted(cloud.shares.items())}
        told["cloud"] = {
            "samples": list(cloud.samples),
            "uploads": list(cloud.uploads),
            "comes_s": cloud.comes_s,
            "shares": shares,
        }
    return told


def _digest(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> str:
    told = {name: value for name, value in metadata.items() if name != "digest"}
    found = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name, values in sorted(tensors.items()):
        found.update(f"{name} {values.dtype} {values.shape}".encode())
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()


def _flat(checkpoint: Checkpoint) -> dict[str, Any]:
    numbered = {
        _VERSION: checkpoint.versions,
        _ALONG: checkpoint.along,
        _MEMORY: checkpoint.memories,
        _CARRIED: checkpoint.carried,
    }
    versions = (
        (f"{kind}/{number}/", arrays) for kind, each in numbered.items() for number, arrays in sorted(each.items())
    )
    sound = checkpoint.sound
    before = () if sound is None else ((f"{_SOUND}/", sound.model), (f"{_SOUND_RULE}/", sound.rule_state))
    below = ((f"{_STATION}/{place}/", _flat(each)) for place, each in enumerate(checkpoint.stations))
    above = () if checkpoint.cloud is None else ((f"{_CLOUD}/", _flat_cloud(checkpoint.cloud)),)
    groups = (("", checkpoint.model), *versions, (f"{_RULE}/", checkpoint.rule_state), *before, *below, *above)
    return {prefix + name: values for prefix, arrays in groups for name, values in arrays.items()}


def _flat_cloud(cloud: CloudState) -> dict[str, Any]:
    by_place = {_HANDED: cloud.handed, _SENT: cloud.sent}
    models = ((f"{kind}/{place}/", each) for kind, found in by_place.items() for place, each in sorted(found.items()))
    groups = ((f"{_AVERAGE}/", cloud.average), *models)
    return {prefix + name: values for prefix, arrays in groups for name, values in arrays.items()}


def read_checkpoint(file: Path, reference: Weights) -> Checkpoint:
    """The checkpoint of a model with the same parameters as the reference."""
    return read_last(file, reference)[0]


def read_last(file: Path, reference: Weights) -> tuple[Checkpoint, Kept | None]:
    """A run's last checkpoint, and what it holds of its other files; nothing once the run is done."""
    with _readable(file) as stored:
        metadata = json.loads((stored.metadata() or {})["mobfl"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        if "digest" in metadata and metadata["digest"] != _digest(tensors, metadata):
            raise ValueError("one that was changed since")
        found, kept = _parted(tensors, metadata), _kept(tensors, metadata)
    others = [kept.best.model] if kept is not None else []
    for each in (*_models(found), *others):
        if (reason := fault(reference, Upload(each, 1))) is not None:
            raise InputError(f"{file} must be this task's model, got one that is {reason}")
    return found, kept


def _models(checkpoint: Checkpoint) -> list[Weights]:
    found = [checkpoint.model, *checkpoint.versions.values()]
    found += [checkpoint.sound.model] if checkpoint.sound is not None else []
    found += [] if checkpoint.cloud is None else checkpoint.cloud.models
    found += checkpoint.carried.values()
    return found + [model for each in checkpoint.stations for model in _models(each)]


def rounds_of(file: Path) -> int:
    """After how many rounds a model was, without reading it."""
    with _readable(file) as stored:
        return int(json.loads((stored.metadata() or {})["mobfl"])["rounds"])


@contextmanager
def _readable(file: Path) -> Iterator[Any]:
    try:
        check_regular(file)
        with safe_open(file, framework="numpy") as stored:
            yield stored
    except FileNotFoundError:
        raise InputError(f"{file} must be there to resume, got none") from None
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError, SafetensorError) as error:
        raise InputError(f"{file} must be a model that mobfl wrote, got {error}") from None


def _kept(tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> Kept | None:
    if "kept" not in metadata:
        return None
    told = metadata["kept"]
    best = _parted(_below(_BEST, tensors), told["best"])
    return Kept(str(told["run"]), dict(told["initial"]), _below(_ROWS, tensors), best)


def _below(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) + 1 :]: values for name, values in tensors.items() if name.startswith(f"{prefix}/")}


def _parted(tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> Checkpoint:
    groups = defaultdict[str, dict[str, Any]](dict)
    numbered = {kind: defaultdict[int, dict[str, Any]](dict) for kind in (_VERSION, _ALONG, _MEMORY, _CARRIED)}
    told, above = metadata.get("stations", ()), metadata.get("cloud")
    elsewhere = [*([_BEST, _ROWS] if "kept" in metadata else []), *([_STATION] if told else [])]
    elsewhere += [_CLOUD] if above is not None else []
    for name, values in tensors.items():
        first, _, rest = name.partition("/")
        number, _, own = rest.partition("/")
        if first in numbered and own:
            numbered[first][int(number)][own] = values
        elif first in (_RULE, _SOUND, _SOUND_RULE) and rest:
            groups[first][rest] = values
        elif first not in elsewhere:
            groups[""][name] = values
    sound = Sound(int(metadata["sound"]), groups[_SOUND], groups[_SOUND_RULE]) if "sound" in metadata else None
    taken_back = tuple(int(number) for number in metadata.get("taken_back", ()))
    rounds, rejections = int(metadata["rounds"]), dict(metadata["rejections"])
    versions, along, memories, carried = map(dict, numbered.values())
    stations = tuple(_parted(_below(f"{_STATION}/{place}", tensors), each) for place, each in enumerate(told))
    cloud = None if above is None else _cloud(_below(_CLOUD, tensors), above)
    return Checkpoint(
        rounds,
        groups[""],
        versions,
        groups[_RULE],
        rejections,
        sound,
        taken_back,
        along,
        memories,
        stations,
        cloud,
        carried,
    )


def _cloud(tensors: Mapping[str, Any], told: Mapping[str, Any]) -> CloudState:
    models: dict[str, dict[int, Any]] = {kind: {} for kind in (_HANDED, _SENT)}
    for kind, found in models.items():
        for name, values in _below(kind, tensors).items():
            place, _, own = name.partition("/")
            found.setdefault(int(place), {})[own] = values
    shares = {int(place): float(share) for place, share in told["shares"].items()}
    samples, uploads = (tuple(int(each) for each in told[name]) for name in ("samples", "uploads"))
    average, comes_s = _below(_AVERAGE, tensors), float(told["comes_s"])
    return CloudState(samples, average, comes_s, models[_HANDED], shares, models[_SENT], uploads)
