"""Early upload: a vehicle that cannot take all H steps in time stops and uploads what it has.

As CAIROS has it: training ends when the contact window closes, not when H steps are done. The paper's text was not at
hand; this is its rule as others tell it. Anytime rounds are the same without a bound H on the steps.
"""

from mobfl.servers.choice import PlanRequest
from mobfl.servers.contact_rounds import ContactRounds
from mobfl.servers.leaving import Leaving
from mobfl.theory import Knows


def early(
    request: PlanRequest, local_steps: int, round_s: float, knows: Knows = "nothing", error: float = 0.0
) -> ContactRounds:
    """Rounds of H,T in which who cannot take all H steps in time uploads after fewer (CAIROS)."""
    return ContactRounds("early", local_steps, round_s, Leaving.asked("early", knows, error, request), ends_early=True)
