"""Beam selection at 60 GHz from a LIDAR grid, on Raymobtime or on a generated street."""
