"""Settings files: which value holds, where it comes from, and to which server a token goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.settings.files import is_open_to_others, project_path, set_key, user_path
from slacktide.app.settings.settings import Settings, read_all, token_for
from slacktide.core.errors import FileError, InputError, UnknownNameError


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, which is not there yet; the working folder is below a project's."""
    monkeypatch.delenv("SLACKTIDE_CONFIG", raising=False)
    monkeypatch.delenv("SLACKTIDE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / "project" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep")
    (tmp_path / "xdg" / "slacktide").mkdir(parents=True)
    return tmp_path / "xdg" / "slacktide" / "config.toml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's file, which is not there yet."""
    return tmp_path / "project" / "slacktide.toml"


def value(settings: Settings, key: str) -> object:
    """Return what holds for a key."""
    found = settings.get(key)
    return None if found is None else found.value


def test_files_are_where_they_are_looked_for(
    user: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert user_path() == user
    assert project_path() is None
    project.write_text("")
    assert project_path() == project
    monkeypatch.setenv("SLACKTIDE_CONFIG", "/elsewhere.toml")
    assert user_path() == Path("/elsewhere.toml")


def test_a_folder_that_is_closed_to_this_account_has_no_settings(
    user: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo -u slacktide slacktide jobs` is started in root's own folder."""
    user.write_text("spot_usd = 1")
    project.write_text("spot_usd = 2")
    stat = os.stat

    def refused(path: Any, **more: Any) -> os.stat_result:
        if os.fspath(path).endswith(".toml"):
            raise PermissionError(13, "Permission denied")
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", refused)
    assert project_path() is None
    assert value(read_all(), "spot_usd") is None


def test_a_profile_comes_before_the_project_and_the_project_before_the_user(
    user: Path, project: Path
) -> None:
    user.write_text('market = "u"\nspot_usd = 1\non_demand_usd = 4\n[profiles.lab]\nmarket = "lab"\n')
    project.write_text('market = "p"\nspot_usd = 2\n')
    assert [value(read_all(), key) for key in ("market", "spot_usd", "on_demand_usd")] == ["p", 2.0, 4.0]
    chosen = read_all("lab").get("market")
    assert chosen is not None
    assert (chosen.value, chosen.path, chosen.line) == ("lab", user, 5)


def test_paths_are_meant_from_the_folder_of_their_file(user: Path, project: Path) -> None:
    project.write_text('journal = "team.db"\nmarket = "feed:m.csv,synthetic:h100"\n')
    (project.parent / "m.csv").write_text("")
    assert value(read_all(), "journal") == str(project.parent / "team.db")
    assert value(read_all(), "market") == f"feed:{project.parent}/m.csv,synthetic:h100"


def test_a_journal_hides_the_servers_of_weaker_tables(user: Path, project: Path) -> None:
    user.write_text('server = "http://u"\n')
    project.write_text('journal = "team.db"\n')
    assert value(read_all(), "server") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\njurnal = "x"\n', ":2: a key must be one of .* got 'jurnal'; did you mean 'journal'"),
        ("journal = 3\n", ":1: journal must be a text in quotes that is not empty, got 3"),
        ('server = "lab"\n', ":1: server must be http://HOST:PORT or https://HOST, got 'lab'"),
        ("spot_usd = -1\n", ":1: spot_usd must be a number of USD per GPU-hour >= 0, got -1"),
        ("spot_usd = true\n", ":1: spot_usd must be a number"),
        ("journal = \n", ":1:11: a settings file must be TOML"),
        ("[profiles]\nlab = 3\n", ":2: a profile must be a table, got 3"),
        ("[profiles.lab]\nprofile = 'x'\n", ":2: a key must be one of the known names, got 'profile'"),
        ("defaults = 3\n", ":1: defaults must be a table, got 3"),
        ("token = 'a:b'\ntoken_file = 'x'\n", ":2: a table must give the token in one way"),
        ("token = 'hush'\n", ":1: token must be a text in quotes as NAME:SECRET, got something"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(user: Path, text: str, said: str) -> None:
    user.write_text(text)
    with pytest.raises(FileError, match=said) as caught:
        read_all()
    assert "hush" not in str(caught.value)


def test_a_project_holds_no_token(user: Path, project: Path) -> None:
    project.write_text('token_command = "rm -rf ."\n')
    with pytest.raises(FileError, match="token_command must not be in a project's file"):
        read_all()


def test_a_profile_that_is_not_there_is_refused(user: Path) -> None:
    user.write_text('[profiles.lab]\njournal = "x"\n')
    with pytest.raises(UnknownNameError, match="did you mean 'lab'"):
        read_all("lb")


def test_a_token_that_others_may_read_is_warned_about(user: Path) -> None:
    set_key("user", user, ("token",), "ann:x")
    assert not is_open_to_others(user)
    assert not read_all().notes
    user.chmod(0o644)
    assert "must be readable by you alone" in read_all().notes[0]


def test_a_file_of_another_user_is_left_out(
    user: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text('journal = "trap.db"\n')
    monkeypatch.setattr("slacktide.app.settings.settings.is_foreign", lambda path: True)
    found = read_all()
    assert found.project is None
    assert "belongs to another user" in found.notes[0]


@pytest.mark.parametrize("way", ['token = "ann:1"', 'token_file = "t"', 'token_command = "echo ann:1"'])
def test_a_token_goes_to_the_server_of_its_table(user: Path, way: str) -> None:
    (user.parent / "t").write_text("ann:1\n")
    user.write_text(f'[profiles.lab]\nserver = "http://lab/"\n{way}\n')
    assert token_for("http://lab", read_all(), own_choice=True) == "ann:1"
    assert token_for("http://other", read_all("lab"), own_choice=True) == ""


def test_a_token_without_a_server_goes_to_any_that_the_user_names(user: Path) -> None:
    user.write_text('token = "ann:1"\n')
    assert token_for("http://any", read_all(), own_choice=True) == "ann:1"


def test_no_token_goes_to_a_server_that_only_a_project_names(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text('token = "ann:1"\n[profiles.lab]\nserver = "http://lab"\ntoken = "ann:2"\n')
    monkeypatch.setenv("SLACKTIDE_TOKEN", "ann:3")
    with pytest.raises(InputError, match="must be in your own file too"):
        token_for("http://trap", read_all(), own_choice=False)
    monkeypatch.delenv("SLACKTIDE_TOKEN")
    assert token_for("http://lab", read_all(), own_choice=False) == "ann:2"


@pytest.mark.parametrize(
    "way", ['token_file = "none"', 'token_command = "false"', 'token_command = "echo x"']
)
def test_a_token_that_does_not_come_is_told_with_its_line(user: Path, way: str) -> None:
    user.write_text(f"{way}\n")
    with pytest.raises(FileError, match=r"config.toml:1: token_\w+ must"):
        token_for("http://any", read_all(), own_choice=True)


def test_a_key_that_would_be_wrong_is_not_written(user: Path) -> None:
    set_key("user", user, ("journal",), "x.db")
    before = user.read_text()
    with pytest.raises(FileError, match="server must be http"):
        set_key("user", user, ("server",), "lab")
    assert user.read_text() == before
