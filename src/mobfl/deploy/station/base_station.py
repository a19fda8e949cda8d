"""The base station between its rounds: from what came back to the next model, its row on disk, and the next order.

Uploads are averaged by the function that simulation uses, and the run's folder is the same. A checkpoint is written
after every round, before the next one begins: a server that is killed loses the round it was in, no more.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from mobfl.deploy.events import Event, EventLog
from mobfl.deploy.station.evaluations import Evaluations
from mobfl.deploy.station.round_loop import Attempt, RoundSeen, RoundWork, as_rounds
from mobfl.deploy.station.settling import Settled
from mobfl.deploy.station.windows import Present
from mobfl.learning.accounting import ledger_of
from mobfl.learning.rates import learning_rate
from mobfl.learning.rules.draws import secret_draw
from mobfl.rounds.orders import FOREVER, AsManyAsFit, Order, Policy
from mobfl.rounds.rows import Rounds, joined
from mobfl.runs.adoption import Adoption
from mobfl.runs.costs import Costs
from mobfl.runs.divergence import divergence
from mobfl.runs.history import Row
from mobfl.runs.loop import Learnt, row_of
from mobfl.runs.recording import Recording
from mobfl.servers.rounds import single_steps


class Orders:
    """A policy's orders round by round; told of rounds that were run before, it is where it was then."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._seen = policy, list[Rounds]()
        self.now: Order = policy.next_order(None)

    def add(self, seen: Rounds) -> None:
        if self.now.rounds == FOREVER:
            return
        self._seen.append(seen)
        if len(self._seen) == self.now.rounds:
            self.now, self._seen = self._policy.next_order(joined(self._seen)), []


class BaseStation:
    """Gives the work of each round, and takes in what came of it."""

    def __init__(self, settled: Settled, recording: Recording, log: EventLog) -> None:
        self._job, self._recording, self._log = settled.job, recording, log
        self._site, self._orders = settled.job.site, Orders(settled.policy)
        self._adoption = Adoption(settled.job, recording.last)
        self._verdicts = list[tuple[int, float]]()  # of the full evaluation, on models that were handed out
        self._told_back = set[int]()  # the rounds that the log has as taken back
        # By node: whoever comes back as another node is another vehicle to it.
        self._ledger = ledger_of(settled.job.server.rule)
        recording.more_results = lambda _: {} if self._ledger is None else {"privacy": self._ledger.results()}
        self._transfer_s, self._costs = self._site.delays.transfer_s, Costs.of(settled.job)
        scores = recording.scores
        # Else it was killed before that, or as it ended, when a model that was taken back is not served any more.
        known = not math.isnan(scores["loss"]) or len(recording.rows) - 1 in recording.last.taken_back
        self._evaluations = Evaluations(self._job.task.evaluate, self._adoption.served, scores if known else None)
        if known:
            self._verdicts.append((recording.last.rounds, scores["loss"]))
        else:
            self._evaluations.add(len(recording.rows) - 1, self._adoption.served)

    @property
    def _scores(self) -> list[str]:
        return ["loss", *(kpi.name for kpi in self._job.task.kpis)]

    @property
    def next_start_s(self) -> float:
        """On the traffic's clock: where the last round ended."""
        rows = self._recording.rows
        return self._site.start_s + (rows[-1]["end_s"] if rows else 0.0)

    def remember(self, events: Iterable[Event]) -> dict[int, Present]:
        """Tells the policy of the rounds before, and returns the nodes that were there."""
        by_round, there = defaultdict[int, list[Event]](list), dict[int, Present]()
        for event in events:
            by_round[event["round"]].append(event)
        for number, row in enumerate(self._recording.rows):
            work = self._work(number, self._site.start_s + row["start_s"])
            attempts = attempts_in(by_round[number])
            self._orders.add(as_rounds(work, attempts, self._transfer_s))
            self._note_joined(attempts)
            for event in by_round[number]:
                if event["kind"] == "began":
                    since_s = there[node].since_s if (node := int(event["node"])) in there else event["at_s"]
                    there[node] = Present(event["attempt"] + 1, since_s)
                elif event["kind"] == "left":
                    there.pop(int(event["node"]), None)
                elif event["kind"] == "taken_back":
                    self._told_back.update(event["rounds"])
        return there

    def next_work(self) -> RoundWork | None:
        """The next round, if it ends within the training, and that has not diverged."""
        known = (row for row in self._recording.rows if not math.isnan(row["loss"]))  # others are still evaluated
        self._recording.stopped = divergence(self._recording.description["initial"]["loss"], known)
        if self._recording.stopped is not None:
            return None
        work = self._work(len(self._recording.rows), self.next_start_s)
        return work if work.end_s - self._site.start_s <= self._site.end_s else None

    def _work(self, number: int, start_s: float) -> RoundWork:
        order, rate = self._orders.now, self._rate_at(start_s)
        rate_at = self._rate_at if isinstance(order.local_steps, AsManyAsFit) else None
        return RoundWork(number, start_s, order.round_s, order.local_steps, rate, self._adoption.latest, rate_at)

    def _rate_at(self, at_s: float) -> float:
        return learning_rate(self._job.scenario.training, (at_s - self._site.start_s) / self._site.duration_s)

    def finish(self, work: RoundWork, seen: RoundSeen) -> Row:
        """The model moves, and all that is needed to go on is on disk before anybody gets the next one."""
        block = as_rounds(work, seen.attempts, self._transfer_s)
        (step,) = single_steps(block, self._site)
        self._note_scores()
        self._judge(work.number, work.end_s)
        rejections = self._adoption.take_in(step, seen.uploads, work.round_s, secret_draw, seen.refused)
        self._note_joined(seen.attempts)
        for reason, count in sorted(Counter(rejections).items()):
            self._log.add("refused", work.number, work.end_s, reason=reason, uploads=count)
        row = row_of(step, len(seen.refused) + len(rejections)) | self._costs.row(step)
        row |= dict.fromkeys(self._scores, math.nan)
        self._recording.add(Learnt(row, self._adoption.checkpoint))
        self._evaluations.add(work.number, self._adoption.served)
        self._note_scores()
        known = {name: value for name, value in row.items() if name not in ("round", *self._scores)}
        self._log.add("ended", work.number, work.end_s, overshoot_s=seen.overshoot_s, **known)
        self._log.sync()  # without the checkpoint the line is void; a checkpoint without it would be a gap
        self._recording.save("running", 1)
        self._orders.add(block)
        return self._recording.rows[-1]

    def _note_joined(self, attempts: Iterable[Attempt]) -> None:
        if self._ledger is not None:
            self._ledger.add(attempt.node for attempt in attempts if math.isfinite(attempt.answer_s))

    def _note_scores(self, wait: bool = False) -> None:
        for rounds, model, scores in self._evaluations.done(wait):
            self._recording.score(rounds, model, scores)
            self._verdicts.append((rounds[-1] + 1, scores["loss"]))

    def _judge(self, number: int, at_s: float) -> None:
        """What evaluations have said since takes effect between two rounds, when nobody is training."""
        for version, loss in self._verdicts:
            lost = [each for each in self._adoption.judge(version, loss) if each not in self._told_back]
            if lost:
                self._log.add("taken_back", number, at_s, rounds=lost)
        self._verdicts.clear()

    def close(self) -> None:
        self._note_scores(wait=True)
        self._judge(len(self._recording.rows) - 1, self.next_start_s)  # of the last round, which no restart voids
        self._recording.last = self._adoption.checkpoint
        self._evaluations.close()
        self._recording.save("done", 1)


def attempts_in(events: Iterable[Event]) -> list[Attempt]:
    """The attempts of one round, as its events tell them."""
    attempts = dict[str, Attempt]()
    for event in events:
        node = event.get("node", "")
        if event["kind"] == "began":
            attempts[node] = Attempt(int(node), event["attempt"], event["at_s"])
        elif node in attempts and event["kind"] == "left":
            attempts[node] = replace(attempts[node], left_s=event["at_s"])
        elif node in attempts and event["kind"] in ("uploaded", "rejected"):
            attempts[node] = replace(attempts[node], answer_s=event["at_s"], steps=event.get("steps", 0))
        elif node in attempts and event["kind"] == "sat_out":
            attempts[node] = replace(attempts[node], sat_out=True)
    return list(attempts.values())
