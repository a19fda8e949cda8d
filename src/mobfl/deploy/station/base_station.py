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
from mobfl.learning.accounting import ledger_of
from mobfl.learning.rates import learning_rate
from mobfl.learning.rules import merge
from mobfl.learning.rules.draws import secret_draw
from mobfl.rounds.rules import FOREVER, Order, Policy, Rounds, joined
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.history import Row
from mobfl.runs.loop import Learnt, row_of
from mobfl.runs.models import Models
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
        self._models = Models(recording.last, self._job.scenario.training.average_s)
        self._rule = settled.job.server.rule
        self._rule_state = recording.last.rule_state or self._rule.init(recording.last.model)
        self._ledger = ledger_of(self._rule)  # by node: whoever comes back as another node is another vehicle to it
        recording.more_results = lambda _: {} if self._ledger is None else {"privacy": self._ledger.results()}
        self._transfer_s = self._site.delays.transfer_s
        scores = recording.scores
        known = not math.isnan(scores["loss"])  # else it was killed before that
        self._evaluations = Evaluations(self._job.task.evaluate, self._models.served, scores if known else None)
        if not known:
            self._evaluations.add(len(recording.rows) - 1, self._models.served)

    @property
    def _scores(self) -> list[str]:
        return ["loss", *(kpi.name for kpi in self._job.task.kpis)]

    @property
    def next_start_s(self) -> float:
        """On the traffic's clock: where the last round ended."""
        rows = self._recording.rows
        return self._site.start_s + (rows[-1]["end_s"] if rows else 0.0)

    def remember(self, events: Iterable[Event]) -> dict[int, int]:
        """Tells the policy of the rounds before, and returns the nodes that were there with their attempts."""
        by_round, there = defaultdict[int, list[Event]](list), dict[int, int]()
        for event in events:
            by_round[event["round"]].append(event)
        for number, row in enumerate(self._recording.rows):
            work = self._work(number, self._site.start_s + row["start_s"])
            attempts = attempts_in(by_round[number])
            self._orders.add(as_rounds(work, attempts, self._transfer_s))
            self._note_joined(attempts)
            for event in by_round[number]:
                if event["kind"] == "began":
                    there[int(event["node"])] = event["attempt"] + 1
                elif event["kind"] == "left":
                    there.pop(int(event["node"]), None)
        return there

    def next_work(self) -> RoundWork | None:
        """The next round, if it ends within the training."""
        work = self._work(len(self._recording.rows), self.next_start_s)
        return work if work.end_s - self._site.start_s <= self._site.end_s else None

    def _work(self, number: int, start_s: float) -> RoundWork:
        order, passed = self._orders.now, (start_s - self._site.start_s) / self._site.duration_s
        rate = learning_rate(self._job.scenario.training, passed)
        return RoundWork(number, start_s, order.round_s, order.local_steps, rate, self._models.latest)

    def finish(self, work: RoundWork, seen: RoundSeen) -> Row:
        """The model moves, and all that is needed to go on is on disk before anybody gets the next one."""
        block = as_rounds(work, seen.attempts, self._transfer_s)
        (step,) = single_steps(block, self._site.start_s)
        self._rule_state, new, rejections = merge(
            self._rule, self._rule_state, self._models.latest, seen.uploads, secret_draw, len(seen.refused)
        )
        self._note_joined(seen.attempts)
        rejected = [*seen.refused, *rejections]
        self._models.advance(step, new, work.round_s)
        row = row_of(step, len(rejected)) | dict.fromkeys(self._scores, math.nan)
        counted = dict(Counter(self._recording.last.rejections) + Counter(rejected))
        reached = Checkpoint(step.number + 1, self._models.served, self._models.others, self._rule_state, counted)
        self._recording.add(Learnt(row, reached))
        self._evaluations.add(work.number, self._models.served)
        self._note_scores()
        self._recording.save("running", 1)
        known = {name: value for name, value in row.items() if name not in ("round", *self._scores)}
        self._log.add("ended", work.number, work.end_s, overshoot_s=seen.overshoot_s, **known)
        self._orders.add(block)
        return self._recording.rows[-1]

    def _note_joined(self, attempts: Iterable[Attempt]) -> None:
        if self._ledger is not None:
            self._ledger.add(attempt.node for attempt in attempts if math.isfinite(attempt.answer_s))

    def _note_scores(self, wait: bool = False) -> None:
        for rounds, model, scores in self._evaluations.done(wait):
            self._recording.score(rounds, model, scores)

    def close(self) -> None:
        self._note_scores(wait=True)
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
            attempts[node] = replace(attempts[node], answer_s=event["at_s"])
    return list(attempts.values())
