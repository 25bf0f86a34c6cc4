"""`slacktide config`, and settings as the defaults of commands."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from slacktide.cli import run, slacktide
from slacktide.cli.shared.options import market_spec


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, which is not there yet."""
    monkeypatch.setenv("SLACKTIDE_CONFIG", str(tmp_path / "config.toml"))
    for name in ("JOURNAL", "SERVER", "TOKEN", "PROFILE"):
        monkeypatch.delenv(f"SLACKTIDE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config.toml"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What a command `try` is given, which has the options that settings know and one of its own."""
    got: dict[str, object] = {}

    @click.command(name="try")
    @click.option("--journal", envvar="SLACKTIDE_JOURNAL")
    @click.option("--market")
    @click.option("--spot-usd", type=float)
    @click.option("--starts", type=int, multiple=True)
    @click.option("-y", "--yes", is_flag=True)
    def attempt(**given: object) -> None:
        got.update(given)
        spec = market_spec(dict.fromkeys(("pool", "slot_hours", "gaps", "on_demand_usd")) | given)
        got["source"], got["usual"] = spec.source, spec.usual

    found = type(slacktide).get_command
    monkeypatch.setattr(
        type(slacktide),
        "get_command",
        lambda self, ctx, name: attempt if name == "try" else found(self, ctx, name),
    )
    monkeypatch.setattr(type(slacktide), "list_commands", lambda self, ctx: ["jobs", "token", "try"])
    return got


def test_flag_before_environment_before_profile_before_file(
    user: Path, seen: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text('journal = "u"\n[profiles.lab]\njournal = "p"\n')
    assert run(["try"]) == 0
    assert seen["journal"] == str(user.parent / "u")
    monkeypatch.setenv("SLACKTIDE_PROFILE", "lab")
    assert run(["try"]) == 0
    assert seen["journal"] == str(user.parent / "p")
    monkeypatch.setenv("SLACKTIDE_JOURNAL", "e")
    assert run(["try"]) == 0
    assert seen["journal"] == "e"
    assert run(["try", "--journal", "f"]) == 0
    assert seen["journal"] == "f"


def test_defaults_of_options_are_used(user: Path, seen: dict[str, object]) -> None:
    user.write_text("spot_usd = 2\n[defaults.try]\nspot-usd = 3\nstarts = 4\n")
    assert run(["try"]) == 0
    assert (seen["spot_usd"], seen["starts"]) == (3.0, (4,))
    assert run(["try", "--starts", "5"]) == 0
    assert seen["starts"] == (5,)


def test_a_market_of_the_settings_is_for_jobs_that_name_none(user: Path, seen: dict[str, object]) -> None:
    user.write_text('market = "synthetic:h100"\n')
    assert run(["try"]) == 0
    assert (seen["source"], seen["usual"]) == (None, "synthetic:h100")
    assert run(["try", "--market", "synthetic:a100"]) == 0
    assert (seen["source"], seen["usual"]) == ("synthetic:a100", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[defaults.tri]\nx = 1\n", ":1: a command in defaults must be one of the known names"),
        ("[defaults.try]\nstart = 1\n", ":2: an option of `try` must be one of the known names, got 'start'"),
        ('[defaults.try]\nstarts = "x"\n', ":2: defaults.try.starts: 'x' is not a valid integer"),
        ("[defaults.try]\nstarts = 2026-01-01\n", ":2: defaults.try.starts must be a text, a number"),
        ("[defaults.token.ad]\nrole = 'read'\n", ":1: a command of `token` must be one of"),
    ],
)  # fmt: skip
def test_mistakes_in_defaults_are_told_with_their_line(
    user: Path, seen: dict[str, object], text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.write_text(text)
    assert run(["token", "list"] if "token" in text else ["try"]) == 2
    assert said in capsys.readouterr().err
    assert run(["config"]) == 2, "it is found without the command that it is for"


def test_a_project_cannot_answer_for_its_user(
    user: Path, seen: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    (user.parent / "slacktide.toml").write_text("[defaults.try]\nyes = true\n")
    assert run(["try"]) == 2
    assert "must not be in a project's file" in capsys.readouterr().err


def test_a_project_cannot_have_code_run(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (user.parent / "slacktide.toml").write_text("[defaults.policies]\ncheck = 'trap:Trap'\n")
    assert run(["policies"]) == 2
    assert "must not name a class in a project's file" in capsys.readouterr().err


def test_help_reads_no_settings(user: Path) -> None:
    user.write_text("nonsense")
    assert run(["--help"]) == 0
    assert run(["jobs", "--help"]) == 0
    assert run(["jobs"]) == 2


def test_the_stronger_of_journal_and_server_is_meant(
    user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    user.write_text('server = "http://127.0.0.1:1"\n')
    assert run(["jobs"]) == 2
    assert "must be used with a token" in capsys.readouterr().err
    monkeypatch.setenv("SLACKTIDE_JOURNAL", "none.db")
    assert run(["jobs"]) == 2
    assert "there must be a journal" in capsys.readouterr().err


def test_every_value_is_shown_with_its_place(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "set", "token", "ann:hush"]) == 0
    assert run(["--profile", "lab", "config", "set", "spot_usd", "2.5"]) == 0
    assert run(["config", "set", "--project", "defaults.token.add.role", "submit"]) == 0
    capsys.readouterr()
    assert run(["--profile", "lab", "config", "-o", "json"]) == 0
    said = capsys.readouterr().out
    assert "hush" not in said
    found = json.loads(said)
    rows = {row["key"]: row for row in found["values"]}
    assert found["profile"] == "lab"
    assert rows["profile"]["source"] == "flag"
    assert rows["market"]["source"] == "built in"
    spot = {"value": 2.5, "source": "user", "file": str(user), "line": 4, "profile": "lab"}
    assert rows["spot_usd"] == {"key": "spot_usd", **spot}
    assert rows["defaults.token.add.role"]["file"] == str(user.parent / "slacktide.toml")
    assert run(["config"]) == 0
    assert "(not shown)" in capsys.readouterr().out
    assert run(["config", "path"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(user), str(user.parent / "slacktide.toml")]


def test_paths_on_the_command_line_are_meant_from_the_working_folder(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user.parent / "slacktide.toml").touch()
    (user.parent / "deep").mkdir()
    monkeypatch.chdir(user.parent / "deep")
    assert run(["config", "set", "journal", "mine.db"]) == 0
    assert run(["config", "set", "--project", "journal", "ours.db"]) == 0
    assert user.read_text() == f'journal = "{user.parent}/deep/mine.db"\n'
    assert (user.parent / "slacktide.toml").read_text() == 'journal = "deep/ours.db"\n'


@pytest.mark.parametrize("key", ["jurnal", "journal.x", "defaults", "defaults.jobs", "defaults.jobs.outpt"])
def test_a_key_that_is_not_there_is_not_set(user: Path, key: str) -> None:
    assert run(["config", "set", key, "x"]) == 2
    assert not user.exists()


def test_a_default_that_its_option_cannot_have_is_not_set(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "set", "defaults.jobs.output", "xml"]) == 2
    assert "defaults.jobs.output: 'xml' is not one of 'table', 'json'" in capsys.readouterr().err
    assert not user.exists()
    assert run(["config", "set", "defaults.jobs.output", "json"]) == 0


@pytest.mark.parametrize("mend", [["set", "spot_usd", "2"], ["unset", "spot_usd"]])
def test_a_wrong_value_in_a_file_can_be_mended(user: Path, mend: list[str]) -> None:
    user.write_text('# mine\nspot_usd = "x"\n')
    assert run(["config", "set", "market", "m"]) == 2, "which would leave a wrong file"
    assert run(["config", *mend]) == 0
    assert run(["config"]) == 0
    assert user.read_text().startswith("# mine\n")


def test_what_was_set_can_be_removed(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "set", "market", "synthetic:h100"]) == 0
    assert run(["--profile", "lab", "config", "set", "spot_usd", "2.5"]) == 0
    assert run(["config", "unset", "spot_usd"]) == 2
    assert "must be set in this file" in capsys.readouterr().err
    assert run(["--profile", "lab", "config", "unset", "spot_usd"]) == 0
    assert run(["config", "unset", "market"]) == 0
    assert user.read_text() == "\n[profiles.lab]\n"
