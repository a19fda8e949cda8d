"""The controller as a policy of simulated rounds."""

from mobfl.planning.radio import as_constants
from mobfl.policies.adaptive.choices import Chooser, OneH
from mobfl.policies.adaptive.controller import Controller, Settings
from mobfl.policies.adaptive.watching import Watcher
from mobfl.rounds.orders import Order
from mobfl.rounds.rows import Rounds
from mobfl.scenario import Scenario
from mobfl.theory import Delays


class AdaptivePolicy:
    """H and T that follow the traffic, or T alone.

    Asked for a first order it starts again, so that runs repeat and resume.
    """

    def __init__(
        self, prior: Scenario, delays: Delays, settings: Settings | None = None, chooser: Chooser | None = None
    ) -> None:
        self._prior, self.settings, self.chooser = as_constants(prior), settings or Settings(), chooser or OneH()
        self._transfer_s = delays.transfer_s  # which only shows in how long replies take
        self._begin()

    def _begin(self) -> None:
        self.controller, self._watcher = Controller(self._prior, self.settings, self.chooser), Watcher(self._transfer_s)

    def next_order(self, seen: Rounds | None) -> Order:
        if seen is None:
            self._begin()
        else:
            self.controller.observe(self._watcher.see(seen))
        return self.controller.order()
