"""The samples of a `TorchTask`: kept as tensors where they fit, read on demand where not, and what splits look at."""

import hashlib
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from mobfl.errors import InputError
from mobfl.learning.task import Integers, Pool

MOST_BYTES = 2 << 30  # of a data set that is read into memory as a whole
_LOOKED_AT = 64  # samples that stand for all of a data set that is not in memory


@dataclass(frozen=True)
class InMemory:
    inputs: Tensor  # (N, …)
    targets: Tensor  # (N, …)

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        numbers = numbers.to(self.inputs.device)
        return self.inputs[numbers], self.targets[numbers]

    def fingerprint(self) -> str:
        return _digest([self.inputs, self.targets])

    def classes(self) -> Any:
        whole = not (self.targets.is_floating_point() or self.targets.is_complex())
        return self.targets.cpu().numpy() if whole and self.targets.ndim == 1 else None


@dataclass(frozen=True)
class OnDemand:
    """Samples that are read when they are needed, one thread at a time: few data sets expect more."""

    name: str
    source: Any
    count: int
    device: torch.device
    reading: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return self.count

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        with self.reading:
            inputs, targets = _stacked(self.name, self.source, numbers.tolist())
        return inputs.to(self.device), targets.to(self.device)

    def fingerprint(self) -> str:
        """Of samples from beginning to end: to read them all would take too long."""
        some = torch.linspace(0, self.count - 1, min(_LOOKED_AT, self.count)).long()
        return _digest([torch.tensor(self.count), *self.batch(some)])

    def classes(self) -> Any:
        """As torchvision's data sets tell them."""
        told = getattr(self.source, "targets", None)
        if told is None or len(told) != self.count:
            return None
        kinds = np.asarray(told)
        return kinds if kinds.ndim == 1 and kinds.dtype.kind in "iu" else None


def samples_of(name: str, given: Any, device: torch.device) -> InMemory | OnDemand:
    if isinstance(given, TensorDataset) and len(given.tensors) == 2:
        given = given.tensors
    if _is_pair(given):
        return _paired(name, given[0], given[1], device)
    try:
        count = len(given)
        _ = given.__getitem__
    except (TypeError, AttributeError, NotImplementedError):
        raise InputError(
            f"{name} must be a pair (inputs, targets) of arrays, or a data set with len() and [number],"
            f" got {type(given).__name__}"
        ) from None
    _check_count(name, count)
    size = count * sum(part.nbytes for part in _sample(name, given, 0))
    if size > MOST_BYTES:
        return OnDemand(name, given, count, device)
    inputs, targets = _stacked(name, given, range(count))
    return _paired(name, inputs, targets, device)


def _is_pair(given: Any) -> bool:
    """Two arrays; a list of two samples would hold tuples."""
    return isinstance(given, tuple | list) and len(given) == 2 and not any(isinstance(each, tuple) for each in given)


def _paired(name: str, inputs: Any, targets: Any, device: torch.device) -> InMemory:
    inputs, targets = _tensor(f"{name} inputs", inputs), _tensor(f"{name} targets", targets)
    for what, part in (("inputs", inputs), ("targets", targets)):
        if part.ndim == 0:
            raise InputError(f"{name} {what} must have a row per sample, got a single number")
    if len(inputs) != len(targets):
        raise InputError(f"{name} must have as many inputs as targets, got {len(inputs)} and {len(targets)}")
    _check_count(name, len(inputs))
    if targets.ndim == 1 and targets.dtype != torch.bool and not targets.is_floating_point():
        targets = targets.long()  # cross entropy wants nothing else
    return InMemory(inputs.to(device), targets.to(device))


def _check_count(name: str, count: int) -> None:
    if count < 1:
        raise InputError(f"{name} must have at least one sample, got none")


def _stacked(name: str, source: Any, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """These samples of a data set, in two tensors that are made once: a list of samples would need the memory twice."""
    first = _sample(name, source, numbers[0])
    whole = [torch.empty((len(numbers), *part.shape), dtype=part.dtype) for part in first]
    for row, number in enumerate(numbers):
        for what, all_of_it, part, like in zip(_PARTS, whole, _sample(name, source, number), first, strict=True):
            if part.shape != like.shape or part.dtype != like.dtype:
                kinds = f"{kind_of(like)} for {numbers[0]} and {kind_of(part)} for {number}"
                raise InputError(f"{name} {what} must be of one shape and type, got {kinds}")
            all_of_it[row] = part
    return whole[0], whole[1]


_PARTS = ("inputs", "targets")


def _sample(name: str, source: Any, number: int) -> tuple[Tensor, Tensor]:
    try:
        sample = source[number]
    except Exception as error:
        blame(name, f"have a sample of the number {number}", error)
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise InputError(f"{name} must give pairs (input, target), got {type(sample).__name__} for {number}")
    return _tensor(f"{name} inputs", sample[0]), _tensor(f"{name} targets", sample[1])


def _tensor(what: str, values: Any) -> Tensor:
    if not isinstance(values, Tensor):
        values = _from_numpy(what, values)
    values = values.detach()
    return values.float() if values.dtype == torch.float64 else values


def _from_numpy(what: str, values: Any) -> Tensor:
    try:
        array = np.asarray(values)
    except Exception as error:
        blame(what, "be arrays of numbers", error)
    if array.dtype.kind not in "biuf":
        got = type(values).__name__ if array.dtype.kind == "O" else f"values of {array.dtype}"
        raise InputError(f"{what} must be arrays of numbers, got {got}")
    array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nobody writes
        return torch.from_numpy(array)


def _digest(tensors: Sequence[Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


# What splits look at --------------------------------------------------------------------------------------------------


def pool_of(
    train: InMemory | OnDemand, labels: ArrayLike | None, places: ArrayLike | None, groups: Mapping[str, ArrayLike]
) -> Pool:
    classes = train.classes() if labels is None else labels
    return Pool(
        None if classes is None else _whole("labels", classes, len(train)),
        None if places is None else _places(places, len(train)),
        {name: _members(f"groups[{name!r}]", group, len(train)) for name, group in groups.items()},
        len(train),
    )


def _column(name: str, values: ArrayLike, count: int) -> NDArray[Any]:
    column = values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if column.shape != (count,):
        raise InputError(f"{name} must be one number per training sample ({count}), got the shape {column.shape}")
    return column


def _whole(name: str, values: ArrayLike, count: int) -> Integers:
    column = _column(name, values, count)
    if column.dtype.kind not in "biu":
        raise InputError(f"{name} must be integers, got {column.dtype}")
    return column.astype(np.int64)


def _members(name: str, values: ArrayLike, count: int) -> Integers:
    members = _whole(name, values, count)
    if members.min() < 0:
        raise InputError(f"{name} must be integers >= 0, got {members.min()}")
    return members


def _places(values: ArrayLike, count: int) -> NDArray[np.float64]:
    column = _column("places", values, count)
    if column.dtype.kind not in "biuf" or not np.isfinite(column).all():
        raise InputError("places must be finite numbers, got others")
    return column.astype(np.float64)


# Words ----------------------------------------------------------------------------------------------------------------


def kind_of(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of the shape {tuple(tensor.shape)}"


def blame(what: str, rule: str, error: Exception) -> NoReturn:
    """Somebody's code failed: what it had to do, and the first line of what it said."""
    said = (str(error).strip().splitlines() or [""])[0]
    raise InputError(f"{what} must {rule}, got {type(error).__name__}: {said}") from error
