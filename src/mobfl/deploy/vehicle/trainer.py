"""The trainer: a process that stays alive beside a vehicle's Flower node, holds the task and takes the local steps.

On a vehicle there is one; where vehicles are simulated on one machine, one serves them all.
"""

import math
import socketserver
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.deploy.settings import Deployment
from mobfl.deploy.vehicle.trainer_link import UPLOAD, receive_frame, send_frame
from mobfl.errors import InputError
from mobfl.learning.codecs import Codec
from mobfl.learning.uploads import Upload, fault
from mobfl.learning.vehicles import Vehicles
from mobfl.learning.weights import Weights
from mobfl.mobility.crossings import Crossings
from mobfl.rounds.draws import Draws
from mobfl.theory import Delays


@dataclass(frozen=True)
class Trainer:
    """Takes the steps that an order asks for, with the draws that simulation would have made."""

    vehicles: Vehicles
    draws: Draws  # whose keys address all draws of a vehicle
    impose: bool
    reference: Weights
    codec: Codec
    digests: Mapping[str, str]

    @classmethod
    def of(cls, deployment: Deployment) -> "Trainer":
        task, scenario = deployment.build_task(), deployment.built_scenario
        job = deployment.vehicle_job(task)
        vehicles = Vehicles.of(task, scenario.classes, job.local_training[0], deployment.seed)
        reference, draws = task.initial_weights(deployment.seed), Draws(Delays.of(scenario), deployment.seed)
        return cls(vehicles, draws, deployment.impose, reference, job.upload_codec[0], job.digests)

    def answer(self, wish: dict[str, Any], model: Weights) -> tuple[dict[str, Any], bytes]:
        """The upload after the steps as it travels, D_m, and after how long the vehicle is to answer (0: at once)."""
        self._check_agreed(wish)
        if (reason := fault(self.reference, Upload(model, 1))) is not None:
            raise InputError(f"the model must be the task's, got one that is {reason}")
        key, attempt, steps = self._key(wish), int(wish["attempt"]), int(wish["local_steps"])
        upload = self.vehicles.train(key, attempt, model, steps, float(wish["learning_rate"]))
        delay = self.draws.delay_s(key, attempt, steps) if self.impose else 0.0
        return {"samples": upload.samples, "delay_s": delay}, self.codec.encode(upload.weights, model)

    def _check_agreed(self, wish: dict[str, Any]) -> None:
        """Raises if the base station trains or sends in another way than this vehicle."""
        for kind, mine in self.digests.items():
            wanted = wish.get(kind) or mine
            if wanted != mine:
                raise InputError(f"the base station's {kind} must be this vehicle's ({mine}), got {wanted}")

    def warm_up(self) -> None:
        """Compiles what is compiled, so that the first vehicle does not wait for it."""
        self.answer({"vehicle": "nobody", "attempt": 0, "local_steps": 1, "learning_rate": 1e-9}, self.reference)

    def _key(self, wish: dict[str, Any]) -> np.uint64:
        """By the crossing's key where it is told, else by the vehicle's name, as crossings have it."""
        if wish.get("key"):
            crossing = np.array([int(wish["key"])], np.uint64)
        else:
            crossing = Crossings(np.array([str(wish["vehicle"])]), np.zeros(1), np.ones(1)).keys
        return self.draws.keys(crossing)[0]


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
