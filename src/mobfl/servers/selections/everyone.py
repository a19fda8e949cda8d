"""No selection: whoever is there as a round begins takes part. What the others are compared with."""

from collections.abc import Sequence

from mobfl.servers.selections.protocol import Candidate, RoundAhead, Seen


class Everyone:
    """Whoever is there as the round begins."""

    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:  # noqa: ARG002
        return there
