"""Saves and loads in a child process: nothing blocks, and no kill tears anything."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slacktide.backends.checkpoints.stored import CopyResult, Mover
from slacktide.backends.checkpoints.vault import Vault
from slacktide.core.errors import InputError
from slacktide.files.store_url import open_store

LONG_S = 60.0


@pytest.fixture
def movers() -> Iterator[Callable[..., Mover]]:
    """Makes movers, and ends their children."""
    made: list[Mover] = []

    def make(url: str, **settings: float) -> Mover:
        made.append(Mover(url=url, owner="journal", job="job-1", **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for mover in made:
        mover.close()


def finished(mover: Mover, count: int = 1) -> list[CopyResult]:
    """Wait until a mover has said this much."""
    found: list[CopyResult] = []
    until = time.monotonic() + LONG_S
    while len(found) < count and time.monotonic() < until:
        found += mover.poll()
        time.sleep(0.01)
    return found


def test_a_save_and_a_load(movers: Callable[..., Mover], store: Path, work: Path, tmp_path: Path) -> None:
    mover = movers(f"file://{store}")
    began = time.monotonic()
    mover.load(work, 1)
    mover.save(work, 1, 0.5)
    assert time.monotonic() - began < 1.0
    assert mover.busy
    empty, done = finished(mover, 2)
    assert empty == CopyResult("load", 1)
    assert done.checkpoint is not None
    assert (done.kind, done.checkpoint.done_share, done.checkpoint.copied_bytes) == ("save", 0.5, 18)
    assert not mover.busy
    mover.load(tmp_path / "new", 2)
    (loaded,) = finished(mover)
    assert loaded.checkpoint is not None
    assert (loaded.checkpoint.done_share, loaded.checkpoint.copied) == (0.5, True)
    assert (tmp_path / "new" / "model.pt").read_bytes() == b"weights 1"


def test_the_newest_request_wins_while_one_runs(
    movers: Callable[..., Mover], store: Path, work: Path
) -> None:
    mover = movers(f"file://{store}")
    for share in (0.1, 0.2, 0.3, 0.4):
        mover.save(work, 1, share)
    found = finished(mover, 2)
    assert [one.checkpoint.done_share for one in found if one.checkpoint] == [0.1, 0.4]
    assert not mover.busy


def test_failures_are_told_and_the_next_request_is_served(
    movers: Callable[..., Mover], store: Path, work: Path
) -> None:
    mover = movers(f"file://{store}")
    store.rename(store.with_name("away"))
    mover.save(work, 2, 0.5)
    (failed,) = finished(mover)
    assert "must be a folder that exists" in failed.failure
    store.with_name("away").rename(store)
    mover.save(work, 2, 0.5)
    assert not finished(mover)[0].failure
    mover.save(work, 1, 0.9)
    (fenced,) = finished(mover)
    assert fenced.fenced
    with pytest.raises(InputError):
        movers("s3://key:secret@bucket")


def test_a_child_that_hangs_is_killed(movers: Callable[..., Mover], store: Path, work: Path) -> None:
    mover = movers(f"file://{store}", silent_s=1.0)
    os.mkfifo(store / "journal")  # listing it fails; opening what is below would not
    mover.save(work, 1, 0.5)
    finished(mover)
    assert mover.pid is not None
    os.kill(mover.pid, signal.SIGSTOP)
    mover.save(work, 1, 0.5)
    (failed,) = finished(mover)
    assert "it did nothing for" in failed.failure
    assert mover.pid is None
    (store / "journal").unlink()
    mover.save(work, 1, 0.5)
    assert not finished(mover)[0].failure


def test_the_child_ends_with_whoever_asked(movers: Callable[..., Mover], store: Path, work: Path) -> None:
    mover = movers(f"file://{store}")
    mover.save(work, 1, 0.5)
    finished(mover)
    pid = mover.pid
    assert pid is not None
    mover.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_kills_in_mid_save_tear_nothing(
    movers: Callable[..., Mover], store: Path, work: Path, tmp_path: Path
) -> None:
    chance = random.Random(7)
    mover = movers(f"file://{store}")
    saved = {0.0: b""}
    blobs, mid = store / "journal" / "job-1" / "blobs", 0
    for number in range(1, 9):
        share = number / 10
        saved[share] = chance.randbytes(12 << 20)
        (work / "model.pt").write_bytes(saved[share])
        mover.save(work, 1, share)
        _wait_for_a_blob(blobs)
        time.sleep(chance.uniform(0.0, 0.02))
        assert mover.pid is not None
        os.kill(mover.pid, signal.SIGKILL)
        (said,) = finished(mover)
        while mover.pid is not None:  # it may have answered before it died
            mover.poll()
        mid += bool(said.failure)
        newest = Vault(*open_store(f"file://{store}"), "journal", "job-1").restore(tmp_path / "new", 0)
        if newest is not None:
            assert (tmp_path / "new" / "model.pt").read_bytes() == saved[newest.done_share]
        assert said.failure or (newest is not None and newest.done_share == share)
    assert mid  # the others had just been saved
    mover.save(work, 1, 0.9)
    assert not finished(mover)[0].failure


def _wait_for_a_blob(folder: Path) -> None:
    """Wait until one more is being written."""
    seen, limit = len(list(folder.glob("*"))), time.monotonic() + LONG_S
    while len(list(folder.glob("*"))) <= seen and time.monotonic() < limit:
        time.sleep(0.001)


def test_the_child_takes_credentials_from_its_environment(s3_url: str, work: Path) -> None:
    mover = Mover(url=s3_url, owner="journal", job="job-1", env={"AWS_ACCESS_KEY_ID": "other"})
    try:
        mover.save(work, 1, 0.5)
        (done,) = finished(mover)
        assert not done.failure
        assert "other" not in repr(mover)
    finally:
        mover.close()
