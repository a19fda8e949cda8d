"""A schedule: every vehicle trains once, as it arrives; each upload is a server step. `--plan my_schedule:OnceEach`."""

from collections.abc import Iterator

import mobfl


class OnceEach:
    """One training per visit, merged in the order in which uploads arrive."""

    makes_stale, rule = True, "clip+fedasync"

    def __init__(self, local_steps: int = 10) -> None:
        self.local_steps = local_steps

    def steps(self, site: mobfl.Site) -> Iterator[mobfl.ServerStep]:
        done = [(each.enter_s + site.delay_s(each, 0, self.local_steps), each) for each in site.vehicles()]
        in_time = sorted((at_s, each.order, each) for at_s, each in done if each.can_finish_at(at_s))
        ends = [at_s for at_s, _, _ in in_time]
        before_s = 0.0
        for number, (end_s, _, vehicle) in enumerate(in_time):
            version = sum(at_s <= vehicle.enter_s for at_s in ends)  # the model that was there as it arrived
            later = frozenset(sum(at_s <= each.enter_s for at_s in ends) for _, _, each in in_time[number + 1 :])
            upload = mobfl.Contribution(vehicle.key, 0, version, vehicle.enter_s, self.local_steps)
            yield mobfl.ServerStep(number, before_s, end_s, self.local_steps, 1, (upload,), later)
            before_s = end_s
