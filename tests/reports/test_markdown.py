"""The arena's tables in the guide are those of the stored results."""

from pathlib import Path

import pytest

from mobfl.reports.markdown import BEGIN, END, arena_markdown, filled_in, read_rows
from places import ROOT

HEADER = (
    "task,study,label,runs,target,value,reached,mean_s,faster,faster_low,faster_high,bound,kpi,min_loss,"
    "min_loss_above,min_loss_above_low,min_loss_above_high,last_kpi,last_kpi_above,last_kpi_above_low,last_kpi_above_high"
)
TABLE = f"""{HEADER}
beams,"λ = 0.1/s",MOB-FL's plan,5,loss=90%,1.7321,5,294.4,1,1,1,,top_10,1.5,0,0,0,0.9,0,0,0
beams,"λ = 0.1/s",anytime,5,loss=90%,1.7321,4,1031.2,1.4,1.21,1.62,≤,top_10,1.52,0.02,-0.01,0.05,0.91,0.01,-0.02,0.04
beams,"λ = 0.1/s",never,1,loss=90%,1.7321,0,2500,nan,nan,nan,,top_10,3,1.5,-inf,inf,0.1,-0.8,-inf,inf
"""


def test_a_table_per_study_and_a_row_per_algorithm(tmp_path: Path) -> None:
    (tmp_path / "arena.csv").write_text(TABLE, encoding="utf-8")
    made = arena_markdown(read_rows([tmp_path / "arena.csv"])).splitlines()
    assert made == [
        "**beams, λ = 0.1/s**",
        "",
        "|  | seeds | s to loss 1.73 | times as fast | L_min | last top_10 |",
        "| --- | --- | --- | --- | --- | --- |",
        "| MOB-FL's plan | 5 | 294 (5/5) | 1 | 1.500 | 0.900 |",
        "| anytime | 5 | 1031 (4/5) | ≤ 1.40 [1.21, 1.62] | 1.520 [-0.010, +0.050] | 0.910 [-0.020, +0.040] |",
        "| never | 1 | 2500 (0/1) | – | 3.000 | 0.100 |",
    ]


def test_the_guide_shows_the_stored_results() -> None:
    page = (ROOT / "docs/guides/arena.md").read_text(encoding="utf-8")
    stored = sorted((ROOT / "docs/results").glob("arena*.csv"))
    assert filled_in(page, arena_markdown(read_rows(stored))) == page, "run scripts/arena-tables"
    with pytest.raises(ValueError, match="must hold"):
        filled_in(f"{BEGIN} without its end", "")
    assert filled_in(f"a {BEGIN} old {END} b", "new\n") == f"a {BEGIN}\n\nnew\n\n{END} b"
