"""Plans in words, for who does not know what `--plan` takes."""

from collections.abc import Sequence

_STEPS = {"best": "the best H for it", "epoch": "one pass over a vehicle's samples"}
_ROUNDS = {
    "best": "the best T for it",
    "T0": "rounds as long as a vehicle stays",
    "T0/2": "rounds of half a vehicle's stay",
}
_NAMED = {
    "mobfl": "MOB-FL's plan, the H and T of the greatest g",
    "adaptive": "H and T that follow the traffic",
    "anytime": "rounds in which every vehicle takes as many steps as fit",
    "wait-for-all": "a round ends when all have uploaded or left",
    "async": "every upload is a step of the server",
    "fedasync": "FedAsync: every upload is mixed into the model at once",
    "fedbuff": "FedBuff: the server takes a step with every ten uploads",
    "stay-aware": "asynchronous, with as many steps as fit into the stay",
    "mads": "asynchronous, with uploads sent in part where time is short",
    "early": "rounds in which who is short of time uploads after fewer steps",
    "selected": "rounds for those whom a selection chooses",
}


def explained(plans: Sequence[str]) -> list[tuple[str, str]]:
    """Each plan once, with what it is; all that are H,T in numbers together."""
    words = {plan: plan_in_words(plan) for plan in plans}
    numbers = any(not text and "," in plan for plan, text in words.items())
    return [
        *((plan, text) for plan, text in words.items() if text),
        *([("H,T", "H local steps in rounds of T seconds")] if numbers else []),
    ]


def plan_in_words(plan: str) -> str:
    """`best,T0/2` as a sentence; nothing for what needs none."""
    name = plan.partition(":")[0].strip()
    if name in _NAMED:
        return _NAMED[name]
    steps, comma, rounds = (word.strip() for word in plan.partition(","))
    if not comma or (steps not in _STEPS and rounds not in _ROUNDS):
        return ""
    first = _STEPS.get(steps, "one local step" if steps == "1" else f"H = {steps} local steps")
    second = _ROUNDS.get(rounds, f"rounds of {rounds} s")
    return f"{second}, {first}" if steps == "best" else f"{first}, {second}"
