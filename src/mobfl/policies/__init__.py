"""H and T of the next rounds, knowing what was seen before."""
