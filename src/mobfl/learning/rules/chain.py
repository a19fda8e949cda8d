"""A rule is a chain of links: guards, one way to combine, steps of the server. `clip+median+adam:rate=0.01`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, PartError
from mobfl.learning.uploads import Upload, sorted_out
from mobfl.learning.weights import Weights, unlike
from mobfl.parts import Kind, Wish

State = Mapping[str, NDArray[Any]]
"""What a rule remembers from one server step to the next: named arrays, saved with the model."""

_PLACE = "mobfl.learning.rules"
RULES = Kind(
    "rule",
    "rules",
    ("apply", "guard", "step"),
    {
        "clip": f"{_PLACE}.clip:Clip",
        "mean": f"{_PLACE}.mean:Mean",
        "median": f"{_PLACE}.median:Median",
        "steps": f"{_PLACE}.steps:ByStepsMean",
        "fednova": f"{_PLACE}.fednova:FedNova",
        "fedasync": f"{_PLACE}.fedasync:FedAsync",
        "fedbuff": f"{_PLACE}.fedbuff:FedBuff",
        "momentum": f"{_PLACE}.momentum:ServerMomentum",
        "adam": f"{_PLACE}.adam:ServerAdam",
    },
)
_ROLES = ("guard", "apply", "step")  # in the order in which they stand in a chain
_WORDS = {"guard": "a guard", "apply": "a way to combine", "step": "a step of the server"}


class Rule(Protocol):
    """Knows nothing of time and roads. It is asked only where there is at least one good upload."""

    def init(self, model: Weights) -> State:
        """What it remembers before the first server step: named arrays."""

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """The new state and the next model. Nothing that it is given may be changed in place."""


@dataclass(frozen=True)
class Link:
    """One link of a chain: the part, its role, and how it was asked for."""

    part: Any
    role: str
    wish: Wish

    @classmethod
    def of(cls, part: Any, wish: Wish) -> "Link":
        roles = [role for role in _ROLES if callable(getattr(part, role, None))]
        if len(roles) != 1:
            raise InputError(f"rule {wish.name} must have one of the methods {', '.join(_ROLES)}, got {len(roles)}")
        return cls(part, roles[0], wish)

    @property
    def values(self) -> dict[str, Any]:
        """All of its parameters where it is a dataclass, else those that were given."""
        has_fields = is_dataclass(self.part) and not isinstance(self.part, type)
        return asdict(self.part) if has_fields else dict(self.wish.values)

    def __str__(self) -> str:
        return str(Wish(self.wish.name, self.wish.words, self.values))

    def checked(self, model: Weights, result: Any) -> tuple[State, Weights]:
        """What the link gave back, if it is a state and a model of the same kind."""
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
            raise PartError(f"rule {self.wish.name} must give its state and a model, got {result!r:.60}")
        if (reason := unlike(model, result[1])) is not None:
            raise PartError(f"rule {self.wish.name} must give a model like the one it got, got one that is {reason}")
        return result

    def init(self, model: Weights) -> State:
        begin = getattr(self.part, "init", None)
        return {} if begin is None else _checked(self.wish, begin(model))


@dataclass(frozen=True)
class Chain:
    """A `Rule` of links, whose states stand side by side under the links' numbers and names."""

    links: tuple[Link, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.links))

    @property
    def needs_staleness(self) -> bool:
        return any(getattr(link.part, "needs_staleness", False) for link in self.links)

    def init(self, model: Weights) -> State:
        return {
            key: values for n, link in enumerate(self.links) for key, values in self._named(n, link.init(model)).items()
        }

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        new, proposed = dict[str, NDArray[Any]](), model
        for n, link in enumerate(self.links):
            own: State = {
                key.split("/", 1)[1]: values for key, values in state.items() if key.startswith(self._prefix(n))
            }
            if link.role == "guard":
                own, uploads = link.part.guard(own, model, uploads)
                if not uploads:
                    return {**state, **new, **self._named(n, own)}, model
            elif link.role == "apply":
                own, proposed = link.checked(model, link.part.apply(own, model, uploads))
            else:
                own, proposed = link.checked(model, link.part.step(own, model, proposed))
            new |= self._named(n, _checked(link.wish, own))
        return new, proposed

    def _prefix(self, number: int) -> str:
        return f"{number}-{self.links[number].wish.name}/"

    def _named(self, number: int, state: State) -> dict[str, NDArray[Any]]:
        return {f"{self._prefix(number)}{key}": values for key, values in state.items()}


def _checked(wish: Wish, state: Any) -> State:
    arrays = isinstance(state, Mapping) and all(isinstance(each, np.ndarray) for each in state.values())
    if not arrays:
        raise InputError(f"rule {wish.name} must keep its state as named arrays, got {state!r:.80}")
    return state


def rule_named(text: str) -> Chain:
    """The chain of links with these names; without a way to combine, that is the mean."""
    links = [Link.of(RULES.build(wish), wish) for wish in map(RULES.parse, text.split("+"))]
    _check_order(text, [link.role for link in links])
    if not any(link.role == "apply" for link in links):
        place = sum(link.role == "guard" for link in links)
        links.insert(place, Link.of(RULES.build("mean"), Wish("mean")))
    if (ways := sum(link.role == "apply" for link in links)) != 1:
        raise InputError(f"rule must have one way to combine uploads, got {ways} in {text!r}")
    return Chain(tuple(links))


def _check_order(text: str, roles: Sequence[str]) -> None:
    for before, after in pairwise(roles):
        if _ROLES.index(before) > _ROLES.index(after):
            raise InputError(
                f"rule must have guards, then a way to combine, then steps of the server: in {text!r} {_WORDS[before]}"
                f" stands before {_WORDS[after]}"
            )


def merge(rule: Rule, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights, list[str]]:
    """The rule's new state, the next model, and why uploads were rejected. Without a good upload nothing changes."""
    good, rejections = sorted_out(model, uploads)
    if not good:
        return state, model, rejections
    state, new = rule.apply(state, model, good)
    return state, new, rejections
