"""The fused kernels against PyTorch's autograd in double precision."""

import numpy as np
import pytest
import torch

from mobfl.learning.task import SgdTerms
from mobfl.learning.torch_steps import load, read
from mobfl.learning.weights import Weights
from mobfl.tasks.beams import layout
from mobfl.tasks.beams.model import Lidar2D, cross_entropy
from mobfl.tasks.beams.samples import BeamSamples
from mobfl.tasks.beams.scores import LOSS_WEIGHTS
from mobfl.tasks.beams.task import BeamTask, FusedBackend

STEPS = 4


def samples(seed: int, count: int = 96) -> BeamSamples:
    rng = np.random.default_rng(seed)
    grids = (rng.random((count, 20, 200)) < 0.08).astype(np.int8)
    grids[:, 2, 105] = -1
    grids[np.arange(count), rng.integers(20, size=count), rng.integers(200, size=count)] = -2
    targets = rng.dirichlet(np.full(256, 0.02), count).astype(np.float32)
    return BeamSamples(grids, targets / targets.sum(axis=1, keepdims=True), rng.random(count))


SAMPLES = samples(0)


def start(seed: int, last_channels: int = layout.CHANNELS) -> Weights:
    """Initial weights with norms that are not neutral, so that their gradients matter."""
    rng = np.random.default_rng(seed)
    weights = layout.initial_weights(rng, last_channels)
    for name, values in weights.items():
        if ".norm." in name or "prelu" in name:
            values += rng.uniform(-0.2, 0.2, values.shape).astype(np.float32)
    return weights


def batches(seed: int, size: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).integers(len(SAMPLES), size=(STEPS, size))


def autograd(
    weights: Weights, chosen: np.ndarray, dtype: torch.dtype, rate: float, momentum: float, scale: str
) -> Weights:
    last_channels = len(weights["blocks.5.norm.weight"])
    module = Lidar2D(last_channels)
    load(module, weights)
    module = module.to(dtype).train()
    optimiser = torch.optim.SGD(module.parameters(), lr=rate, momentum=momentum)
    grids, targets = torch.from_numpy(SAMPLES.grids).to(dtype), torch.from_numpy(SAMPLES.targets).to(dtype)
    for batch in torch.from_numpy(chosen):
        optimiser.zero_grad()
        (LOSS_WEIGHTS[scale] * cross_entropy(module(grids[batch]), targets[batch])).backward()
        optimiser.step()
    return read(module)


def error(found: Weights, exact: Weights) -> float:
    return max(float(np.abs(found[name] - exact[name]).max()) for name in exact)


def fused_steps(weights: Weights, chosen: np.ndarray, rate: float, momentum: float, scale: str) -> Weights:
    backend = FusedBackend(SAMPLES, SAMPLES, scale, len(weights["blocks.5.norm.weight"]))
    return backend.local_steps(weights, chosen, SgdTerms(rate, momentum))


@pytest.mark.parametrize(
    ("last_channels", "rate", "momentum", "scale"),
    [(5, 0.1, 0.0, "sample"), (5, 0.05, 0.9, "sample"), (5, 25.6, 0.0, "paper"), (1, 0.1, 0.0, "sample")],
)
def test_several_steps_agree_with_autograd_in_double_precision(
    last_channels: int, rate: float, momentum: float, scale: str
) -> None:
    """Within single precision, and as often as PyTorch's own single precision does.

    A PReLU whose input is zero but for rounding may be taken for the other side, by either of them: the results then
    differ by far more than rounding. So most of the starts must agree to 1e-6, and all to a hundredth of the way.
    """
    errors, peers, ways = [], [], []
    for seed in range(8):
        weights, chosen = start(seed, last_channels), batches(seed)
        exact = autograd(weights, chosen, torch.float64, rate, momentum, scale)
        errors.append(error(fused_steps(weights, chosen, rate, momentum, scale), exact))
        peers.append(error(autograd(weights, chosen, torch.float32, rate, momentum, scale), exact))
        ways.append(error(weights, exact))
    assert sorted(errors)[4] < 2e-6
    assert sum(e < 2e-6 for e in errors) >= min(sum(e < 2e-6 for e in peers), 6)
    assert all(e < 0.05 * way for e, way in zip(errors, ways, strict=True))


def test_the_gradient_of_one_step_is_exact() -> None:
    """With a tiny step the kinks cannot matter: every single parameter moves as autograd says."""
    for seed in range(5):
        weights, chosen = start(seed), batches(seed)[:1]
        exact = autograd(weights, chosen, torch.float64, 1.0, 0.0, "sample")
        found = fused_steps(weights, chosen, 1.0, 0.0, "sample")
        for name in exact:
            moved = np.abs(exact[name] - weights[name]).max()
            assert np.abs(found[name] - exact[name]).max() <= 2e-3 * moved + 2e-6, (seed, name)


@pytest.mark.parametrize("last_channels", [5, 1])
def test_predictions_agree_with_pytorch(last_channels: int) -> None:
    weights = start(3, last_channels)
    module = Lidar2D(last_channels)
    load(module, weights)
    module = module.double().eval()
    with torch.no_grad():
        exact = module(torch.from_numpy(SAMPLES.grids).double()).numpy()
    found = FusedBackend(SAMPLES, SAMPLES, "sample", last_channels).outputs(weights)
    assert np.abs(found - exact).max() < 1e-5


def test_h_steps_at_once_are_h_steps_one_by_one_bit_for_bit() -> None:
    weights, chosen = start(1), batches(1)
    at_once = fused_steps(weights, chosen, 0.1, 0.0, "sample")
    step_by_step = weights
    for batch in chosen:
        step_by_step = fused_steps(step_by_step, batch[None], 0.1, 0.0, "sample")
    assert all(at_once[name].tobytes() == step_by_step[name].tobytes() for name in weights)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_one_vehicle_is_plain_sgd_bit_for_bit(backend: str) -> None:
    """A round with one upload gives exactly what H SGD steps on the same backend give."""
    from mobfl.learning.rules import merge, rule_named
    from mobfl.learning.uploads import Upload

    task = BeamTask((SAMPLES, SAMPLES), backend=backend)
    weights, chosen = task.initial_weights(0), batches(4)
    trained = task.local_steps(weights, chosen, SgdTerms(0.1))
    _, averaged, _ = merge(rule_named("mean"), {}, weights, [Upload(trained, 1000)])
    plain = (
        autograd(weights, chosen, torch.float32, 0.1, 0.0, "sample")
        if backend == "torch"
        else fused_steps(weights, chosen, 0.1, 0.0, "sample")
    )
    assert all(averaged[name].tobytes() == plain[name].tobytes() for name in weights)


def test_a_workspace_remembers_nothing() -> None:
    backend = FusedBackend(SAMPLES, SAMPLES, "sample", 5)
    first = backend.local_steps(start(1), batches(1), SgdTerms(0.1))
    scores = backend.outputs(start(1))
    backend.local_steps(start(2), batches(2), SgdTerms(10.0, 0.9))
    wild = backend.local_steps(start(2), np.repeat(batches(2), 5, axis=0), SgdTerms(1e30))
    assert not np.isfinite(wild["output.bias"]).any()
    assert not np.isfinite(backend.outputs(wild)).any()
    again = backend.local_steps(start(1), batches(1), SgdTerms(0.1))
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert scores.tobytes() == backend.outputs(start(1)).tobytes()


def test_a_diverging_vehicle_is_noticed() -> None:
    from mobfl.learning.uploads import Upload, fault

    weights = start(1)
    wild = fused_steps(weights, np.repeat(batches(1), 5, axis=0), 1e30, 0.0, "sample")
    assert fault(weights, Upload(wild, 10)) == "not finite"


@pytest.mark.parametrize(("last_channels", "parameters"), [(5, 15_658), (1, 7_462)])
def test_the_model_has_the_published_size_and_pytorchs_names(last_channels: int, parameters: int) -> None:
    module = Lidar2D(last_channels)
    assert sum(p.numel() for p in module.parameters()) == parameters
    state = {name: tuple(t.shape) for name, t in module.state_dict().items() if t.is_floating_point()}
    assert state == layout.shapes(last_channels)
    weights = start(0, last_channels)
    unpacked = layout.unpack(*layout.pack(weights), last_channels)
    assert all(unpacked[name].tobytes() == weights[name].tobytes() for name in weights)


def test_weights_start_like_pytorchs() -> None:
    """Same bounds and same law: the pooled weights of many starts against those of many modules."""
    from scipy import stats

    ours = [layout.initial_weights(np.random.default_rng(seed)) for seed in range(20)]
    torch.manual_seed(0)
    theirs = [read(Lidar2D()) for _ in range(20)]
    for name in layout.shapes():
        mine, other = (np.concatenate([w[name].ravel() for w in many]) for many in (ours, theirs))
        if np.ptp(other) == 0:
            assert (mine == other[0]).all(), name
        else:
            assert stats.ks_2samp(mine, other).pvalue > 1e-5, name


def bent(weights: Weights, chosen: np.ndarray, terms: SgdTerms) -> Weights:
    """The same steps by autograd in double precision, the proximal and the correcting term written out."""
    module = Lidar2D(layout.CHANNELS)
    load(module, weights)
    module = module.double().train()
    begun = {name: values.detach().clone() for name, values in module.named_parameters()}
    speed = {name: torch.zeros_like(values) for name, values in begun.items()}
    grids, targets = torch.from_numpy(SAMPLES.grids).double(), torch.from_numpy(SAMPLES.targets).double()
    for batch in torch.from_numpy(chosen):
        module.zero_grad()
        cross_entropy(module(grids[batch]), targets[batch]).backward()
        with torch.no_grad():
            for name, values in module.named_parameters():
                pull = terms.proximal * (values - begun[name])
                constant = torch.from_numpy((terms.correction or {}).get(name, np.zeros(1)))
                speed[name] = terms.momentum * speed[name] + values.grad + pull + constant
                values -= terms.learning_rate * speed[name]
    return read(module)


def test_the_proximal_and_the_correcting_term_are_inside_the_kernel() -> None:
    weights, chosen = start(3), batches(3)
    random = np.random.default_rng(9)
    given = {name: (0.01 * random.standard_normal(values.shape)).astype(np.float32) for name, values in weights.items()}
    correction = {name: values for name, values in given.items() if name.startswith(("hidden", "blocks.2.conv.weight"))}
    terms = SgdTerms(0.1, 0.5, 0.7, correction)
    found = FusedBackend(SAMPLES, SAMPLES, "sample", layout.CHANNELS).local_steps(weights, chosen, terms)
    exact = bent(weights, chosen, terms)
    plain = bent(weights, chosen, SgdTerms(0.1, 0.5))
    assert error(found, exact) < 1e-4 < error(plain, exact)  # the terms matter, and are right


def test_the_gradient_is_autograds() -> None:
    weights, chosen = start(4), batches(4)[:1]
    found = FusedBackend(SAMPLES, SAMPLES, "sample", layout.CHANNELS).gradient(weights, chosen[0])
    after = autograd(weights, chosen, torch.float64, 1.0, 0.0, "sample")
    for name, slope in found.items():
        exact = after[name] if "running" in name else weights[name] - after[name]
        np.testing.assert_allclose(slope, exact, atol=2e-5, err_msg=name)
