"""The page about workers names every variable that they are given."""

from __future__ import annotations

from pathlib import Path

from slacktide.backends.base import LaunchSpec
from slacktide.backends.workers.environment import job_variables, note_variables, rank_variables
from slacktide.backends.workers.job_folder import Intent, KeptRank
from slacktide.backends.workers.launch import Launch

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "worker.md"


def test_every_variable_of_a_worker_is_documented(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    spec = LaunchSpec(job="j", run="true", grace_s=1.0)
    launch = Launch(spec=spec, workdir=tmp_path, checkpoint_dir=tmp_path)
    intent = Intent(
        attempt=1, kinds=("spot",), master_port=1, devices=("0",), grace_s=1.0, kept=(KeptRank(0, 1, 0),)
    )
    given = {**job_variables({}, launch, tmp_path / "progress"), **rank_variables(intent, 0)}
    given |= note_variables(intent, tmp_path / "rank-0")
    assert "SLACKTIDE_ADDED" in given
    assert not [name for name in given if f"`{name}`" not in text]
    assert "`SLACKTIDE_WORKER`" in text
