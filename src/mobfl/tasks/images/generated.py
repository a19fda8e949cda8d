"""Pictures that need no data: ten shapes and textures, turned, shifted, scaled, coloured and noisy at random."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mobfl.rng import generator, stream
from mobfl.tasks.images.pictures import CLASSES, SHAPE, Pictures

Floats = NDArray[np.float32]
Masks = NDArray[np.bool_]

# As many as quick runs need; CIFAR-10 has 50,000 and 10,000.
TRAINING_SAMPLES, VALIDATION_SAMPLES = 10_000, 1_000
_BLOCK = 250  # pictures that one generator draws, so that more of them leave the first as they are

# Some pictures are clear and some can hardly be read, so that scores neither stay at chance nor soon reach the top.
_RADIUS = 6.0, 12.0  # pixels
_CONTRAST = 25.0, 80.0  # of 255, in every colour
_NOISE = 5.0, 50.0  # of 255
_MOST_TURN = 0.3  # rad
_MOST_STRETCH = 0.2


@lru_cache(maxsize=2)
def generated_pictures(seed: int, training: int, validation: int) -> tuple[Pictures, Pictures]:
    """Training and validation pictures, each drawn by number: other sizes share the first of them."""
    return _drawn(stream(seed, "training pictures"), training), _drawn(stream(seed, "validation pictures"), validation)


def _drawn(own: np.uint64, count: int) -> Pictures:
    blocks = [_block(generator(own, np.uint64(block))) for block in range(-(-count // _BLOCK))]
    pixels = np.concatenate([block.pixels for block in blocks])[:count]
    labels = np.concatenate([block.labels for block in blocks])[:count]
    for array in (pixels, labels):
        array.flags.writeable = False  # they are shared by all who ask
    return Pictures(pixels, labels)


def _block(random: np.random.Generator) -> Pictures:
    labels = random.integers(CLASSES, size=_BLOCK)
    masks = _shapes(random, labels)
    ground, figure = _colours(random)
    pixels = np.where(masks[:, None], figure, ground)
    pixels += _shade(random) + _noise(random)
    return Pictures(np.clip(np.rint(pixels), 0, 255).astype(np.uint8), labels)


def _shapes(random: np.random.Generator, labels: NDArray[np.int64]) -> Masks:
    """Which pixels belong to the figure (N, 32, 32)."""
    x, y = _own_coordinates(random)
    masks = np.empty(x.shape, np.bool_)
    for label, shape in enumerate(_CLASSES):
        mine = labels == label
        masks[mine] = shape(x[mine], y[mine])
    return masks


def _own_coordinates(random: np.random.Generator) -> tuple[Floats, Floats]:
    """Every pixel as its figure sees it, which reaches from −1 to 1."""
    height, width = SHAPE[1:]
    radius = random.uniform(*_RADIUS, (_BLOCK, 1, 1))
    rows = np.arange(height)[:, None] - random.uniform(radius, height - 1 - radius)
    columns = np.arange(width) - random.uniform(radius, width - 1 - radius)
    angle = random.uniform(-_MOST_TURN, _MOST_TURN, (_BLOCK, 1, 1))
    stretch = 1.0 + random.uniform(-_MOST_STRETCH, _MOST_STRETCH, (_BLOCK, 1, 1))
    x = (np.cos(angle) * columns + np.sin(angle) * rows) / (radius * stretch)
    y = (np.cos(angle) * rows - np.sin(angle) * columns) * stretch / radius
    return x.astype(np.float32), y.astype(np.float32)


def _colours(random: np.random.Generator) -> tuple[Floats, Floats]:
    """Of ground and figure (N, 3, 1, 1): any, but never the same."""
    ground = random.uniform(80.0, 160.0, (_BLOCK, 3, 1, 1))
    contrast = random.uniform(*_CONTRAST, ground.shape)
    figure = ground + contrast * random.choice([-1.0, 1.0], (_BLOCK, 1, 1, 1))
    return ground.astype(np.float32), figure.astype(np.float32)


def _shade(random: np.random.Generator) -> Floats:
    """Light that falls from one side (N, 1, 32, 32)."""
    slope = random.uniform(-1.5, 1.5, (2, _BLOCK, 1, 1, 1)).astype(np.float32)
    rows, columns = (np.arange(size, dtype=np.float32) - size / 2 for size in SHAPE[1:])
    return slope[0] * rows[:, None] + slope[1] * columns


def _noise(random: np.random.Generator) -> Floats:
    strength = random.uniform(*_NOISE, (_BLOCK, 1, 1, 1)).astype(np.float32)
    return strength * random.standard_normal((_BLOCK, *SHAPE), np.float32)


def _within(x: Floats, y: Floats) -> Floats:
    """Distance from the middle of a square."""
    return np.maximum(np.abs(x), np.abs(y))


# The classes in the order of their labels.
_CLASSES: tuple[Callable[[Floats, Floats], Masks], ...] = (
    lambda x, y: x**2 + y**2 < 1,  # disc
    lambda x, y: (x**2 + y**2 < 1) & (x**2 + y**2 > 0.36),  # ring
    lambda x, y: _within(x, y) < 0.85,  # square
    lambda x, y: (_within(x, y) < 0.85) & (_within(x, y) > 0.5),  # frame
    lambda x, y: (y > -0.6) & (np.abs(x) < 0.6 * (1 - y)),  # triangle
    lambda x, y: (np.minimum(np.abs(x), np.abs(y)) < 0.25) & (_within(x, y) < 1),  # cross
    lambda x, y: (np.abs(x) < 1) & (np.abs(y) < 0.35),  # bar
    lambda x, y: (_within(x, y) < 1) & (np.sin(9 * y) > 0),  # stripes
    lambda x, y: (_within(x, y) < 1) & (np.sin(6.5 * x) * np.sin(6.5 * y) > 0),  # chequers
    lambda x, y: (_within(x, y) < 1) & (np.cos(7 * x) + np.cos(7 * y) > 0.8),  # dots
)
