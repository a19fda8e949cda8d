"""A plan that follows the traffic: what a base station sees, what it makes of that, and when it changes H and T."""
