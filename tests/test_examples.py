import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_print_what_is_stored(example: Path) -> None:
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)
    assert done.stdout == example.with_suffix(".txt").read_text(encoding="utf-8")
