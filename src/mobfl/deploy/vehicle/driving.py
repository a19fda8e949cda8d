"""A vehicle on the road: joins, takes orders one by one, answers, and leaves when it is told to."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from mobfl.deploy.messages import ORDER
from mobfl.deploy.vehicle import flower
from mobfl.deploy.vehicle.client_app import app
from mobfl.deploy.vehicle.link import Link, Say, UnknownNodeError
from mobfl.deploy.vehicle.settings import Vehicle
from mobfl.deploy.vehicle.waits import Attention

LEAVING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_REASON = 300  # characters of what went wrong
_LONGEST_ROUND_S = 3600.0  # a deadline farther off is no reason to rest


class Leaving(BaseException):
    """The vehicle is told to leave, whatever it is doing."""


def drive(vehicle: Vehicle, say: Say) -> None:
    """Takes part until a signal says to leave; raises `InputError` if the base station will not have it."""
    with leaving_by_signal():
        say = _not_twice(say)
        link = Link(vehicle, say)
        try:
            _take_part(vehicle, link, say)
        finally:
            link.leave()


@contextmanager
def leaving_by_signal() -> Iterator[None]:
    """Ends what is inside at the first signal; further ones do not disturb the leaving."""

    def leave(*_: object) -> None:
        for number in LEAVING:
            signal.signal(number, signal.SIG_IGN)
        raise Leaving

    for number in LEAVING:
        signal.signal(number, leave)
    with suppress(Leaving):
        yield


def _take_part(vehicle: Vehicle, link: Link, say: Say) -> None:
    node, attention = link.join(), Attention(time.time())
    while True:
        try:
            order = link.next_order()
            if order is not None:
                _answer(vehicle, node, link, order, say)
                attention.expect(_next_due_unix_s(order))
        except UnknownNodeError:
            say(f"the SuperLink {vehicle.superlink} has forgotten {vehicle.name}: joining again")
            node, attention = link.join(), Attention(time.time())
        except Exception as error:  # such as an order whose run is over, or one that nobody can read
            say(f"an order or its answer is lost: {_reason(error)}")
        time.sleep(attention.wait_s(time.time()))


def _answer(vehicle: Vehicle, node: int, link: Link, order: flower.Message, say: Say) -> None:
    """With the upload, or with what went wrong: an order that cannot be carried out costs no other one."""
    told: dict[str, str | float] = {"vehicle": vehicle.name, "trainer": vehicle.trainer, "key": vehicle.draws}
    told |= {"enter_s": vehicle.enter_s, "leave_s": vehicle.leave_s}
    context = flower.Context(order.metadata.run_id, node, {**told}, flower.RecordDict(), {})
    began = time.monotonic()
    try:
        answer = app(order, context)
    except Exception as error:
        say(f"an order could not be carried out: {_reason(error)}")
        wrong = flower.Error(flower.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, _reason(error))
        answer = flower.Message(wrong, reply_to=order)
    link.send(answer, time.monotonic() - began)


def _next_due_unix_s(order: flower.Message) -> float:
    """The next round begins when this one is over; what only measured how long messages take has no round."""
    told: Mapping[str, Any] = order.content.config_records.get(ORDER) or {}
    deadline, now = told.get("deadline_unix_s"), time.time()
    if not isinstance(deadline, float) or not told.get("local_steps") or deadline - now > _LONGEST_ROUND_S:
        return now
    return deadline


def _not_twice(say: Say) -> Say:
    """Says nothing that was said just before."""
    latest = ""

    def say_news(line: str) -> None:
        nonlocal latest
        if line != latest:
            say(line)
        latest = line

    return say_news


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MOST_REASON]
