"""How a base station trains with whoever passes: a schedule says whose uploads make a step, a rule merges them."""
