"""Who of those present takes part in a round: selections, found by name (`--plan selected:24,12,by=fedcs`).

A part has `choose(there, ahead, seen)`. It sees only what a base station knows as a round begins and what became of
those whom it chose before, so it could be asked on real nodes as in simulation.
"""

from mobfl.servers.selections.protocol import SELECTIONS, Candidate, RoundAhead, Seen, Selection

__all__ = ["SELECTIONS", "Candidate", "RoundAhead", "Seen", "Selection"]
