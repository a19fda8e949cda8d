"""Where what was made once is kept."""

import os
from pathlib import Path


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MOBFL_CACHE") or Path(home) / "mobfl")
