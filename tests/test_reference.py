"""The documentation as a site: every public name has its place, and nothing in it is amiss."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mobfl
from places import ROOT


def test_every_public_name_stands_on_one_page() -> None:
    pages = sorted((ROOT / "docs/reference").glob("*.md"))
    shown = [name for page in pages for name in re.findall(r"^::: mobfl\.(\w+)$", page.read_text(), re.MULTILINE)]
    assert Counter(shown) == Counter(mobfl.__all__)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", tmp_path],  # --quiet would hide warnings from --strict
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = {page.parent.name: page.read_text(encoding="utf-8") for page in (tmp_path / "reference").glob("*/*.html")}
    missing = [name for name in mobfl.__all__ if not any(f'id="mobfl.{name}"' in page for page in made.values())]
    assert missing == []
