"""Where a link that draws has its random numbers from: a generator of its own for every server step.

In simulation it is addressed by (seed, the link's place, step): the same for the same seed, after a resume and with any
number of workers. Addressed by the step's number and not by what the rule remembers: a step that is taken back cannot
make the next one draw the same noise again. A deployed server takes the operating system's entropy instead: a seed is
written down in run.json, and whoever knows it could take the noise off again.
"""

from collections.abc import Callable

import numpy as np

from mobfl.rng import generator, stream

Draw = Callable[[int], np.random.Generator]
"""The generator of the link at this place of the chain, for one server step."""


def addressed_draw(seed: int, step: int) -> Draw:
    return lambda place: generator(stream(seed, "rule"), np.uint64(place), step)


def secret_draw(place: int) -> np.random.Generator:  # noqa: ARG001
    return np.random.Generator(np.random.Philox())
