"""g counts a round with one upload as fully as one with five. What is the plan if more uploads are worth more?"""

import mobfl

road = mobfl.load_scenario("paper")
print(" ν    H   T (s)   uploads/round   uploads/hour")
for noise in (0, 0.5, 1, 2, 5):
    best = mobfl.plan(road.with_values({"training.noise_uploads": noise}))
    h, t, _ = best.numbers
    uploads = float(mobfl.theory.expected_uploads(road, h, t))
    print(f"{noise:>3g} {h:>4}  {t:6.2f}  {uploads:>13.2f}  {3600 / t * uploads:>13.0f}")
