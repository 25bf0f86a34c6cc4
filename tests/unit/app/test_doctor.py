"""`slacktide doctor` says what is there, what is missing, and what to do; never a secret."""

from __future__ import annotations

import json
import socket
import sys
import tomllib
from pathlib import Path

import pytest

from slacktide.app.setup import doctor
from slacktide.app.setup.doctor import EXTRAS, Finding, examine
from slacktide.cli import run

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, without credentials and settings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    others = ("AWS_SHARED_CREDENTIALS_FILE", "SLACKTIDE_JOURNAL", "SLACKTIDE_PROFILE")
    for name in (*doctor.AWS_VARIABLES, *others):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def found(name: str) -> Finding:
    """Return what was found of one thing."""
    return next(one for one in examine() if one.name == name)


def test_a_machine_that_can_run_slacktide_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert "python" in capsys.readouterr().out
    assert run(["doctor", "-o", "json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {"python", "journal", "disk space", "cache", "clock", "settings", "port"} <= {
        one["name"] for one in findings
    }
    assert all(one["state"] == "ok" or one["remedy"] for one in findings)


def test_an_old_python_is_missing_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (sys.version_info[0] + 1, 0))
    assert run(["doctor"]) == 1
    assert "or newer" in capsys.readouterr().out


def test_extras_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"])
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert found("extra serve").state == "optional"
    assert found("extra serve").remedy == "pip install 'slacktide[serve]', for `slacktide serve`"


def test_credentials_are_named_and_never_read(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("aws credentials").state == "optional"
    (machine / ".aws").mkdir()
    (machine / ".aws" / "credentials").write_text("hush")
    assert found("aws credentials").found == f"present ({machine}/.aws/credentials)"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hush")
    assert found("aws credentials").found == "present (AWS_ACCESS_KEY_ID)"
    assert "hush" not in str(examine())


def test_a_mistake_in_settings_is_found(machine: Path) -> None:
    (machine / "slacktide.toml").write_text("jurnal = 'x'\n")
    assert found("settings").state == "missing"
    assert "slacktide.toml:1: " in found("settings").found
    assert run(["doctor"]) == 1


def test_a_port_that_is_taken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        monkeypatch.setattr(doctor, "PORT", door.getsockname()[1])
        assert found("port").state == "optional"
        assert "--port" in found("port").remedy


def test_a_full_disk_and_a_wrong_clock_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_FREE_GB", 1e12)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert found("disk space").state == "missing"
    assert found("clock").state == "missing"
