"""One site out of docs/, the pages in the repository's root, and whatever files pages link to beside them.

Links are written as they work in the repository. Here they are turned into links that work in the site: README.md is
its first page, and a linked file that lies outside docs/ is copied to `repository/`.
"""

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
_TARGET = re.compile(r"(?<=\]\()[^)#\s]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, page, content=notebook_page(notebook)))
    return files


def notebook_page(notebook: Path) -> str:
    """An executed notebook as a page: what it says, its code, and what that answered."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    pieces = [_text(cell) if cell["cell_type"] == "markdown" else _code(cell) for cell in cells]
    return "\n\n".join(pieces) + "\n"


def _text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def _code(cell: dict[str, Any]) -> str:
    answers = [_answer(output["data"]) for output in cell["outputs"] if "data" in output]
    return "\n\n".join([f"```python\n{_text(cell)}\n```", *answers])


def _answer(data: dict[str, Any]) -> str:
    """The richest kind that a page can show."""
    if "image/png" in data:
        return f'<img alt="{"".join(data["text/plain"])}" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        shown = "\n".join(line for line in lines if line.strip())  # an empty line would end the block
        return f'<div class="answer" style="overflow-x: auto">\n{shown}\n</div>'
    return f"```text\n{''.join(data['text/plain'])}\n```"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = Path(page.file.abs_src_path or ROOT / "docs" / page.file.src_uri)

    def within_site(link: re.Match[str]) -> str:
        target = (source.parent / link[0]).resolve()
        if not (target.is_relative_to(ROOT) and target.is_file()):
            return link[0]  # MkDocs says what is wrong with it
        place = _place(target, config, files)
        return posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")

    return _TARGET.sub(within_site, markdown)


def _place(target: Path, config: MkDocsConfig, files: Files) -> str:
    """Where a file of the repository is in the site."""
    path = target.relative_to(ROOT)
    if (name := path.as_posix()) in PAGES:
        return PAGES[name]
    if path.parts[0] == "docs":
        page = path.with_suffix(".md") if path.suffix == ".ipynb" else path  # which is a page there
        return page.relative_to("docs").as_posix()
    place = f"repository/{name}" + (".txt" if path.suffix == ".md" else "")  # a copy, not a page
    if files.get_file_from_path(place) is None:
        files.append(File.generated(config, place, abs_src_path=str(target)))
    return place
