"""Hypothesis strategies: roads from the sleepy to the absurd."""

from hypothesis import strategies as st

from mobfl import Scenario


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(0.0, 1.0).map(lambda share: low * (high / low) ** share)


RATES = log_uniform(1e-9, 1e3)
JITTER = st.just(0.0) | log_uniform(1e-3, 30.0) | log_uniform(1e-13, 1e-3)
STEPS_THAT_FIT = log_uniform(1.2, 150.0)
NO_SPREAD = st.just(0.0)
NO_NOISE = st.just(0.0)
SOME_NOISE = st.just(0.0) | log_uniform(1e-3, 1e3)


def scenarios(
    rates: st.SearchStrategy[float] = RATES,
    jitter: st.SearchStrategy[float] = JITTER,
    steps_that_fit: st.SearchStrategy[float] = STEPS_THAT_FIT,
    spread: st.SearchStrategy[float] = NO_SPREAD,
    noise: st.SearchStrategy[float] = NO_NOISE,
) -> st.SearchStrategy[Scenario]:
    """Scenarios by their proportions: `jitter` is β/α, `spread` the speeds' sd over their mean, `noise` is ν."""
    return st.builds(
        road_of,
        dwell_s=log_uniform(0.5, 500.0),
        speed_mps=log_uniform(0.5, 50.0),
        arrivals_per_s=rates,
        participation=st.sampled_from([1.0, 0.3]),
        transfer_share=st.floats(0.0, 0.6),
        download_share=st.floats(0.0, 1.0),
        steps_that_fit=steps_that_fit,
        jitter=jitter,
        spread=spread,
        noise=noise,
    )


def road_of(
    dwell_s: float,
    speed_mps: float,
    arrivals_per_s: float,
    participation: float,
    transfer_share: float,
    download_share: float,
    steps_that_fit: float,
    jitter: float,
    spread: float,
    noise: float,
) -> Scenario:
    """The road with these proportions, as `scenarios` has them."""
    transfer_s = transfer_share * dwell_s
    min_step_s = (dwell_s - transfer_s) / steps_that_fit
    return Scenario.from_dict(
        {
            "road": {"length_m": dwell_s * speed_mps},
            "traffic": {
                "speed_mps": speed_mps,
                "speed_sd_mps": spread * speed_mps,
                "arrivals_per_s": arrivals_per_s,
                "participation": participation,
            },
            "link": {
                "download_s": download_share * transfer_s,
                "upload_s": (1 - download_share) * transfer_s,
            },
            "compute": {"min_step_s": min_step_s, "extra_step_s": jitter * min_step_s},
            "training": {"noise_uploads": noise},
        }
    )
