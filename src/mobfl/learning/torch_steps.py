"""Local steps with PyTorch: the reference, and the way of any model and device."""

import ctypes
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from mobfl.errors import InputError
from mobfl.learning.task import Integers, SgdTerms
from mobfl.learning.weights import Weights, is_statistic

# The loss of a module on the training samples of these numbers.
Loss = Callable[[nn.Module, Tensor], Tensor]


def prepare_cpu() -> None:
    """One thread per call, and memory that stays with the process.

    Vehicles are trained side by side: more threads in each would only be in each other's way. And glibc gives every
    large tensor back to the system; to get its pages again took two thirds of LaneGCN's time.
    """
    torch.set_num_threads(1)
    with suppress(OSError, AttributeError):  # another system's library: it has its own ways
        libc = ctypes.CDLL("libc.so.6")
        for setting, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 1 << 26), (_ARENA_MAX, 1)):
            libc.mallopt(setting, value)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # names in glibc's malloc.h


def device_named(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise InputError(f"device must be cpu or cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda needs a GPU that PyTorch can use, and it finds none")
    return torch.device(name)


def local_steps(module: nn.Module, loss: Loss, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
    """The model after one step per row of `batches`; `module` serves as the place to compute."""
    load(module, model)
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=terms.learning_rate, momentum=terms.momentum)
    bend = _bending(module, terms)
    for batch in torch.from_numpy(batches):
        optimiser.zero_grad()
        loss(module, batch).backward()  # type: ignore[no-untyped-call]
        bend()
        optimiser.step()
    return read(module)


def _bending(module: nn.Module, terms: SgdTerms) -> Callable[[], None]:
    """Adds the proximal and the correcting term to the gradient."""
    if not terms.proximal and terms.correction is None:
        return lambda: None
    start = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    given = terms.correction or {}
    correction = {name: torch.from_numpy(values).to(start[name].device) for name, values in given.items()}

    def bend() -> None:
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if parameter.grad is None:
                    continue
                if terms.proximal:
                    parameter.grad.add_(parameter - start[name], alpha=terms.proximal)
                if name in correction:
                    parameter.grad.add_(correction[name])

    return bend


def gradient(module: nn.Module, loss: Loss, model: Weights, batch: Integers) -> Weights:
    """The slope in every parameter, and the new values of batch norm's statistics."""
    load(module, model)
    module.train()
    module.zero_grad()
    loss(module, torch.from_numpy(batch)).backward()  # type: ignore[no-untyped-call]
    slopes = {
        name: torch.zeros_like(each) if each.grad is None else each.grad for name, each in module.named_parameters()
    }
    buffers = {name: values for name, values in _state(module).items() if is_statistic(name)}
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in (slopes | buffers).items()}


def load(module: nn.Module, model: Weights) -> None:
    with torch.no_grad():
        for name, tensor in _state(module).items():
            tensor.copy_(torch.from_numpy(model[name]))


def read(module: nn.Module) -> Weights:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in _state(module).items()}


def _state(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and statistics; not counters, which nothing computes with."""
    return {name: tensor for name, tensor in module.state_dict().items() if tensor.is_floating_point()}
