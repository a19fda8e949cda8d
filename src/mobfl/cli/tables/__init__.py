"""Plans, simulations and runs as a person reads them in a terminal."""
