"""The module for training scripts: alone, as a worker, told to stop, and killed while it saves."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

VARIABLES = (
    "RANK", "WORLD_SIZE", "SLACKTIDE_ATTEMPT", "SLACKTIDE_CHECKPOINT_DIR", "SLACKTIDE_PROGRESS",
    "SLACKTIDE_GRACE_SECONDS", "SLACKTIDE_NOTES", "SLACKTIDE_ADDED", "SLACKTIDE_REFORMED",
)  # fmt: skip


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module as a new process finds it, outside of Slacktide."""
    from slacktide import worker as module

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "stopping", module.StopFlag())
    monkeypatch.setattr(module, "_reports", module._Reports())
    before = signal.getsignal(signal.SIGTERM)
    yield module
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def told(worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[object]]:
    """Make the process rank 0 of a job; returns what it has said."""
    path = tmp_path / "progress.jsonl"
    monkeypatch.setenv("SLACKTIDE_PROGRESS", str(path))
    monkeypatch.setenv("SLACKTIDE_CHECKPOINT_DIR", str(tmp_path / "ckpt"))
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    return lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def without_seconds(lines: list[object]) -> list[object]:
    """Leave out how long checkpoints took."""
    for line in lines:
        assert isinstance(line, dict)
        line.get("metrics", {}).pop("checkpoint_seconds", None)
    return lines


def test_outside_of_slacktide_it_is_a_plain_script(
    worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (worker.rank, worker.world_size, worker.attempt) == (0, 1, 0)
    assert worker.checkpoint_dir is None
    assert worker.grace_seconds == math.inf
    worker.progress(0.5, loss=1.0)
    assert worker.saved("model") is None
    assert worker.save("model", b"weights", done=0.5) == Path("model")
    assert worker.saved("model") == Path("model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_worker_knows_its_place(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = dict(zip(VARIABLES[:6], ("2", "3", "7", "/ckpt", "/progress", "20"), strict=True))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert (worker.rank, worker.world_size, worker.attempt) == (2, 3, 7)
    assert worker.checkpoint_dir == Path("/ckpt")
    assert worker.grace_seconds == 20.0
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(ValueError, match="RANK must be a whole number, got 'first'"):
        _ = worker.rank
    with pytest.raises(AttributeError, match="has no attribute 'ranks'"):
        _ = worker.ranks


def test_progress_is_what_the_back_end_reads(
    worker: ModuleType, told: Callable[[], list[object]], tmp_path: Path
) -> None:
    from slacktide.backends.workers.progress import Tail

    worker.progress(0.25, loss=2)
    assert told() == [{"done": 0.25, "metrics": {"loss": 2.0}}]
    worker.save("model", b"", done=0.5)
    worker.progress(0.75)
    seen = Tail(tmp_path / "progress.jsonl", 0.0).progress
    assert (seen.done_share, seen.checkpointed_share) == (0.75, 0.5)
    assert set(seen.metrics) == {"loss", "checkpoint_seconds"}


def test_what_is_checkpointed_is_what_was_saved_or_said(
    worker: ModuleType, told: Callable[[], list[object]]
) -> None:
    worker.progress(0.1)
    worker.progress(0.2, checkpointed=0.1)
    worker.progress(0.3)
    worker.save("model", b"weights", done=0.4, loss=1.5)
    worker.progress(0.5)
    worker.save("other", b"not all of the state")
    worker.progress(0.2)  # after going back to an older state
    assert without_seconds(told()) == [
        {"done": 0.1},
        {"done": 0.2, "checkpointed": 0.1},
        {"done": 0.3, "checkpointed": 0.1},
        {"done": 0.4, "checkpointed": 0.4, "metrics": {"loss": 1.5}},
        {"done": 0.5, "checkpointed": 0.4},
        {"done": 0.2, "checkpointed": 0.2},
    ]


def test_only_rank_0_reports(
    worker: ModuleType, told: Callable[[], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    worker.progress(0.5)
    worker.save("shard-1", b"", done=0.5)
    assert worker.saved("shard-1")
    assert told() == []


def test_of_many_reports_the_first_and_the_last_are_written(
    worker: ModuleType, told: Callable[[], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPORT_SECONDS", 3600.0)
    for step in range(1001):
        worker.progress(step / 1000)
    assert told() == [{"done": 0.0}, {"done": 1.0}]


@pytest.mark.parametrize("share", [-0.1, 1.1, 42, math.nan, math.inf])
def test_what_is_no_share_is_refused(worker: ModuleType, share: float) -> None:
    with pytest.raises(ValueError, match="done must be a share from 0 to 1"):
        worker.progress(share)
    with pytest.raises(ValueError, match="checkpointed must be a share"):
        worker.progress(0.5, checkpointed=share)


def test_sums_of_steps_may_miss_1(worker: ModuleType, told: Callable[[], list[object]]) -> None:
    worker.progress(sum([0.1] * 10) + 1e-9)
    assert told() == [{"done": 1.0}]


def test_files_and_new_folders_are_saved_whole(
    worker: ModuleType, told: Callable[[], list[object]], tmp_path: Path
) -> None:
    def write(path: Path) -> None:
        assert path.suffix == ".npz"  # NumPy would add it and write somewhere else
        path.write_text("state")

    def fill(path: Path) -> None:
        path.mkdir()
        (path / "model").write_text("weights")

    worker.save("state.npz", write)
    worker.save("state.npz", write)
    worker.save("deeper/step-1", fill)
    with pytest.raises(FileExistsError, match="under a new name"):
        worker.save("deeper/step-1", fill)
    with pytest.raises(FileNotFoundError, match="must write to the path it is given"):
        worker.save("nothing", lambda path: None)
    found = sorted(path.relative_to(tmp_path / "ckpt") for path in (tmp_path / "ckpt").rglob("*"))
    assert [str(path) for path in found] == ["deeper", "deeper/step-1", "deeper/step-1/model", "state.npz"]


def test_a_write_that_fails_leaves_the_checkpoint_before(
    worker: ModuleType, told: Callable[[], list[object]], tmp_path: Path
) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("no space left")

    worker.save("model", b"first", done=0.1)
    with pytest.raises(OSError, match="no space left"):
        worker.save("model", fail, done=0.2)
    assert (tmp_path / "ckpt" / "model").read_bytes() == b"first"
    assert len(list((tmp_path / "ckpt").iterdir())) == 1
    assert [line["done"] for line in told() if isinstance(line, dict)] == [0.1]


KILLED = """
import os, signal
from slacktide import worker
def die(path):
    path.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
worker.save("model", b"whole", done=0.5)
worker.save("model", die, done=0.6)
"""


def test_a_kill_leaves_the_checkpoint_before_and_the_next_save_clears_up(
    worker: ModuleType, told: Callable[[], list[object]], tmp_path: Path
) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == -signal.SIGKILL
    folder = tmp_path / "ckpt"
    assert (folder / "model").read_bytes() == b"whole"
    assert len(list(folder.iterdir())) == 2
    worker.save("later", b"next")
    assert {path.name for path in folder.iterdir()} == {"model", "later"}
    assert len(told()) == 1


def test_a_stop_is_noted_once_somebody_looks(worker: ModuleType) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    assert not worker.stopping
    os.kill(os.getpid(), signal.SIGTERM)
    assert worker.stopping
    assert heard == [signal.SIGTERM]  # who listened before still hears


def test_a_stop_can_be_taken_back_from_a_library(worker: ModuleType) -> None:
    worker.stopping.heed()
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    worker.stopping.heed_alone()
    os.kill(os.getpid(), signal.SIGTERM)
    assert worker.stopping
    assert heard == []


def test_the_first_look_is_in_the_main_thread(worker: ModuleType) -> None:
    errors: list[BaseException] = []

    def look() -> None:
        try:
            bool(worker.stopping)
        except RuntimeError as error:
            errors.append(error)

    for wanted in (1, 1):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert len(errors) == wanted
        worker.stopping.heed()


@pytest.mark.parametrize(("looks", "code"), [("", -signal.SIGTERM), ("bool(worker.stopping)", 0)])
def test_a_script_that_never_looks_is_ended_by_a_stop(looks: str, code: int) -> None:
    script = f"import os, signal\nfrom slacktide import worker\n{looks}\nos.kill(os.getpid(), signal.SIGTERM)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == code


def test_it_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; known = set(sys.modules); import slacktide.worker;"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - known} - sys.stdlib_module_names))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['slacktide']"


HELPED = """
import os, signal
from slacktide import worker
bool(worker.stopping)
ready, go = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    worker.outlive_stop(0)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os._exit(bool(worker.stopping))
os.read(ready[0], 1)
os.killpg(0, signal.SIGTERM)
os.write(go[1], b"x")
assert worker.stopping
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_a_helper_can_outlive_a_stop() -> None:
    subprocess.run([sys.executable, "-c", HELPED], check=True, start_new_session=True)


def test_outside_of_slacktide_nobody_re_forms(worker: ModuleType) -> None:
    assert worker.ready()
    assert not worker.resizing
    assert not worker.reform()


def test_a_worker_takes_the_place_that_it_is_told(
    worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "rank-1"
    monkeypatch.setenv("SLACKTIDE_NOTES", str(notes))
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "SLACKTIDE_ATTEMPT": "3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLACKTIDE_REFORMED", "")
    place = {"attempt": 4, "log": str(tmp_path / "log"), "variables": {"RANK": "0", "WORLD_SIZE": "1"}}
    place["variables"]["SLACKTIDE_ATTEMPT"] = "4"  # type: ignore[index]
    (tmp_path / "rank-1.place").write_text(json.dumps(place))
    assert worker.resizing
    assert not worker.reform(), "it has not said that it can"
    assert worker.ready()
    assert worker.reform()
    assert (worker.rank, worker.world_size, worker.attempt) == (0, 1, 4)
    assert json.loads((tmp_path / "rank-1.taken").read_text()) == {"attempt": 4}
    assert not worker.resizing
    assert not worker.reform(0.0), "nobody says anything"


def test_who_has_re_formed_leaves_the_drafts_of_others_alone(
    worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that leaves may still be saving under the rank that another has now."""
    monkeypatch.setenv("SLACKTIDE_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("SLACKTIDE_ATTEMPT", "4")
    drafts = [tmp_path / name for name in (".a.rank-0.draft.pt", ".a.rank-0.of-3.draft.pt")]
    for path in (*drafts, tmp_path / ".a.rank-0.of-5.draft.pt"):
        path.touch()
    monkeypatch.setenv("SLACKTIDE_REFORMED", "1")
    worker.save("b.pt", b"b")
    assert all(path.exists() for path in drafts)
    monkeypatch.delenv("SLACKTIDE_REFORMED")
    worker.save("b.pt", b"b")
    assert not any(path.exists() for path in drafts)
    assert (tmp_path / ".a.rank-0.of-5.draft.pt").exists(), "of a set that was made from this one"
