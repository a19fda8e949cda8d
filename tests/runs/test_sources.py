"""What tells a run's code: a digest of the sources that results depend on."""

from pathlib import Path

import pytest

from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, train
from mobfl.runs import sources
from mobfl.runs.folder import read_run

SOURCES = Path(sources.__file__).parents[1]


def package(folder: Path, **files: str) -> str:
    for name, text in {"rng.py": "one", "cli/words.py": "two", "tasks/beams.py": "three", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return sources.digest(folder)


def test_every_source_that_results_depend_on_changes_the_digest_and_no_other_file(tmp_path: Path) -> None:
    base = package(tmp_path / "a")
    assert len(base) == 12
    assert package(tmp_path / "b") == base  # wherever it is installed
    assert package(tmp_path / "c", **{"cli/words.py": "2", "tasks/notes.txt": "four"}) == base
    changed = [
        package(tmp_path / "d", **{"rng.py": "ones"}),
        package(tmp_path / "e", **{"tasks/more.py": ""}),
        package(tmp_path / "f", **{"tasks/beams.py": "", "tasks/beamsthree.py": ""}),
    ]
    assert len({base, *changed}) == 4


def test_a_run_is_resumed_only_by_the_code_that_began_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    road = Scenario.from_dict({"training": {"samples_per_vehicle": 20, "batch_size": 8, "duration_s": 60.0}})
    job = Job(CountingTask(), road, (10, 6.0), seed=3)
    with pytest.raises(KeyboardInterrupt):
        train(job, tmp_path / "run", stop=lambda: True)
    assert read_run(tmp_path / "run")["versions"]["code"] == sources.code()
    with monkeypatch.context() as later:
        later.setattr(sources, "code", lambda: "0123456789ab")
        sentence = (
            rf"versions.code must be as in the run to be resumed \('{sources.digest(SOURCES)}'\), got '0123456789ab'"
        )
        with pytest.raises(InputError, match=sentence):
            train(job, tmp_path / "run", resume=True)
    train(job, tmp_path / "run", resume=True)
    assert read_run(tmp_path / "run")["status"] == "done"
