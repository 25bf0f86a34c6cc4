"""The learned state on disk: resumed exactly, refused when it is not ours, safe with two writers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slacktide.core.errors import FileError, InputError
from slacktide.policies.selection.document import from_json, to_json
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.rate import Adaptive, Anytime, FixedRate, LearningRate
from slacktide.policies.selection.state_file import LearnedStateFile, default_path, forget, load, locked, save

ARMS = tuple(f"arm-{number}" for number in range(7))


def fresh(rate: LearningRate | None = None) -> Hedge:
    return Hedge(ARMS, prior={arm: 1.0 + number for number, arm in enumerate(ARMS)}, rate=rate)


def step(hedge: Hedge, number: int) -> None:
    """Begin a job and, three jobs later, end it."""
    hedge.begin(f"job-{number}")
    if number >= 3:
        hedge.end(f"job-{number - 3}", np.random.default_rng(number).random(len(ARMS)))


@pytest.mark.parametrize("rate", [FixedRate(40), Anytime(), Adaptive()], ids=lambda rate: type(rate).__name__)
def test_saving_and_resuming_equals_never_stopping(rate: LearningRate) -> None:
    whole, resumed = fresh(rate), fresh(rate)
    for number in range(40):
        step(whole, number)
        resumed = from_json(to_json(resumed), "state")
        step(resumed, number)
    assert to_json(resumed) == to_json(whole)


def test_an_untaught_learner_survives_too(tmp_path: Path) -> None:
    save(fresh(), tmp_path / "learn.json")
    found = load(tmp_path / "learn.json")
    assert found is not None
    assert to_json(found) == to_json(fresh())


def test_nothing_is_loaded_from_nowhere(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "in JSON"),
        ("{", "in JSON"),
        ("[" * 100_000, "in JSON"),
        ("[1, 2]", "'slacktide learn' wrote, got another"),
        ('{"format": "other"}', "'slacktide learn' wrote, got another"),
        ('{"format": "slacktide-learn", "version": 2}', "version 1, got version 2"),
        ('{"format": "slacktide-learn", "version": 1}', "damaged one: arms must be given, got nothing"),
    ],
)
def test_foreign_files_are_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "learn.json"
    path.write_text(text)
    with pytest.raises(FileError, match=words) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def _set(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("arms", value=[]),
        _set("arms", 0, value=3),
        _set("arms", 1, value="arm-0"),
        _set("prior", 0, value=0.0),
        _set("prior", value=[1.0] * 7),
        _set("utility", 0, value=1e9),
        _set("utility", 0, value=float("nan")),
        _set("utility", value=[1.0]),
        _set("tally", "ended", value="x"),
        _set("tally", "delay", value=-1.0),
        _set("tally", "eta", value=-1.0),
        _set("tally", value=None),
        _set("tally", "more", value=1),
        _set("rate", value={"slow": {}}),
        _set("rate", value={}),
        _set("open", "job-9", value={"arm": 99, "weights": [1.0] * 7}),
        _set("open", value=[]),
        _set("leaders", value=[]),
        _set("leaders", value=[[0, 99]]),
        _set("trail", value=[[1]]),
        _set("recent", value=[1]),
    ],
)
def test_damaged_states_are_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    hedge = fresh()
    for number in range(6):
        step(hedge, number)
    document = json.loads(to_json(hedge))
    change(document)
    path = tmp_path / "learn.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FileError, match="damaged one"):
        load(path)


def test_a_folder_and_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="readable"):
        load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8 text, got byte 0xff"):
        load(tmp_path / "binary")


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    saved = LearnedStateFile(tmp_path / "deep" / "learn.json", fresh)
    with saved.changing() as hedge:
        step(hedge, 0)
    before = saved.path.read_bytes()
    with pytest.raises(InputError), saved.changing() as hedge:
        hedge.end("job-0", [2.0] * len(ARMS))
    assert saved.path.read_bytes() == before


WRITER = """
import sys
from pathlib import Path
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.state_file import LearnedStateFile
path, name, jobs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
saved = LearnedStateFile(path, lambda: Hedge(["a", "b"]))
for number in range(jobs):
    with saved.changing() as hedge:
        hedge.begin(f"{name}-{number}")
    with saved.changing() as hedge:
        hedge.end(f"{name}-{number}", [0.25, 0.5])
"""


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    path, jobs = tmp_path / "learn.json", 40
    arguments = [[sys.executable, "-c", WRITER, str(path), name, str(jobs)] for name in ("one", "two")]
    writers = [subprocess.Popen(line) for line in arguments]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = load(path)
    assert found is not None
    assert found.ended == 2 * jobs
    assert found.utility.tolist() == [0.25 * 2 * jobs, 0.5 * 2 * jobs]
    assert found.open == {}


def test_a_lock_that_is_kept_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "learn.json"
    with locked(path), pytest.raises(FileError, match="must be free"), locked(path, patience_s=0.0):
        pass
    with locked(path):
        pass


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="its folder must be writable"), locked(tmp_path / "file" / "x.json"):
        pass


def test_forgetting_removes_the_state(tmp_path: Path) -> None:
    save(fresh(), tmp_path / "learn.json")
    forget(tmp_path / "learn.json")
    forget(tmp_path / "learn.json")
    assert load(tmp_path / "learn.json") is None


def test_the_state_is_kept_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", "/somewhere")
    assert default_path() == Path("/somewhere/learn.json")
    monkeypatch.delenv("SLACKTIDE_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_path() == Path("/state/slacktide/learn.json")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_path() == Path.home() / ".local/state/slacktide/learn.json"
