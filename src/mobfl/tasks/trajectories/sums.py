"""Sums over neighbours, forwards and backwards, from tables that are made once per batch.

PyTorch's `index_add` and the backward pass of its indexing walk row by row on a CPU. With the table of who takes from
whom sorted by either side, both directions are the same tight loop.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int32]


@dataclass(frozen=True)
class Table:
    """Row r of a result takes the rows columns[starts[r]:starts[r + 1]] of a source; `back` is its inverse."""

    starts: Tensor
    columns: Tensor
    back_starts: Tensor
    back_columns: Tensor

    @classmethod
    def of(cls, starts: Integers, columns: Integers, sources: int) -> "Table":
        back_starts, back_columns = _turned(starts, columns, sources)
        return cls(*map(torch.from_numpy, (starts, columns, back_starts, back_columns)))

    @property
    def back(self) -> "Table":
        return Table(self.back_starts, self.back_columns, self.starts, self.columns)

    def to(self, device: torch.device) -> "Table":
        return Table(*(each.to(device) for each in (self.starts, self.columns, self.back_starts, self.back_columns)))


@dataclass(frozen=True)
class Pairs:
    """Who looks at whom: tables that spread lookers and seen over the pairs, and (their backs) sum pairs for each."""

    lookers: Table
    seen: Table

    @classmethod
    def of(cls, pairs: Integers, lookers: int, seen: int) -> "Pairs":
        one_each = np.arange(len(pairs) + 1, dtype=np.int32)
        first, second = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        return cls(Table.of(one_each, first, lookers), Table.of(one_each, second, seen))

    def __len__(self) -> int:
        return len(self.lookers.columns)

    def to(self, device: torch.device) -> "Pairs":
        return Pairs(self.lookers.to(device), self.seen.to(device))


def neighbour_sum(source: Tensor, table: Table) -> Tensor:
    """(rows, width): for each row of the table the sum of the source's rows it takes."""
    return _NeighbourSum.apply(source, table)  # type: ignore[no-untyped-call]


class _NeighbourSum(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, source: Tensor, table: Table) -> Tensor:
        context.table = table
        return _summed(source, table)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _summed(gradient, context.table.back), None


def _summed(source: Tensor, table: Table) -> Tensor:
    rows = len(table.starts) - 1
    if source.device.type != "cpu" or source.dtype != torch.float32:
        row = torch.repeat_interleave(torch.arange(rows, device=source.device), table.starts.diff().long())
        return source.new_zeros(rows, source.shape[1]).index_add(0, row, source[table.columns.long()])
    out = torch.empty(rows, source.shape[1])
    _sum_rows(table.starts.numpy(), table.columns.numpy(), source.detach().contiguous().numpy(), out.numpy())
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_rows(starts, columns, source, out):
    # Rows are indexed, not sliced: a slice counts references, which costs more than a narrow row.
    width = source.shape[1]
    for r in range(len(starts) - 1):
        first, end = starts[r], starts[r + 1]
        if first == end:
            for i in range(width):
                out[r, i] = 0.0
            continue
        column = columns[first]
        for i in range(width):
            out[r, i] = source[column, i]
        for j in range(first + 1, end):
            column = columns[j]
            for i in range(width):
                out[r, i] += source[column, i]


@njit(cache=True, nogil=True)
def _turned(starts, columns, sources):
    """The table read from the other side, in the order of the rows: a counting sort."""
    back_starts = np.zeros(sources + 1, np.int32)
    for column in columns:
        back_starts[column + 1] += 1
    for c in range(sources):
        back_starts[c + 1] += back_starts[c]
    place = back_starts[:-1].copy()
    back_columns = np.empty(len(columns), np.int32)
    for r in range(len(starts) - 1):
        for j in range(starts[r], starts[r + 1]):
            back_columns[place[columns[j]]] = r
            place[columns[j]] += 1
    return back_starts, back_columns
