"""How fast vehicles learn: the engine against a bare PyTorch loop, and Lidar2D's fused kernels against PyTorch.

    python benchmarks/train.py

Generated data, one thread each; ratios are medians over alternating runs in this one process, with their range.
Compilation is done before the clock starts. The peers use PyTorch as one would: its own SGD, batches of 64 for
evaluation too (the fastest per sample here), `inference_mode`. Peak memory is that of a fresh process.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl import Job, SgdTerms, load_scenario
from mobfl.learning.holdings import draw_batches, held_samples
from mobfl.learning.task import Task
from mobfl.learning.torch_steps import load
from mobfl.learning.weights import Weights
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import generator, stream
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Outcome
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.loop import fresh_start, learn
from mobfl.tasks.beams.generated import generated_samples
from mobfl.tasks.beams.model import Lidar2D, cross_entropy
from mobfl.tasks.beams.task import BeamTask, FusedBackend
from mobfl.tasks.beams.torch_backend import TorchBackend
from mobfl.theory import Delays

H, T = 24, 11.776
SEED, MANY = 3, 100  # a run with uploads, of so many steps at least
ROAD = load_scenario("paper").with_values({"training.duration_s": 90.0, "training.loss_scale": "sample"})
SAMPLES = generated_samples(0, 9234, 1960, "auto")
BATCH, RATE = ROAD.training.batch_size, ROAD.training.learning_rate
REPEATS = 7

# Per round the batches and D_m of those who upload.
Uploads = list[list[tuple[NDArray[np.int64], int]]]


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def ratio(one: Callable[[], object], other: Callable[[], object], repeats: int = REPEATS) -> str:
    """How many times as long as the other the one takes."""
    one()
    other()
    ratios = [timed(one) / timed(other) for _ in range(repeats)]
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def uploads_by_round(task: Task) -> Uploads:
    """What the bare loop is given ready-made: the very batches that the engine draws."""
    samples, batches = stream(SEED, "samples"), stream(SEED, "batches")
    block = next(simulate_rounds(poisson_crossings(ROAD, SEED), FixedPlan(H, T), Delays.of(ROAD), SEED))
    rounds: Uploads = [[] for _ in range(int(ROAD.training.duration_s / T))]
    rows = block.vehicles
    assert rows is not None
    for i in np.flatnonzero(rows.outcome == Outcome.UPLOADED):
        if rows.round[i] < len(rounds):
            held = held_samples(generator(samples, rows.key[i]), task.pool, ROAD.training)
            drawn = draw_batches(generator(batches, rows.key[i], int(rows.attempt[i])), held, H, BATCH)
            rounds[rows.round[i]].append((drawn, len(held)))
    return rounds


def bare_loop(rounds: Uploads, start: Weights) -> None:
    """Federated averaging as one would write it by hand in PyTorch: the same steps and evaluations, nothing else."""
    train, validation = SAMPLES
    grids, targets = torch.from_numpy(train.grids), torch.from_numpy(train.targets)
    seen, wanted = torch.from_numpy(validation.grids), torch.from_numpy(validation.targets)
    module = Lidar2D()
    load(module, start)
    model = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    evaluate(module, seen, wanted)
    for uploads in rounds:
        states, weights = [], []
        for batches, held in uploads:
            module.load_state_dict(model)
            module.train()
            optimiser = torch.optim.SGD(module.parameters(), lr=RATE)
            for batch in torch.from_numpy(batches):
                optimiser.zero_grad()
                cross_entropy(module(grids[batch].float()), targets[batch]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            states.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
            weights.append(held / sum(d for _, d in uploads))
        if states:
            model = {n: sum((w * s[n] for w, s in zip(weights, states, strict=True)), torch.zeros(())) for n in model}
            module.load_state_dict(model)
            evaluate(module, seen, wanted)


def evaluate(module: Lidar2D, grids: Tensor, targets: Tensor) -> tuple[float, list[float]]:
    module.eval()
    with torch.inference_mode():
        outputs = torch.cat([module(part.float()) for part in torch.split(grids, BATCH)])
        found = outputs.topk(10, dim=1).indices == targets.argmax(dim=1, keepdim=True)
        tops = [found[:, :k].any(dim=1).float().mean().item() for k in (1, 5, 10)]
        return cross_entropy(outputs, targets).item(), tops


def engine() -> None:
    task = BeamTask(SAMPLES, backend="torch")
    start, scores = fresh_start(task, SEED)
    rounds = uploads_by_round(task)
    steps, job = H * sum(map(len, rounds)), Job(task, ROAD, (H, T), SEED)
    assert steps >= MANY, f"the run must have at least {MANY} steps to be worth comparing, got {steps}"

    def with_engine() -> None:
        task.evaluate(start.model)
        rows = [learnt.row for learnt in learn(job, start, scores)]
        assert sum(row["steps"] for row in rows) == steps

    found = ratio(with_engine, lambda: bare_loop(rounds, start.model), 5)
    print(f"engine on PyTorch / bare PyTorch loop ({steps} steps, {len(rounds)} rounds): {found}")


def kernels() -> None:
    fused, peer = FusedBackend(*SAMPLES, "sample", 5), TorchBackend(*SAMPLES, "sample", 5, "cpu")
    weights = BeamTask(SAMPLES).initial_weights(0)
    batches = np.random.default_rng(0).integers(9234, size=(8, BATCH))

    def steps(backend: FusedBackend | TorchBackend) -> Weights:
        return backend.local_steps(weights, batches, SgdTerms(RATE))

    print(f"PyTorch / fused, training step of {BATCH}: {ratio(lambda: steps(peer), lambda: steps(fused))}")
    print(f"PyTorch / fused, evaluation: {ratio(lambda: peer.outputs(weights), lambda: fused.outputs(weights))}")
    with ThreadPoolExecutor(2) as pool:
        two = ratio(lambda: (steps(peer), steps(peer)), lambda: list(pool.map(steps, [fused, fused])))
    print(f"PyTorch on one thread / fused on two, two vehicles: {two}")


def memory() -> None:
    """A paper-size run's peak: the generated set is as large as the paper's."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mobfl", "train", "beams", "--set", "training.duration_s=120"]
        subprocess.run([*command, "--out", str(Path(folder) / "run")], check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory of mobfl train beams, 9,234 + 1,960 samples: {peak:.0f} MB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores")
    kernels()
    engine()
    memory()
