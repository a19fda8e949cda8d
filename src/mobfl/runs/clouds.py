"""The cloud above the stations: what is handed in to it, its averages, and how these come to the stations.

Models are weighted by D summed over the uploads to the station since it last handed in its model: who had none is left
out, though the average comes to it as well (HierFAVG; see `mobfl.servers.city`). What a station has learnt since it
handed in its model is added to the average that comes to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mobfl.learning.rules.mean import weighted_mean
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, added
from mobfl.rounds.rules import TIME_ROUNDING
from mobfl.runs.checkpoint import CloudState
from mobfl.scenario import Cloud
from mobfl.servers.city import Average


class CloudModel:
    """The cloud of a run; its state is never changed in place."""

    def __init__(
        self, table: Cloud, stations: int, begun: CloudState | None, is_sound: Callable[[Weights], bool]
    ) -> None:
        self._equal, self._is_sound = table.weights == "equal", is_sound
        self.state = begun or CloudState((0,) * stations)

    def count(self, place: int, samples: int) -> None:
        """Takes note of the samples behind a station's step."""
        if samples:
            each = list(self.state.samples)
            each[place] += samples
            self.state = replace(self.state, samples=tuple(each))

    def hand_in(self, models: Sequence[Weights]) -> None:
        shares = {place: 1.0 if self._equal else float(d) for place, d in enumerate(self.state.samples) if d}
        handed = dict(enumerate(models))
        self.state = replace(self.state, samples=(0,) * len(models), handed=handed, shares=shares)

    def average(self, event: Average) -> tuple[int, bool]:
        """Averages what was handed in: of how many stations, and whether the average is adopted."""
        handed, shares = self.state.handed, self.state.shares
        found = weighted(handed, shares) if shares else {}
        sound = bool(shares) and self._is_sound(found)
        self.state = replace(self.state, handed={}, shares={})
        if sound:
            self.state = replace(self.state, average=found, comes_s=event.comes_s, sent=handed)
        return len(shares), sound

    def brings(self, place: int, at_s: float, latest: Weights) -> Weights | None:
        """What a station goes on with between two of its rounds at this instant; None if nothing has come for it."""
        state = self.state
        if place not in state.sent or at_s < state.comes_s * (1 - TIME_ROUNDING):
            return None
        sent = state.sent[place]
        self.state = replace(state, sent={other: model for other, model in state.sent.items() if other != place})
        unmoved = latest is sent or all(np.array_equal(latest[name], values) for name, values in sent.items())
        return state.average if unmoved else added(state.average, latest, sent)


def weighted(models: Mapping[int, Weights], shares: Mapping[int, float]) -> Weights:
    """The mean of the models that have a share, summed in double precision in the stations' order; of one, itself."""
    places = sorted(shares)
    if len(places) == 1:
        return models[places[0]]
    uploads = [Upload(models[place], 1) for place in places]
    return weighted_mean(models[places[0]], uploads, [shares[place] for place in places])
