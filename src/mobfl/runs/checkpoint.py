"""All that a run needs to go on, and the file that it lies in.

One safetensors file holds the model that is served under its own names; other versions of it, on which vehicles are
training, as `version/NUMBER/NAME`; and what the rule remembers as `rule/NAME`. It is never half of one checkpoint and
half of another. The metadata say how many server steps led to it, and how many uploads were rejected on the way.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mobfl.errors import InputError
from mobfl.files.atomic import replaced
from mobfl.learning.rules import State
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.weights import Weights

_VERSION, _RULE = "version", "rule"


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


def write_checkpoint(file: Path, checkpoint: Checkpoint) -> None:
    metadata = {"rounds": checkpoint.rounds, "rejections": dict(sorted(checkpoint.rejections.items()))}
    with replaced(file) as temporary:
        temporary.write_bytes(save(_flat(checkpoint), metadata={"mobfl": json.dumps(metadata)}))


def _flat(checkpoint: Checkpoint) -> dict[str, Any]:
    versions = ((f"{_VERSION}/{number}/", model) for number, model in sorted(checkpoint.versions.items()))
    groups = (("", checkpoint.model), *versions, (f"{_RULE}/", checkpoint.rule_state))
    return {prefix + name: values for prefix, arrays in groups for name, values in arrays.items()}


def read_checkpoint(file: Path, reference: Weights) -> Checkpoint:
    """The checkpoint of a model with the same parameters as the reference."""
    try:
        with safe_open(file, framework="numpy") as stored:
            metadata = json.loads((stored.metadata() or {})["mobfl"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            found = _parted(tensors, int(metadata["rounds"]), dict(metadata["rejections"]))
    except FileNotFoundError:
        raise InputError(f"{file} must be there to resume, got none") from None
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise InputError(f"{file} must be a model that mobfl wrote, got {error}") from None
    for each in (found.model, *found.versions.values()):
        if (reason := fault(reference, Upload(each, 1))) is not None:
            raise InputError(f"{file} must be this task's model, got one that is {reason}")
    return found


def _parted(tensors: Mapping[str, Any], rounds: int, rejections: Mapping[str, int]) -> Checkpoint:
    model, state, versions = dict[str, Any](), dict[str, Any](), defaultdict[int, dict[str, Any]](dict)
    for name, values in tensors.items():
        first, *rest = name.split("/", 2)
        if first == _VERSION and len(rest) == 2:
            versions[int(rest[0])][rest[1]] = values
        elif first == _RULE and rest:
            state[name.split("/", 1)[1]] = values
        else:
            model[name] = values
    return Checkpoint(rounds, model, dict(versions), state, rejections)
