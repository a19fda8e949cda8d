"""Main Street in two edges with a junction between them, Side Street off it, and vehicles that drive 10 m/s."""

from pathlib import Path

NETWORK = """<net>
  <location netOffset="-683195.58,-4928877.56" convBoundary="0,0,205,100"
            projParameter="+proj=utm +zone=32 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"/>
  <edge id=":J1_0" function="internal"><lane id=":J1_0_0" index="0" speed="10" length="5" shape="100,0 105,0"/></edge>
  <edge id=":J1_1" function="internal"><lane id=":J1_1_0" index="0" speed="10" length="5" shape="100,0 100,5"/></edge>
  <edge id="a" from="J0" to="J1" name="Main Street">
    <lane id="a_0" index="0" speed="10" length="100" shape="0,0 100,0"/>
    <lane id="a_1" index="1" speed="10" length="100" shape="0,3 100,3"/></edge>
  <edge id="b" from="J1" to="J2" name="Main Street">
    <lane id="b_0" index="0" speed="10" length="100" shape="105,0 205,0"/></edge>
  <edge id="c" from="J1" to="J3" name="Side Street">
    <lane id="c_0" index="0" speed="10" length="95" shape="100,5 100,100"/></edge>
  <junction id="J0" type="dead_end" x="0" y="0"/><junction id="J1" type="priority" x="100" y="0"/>
  <junction id="J2" type="dead_end" x="205" y="0"/><junction id="J3" type="dead_end" x="100" y="100"/>
  <connection from="a" to="b" fromLane="0" toLane="0" via=":J1_0_0"/>
  <connection from="a" to="c" fromLane="0" toLane="0" via=":J1_1_0"/>
  <connection from=":J1_0" to="b" fromLane="0" toLane="0"/>
</net>
"""
SPEED = 10.0  # m/s


def write_town(folder: Path, vehicles: int = 60, every_s: float = 8.0) -> tuple[Path, Path]:
    """The network, and positions twice a second: two go straight on, the third turns off, every sixth is a bus."""
    network, positions = folder / "town.net.xml", folder / "town.csv"
    network.write_text(NETWORK, encoding="utf-8")
    rows = []
    for vehicle in range(vehicles):
        enter_s, kind = every_s * vehicle, "bus" if vehicle % 6 == 0 else "car"
        for step in range(int((205 if vehicle % 3 < 2 else 200) / SPEED / 0.5)):
            there = place(5.0 * step, straight_on=vehicle % 3 < 2)
            rows.append((enter_s + 0.5 * step, f"v{vehicle}", *there, SPEED, kind))
    rows.sort()
    header = "time,id,x,y,lane,pos,speed,type\n"
    positions.write_text(header + "".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return network, positions


def place(way_m: float, straight_on: bool) -> tuple[float, float, str, float]:
    if way_m < 100:
        return way_m, 0.0, "a_0", way_m
    if way_m < 105:
        return (way_m, 0.0, ":J1_0_0", way_m - 100) if straight_on else (100.0, way_m - 100, ":J1_1_0", way_m - 100)
    return (way_m, 0.0, "b_0", way_m - 105) if straight_on else (100.0, way_m - 100, "c_0", way_m - 105)
