"""Contact-time uploads: what there is no time to send whole is sent in part.

J. Yan et al., "Mobility-Aware Asynchronous Federated Learning with Dynamic Sparsification" (MADS), arXiv:2506.07328,
2025: the largest k numbers of the change are sent, and k follows from the contact time and the staleness. Here only
the contact time counts: a vehicle takes H steps, and if it leaves before a whole upload could be complete, it sends as
many bytes as the link carries in the time left. What these bytes hold is the codec's matter (`--codec topk`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from typing import Any, ClassVar

from mobfl.errors import InputError
from mobfl.servers.asynchronous import Undertaking, asynchronous_steps, first_uploads
from mobfl.servers.choice import PlanRequest
from mobfl.servers.leaving import Leaving
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import ServerStep, check_local_steps
from mobfl.theory import Knows

_ROUNDING_BYTES = 1e-6  # so that 0.7 s at 1000 bytes a second are 700


@dataclass(frozen=True)
class ContactBytes:
    """Asynchronous with H steps; who leaves before its upload is complete sends as many bytes as there is time for."""

    name: ClassVar[str] = "mads"
    rule: ClassVar[str] = "clip+damped"
    makes_stale: ClassVar[bool] = True
    sets_budget: ClassVar[bool] = True

    local_steps: int
    leaving: Leaving
    bytes_per_s: float  # of the uplink
    least_share: float  # of a whole upload, below which nothing is sent

    @property
    def least(self) -> str:
        return first_uploads(1)

    def describe(self) -> dict[str, Any]:
        known = {**self.leaving.describe(), "least_share": self.least_share}
        return {"policy": self.name, "local_steps": self.local_steps, "round_s": None, **known}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        leaves_s, upload_s = self.leaving.on(site), site.delays.upload_s

        def set_out(vehicle: Vehicle, attempt: int, part: int, at_s: float) -> Undertaking | None:
            compute_s = site.delay_s(vehicle, attempt, self.local_steps) - site.delays.transfer_s
            ready_s = at_s + site.delays.download_s + compute_s
            left_s = leaves_s(vehicle) - ready_s
            if left_s + vehicle.rounding_s >= upload_s:
                return Undertaking(self.local_steps, compute_s, ready_s + upload_s, part)
            if left_s < self.least_share * upload_s:
                return None
            budget = floor(left_s * self.bytes_per_s + _ROUNDING_BYTES)
            return Undertaking(self.local_steps, compute_s, ready_s + left_s, part, budget)

        return asynchronous_steps(site, set_out, 1)


def mads(
    request: PlanRequest, local_steps: int, knows: Knows = "leaving", error: float = 0.0, least_share: float = 0.01
) -> ContactBytes:
    """Asynchronous with H steps; what there is no time to send whole is sent in part (MADS, with --codec topk)."""
    check_local_steps(ContactBytes.name, local_steps)
    if knows == "nothing":
        raise InputError(
            "plan mads must have knows=mean or knows=leaving, from which the time left follows, got nothing"
        )
    if not 0 < least_share <= 1:
        raise InputError(f"plan mads must have a least_share > 0 and <= 1, got {least_share:g}")
    link = request.scenario.link
    if link.uplink_bps is None:
        raise InputError(
            "plan mads must have a link of link.downlink_bps and link.uplink_bps, from which bytes follow, got"
            f" {'one in seconds' if request.scenario.radio is None else 'a radio'}"
        )
    leaving = Leaving.asked(ContactBytes.name, knows, error, request)
    return ContactBytes(int(local_steps), leaving, float(link.uplink_bps) / 8, float(least_share))
