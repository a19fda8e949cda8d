"""A round of T seconds over any Flower grid: whoever is there gets the model, and answers count until the deadline.

Every node that is online at the start is sent the order at once, one that joins later on joining. Success is an answer
before the deadline, never a place in the list of nodes: a vehicle that dies stays listed for a minute.
"""

import hmac
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from mobfl.deploy.clock import Clock
from mobfl.deploy.events import EventLog
from mobfl.deploy.messages import (
    Answer,
    Refusal,
    TrainingOrder,
    has_upload,
    most_answer_bytes,
    order_message,
    pack_model,
    read_answer,
    read_upload,
)
from mobfl.deploy.station.answers import Arrived, Fetch, FetchedAtOnce, unreadable
from mobfl.deploy.station.windows import Present, Windows
from mobfl.learning.codecs import Codec
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.weights import Weights
from mobfl.rounds.orders import AsManyAsFit, Steps
from mobfl.rounds.rows import Fitted, Outcome, Rounds, VehicleRows
from mobfl.runs.job import Job

POLL_S = 0.05
NODES_S = 0.2  # between two looks at who is there, which is as much work for the SuperLink, and less urgent
# Late answers are taken in for so long after their round, to be counted; then their order is withdrawn. It is short, so
# that a vehicle which comes back finds at most one order that is over.
GRACE_S = 2.0
_ORDERS_AT_ONCE = 100
_LANDINGS = 20  # of the latest answers
_LONGEST_LANDING_S = 10.0
NODE_UNAVAILABLE = 5  # Flower's code
NONCE_BYTES = 16
MOST_REASON = 300  # characters of what a node says went wrong


@dataclass
class Attempt:
    """One vehicle in one round, as the base station sees it."""

    node: int
    number: int  # the rounds it was in before
    begin_s: float
    left_s: float = np.inf
    answer_s: float = np.nan  # when an upload came, be it good or bad
    vehicle: str = ""
    upload: Upload | None = None
    nonce: str = ""  # that only this vehicle was given
    most_steps: int = 0  # where as many are taken as fit, what it was given time for,
    steps: int = 0  # and what it took
    sat_out: bool = False
    compute_s: float = 0.0  # that its steps took, as it says and as far as that is possible; 0: not known

    def outcome(self, end_s: float) -> Outcome:
        if np.isfinite(self.answer_s):
            return Outcome.UPLOADED
        if self.sat_out:
            return Outcome.SAT_OUT
        return Outcome.LEFT_EARLY if self.left_s < end_s else Outcome.ROUND_OVER


@dataclass(frozen=True)
class Agreement:
    """What base station and vehicles have agreed on before: how uploads travel, how vehicles train, the largest D_m."""

    most_samples: int
    codec: Codec
    codec_digest: str = ""
    local: str = ""
    quickest_step_s: float = 1e-3  # that any vehicle has, on the road's clock
    messages_s: float = 0.0  # wall-clock time that order and answer take

    @classmethod
    def of(cls, job: Job, messages_s: float = 0.0) -> "Agreement":
        digests, quickest_s = job.digests, float(job.site.delays.min_step_s)
        parts = job.scenario.most_samples, job.upload_codec[0], digests["codec"], digests["local"]
        return cls(*parts, quickest_s, messages_s)


@dataclass(frozen=True)
class RoundWork:
    """What a round is about."""

    number: int
    start_s: float
    round_s: float
    local_steps: Steps
    learning_rate: float
    model: Weights
    rate_at: Callable[[float], float] | None = None  # where it counts when a vehicle begins

    @property
    def end_s(self) -> float:
        return self.start_s + self.round_s


@dataclass(frozen=True)
class RoundSeen:
    """What came of it, in the order in which the vehicles began; `refused` says why answers were no uploads at all."""

    attempts: tuple[Attempt, ...]
    refused: tuple[str, ...]
    overshoot_s: float  # wall-clock time by which it ended late
    behind_s: tuple[float, ...] = ()  # by which answers, late ones included, missed the delay that was imposed on them

    @property
    def uploads(self) -> list[Upload]:
        return [attempt.upload for attempt in self.attempts if attempt.upload is not None]


class RoundLoop:
    """The rounds of one run, one after the other. `there` are the nodes that are there, as a restart finds them."""

    def __init__(
        self,
        grid: Grid,
        clock: Clock,
        run: str,
        log: EventLog,
        agreed: Agreement,
        there: dict[int, Present] | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        self._grid, self._clock, self._run, self._log = grid, clock, run, log
        self._fetch = fetch or FetchedAtOnce(grid)
        self._agreed = agreed
        self._there = dict(there or {})
        self._windows = Windows(clock, agreed.quickest_step_s, agreed.messages_s)
        self._awaited = dict[str, Attempt]()  # by the order's message
        self._overdue = dict[str, tuple[float, int, Attempt]]()  # until when to look, the round
        self._landings_s = deque[float](maxlen=_LANDINGS)
        self._most_bytes = 0  # of an answer
        self._behind_s = list[float]()  # in this round

    @property
    def landing_s(self) -> float:
        """The wall-clock time that answers lately took from the vehicle's app to here."""
        return median(self._landings_s) if self._landings_s else 0.0

    def run_round(self, work: RoundWork) -> RoundSeen:
        packed, attempts, refused = pack_model(work.model), dict[int, Attempt](), list[str]()
        self._most_bytes = most_answer_bytes(work.model, self._agreed.codec)
        looked_s = -np.inf  # who is there at the first look begins with the round, however long looking takes
        while (now_s := self._clock.now_s()) < work.end_s:
            self._take_answers(work, now_s, refused)
            if (now_s - looked_s) * self._clock.scale >= NODES_S:
                begin_s = now_s if np.isfinite(looked_s) else work.start_s
                self._see_nodes(work, now_s, begin_s, packed, attempts)
                looked_s = now_s
            left_s = (work.end_s - self._clock.now_s()) * self._clock.scale
            self._clock.wait(min(POLL_S, left_s))
        if (now_s - work.end_s) * self._clock.scale <= POLL_S:  # what has arrived by now arrived in time
            self._take_answers(work, work.end_s, refused)
        self._close(work)
        overshoot_s = (self._clock.now_s() - work.end_s) * self._clock.scale
        behind_s, self._behind_s = tuple(self._behind_s), []
        return RoundSeen(tuple(attempts.values()), tuple(refused), overshoot_s, behind_s)

    # ---- who is there ------------------------------------------------------------------------------

    def _see_nodes(
        self, work: RoundWork, now_s: float, begin_s: float, packed: ArrayRecord, attempts: dict[int, Attempt]
    ) -> None:
        listed = set(self._grid.get_node_ids())
        self._let_go(work, now_s, listed, attempts)
        new = [node for node in sorted(listed) if node not in attempts]
        for first in range(0, len(new), _ORDERS_AT_ONCE):
            self._send(work, begin_s, packed, new[first : first + _ORDERS_AT_ONCE], attempts)

    def _let_go(self, work: RoundWork, now_s: float, listed: set[int], attempts: dict[int, Attempt]) -> None:
        for node in [node for node in self._there if node not in listed]:
            del self._there[node]
            self._windows.forget(node)
            attempt = attempts.get(node)
            if attempt is not None:
                attempt.left_s = min(attempt.left_s, now_s)
            self._note("left", work.number, now_s, attempt or Attempt(node, 0, now_s))

    def _send(
        self, work: RoundWork, begin_s: float, packed: ArrayRecord, nodes: list[int], attempts: dict[int, Attempt]
    ) -> None:
        begun = [
            Attempt(node, self._present(node, begin_s).attempts, begin_s, nonce=secrets.token_hex(NONCE_BYTES))
            for node in nodes
        ]
        ttl_s = (work.end_s - begin_s) * self._clock.scale + GRACE_S
        messages = [order_message(each.node, packed, self._order(work, each), ttl_s) for each in begun]
        for attempt, message_id in zip(begun, self._grid.push_messages(messages), strict=False):
            if message_id:  # else the node has just gone
                self._awaited[message_id] = attempts[attempt.node] = attempt
                self._there[attempt.node] = Present(attempt.number + 1, self._present(attempt.node, begin_s).since_s)
                self._note("began", work.number, begin_s, attempt)

    def _present(self, node: int, begin_s: float) -> Present:
        return self._there.get(node) or Present(0, begin_s)

    def _order(self, work: RoundWork, attempt: Attempt) -> TrainingOrder:
        begin, deadline = self._clock.unix_s(attempt.begin_s), self._clock.unix_s(work.end_s)
        rate = work.learning_rate if work.rate_at is None else work.rate_at(attempt.begin_s)
        asked = work.local_steps
        order = TrainingOrder(
            self._run, work.number, attempt.number, 1 if isinstance(asked, AsManyAsFit) else asked, rate, begin,
            deadline, self._clock.scale, self.landing_s, self._agreed.local, self._agreed.codec_digest, attempt.nonce,
        )  # fmt: skip
        if not isinstance(asked, AsManyAsFit):
            return order
        since_s = self._present(attempt.node, attempt.begin_s).since_s
        told = self._windows.told(asked, attempt.node, work.number, attempt.begin_s, work.end_s, since_s)
        attempt.most_steps = told["local_steps"]
        return replace(order, **told)

    # ---- what comes back ---------------------------------------------------------------------------

    def _take_answers(self, work: RoundWork, now_s: float, refused: list[str]) -> None:
        arrived = self._fetch([*self._awaited, *self._overdue], self._most_bytes)
        for message_id in [each for each in arrived if each in self._awaited]:
            attempt, message = self._awaited.pop(message_id), arrived[message_id]
            if isinstance(message, Exception):
                self._note("failed", work.number, now_s, attempt, unreadable(message))
            elif message.has_content():
                self._take(work, now_s, attempt, message, refused)
            elif message.error.code != NODE_UNAVAILABLE:  # else it has left, which the list of nodes tells
                reason = (message.error.reason or f"code {message.error.code}")[:MOST_REASON]
                self._note("failed", work.number, now_s, attempt, reason)
        self._take_late_ones(now_s, arrived)

    def _take(self, work: RoundWork, now_s: float, attempt: Attempt, message: Message, refused: list[str]) -> None:
        answer = read_answer(message)
        if not answers(attempt.nonce, answer):
            self._note("dropped", work.number, now_s, attempt, "without the order's nonce")
            return
        attempt.vehicle = answer.vehicle
        if (answer.run, answer.round) != (self._run, work.number):
            self._note("dropped", work.number, now_s, attempt, "of another run or round")
            return
        if not has_upload(message):
            attempt.sat_out = answer.sits_out and attempt.most_steps > 0
            self._note("sat_out" if attempt.sat_out else "gave_up", work.number, now_s, attempt)
            return
        self._learn_landing(answer, now_s)
        self._windows.came(attempt.node, work.number, now_s)
        attempt.answer_s = now_s
        attempt.compute_s = answer.compute_s if 0 < answer.compute_s <= now_s - attempt.begin_s else 0.0
        try:
            attempt.steps = _steps_taken(work, attempt, answer)
            upload = read_upload(message, work.model, self._agreed.most_samples, self._agreed.codec)
            upload = replace(upload, local_steps=attempt.steps)
        except Refusal as refusal:
            refused.append(str(refusal))
            self._note("rejected", work.number, now_s, attempt, str(refusal))
            return
        attempt.upload = upload
        reason = fault(work.model, upload)  # `merge` will leave it out
        self._note("uploaded" if reason is None else "rejected", work.number, now_s, attempt, reason, answer.behind_s)

    def _learn_landing(self, answer: Answer, now_s: float) -> None:
        took_s = self._clock.unix_s(now_s) - answer.returned_unix_s
        if 0.0 <= took_s <= _LONGEST_LANDING_S:  # a stranger's clock may say anything
            self._landings_s.append(took_s)

    def _take_late_ones(self, now_s: float, arrived: Arrived) -> None:
        for message_id in [each for each in arrived if each in self._overdue]:
            (_, number, attempt), message = self._overdue.pop(message_id), arrived[message_id]
            if isinstance(message, Exception) or not message.has_content() or not has_upload(message):
                continue
            if answers(attempt.nonce, answer := read_answer(message)):
                self._windows.came(attempt.node, number, now_s)
                self._note("late", number, now_s, replace(attempt, vehicle=answer.vehicle), behind_s=answer.behind_s)
        for message_id in [each for each, (until_s, _, _) in self._overdue.items() if until_s < now_s]:
            del self._overdue[message_id]

    def _close(self, work: RoundWork) -> None:
        forget_s = work.end_s + GRACE_S / self._clock.scale
        for message_id, attempt in self._awaited.items():
            self._overdue[message_id] = (forget_s, work.number, attempt)
            self._windows.missing(attempt.node, work.number)
            if attempt.left_s == np.inf:
                self._note("cut_off", work.number, work.end_s, attempt)
        self._awaited.clear()

    def _note(
        self,
        kind: str,
        number: int,
        at_s: float,
        attempt: Attempt,
        reason: str | None = None,
        behind_s: float = 0.0,
    ) -> None:
        more: dict[str, Any] = {"reason": reason} if reason else {}
        if attempt.most_steps and kind in ("uploaded", "rejected"):
            more["steps"] = attempt.steps
        if attempt.compute_s and kind in ("uploaded", "rejected"):
            more["compute_s"] = attempt.compute_s
        if behind_s:
            more["behind_s"] = behind_s
            self._behind_s.append(behind_s)
        self._log.add(
            kind, number, at_s, node=str(attempt.node), vehicle=attempt.vehicle, attempt=attempt.number, **more
        )


def answers(nonce: str, answer: Answer) -> bool:
    """Whether it comes from whom the order with this nonce went to, for nobody else knows it."""
    return hmac.compare_digest(nonce.encode(), answer.nonce.encode(errors="replace"))


def _steps_taken(work: RoundWork, attempt: Attempt, answer: Answer) -> int:
    """H; where as many are taken as fit, what a vehicle says, and no more than it had time for."""
    if not isinstance(work.local_steps, AsManyAsFit):
        return work.local_steps
    if answer.steps < 1:
        raise Refusal("without steps")
    return min(answer.steps, attempt.most_steps)


def as_rounds(work: RoundWork, attempts: Iterable[Attempt], transfer_s: float) -> Rounds:
    """One round as simulation has it, so that policies and tables need not know where it happened."""
    rows, fits = list(attempts), isinstance(work.local_steps, AsManyAsFit)
    outcomes = [attempt.outcome(work.end_s) for attempt in rows]

    def column(values: Iterable[Any], kind: type) -> Any:
        return np.array(list(values), kind)

    vehicles = VehicleRows(
        column((str(each.node) for each in rows), np.object_),
        np.full(len(rows), work.number),
        np.arange(len(rows)),
        column((each.node for each in rows), np.uint64),
        column((each.number for each in rows), np.int64),
        column((each.begin_s for each in rows), np.float64),
        column((0.0 if each.sat_out else each.answer_s - each.begin_s - transfer_s for each in rows), np.float64),
        column((min(each.left_s, work.end_s) for each in rows), np.float64),
        column(outcomes, np.int8),
        np.zeros(len(rows), np.int8),  # a base station does not see the class
        column((each.steps if fits else work.local_steps for each in rows), np.int64),
    )  # fmt: skip
    one = np.array([work.number]), np.array([work.start_s]), np.array([len(rows)])
    uploaded = vehicles.outcome == Outcome.UPLOADED
    counts = (vehicles.taking_part.sum(), vehicles.steps[uploaded].sum(), vehicles.steps[uploaded].max(initial=0))
    fitted = Fitted(*(np.array([count]) for count in counts)) if fits else None
    return Rounds(work.local_steps, work.round_s, *one, np.array([uploaded.sum()]), vehicles, fitted)
