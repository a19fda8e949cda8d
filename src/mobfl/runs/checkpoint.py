"""All that a run needs to go on, and the file that it lies in.

One safetensors file holds the model that is served under its own names; other versions of it, on which vehicles are
training, as `version/NUMBER/NAME`; and what the rule remembers as `rule/NAME`. It is never half of one checkpoint and
half of another. The metadata say how many server steps led to it, and how many uploads were rejected on the way.

Until a run is done, its last checkpoint also holds all that its other files are written from: the rounds as
`rows/COLUMN`, the best model as `best/NAME`, and a digest. So it is enough to go on, whatever becomes of the others.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.weights import Weights

_VERSION, _RULE, _BEST, _ROWS = "version", "rule", "best", "rows"


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

    @property
    def alone(self) -> "Checkpoint":
        """The model without what is only needed to go on."""
        return replace(self, versions={}, rule_state={})


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
    return {"rounds": checkpoint.rounds, "rejections": dict(sorted(checkpoint.rejections.items()))}


def _digest(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> str:
    told = {name: value for name, value in metadata.items() if name != "digest"}
    found = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name, values in sorted(tensors.items()):
        found.update(f"{name} {values.dtype} {values.shape}".encode())
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()


def _flat(checkpoint: Checkpoint) -> dict[str, Any]:
    versions = ((f"{_VERSION}/{number}/", model) for number, model in sorted(checkpoint.versions.items()))
    groups = (("", checkpoint.model), *versions, (f"{_RULE}/", checkpoint.rule_state))
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
    for each in (found.model, *found.versions.values(), *([] if kept is None else [kept.best.model])):
        if (reason := fault(reference, Upload(each, 1))) is not None:
            raise InputError(f"{file} must be this task's model, got one that is {reason}")
    return found, kept


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
    best = Checkpoint(int(told["best"]["rounds"]), _below(_BEST, tensors), rejections=dict(told["best"]["rejections"]))
    return Kept(str(told["run"]), dict(told["initial"]), _below(_ROWS, tensors), best)


def _below(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) + 1 :]: values for name, values in tensors.items() if name.startswith(f"{prefix}/")}


def _parted(tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> Checkpoint:
    model, state, versions = dict[str, Any](), dict[str, Any](), defaultdict[int, dict[str, Any]](dict)
    for name, values in tensors.items():
        first, *rest = name.split("/", 2)
        if first == _VERSION and len(rest) == 2:
            versions[int(rest[0])][rest[1]] = values
        elif first == _RULE and rest:
            state[name.split("/", 1)[1]] = values
        elif not ("kept" in metadata and first in (_BEST, _ROWS)):
            model[name] = values
    return Checkpoint(int(metadata["rounds"]), model, dict(versions), state, dict(metadata["rejections"]))
