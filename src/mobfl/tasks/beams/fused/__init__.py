"""Lidar2D's forward pass, backward pass and SGD steps as Numba kernels of explicit vectors: the fast way on a CPU.

PyTorch's kernels do not suit five channels. Here a feature map is one flat array per channel, its rows two numbers
apart, so that a 3×3 tap is the same array read from another offset and every inner loop runs over a whole map. What a
strided convolution reads is stored as phases (even and odd rows and columns), so its taps are contiguous as well. Batch
norm and PReLU are applied where a map is written for the next convolution. The gaps between the rows of a map serve as
its padding, and are zero wherever a gradient is summed.

The reference is `model.Lidar2D`, whose parameters `layout` brings into the order used here. The interpreter's lock is
released, so vehicles train in parallel threads, each with a workspace of its own.
"""
