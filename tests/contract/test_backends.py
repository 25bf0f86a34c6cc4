"""Every back end keeps the contract."""

from __future__ import annotations

from pathlib import Path

from slacktide.backend.local.holding import Local
from slacktide.backend.replay import Replay
from slacktide.checks.backend import check_backend


def test_replay_keeps_the_contract() -> None:
    check_backend(Replay)


def test_local_processes_keep_the_contract(tmp_path: Path) -> None:
    numbers = iter(range(100))

    def make() -> Local:
        return Local(tmp_path / str(next(numbers)), f"check-{tmp_path.name}", speed=1.0, notice_s=0.0)

    check_backend(make)
