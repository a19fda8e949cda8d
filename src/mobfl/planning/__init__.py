"""From a road to a plan: the best H and T, exact, from a trace, for many roads."""
