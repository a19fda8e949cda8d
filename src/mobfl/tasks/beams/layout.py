"""Lidar2D in numbers: sizes, strides, the names of its parameters, how it starts, and their order in one array."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.beams.conventions import GRID_SHAPE, PAIRS

BLOCKS, CHANNELS, HIDDEN, CLASSES = 6, 5, 16, PAIRS
GRID_SIZE = GRID_SHAPE[:2]  # seen from above
STRIDES = ((1, 1), (1, 1), (2, 2), (1, 1), (2, 2), (1, 2))
SIZES = ((20, 200), (20, 200), (10, 100), (10, 100), (5, 50), (5, 25))  # of the blocks' outputs
INPUT_SIZES = (GRID_SIZE, *SIZES[:-1])
INPUTS = (1,) + (CHANNELS,) * (BLOCKS - 1)  # channels that a block reads
PLACES = SIZES[-1][0] * SIZES[-1][1]
FEATURES = CHANNELS * PLACES
BATCH_NORM_EPS, BATCH_NORM_MOMENTUM = 1e-5, 0.1

# Where things begin in one array of all parameters: per block the convolution's weight and bias, batch norm's weight
# and bias and PReLU's leak; then the two dense layers.
STARTS = tuple(int(n) for n in np.cumsum([0, *(CHANNELS * c * 9 + 4 * CHANNELS for c in INPUTS)]))
HIDDEN_WEIGHTS = STARTS[-1]
HIDDEN_BIAS = HIDDEN_WEIGHTS + HIDDEN * FEATURES
OUTPUT_WEIGHTS = HIDDEN_BIAS + HIDDEN
OUTPUT_BIAS = OUTPUT_WEIGHTS + CLASSES * HIDDEN
PARAMETERS = OUTPUT_BIAS + CLASSES

Floats = NDArray[np.float32]


def shapes(last_channels: int = CHANNELS) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the parameters and statistics, as in PyTorch's state of `model.Lidar2D`."""
    named: dict[str, tuple[int, ...]] = {}
    for block in range(BLOCKS):
        channels = _channels(block, last_channels)
        named |= {f"blocks.{block}.conv.weight": (channels, INPUTS[block], 3, 3)}
        named |= {f"blocks.{block}.{name}": (channels,) for name in ("conv.bias", *_NORM, *_RUNNING)}
    features = last_channels * PLACES
    return named | {
        "hidden.weight": (HIDDEN, features),
        "hidden.bias": (HIDDEN,),
        "output.weight": (CLASSES, HIDDEN),
        "output.bias": (CLASSES,),
    }


_NORM = ("norm.weight", "norm.bias", "prelu.weight")
_RUNNING = ("norm.running_mean", "norm.running_var")
_CONSTANTS = {
    "norm.weight": 1.0,
    "norm.bias": 0.0,
    "norm.running_mean": 0.0,
    "norm.running_var": 1.0,
    "prelu.weight": 0.25,
}


def _channels(block: int, last_channels: int) -> int:
    return last_channels if block == BLOCKS - 1 else CHANNELS


def initial_weights(random: np.random.Generator, last_channels: int = CHANNELS) -> dict[str, Floats]:
    """PyTorch's own start: weights and biases uniform within ±1/√(inputs), norms neutral, leaks a quarter."""
    named = shapes(last_channels)
    weights = dict[str, Floats]()
    for name, shape in named.items():
        layer = name.rpartition(".")[0]
        constant = next((value for end, value in _CONSTANTS.items() if name.endswith(end)), None)
        if constant is not None:
            weights[name] = np.full(shape, constant, np.float32)
        else:
            bound = 1.0 / np.sqrt(np.prod(named[f"{layer}.weight"][1:]))
            weights[name] = random.uniform(-bound, bound, shape).astype(np.float32)
    return weights


def pack(weights: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """All parameters in one array, and batch norm's running (2, block, channel) means and variances.

    A last block with fewer channels is filled up with zeros, whose gradients are zero as well.
    """
    parts = [_filled(weights[name], shape) for name, shape in shapes().items() if not name.endswith(_RUNNING)]
    running = [[_filled(weights[f"blocks.{b}.{name}"], (CHANNELS,)) for b in range(BLOCKS)] for name in _RUNNING]
    return np.concatenate([part.ravel() for part in parts]), np.array(running)


def pack_slopes(slopes: Mapping[str, Floats]) -> Floats:
    """A number for every parameter in the order of `pack`; zero where none is given."""
    named = {name: slopes.get(name, np.zeros(0, np.float32)) for name in shapes() if not name.endswith(_RUNNING)}
    empty = {name: values if values.size else np.zeros(shapes()[name], np.float32) for name, values in named.items()}
    return np.concatenate([_filled(values, shapes()[name]).ravel() for name, values in empty.items()])


def unpack(parameters: Floats, running: Floats, last_channels: int = CHANNELS) -> dict[str, Floats]:
    """The inverse of `pack`."""
    weights, start = dict[str, Floats](), 0
    full = shapes()
    for name, shape in shapes(last_channels).items():
        if name.endswith(_RUNNING):
            _, block, kind = name.split(".", 2)
            values = running[_RUNNING.index(kind), int(block)]
        else:
            end = start + int(np.prod(full[name]))
            values, start = parameters[start:end].reshape(full[name]), end
        weights[name] = values[tuple(slice(n) for n in shape)].copy()
    return weights


def _filled(values: Floats, shape: tuple[int, ...]) -> Floats:
    filled = np.zeros(shape, np.float32)
    filled[tuple(slice(n) for n in values.shape)] = values
    return filled
