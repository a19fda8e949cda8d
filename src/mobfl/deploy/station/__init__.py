"""The base station: rounds in wall-clock time over whoever is online."""
