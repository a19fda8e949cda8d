"""A plan by simulation may take minutes: a piped command says that it plans, unless the plan is there at once."""

import threading

import click
import pytest

from mobfl.cli import options


def test_a_plan_that_takes_a_while_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told, said = threading.Event(), list[str]()

    def echo(text: str, err: bool) -> None:
        said.append(text)
        assert err
        told.set()

    monkeypatch.setattr(click, "echo", echo)
    monkeypatch.setattr(options, "AT_ONCE_S", 0.0)
    with options.planning():
        assert told.wait(60)
    assert said == ["planning …"]


def test_a_plan_that_is_there_at_once_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "AT_ONCE_S", 1e6)
    before = threading.active_count()
    with options.planning():
        assert threading.active_count() == before + 1
    assert capsys.readouterr().err == ""
