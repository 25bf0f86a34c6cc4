"""Two people with tokens of their own share one server, each with settings and folders of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.app.tokens import tokens_of
from slacktide.cli import run

from .parts_of_servers import Server

Be = Callable[[str], None]
JOB = """\
name: {name}-job
owner: {name}
run: sh say.sh
resources: {{accelerators: "H100:1"}}
work: 1 gpu-hours
deadline: 300h
policy: on-demand
secrets: {{KEY: }}
"""


@pytest.fixture
def be(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Be:
    """Let the command line be somebody's: ann and bob may submit, eve may read."""
    monkeypatch.delenv("SLACKTIDE_JOURNAL")
    monkeypatch.delenv("SLACKTIDE_CONFIG")
    for name, role in (("ann", "submit"), ("bob", "submit"), ("eve", "read")):
        token = tokens_of(server.journal).add(name, role)
        settings = tmp_path / name / "config" / "slacktide"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text(
            f'server = "{server.url}"\ntoken = "{token}"\n', encoding="utf-8"
        )
        (settings / "config.toml").chmod(0o600)
        work = tmp_path / name / "work"
        work.mkdir()
        (work / "say.sh").write_text(f'test "$KEY" = of-{name} && echo hello of {name}\n', encoding="utf-8")
        (work / "job.yaml").write_text(JOB.format(name=name), encoding="utf-8")

    def become(name: str) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / name))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name / "config"))
        monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / name / "state"))
        monkeypatch.setenv("KEY", f"of-{name}")
        monkeypatch.chdir(tmp_path / name / "work")

    return become


def test_two_people_share_a_server(
    server: Server, be: Be, capsys: pytest.CaptureFixture[str], journal: Path
) -> None:
    for name in ("ann", "bob"):
        be(name)
        assert run(["submit", "job.yaml"]) == 0
        assert run(["logs", "-f", f"{name}-job"]) == 0
        assert f"hello of {name}" in capsys.readouterr().out
    for name, other in (("ann", "bob"), ("bob", "ann")):
        be(name)
        assert names(capsys) == ["ann-job", "bob-job"]
        assert names(capsys, "--owner", name) == [f"{name}-job"]
        assert f"of-{other}" not in all_told(capsys, f"{other}-job")
    be("eve")
    assert names(capsys) == ["ann-job", "bob-job"]
    for command in (
        ["submit", "job.yaml"],
        ["run", "job.yaml"],
        ["cancel", "ann-job"],
        ["preempt", "bob-job"],
    ):
        assert run(command) == 2
        assert "needs a token with the role submit" in capsys.readouterr().err
    assert server.stop() == 0
    assert b"of-ann" not in journal.read_bytes()


def names(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """List the names of the jobs that the command line shows."""
    assert run(["jobs", "-o", "json", *options]) == 0
    return [one["name"] for one in json.loads(capsys.readouterr().out)["jobs"]]


def all_told(capsys: pytest.CaptureFixture[str], job: str) -> str:
    """Return all that anybody is told of a job."""
    for command in (["events", job, "-o", "json"], ["why", job], ["cost", job, "-o", "json"], ["logs", job]):
        assert run(command) == 0
    return capsys.readouterr().out
