"""Figures as a journal wants them: size, style and letters, honoured last."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

import mobfl
from mobfl.cli import cli
from mobfl.figures import Look, draw_plan, looking
from mobfl.figures.canvas import canvas

PAPER = mobfl.load_scenario("paper")


def run(*arguments: str) -> None:
    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output


def inches(file: Path) -> tuple[float, float]:
    with Image.open(file) as picture:
        return picture.width / 200, picture.height / 200  # our style's dots per inch


@pytest.mark.parametrize("command", [["plan"], ["simulate", "--rounds", "50", "--plan", "24,11.8"]], ids=lambda c: c[0])
def test_a_figure_has_exactly_the_size_that_is_asked_for(command: list[str], tmp_path: Path) -> None:
    run(*command, "--plot", str(tmp_path / "a.png"), "--size", "3.5,2.2", "--font-size", "7")
    assert inches(tmp_path / "a.png") == (3.5, 2.2)


def test_letters_have_the_size_that_is_asked_for_whatever_a_figure_chose(tmp_path: Path) -> None:
    seen = list[Figure]()
    with looking(Look(font_size=6.0)), canvas(tmp_path / "a.svg") as figure:
        axes = figure.subplots()
        axes.annotate("small", (0, 0), fontsize=3)
        axes.set_title("title")
        seen.append(figure)
    assert {text.get_fontsize() for text in seen[0].findobj(Text)} == {6.0}


def test_a_style_comes_after_ours_and_before_size_and_letters(tmp_path: Path) -> None:
    style = tmp_path / "journal.mplstyle"
    style.write_text(
        "font.family: serif\nlines.linewidth: 3.5\nfigure.figsize: 5, 4\nfont.size: 11\nsavefig.bbox: standard\n"
    )
    with looking(Look(style=str(style))), canvas(tmp_path / "a.png") as figure:
        (line,) = figure.subplots().plot([0, 1])
        assert line.get_linewidth() == 3.5
    assert inches(tmp_path / "a.png") == (5.0, 4.0)
    with looking(Look((3.0, 2.0), str(style), 8.0)), canvas(tmp_path / "a.png") as figure:
        assert figure.subplots().set_xlabel("x").get_fontsize() == 8.0
    assert inches(tmp_path / "a.png") == (3.0, 2.0)


def test_nothing_asked_for_changes_nothing(tmp_path: Path) -> None:
    plan = mobfl.plan(PAPER)
    draw_plan(PAPER, plan, tmp_path / "a.svg")
    with looking(Look()):
        draw_plan(PAPER, plan, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_narrow_plan_is_stacked_and_a_flat_one_has_the_curves_alone(tmp_path: Path) -> None:
    def titles(size: tuple[float, float]) -> list[str]:
        with looking(Look(size)):
            draw_plan(PAPER, mobfl.plan(PAPER), tmp_path / "a.svg")
        return re.findall(r">\((\w)\) ", (tmp_path / "a.svg").read_text())

    assert titles((3.5, 4.4)) == ["a", "b"]
    assert titles((3.5, 2.2)) == ["a"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--size", "3"], "--size must be width,height in inches, such as 3.5,2.2, got '3'"),
        (["--size", "0,2"], "--size must be width,height, both from 0.5 to 100 inches, got 0,2"),
        (["--size", "nan,2"], "--size must be width,height, both from 0.5 to 100 inches, got nan,2"),
        (["--font-size", "big"], "--font-size must be a number of points, got 'big'"),
        (["--font-size", "900"], "--font-size must be from 1 to 100 points, got 900"),
        (["--style", "none.mplstyle"], "--style must be a file or a name of matplotlib's, got 'none.mplstyle'"),
        (["--style", "bad.mplstyle"], "--style must be a file or a name of matplotlib's, got 'bad.mplstyle': Bad key"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_look_is_said(
    flags: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.mplstyle").write_text("lines.colour: red\n")
    with pytest.raises(mobfl.InputError) as caught:
        CliRunner().invoke(cli, ["plan", "--plot", "a.png", *flags], catch_exceptions=False)
    assert str(caught.value).startswith(sentence)
    assert not Path("a.png").exists()
    with pytest.raises(mobfl.InputError, match="go with --plot"):
        CliRunner().invoke(cli, ["plan", "--size", "3,2"], catch_exceptions=False)
