"""One site out of docs/, the pages in the repository's root, and whatever files pages link to beside them.

Links are written as they work in the repository. Here they are turned into links that work in the site: README.md is
its first page, and a linked file that lies outside docs/ is copied to `repository/`.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
_TARGET = re.compile(r"(?<=\]\()[^)#\s]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = Path(str(page.file.abs_src_path))

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
        return path.relative_to("docs").as_posix()
    place = f"repository/{name}" + (".txt" if path.suffix == ".md" else "")  # a copy, not a page
    if files.get_file_from_path(place) is None:
        files.append(File.generated(config, place, abs_src_path=str(target)))
    return place
