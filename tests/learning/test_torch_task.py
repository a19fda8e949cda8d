# ruff: noqa: ARG005, E501 (a table of cases reads better unbroken)
"""`TorchTask` is PyTorch as one would write it by hand, and says in words what is wrong with a task."""

import copy
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import mobfl.learning.torch_samples as module_under_test
from mobfl.errors import InputError
from mobfl.learning.task import Kpi, SgdTerms, leading
from mobfl.learning.torch_task import TorchTask
from mobfl.learning.weights import Weights, is_statistic, unlike
from mobfl.runs.task_check import check_task

# Which quadrant a point lies in: even ones are 0, odd ones 1.


def points(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] * x[:, 1] > 0).long()


TRAIN, VALIDATION = points(200, 0), points(50, 1)
BATCHES = np.random.default_rng(3).integers(200, size=(5, 16))


def is_right(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.argmax(1) == targets


def net(*, norm: bool = False) -> nn.Sequential:
    between = [nn.BatchNorm1d(8)] if norm else []
    return nn.Sequential(nn.Linear(2, 8), *between, nn.ReLU(), nn.Linear(8, 2))


def task_of(module: Any = None, **given: Any) -> TorchTask:
    settings = {"loss": functional.cross_entropy, "train": TRAIN, "validation": VALIDATION, "kpis": {"right": is_right}}
    return TorchTask(net() if module is None else module, **(settings | given))


def assert_same(one: Weights, other: Weights) -> None:
    assert unlike(one, other) is None
    for name, values in one.items():
        assert np.array_equal(values, other[name]), name


# As by hand -----------------------------------------------------------------------------------------------------------


def by_hand(start: Weights, terms: SgdTerms, *, norm: bool) -> Weights:
    """w ← w − η·v, v ← momentum·v + ∇loss + proximal·(w − w₀) + correction, in torch's order of operations."""
    module = net(norm=norm)
    module.load_state_dict({name: torch.from_numpy(values) for name, values in start.items()}, strict=False)
    first = {name: values.detach().clone() for name, values in module.named_parameters()}
    velocity = dict[str, Tensor]()
    for batch in BATCHES:
        x, y = TRAIN[0][batch], TRAIN[1][batch]
        slopes = torch.autograd.grad(functional.cross_entropy(module(x), y), list(module.parameters()))
        with torch.no_grad():
            for (name, values), slope in zip(module.named_parameters(), slopes, strict=True):
                pulled = slope.add(values - first[name], alpha=terms.proximal) if terms.proximal else slope
                if terms.correction is not None:
                    pulled = pulled + torch.from_numpy(terms.correction[name])
                old = velocity.get(name)
                velocity[name] = pulled.clone() if old is None else old * terms.momentum + pulled
                values.add_(velocity[name] if terms.momentum else pulled, alpha=-terms.learning_rate)
    return {name: values.numpy().copy() for name, values in module.state_dict().items() if values.is_floating_point()}


def correction_like(model: Weights) -> Weights:
    random = np.random.default_rng(9)
    return {n: random.normal(0, 0.1, v.shape).astype(np.float32) for n, v in model.items() if not is_statistic(n)}


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("proximal", [0.0, 0.3])
@pytest.mark.parametrize("corrected", [False, True])
def test_local_steps_are_those_of_plain_autograd(norm: bool, momentum: float, proximal: float, corrected: bool) -> None:
    task = task_of(net(norm=norm))
    start = task.initial_weights(4)
    terms = SgdTerms(0.1, momentum, proximal, correction_like(start) if corrected else None)
    assert_same(task.local_steps(start, BATCHES, terms), by_hand(start, terms, norm=norm))


def test_the_gradient_is_that_of_the_loss() -> None:
    task = task_of(net(norm=True))
    start = task.initial_weights(0)
    slopes = task.gradient(start, BATCHES[0])
    stepped = task.local_steps(start, BATCHES[:1], SgdTerms(0.5))
    for name, values in slopes.items():
        moved = values if is_statistic(name) else start[name] - np.float32(0.5) * values
        assert moved == pytest.approx(stepped[name], abs=1e-7), name


def test_evaluation_is_the_mean_over_all_samples_whatever_the_batches() -> None:
    x, y = VALIDATION
    for batch_size in (7, 50, 1000):
        task = task_of(
            kpis={"right": is_right, "share": lambda o, t: is_right(o, t).float().mean()}, batch_size=batch_size
        )
        start = task.initial_weights(0)
        module = net()
        module.load_state_dict({name: torch.from_numpy(values) for name, values in start.items()})
        outputs = module(x).detach()
        scores = task.evaluate(start)
        assert scores["loss"] == pytest.approx(float(functional.cross_entropy(outputs, y)), rel=1e-6)
        assert scores["right"] == int((outputs.argmax(1) == y).sum()) / 50
        assert scores["share"] == pytest.approx(scores["right"])


def test_outputs_that_are_not_finite_are_the_worst_there_is() -> None:
    class Picky(nn.Module):
        """Says nothing about points on the left."""

        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, :1] < 0, math.nan, self.line(x)) if not self.training else self.line(x)

    error = Kpi("error", more_is_better=False)
    asked: list[bool] = []

    def off(outputs: Tensor, targets: Tensor) -> Tensor:
        asked.append(bool(torch.isfinite(outputs).all()))
        return (~is_right(outputs, targets)).float()

    task = task_of(Picky(), kpis={"right": is_right, error: off})
    scores = task.evaluate({"line.weight": np.zeros((2, 2), np.float32), "line.bias": np.array([1, 0], np.float32)})
    on_the_right = VALIDATION[0][:, 0] >= 0
    assert scores["right"] == int((VALIDATION[1][on_the_right] == 0).sum()) / 50
    assert scores["error"] == math.inf
    assert math.isnan(scores["loss"])
    assert all(asked)
    broken = {name: np.full_like(values, math.inf) for name, values in task.initial_weights(0).items()}
    assert task.evaluate(broken) == {"loss": pytest.approx(math.nan, nan_ok=True), "right": 0.0, "error": math.inf}


def test_it_learns_and_a_run_accepts_it() -> None:
    task = task_of(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
    check_task(task, 0)
    start = task.initial_weights(0)
    batches = np.random.default_rng(0).integers(200, size=(300, 32))
    assert task.evaluate(task.local_steps(start, batches, SgdTerms(0.5)))["right"] > 0.9


# Seeds and threads ----------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bytes_and_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    one, other = task_of(net(norm=True)), task_of(net(norm=True))
    for seed in (0, 7):
        assert_same(one.initial_weights(seed), other.initial_weights(seed))
    assert (one.initial_weights(0)["0.weight"] != one.initial_weights(7)["0.weight"]).any()
    made = task_of(net), task_of(lambda: net())
    assert_same(made[0].initial_weights(3), made[1].initial_weights(3))
    torch.set_rng_state(before)
    task_of(net).initial_weights(5)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_module_that_was_given_stays_as_it_is() -> None:
    module = net(norm=True)
    before = copy.deepcopy(module.state_dict())
    task = task_of(module)
    task.local_steps(task.initial_weights(0), BATCHES, SgdTerms(0.1))
    assert all(torch.equal(before[name], values) for name, values in module.state_dict().items())


def test_a_function_keeps_weights_that_are_trained_already() -> None:
    trained = net()
    start = task_of(lambda: copy.deepcopy(trained)).initial_weights(11)
    assert np.array_equal(start["0.weight"], trained[0].weight.detach().numpy())


def test_the_whole_has_the_last_word_on_its_parts() -> None:
    class Zeroed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def reset_parameters(self) -> None:
            nn.init.zeros_(self.inner.bias)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    start = task_of(Zeroed()).initial_weights(0)
    assert not start["inner.bias"].any()
    assert start["inner.weight"].any()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_threads_change_nothing(dropout: float) -> None:
    task = task_of(nn.Sequential(nn.Linear(2, 64), nn.BatchNorm1d(64), nn.Dropout(dropout), nn.Linear(64, 2)))
    start = task.initial_weights(0)
    batches = np.random.default_rng(1).integers(200, size=(12, 10, 16))
    alone = [task.local_steps(start, each, SgdTerms(0.1, 0.5)) for each in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda each: task.local_steps(start, each, SgdTerms(0.1, 0.5)), batches))
        scores = list(pool.map(task.evaluate, alone))
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)
    assert scores == [task.evaluate(model) for model in alone]


def test_a_copy_of_a_task_is_the_task() -> None:
    """A task that is named as MODULE:OBJECT is copied."""
    task = task_of()
    assert copy.deepcopy(task) is task


# Data -----------------------------------------------------------------------------------------------------------------


class Listed:
    """A map-style data set that counts how often it is asked."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y, self.asked, self.reading = x, y, 0, threading.Lock()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        assert self.reading.acquire(blocking=False), "two threads at once"
        self.asked += 1
        self.reading.release()
        return self.x[number].numpy().astype(np.float64), int(self.y[number])


@pytest.mark.parametrize(
    "form", ["arrays", "float64", "dataset", "tensor dataset", "samples", "read-only", "big endian"]
)
def test_all_forms_of_data_are_the_same_data(form: str) -> None:
    x, y = TRAIN
    fixed = x.numpy().copy()
    fixed.flags.writeable = False
    forms: dict[str, Callable[[], Any]] = {
        "arrays": lambda: (x.numpy(), y.numpy().astype(np.int32)),
        "float64": lambda: [x.double(), y.to(torch.uint8)],
        "dataset": lambda: Listed(x, y),
        "tensor dataset": lambda: torch.utils.data.TensorDataset(x, y),
        "samples": lambda: list(zip(x, y, strict=True)),
        "read-only": lambda: (fixed, y),
        "big endian": lambda: (x.numpy().astype(">f8")[::-1][::-1], y.tolist()),
    }
    task, plain = task_of(train=forms[form]()), task_of()
    assert task.record == plain.record
    assert np.array_equal(task.pool.labels, y.numpy())
    start = task.initial_weights(0)
    assert_same(task.local_steps(start, BATCHES, SgdTerms(0.1)), plain.local_steps(start, BATCHES, SgdTerms(0.1)))


def test_a_data_set_is_read_once_or_if_it_is_too_large_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Listed(*TRAIN)
    plain = task_of(train=small)
    assert small.asked == 202  # and the first one more, for its size and for its type
    start = plain.initial_weights(0)
    expected = plain.local_steps(start, BATCHES, SgdTerms(0.1))
    assert small.asked == 202
    monkeypatch.setattr(module_under_test, "MOST_BYTES", 200 * (2 * 4 + 8) - 1)
    large = Listed(*TRAIN)
    task = task_of(train=large)
    assert large.asked < 100
    assert_same(task.local_steps(start, BATCHES, SgdTerms(0.1)), expected)
    assert task.pool.labels is None
    assert len(task.pool) == 200
    large.targets = TRAIN[1].tolist()  # as torchvision has them
    assert np.array_equal(task_of(train=large).pool.labels, TRAIN[1].numpy())
    with ThreadPoolExecutor(4) as pool:
        for each in pool.map(lambda _: task.local_steps(start, BATCHES, SgdTerms(0.1)), range(8)):
            assert_same(each, expected)


def test_the_fingerprint_tells_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(change: Callable[[Tensor, Tensor], None]) -> str:
        x, y = (part.clone() for part in TRAIN)
        change(x, y)
        return task_of(train=(x, y)).record["fingerprint"]

    prints = {
        other(lambda x, y: None), other(lambda x, y: x[199].neg_()), other(lambda x, y: y[:1].neg_().add_(1)),
        task_of(validation=TRAIN).record["fingerprint"],
    }  # fmt: skip
    assert len(prints) == 4
    assert other(lambda x, y: None) == task_of().record["fingerprint"]


def test_what_a_run_remembers() -> None:
    task = task_of(name="quadrants", record={"data": "points"}, baselines={"always 0": {"right": 0.5}})
    told = dict(task.record)
    assert len(told.pop("fingerprint")) == 64
    assert told == {
        "data": "points", "model": "Sequential", "backend": "torch", "device": "cpu",
        "training_samples": 200, "validation_samples": 50,
    }  # fmt: skip
    assert (task.name, task.baselines) == ("quadrants", {"always 0": {"right": 0.5}})


def test_targets_that_are_no_integers_are_no_labels() -> None:
    x, y = TRAIN
    task = task_of(
        nn.Linear(2, 1), loss=lambda o, t: functional.mse_loss(o[:, 0], t), kpis=(),
        train=(x.numpy().astype(np.float64), y.numpy().astype(np.float64)), validation=(x, y.float()),
        places=np.arange(200), groups={"half": y},
    )  # fmt: skip
    assert task.pool.labels is None
    assert task.pool.places is not None
    assert np.array_equal(task.pool.groups["half"], y.numpy())
    assert list(task.evaluate(task.initial_weights(0))) == ["loss"]


def test_the_first_kpi_leads_unless_one_says_so() -> None:
    assert leading(task_of(kpis=[("right", is_right), ("other", is_right)]).kpis).name == "right"
    assert leading(task_of(kpis={"right": is_right, Kpi("other", leads=True): is_right}).kpis).name == "other"
    assert [kpi.leads for kpi in task_of(kpis={"a": is_right, "b": is_right}).kpis] == [True, False]


# Mistakes -------------------------------------------------------------------------------------------------------------


class Chance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.drawn = nn.Parameter(torch.randn(2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x @ self.drawn


def lone_samples() -> list[Any]:
    return [(torch.ones(2), 0), torch.ones(2)]


def uneven_samples() -> list[Any]:
    return [(torch.ones(2), 0), (torch.ones(3), 0), (torch.ones(2), 0)]


def frozen() -> nn.Module:
    return net().requires_grad_(False)


def broken(*_: Any) -> Any:
    raise KeyError("no such thing\nand more")


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"module": nn.ReLU()}, "module must have parameters to train, got ReLU with none"),
    ({"module": net().double()}, "module must be of float32 throughout (call .float() on it), got float64 for '0.weight'"),
    ({"module": net(norm=True).half()}, "module must be of float32 throughout (call .float() on it), got float16 for '0.weight'"),
    ({"module": lambda: net(norm=True).double()}, "module must be of float32 throughout (call .float() on it), got float64"),
    ({"module": nn.LazyLinear(2)}, "module must know its shapes (run one batch through it first), got lazy 'weight'"),
    ({"module": nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=None))}, "module must have batch norms with a momentum, got None for '1'"),
    ({"module": Chance()}, "module must be given as a function that makes it, such as its class, since it has no reset_parameters that would draw its parameter again for another seed, got 'drawn'"),
    ({"module": 3}, "module must be a torch.nn.Module or a function that makes one, got int"),
    ({"module": lambda: 3}, "module must be a function that makes a torch.nn.Module, got int from it"),
    ({"module": nn.Linear}, "module must be a function that makes one without arguments, got TypeError: "),
    ({"module": nn.Linear(3, 2)}, "module must take a batch of inputs, float32 of the shape (8, 2), got RuntimeError: mat1 and mat2"),
    ({"module": nn.GRU(2, 2)}, "module must give a tensor, got tuple"),
    ({"module": nn.Sequential(nn.Linear(2, 2), nn.Flatten(0))}, "module must give a row per sample (8), got float32 of the shape (16,)"),
    ({"train": (TRAIN[0][:0], TRAIN[1][:0])}, "train must have at least one sample, got none"),
    ({"validation": []}, "validation must have at least one sample, got none"),
    ({"train": (TRAIN[0], TRAIN[1][:199])}, "train must have as many inputs as targets, got 200 and 199"),
    ({"train": (TRAIN[0], 1)}, "train targets must have a row per sample, got a single number"),
    ({"train": iter([])}, "train must be a pair (inputs, targets) of arrays, or a data set with len() and [number], got list_iterator"),
    ({"train": (TRAIN[0], ["left"] * 200)}, "train targets must be arrays of numbers, got values of <U4"),
    ({"train": lone_samples()}, "train must give pairs (input, target), got Tensor for 1"),
    ({"train": uneven_samples()}, "train inputs must be of one shape and type, got float32 of the shape (2,) for 0 and float32 of the shape (3,) for 1"),
    ({"train": {0: (torch.ones(2), 0), 2: (torch.ones(2), 0)}}, "train must have a sample of the number 1, got KeyError: 1"),
    ({"loss": lambda o, t: functional.cross_entropy(o, t, reduction="none")}, "loss must give one number, the mean over the batch, got float32 of the shape (8,)"),
    ({"loss": nn.CrossEntropyLoss}, "loss must be a function of outputs and targets, got <class 'torch.nn.modules.loss.CrossEntropyLoss'>"),
    ({"loss": lambda o, t: functional.cross_entropy(o, t) / 0}, "loss must be finite on the first samples of an untrained module, got inf"),
    ({"loss": lambda o, t: functional.cross_entropy(o.detach(), t)}, "loss must depend on the module's parameters, got one that does not"),
    ({"loss": lambda o, t: torch.ones(1, requires_grad=True).sum()}, "loss must depend on the module's parameters, got one that does not"),
    ({"module": frozen()}, "loss must depend on the module's parameters, got one that does not"),
    ({"loss": broken}, "loss must take float32 of the shape (8, 2) as outputs and int64 of the shape (8,) as targets, got KeyError: 'no such thing"),
    ({"kpis": {"right": broken}}, "kpi right must take float32 of the shape (8, 2) as outputs and int64 of the shape (8,) as targets, got KeyError"),
    ({"kpis": {"right": lambda o, t: o}}, "kpi right must give a number per sample (8) or one, got float32 of the shape (8, 2)"),
    ({"kpis": {"right": lambda o, t: is_right(o, t)[1:]}}, "kpi right must give a number per sample (8) or one, got bool of the shape (7,)"),
    ({"kpis": {"right": 0.5}}, "kpi right must be a function of outputs and targets, got 0.5"),
    ({"kpis": {"top 1": is_right}}, "a KPI's name must be a word of letters, digits and _, got 'top 1'"),
    ({"kpis": {"loss": is_right}}, "kpis must have different names, none of them loss, got loss"),
    ({"kpis": {"a": is_right, Kpi("a"): is_right}}, "kpis must have different names, none of them loss, got a, a"),
    ({"kpis": {Kpi("a", leads=True): is_right, Kpi("b", leads=True): is_right}}, "kpis must have one that leads, got 2"),
    ({"kpis": is_right}, "kpis must map names to functions, got <function is_right"),
    ({"kpis": {3: is_right}}, "kpis must be called by a name or a Kpi, got 3"),
    ({"labels": np.zeros(50, int)}, "labels must be one number per training sample (200), got the shape (50,)"),
    ({"labels": np.zeros(200)}, "labels must be integers, got float64"),
    ({"places": np.full(200, math.nan)}, "places must be finite numbers, got others"),
    ({"groups": {"city": np.full(200, -1)}}, "groups['city'] must be integers >= 0, got -1"),
    ({"device": "tpu"}, "device must be cpu or cuda, got 'tpu'"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
    ({"name": ""}, "name must be a word, got ''"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), MISTAKES, ids=[sentence[:60] for _, sentence in MISTAKES])
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_a_mistake_gets_a_sentence_when_the_task_is_built(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        task_of(**given)
    assert str(caught.value).startswith(sentence)
    assert len(str(caught.value).splitlines()) == 1
