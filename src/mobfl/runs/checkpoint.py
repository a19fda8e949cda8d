"""All that a run needs to go on, and the file that it lies in.

One safetensors file holds the model that is served under its own names; other versions of it, on which vehicles are
training, as `version/NUMBER/NAME`; and what the rule remembers as `rule/NAME`. Where it is not known whether that model
is sound, or known that it is not, the last sound one is there too, as `sound/NAME` and `sound-rule/NAME`. It is never
half of one checkpoint and half of another. The metadata say how many server steps led to it, how many uploads were
rejected on the way, and which rounds' models were taken back.
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

_VERSION, _RULE, _SOUND, _SOUND_RULE = "version", "rule", "sound", "sound-rule"


@dataclass(frozen=True)
class Sound:
    """A model whose full evaluation was finite, after so many server steps, and what the rule remembered then."""

    rounds: int
    model: Weights
    rule_state: State


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

    @property
    def alone(self) -> "Checkpoint":
        """The model without what is only needed to go on."""
        return replace(self, versions={}, rule_state={}, sound=None)

    @property
    def settled(self) -> "Checkpoint":
        """As a run ends: on a sound model, if there is one."""
        if self.sound is None:
            return self
        lost = range(self.sound.rounds, self.rounds)
        return replace(self, model=self.sound.model, sound=None, taken_back=(*self.taken_back, *lost))


def write_checkpoint(file: Path, checkpoint: Checkpoint) -> None:
    metadata: dict[str, Any] = {"rounds": checkpoint.rounds, "rejections": dict(sorted(checkpoint.rejections.items()))}
    if checkpoint.taken_back:
        metadata["taken_back"] = list(checkpoint.taken_back)
    if checkpoint.sound is not None:
        metadata["sound"] = checkpoint.sound.rounds
    with replaced(file) as temporary:
        temporary.write_bytes(save(_flat(checkpoint), metadata={"mobfl": json.dumps(metadata)}))


def _flat(checkpoint: Checkpoint) -> dict[str, Any]:
    versions = ((f"{_VERSION}/{number}/", model) for number, model in sorted(checkpoint.versions.items()))
    sound = checkpoint.sound
    before = () if sound is None else ((f"{_SOUND}/", sound.model), (f"{_SOUND_RULE}/", sound.rule_state))
    groups = (("", checkpoint.model), *versions, (f"{_RULE}/", checkpoint.rule_state), *before)
    return {prefix + name: values for prefix, arrays in groups for name, values in arrays.items()}


def read_checkpoint(file: Path, reference: Weights) -> Checkpoint:
    """The checkpoint of a model with the same parameters as the reference."""
    try:
        with safe_open(file, framework="numpy") as stored:
            metadata = json.loads((stored.metadata() or {})["mobfl"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            found = _parted(tensors, metadata)
    except FileNotFoundError:
        raise InputError(f"{file} must be there to resume, got none") from None
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise InputError(f"{file} must be a model that mobfl wrote, got {error}") from None
    sound = () if found.sound is None else (found.sound.model,)
    for each in (found.model, *found.versions.values(), *sound):
        if (reason := fault(reference, Upload(each, 1))) is not None:
            raise InputError(f"{file} must be this task's model, got one that is {reason}")
    return found


def _parted(tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> Checkpoint:
    groups, versions = defaultdict[str, dict[str, Any]](dict), defaultdict[int, dict[str, Any]](dict)
    for name, values in tensors.items():
        first, _, rest = name.partition("/")
        number, _, own = rest.partition("/")
        if first == _VERSION and own:
            versions[int(number)][own] = values
        elif first in (_RULE, _SOUND, _SOUND_RULE) and rest:
            groups[first][rest] = values
        else:
            groups[""][name] = values
    sound = Sound(int(metadata["sound"]), groups[_SOUND], groups[_SOUND_RULE]) if "sound" in metadata else None
    taken_back = tuple(int(number) for number in metadata.get("taken_back", ()))
    rounds, rejections = int(metadata["rounds"]), dict(metadata["rejections"])
    return Checkpoint(rounds, groups[""], dict(versions), groups[_RULE], rejections, sound, taken_back)
