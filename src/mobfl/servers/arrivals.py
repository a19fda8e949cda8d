"""Vehicles in the order of entering, taken in as time goes on."""

from collections.abc import Iterator

from mobfl.servers.site import Vehicle


class Arrivals:
    """Those who are still to come, of whom the next one is known."""

    def __init__(self, vehicles: Iterator[Vehicle]) -> None:
        self._vehicles = vehicles
        self.coming = next(vehicles, None)

    def by(self, at_s: float) -> Iterator[Vehicle]:
        """Those who have entered by now, each once."""
        while self.coming is not None and self.coming.enter_s <= at_s:
            yield self._next()

    def before(self, at_s: float) -> Iterator[Vehicle]:
        """The same without those who enter at this very moment."""
        while self.coming is not None and self.coming.enter_s < at_s:
            yield self._next()

    def _next(self) -> Vehicle:
        coming, self.coming = self.coming, next(self._vehicles, None)
        assert coming is not None
        return coming
