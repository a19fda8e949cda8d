"""A task out of what a PyTorch user has already: a module, a loss, two sets of samples and functions that score."""

import copy
import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mobfl.errors import InputError
from mobfl.learning.heldout import spread
from mobfl.learning.task import Integers, Kpi, Pool, SgdTerms
from mobfl.learning.torch_samples import blame, kind_of, pool_of, samples_of
from mobfl.learning.torch_steps import device_named, gradient, load, local_steps, prepare_cpu, read
from mobfl.learning.weights import Weights
from mobfl.rng import stream

# The mean over a batch: of the loss, to be minimised; of a KPI, or that KPI of every sample.
Criterion = Callable[[Tensor, Tensor], Tensor]
Scorer = Callable[[Tensor, Tensor], Any]

_TRIED = 8  # samples on which mistakes are looked for
_RANDOM = threading.Lock()  # torch has one generator for all threads


class TorchTask:
    """Any `torch.nn.Module`, loss and data as a task.

        x = torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))
        y = (x[:, 0] * x[:, 1] > 0).long()
        task = mobfl.TorchTask(
            nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)),
            nn.functional.cross_entropy,
            train=(x[:2000], y[:2000]),
            validation=(x[2000:], y[2000:]),
            kpis={"accuracy": lambda outputs, targets: outputs.argmax(1) == targets},
            name="quadrants",
        )
        job = mobfl.Job(task, mobfl.load_scenario("paper"), plan="mobfl", seed=1)
        history = mobfl.train(job, "run")

    `module` is one, or a function or class that makes one. Every part of a module is drawn again by `reset_parameters`;
    what a function makes is taken as it is, so this is the way to begin with weights that are trained already.
    `train` and `validation` are pairs (inputs, targets) of tensors or arrays, or data sets with len() and [number] that
    give such pairs; float64 becomes float32. `loss` gives the mean over a batch. `kpis` maps a name or a `Kpi` to a
    function that scores every sample of a batch, or gives their mean; the first leads unless a `Kpi` says so.
    For splits there are `labels` (integer targets, unless given), `places` in m along the road, and `groups` by name.
    Dropout and the like draw by the batches they are used on, so results do not depend on threads.
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        loss: Criterion,
        train: Any,
        validation: Any,
        kpis: Mapping[Any, Scorer] | Iterable[tuple[str | Kpi, Scorer]] = (),
        *,
        name: str = "torch",
        labels: ArrayLike | None = None,
        places: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        baselines: Mapping[str, Mapping[str, float]] | None = None,
        record: Mapping[str, Any] | None = None,
        device: str = "cpu",
        batch_size: int = 256,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f"name must be a word, got {name!r}")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise InputError(f"batch_size must be an integer >= 1, got {batch_size!r}")
        if not callable(loss) or isinstance(loss, type):
            raise InputError(f"loss must be a function of outputs and targets, got {loss!r:.80}")
        prepare_cpu()
        self.name, self._device, self._batch_size = name, device_named(device), batch_size
        self._start = _start(module)
        with _seeded(0, self._device):
            self._template = self._start()
        _check_module(self._template)
        self._train, self._validation = (
            samples_of(what, given, self._device) for what, given in (("train", train), ("validation", validation))
        )
        self._criterion, self._scorers = loss, _scorers(kpis)
        self.kpis: Sequence[Kpi] = tuple(self._scorers)
        self.pool = pool_of(self._train, labels, places, groups or {})
        self.baselines: Mapping[str, Mapping[str, float]] = dict(baselines or {})
        self.record: Mapping[str, Any] = {
            **(record or {}),
            "model": type(self._template).__name__,
            "backend": "torch",
            "device": device,
            "training_samples": len(self._train),
            "validation_samples": len(self._validation),
            "fingerprint": self._train.fingerprint() + self._validation.fingerprint(),
        }
        self._own = threading.local()
        self._draws = self._tried()

    def __deepcopy__(self, _: object) -> "TorchTask":
        return self  # nothing in it ever changes, and its data may be large

    @cached_property
    def validation_pool(self) -> Pool:
        """The validation samples as a city's districts see them."""
        return pool_of(self._validation, None, None, {})

    def initial_weights(self, seed: int) -> Weights:
        with _seeded(int(stream(seed, "initial weights")), self._device):
            return read(self._start())

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        with self._addressed(batches):
            return local_steps(self._module(), self._loss, model, batches, terms)

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        with self._addressed(batch):
            return gradient(self._module(), self._loss, model, batch)

    def evaluate(self, model: Weights) -> dict[str, float]:
        return self.evaluate_on(model, np.arange(len(self._validation)))

    def evaluate_on(self, model: Weights, samples: Integers) -> dict[str, float]:
        """`loss` and the KPIs on some of the validation samples."""
        module = self._module()
        load(module, model)
        module.eval()
        count = len(samples)
        totals = dict.fromkeys(["loss", *(kpi.name for kpi in self.kpis)], 0.0)
        with self._addressed(np.arange(0)), torch.inference_mode():
            for numbers in torch.split(torch.from_numpy(samples), self._batch_size):
                inputs, targets = self._validation.batch(numbers)
                for name, total in self._totals(module(inputs), targets).items():
                    totals[name] += total
        return {name: total / count for name, total in totals.items()}

    def heldout_loss(self, model: Weights, samples: int) -> float:
        module = self._module()
        load(module, model)
        module.eval()
        total, numbers = 0.0, torch.from_numpy(spread(len(self._validation), samples))
        with self._addressed(np.arange(0)), torch.inference_mode():
            for some in torch.split(numbers, self._batch_size):
                inputs, targets = self._validation.batch(some)
                total += self._summed_loss(module(inputs), targets)
        return total / len(numbers)

    def _loss(self, module: nn.Module, numbers: Tensor) -> Tensor:
        inputs, targets = self._train.batch(numbers)
        return self._criterion(module(inputs), targets)

    def _totals(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Loss and KPIs, summed over a batch. Where an output is not finite nothing is known of its sample."""
        finite = torch.isfinite(outputs).reshape(len(outputs), -1).all(dim=1)
        lost = len(outputs) - int(finite.sum())
        loss = self._summed_loss(outputs, targets)
        if lost:
            outputs, targets = outputs[finite], targets[finite]
        kpis = {kpi.name: _total(kpi, score, outputs, targets, lost) for kpi, score in self._scorers.items()}
        return {"loss": loss} | kpis

    def _summed_loss(self, outputs: Tensor, targets: Tensor) -> float:
        if not bool(torch.isfinite(outputs).all()):
            return math.nan
        return float(self._criterion(outputs, targets)) * len(outputs)

    def _module(self) -> nn.Module:
        """This thread's."""
        if not hasattr(self._own, "module"):
            self._own.module = copy.deepcopy(self._template).to(self._device)
        return self._own.module

    def _addressed(self, batches: Integers) -> AbstractContextManager[None]:
        """Random numbers that depend on the batches alone; only modules that draw any have to wait for each other."""
        if not self._draws:
            return nullcontext()
        digest = hashlib.blake2b(np.ascontiguousarray(batches).data, digest_size=8)
        return _seeded(int.from_bytes(digest.digest()), self._device)

    def _tried(self) -> bool:
        """Raises a sentence for what goes wrong on a small batch; otherwise tells whether random numbers were drawn."""
        module = copy.deepcopy(self._template).to(self._device)
        with _seeded(0, self._device):
            before = _random_state(self._device)
            self._try_a_step(module)
            self._try_to_evaluate(module)
            return not torch.equal(before, _random_state(self._device))

    def _try_a_step(self, module: nn.Module) -> None:
        inputs, targets = self._train.batch(torch.arange(min(_TRIED, len(self._train))))
        module.train()
        outputs = _outputs(module, inputs)
        try:
            loss = self._criterion(outputs, targets)
        except Exception as error:
            blame("loss", f"take {kind_of(outputs)} as outputs and {kind_of(targets)} as targets", error)
        _check_loss(loss)
        module.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if all(each.grad is None for each in module.parameters()):
            raise InputError("loss must depend on the module's parameters, got one that does not")

    def _try_to_evaluate(self, module: nn.Module) -> None:
        inputs, targets = self._validation.batch(torch.arange(min(_TRIED, len(self._validation))))
        module.eval()
        with torch.inference_mode():
            outputs = _outputs(module, inputs)
            try:
                self._totals(outputs, targets)
            except InputError:
                raise
            except Exception as error:
                blame("loss", f"take {kind_of(outputs)} as outputs and {kind_of(targets)} as targets", error)


# The module and what it says ------------------------------------------------------------------------------------------


def _start(given: Any) -> Callable[[], nn.Module]:
    """What makes a module with fresh parameters from torch's random numbers."""
    if not isinstance(given, nn.Module):
        return lambda: _made(given)
    try:
        template = copy.deepcopy(given).cpu()
    except Exception as error:
        blame("module", "be one that can be copied, or a function that makes it", error)
    if (name := _never_drawn(template)) is not None:
        raise InputError(
            "module must be given as a function that makes it, such as its class, since it has no reset_parameters that"
            f" would draw its parameter again for another seed, got {name!r}"
        )
    return lambda: _drawn_again(template)


def _made(make: Any) -> nn.Module:
    if not callable(make):
        raise InputError(f"module must be a torch.nn.Module or a function that makes one, got {type(make).__name__}")
    try:
        module = make()
    except Exception as error:
        blame("module", "be a function that makes one without arguments", error)
    if not isinstance(module, nn.Module):
        raise InputError(f"module must be a function that makes a torch.nn.Module, got {type(module).__name__} from it")
    return module.cpu()


def _drawn_again(template: nn.Module) -> nn.Module:
    module = copy.deepcopy(template)
    for each in reversed(list(module.modules())):  # parts before the whole, which may have wishes of its own
        if (reset := _reset_of(each)) is not None:
            reset()
    return module


def _reset_of(module: nn.Module) -> Callable[[], Any] | None:
    found = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
    return found if callable(found) else None  # the second is attention's


def _never_drawn(module: nn.Module) -> str | None:
    """A parameter that would be as it was by chance; one whose values are all the same was not drawn at all."""
    resets = [each for each in module.modules() if _reset_of(each) is not None]
    drawn = {id(parameter) for each in resets for parameter in each.parameters()}
    for name, values in module.named_parameters():
        if id(values) not in drawn and values.requires_grad and bool((values != values.flatten()[:1]).any()):
            return name
    return None


def _check_module(module: nn.Module) -> None:
    if next(module.parameters(), None) is None:
        raise InputError(f"module must have parameters to train, got {type(module).__name__} with none")
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if is_lazy(tensor):
            raise InputError(f"module must know its shapes (run one batch through it first), got lazy {name!r}")
        if (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype != torch.float32:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise InputError(f"module must be of float32 throughout (call .float() on it), got {kind} for {name!r}")
    for name, each in module.named_modules():
        if isinstance(each, nn.modules.batchnorm._NormBase) and each.track_running_stats and each.momentum is None:
            # It would divide by a counter, and counters do not travel.
            raise InputError(f"module must have batch norms with a momentum, got None for {name!r}")


def _outputs(module: nn.Module, inputs: Tensor) -> Tensor:
    try:
        outputs = module(inputs)
    except Exception as error:
        blame("module", f"take a batch of inputs, {kind_of(inputs)}", error)
    if not isinstance(outputs, Tensor):
        raise InputError(f"module must give a tensor, got {type(outputs).__name__}")
    if outputs.ndim == 0 or len(outputs) != len(inputs):
        raise InputError(f"module must give a row per sample ({len(inputs)}), got {kind_of(outputs)}")
    return outputs


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, Tensor):
        raise InputError(f"loss must give a tensor, got {type(loss).__name__}")
    if loss.ndim:
        raise InputError(f"loss must give one number, the mean over the batch, got {kind_of(loss)}")
    if not bool(torch.isfinite(loss)):
        raise InputError(f"loss must be finite on the first samples of an untrained module, got {loss.item()}")
    if not loss.requires_grad:
        raise InputError("loss must depend on the module's parameters, got one that does not")


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    with _RANDOM, torch.random.fork_rng([] if device.type == "cpu" else [torch.cuda.current_device()]):
        torch.manual_seed(seed)
        yield


def _random_state(device: torch.device) -> Tensor:
    here = torch.get_rng_state()
    return here if device.type == "cpu" else torch.cat([here, torch.cuda.get_rng_state()])


# KPIs -----------------------------------------------------------------------------------------------------------------


def _scorers(given: Any) -> dict[Kpi, Scorer]:
    try:
        pairs = dict(given)
    except (TypeError, ValueError):
        raise InputError(f"kpis must map names to functions, got {given!r:.80}") from None
    kpis = [_kpi(key) for key in pairs]
    names = [kpi.name for kpi in kpis]
    if len(set(names)) < len(names) or "loss" in names:
        raise InputError(f"kpis must have different names, none of them loss, got {', '.join(names)}")
    for kpi, score in zip(kpis, pairs.values(), strict=True):
        if not callable(score):
            raise InputError(f"kpi {kpi.name} must be a function of outputs and targets, got {score!r:.80}")
    leads = sum(kpi.leads for kpi in kpis)
    if leads > 1:
        raise InputError(f"kpis must have one that leads, got {leads}")
    if kpis and not leads:
        kpis[0] = replace(kpis[0], leads=True)
    return dict(zip(kpis, pairs.values(), strict=True))


def _kpi(key: Any) -> Kpi:
    if isinstance(key, Kpi):
        return key
    if not isinstance(key, str):
        raise InputError(f"kpis must be called by a name or a Kpi, got {key!r:.80}")
    return Kpi(key, key.replace("_", " "))


def _total(kpi: Kpi, score: Scorer, outputs: Tensor, targets: Tensor, lost: int) -> float:
    """The KPI summed over samples; those that are lost have the worst there is."""
    worst = lost * (0.0 if kpi.more_is_better else math.inf) if lost else 0.0
    if not len(outputs):
        return worst
    try:
        values = torch.as_tensor(score(outputs, targets))
    except Exception as error:
        blame(f"kpi {kpi.name}", f"take {kind_of(outputs)} as outputs and {kind_of(targets)} as targets", error)
    if values.shape not in ((), (len(outputs),)):
        raise InputError(f"kpi {kpi.name} must give a number per sample ({len(outputs)}) or one, got {kind_of(values)}")
    every = values.double()
    return worst + (float(every.sum()) if every.ndim else float(every) * len(outputs))
