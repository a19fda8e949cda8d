"""The trainer: a process that stays alive beside a vehicle's Flower node, holds the task and takes the local steps.

On a vehicle there is one; where vehicles are simulated on one machine, one serves them all.
"""

import math
import socketserver
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.deploy.settings import Deployment
from mobfl.deploy.vehicle.pace import Pace
from mobfl.deploy.vehicle.trainer_link import UPLOAD, receive_frame, send_frame
from mobfl.errors import InputError
from mobfl.learning.turns import Memory, Turn, Turns
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.vehicles import Vehicles
from mobfl.learning.weights import Weights
from mobfl.mobility.crossings import Crossings
from mobfl.rounds.alone import Taken, Visit, steps_that_fit, window_s
from mobfl.rounds.draws import Draws
from mobfl.rounds.orders import AsManyAsFit
from mobfl.theory import Delays

_MOST_MEMORIES = 64
_FIRST_STEPS = 4  # that are measured before the first order


@dataclass(frozen=True)
class Trainer:
    """Takes the steps that an order asks for, with the draws that simulation would have made."""

    turns: Turns
    draws: Draws  # whose keys address all draws of a vehicle
    impose: bool
    reference: Weights
    digests: Mapping[str, str]
    memories: "Memories"
    pace: Pace = field(default_factory=Pace)

    @classmethod
    def of(cls, deployment: Deployment) -> "Trainer":
        task, scenario = deployment.build_task(), deployment.built_scenario
        job = deployment.vehicle_job(task)
        vehicles = Vehicles.of(task, scenario.classes, job.local_training[0], deployment.seed)
        turns = Turns.of(vehicles, job.upload_codec[0], None, deployment.seed)
        reference, draws = task.initial_weights(deployment.seed), Draws(Delays.of(job.road), deployment.seed)
        return cls(turns, draws, deployment.impose, reference, job.digests, Memories())

    def answer(self, wish: dict[str, Any], model: Weights) -> tuple[dict[str, Any], bytes]:
        """The upload after the steps as it travels, D_m, and after how long the vehicle is to answer (0: at once).

        Also how long the steps took on the road's clock: as imposed, or else as measured.
        Where as many steps are taken as fit and not one does, there are none and no upload.
        """
        self._check_agreed(wish)
        if (reason := fault(self.reference, Upload(model, 1))) is not None:
            raise InputError(f"the model must be the task's, got one that is {reason}")
        key, attempt = self._key(wish), int(wish["attempt"])
        steps, delay_s = self._taken(wish, key, attempt)
        if not steps:
            return {"samples": 0, "delay_s": 0.0, "steps": 0}, b""
        turn = Turn(key, attempt, steps, float(wish["learning_rate"]))
        began = time.monotonic()
        upload, _ = self.turns.trained(turn, model, {}, {})
        took_s = time.monotonic() - began
        self.pace.took(steps, took_s)
        data, kept = self.turns.sent(turn, upload, self.memories.of(turn))
        if _in_time(wish, delay_s):
            self.memories.keep(turn, kept)
        if wish.get("knows") and not self.impose:
            self.pace.answers(wish, time.time())
        compute_s = delay_s - float(self.draws.delays.transfer_s) if delay_s else took_s / float(wish.get("scale", 1.0))
        return {"samples": upload.samples, "delay_s": delay_s, "steps": steps, "compute_s": compute_s}, data

    def _taken(self, wish: dict[str, Any], key: np.uint64, attempt: int) -> Taken:
        """How many steps, and the delay that is imposed on them."""
        asked = int(wish["local_steps"])
        if not wish.get("knows"):
            return Taken(asked, self.draws.delay_s(key, attempt, asked) if self.impose else 0.0)
        if not self.impose:
            return Taken(self.pace.steps(wish, time.time()), 0.0)
        return steps_that_fit(self.draws, key, attempt, float(wish["begin_s"]), self._window_s(wish, key))

    def _window_s(self, wish: dict[str, Any], key: np.uint64) -> float:
        """As long as the base station says; who knows when it leaves may have less."""
        begin_s, told_s = float(wish["begin_s"]), float(wish["window_s"])
        if wish["knows"] != "leaving":
            return told_s
        visit = Visit(float(wish["enter_s"]), float(wish["leave_s"]))
        asked = AsManyAsFit("leaving", error=float(wish["error"]))
        return window_s(self.draws, asked, key, begin_s, begin_s + told_s, visit)

    def _check_agreed(self, wish: dict[str, Any]) -> None:
        """Raises if the base station trains or sends in another way than this vehicle."""
        for kind, mine in self.digests.items():
            wanted = wish.get(kind) or mine
            if wanted != mine:
                raise InputError(f"the base station's {kind} must be this vehicle's ({mine}), got {wanted}")

    def warm_up(self) -> None:
        """Compiles what is compiled, so that the first vehicle does not wait for it, and measures a few steps."""
        self.answer({"vehicle": "nobody", "attempt": 0, "local_steps": 1, "learning_rate": 1e-9}, self.reference)
        turn, began = Turn(np.uint64(0), 0, _FIRST_STEPS, 1e-9), time.monotonic()
        self.turns.trained(turn, self.reference, {}, {})
        self.pace.begin(_FIRST_STEPS, time.monotonic() - began)

    def _key(self, wish: dict[str, Any]) -> np.uint64:
        """By the crossing's key where it is told, else by the vehicle's name, as crossings have it."""
        if wish.get("key"):
            crossing = np.array([int(wish["key"])], np.uint64)
        else:
            crossing = Crossings(np.array([str(wish["vehicle"])]), np.zeros(1), np.ones(1)).keys
        return self.draws.keys(crossing)[0]


def _in_time(wish: dict[str, Any], delay_s: float) -> bool:
    """Whether an upload that is delayed so long will be sent at all; whether it arrives, a vehicle never knows."""
    if not delay_s:  # then only real time counts, and the two clocks may differ
        return True
    due_unix_s = float(wish.get("begin_unix_s", 0.0)) + delay_s * float(wish.get("scale", 1.0))
    return due_unix_s <= float(wish.get("deadline_unix_s", math.inf))


class Memories:
    """What vehicles remember of their last upload; of those who trained lately, as the trainer sees nobody leave."""

    def __init__(self) -> None:
        self._kept, self._lock = OrderedDict[int, Memory](), threading.Lock()

    def of(self, turn: Turn) -> Memory:
        """Nothing at the first attempt of a visit, whatever was before."""
        with self._lock:
            return {} if turn.attempt == 0 else self._kept.get(int(turn.key), {})

    def keep(self, turn: Turn, memory: Memory) -> None:
        with self._lock:
            self._kept.pop(int(turn.key), None)
            if memory:
                self._kept[int(turn.key)] = memory
            while len(self._kept) > _MOST_MEMORIES:
                self._kept.popitem(last=False)


class TrainerServer(socketserver.ThreadingUnixStreamServer):
    """Answers at a socket that only this user can reach; so many train at a time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, trainer: Trainer, path: Path, workers: int) -> None:
        self.trainer, self._turns = trainer, threading.Semaphore(workers)
        if path.exists() and not path.is_socket():
            raise InputError(f"socket {path} must be a new name or an old socket, got another file")
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Conversation)
        path.chmod(0o600)

    def answer(self, wish: dict[str, Any], model: Weights) -> tuple[dict[str, Any], bytes]:
        """Who has not had a turn when its round is over is not trained any more: nobody waits for it."""
        left_s = float(wish.get("deadline_unix_s", math.inf)) - time.time()
        if left_s <= 0 or not self._turns.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
            raise TimeoutError("the round is over")
        try:
            return self.trainer.answer(wish, model)
        finally:
            self._turns.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A vehicle that hung up is not a fault of ours."""


class _Conversation(socketserver.BaseRequestHandler):
    server: TrainerServer

    def handle(self) -> None:
        wish, model = receive_frame(self.request)
        try:
            answer, upload = self.server.answer(wish, model)
        except Exception as error:  # the vehicle's app is told, and says so to the base station
            answer, upload = {"error": f"{type(error).__name__}: {error}"}, b""
        send_frame(self.request, answer, {UPLOAD: np.frombuffer(upload, np.uint8)})
