"""The notebooks of the documentation: executed, they say what is stored in them."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from places import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
_MOST_BYTES = 60_000


def said(notebook: Any) -> list[str]:
    """What cells answer, in text; a picture is only there or not."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs if output.output_type != "stream"]
    return [output.data["text/plain"] for output in outputs if output.data.get("text/html") != ""]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_says_what_is_stored_in_it(file: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(file, as_version=4)
    stored = said(notebook)
    assert stored
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    assert said(client.execute()) == stored


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_small_and_tells_no_place(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text) < _MOST_BYTES
    assert "/home/" not in text
    assert str(ROOT) not in text


def test_there_is_a_notebook_for_planning_traffic_and_training() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["planning", "traffic", "training"]
