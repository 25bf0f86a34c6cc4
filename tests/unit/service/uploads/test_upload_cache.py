"""Files that wait on a server: room for whoever sends little, whatever others send."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slacktide.core.errors import BackendError
from slacktide.service.uploads.uploads import STALE_S, UploadCache

SIZE = 100


@pytest.fixture
def cache(tmp_path: Path) -> UploadCache:
    """A cache with room for four files of the largest size."""
    return UploadCache(
        folder=tmp_path / "cache", what="files", most_bytes=SIZE, most_kept_bytes=4 * SIZE, kept_s=3600.0
    )


def send(cache: UploadCache, sender: str, content: bytes) -> str:
    """Send a file, and return its digest."""
    draft, digest = cache.draft(), hashlib.sha256(content).hexdigest()
    draft.write_bytes(content)
    cache.keep(draft, digest, digest, sender)
    return digest


def age(cache: UploadCache, digest: str, by_s: float) -> None:
    """Have a file be older than it is."""
    path = cache.path(digest)
    os.utime(path, times=(path.stat().st_mtime - by_s,) * 2)


def test_who_sends_much_loses_its_own_oldest_files_and_nobody_else_does(cache: UploadCache) -> None:
    ann = send(cache, "ann", b"a" * SIZE)
    age(cache, ann, 1000.0)
    bob = [send(cache, "bob", bytes([number]) * SIZE) for number in range(10)]
    for number, digest in enumerate(bob):
        assert cache.has(digest) == (number >= 7), "those that were sent last are there"
    assert cache.has(ann), "although it is older than any of them"


def test_what_is_asked_for_stays_longer(cache: UploadCache) -> None:
    first, second = (send(cache, "ann", content) for content in (b"1", b"2"))
    for digest in (first, second):
        age(cache, digest, 3000.0)
    now_s = cache.path(first).stat().st_mtime + 3601.0
    assert cache.has(first)
    cache.tidy(now_s)
    assert [cache.path(one).is_file() for one in (first, second)] == [True, False]


def test_files_that_come_at_the_same_time_are_given_room_for_the_largest(cache: UploadCache) -> None:
    drafts = [cache.draft() for _ in range(4)]
    with pytest.raises(BackendError, match="come at the same time"):
        cache.draft()
    os.utime(drafts[0], times=(drafts[0].stat().st_mtime - STALE_S - 60.0,) * 2)
    assert cache.draft().is_file(), "one that was left behind makes room"


def test_many_may_come_and_go_at_once(cache: UploadCache) -> None:
    def come_and_go(number: int) -> None:
        for turn in range(40):
            draft = cache.draft()
            draft.write_bytes(b"x")
            if turn % 2:
                draft.unlink()
            else:
                content = f"{number} {turn}".encode()
                draft.write_bytes(content)
                digest = hashlib.sha256(content).hexdigest()
                cache.keep(draft, digest, digest, str(number))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(come_and_go, range(3)))
    assert sum(one.stat().st_size for one in cache.folder.iterdir()) <= 4 * SIZE
