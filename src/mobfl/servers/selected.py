"""Rounds for those whom a selection chooses, with H steps or as many as fit."""

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from mobfl.errors import InputError
from mobfl.parts import Wish
from mobfl.servers.choice import PlanRequest
from mobfl.servers.contact_rounds import ContactRounds
from mobfl.servers.leaving import Leaving
from mobfl.servers.selections import SELECTIONS, Selection
from mobfl.theory import Knows


@dataclass(frozen=True)
class NamedSelection:
    """A selection, and how it was asked for."""

    part: Selection
    wish: Wish

    @classmethod
    def of(cls, wish: Wish) -> "NamedSelection":
        return cls(SELECTIONS.build(wish), wish)

    def describe(self) -> dict[str, Any]:
        """Its name and all of its parameters where it is a dataclass, else those that were given."""
        part: Any = self.part
        values = asdict(part) if is_dataclass(part) and not isinstance(part, type) else dict(self.wish.values)
        return {"by": self.wish.name, **{key: value for key, value in values.items() if not key.startswith("_")}}


def selected(
    request: PlanRequest,
    local_steps: int | None,
    round_s: float,
    by: str | NamedSelection = "fedcs",
    knows: Knows = "mean",
    error: float = 0.0,
) -> ContactRounds:
    """Rounds of H,T (or fit,T: as many steps as fit) for those whom a selection chooses: by=NAME and its parameters."""
    chosen = by if isinstance(by, NamedSelection) else NamedSelection.of(SELECTIONS.parse(by))
    leaving = Leaving.asked("selected", knows, error, request)
    if knows == "nothing" and getattr(chosen.part, "needs_leaving", False):
        raise InputError(
            f"selection {chosen.wish.name} goes by when vehicles leave: plan selected must have knows=mean or"
            " knows=leaving, got nothing"
        )
    if local_steps is None and getattr(chosen.part, "needs_steps", False):
        raise InputError(f"selection {chosen.wish.name} goes by how long H steps take: it must have an H, got fit")
    words = tuple(chosen.describe().items())
    return ContactRounds("selected", local_steps, round_s, leaving, selection=chosen.part, selection_words=words)
