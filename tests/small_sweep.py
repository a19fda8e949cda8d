"""A block of runs that takes a second: a small network, few samples, a short training."""

from typing import Any

import tomli_w

SMALL: dict[str, Any] = {
    "tasks": ["beams"],
    "options": {"model": "lidar2d-small", "training_samples": 200, "validation_samples": 40},
}


def small_block(duration_s: float = 40, **values: Any) -> dict[str, Any]:
    settings = {
        "training.samples_per_vehicle": 32,
        "training.batch_size": 4,
        "training.duration_s": duration_s,
        "training.loss_scale": "sample",
    }
    return SMALL | {"set": settings} | values


def as_toml(*blocks: dict[str, Any], title: str = "") -> str:
    return tomli_w.dumps({"title": title, "runs": list(blocks)})
