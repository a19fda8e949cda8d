"""How long a vehicle waits: for its next order, and before it calls again a base station that does not answer."""

import random
from collections.abc import Iterator

_DUE_S = 0.1  # between two looks when an order should be there any moment,
_DUE_FOR_S = 3.0  # which is so from when it is due on, and
_EARLY_S = 0.2  # a little before, as clocks differ
_IDLE_S = 0.4  # when one may come at any time
_RESTING_S = 2.0  # when there is none before the round is over
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 2.0


class Attention:
    """A vehicle looks often when an order is due: as it joins, and when the round that it was in is over.

    Every look costs the base station some milliseconds, which all its vehicles share.
    """

    def __init__(self, joined_unix_s: float) -> None:
        self._due_unix_s = joined_unix_s

    def expect(self, due_unix_s: float) -> None:
        self._due_unix_s = due_unix_s

    def wait_s(self, now_unix_s: float) -> float:
        """Until the next look; jittered, so that vehicles that joined together do not stay in step."""
        until_due_s = self._due_unix_s - _EARLY_S - now_unix_s
        if until_due_s > 0:
            return min(_jittered(_RESTING_S), until_due_s)
        return _jittered(_DUE_S if until_due_s > -_DUE_FOR_S else _IDLE_S)


def retries_s() -> Iterator[float]:
    """Waits before calling again: doubling from a tenth of a second, never above two."""
    wait_s = _FIRST_RETRY_S
    while True:
        yield _jittered(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_RETRY_S)


def _jittered(wait_s: float) -> float:
    return wait_s * random.uniform(0.6, 1.0)
