"""Which training samples a vehicle holds, and the batches it draws from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.task import Integers, Pool
from mobfl.scenario import Training

Random = np.random.Generator


def held_samples(random: Random, pool: Pool, training: Training) -> Integers:
    """D_m training samples for one vehicle, split as the scenario says. No sample occurs twice."""
    count = sample_count(random, training)
    if training.split in pool.groups:
        return _of_one_group(random, pool.groups[training.split], count, training.batch_size)
    return SPLITS[training.split](random, pool, count, training.dirichlet_alpha)


def sample_count(random: Random, training: Training) -> int:
    """D_m: a vehicle's first draw."""
    return int(random.integers(training.least_samples, training.most_samples + 1))


def check_samples(pool: Pool, training: Training) -> None:
    """Raises where the pool cannot be split as the scenario says."""
    splits = [*SPLITS, *pool.groups]
    if training.split not in splits:
        raise InputError(f"training.split must be one of {', '.join(splits)} for this task, got {training.split!r}")
    needed = _NEEDED.get(training.split)
    if needed is not None and training.split not in pool.groups and getattr(pool, needed) is None:
        raise InputError(
            f"training.split must be one that needs no {needed}, of which this task has none, got {training.split!r}"
        )
    if training.most_samples > len(pool):
        raise InputError(
            f"training.samples_per_vehicle must be <= the {len(pool)} training samples, got {training.most_samples}"
        )
    if training.split in pool.groups and np.bincount(pool.groups[training.split]).max() < training.batch_size:
        raise InputError(
            f"training.batch_size must be <= the samples of some {training.split}, got {training.batch_size}"
        )


def draw_batches(random: Random, held: Integers, steps: int, batch_size: int) -> Integers:
    """A batch per local step, (steps, batch_size), each a new draw without repetition."""
    return np.stack([random.choice(held, batch_size, replace=False, shuffle=False) for _ in range(steps)])


def _at_random(random: Random, pool: Pool, count: int, _: float) -> Integers:
    """The paper's way: everyone draws from the whole set."""
    return random.choice(len(pool), count, replace=False)


def _by_place(random: Random, pool: Pool, count: int, _: float) -> Integers:
    """Neighbours along the road: the vehicle gathered its samples on one stretch of it."""
    first = int(random.integers(len(pool) - count + 1))
    return np.argsort(_known(pool.places), kind="stable")[first : first + count]


def _by_dirichlet(random: Random, pool: Pool, count: int, alpha: float) -> Integers:
    """Labels in proportions of its own, q ~ Dirichlet(α · the labels' shares in the set) (Hsu, Qi, Brown 2019).

    Samples are drawn one after the other with chances q_label / (samples of that label): by Gumbel's trick the
    largest log-chances plus noise. When a label has no more samples the others take its place.
    """
    _, kind, counts = np.unique(_known(pool.labels), return_inverse=True, return_counts=True)
    log_q = _log_gamma_draws(random, alpha * counts / len(pool))
    noise = random.gumbel(size=len(pool))
    return np.argpartition(-((log_q - np.log(counts))[kind] + noise), count - 1)[:count]


def _log_gamma_draws(random: Random, shape: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of gamma draws, which for small shapes underflow: Γ(a) is Γ(a + 1) times U^(1/a)."""
    return np.log(random.standard_gamma(shape + 1.0)) - random.standard_exponential(len(shape)) / shape


def _of_one_group(random: Random, groups: Integers, count: int, least: int) -> Integers:
    """From one group alone, such as one city; all of it if it has fewer, and never one too small for a batch."""
    sizes = np.bincount(groups)
    chances = np.where(sizes >= least, sizes, 0)
    mine = np.flatnonzero(groups == random.choice(len(sizes), p=chances / chances.sum()))
    return random.choice(mine, min(count, len(mine)), replace=False)


SPLITS: dict[str, Callable[[Random, Pool, int, float], Integers]] = {
    "random": _at_random,
    "place": _by_place,
    "dirichlet": _by_dirichlet,
}
_NEEDED = {"place": "places", "dirichlet": "labels"}  # what a split looks at


def _known(column: NDArray[Any] | None) -> NDArray[Any]:
    """`check_samples` has seen to it."""
    if column is None:
        raise ValueError("the pool lacks what its split needs")
    return column
