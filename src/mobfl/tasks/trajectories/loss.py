"""LaneGCN's loss: a margin of the best mode's score over the others', and the best mode's distance from the truth."""

import torch
from torch import Tensor
from torch.nn import functional

_MARGIN = 0.2
_BEST_WITHIN_M = 2.0  # scores are compared only where the best mode ends this near
_WORSE_BY_M = 0.2  # and only with modes that end clearly farther away
_LATER = 0.1  # makes the last of the steps that are seen the largest


def lanegcn_loss(futures: Tensor, scores: Tensor, truth: Tensor, seen: Tensor) -> Tensor:
    """Over all actors of a batch of which some future is seen; (A, 6, 30, 2), (A, 6), (A, 30, 2), (A, 30)."""
    last = (seen + _LATER * torch.arange(seen.shape[1], device=seen.device) / seen.shape[1]).argmax(dim=1)
    known = seen.any(dim=1)
    futures, scores, truth, seen, last = futures[known], scores[known], truth[known], seen[known], last[known]
    row = torch.arange(len(futures), device=futures.device)
    distance = (futures[row, :, last] - truth[row, last][:, None]).norm(dim=2)  # (A, 6) at the last step that is seen
    nearest, best = distance.detach().min(dim=1)
    return _score_loss(scores, distance.detach(), nearest, scores[row, best]) + _way_loss(
        futures[row, best], truth, seen
    )


def _score_loss(scores: Tensor, distance: Tensor, nearest: Tensor, best_scores: Tensor) -> Tensor:
    lead = best_scores[:, None] - scores
    counts = (nearest < _BEST_WITHIN_M)[:, None] & (distance - nearest[:, None] > _WORSE_BY_M) & (lead < _MARGIN)
    return ((_MARGIN - lead) * counts).sum() / (counts.sum() + 1e-10)


def _way_loss(futures: Tensor, truth: Tensor, seen: Tensor) -> Tensor:
    off = functional.smooth_l1_loss(futures, truth, reduction="none").sum(dim=2)
    return (off * seen).sum() / (seen.sum() + 1e-10)
