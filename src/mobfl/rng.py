"""Random numbers addressed by what they are for, never by the order in which they are drawn.

A number is found by (seed, purpose, vehicle, attempt). Seed and purpose give a stream, stream and vehicle a key,
and the key is the state of a SplitMix64 generator (Steele, Lea, Flood 2014) whose attempt-th output is the draw.
So a vehicle more or less, another plan or another number of workers shifts nobody else's draws.
"""

import math
from collections.abc import Sequence

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from mobfl.errors import InputError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31 = (np.uint64(shift) for shift in (11, 27, 30, 31))
_ONE = np.uint64(1)
_STEP = 2.0**-53


def stream(seed: int, purpose: str) -> np.uint64:
    """The stream of a seed (≥ 0) for one purpose, independent of every other purpose's."""
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}")
    return np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1, np.uint64)[0]


@njit(uint64(uint64), inline="always", cache=True)
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@njit(inline="always", cache=True)
def vehicle_key(stream: np.uint64, vehicle: np.uint64) -> np.uint64:
    return _mix(stream ^ _mix(vehicle + _GOLDEN))


@njit(inline="always", cache=True)
def uniform(key: np.uint64, attempt: int) -> float:
    """Uniform in (0, 1]."""
    bits = _mix(key + (np.uint64(attempt) + _ONE) * _GOLDEN)
    return (np.float64(bits >> _S11) + 1.0) * _STEP


def _layers() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Right ends and heights of the ziggurat's 256 layers of equal area under e^−x (Marsaglia, Tsang 2000)."""
    ends = np.empty(257)
    ends[0], ends[1], ends[256] = _AREA * math.exp(_TAIL), _TAIL, 0.0
    for i in range(2, 256):
        ends[i] = -math.log(_AREA / ends[i - 1] + math.exp(-ends[i - 1]))
    return ends, np.exp(-ends)


_TAIL, _AREA = 7.69711747013104972, 0.0039496598225815571993
_ENDS, _HEIGHTS = _layers()
_LAYER = np.uint64(255)


@njit(inline="always", cache=True)
def exponential(key: np.uint64, attempt: int) -> float:
    """Exponential with mean 1, by the ziggurat: 99 draws in 100 need no logarithm and no second number."""
    bits = _mix(key + (np.uint64(attempt) + _ONE) * _GOLDEN)
    layer = bits & _LAYER
    x = np.float64(bits >> _S11) * _STEP * _ENDS[layer]
    if x < _ENDS[layer + _ONE]:
        return x
    return _exponential_edge(bits, x)


@njit(cache=True)
def _exponential_edge(bits: np.uint64, x: float) -> float:
    """What remains of a draw that fell beside its layer's inner part; further numbers come from its own bits."""
    beyond = 0.0
    while True:
        layer = bits & _LAYER
        bits = _mix(bits + _GOLDEN)
        height = np.float64(bits >> _S11) * _STEP
        if layer == 0:  # the tail is the same law again
            beyond += _TAIL
        elif _HEIGHTS[layer] + height * (_HEIGHTS[layer + _ONE] - _HEIGHTS[layer]) < math.exp(-x):
            return beyond + x
        bits = _mix(bits + _GOLDEN)
        layer = bits & _LAYER
        x = np.float64(bits >> _S11) * _STEP * _ENDS[layer]
        if x < _ENDS[layer + _ONE]:
            return beyond + x


@njit(inline="always", cache=True)
def normal(key: np.uint64, attempt: int) -> float:
    """Normal with mean 0 and standard deviation 1 (Box, Muller 1958)."""
    angle = 2.0 * math.pi * uniform(vehicle_key(_GOLDEN, key), attempt)
    return math.sqrt(-2.0 * math.log(uniform(key, attempt))) * math.cos(angle)


def generator(stream: np.uint64, vehicle: np.uint64, attempt: int = 0) -> np.random.Generator:
    """NumPy's generator for what one vehicle draws in one attempt."""
    key = np.array([vehicle_key(stream, vehicle), attempt], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


@njit(cache=True)
def vehicle_keys(stream: np.uint64, vehicles: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The key of every vehicle in a stream."""
    keys = np.empty_like(vehicles)
    for i in range(len(vehicles)):
        keys[i] = vehicle_key(stream, vehicles[i])
    return keys


@njit(cache=True)
def uniforms(stream: np.uint64, vehicles: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The first uniform of every vehicle in a stream."""
    draws = np.empty(len(vehicles))
    for i in range(len(vehicles)):
        draws[i] = uniform(vehicle_key(stream, vehicles[i]), 0)
    return draws


def classes_of(stream: np.uint64, vehicles: NDArray[np.uint64], shares: Sequence[float]) -> NDArray[np.int8]:
    """The class of every vehicle, as its place in `shares`, which are the classes' chances."""
    if len(shares) == 1:
        return np.zeros(len(vehicles), np.int8)
    bounds = np.cumsum(shares)[:-1]  # what is above all of them is the last class
    return np.searchsorted(bounds, uniforms(stream, vehicles)).astype(np.int8)
