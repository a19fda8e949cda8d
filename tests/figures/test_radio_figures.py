"""Figures of plans on a radio: promised against delivered, and with and without the radio."""

from pathlib import Path

import pytest

from mobfl import InputError, Plan, load_scenario, plan_quickly
from mobfl.figures import draw_kept_promises, draw_radio_plan
from mobfl.rounds.kept_promises import KeptPromise, kept_promises

FORMATS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
URBAN = load_scenario("urban-radio")


@pytest.fixture(scope="module")
def kept() -> list[KeptPromise]:
    return kept_promises(URBAN, (0.1, 0.3), 40)


def test_promises_are_the_plan_s_and_delivered_is_what_was_simulated(kept: list[KeptPromise]) -> None:
    for each, rate in zip(kept, (0.1, 0.3), strict=True):
        road = URBAN.with_values({"traffic.arrivals_per_s": rate})
        assert each.plan == plan_quickly(road)
        assert each.rounds is not None
        assert each.objective is not None
        assert each.promised_empty_prob == pytest.approx(1 - (each.plan.valid_round_prob or 0.0))
        empty = each.rounds.histogram[0] / each.rounds.rounds
        h, t, _ = each.plan.numbers
        assert each.objective.value == pytest.approx(h / t * (1 - empty))
        assert each.objective.low <= each.objective.value <= each.objective.high <= h / t
        assert each.to_dict()["empty_prob"] == empty


def test_a_road_without_a_plan_has_no_rounds() -> None:
    (none,) = kept_promises(URBAN.with_values({"radio.uplink_hz": 1e4}), (0.1,), 40)
    assert (none.rounds, none.objective, none.promised_empty_prob) == (None, None, None)
    assert set(none.to_dict()) == {"arrivals_per_s", "plan"}


def test_every_format_says_what_it_shows_and_equal_runs_draw_equal_bytes(
    kept: list[KeptPromise], tmp_path: Path
) -> None:
    quick = plan_quickly(URBAN)
    for suffix, start in FORMATS.items():
        for again in ("a", "b"):
            draw_kept_promises(kept, tmp_path / f"{again}-kept.{suffix}")
            draw_radio_plan(URBAN, quick, tmp_path / f"{again}-plan.{suffix}", rounds=30)
        for name in ("kept", "plan"):
            first, second = ((tmp_path / f"{again}-{name}.{suffix}").read_bytes() for again in ("a", "b"))
            assert first.startswith(start)
            assert first == second
    drawn = (tmp_path / "a-kept.svg").read_text(encoding="utf-8")
    for text in ("chance of a round without upload", "arrivals λ (1/s)", "promised", "simulated, 95 % intervals"):
        assert f">{text}<" in drawn
    drawn = (tmp_path / "a-plan.svg").read_text(encoding="utf-8")
    for text in ("Λ (uploads per round)", f"(b) g({quick.local_steps}, ·)", "fixed point at every T"):
        assert f">{text}<" in drawn


def test_what_cannot_be_shown_is_an_error(tmp_path: Path) -> None:
    none = KeptPromise(0.1, Plan("infeasible", reason="no"), None)
    with pytest.raises(InputError, match="a figure must have something to show"):
        draw_kept_promises([none], tmp_path / "kept.png")
    with pytest.raises(InputError, match="a figure must have a plan to show, got none: no"):
        draw_radio_plan(URBAN, none.plan, tmp_path / "plan.png")
    with pytest.raises(InputError, match="rounds must be >= 20, got 1"):
        kept_promises(URBAN, (0.1,), 1)
    assert not list(tmp_path.iterdir())
