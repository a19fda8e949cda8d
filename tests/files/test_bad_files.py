"""Whatever is wrong with a file, a reader gives a value or a sentence: nothing else, and nothing without end."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from places import TESTS
from small_files import KINDS
from spoiling import outcome, spoilt


@pytest.mark.parametrize("name", KINDS)
def test_the_files_that_are_spoilt_are_valid(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    assert outcome(kind, kind.pack(kind.content), tmp_path) == "value"


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.randoms(use_true_random=False))
def test_a_spoilt_file_is_a_value_or_a_sentence(tmp_path: Path, name: str, draw: random.Random) -> None:
    outcome(KINDS[name], spoilt(draw, KINDS[name]), tmp_path)


@pytest.mark.slow
def test_thousands_of_spoilt_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Always the same ones, in a process with 2 GiB beyond what it needs to start."""
    done = subprocess.run(
        [sys.executable, str(TESTS / "spoiling.py"), "130"], capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    with capsys.disabled():
        print(f"\n{told['files']} spoilt files: {told['sentence']} sentences, {told['value']} values")
    assert told["faults"] == []
    assert told["sentence"] + told["value"] == told["files"] >= 5000
    assert told["sentence"] > told["files"] / 2
