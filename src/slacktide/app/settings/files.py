"""Settings files: finds and reads them, and sets or removes a key in one."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from slacktide.app.settings import keys, toml_text
from slacktide.core.errors import FileError, InputError, shown
from slacktide.core.files import write_private, write_whole

PROJECT_FILE = "slacktide.toml"
PATHS = ("journal", "token_file")  # keys whose values are paths
USER_FILE_VARIABLE = "SLACKTIDE_CONFIG"
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_AT_END = " (at end of document)"

Kind = Literal["project", "user"]


class SettingsTable(NamedTuple):
    """The top of a file, or one of its profiles."""

    file: SettingsFile
    profile: str  # empty for the top
    values: dict[str, Any]

    @property
    def path(self) -> toml_text.Path:
        """The names of the tables that it is in."""
        return (keys.PROFILES, self.profile) if self.profile else ()

    def line(self, *names: str) -> int | None:
        """Return the line of one of its keys."""
        return self.file.lines.get((*self.path, *names))


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read."""

    kind: Kind
    path: Path
    tree: dict[str, Any]
    lines: dict[toml_text.Path, int] = field(default_factory=dict, repr=False)

    @property
    def top(self) -> SettingsTable:
        """The values that apply with any profile."""
        top = {key: value for key, value in self.tree.items() if key != keys.PROFILES}
        return SettingsTable(self, "", top)

    @property
    def profiles(self) -> dict[str, SettingsTable]:
        """The profiles by their names."""
        found = self.tree.get(keys.PROFILES, {})
        return {name: SettingsTable(self, name, table) for name, table in found.items()}

    @property
    def holds_token(self) -> bool:
        """Whether a token itself is in the file."""
        return any("token" in table.values for table in (self.top, *self.profiles.values()))


def user_path() -> Path:
    """Return where the user's own file is, or would be: $SLACKTIDE_CONFIG, else the folder for settings."""
    named = os.environ.get(USER_FILE_VARIABLE)
    if named:
        return Path(named).absolute()
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder).absolute() / "slacktide" / "config.toml"


def project_path(start: Path | None = None) -> Path | None:
    """Return the project's file: in the working folder, else in the nearest one above; None without any.

    A folder that this account may not look into has none, as when `sudo -u` starts a command in root's.
    """
    here = (start or Path.cwd()).absolute()
    return next((found for found in _upwards(here) if is_seen(found)), None)


def is_seen(path: Path) -> bool:
    """Whether there is a file that this account can find."""
    return os.path.isfile(path)  # pathlib's raises PermissionError in a folder without access


def _upwards(here: Path) -> Iterator[Path]:
    return (folder / PROJECT_FILE for folder in (here, *here.parents))


def is_foreign(path: Path) -> bool:
    """Whether a file belongs to another user, who could have put it above any folder of ours."""
    return path.stat().st_uid not in (os.geteuid(), 0)


def is_open_to_others(path: Path) -> bool:
    """Whether others than its owner may read a file."""
    return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def read_settings(kind: Kind, path: Path) -> SettingsFile:
    """Read a file and check its keys; raises FileError with the line of the first mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise FileError(f"a settings file must be readable, got: {reason}", path=path) from error
    return parse_settings(kind, path, text)


def parse_settings(kind: Kind, path: Path, text: str) -> SettingsFile:
    """Read the text of a file, and check its keys."""
    tree = _tree(path, text)
    found = SettingsFile(kind, path, tree, toml_text.key_lines(text))
    _check(found, found.top)
    for name, table in tree.get(keys.PROFILES, {}).items():
        if not isinstance(table, dict):
            line = found.lines.get((keys.PROFILES, name))
            raise FileError(f"a profile must be a table, got {shown(table)}", path=path, line=line)
        _check(found, SettingsTable(found, name, table))
    return found


def _tree(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise not_toml("a settings file", path, text, str(error)) from None


def _check(file: SettingsFile, table: SettingsTable) -> None:
    wrong = keys.check_table(table.values, top=not table.profile, project=file.kind == "project")
    if wrong is not None:
        key, message = wrong
        raise FileError(message, path=file.path, line=table.line(key))


def not_toml(what: str, path: Path, text: str, message: str) -> FileError:
    """Return the error of the TOML reader as a FileError with line and column."""
    place = _PLACE.search(message)
    line, column = (int(place[1]), int(place[2])) if place else (text.count("\n") + 1, None)
    reason = _PLACE.sub("", message).removesuffix(_AT_END)
    return FileError(f"{what} must be TOML, got: {reason}", path=path, line=line, column=column)


def from_here(key: str, value: str, kind: Kind, path: Path) -> str:
    """Return a value as it must be written into a file, where paths are relative to the file's folder.

    On the command line they are relative to the working folder. They become absolute, or in a project's file,
    which may be moved with its folder, relative to that.
    """
    if key not in PATHS and not (key == "market" and Path(value).exists()):
        return value
    whole = Path(value).expanduser().absolute()
    return str(whole) if kind == "user" else os.path.relpath(whole, path.parent)


def set_key(kind: Kind, path: Path, names: toml_text.Path, value: object) -> None:
    """Set a key of a file, which is made where it is not there; comments and order stay.

    Raises FileError if the file would have mistakes afterwards, and then leaves it as it is.
    """
    _edit(kind, path, names, lambda text: toml_text.with_value(text, names, value))


def unset_key(kind: Kind, path: Path, names: toml_text.Path) -> None:
    """Remove a key from a file; comments and order stay. Raises FileError where it is not there."""
    _edit(kind, path, names, lambda text: toml_text.without(text, names))


def _edit(kind: Kind, path: Path, names: toml_text.Path, change: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _tree(path, text)  # its values are not checked before the change, which may be what corrects one
    try:
        made = change(text)
    except InputError as error:
        raise FileError(str(error), path=path, line=toml_text.key_lines(text).get(names)) from error
    parse_settings(kind, path, made)
    write = write_private if kind == "user" else write_whole
    write(path, made.encode())
