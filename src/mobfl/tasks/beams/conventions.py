"""Raymobtime's conventions: the LIDAR's grid, the arrays' beams, and how a pair of beams is counted."""

BASE_STATION_M = (746.0, 560.0, 4.0)

# A point's cell is the nearest integer of (point − origin)/step, at the edge for those beyond it.
GRID_ORIGIN_M = (744.0, 429.0, 0.0)
GRID_STEP_M = (1.15, 1.25, 1.0)
GRID_SHAPE = (20, 200, 10)
OBSTACLE, BASE_STATION, RECEIVER = 1, -1, -2  # in an otherwise empty cell, 0

# A pair's class is rx · 32 + tx.
RECEIVER_BEAMS, BASE_BEAMS = 8, 32
PAIRS = RECEIVER_BEAMS * BASE_BEAMS
