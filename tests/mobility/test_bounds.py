"""Small files that ask for much: each is a sentence, in a process that has little memory and little time."""

import gzip
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mobfl import InputError
from mobfl.mobility.crossings import Crossings, named
from mobfl.mobility.recorded import read_crossings

_MEMORY_BYTES = 1 << 30  # above what Python, NumPy and Arrow take when they are loaded
_LIMITED = """
import resource, sys
from pathlib import Path
from mobfl import InputError, read_crossings
import numba, pyarrow.parquet
from mobfl.mobility.sections import parse_section
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[3]),) * 2)
try:
    print(len(read_crossings(Path(sys.argv[1]), parse_section(sys.argv[2]) if sys.argv[2] else None)), "crossings")
except InputError as error:
    print(error)
"""

OWN = b"vehicle,enter_s,leave_s\n"
TRIPS = b"<tripinfos>\n"
BOX = "box:-9,-9,9,9"


def read_with_little_memory(file: Path, section: str = "") -> str:
    """What reading says in a process that may take a gigabyte more than it needs to start."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(file), section, str(_MEMORY_BYTES)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def packed(file: Path, begin: bytes, again: bytes, bytes_of_it: int) -> None:
    """A gzip file of a beginning and of the same bytes again and again, made without holding them."""
    packer = zlib.compressobj(9, wbits=31)
    block = again * (1 + (1 << 22) // len(again))
    with file.open("wb") as out:
        out.write(packer.compress(begin))
        for _ in range(-(-bytes_of_it // len(block))):
            out.write(packer.compress(block))
        out.write(packer.flush())


def one_long_name(file: Path) -> None:
    rows = [b"v%d,%d,%d\n" % (i, i, i + 20) for i in range(3000)]
    file.write_bytes(OWN + b"x" * 120_000 + b",0,20\n" + b"".join(rows))


def one_long_name_in_xml(file: Path) -> None:
    trip = b'<tripinfo id="%s" depart="0" arrival="9"/>\n'
    file.write_bytes(TRIPS + trip % (900_000 * b"x") + 9000 * (trip % b"a") + b"</tripinfos>")


def one_long_name_in_parquet(file: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = 200_000
    names = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * 500_000])
    times = pyarrow.array(np.zeros(rows))
    parquet.write_table(pyarrow.table({"vehicle": names, "enter_s": times, "leave_s": times}), file)


def rows_without_bytes(file: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    column = pyarrow.array(np.zeros(40_000_000, np.int8))
    parquet.write_table(pyarrow.table({"vehicle": column, "enter_s": column, "leave_s": column}), file)


SIX_GIB, ENOUGH = 6 << 30, 300 << 20  # the second is refused before its end, and is written sooner


def again(begin: bytes, block: bytes) -> Callable[[Path], None]:
    return lambda file: packed(file, begin, block, ENOUGH)


BOMBS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a long name": ("a.csv", one_long_name, "line 2: there must be a name of at most 256 characters in vehicle"),
    "a long name in XML": ("a.xml", one_long_name_in_xml, "line 2: there must be a name of at most 256 characters"),
    "a long name in Parquet": ("a.parquet", one_long_name_in_parquet, "must have text of at most 256 characters, got"),
    "rows without bytes": ("b.parquet", rows_without_bytes, "must have at most"),
    "a line without end": ("a.csv.gz", again(OWN, b"x"), "lines of at most 1048576"),
    "lines without end": ("b.csv.gz", again(OWN, b"\n"), "at most 10000 blank lines"),
    "a row without end": ("c.csv.gz", again(OWN, b'"\n",'), "rows of at most 100 lines"),
    "a tag without end": ("a.xml.gz", again(TRIPS + b'<a b="', b"x"), "tags and comments"),
    "a comment without end": ("b.xml.gz", again(TRIPS + b"<!--", b"x"), "tags and comments"),
    "text without end": ("c.xml.gz", again(TRIPS, b"x"), "must unpack to at most 200 times"),
    "tags in tags": ("d.xml.gz", again(TRIPS, b"<a>"), "at most 1000 elements within"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "write", "sentence"), BOMBS.values(), ids=[*BOMBS])
def test_a_small_file_takes_little_memory(
    tmp_path: Path, name: str, write: Callable[[Path], None], sentence: str
) -> None:
    write(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 3 << 20
    told = read_with_little_memory(tmp_path / name)
    assert sentence in told
    assert name in told


@pytest.mark.slow
def test_a_line_of_six_gigabytes(tmp_path: Path) -> None:
    packed(tmp_path / "a.csv.gz", OWN, b"x", SIX_GIB)
    assert "lines of at most" in read_with_little_memory(tmp_path / "a.csv.gz")


@pytest.mark.parametrize("encoding", ["utf-7", "hex", "no-such", "utf-32", "idna", "punycode", "cp037", "shift_jis"])
def test_encodings_that_xml_does_not_have(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.xml"
    file.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?><tripinfos/>'.encode())
    with pytest.raises(InputError, match=r"a\.xml"):
        read_crossings(file)


def test_parquet_with_dates_where_numbers_belong(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    times = pa.array([0.0, 5.0])
    for kind in (
        pa.timestamp("us", "Nowhere/Atlantis"),
        pa.timestamp("s"),
        pa.date64(),
        pa.duration("ns"),
        pa.binary(),
    ):
        odd = pa.array([b"1", b"2"], pa.binary()) if kind == pa.binary() else pa.array([2**60, 5]).cast(kind)
        parquet.write_table(pa.table({"vehicle": [1, 2], "enter_s": odd, "leave_s": times}), tmp_path / "odd.parquet")
        with pytest.raises(InputError, match=r"odd\.parquet' must have numbers or text in enter_s, got"):
            read_crossings(tmp_path / "odd.parquet")
        parquet.write_table(
            pa.table({"vehicle": [1, 2], "when": odd, "enter_s": times, "leave_s": times}), tmp_path / "fine.parquet"
        )
        assert len(read_crossings(tmp_path / "fine.parquet")) == 2


def test_names_keep_their_keys_whatever_they_are_kept_in(tmp_path: Path) -> None:
    """The draws of a vehicle hang on its key: the same for text of one width, of any width, and from any file."""
    names, times = ["red", "blå", "7", "a longer name than the others", ""], np.arange(5.0)
    wide = Crossings(np.array(names), times, times + 1)
    assert wide.keys.tolist() == Crossings(named(names), times, times + 1).keys.tolist()
    assert wide.keys[0] == int.from_bytes(__import__("hashlib").blake2b(b"red", digest_size=8).digest(), "little")
    rows = "".join(f"{name},{t},{t + 1}\n" for name, t in zip(names, times, strict=True))
    (tmp_path / "a.csv").write_text("vehicle,enter_s,leave_s\n" + rows, encoding="utf-8")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    for name in ("a.csv", "a.csv.gz"):
        assert read_crossings(tmp_path / name).fingerprint() == wide.fingerprint()


def test_a_vehicle_outside_of_every_time_step(tmp_path: Path) -> None:
    from mobfl.mobility.sections import parse_section

    (tmp_path / "a.xml").write_text('<fcd-export><vehicle id="a" x="0" y="0"/></fcd-export>')
    with pytest.raises(InputError, match=r"a\.xml, line 1: there must be a timestep around it"):
        read_crossings(tmp_path / "a.xml", parse_section(BOX))


@pytest.mark.parametrize("text", ["circle:0,0,1e200", "circle:nan,0,1", "circle:inf,0,1", "box:-1e300,0,1,1"])
def test_sections_beyond_any_road(text: str) -> None:
    from mobfl.mobility.sections import parse_section

    with pytest.raises(InputError, match="in metres of at most 1e"):
        parse_section(text)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(InputError, match="trace"):
        read_crossings(Path("a\0.csv"))
