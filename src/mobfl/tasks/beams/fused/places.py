"""Where everything stands in a workspace: tables of numbers, so that one kernel serves every block.

A map's rows are `pitch` numbers apart, two more than its width; a convolution reads it `padded`, with a row of zeros
above and below. All places are counted in single-precision numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.beams.layout import BLOCKS, CHANNELS, INPUTS, PLACES, SIZES, STARTS, STRIDES
from mobfl.tasks.vectors import LANES, kernel

Integers = NDArray[np.int64]

TAPS_AT_ONCE = 5  # a list of taps goes on to a multiple of it
MOST_TAPS = 9 * CHANNELS


class Place(NamedTuple):
    """A block's sizes and where its arrays stand."""

    height: int
    width: int
    pitch: int
    numbers: int  # of a map with its gaps
    span: int  # from one channel's map to the next one's: whole vectors
    down: int  # stride
    across: int
    maps: int  # in `maps`, where its first sample's begin
    taps: int  # how many numbers a convolution's output is made of
    read: int  # in `read`, where the padded input begins
    read_channel: int  # how far its channels are apart
    read_phase: int
    slope: int  # in `padded`, the first number of the output's gradient
    slope_channel: int


def _whole(numbers: int) -> int:
    """Rounded up to whole vectors."""
    return -(-numbers // LANES) * LANES


def _spans() -> list[int]:
    return [_whole(height * (width + 2)) for height, width in SIZES]


def _rooms() -> list[int]:
    """Numbers of a padded map of each block's size, with what vectors read beyond it."""
    return [_whole(LANES + span + 2 * (width + 2) + 2) for span, (_, width) in zip(_spans(), SIZES, strict=True)]


def _lead(block: int) -> int:
    """What stands before a padded map, so that its first number after the padding begins a vector."""
    return -(SIZES[block][1] + 3) % LANES


SPAN = max(_spans())
LAST_SPAN = _spans()[-1]
FEATURE_PLACES = CHANNELS * LAST_SPAN
READ_SIZE = sum(room * c * down * across for room, c, (down, across) in zip(_rooms(), INPUTS, STRIDES, strict=True))
PADDED_SIZE = CHANNELS * sum(_rooms())


def places(samples: int) -> Integers:
    """A row of `Place` for each block of a workspace that holds so many samples' maps."""
    rows, maps, read, padded = list[Place](), 0, 0, 0
    sizes = zip(SIZES, _spans(), _rooms(), STRIDES, INPUTS, strict=True)
    for block, ((height, width), span, room, (down, across), inputs) in enumerate(sizes):
        pitch, phases = width + 2, down * across
        start = padded + _lead(block) + pitch + 1
        rows.append(
            Place(
                *(height, width, pitch, height * pitch, span, down, across, maps, 9 * inputs),
                *(read + _lead(block), phases * room, room, start, room),
            )
        )
        maps += samples * CHANNELS * span
        read += inputs * phases * room
        padded += CHANNELS * room
    return np.array(rows, np.int64)


@kernel
def place_of(table, block):
    t = table[block]
    return Place(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11], t[12], t[13])


def _rounded(taps: list[int], length: int) -> list[int]:
    """The list, its last tap repeated up to this length."""
    return taps + taps[-1:] * (length - len(taps))


def taps() -> Integers:
    """Per block what a convolution reads for its output's first number, from where its input begins; (block, tap).

    Taps are numbered 9·input + 3·row + column.
    """
    table = []
    for block, place in enumerate(places(1).tolist()):
        at = Place(*place)
        offsets = [
            c * at.read_channel
            + (row % at.down * at.across + column % at.across) * at.read_phase
            + row // at.down * at.pitch
            + column // at.across
            for c in range(INPUTS[block])
            for row in range(3)
            for column in range(3)
        ]
        table.append(_rounded(offsets, MOST_TAPS))
    return np.array(table, np.int64)


def weights() -> Integers:
    """Per block where the weight of each tap and output stands among the parameters, (block, tap, output)."""
    table = np.zeros((BLOCKS, MOST_TAPS, CHANNELS), np.int64)
    for block, inputs in enumerate(INPUTS):
        shape = CHANNELS, 9 * inputs
        table[block, : shape[1]] = (STARTS[block] + np.arange(CHANNELS * shape[1]).reshape(shape)).T
    return table


class Back(NamedTuple):
    """How the gradient of a block's input is found, (block, phase of the input, …): a convolution for each phase."""

    counts: Integers  # numbers that an input's gradient is made of
    taps: Integers  # what it reads, from the first number of the output's gradient
    weights: Integers  # (…, tap, input): where their weights stand among the parameters


def _reached(stride: int, phase: int) -> list[tuple[int, int]]:
    """Along one axis the taps by which an input of this phase reaches outputs, and how many places away."""
    if stride == 1:
        return [(tap, 1 - tap) for tap in range(3)]
    return [(1, 0)] if phase == 0 else [(0, 1), (2, 0)]


def back() -> Back:
    counts = np.zeros((BLOCKS, 4), np.int64)
    reads = np.zeros((BLOCKS, 4, MOST_TAPS), np.int64)
    where = np.zeros((BLOCKS, 4, MOST_TAPS, CHANNELS), np.int64)
    for block, place in enumerate(places(1).tolist()):
        at = Place(*place)
        if block == 0:
            continue
        for phase in range(at.down * at.across):
            found = [
                (c * at.slope_channel + down * at.pitch + across, c, 3 * row + column)
                for c in range(CHANNELS)
                for row, down in _reached(at.down, phase // at.across)
                for column, across in _reached(at.across, phase % at.across)
            ]
            counts[block, phase] = len(found)
            for k, (offset, c, tap) in enumerate(found):
                reads[block, phase, k] = offset
                where[block, phase, k] = STARTS[block] + 9 * (CHANNELS * c + np.arange(CHANNELS)) + tap
    return Back(counts, reads, where)


def features() -> Integers:
    """Which feature stands at each place of the last block's maps; −1 in the gaps."""
    (height, width), table = SIZES[-1], np.full((CHANNELS, LAST_SPAN), -1, np.int64)
    rows = table[:, : height * (width + 2)].reshape(CHANNELS, height, width + 2)
    rows[:, :, :width] = np.arange(CHANNELS * PLACES).reshape(CHANNELS, height, width)
    return table.ravel()
