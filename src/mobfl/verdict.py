"""What is to be said of a run that went wrong, each with the likely reason."""

import numpy as np

from mobfl.history import History


def verdict(history: History) -> list[str]:
    """A sentence for everything that a person should know before using the model; none if all went well."""
    return _diverged(history)


def _diverged(history: History) -> list[str]:
    broken = ~np.isfinite(history.columns["loss"])
    if not len(history) or not broken[-1]:
        return []
    first = int(history.columns["round"][np.argmax(np.logical_and.accumulate(broken[::-1])[::-1])])
    return [
        f"The model has diverged: from round {first} on its loss is not finite. The steps were too long for it:"
        " lower training.learning_rate, or take the best model, which is from before."
    ]
