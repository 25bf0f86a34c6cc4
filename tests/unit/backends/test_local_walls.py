"""A job gets what it declares: not the controller's variables, not another job's secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Stage

CANARY = "canary-of-the-controller"
SHOW = "env -0 > $NAME.part && mv $NAME.part $NAME; exec sleep 1000"


def declared(path: Path) -> dict[str, str]:
    entries = path.read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def test_jobs_see_neither_the_controllers_environment_nor_each_others_secrets(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("SECOND_TOKEN", CANARY)
    stage.register(SHOW, env={"NAME": "first"}, secrets={"FIRST_TOKEN": "hush-1"}, setup="env -0 > setup.env")
    stage.register(SHOW, "other", env={"NAME": "second"}, secrets={"SECOND_TOKEN": "hush-2"})
    stage.hold(1, ["spot"])
    stage.processes.hold("other", 1, ("spot",))
    stage.until(lambda: (stage.folder / "first").exists() and (stage.folder / "second").exists())
    first, second = (declared(stage.folder / name) for name in ("first", "second"))
    setup = declared(stage.folder / "setup.env")
    assert (first["FIRST_TOKEN"], setup["FIRST_TOKEN"], second["SECOND_TOKEN"]) == (
        "hush-1",
        "hush-1",
        "hush-2",
    )
    assert "SECOND_TOKEN" not in first
    assert "FIRST_TOKEN" not in second
    assert CANARY not in {*first.values(), *second.values(), *setup.values()}


def test_secrets_are_in_no_command_line_and_in_no_file(stage: Stage) -> None:
    stage.register(SHOW.replace("env -0", "true"), env={"NAME": "ready"}, secrets={"TOKEN": "hush-hush"})
    stage.hold(1, ["spot", "on-demand"])
    stage.until(lambda: (stage.folder / "ready").exists() and len(stage.marked()) >= 4)
    living = [seen.process.pid for seen in stage.marked()]
    assert not any(b"hush-hush" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living)
    files = [path for path in stage.folder.rglob("*") if path.is_file()]
    assert files
    assert not any(b"hush-hush" in path.read_bytes() for path in files)
