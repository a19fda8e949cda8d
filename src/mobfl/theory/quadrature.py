"""Gauss-Legendre quadrature on panels, elementwise: every element may have its own edges."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


# The positive half of np.polynomial.legendre.leggauss(20), digit by digit (a test compares them): importing that module
# takes a tenth of the time of `mobfl plan`.
_HALF_NODES = (
    0.07652652113349734,
    0.22778585114164507,
    0.37370608871541955,
    0.5108670019508271,
    0.636053680726515,
    0.7463319064601508,
    0.8391169718222188,
    0.912234428251326,
    0.9639719272779138,
    0.993128599185095,
)
_HALF_WEIGHTS = (
    0.15275338713072628,
    0.14917298647260424,
    0.1420961093183824,
    0.1316886384491769,
    0.1181945319615186,
    0.1019301198172407,
    0.08327674157670471,
    0.06267204833410879,
    0.040601429800386446,
    0.017614007139150893,
)
_NODES = np.array([*(-node for node in reversed(_HALF_NODES)), *_HALF_NODES])
_WEIGHTS = np.array([*reversed(_HALF_WEIGHTS), *_HALF_WEIGHTS])


def panels(edges: Array) -> tuple[Array, Array]:
    """Nodes and weights of ∫ from the least to the greatest edge, along a new leading axis.

    The integrand may bend or jump at the edges (leading axis, any order) and must be smooth between them.
    """
    edges = np.sort(edges, axis=0)
    middle = (edges[1:] + edges[:-1]) / 2  # (panels, ...)
    half = (edges[1:] - edges[:-1]) / 2
    x, w = (a.reshape((-1,) + (1,) * half.ndim) for a in (_NODES, _WEIGHTS))  # (20, 1, ...)
    flat = (-1, *half.shape[1:])
    return (middle + half * x).reshape(flat), (half * w).reshape(flat)
