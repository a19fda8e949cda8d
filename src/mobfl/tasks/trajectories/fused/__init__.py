"""LaneGCN's layers, each with its backward pass, as Numba kernels: the fast way on a CPU."""
