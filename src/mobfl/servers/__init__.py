"""How a base station trains with whoever passes: when it changes its model, with whose uploads, and by which rule."""
