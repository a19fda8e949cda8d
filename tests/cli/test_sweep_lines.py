"""What `mobfl sweep` and `mobfl reproduce` say while they work, where nobody watches."""

import re
from pathlib import Path

import pytest

from command import mobfl
from small_sweep import as_toml, small_block


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    (tmp_path / "sweep.toml").write_text(as_toml(small_block(40, plans=["3,5"], seeds=[0, 1])))
    return tmp_path


def test_a_line_for_every_run_that_ends(sweep: Path) -> None:
    """And none for what was done before."""
    command = "reproduce", "--sweep", "sweep.toml", "--out", "out", "--workers", "1"
    done = mobfl(*command, cwd=sweep)
    assert done.returncode == 0, done.stderr
    names = [folder.name for folder in sorted((sweep / "out" / "runs").iterdir(), key=lambda each: each.name[:12])]
    first, *lines, last = done.stderr.splitlines()
    assert (first, last) == ("preparing the runs and their data …", "writing the report …")
    assert lines[0] == "training 2 runs, 1 at once …"
    told = [re.fullmatch(r"(\d) of 2: (\S+) done, loss 5\.\d+ → \d\.\d+", line) for line in lines[1:]]
    assert [(match[1], match[2]) for match in told if match] == [("1", names[0]), ("2", names[1])]
    again = mobfl(*command, cwd=sweep)
    assert again.stderr.splitlines() == [first, last]


def test_a_run_that_fails_says_so_at_once(sweep: Path) -> None:
    listed = mobfl("sweep", "sweep.toml", "--out", "out", "--list", cwd=sweep).stdout
    broken = listed.splitlines()[1].partition(":")[0]
    folder = sweep / "out" / "runs" / broken
    folder.mkdir(parents=True)
    (folder / "something.else").touch()
    done = mobfl("sweep", "sweep.toml", "--out", "out", "--workers", "1", cwd=sweep)
    assert done.returncode == 1
    failed = [line for line in done.stderr.splitlines() if "failed" in line]
    assert len(failed) == 1
    assert re.fullmatch(rf"\d of 2: {broken} failed: .*must be a new or empty folder.*", failed[0])


def test_a_run_that_learnt_nothing_says_why(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(as_toml(small_block(40, plans=["60,16"])))
    done = mobfl("sweep", "sweep.toml", "--out", "out", "--workers", "1", cwd=tmp_path)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("1 of 1: ")]
    assert re.search(r" done, loss (\S+) → \1: Nothing was learnt: no vehicle uploaded in time\. ", line)
