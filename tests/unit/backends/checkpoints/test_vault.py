"""Checkpoints in a store: whole, newest attempt first, and no more of them than needed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slacktide.backends.checkpoints.objects import Damaged, Objects
from slacktide.backends.checkpoints.vault import Fenced, Unsteady, Vault
from slacktide.core.errors import BackendError, InputError
from slacktide.files.store_url import open_store


def content(folder: Path) -> dict[str, bytes]:
    """What a folder holds, without our own note."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".slacktide")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def parts(store: Path, part: str) -> list[Path]:
    """The blobs or manifests of the job."""
    return sorted((store / "journal" / "job-1" / part).glob("*"))


class Interrupted(Vault):
    """One whose methods can be replaced, for what happens in between."""


def test_what_is_saved_is_loaded(vault: Vault, work: Path, tmp_path: Path) -> None:
    (work / "model.pt").chmod(0o600)
    os.utime(work / "model.pt", ns=(1, 10**18))
    saved = vault.save(work, 3, 0.25)
    assert (saved.attempt, saved.number, saved.done_share, saved.files, saved.copied_bytes) == (
        3,
        1,
        0.25,
        2,
        18,
    )
    loaded = vault.restore(tmp_path / "new" / "ckpt", 0)
    assert loaded is not None
    assert (loaded.attempt, loaded.number, loaded.done_share, loaded.files) == (3, 1, 0.25, 2)
    assert content(tmp_path / "new" / "ckpt") == content(work)
    assert (tmp_path / "new" / "ckpt" / "model.pt").stat().st_mtime_ns == 10**18


def test_an_empty_store_has_nothing(vault: Vault, work: Path) -> None:
    assert vault.latest() is None
    assert vault.restore(work, 0) is None
    assert content(work) == {"model.pt": b"weights 1", "deep/optimizer.pt": b"moments 1"}


def test_only_what_is_new_is_copied(vault: Vault, work: Path, store: Path) -> None:
    vault.save(work, 1, 0.1)
    assert vault.save(work, 1, 0.2).copied_bytes == 0
    (work / "model.pt").write_bytes(b"weights 22")
    (work / "again.pt").write_bytes(b"weights 22")
    saved = Vault(*open_store(f"file://{store}"), "journal", "job-1").save(work, 2, 0.3)  # another process
    assert (saved.number, saved.copied_bytes, saved.bytes) == (1, 10, 29)


def test_drafts_are_not_copied_and_hidden_files_are(vault: Vault, work: Path, tmp_path: Path) -> None:
    for name in ("a.tmp", ".model.rank-0.draft.pt", ".slacktide-x", ".metadata"):
        (work / name).write_text(name)
    (work / ".epoch-3.draft").mkdir()
    (work / ".epoch-3.draft" / "half.pt").write_text("half")
    os.mkfifo(work / "pipe")
    vault.save(work, 1, 0.5)
    vault.restore(tmp_path / "new", 0)
    assert sorted(content(tmp_path / "new")) == [".metadata", "deep/optimizer.pt", "model.pt"]


def test_links_inside_stay_links_and_others_are_refused(vault: Vault, work: Path, tmp_path: Path) -> None:
    os.symlink("model.pt", work / "last")
    os.symlink(work / "model.pt", work / "deep" / "last")
    vault.save(work, 1, 0.5)
    vault.restore(tmp_path / "new", 0)
    assert os.readlink(tmp_path / "new" / "last") == "model.pt"
    assert os.readlink(tmp_path / "new" / "deep" / "last") == "../model.pt"
    (tmp_path / "secret").write_text("not to be copied")
    os.symlink(tmp_path / "secret", work / "out")
    with pytest.raises(BackendError, match="must lead to files in it, got 'out'"):
        vault.save(work, 1, 0.6)


def test_the_folder_becomes_the_checkpoint_and_what_was_there_is_set_aside(vault: Vault, work: Path) -> None:
    vault.save(work, 1, 0.5)
    (work / "model.pt").write_bytes(b"spoiled")
    (work / "more.pt").write_bytes(b"more")
    vault.restore(work, 0)
    assert content(work) == {"model.pt": b"weights 1", "deep/optimizer.pt": b"moments 1"}
    assert content(work.with_name(".ckpt.slacktide-replaced"))["more.pt"] == b"more"


def test_a_folder_behind_a_link_is_replaced_behind_it(vault: Vault, work: Path, tmp_path: Path) -> None:
    os.symlink(work, tmp_path / "link")
    vault.save(tmp_path / "link", 1, 0.5)
    (work / "model.pt").unlink()
    vault.restore(tmp_path / "link", 0)
    assert (tmp_path / "link").is_symlink()
    assert (work / "model.pt").read_bytes() == b"weights 1"


def test_the_highest_attempt_wins_and_older_ones_are_fenced(vault: Vault, work: Path, tmp_path: Path) -> None:
    vault.save(work, 2, 0.5)
    vault.save(work, 2, 0.6)
    (work / "model.pt").write_bytes(b"weights 2")
    vault.save(work, 10, 0.3)
    (work / "model.pt").write_bytes(b"cut off")
    with pytest.raises(Fenced, match="got attempt 9 after attempt 10 has saved"):
        vault.save(work, 9, 0.9)
    loaded = vault.restore(tmp_path / "new", 0)
    assert loaded is not None
    assert (loaded.attempt, loaded.number, loaded.done_share) == (10, 1, 0.3)
    assert content(tmp_path / "new")["model.pt"] == b"weights 2"


def test_an_old_attempt_that_races_past_the_fence_changes_nothing(
    vault: Vault, work: Path, store: Path
) -> None:
    late = Interrupted(*open_store(f"file://{store}"), "journal", "job-1")
    vault.save(work, 1, 0.5)
    check = late._check_there

    def overtaken(files: Any) -> None:
        check(files)
        vault.save(work, 2, 0.4)

    late._next_number = lambda attempt: 2  # type: ignore[method-assign]
    late._check_there = overtaken  # type: ignore[method-assign]
    late.save(work, 1, 0.9)
    newest = vault.latest()
    assert newest is not None
    assert (newest.attempt, newest.done_share) == (2, 0.4)


def test_of_two_writers_with_one_number_more_work_counts(vault: Vault, work: Path, store: Path) -> None:
    for share in (0.4, 0.7, 0.5):
        other = Interrupted(*open_store(f"file://{store}"), "journal", "job-1")
        other._next_number = lambda attempt: 1  # type: ignore[method-assign]
        other.save(work, 1, share)
    newest = vault.latest()
    assert newest is not None
    assert newest.done_share == 0.7


def test_jobs_and_journals_do_not_meet(vault: Vault, work: Path, store: Path) -> None:
    vault.save(work, 1, 0.5)
    assert Vault(*open_store(f"file://{store}"), "journal", "job-2").latest() is None
    assert Vault(*open_store(f"file://{store}"), "other", "job-1").latest() is None
    with pytest.raises(InputError, match="a name in a store"):
        Vault(*open_store(f"file://{store}"), "journal", "../x")


def during(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Do something each time that a file was read for its hash."""
    calls = [0]
    digest = Objects.digest

    def told(self: Any, file: Any) -> str:
        found = digest(self, file)
        calls[0] += 1
        act(calls[0])
        return found

    monkeypatch.setattr(Objects, "digest", told)


def test_files_that_change_and_vanish_meanwhile(
    vault: Vault, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(call: int) -> None:
        if call <= 3:
            (work / "model.pt").write_bytes(b"weights" * call)
        if call == 4:
            (work / "deep" / "optimizer.pt").unlink()
            (work / "late.pt").write_bytes(b"late")

    during(monkeypatch, act)
    vault.save(work, 1, 0.5)
    vault.restore(tmp_path / "new", 0)
    assert content(tmp_path / "new") == content(work) == {"model.pt": b"weights" * 3, "late.pt": b"late"}


def test_a_folder_that_never_keeps_still_leaves_the_old_checkpoint(
    vault: Vault, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.save(work, 1, 0.5)
    (work / "model.pt").write_bytes(b"0")

    def grow(call: int) -> None:
        (work / "model.pt").write_bytes(b"x" * call)

    during(monkeypatch, grow)
    with pytest.raises(Unsteady, match="must not change while it is copied"):
        vault.save(work, 1, 0.6)
    newest = vault.latest()
    assert newest is not None
    assert newest.done_share == 0.5


def test_an_empty_folder_is_no_checkpoint(vault: Vault, work: Path) -> None:
    vault.save(work, 1, 0.5)
    shutil.rmtree(work)
    with pytest.raises(FileNotFoundError):
        vault.save(work, 1, 0.6)
    work.mkdir()
    with pytest.raises(BackendError, match="must have files, got an empty folder"):
        vault.save(work, 1, 0.6)


@pytest.mark.parametrize("damage", ["other", "short", "gone"])
def test_damage_is_found_and_the_folder_stays(vault: Vault, work: Path, store: Path, damage: str) -> None:
    vault.save(work, 1, 0.5)
    blob = parts(store, "blobs")[0]
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_bytes(b"x" * blob.stat().st_size if damage == "other" else b"x")
    (work / "model.pt").write_bytes(b"mine")
    with pytest.raises(Damaged, match="must be"):
        vault.restore(work, 0)
    assert content(work)["model.pt"] == b"mine"


def test_a_lost_blob_is_copied_again_by_the_next_save(
    vault: Vault, work: Path, store: Path, tmp_path: Path
) -> None:
    vault.save(work, 1, 0.5)
    parts(store, "blobs")[0].unlink()
    assert vault.save(work, 1, 0.6).copied_bytes == 9
    vault.restore(tmp_path / "new", 0)
    assert content(tmp_path / "new") == content(work)


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../out": 1}},
        {"files": {"/etc/x": 1}},
        {"files": {"a/../../x": 1}},
        {"files": {"a//x": 1}},
        {"links": {"last": "../../out"}},
        {"links": {"last": "/etc"}},
        {"links": {"way": "deep"}, "files": {"way/x": 1}},
        {"format": 2},
        {"job": "another"},
        {"done_share": "NaN"},
    ],
)
def test_a_manifest_of_somebody_else_writes_nothing(
    vault: Vault, work: Path, store: Path, change: dict[str, Any]
) -> None:
    vault.save(work, 1, 0.5)
    path = parts(store, "manifests")[0]
    fact = json.loads(path.read_text())
    stored = next(iter(fact["files"].values()))
    if "files" in change:
        change = {**change, "files": dict.fromkeys(change["files"], stored)}
    path.write_text(json.dumps({**fact, **change}))
    before = content(work.parent)
    with pytest.raises(Damaged):
        vault.restore(work, 0)
    assert content(work.parent) == before


def test_a_manifest_that_cannot_be_read_is_told_and_saved_over(vault: Vault, work: Path, store: Path) -> None:
    vault.save(work, 1, 0.5)
    parts(store, "manifests")[0].write_text("{")
    with pytest.raises(Damaged, match="remove it to continue from the checkpoint before it"):
        vault.latest()
    vault.save(work, 1, 0.6)
    newest = vault.latest()
    assert newest is not None
    assert (newest.number, newest.done_share) == (2, 0.6)


def test_retention_keeps_the_newest_and_what_is_young(vault: Vault, work: Path, store: Path) -> None:
    for step in range(5):
        (work / "model.pt").write_bytes(f"weights {step}".encode())
        vault.save(work, 1, step / 10)
    assert vault.retain(2) == 0
    names = [path.name[:13] for path in parts(store, "manifests") if path.suffix == ".json"]
    assert names == ["000001-000004", "000001-000005"]
    assert len(parts(store, "blobs")) == 6
    age(store, hours=2)
    (work / "model.pt").write_bytes(b"weights 5")
    vault.save(work, 2, 0.6)
    assert vault.retain(2) == 3
    assert len(parts(store, "manifests")) == 3  # the one that was retired just now goes an hour later
    assert len(parts(store, "blobs")) == 4
    vault.restore(work, 0)
    assert content(work)["model.pt"] == b"weights 5"


def age(store: Path, hours: float) -> None:
    """Let everything in a store be older."""
    for path in [*parts(store, "blobs"), *parts(store, "manifests")]:
        then = path.stat().st_mtime - hours * 3600
        os.utime(path, (then, then))


def test_a_blob_that_a_save_under_way_builds_on_is_not_removed(vault: Vault, work: Path, store: Path) -> None:
    """A new attempt is about to name an old blob while the old attempt saves on and tidies up."""
    vault.save(work, 1, 0.1)
    age(store, hours=5)
    new = Interrupted(*open_store(f"file://{store}"), "journal", "job-1")
    check = new._check_there

    def meanwhile(files: Any) -> None:
        check(files)
        other = work.parent / "other"
        other.mkdir()
        for step in range(3):
            (other / "model.pt").write_text(f"else {step}")
            vault.save(other, 1, 0.2)
            vault.retain(1)

    new._check_there = meanwhile  # type: ignore[method-assign]
    new.save(work, 2, 0.1)
    before = content(work)
    shutil.rmtree(work)
    loaded = vault.restore(work, 0)
    assert loaded is not None
    assert loaded.attempt == 2
    assert content(work) == before


def test_a_folder_that_has_the_checkpoint_is_left_alone(vault: Vault, work: Path, store: Path) -> None:
    assert vault.restore(work, 1) is None
    vault.save(work, 1, 0.5)
    (work / "model.pt").write_bytes(b"not saved yet")
    loaded = vault.restore(work, 2)
    assert loaded is not None
    assert not loaded.copied
    assert content(work)["model.pt"] == b"not saved yet"
    shutil.rmtree(work)
    loaded = vault.restore(work, 3)
    assert loaded is not None
    assert loaded.copied
    assert content(work)["model.pt"] == b"weights 1"
    for path in work.iterdir():  # as `rm -rf ckpt/*` does, which leaves our note
        if path.is_file() and not path.name.startswith("."):
            path.unlink()
    shutil.rmtree(work / "deep")
    assert (vault.restore(work, 4) or loaded)._replace(copied=True) == loaded
    assert content(work)["model.pt"] == b"weights 1"


def test_a_folder_of_an_older_attempt_or_another_job_is_brought_up_to_date(
    vault: Vault, work: Path, store: Path, tmp_path: Path
) -> None:
    here, there = work, tmp_path / "there"
    vault.restore(here, 1)
    vault.save(here, 1, 0.2)
    vault.restore(there, 2)  # on another machine
    (there / "model.pt").write_bytes(b"weights 2")
    vault.save(there, 2, 0.4)
    loaded = vault.restore(here, 3)
    assert loaded is not None
    assert (loaded.copied, loaded.done_share) == (True, 0.4)
    assert content(here) == content(there)
    other = Vault(*open_store(f"file://{store}"), "journal", "job-2")
    other.save(there, 1, 0.9)
    loaded = other.restore(here, 2)
    assert loaded is not None
    assert loaded.copied
