"""A source of traffic: a ferry that lets twenty cars off every five minutes. `--traffic my_traffic:Ferry:cars=20`."""

import numpy as np

import mobfl


class Ferry:
    """So many cars every `every_s` seconds, two seconds apart, each as long on the road as the scenario says."""

    def __init__(self, cars: int = 20, every_s: float = 300.0) -> None:
        self.cars, self.every_s = cars, every_s

    def crossings(self, scenario: mobfl.Scenario, seed: int) -> mobfl.Crossings:
        landings = np.arange(0.0, scenario.training.duration_s + self.every_s, self.every_s)
        enter_s = np.sort((landings[:, np.newaxis] + 2.0 * np.arange(self.cars)).ravel())
        stays_s = scenario.dwell_s * np.random.default_rng(seed).uniform(0.8, 1.2, len(enter_s))
        return mobfl.Crossings(np.arange(len(enter_s)), enter_s, enter_s + stays_s)
