"""The rounds of a radio told again in SimPy: a process per vehicle, a band that is interrupted whenever somebody comes.

An oracle: slow and plain, in another shape than the compiled one. Rates are theory's, for a cell of time as they
are in its middle; shadows are drawn here once more from their definition.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from mobfl import Crossings, theory
from mobfl.rng import normal, stream, uniform, vehicle_key
from mobfl.rounds.air import Channel
from mobfl.rounds.draws import Draws


@dataclass
class Vehicle:
    """Who passes, and what became of it in this round."""

    name: int
    key: np.uint64
    enter_s: float
    leave_s: float
    attempt: int = 0
    steps: int = 0
    train_s: float = math.nan
    send_s: float = math.nan
    end_s: float = math.nan
    outcome: str = ""
    shadows: list[float] = field(default_factory=list)


@dataclass
class Transfer:
    who: Vehicle
    left: float
    done: simpy.Event
    group: list[Vehicle] | None = None  # a broadcast's listeners


class Band:
    """One direction of the radio: whoever transfers shares it."""

    def __init__(self, env: simpy.Environment, cell_s: float, rate: Callable[[Transfer, int, int], float], fifo: bool):
        self.env, self.cell_s, self.rate, self.fifo = env, cell_s, rate, fifo
        self.transfers, self.since, self.bps = list[Transfer](), 0.0, dict[int, float]()
        self.pump: simpy.Process | None = None

    def begin(self, transfer: Transfer) -> None:
        self._settle()
        self.transfers.append(transfer)
        self._restart()

    def end(self, transfer: Transfer) -> None:
        self._settle()
        if transfer in self.transfers:
            self.transfers.remove(transfer)
        self._restart()

    def changed(self) -> None:
        """Somebody stopped listening."""
        self._settle()
        self._restart()

    def _on_air(self) -> list[Transfer]:
        return self.transfers[:1] if self.fifo else self.transfers

    def _settle(self) -> None:
        for each in self._on_air():
            each.left -= self.bps.get(id(each), 0.0) * (self.env.now - self.since)
        self.since = self.env.now

    def _restart(self) -> None:
        if self.pump is not None and self.pump.is_alive and self.pump is not self.env.active_process:
            self.pump.interrupt()
        if self.pump is not self.env.active_process:
            self.pump = self.env.process(self._run()) if self.transfers else None

    def _run(self) -> Generator[Any, Any, None]:
        try:
            while self.transfers:
                cell = int(self.env.now / self.cell_s + 1e-9)
                on_air = self._on_air()
                for each in on_air:
                    if math.isnan(each.who.send_s):
                        each.who.send_s = self.env.now
                self.bps = {id(each): self.rate(each, cell, len(on_air)) for each in on_air}
                first = min(on_air, key=lambda each: each.left / self.bps[id(each)])
                wait_s = min(first.left / self.bps[id(first)], (cell + 1) * self.cell_s - self.env.now)
                complete = first.left / self.bps[id(first)] <= wait_s
                yield self.env.timeout(max(wait_s, 0.0))
                self._settle()
                if complete:
                    self.transfers.remove(first)
                    first.done.succeed()
        except simpy.Interrupt:
            pass


class RadioRound:
    """One round from its start, with everybody who is there at some time in it."""

    def __init__(self, channel: Channel, seed: int, draws: Draws, start_s: float, round_s: float, steps: int) -> None:
        self.channel, self.draws, self.start_s, self.round_s, self.steps = channel, draws, start_s, round_s, steps
        self.radio, self.shadow_stream = channel.radio, stream(seed, "shadowing")
        self.hidden_stream = stream(seed, "hidden")
        self.env = simpy.Environment()
        self.up = Band(self.env, channel.cell_s, self._up_bps, self.radio.sharing == "fifo")
        self.down = Band(self.env, channel.cell_s, self._down_bps, False)

    def run(self, vehicles: list[Vehicle]) -> None:
        for each in vehicles:
            each.train_s = each.send_s = each.end_s = math.nan
        first = [each for each in vehicles if each.enter_s <= self.start_s]
        cast = self.env.event()
        for each in vehicles:
            together = cast if self.radio.download == "broadcast" and each in first else None
            self.env.process(self._turn(each, together))
        if first and self.radio.download == "broadcast":
            self.env.process(self._cast(first, cast))
        self.env.run()
        for each in vehicles:  # whose turn comes as everything ends does not send any more
            each.send_s = each.send_s + self.start_s if each.send_s + self.start_s < each.end_s else math.nan

    def _cast(self, listeners: list[Vehicle], cast: simpy.Event) -> Generator[Any, Any, None]:
        transfer = Transfer(Vehicle(-1, np.uint64(0), 0.0, 0.0), 8.0 * self.channel.download_bytes, cast, listeners)
        last = max(min(each.leave_s - self.start_s, self.round_s) for each in listeners)
        self.down.begin(transfer)
        yield cast | self.env.timeout(last)
        self.down.end(transfer)

    def _turn(self, who: Vehicle, cast: simpy.Event | None) -> Generator[Any, Any, None]:
        begin = max(who.enter_s - self.start_s, 0.0)
        stop = min(who.leave_s - self.start_s, self.round_s)
        compute_s = self.draws.delay_s(who.key, who.attempt, self.steps)
        yield self.env.timeout(begin)
        listener = Vehicle(-1, who.key, who.enter_s, who.leave_s, shadows=who.shadows)
        alone = Transfer(listener, 8.0 * self.channel.download_bytes, self.env.event())
        if cast is None:
            self.down.begin(alone)
        loaded = alone.done if cast is None else cast
        yield loaded | self.env.timeout(stop - self.env.now)
        if loaded.processed and self.env.now < stop:
            who.train_s = self.start_s + self.env.now
            yield self.env.timeout(min(compute_s, stop - self.env.now))
            if self.env.now < stop:
                upload = Transfer(who, 8.0 * self.channel.upload_bytes, self.env.event())
                self.up.begin(upload)
                yield upload.done | self.env.timeout(stop - self.env.now)
                self.up.end(upload)
                if upload.done.triggered:
                    who.outcome, who.end_s = "uploaded", self.start_s + self.env.now
                    return
        elif cast is None:
            self.down.end(alone)
        else:
            self.down.changed()
        who.end_s = self.start_s + stop
        in_time = begin + compute_s <= stop
        cut_off = "left_early" if who.leave_s - self.start_s < self.round_s else "round_over"
        who.outcome = "radio" if in_time else cut_off

    def _up_bps(self, transfer: Transfer, cell: int, senders: int) -> float:
        who = transfer.who
        distance_m, shadow_db = self._place(who, cell)
        return float(theory.uplink_bps(self.radio, distance_m, senders, shadow_db))

    def _down_bps(self, transfer: Transfer, cell: int, streams: int) -> float:
        there = transfer.group or [transfer.who]
        now = [each for each in there if each.leave_s - self.start_s > self.env.now] or there
        places = [self._place(each, cell) for each in now]
        return min(float(theory.downlink_bps(self.radio, distance_m, streams, db)) for distance_m, db in places)

    def _place(self, who: Vehicle, cell: int) -> tuple[float, float]:
        at_s = self.start_s + (cell + 0.5) * self.channel.cell_s
        share = min(max((at_s - who.enter_s) / (who.leave_s - who.enter_s), 0.0), 1.0)
        way_m = share * self.channel.length_m
        distance_m = float(theory.distance_m(self.radio, way_m, self.channel.length_m))
        return distance_m, self.radio.shadow_sd_db * self._shadow(who, way_m) + self._between_db(who)

    def _between_db(self, who: Vehicle) -> float:
        own = np.uint64(vehicle_key(self.hidden_stream, who.key))
        hidden = float(uniform(own, 0)) <= self.radio.hidden_share
        return max(0.0, 5.0 + 4.0 * float(normal(own, 1))) if hidden else 0.0

    def _shadow(self, who: Vehicle, way_m: float) -> float:
        """Drawn at every fifth of the distance by its definition: each is ρ times the one before and something new."""
        step_m = self.radio.shadow_distance_m / 5
        rho, own, there = math.exp(-1 / 5), np.uint64(vehicle_key(self.shadow_stream, who.key)), who.shadows
        place = int(way_m / step_m)
        while len(there) < place + 2:
            new = float(normal(own, len(there)))
            there.append(new if not there else rho * there[-1] + math.sqrt(1 - rho**2) * new)
        part = way_m / step_m - place
        mixed = (1 - part) * there[place] + part * there[place + 1]
        return mixed / math.sqrt(part**2 + (1 - part) ** 2 + 2 * part * (1 - part) * rho)


def told_by_simpy(
    channel: Channel, draws: Draws, seed: int, crossings: Crossings, round_s: float, steps: int
) -> list[tuple[int, int, str, float, float, float]]:
    """Round, vehicle, outcome, when it began to train and to send, and when it was over, of every turn."""
    times = zip(draws.keys(crossings.keys), crossings.enter_s.tolist(), crossings.leave_s.tolist(), strict=True)
    vehicles = [Vehicle(name, *each) for name, each in enumerate(times)]
    found = []
    for number in range(int(crossings.leave_s.max() // round_s)):
        start_s = number * round_s
        there = [each for each in vehicles if each.enter_s < start_s + round_s and each.leave_s > start_s]
        RadioRound(channel, seed, draws, start_s, round_s, steps).run(there)
        for each in there:
            label = int(crossings.vehicle[each.name])
            found.append((number, label, each.outcome, each.train_s, each.send_s, each.end_s))
            each.attempt += 1
    return found
