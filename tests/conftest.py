import os
import signal

import pytest
from hypothesis import settings

from mobfl import Scenario, load_scenario

# The same examples every time: a red test is a change in the code, never a lucky draw.
settings.register_profile("mobfl", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("search", parent=settings.get_profile("mobfl"), derandomize=False, max_examples=3000)
settings.load_profile(os.environ.get("MOBFL_HYPOTHESIS", "mobfl"))

# Hundreds of processes import mobfl: each would compile its source again where nothing may be kept of that.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what it puts in the background with Ctrl-C ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup's of a closed terminal


@pytest.fixture(scope="session")
def paper() -> Scenario:
    return load_scenario("paper")
