"""What is to be said of a run that went wrong, each with the likely reason."""

from collections.abc import Sequence

import numpy as np

from mobfl.runs.divergence import Diverged
from mobfl.runs.history import History

_NAMED = 5  # rounds that a sentence names


def verdict(history: History, taken_back: Sequence[int] = (), stopped: Diverged | None = None) -> list[str]:
    """Sentences that a person should read before using the model; none if it has learnt something.

    Args:
        history: The run's.
        taken_back: The rounds whose models were not sound, so that the run went back to the one before.
        stopped: Why it ended before its time.
    """
    if not len(history):
        return []
    lost = [_lost(taken_back)] if taken_back else []
    if stopped is not None:
        return [*lost, _stopped(stopped)]
    diverged = None if taken_back else _diverged(history)
    for sentence in (diverged, _without_uploads(history), _no_better(history)):
        if sentence is not None:
            return [*lost, sentence]
    return lost


def _lost(rounds: Sequence[int]) -> str:
    named = ", ".join(map(str, rounds[:_NAMED])) + (", …" if len(rounds) > _NAMED else "")
    one = len(rounds) == 1
    models = f"The model of round {named}" if one else f"The models of {len(rounds)} rounds ({named})"
    return (
        f"{models} had a loss that is not finite and {'was' if one else 'were'} taken back: training went on from the"
        " last sound model. If it happens again and again, the steps are too long (lower training.learning_rate), or"
        " somebody sends bad uploads (choose another rule)."
    )


def _stopped(found: Diverged) -> str:
    return (
        f"The model has diverged, and training was stopped after round {found.round}, at {found.at_s:.0f} s:"
        f" {found.why}."
        " The server's steps were too long for it: lower training.learning_rate, or where uploads are merged one by one"
        " the damping, mixing or server_rate of the rule. The best model is from before."
    )


def _diverged(history: History) -> str | None:
    broken = ~np.isfinite(history.columns["loss"])
    if not broken[-1]:
        return None
    first = int(history.columns["round"][np.argmax(np.logical_and.accumulate(broken[::-1])[::-1])])
    return (
        f"The model has diverged: from round {first} on its loss is not finite. The steps were too long for it:"
        " lower training.learning_rate, or take the best model, which is from before."
    )


def _without_uploads(history: History) -> str | None:
    uploads, rejected = (int(history.columns[name].sum()) for name in ("uploads", "rejected"))
    if uploads > rejected:
        return None
    if not uploads:
        return (
            "Nothing was learnt: no vehicle uploaded in time. Train for longer (training.duration_s), or choose a plan"
            " with fewer local steps or longer rounds."
        )
    return (
        f"Nothing was learnt: all {uploads} uploads were rejected (run.json says why). If they were not finite, lower"
        " training.learning_rate."
    )


def _no_better(history: History) -> str | None:
    if history.min_loss() < history.initial["loss"]:
        return _worse_again(history)
    steps = int((history.columns["local_steps"] * (history.columns["uploads"] > 0)).sum())
    return (
        f"The model is no better than it was at the start: its loss never fell below {history.initial['loss']:.4g}."
        f" {steps} local steps may be too few: train for longer (training.duration_s); or the steps have the wrong"
        " length: change training.learning_rate."
    )


def _worse_again(history: History) -> str | None:
    """Where it did fall: a model of several stations is judged by the best of them."""
    first, last = history.initial["loss"], history.final("loss")
    if history.stations or not last >= first:
        return None
    return (
        f"The model ended no better than it began: its loss fell from {first:.4g} to {history.min_loss():.4g} and rose"
        f" to {last:.4g} again. The steps may be too long for it: lower training.learning_rate, or take the best model."
    )
