"""Sums over neighbours, forwards and backwards, from tables that are made once per batch.

PyTorch's `index_add` and the backward pass of its indexing walk row by row on a CPU. With the table of who takes from
whom sorted by either side, both directions are the same tight loop.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

# What so many rows take, of all kinds, stays in a core's cache until it is multiplied (1 MB at width 32). All rows' at
# once goes through memory, and products are then three times as slow.
_ROWS_AT_ONCE = 512

Integers = NDArray[np.int32]


@dataclass(frozen=True)
class Table:
    """Row r of a result takes what columns[starts[r]:starts[r + 1]] name: source · kinds + kind of taking.

    `back` is its inverse: which rows take from a source, each as row · kinds + kind.
    """

    starts: Tensor
    columns: Tensor
    back_starts: Tensor
    back_columns: Tensor
    kinds: int = field(default=1, kw_only=True)

    @classmethod
    def of(cls, starts: Integers, columns: Integers, sources: int, kinds: int = 1) -> "Table":
        back_starts, back_columns = _turned(starts, columns, sources, kinds)
        return cls(*map(torch.from_numpy, (starts, columns, back_starts, back_columns)), kinds=kinds)

    @property
    def back(self) -> "Table":
        return Table(self.back_starts, self.back_columns, self.starts, self.columns, kinds=self.kinds)

    def to(self, device: torch.device) -> "Table":
        tensors = (self.starts, self.columns, self.back_starts, self.back_columns)
        return Table(*(each.to(device) for each in tensors), kinds=self.kinds)


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


def related_sum(source: Tensor, matrices: Tensor, table: Table, rows: int) -> Tensor:
    """(rows, width): for each of the table's first rows the sum of what it takes, each kind through its own matrix.

    `matrices` (kinds · width, width) stand one below the other. Rows of the source that are not taken may be missing at
    its end.
    """
    return _RelatedSum.apply(source, matrices, table, rows)  # type: ignore[no-untyped-call]


class _NeighbourSum(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, source: Tensor, table: Table) -> Tensor:
        context.table, context.sources = table, len(source)
        return _gathered(source, table, slice(0, len(table.starts) - 1))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _gathered(gradient, context.table.back, slice(0, context.sources)), None


class _RelatedSum(torch.autograd.Function):
    """Neighbours of a kind are summed before they are multiplied, and so are gradients on the way back."""

    @staticmethod
    def forward(context: Any, source: Tensor, matrices: Tensor, table: Table, rows: int) -> Tensor:
        context.save_for_backward(source, matrices)
        context.table = table
        width = source.shape[1]
        turned = matrices.view(table.kinds, width, width).transpose(1, 2).reshape(-1, width)
        out = source.new_empty(rows, width)
        for block in _blocks(rows, source.device):
            torch.mm(_gathered(source, table, block), turned, out=out[block])
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        source, matrices = context.saved_tensors
        by_source, by_matrices = torch.empty_like(source), torch.zeros_like(matrices)
        for block in _blocks(len(source), source.device):
            gathered = _gathered(gradient, context.table.back, block)
            torch.mm(gathered, matrices, out=by_source[block])
            by_matrices.addmm_(gathered.T, source[block])
        return by_source, by_matrices, None, None


def _blocks(rows: int, device: torch.device) -> Iterator[slice]:
    at_once = _ROWS_AT_ONCE if device.type == "cpu" else max(rows, 1)
    return (slice(first, min(first + at_once, rows)) for first in range(0, rows, at_once))


def _gathered(source: Tensor, table: Table, rows: slice) -> Tensor:
    """(rows, kinds · width): the sums of what these rows take, kind beside kind; what the source lacks is left out."""
    count, width = rows.stop - rows.start, source.shape[1]
    starts = table.starts[rows.start : rows.stop + 1]
    if source.device.type == "cpu" and source.dtype == torch.float32:
        out = torch.empty(count * table.kinds, width)
        _gather(starts.numpy(), table.columns.numpy(), table.kinds, source.detach().contiguous().numpy(), out.numpy())
    else:
        columns = table.columns[starts[0] : starts[-1]].long()
        row = torch.repeat_interleave(torch.arange(count, device=source.device), starts.diff().long())
        taken, there = columns // table.kinds, columns // table.kinds < len(source)
        place = row * table.kinds + columns % table.kinds
        out = source.new_zeros(count * table.kinds, width).index_add(0, place[there], source[taken[there]])
    return out.view(count, table.kinds * width)


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(starts, columns, kinds, source, out):
    # Rows are indexed, not sliced: a slice counts references, which costs more than a narrow row.
    width = source.shape[1]
    for r in range(len(starts) - 1):
        for place in range(r * kinds, (r + 1) * kinds):
            for i in range(width):
                out[place, i] = 0.0
        for j in range(starts[r], starts[r + 1]):
            taken = columns[j] // kinds
            if taken < len(source):
                place = r * kinds + columns[j] - taken * kinds
                for i in range(width):
                    out[place, i] += source[taken, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _turned(starts, columns, sources, kinds):
    """The table read from the other side, in the order of the rows: a counting sort."""
    back_starts = np.zeros(sources + 1, np.int32)
    for column in columns:
        back_starts[column // kinds + 1] += 1
    for c in range(sources):
        back_starts[c + 1] += back_starts[c]
    place = back_starts[:-1].copy()
    back_columns = np.empty(len(columns), np.int32)
    for r in range(len(starts) - 1):
        for j in range(starts[r], starts[r + 1]):
            taken = columns[j] // kinds
            back_columns[place[taken]] = r * kinds + columns[j] - taken * kinds
            place[taken] += 1
    return back_starts, back_columns
