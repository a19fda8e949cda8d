"""Every command and program in the README and the guides does what the page says."""

import contextlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def files(page: Path) -> dict[str, str]:
    """Programs that a page shows under a file's name, for the reader to save."""
    shown = r'^```python title="([\w.]+)"\n(.*?)^```$'
    return dict(re.findall(shown, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_print_what_the_page_says(page: Path) -> None:
    for (kind, program), (next_kind, expected) in itertools.pairwise([*blocks(page), ("", "")]):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, str(page), "exec"), {"__name__": "__main__"})
        if next_kind == "text":
            assert printed.getvalue() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_when_pasted(page: Path, tmp_path: Path) -> None:
    """All but scripts/demo and scripts/test, which make the environment that this test runs in."""
    commands = [text for kind, text in blocks(page) if kind == "sh" and "scripts/" not in text]
    for name, program in files(page).items():
        (tmp_path / name).write_text(program, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not is_expected(line)] == []
    assert_all_have_learnt(tmp_path)


def is_expected(line: str) -> bool:
    """A stage that a command has come to, a run that is done, or the warning of one that opens a port as root."""
    done = re.fullmatch(r"\d+ of \d+: \S+ done, loss \S+ → \S+", line)
    return line.endswith("…") or done is not None or "runs as root" in line


def assert_all_have_learnt(folder: Path) -> None:
    """Every run that a page has trained visibly does what the page says: it learns."""
    for file in folder.rglob("run.json"):
        run = json.loads(file.read_text())
        results, start = run["results"], run["initial"]
        assert results["notices"] == [], file
        assert results["rounds_with_uploads"] > 0, file
        assert results["min_loss"] < 0.9 * start["loss"], file
        if run["task"] == "beams":
            assert results["final"]["top_10"] > start["top_10"] + 0.2, file


def test_every_example_of_a_part_is_shown_as_it_is() -> None:
    shown = files(ROOT / "docs/extending.md")
    examples = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "examples/own_parts").glob("*.py")}
    assert {name: shown.get(name) for name in examples} == examples


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_first_code_stands_by_line_30() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```python" in lines[:30]


def test_the_symbol_table_names_every_key() -> None:
    from mobfl.scenario import FIELDS, RADIO_FIELDS

    symbols = (ROOT / "docs/background/symbols.md").read_text(encoding="utf-8")
    assert [key for key in (*FIELDS, *RADIO_FIELDS) if f"`{key}`" not in symbols] == []
