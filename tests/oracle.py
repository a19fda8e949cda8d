"""The paper's formulas once more, typed from its text with mpmath at 40 digits; no code shared with mobfl."""

from dataclasses import dataclass

from mpmath import mp, mpf

from mobfl import Scenario

mp.dps = 40


@dataclass(frozen=True)
class Truth:
    """A value and the sum of the magnitudes of the terms it is made of."""

    value: mpf
    size: mpf

    def agrees(self, computed: float, tolerance: float = 1e-9) -> bool:
        return bool(abs(self.value - mpf(float(computed))) <= tolerance * self.size)


def worth(uploads: mpf, noise: mpf) -> mpf:
    """E[M/(M + ν)] = 1 − e^−Λ·₁F₁(ν; ν + 1; Λ); for small Λ nearly all of that cancels."""
    with mp.extradps(40):
        return 1 - mp.exp(-uploads) * mp.hyp1f1(noise, noise + 1, uploads, maxterms=10**7)


def worth_slope(uploads: mpf, noise: mpf) -> mpf:
    """Its derivative, ∫ ν s^(ν−1) (1 − s) e^(−Λ(1−s)) ds over 0 … 1."""
    return mp.hyp1f1(2, noise + 2, -uploads, maxterms=10**7) / (noise + 1)


@dataclass(frozen=True)
class Road:
    rate: mpf
    t0: mpf
    transfers: mpf
    alpha: mpf
    beta: mpf
    noise: mpf

    @classmethod
    def of(cls, scenario: Scenario) -> "Road":
        traffic, link, compute = scenario.traffic, scenario.link, scenario.compute
        return cls(
            mpf(traffic.arrivals_per_s) * mpf(traffic.participation),
            mpf(scenario.road.length_m) / mpf(traffic.speed_mps),
            mpf(link.download_s) + mpf(link.upload_s),
            mpf(compute.min_step_s),
            mpf(compute.extra_step_s),
            mpf(scenario.training.noise_uploads),
        )

    def t_min(self, h: int) -> mpf:
        return self.alpha * h + self.transfers

    def spare(self, h: int, t: float) -> mpf:
        return min(mpf(t), self.t0) - self.t_min(h)

    def fade(self, h: int, spare: mpf) -> mpf:
        return mp.exp(-spare / (self.beta * h)) if self.beta > 0 else mpf(0)

    def uploads(self, h: int, t: float) -> Truth:
        spare = self.spare(h, t)
        if spare < 0 or (spare == 0 and self.beta > 0):
            return Truth(mpf(0), self.rate * (self.t0 + mpf(t)))
        success = 1 - self.fade(h, spare)
        terms = [
            2 * self.rate * spare,
            self.rate * success * abs(mpf(t) - self.t0),
            -self.rate * success * 2 * self.beta * h,
        ]
        # L/v and αH + τ are rounded to doubles before any formula; 1e-15 of the window allows for that.
        rounding = mpf("1e-6") * self.rate * (self.t0 + mpf(t))
        return Truth(mp.fsum(terms), mp.fsum(map(abs, terms)) + rounding)

    def uploads_slope(self, h: int, t: float) -> mpf:
        fade = self.fade(h, self.spare(h, t))
        if mpf(t) >= self.t0 or self.beta == 0:
            return self.rate * (1 - fade)
        return self.rate * (1 - fade + fade * (self.t0 - mpf(t)) / (self.beta * h))

    def objective(self, h: int, t: float) -> Truth:
        uploads = self.uploads(h, t)
        scale = mpf(h) / mpf(t)
        return Truth(scale * worth(uploads.value, self.noise), scale * min(mpf(1), uploads.size / (1 + self.noise)))

    def objective_slope(self, h: int, t: float) -> Truth:
        uploads, slope = self.uploads(h, t), self.uploads_slope(h, t)
        each = worth_slope(uploads.value, self.noise)
        scale = mpf(h) / mpf(t) ** 2
        gain, loss = mpf(t) * slope * each, worth(uploads.value, self.noise)
        # An error of Λ spoils both terms by their derivatives.
        return Truth(scale * (gain - loss), scale * (gain + loss + (gain + each) * uploads.size))

    def c0_c1(self, h: int) -> tuple[Truth, Truth]:
        spare = self.t0 - self.t_min(h)
        c0 = 1 - self.fade(h, spare)
        terms = [2 * spare, -(self.t0 + 2 * self.beta * h) * c0]
        return Truth(c0, mpf(1)), Truth(mp.fsum(terms), mp.fsum(map(abs, terms)))
