"""Trajectory prediction with LaneGCN, on Argoverse or on a generated road network."""
