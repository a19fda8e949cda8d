"""What a page of results is made of: sections of words, tables and figures."""

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobfl.learning.task import Kpi
from mobfl.rounds.estimates import Estimate

_FORMATS = (".pdf", ".svg", ".png")  # the last one is what the page shows

Part = dict[str, Any]


@dataclass
class Section:
    id: str
    title: str
    parts: list[Part] = field(default_factory=list)

    def text(self, text: str, style: str = "") -> None:
        self.parts.append({"kind": "text", "text": text, "style": style})

    def heading(self, text: str) -> None:
        self.parts.append({"kind": "heading", "text": text})

    def table(self, label: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.parts.append({"kind": "table", "label": label, "header": header, "rows": rows})


@dataclass(frozen=True)
class Drawing:
    """Draws into the folder of figures, and shows the result in a section."""

    folder: Path
    progress: Callable[[str], None]

    def show(self, section: Section, name: str, caption: str, draw: Callable[[Path], None]) -> None:
        self.progress(f"drawing {name}")
        files = [self.folder / f"{name}{suffix}" for suffix in _FORMATS]
        for file in files:
            draw(file)
        image = base64.b64encode(files[-1].read_bytes()).decode("ascii")
        section.parts.append({"kind": "figure", "caption": caption, "image": f"data:image/png;base64,{image}"})


def said(kpi: Kpi) -> str:
    return kpi.label or kpi.name


def interval(estimate: Estimate, digits: int = 4) -> str:
    if math.isnan(estimate.value):
        return "not defined"
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
