"""FedAsync's rule: every upload is mixed into the model at once, the less the staler it is.

C. Xie, S. Koyejo, I. Gupta, "Asynchronous Federated Optimization", arXiv:1903.03934, 2019, with its polynomial
s(staleness). Its proximal term is left out (ρ = 0): vehicles take the same SGD steps under every server.
"""

from collections.abc import Sequence

from mobfl.learning.uploads import Upload, Weights, mixed

MIXING, STALENESS_POWER = 0.6, 0.5  # α and a


def share_of_upload(staleness: int, mixing: float, staleness_power: float) -> float:
    """α_t = α·s(staleness), s = (1 + staleness)^−a."""
    return mixing * float(1 + staleness) ** -staleness_power


def mix_in(model: Weights, uploads: Sequence[Upload], mixing: float, staleness_power: float) -> Weights:
    """x ← (1 − α_t)·x + α_t·x_new, one upload after the other."""
    for upload in uploads:
        model = mixed(model, upload.weights, share_of_upload(upload.staleness, mixing, staleness_power))
    return model
