"""Which quadrant does a point lie in? A task for mobfl."""
