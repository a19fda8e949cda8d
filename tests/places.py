"""Where things are."""

import os
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DATA = Path(os.environ.get("MOBFL_DATA", ROOT.parent / "shared" / "data"))
