"""The settings that apply to a command, and where each value comes from.

The order, the strongest first: flag, environment, the chosen profile, project file, user's file, built in.
A profile may be in both files; then the project's comes first.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slacktide.app.settings.files import (
    DEFAULTS,
    KEYS,
    PATHS,
    PROFILE,
    TOKEN_KEYS,
    SettingsFile,
    SettingsTable,
    is_foreign,
    is_open_to_others,
    is_seen,
    project_path,
    read_settings,
    unreadable,
    user_path,
)
from slacktide.core.errors import FileError, InputError, UnknownNameError, shown

PROFILE_VARIABLE = "SLACKTIDE_PROFILE"
TOKEN_COMMAND_S = 60.0  # how long a command that prints a token may take: it may prompt for a passphrase


class SettingInFile(NamedTuple):
    """A value, and the table that it is from."""

    value: Any
    table: SettingsTable
    names: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.table.file.path

    @property
    def line(self) -> int | None:
        return self.table.line(*self.names)

    def error(self, message: str) -> FileError:
        """Return an error about it that names its file and line."""
        return FileError(message, path=self.path, line=self.line)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all files together."""

    project: SettingsFile | None
    user: SettingsFile | None
    profile: str = ""  # the chosen one; empty: none
    notes: tuple[str, ...] = ()  # warnings to show to the user

    @property
    def files(self) -> tuple[SettingsFile, ...]:
        """The files that exist, the stronger first."""
        return tuple(file for file in (self.project, self.user) if file is not None)

    @property
    def tables(self) -> list[SettingsTable]:
        """All tables that apply, the strongest first."""
        chosen = [file.profiles[self.profile] for file in self.files if self.profile in file.profiles]
        return [*chosen, *(file.top for file in self.files)]

    def get(self, key: str) -> SettingInFile | None:
        """Return a setting; None if no file has it.

        A table that names a journal hides the servers of weaker tables, because that journal is to be used.
        """
        for table in self.tables:
            if key in table.values:
                value = KEYS[key].read(table.values[key])
                return SettingInFile(_from_its_folder(key, value, table), table, (key,))
            if key == "server" and "journal" in table.values:
                return None
        return None

    def defaults(self, *command: str) -> dict[str, SettingInFile]:
        """Return the values under `defaults` for a command: its options, and the commands below it."""
        defaults: dict[str, SettingInFile] = {}
        for table in reversed(self.tables):
            inside: Any = table.values.get(DEFAULTS, {})
            for name in command:
                inside = inside.get(name, {}) if isinstance(inside, Mapping) else {}
            if isinstance(inside, Mapping):
                names = (DEFAULTS, *command)
                defaults |= {key: SettingInFile(value, table, (*names, key)) for key, value in inside.items()}
        return defaults


def read_all(profile: str | None = None) -> Settings:
    """Read the project's and the user's file; raises FileError and UnknownNameError for mistakes.

    `profile` is the one chosen on the command line or in the environment; it overrides that of the files.
    """
    own, notes = user_path(), list[str]()
    user = read_settings("user", own) if is_seen(own) else None
    if user is not None and user.holds_token and is_open_to_others(own):
        notes.append(f"{own} holds a token and must be readable by you alone; `chmod 600 {own}`")
    project = _project(notes)
    files = [file for file in (project, user) if file is not None]
    written = [str(file.tree[PROFILE]) for file in files if PROFILE in file.tree]
    chosen = profile or next(iter(written), "")
    known = {name for file in files for name in file.profiles}
    if chosen and chosen not in known:
        raise UnknownNameError("a profile", chosen, known)
    return Settings(project, user, chosen, tuple(notes))


def _project(notes: list[str]) -> SettingsFile | None:
    path = project_path()
    if path is None or path == user_path():
        return None
    if is_foreign(path):
        notes.append(f"{path} is left out: it belongs to another user")
        return None
    return read_settings("project", path)


def _from_its_folder(key: str, value: str | float, table: SettingsTable) -> str | float:
    """Return a path as seen from the folder of the file that names it; other values as they are."""
    folder = table.file.path.parent
    if key in PATHS:
        return str(folder / Path(str(value)).expanduser())
    if key == "market":
        return ",".join(_seen_from(folder, part.strip()) for part in str(value).split(","))
    return value


def _seen_from(folder: Path, source: str) -> str:
    """Return a market; if it is a file, its path is from `folder`. A prefix such as `feed:` stays."""
    prefix, colon, rest = source.rpartition(":")
    path = folder / Path(rest).expanduser()
    return f"{prefix}{colon}{path}" if prefix != "synthetic" and path.exists() else source


def token_for(server: str, settings: Settings, *, own_choice: bool) -> str:
    """Return the token for a server; empty if there is none.

    A token is sent to the server of its table; one in a table without a server, to any server that the user
    named. If only a project's file names the server (`own_choice` is false), InputError is raised unless the
    user's own file names it, too: otherwise a folder from anywhere could collect tokens.
    """
    given = os.environ.get(KEYS["token"].variable, "")
    known = [table for table in _user_tables(settings) if _is_same(table.values.get("server"), server)]
    if not own_choice and not known:
        raise InputError(
            f"a server in a project's file must be in your own file too, found {shown(server)} only there; "
            f"add it with `slacktide config set server {server}`, or give it with --server"
        )
    if given:
        return given
    own = [table for table in settings.tables if table.file.kind == "user"]
    free = [table for table in own if "server" not in table.values] if own_choice else []
    for table in [*known, *free]:
        token = _token_of(table)
        if token:
            return token
    return ""


def _user_tables(settings: Settings) -> Iterator[SettingsTable]:
    if settings.user is not None:
        chosen = [table for table in settings.tables if table.file is settings.user]
        yield from chosen
        yield from (table for table in settings.user.profiles.values() if table not in chosen)


def _is_same(written: object, server: str) -> bool:
    return isinstance(written, str) and written.rstrip("/") == server.rstrip("/")


def _token_of(table: SettingsTable) -> str:
    """Return the token that a table gives in one of three ways; empty if it gives none."""
    name = next((key for key in TOKEN_KEYS if key in table.values), None)
    if name is None:
        return ""
    setting = SettingInFile(_from_its_folder(name, table.values[name], table), table, (name,))
    token = str(setting.value)
    if name == "token_file":
        token = _first_line_of(setting)
    elif name == "token_command":
        token = _printed_by(setting)
    if ":" not in token:
        raise setting.error(f"{name} must give a token as NAME:SECRET, got something else (not shown)")
    return token


def _first_line_of(setting: SettingInFile) -> str:
    try:
        return (Path(setting.value).read_text(encoding="utf-8").splitlines() or [""])[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise setting.error(f"token_file must be readable, got: {unreadable(error)}") from error


def _printed_by(setting: SettingInFile) -> str:
    try:
        command = shlex.split(setting.value)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=TOKEN_COMMAND_S, check=True, encoding="utf-8"
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise setting.error(f"token_command must print a token, got: {reason}") from error
    return (done.stdout.splitlines() or [""])[0].strip()
