"""How fast LaneGCN trains and how fast Argoverse is prepared, against straightforward ways of doing it.

    python benchmarks/trajectories.py ARGOVERSE_FOLDER

Ratios are medians over alternating runs in this one process, one thread each, with their range, of processor time, so
that other work on the machine matters less; only two threads against one are of wall-clock time. Training: steps of 64
scenes at widths 16 and 32, with batching, forward and backward pass and the SGD step, against `plain_lanegcn.py` with
the same parameters. Evaluation: the forward pass, batches being kept as a run keeps them; the plain way finds its pairs
again. Both must come to the same loss and the same gradients. Two vehicles: side by side against one after the other;
both must learn the same bytes. Preparation: a sequence from its CSV to a scene with all its relations and pairs,
against pandas reading the same CSV and putting its rows into tracks one by one, which is only the first part of it.
Without an argument, training on the generated town.
"""

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from plain_lanegcn import plain_forward

from mobfl import SgdTerms
from mobfl.files.cache import cache_folder
from mobfl.learning.torch_steps import prepare_cpu
from mobfl.tasks.trajectories.argoverse1 import sequence_files
from mobfl.tasks.trajectories.batches import batch_of
from mobfl.tasks.trajectories.lanegcn import LaneGCN
from mobfl.tasks.trajectories.loss import lanegcn_loss
from mobfl.tasks.trajectories.scenes import Scene, scene_of
from mobfl.tasks.trajectories.sources import Town, argoverse_sources
from mobfl.tasks.trajectories.store import SceneStore, Source, open_store
from mobfl.tasks.trajectories.task import TrajectoryTask

BATCH, REPEATS, STEPS = 64, 5, 8


def ratio(
    peer: Callable[[], object],
    ours: Callable[[], object],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> str:
    """How many times as long the peer takes."""
    peer()
    ours()
    ratios = []
    for _ in range(repeats):
        begin = clock()
        peer()
        middle = clock()
        ours()
        ratios.append((middle - begin) / (clock() - middle))
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def training(scenes: list[Scene], width: int) -> None:
    torch.manual_seed(0)
    model = LaneGCN(width)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    made_before = batch_of(scenes)  # of which the plain way takes the truth only

    def step(plain: bool) -> None:
        optimiser.zero_grad()
        batch = made_before if plain else batch_of(scenes)
        futures, scores = plain_forward(model, scenes) if plain else model(batch)
        lanegcn_loss(futures, scores, batch.future, batch.seen).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def evaluate(plain: bool) -> float:
        with torch.inference_mode():
            futures, scores = plain_forward(model, scenes) if plain else model(made_before)
            return float(lanegcn_loss(futures, scores, made_before.future, made_before.seen))

    assert_same_work(evaluate, model, scenes)
    for name, work in (("training step", step), ("evaluation", evaluate)):
        found = ratio(lambda work=work: work(True), lambda work=work: work(False), REPEATS)  # type: ignore[misc]
        begin = time.process_time()
        work(False)
        spent = time.process_time() - begin
        print(f"plain PyTorch / ours, {name} of {BATCH} scenes, width {width}: {found}; ours {spent:.2f} s", flush=True)


def assert_same_work(evaluate: Callable[[bool], float], model: LaneGCN, scenes: list[Scene]) -> None:
    """Both ways come to the same loss, and to gradients of the same length and direction."""
    assert abs(evaluate(True) - evaluate(False)) < 1e-4 * evaluate(True)
    gradients = []
    batch = batch_of(scenes)
    for futures, scores in (plain_forward(model, scenes), model(batch)):
        model.zero_grad()
        lanegcn_loss(futures, scores, batch.future, batch.seen).backward()  # type: ignore[no-untyped-call]
        gradients.append(torch.cat([each.grad.ravel() for each in model.parameters() if each.grad is not None]))
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 1e-3


def two_vehicles(store: SceneStore, width: int) -> None:
    """One after the other, and side by side as a run with two workers trains them."""
    task = TrajectoryTask(store, store, width)
    start, batches = task.initial_weights(0), np.random.default_rng(0).integers(len(store), size=(2, STEPS, BATCH))

    def learnt(vehicle: int) -> list[bytes]:
        return [each.tobytes() for each in task.local_steps(start, batches[vehicle], SgdTerms(0.01)).values()]

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(learnt, (0, 1)))
        assert both == [learnt(0), learnt(1)]
        assert both[0] != both[1]
        found = ratio(
            lambda: [learnt(0), learnt(1)], lambda: list(pool.map(learnt, (0, 1))), REPEATS, time.perf_counter
        )
    print(f"two vehicles of {STEPS} steps on one thread / on two, width {width}: {found}", flush=True)


def by_pandas(file: Path) -> dict[str, list[tuple[float, float, float]]]:
    tracks: dict[str, list[tuple[float, float, float]]] = {}
    for _, row in pd.read_csv(file).iterrows():
        tracks.setdefault(row["TRACK_ID"], []).append((row["TIMESTAMP"], row["X"], row["Y"]))
    return tracks


def preparation(source: Source, files: list[Path]) -> None:
    some = range(0, len(files), len(files) // 40)

    def ours() -> None:
        for number in some:
            scene_of(*source.read(number))

    found = ratio(lambda: [by_pandas(files[number]) for number in some], ours, REPEATS)
    print(f"pandas row by row, reading alone / ours, from the CSV to the scene ({len(some)} sequences): {found}")


def main() -> None:
    prepare_cpu()
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        _, source = argoverse_sources(folder)
        preparation(source, sequence_files(folder / "val"))
    else:
        source = Town(0, 0, 128)
    store = open_store(source, cache_folder())
    scenes = store.scenes(np.arange(BATCH))
    print(
        f"{np.mean([len(scene.nodes) for scene in scenes]):.0f} nodes and"
        f" {np.mean([len(scene.actors) for scene in scenes]):.1f} actors per scene"
    )
    for width in (16, 32):
        training(scenes, width)
        two_vehicles(store, width)


if __name__ == "__main__":
    main()
