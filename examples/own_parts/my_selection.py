"""A selection: those who came last. `--plan selected:10,8,by=my_selection:Newest,slots=2`."""

from collections.abc import Sequence

import mobfl


class Newest:
    """Those who came last: one more after a round in which all of them uploaded, one fewer after any other."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = self.now = slots

    def choose(
        self,
        there: Sequence[mobfl.Candidate],
        ahead: mobfl.RoundAhead,
        seen: Sequence[tuple[mobfl.Candidate, bool]] | None,
    ) -> Sequence[mobfl.Candidate]:
        if seen is None:  # a run begins
            self.now = self.slots
        elif seen:
            self.now = self.now + 1 if all(uploaded for _, uploaded in seen) else max(1, self.now - 1)
        in_time = [each for each in there if ahead.download_s + each.compute_s + ahead.upload_s <= each.left_s]
        return sorted(in_time, key=lambda each: each.stayed_s)[: self.now]
