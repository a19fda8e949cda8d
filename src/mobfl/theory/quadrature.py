"""Gauss-Legendre quadrature on panels, elementwise: every element may have its own edges."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@cache
def _legendre(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


def panels(edges: Array, order: int = 20) -> tuple[Array, Array]:
    """Nodes and weights of ∫ from the least to the greatest edge, along a new leading axis.

    The integrand may bend or jump at the edges (leading axis, any order) and must be smooth between them.
    """
    edges = np.sort(edges, axis=0)
    middle = (edges[1:] + edges[:-1]) / 2  # (panels, ...)
    half = (edges[1:] - edges[:-1]) / 2
    x, w = (a.reshape((-1,) + (1,) * half.ndim) for a in _legendre(order))  # (order, 1, ...)
    flat = (-1, *half.shape[1:])
    return (middle + half * x).reshape(flat), (half * w).reshape(flat)
