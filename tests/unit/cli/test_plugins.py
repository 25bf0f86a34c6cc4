"""Commands of other packages: found by their entry points, listed with their sentence, broken ones told."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import click
import pytest

from slacktide.cli import COMMANDS, GROUP, run


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a command, one without, one that cannot be imported, and one named as ours."""

    @click.command(short_help="Say hello, as a plug-in would.")
    def greet() -> None:
        click.echo("hello")

    module = ModuleType("greeting")
    module.greet = greet  # type: ignore[attr-defined]
    module.nothing = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "greeting", module)
    found = {
        "greet": "greeting:greet",
        "nothing": "greeting:nothing",
        "gone": "not_there:gone",
        "plan": "greeting:greet",
    }
    entries = [EntryPoint(name, value, GROUP) for name, value in found.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries if group == GROUP else [])


@pytest.mark.usefixtures("installed")
def test_a_plug_in_runs_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["greet"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert run(["--help"]) == 0
    assert "Say hello, as a plug-in would." in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "said"), [("nothing", "must be a click command, got int"), ("gone", "ModuleNotFoundError")]
)
def test_a_broken_plug_in_is_told_and_the_rest_goes_on(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name]) == 2
    assert said in capsys.readouterr().err
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    assert f"{name!r} of entry-point group" in " ".join(listed.split())
    assert all(f"\n  {ours} " in listed for ours in COMMANDS)


@pytest.mark.usefixtures("installed")
def test_our_own_commands_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--help"]) == 0
    assert "what JOB would cost" in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
def test_an_unknown_command_is_guessed_among_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gret"]) == 2
    assert "did you mean 'greet'?" in capsys.readouterr().err
