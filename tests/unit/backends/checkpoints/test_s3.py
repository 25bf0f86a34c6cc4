"""The same on an S3 store: a moto server on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from slacktide.backends.checkpoints.vault import Fenced, Vault
from slacktide.files.store_url import open_store


def test_an_s3_store_keeps_checkpoints(s3_url: str, work: Path, tmp_path: Path) -> None:
    vault = Vault(*open_store(s3_url), "journal", "job-1")
    assert vault.latest() is None
    for step in range(4):
        (work / "model.pt").write_bytes(f"weights {step}".encode())
        vault.save(work, 1, step / 10)
    vault.kept_s = 0.0
    assert vault.retain(2) >= 0
    assert vault.retain(2) >= 1
    vault.save(work, 2, 0.3)
    with pytest.raises(Fenced):
        vault.save(work, 1, 0.9)
    loaded = vault.restore(tmp_path / "new", 0)
    assert loaded is not None
    assert (loaded.attempt, loaded.number, loaded.done_share) == (2, 1, 0.3)
    assert (tmp_path / "new" / "model.pt").read_bytes() == b"weights 3"
    assert (tmp_path / "new" / "deep" / "optimizer.pt").read_bytes() == b"moments 1"


def test_twenty_megabytes_go_there_and_back(s3_url: str, tmp_path: Path) -> None:
    """Figures: run with -s to see them."""
    (tmp_path / "ckpt").mkdir()
    for name in ("a.pt", "b.pt"):
        (tmp_path / "ckpt" / name).write_bytes(os.urandom(10 << 20))
    vault = Vault(*open_store(s3_url), "journal", "job-1")
    laps = [time.perf_counter()]
    acts: list[Callable[[], object]] = [
        lambda: vault.save(tmp_path / "ckpt", 1, 0.5),
        lambda: vault.save(tmp_path / "ckpt", 1, 0.6),
        lambda: vault.restore(tmp_path / "new", 0),
    ]
    for act in acts:
        act()
        laps.append(time.perf_counter())
    saved, unchanged, loaded = (after - before for before, after in pairwise(laps))
    print(f"20 MB on S3 (moto): saved {saved:.2f} s, unchanged {unchanged:.2f} s, loaded {loaded:.2f} s")
    for name in ("a.pt", "b.pt"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "ckpt" / name).read_bytes()


def test_a_bucket_that_is_not_there_is_told(s3_url: str, work: Path) -> None:
    vault = Vault(*open_store(s3_url.replace("bucket", "nobodys")), "journal", "job-1")
    with pytest.raises(OSError, match="nobodys"):
        vault.save(work, 1, 0.5)
