"""Tables for a paper: LaTeX that compiles, mean ± sd and n."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import mobfl
from fake_task import CountingTask
from mobfl.cli import cli
from mobfl.experiments.latex import booktabs, spread_cell

ROAD = mobfl.load_scenario("paper").with_values(
    {"training.duration_s": 60, "training.samples_per_vehicle": 40, "training.batch_size": 10}
)


def test_a_table_is_booktabs_with_letters_that_latex_takes() -> None:
    table = pa.table({"plan": ["24,11.8", "a_b & 50%"], "mean": [0.88123, -1.0], "sd": [0.0317, None], "seeds": [3, 1]})
    assert booktabs(table).splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"plan & mean \ensuremath{\pm} sd & n \\",
        r"\midrule",
        r"24,11.8 & 0.881 \ensuremath{\pm} 0.032 & 3 \\",
        r"a\_b \& 50\% & -1 & 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize(
    ("mean", "sd", "said"),
    [(12.3456, 1.23, "12.3 ± 1.2"), (1234.5, 456.0, "1234 ± 456"), (2.0, 0.0, "2 ± 0"), (float("nan"), None, "–")],
)
def test_a_mean_has_the_digits_that_its_spread_allows(mean: float, sd: float | None, said: str) -> None:
    assert spread_cell({"mean": mean, "sd": sd, "seeds": 3}, "mean ± sd") == said


def test_a_count_of_ones_own_stays_beside_the_seeds() -> None:
    table = pa.table({"n": [7], "mean": [2.0], "sd": [0.5], "seeds": [3]})
    assert booktabs(table).splitlines()[3] == r"n & mean \ensuremath{\pm} sd & seeds \\"
    assert booktabs(table).splitlines()[5] == r"7 & 2.00 \ensuremath{\pm} 0.50 & 3 \\"


def test_comparing_tells_mean_spread_and_number_of_seeds(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        mobfl.train(mobfl.Job(CountingTask(), ROAD, (10, 6.0), seed), tmp_path / f"run-{seed}")
    (row,) = mobfl.Results(tmp_path).compare("min_loss").to_pylist()
    losses = [mobfl.read_history(tmp_path / f"run-{seed}").min_loss() for seed in (1, 2, 3)]
    assert (row["mean"], row["sd"], row["seeds"]) == pytest.approx((np.mean(losses), np.std(losses, ddof=1), 3))
    tex, csv = tmp_path / "table.tex", tmp_path / "table.csv"
    for file in (tex, csv):
        asked = ["results", str(tmp_path), "--compare", "min_loss", "--export", str(file)]
        shown = CliRunner().invoke(cli, asked, catch_exceptions=False).output
    assert "mean ± sd" in shown
    assert "1 row" in shown
    assert r"\toprule" in tex.read_text()
    assert '"mean","sd"' in csv.read_text()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_takes_it(tmp_path: Path) -> None:
    table = booktabs(pa.table({"a_$%&#{}~^\\<>": ["−1 ± 2 ≥ 3 ≤ 4 – 5"]}))
    (tmp_path / "a.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + table + "\\end{document}\n"
    )
    subprocess.run(["pdflatex", "-halt-on-error", "a.tex"], cwd=tmp_path, check=True, capture_output=True)
