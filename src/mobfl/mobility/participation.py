"""Which of the recorded vehicles take part."""

from mobfl.mobility.crossings import Crossings
from mobfl.rng import stream, uniforms


def taking_part(crossings: Crossings, share: float, seed: int) -> Crossings:
    """The vehicles that take part: the same ones for the same seed, whatever the plan and the station."""
    if share == 1:
        return crossings
    return crossings.take(uniforms(stream(seed, "participation"), crossings.vehicle_keys) <= share)
