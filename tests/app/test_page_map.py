"""A section drawn on a map: the edges of a network, the positions of a recording, and what no map can be made of."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from browser import until
from mobfl import InputError
from mobfl.app.maps import drawn
from mobfl.mobility.sections import Circle, Edge, parse_section
from page_visits import MARKUP, Open, road_ready, two_frames, wait_for_text
from places import DATA

NET = f"""<net><edge id=":0_0" function="internal"><lane shape="0,0 1,1"/></edge>
<edge id="west:1"><lane shape="0,0 400,0"/><lane shape="0,3 400,3"/></edge>
<edge id="{MARKUP.replace("<", "&lt;")}"><lane shape="400,0 400,200,7"/></edge></net>""".encode()
POSITIONS = b"time,id,x,y\n" + b"".join(b"%d,a,%d,50\n%d,b,%d,20\n" % (t, 10 * t, t, 300 - 10 * t) for t in range(30))


def test_a_network_and_positions_become_maps() -> None:
    net = drawn(NET, "a.net.xml")
    assert net["edges"][0] == {"id": "west:1", "shape": [[0.0, 0.0], [400.0, 0.0]]}
    assert (len(net["edges"]), net["points"], net["bounds"]) == (2, [], [0.0, 0.0, 400.0, 200.0])
    places = drawn(POSITIONS, "a.csv")
    assert (places["edges"], places["bounds"]) == ([], [0.0, 20.0, 300.0, 50.0])
    assert [10.0, 50.0] in places["points"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.xml", b"<net></net>", "a.xml, line 1: there must be edges with lanes, got none"),
        ("a.xml", b'<net><edge id="a"><lane shape="0,0 x,1"/></edge></net>', "a lane's shape of two places or more"),
        ("a.xml", b'<net><edge id="a"><lane shape="0,0"/></edge></net>', "a lane's shape of two places or more"),
        ("a.xml", b'<net><edge id="a"><lane shape="0,0 nan,1"/></edge></net>', "a lane's shape of two places or more"),
        ("a.xml", b"<net", "complete XML"),
        ("a.xml", b"", "a.xml"),
        ("a.csv", b"vehicle,enter_s,leave_s\n1,0,5\n2,3,9\n", "positions"),
        ("a.csv", b"time,id,x,y\n", "a.csv"),
        ("a.png", b"x", "a trace must be a .csv, .txt or .xml file"),
    ],
)
def test_what_is_no_map_is_refused_in_a_sentence(name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        drawn(content, name)
    assert sentence in str(refused.value)
    assert "/dev/fd" not in str(refused.value)


def test_a_section_is_drawn_with_the_mouse(visit: Open, tmp_path: Path) -> None:
    page = visit("#road")
    road_ready(page)  # from then on nothing moves
    (tmp_path / "a.net.xml").write_bytes(NET)
    (tmp_path / "a.csv").write_bytes(POSITIONS)
    page.click("#map-box summary")
    page.set_input_files("#map-file", tmp_path / "a.net.xml")
    page.click("#map-show")
    wait_for_text(page, "#map-says", "a.net.xml: 2 edges")
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2  # (200, 100) in metres
    drag(page, middle, (middle[0] + 60, middle[1]))
    circle = parse_section(page.input_value("#trace-section"))
    assert isinstance(circle, Circle)
    assert (circle.x, circle.y) == (200.0, 100.0)
    scale = 60 / circle.radius
    page.get_by_label("a box").check()
    drag(page, middle, (middle[0] - 100 * scale, middle[1] + 50 * scale))
    assert page.input_value("#trace-section") == "box:100,50,200,100"
    page.get_by_label("or click an edge").check()
    page.mouse.click(middle[0], middle[1] + 100 * scale + 3)
    assert parse_section(page.input_value("#trace-section")) == Edge("west:1")
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    until(page, "!document.querySelector('#map-all').disabled")
    page.set_input_files("#map-file", [])
    page.set_input_files("#trace-file", tmp_path / "a.csv")
    page.click("#map-show")
    wait_for_text(page, "#map-says", "a.csv: 60 positions")
    assert page.locator("#map-edge").is_disabled()
    assert page.locator("img").count() == 0


def test_a_section_is_drawn_with_the_keyboard(visit: Open, tmp_path: Path) -> None:
    page = visit("#road")
    road_ready(page)
    (tmp_path / "a.net.xml").write_bytes(NET)
    page.click("#map-box summary")
    page.set_input_files("#map-file", tmp_path / "a.net.xml")
    page.click("#map-show")
    wait_for_text(page, "#map-says", "a.net.xml: 2 edges")
    page.locator("#map").press("Enter")
    around = parse_section(page.input_value("#trace-section"))
    assert isinstance(around, Circle)
    assert (around.x, around.y) == (200.0, 100.0)
    wait_for_text(page, "#map-section", f"section: {page.input_value('#trace-section')}")
    page.locator("#map").press("ArrowRight")
    page.locator("#map").press("ArrowUp")
    page.locator("#map").press("+")
    page.locator("#map").press("Enter")
    moved = parse_section(page.input_value("#trace-section"))
    assert isinstance(moved, Circle)
    assert moved.x > around.x
    assert moved.y > around.y
    assert moved.radius == pytest.approx(around.radius / 1.25, abs=0.1)
    page.locator("#map").press("Escape")
    page.get_by_label("or click an edge").check()
    page.locator("#map").press("ArrowDown")
    page.locator("#map").press("Enter")
    assert isinstance(parse_section(page.input_value("#trace-section")), Edge)
    page.get_by_label("or move the map").check()
    before = page.input_value("#trace-section")
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(page, middle, (middle[0] + 40, middle[1]))
    assert page.evaluate("mobfl.road.map.view.x") < 200
    assert page.input_value("#trace-section") == before


def test_a_city_of_a_hundred_thousand_edges_is_drawn(visit: Open, tmp_path: Path) -> None:
    edges = (
        f'<edge id="e{i}"><lane shape="{i % 320 * 50},{i // 320 * 50} {i % 320 * 50 + 40},{i // 320 * 50}"/></edge>'
        for i in range(100_000)
    )
    (tmp_path / "city.net.xml.gz").write_bytes(gzip.compress(f"<net>{''.join(edges)}</net>".encode(), 1))
    page = visit("#road")
    road_ready(page)
    page.click("#map-box summary")
    page.set_input_files("#map-file", tmp_path / "city.net.xml.gz")
    page.click("#map-show")
    wait_for_text(page, "#map-says", "city.net.xml.gz: 100000 edges")
    two_frames(page)
    painted = page.evaluate("mobfl.road.map.painted")
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(page, middle, (middle[0] + 60, middle[1]))
    two_frames(page)
    assert page.input_value("#trace-section").startswith("circle:")
    assert page.evaluate("mobfl.road.map.painted") == painted  # the city itself is not drawn again


def drag(page: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=5)
    page.mouse.up()


def test_a_real_network_is_drawn() -> None:
    file = DATA / "sumo" / "bologna_acosta" / "acosta_buslanes.net.xml"
    if not file.exists():
        pytest.skip("needs SUMO's Bologna")
    net = drawn(file.read_bytes(), file.name)
    assert len(net["edges"]) > 100
    assert len(json.dumps(net)) < 2_000_000
