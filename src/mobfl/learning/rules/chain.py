"""A rule is a chain of links: guards, one way to combine, steps of the server. `clip+median+adam:rate=0.01`."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, is_dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, PartError
from mobfl.learning.heldout import HeldoutLoss
from mobfl.learning.rules.along import SendsAlong
from mobfl.learning.rules.draws import Draw
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
        "cap": f"{_PLACE}.cap:Cap",
        "heldout": f"{_PLACE}.heldout:Heldout",
        "scaffold": f"{_PLACE}.scaffold:Scaffold",
        "mean": f"{_PLACE}.mean:Mean",
        "median": f"{_PLACE}.median:Median",
        "trimmed": f"{_PLACE}.trimmed:Trimmed",
        "krum": f"{_PLACE}.krum:Krum",
        "private": f"{_PLACE}.private:Private",
        "steps": f"{_PLACE}.steps:ByStepsMean",
        "fednova": f"{_PLACE}.fednova:FedNova",
        "fedasync": f"{_PLACE}.fedasync:FedAsync",
        "fedbuff": f"{_PLACE}.fedbuff:FedBuff",
        "damped": f"{_PLACE}.damped:Damped",
        "afl": f"{_PLACE}.afl:DelayWeights",
        "momentum": f"{_PLACE}.momentum:ServerMomentum",
        "adam": f"{_PLACE}.adam:ServerAdam",
        "yogi": f"{_PLACE}.yogi:ServerYogi",
    },
)
# What schedules go by unless a rule is named: one upload can neither be far from the model nor weigh more than others.
GUARDED_MEAN = "clip+cap+mean"
_ROLES = ("guard", "apply", "step")  # in the order in which they stand in a chain
_ALONG = ("download", "correction", "upload")  # of a link that sends arrays along
_WORDS = {"guard": "a guard", "apply": "a way to combine", "step": "a step of the server"}


class Rule(Protocol):
    """Knows nothing of time and roads. It is asked only where there is at least one good upload.

    One with `hides_content` is a `Chain` and asked wherever anybody answered.
    """

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
    heldout: HeldoutLoss | None = None  # for a guard that asks what models score

    @classmethod
    def of(cls, part: Any, wish: Wish) -> "Link":
        roles = [role for role in _ROLES if callable(getattr(part, role, None))]
        if len(roles) != 1:
            raise InputError(f"rule {wish.name} must have one of the methods {', '.join(_ROLES)}, got {len(roles)}")
        along = [method for method in _ALONG if callable(getattr(part, method, None))]
        if along and len(along) < len(_ALONG):
            raise InputError(
                f"rule {wish.name} must have all of the methods {', '.join(_ALONG)} to send arrays along, got"
                f" {' and '.join(along)}"
            )
        return cls(part, roles[0], wish)

    @property
    def draws(self) -> bool:
        """Whether its method is given a random generator too."""
        return bool(getattr(self.part, "draws", False))

    @property
    def needs_heldout(self) -> bool:
        """Whether its method is given the loss on held-out samples too."""
        return bool(getattr(self.part, "needs_heldout", False))

    @property
    def hides_content(self) -> bool:
        """Whether nobody may tell from the model what was in an upload: it is asked too where none is good."""
        return bool(getattr(self.part, "hides_content", False))

    @property
    def sends_along(self) -> bool:
        """Whether arrays of its own go down with the model and up with the weights (`SendsAlong`)."""
        return callable(getattr(self.part, "download", None))

    def called(self, place: int, draw: Draw | None, *given: Any) -> Any:
        """What its method makes of a state and more; `place` is its own in the chain."""
        if self.needs_heldout:
            if self.heldout is None:
                raise InputError(f"rule {self.wish.name} needs a task with the method heldout_loss, got none")
            given = (*given, self.heldout)
        if self.draws:
            if draw is None:
                raise ValueError(f"rule {self.wish.name} draws, and was given nothing to draw from")
            given = (*given, draw(place))
        return getattr(self.part, self.role)(*given)

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

    def __post_init__(self) -> None:
        guards = [link for link in self.links if link.role == "guard"]
        if guards and self.hides_content:
            hiding = next(link.wish.name for link in self.links if link.hides_content)
            raise InputError(
                f"rule {hiding} must have no guard before it, got {guards[0].wish.name}: what a guard does to one"
                f" upload may depend on the others', which {hiding} could not account for"
            )
        if len(along := [link.wish.name for link in self.links if link.sends_along]) > 1:
            raise InputError(f"rule must have one link that sends arrays along, got {' and '.join(along)}")

    def __str__(self) -> str:
        return "+".join(map(str, self.links))

    @property
    def needs_staleness(self) -> bool:
        return any(getattr(link.part, "needs_staleness", False) for link in self.links)

    @property
    def hides_content(self) -> bool:
        return any(link.hides_content for link in self.links)

    @property
    def needs_heldout(self) -> bool:
        return any(link.needs_heldout for link in self.links)

    @property
    def along(self) -> SendsAlong | None:
        """The link that sends arrays beside the model, if there is one."""
        return next((link.part for link in self.links if link.sends_along), None)

    def download(self, state: State) -> Weights:
        """What goes down beside the model: nothing for most rules."""
        found = [(n, link) for n, link in enumerate(self.links) if link.sends_along]
        return dict(found[0][1].part.download(self._own(found[0][0], state))) if found else {}

    def with_heldout(self, loss: HeldoutLoss | None) -> "Chain":
        """The same chain, whose links may ask what a model's loss on held-out samples is."""
        return Chain(tuple(replace(link, heldout=loss) for link in self.links))

    def init(self, model: Weights) -> State:
        return {
            key: values for n, link in enumerate(self.links) for key, values in self._named(n, link.init(model)).items()
        }

    def apply(
        self, state: State, model: Weights, uploads: Sequence[Upload], draw: Draw | None = None
    ) -> tuple[State, Weights]:
        state, kept, _ = self.guarded(state, model, uploads, draw)
        return self.combined(state, model, kept, draw) if kept or self.hides_content else (state, model)

    def guarded(
        self, state: State, model: Weights, uploads: Sequence[Upload], draw: Draw | None = None
    ) -> tuple[State, Sequence[Upload], list[str]]:
        """What the guards let through, and for each upload that they drop, who did."""
        refused = list[str]()
        for n, link in enumerate(self.links):
            if link.role == "guard" and uploads:
                own, kept = link.called(n, draw, self._own(n, state), model, uploads)
                state = self._with_own(n, state, own)
                refused += [f"refused by {link.wish.name}"] * (len(uploads) - len(kept))
                uploads = kept
        return state, uploads, refused

    def combined(
        self, state: State, model: Weights, uploads: Sequence[Upload], draw: Draw | None = None
    ) -> tuple[State, Weights]:
        """One model of the uploads that the guards let through, and how far the server goes towards it."""
        proposed = model
        for n, link in enumerate(self.links):
            if link.role == "guard":
                continue
            given = uploads if link.role == "apply" else proposed
            own, proposed = link.checked(model, link.called(n, draw, self._own(n, state), model, given))
            state = self._with_own(n, state, own)
        return state, proposed

    def _prefix(self, number: int) -> str:
        return f"{number}-{self.links[number].wish.name}/"

    def _named(self, number: int, state: State) -> dict[str, NDArray[Any]]:
        return {f"{self._prefix(number)}{key}": values for key, values in state.items()}

    def _own(self, number: int, state: State) -> State:
        prefix = self._prefix(number)
        return {key.removeprefix(prefix): values for key, values in state.items() if key.startswith(prefix)}

    def _with_own(self, number: int, state: State, own: State) -> State:
        others = {key: values for key, values in state.items() if not key.startswith(self._prefix(number))}
        return others | self._named(number, _checked(self.links[number].wish, own))


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


def chain_of(rule: str | Rule) -> Chain:
    """A rule by its name, or one of somebody's own, as a chain."""
    if isinstance(rule, str):
        return rule_named(rule)
    return rule if isinstance(rule, Chain) else Chain((Link.of(deepcopy(rule), Wish(type(rule).__name__)),))


def _check_order(text: str, roles: Sequence[str]) -> None:
    for before, after in pairwise(roles):
        if _ROLES.index(before) > _ROLES.index(after):
            raise InputError(
                f"rule must have guards, then a way to combine, then steps of the server: in {text!r} {_WORDS[before]}"
                f" stands before {_WORDS[after]}"
            )


SPOILT = "spoilt the model"


class Merged(NamedTuple):
    """What a rule makes of a step's uploads.

    Args:
        state: The rule's new state.
        model: The next model.
        rejections: Why uploads were rejected.
        counted: Those that the model is made of, as guards have left them: of a claim that was capped, what remains.
    """

    state: State
    model: Weights
    rejections: list[str]
    counted: Sequence[Upload]


def merge(
    rule: Chain,
    state: State,
    model: Weights,
    uploads: Sequence[Upload],
    is_sound: Callable[[Weights], bool] = lambda _: True,
    draw: Draw | None = None,
    refused: int = 0,
) -> tuple[State, Weights, list[str]]:
    """The rule's new state, the next model, and why uploads were rejected; see `merged_from`."""
    return merged_from(rule, state, model, uploads, is_sound, draw, refused)[:3]


def merged_from(
    rule: Chain,
    state: State,
    model: Weights,
    uploads: Sequence[Upload],
    is_sound: Callable[[Weights], bool] = lambda _: True,
    draw: Draw | None = None,
    refused: int = 0,
) -> Merged:
    """What the rule makes of the uploads. Without a good upload nothing changes.

    Nor does it where what the rule proposes is not sound: nobody can tell which of its uploads has spoilt it. A rule
    that hides what was in uploads is asked wherever anybody answered: `refused` counts answers that were not even
    uploads.
    """
    good, rejections = sorted_out(model, uploads)
    hides = bool(uploads or refused) and rule.hides_content
    if not (good or hides):
        return Merged(state, model, rejections, ())
    guarded, kept, dropped = rule.guarded(state, model, good, draw)
    if not (kept or hides):
        return Merged(guarded, model, [*rejections, *dropped], ())
    combined, new = rule.combined(guarded, model, kept, draw)
    if not is_sound(new):
        return Merged(state, model, [*rejections, *dropped, *([SPOILT] * len(kept))], ())
    return Merged(combined, new, [*rejections, *dropped], kept)
