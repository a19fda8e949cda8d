"""What vehicles spend, lost work included: booked as it begins, and read from one server step to the next."""

from heapq import heappop, heappush
from itertools import count

from mobfl.servers.steps import Effort


class Efforts:
    """Downloads, uploads and seconds of training that have begun and belong to no server step yet."""

    def __init__(self, download_s: float) -> None:
        self._download_s, self._numbers = download_s, count()
        self._begun = list[tuple[float, int, Effort]]()

    def book(self, begin_s: float, compute_s: float, stop_s: float, rounding_s: float, wait_s: float = 0.0) -> None:
        """A training that is cut off at `stop_s`; its upload waits so long for its turn."""
        train_s = begin_s + self._download_s
        send_s = train_s + compute_s + wait_s
        self._add(begin_s, Effort(downloads=1))
        if train_s < stop_s:
            self._add(train_s, Effort(compute_s=min(compute_s, stop_s - train_s)))
        if send_s <= stop_s + rounding_s:
            self._add(send_s, Effort(uploads=1))

    def _add(self, at_s: float, effort: Effort) -> None:
        heappush(self._begun, (at_s, next(self._numbers), effort))

    def until(self, end_s: float) -> Effort:
        """What has begun by now and was not told before."""
        total = Effort()
        while self._begun and self._begun[0][0] <= end_s:
            total += heappop(self._begun)[2]
        return total
