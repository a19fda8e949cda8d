"""Where along a road should a roadside unit go? Plans for every candidate site at once."""

import numpy as np

import mobfl

sites = ["motorway", "main street", "school zone", "bridge"]
plans = mobfl.plan_many(
    {
        "road.length_m": np.array([600.0, 250.0, 120.0, 60.0]),
        "traffic.speed_mps": np.array([30.0, 10.0, 7.0, 30.0]),
        "traffic.arrivals_per_s": np.array([0.2, 0.1, 0.05, 0.2]),
    }
)
for i in np.argsort(-np.nan_to_num(plans.objective)):
    site = plans[i]
    if site.status == "ok":
        h, t, g = site.numbers
        print(f"{sites[i]:12} g = {g:.3f}/s with H = {h}, T = {t:.1f} s")
    else:
        print(f"{sites[i]:12} {site.reason}")
