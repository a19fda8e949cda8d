"""A policy: after a round without an upload, take fewer local steps. `--plan my_policy:Careful:most=20`."""

import mobfl


class Careful:
    """Halves H after an empty round, and adds one step after any other."""

    def __init__(self, most: int = 24, round_s: float = 12.0) -> None:
        self.most, self.round_s, self.local_steps = most, round_s, most

    def next_order(self, seen: mobfl.Rounds | None) -> mobfl.Order:
        if seen is None:  # a run begins
            self.local_steps = self.most
        else:
            empty = int(seen.uploads[-1]) == 0
            self.local_steps = max(1, self.local_steps // 2) if empty else min(self.most, self.local_steps + 1)
        return mobfl.Order(self.local_steps, self.round_s)
