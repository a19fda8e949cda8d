"""The cloud above the stations: what is handed in to it, its averages, and how these come to the stations.

Models are weighted by D summed over the uploads to the station since it last handed in its model: who had none is left
out, though the average comes to it as well (HierFAVG; see `mobfl.servers.city`). What a station has learnt since it
handed in its model is added to the average that comes to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mobfl.learning.rules.mean import weighted_mean
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, added, same
from mobfl.rounds.rules import TIME_ROUNDING
from mobfl.runs.checkpoint import CloudState
from mobfl.scenario import Cloud
from mobfl.servers.city import Average


class CloudModel:
    """The cloud of a run; its state is never changed in place.

    Args:
        table: What the scenario says of it.
        stations: How many there are.
        begun: Where it is.
        is_sound: Whether an average may come to the stations.
        times: No station counts for more samples per upload than so many times what is usual.
    """

    def __init__(
        self, table: Cloud, stations: int, begun: CloudState | None, is_sound: Callable[[Weights], bool], times: float
    ) -> None:
        self._equal, self._is_sound, self._times = table.weights == "equal", is_sound, times
        self.state = begun or CloudState((0,) * stations, uploads=(0,) * stations)

    def count(self, place: int, counted: Sequence[Upload]) -> None:
        """Takes note of the uploads behind a station's step."""
        samples, uploads = list(self.state.samples), list(self.state.uploads)
        samples[place] += sum(upload.samples for upload in counted)
        uploads[place] += len(counted)
        self.state = replace(self.state, samples=tuple(samples), uploads=tuple(uploads))

    def hand_in(self, models: Sequence[Weights]) -> None:
        none = (0,) * len(models)
        shares = shares_of(self.state.samples, self.state.uploads, self._times)
        if self._equal:
            shares = dict.fromkeys(shares, 1.0)
        self.state = replace(self.state, samples=none, uploads=none, handed=dict(enumerate(models)), shares=shares)

    def average(self, event: Average) -> tuple[int, bool]:
        """Averages what was handed in: of how many stations, and whether the average is adopted."""
        handed, shares = self.state.handed, self.state.shares
        found = weighted(handed, shares) if shares else {}
        sound = bool(shares) and self._is_sound(found)
        self.state = replace(self.state, handed={}, shares={})
        if sound:
            self.state = replace(self.state, average=found, comes_s=event.comes_s, sent=handed)
        return len(shares), sound

    def has_come(self, place: int, at_s: float) -> bool:
        """Whether there is something for a station between two of its rounds at this instant."""
        return place in self.state.sent and at_s >= self.state.comes_s * (1 - TIME_ROUNDING)

    def brings(self, place: int, at_s: float, latest: Weights) -> Weights | None:
        """What a station goes on with between two of its rounds at this instant; None if nothing has come for it."""
        state = self.state
        if not self.has_come(place, at_s):
            return None
        sent = state.sent[place]
        self.state = replace(state, sent={other: model for other, model in state.sent.items() if other != place})
        return state.average if same(latest, sent) else added(state.average, latest, sent)


def shares_of(samples: Sequence[int], uploads: Sequence[int], times: float) -> dict[int, float]:
    """The weight of each station that had uploads, by its place: D, of which nobody can claim any amount.

    What a vehicle says of D is bounded by the others of its round. One that is alone there is bounded here: no station
    counts for more samples per upload than `times` the stations' median, of an even number the lower one.
    """
    usual = sorted(d / n for d, n in zip(samples, uploads, strict=True) if d)
    most = times * usual[(len(usual) - 1) // 2] if usual else 0.0
    return {place: min(float(d), most * n) for place, (d, n) in enumerate(zip(samples, uploads, strict=True)) if d}


def weighted(models: Mapping[int, Weights], shares: Mapping[int, float]) -> Weights:
    """The mean of the models that have a share, summed in double precision in the stations' order; of one, itself."""
    places = sorted(shares)
    if len(places) == 1:
        return models[places[0]]
    uploads = [Upload(models[place], 1) for place in places]
    return weighted_mean(models[places[0]], uploads, [shares[place] for place in places])
