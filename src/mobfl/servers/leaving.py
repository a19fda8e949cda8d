"""What is known of a vehicle's leaving: nothing, the mean stay on this road, or its own, exactly or with an error."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mobfl.errors import InputError
from mobfl.mobility.predicting import NO_WAYS
from mobfl.rounds.fitting import expected_stay_s
from mobfl.rounds.orders import AsManyAsFit, check_error
from mobfl.servers.anytime import mean_stay_s
from mobfl.servers.choice import PlanRequest
from mobfl.servers.site import Site, Vehicle
from mobfl.theory import KNOWLEDGE, Knows

# What is predicted from the way left changes with every instant, and is asked for once here.
_KNOWN = tuple(knows for knows in KNOWLEDGE if knows != "predicted")


@dataclass(frozen=True)
class Leaving:
    """When a vehicle is expected to leave.

    The mean stay is what a base station knows of its road. That a vehicle knows its own leaving is an assumption.
    """

    knows: Knows
    mean_stay_s: float
    error: float = 0.0  # of the stay that a vehicle predicts for itself, as a share (a standard deviation)

    @classmethod
    def asked(cls, plan: str, knows: Knows, error: float, request: PlanRequest) -> "Leaving":
        """As a plan's parameters have it."""
        if knows not in _KNOWN:
            raise InputError(f"plan {plan} must have knows one of {', '.join(_KNOWN)}, got {knows!r}")
        check_error(plan, knows, error)
        return cls(knows, mean_stay_s(request), error)

    def describe(self) -> dict[str, Any]:
        return {"knows": self.knows, **({"error": self.error} if self.knows == "leaving" else {})}

    def on(self, site: Site) -> Callable[[Vehicle], float]:
        """When each vehicle of this site is expected to leave, as in anytime rounds: never, if nothing is known."""
        fitting = site.draws.fitting(AsManyAsFit(self.knows, self.mean_stay_s, self.error))
        return lambda each: float(expected_stay_s(fitting, each.key, 0.0, each.enter_s, each.leave_s, NO_WAYS, -1))
