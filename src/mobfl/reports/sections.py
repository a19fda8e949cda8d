"""What a page of results is made of: sections of words, tables and figures."""

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mobfl.figures.look import looking, wanted_look
from mobfl.learning.task import Kpi
from mobfl.rounds.estimates import Estimate

_PX_PER_IN = 129  # so that two columns of a paper fill the page, and letters have one size in all figures
_M_PER_IN = 0.0254
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

    def show(
        self, section: Section, name: str, caption: str, draw: Callable[[Path], None], also_narrow: bool = True
    ) -> None:
        """Shows a figure, on a telephone as it is drawn for one, if it can be."""
        self.progress(f"drawing {name}")
        files = [self.folder / f"{name}{suffix}" for suffix in _FORMATS]
        for file in files:
            draw(file)
        narrow = self._narrow(draw) if also_narrow else None
        width_px = round(_PX_PER_IN * _width_in(files[-1]))
        told = {"caption": caption, "image": _inline(files[-1]), "narrow": narrow, "width_px": width_px}
        section.parts.append({"kind": "figure", **told})

    def _narrow(self, draw: Callable[[Path], None]) -> str:
        with TemporaryDirectory() as folder, looking(replace(wanted_look(), size_in=None, narrow=True)):
            draw(file := Path(folder) / "narrow.png")
            return _inline(file)


def _inline(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode('ascii')}"


def _width_in(picture: Path) -> float:
    """As the header of a PNG tells: its pixels, and those in a metre."""
    header = picture.read_bytes()
    pixels, per_m = header[16:20], header[header.index(b"pHYs") + 4 :][:4]
    return int.from_bytes(pixels) / int.from_bytes(per_m) / _M_PER_IN


def said(kpi: Kpi) -> str:
    return kpi.label or kpi.name


def interval(estimate: Estimate, digits: int = 4) -> str:
    if math.isnan(estimate.value):
        return "not defined"
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
