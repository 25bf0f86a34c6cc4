"""A job file becomes what a back end needs, and secrets stay out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.core.errors import InputError
from slacktide.engine.job.launch_spec import launch_of, secrets_of
from slacktide.files.job import parse_job
from slacktide.files.rewrite import without_secrets

TEXT = """\
name: one
run: python train.py
setup: pip list
workdir: code
envs: {SIZE: "3", FROM_HERE: }
secrets: {TOKEN: hush, KEY: }
resources: {accelerators: "H100:1..4"}
work: 8 gpu-hours
deadline: 6h
checkpoint: {dir: saved, grace: 20s}
"""


def test_paths_are_meant_from_the_files_folder(tmp_path: Path) -> None:
    launch = launch_of("one-2", parse_job(TEXT, path=str(tmp_path / "job.yaml")))
    assert launch.job == "one-2"
    assert (launch.run, launch.setup, launch.grace_s) == ("python train.py", "pip list", 20.0)
    assert (launch.workdir, launch.checkpoint_dir) == (str(tmp_path / "code"), str(tmp_path / "saved"))
    assert launch.env == {"SIZE": "3"}


def test_secrets_are_named_and_their_values_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "where the controller is")
    monkeypatch.setenv("KEY", "from outside")
    path = tmp_path / "job.yaml"
    path.write_text(TEXT, encoding="utf-8")
    kept = parse_job(without_secrets(TEXT), path=str(path))
    launch = launch_of("one", kept)
    assert launch.secrets == ("FROM_HERE", "TOKEN", "KEY")
    assert "hush" not in repr(launch)
    assert secrets_of(kept, {"FROM_HERE": "yes"}) == {
        "FROM_HERE": "yes",
        "TOKEN": "hush",
        "KEY": "from outside",
    }


def test_what_has_no_value_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY", raising=False)
    file = parse_job(TEXT, path=str(tmp_path / "job.yaml"))
    with pytest.raises(InputError, match="variable FROM_HERE must have the value that it had"):
        secrets_of(file, {})
    with pytest.raises(InputError, match="secret KEY must have a value"):
        secrets_of(file, {"FROM_HERE": "yes"})


def test_a_job_without_a_file_has_nothing_to_start() -> None:
    assert launch_of("one", None).run == ""
    assert secrets_of(None, {}) == {}
