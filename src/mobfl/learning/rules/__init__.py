"""How a server turns uploads into its next model: a catalogue of links, and the chains that they make.

A link plays one of three roles, told by its method. All may have `init(model) -> state`; a state is named arrays.

guard      guard(state, model, uploads) -> (state, uploads)     changes or drops uploads before they are combined;
           with `needs_heldout = True` it is also given the loss on held-out samples
combine    apply(state, model, uploads) -> (state, model)       one model of all; every chain has exactly one
step       step(state, model, proposed) -> (state, model)       how far the server goes towards what was combined

A link with `draws = True` is given a random generator as its last argument. One that has `download`, `correction` and
`upload` too sends arrays along with models and weights (`SendsAlong`).
"""

from mobfl.learning.rules.chain import GUARDED_MEAN, RULES, Chain, Rule, State, chain_of, merge, merged_from, rule_named

__all__ = ["GUARDED_MEAN", "RULES", "Chain", "Rule", "State", "chain_of", "merge", "merged_from", "rule_named"]
