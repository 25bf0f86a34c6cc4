"""Settings files: which keys they may have, how they are found and read, and how a key of one is changed."""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from slacktide.core.errors import FileError, InputError, shown, unknown_name
from slacktide.core.files import write_private, write_whole

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

PROJECT_FILE = "slacktide.toml"
PATHS = ("journal", "token_file")  # keys whose values are paths
USER_FILE_VARIABLE = "SLACKTIDE_CONFIG"
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_AT_END = " (at end of document)"

Kind = Literal["project", "user"]


class SettingsTable(NamedTuple):
    """The top level of a settings file, or one of its profiles."""

    file: SettingsFile
    profile: str  # empty for the top
    values: dict[str, Any]

    def line(self, *names: str) -> int | None:
        path = (PROFILES, self.profile) if self.profile else ()
        return self.file.lines.get((*path, *names))


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read."""

    kind: Kind
    path: Path
    tree: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict, repr=False)

    @property
    def top(self) -> SettingsTable:
        """The values that apply with any profile."""
        top = {key: value for key, value in self.tree.items() if key != PROFILES}
        return SettingsTable(self, "", top)

    @property
    def profiles(self) -> dict[str, SettingsTable]:
        tables = self.tree.get(PROFILES, {})
        return {name: SettingsTable(self, name, table) for name, table in tables.items()}

    @property
    def holds_token(self) -> bool:
        return any("token" in table.values for table in (self.top, *self.profiles.values()))


def user_path() -> Path:
    """Return where the user's own file is, or would be: $SLACKTIDE_CONFIG, else the folder for settings."""
    named = os.environ.get(USER_FILE_VARIABLE)
    if named:
        return Path(named).absolute()
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder).absolute() / "slacktide" / "config.toml"


def project_path() -> Path | None:
    """Return the project's file: in the working folder, else in the nearest one above; None if there is none.

    Folders that this account may not look into are skipped, as when `sudo -u` starts a command in root's.
    """
    here = Path.cwd()
    return next(filter(is_seen, (folder / PROJECT_FILE for folder in (here, *here.parents))), None)


def is_seen(path: Path) -> bool:
    """Whether there is a file that this account can find."""
    return os.path.isfile(path)  # pathlib's raises PermissionError in a folder without access


def is_foreign(path: Path) -> bool:
    """Whether a file belongs to another user, who could have put it above any folder of ours."""
    return path.stat().st_uid not in (os.geteuid(), 0)


def is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def read_settings(kind: Kind, path: Path) -> SettingsFile:
    """Read a file and check its keys; raises FileError with the line of the first mistake."""
    return parse_settings(kind, path, read_text("a settings file", path))


def parse_settings(kind: Kind, path: Path, text: str) -> SettingsFile:
    """Read the text of a file, and check its keys."""
    tree = parse_toml("a settings file", path, text)
    file = SettingsFile(kind, path, tree, key_lines(text))
    _check(file.top)
    for table in file.profiles.values():
        if not isinstance(table.values, dict):
            must = f"a profile must be a table, got {shown(table.values)}"
            raise FileError(must, path=path, line=table.line())
        _check(table)
    return file


def read_text(what: str, path: Path) -> str:
    """Return the text of a file; raises FileError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{what} must be readable, got: {unreadable(error)}", path=path) from error


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Say why a file could not be read as text."""
    return getattr(error, "strerror", None) or "it is not UTF-8 text"


def parse_toml(what: str, path: Path, text: str) -> dict[str, Any]:
    """Read TOML; raises FileError with line and column of a mistake."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    place = _PLACE.search(message)
    line, column = (int(place[1]), int(place[2])) if place else (text.count("\n") + 1, None)
    reason = _PLACE.sub("", message).removesuffix(_AT_END)
    raise FileError(f"{what} must be TOML, got: {reason}", path=path, line=line, column=column)


def from_here(key: str, value: str, kind: Kind, path: Path) -> str:
    """Return a value of the command line as it must be written into a settings file.

    Paths are relative to the working folder there. They become absolute, or in a project's file, which may be
    moved together with its folder, relative to that folder.
    """
    if key not in PATHS and not (key == "market" and Path(value).exists()):
        return value
    whole = Path(value).expanduser().absolute()
    return str(whole) if kind == "user" else os.path.relpath(whole, path.parent)


def set_key(kind: Kind, path: Path, names: KeyPath, value: object) -> None:
    """Set a key of a file, which is created if it does not exist; comments and order stay.

    Raises FileError if the file would have mistakes afterwards, and then leaves it as it is.
    """
    _edit(kind, path, names, lambda text: with_value(text, names, value))


def unset_key(kind: Kind, path: Path, names: KeyPath) -> None:
    """Remove a key from a file; comments and order stay. Raises FileError if it is not in the file."""
    _edit(kind, path, names, lambda text: without(text, names))


def _edit(kind: Kind, path: Path, names: KeyPath, change: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # Values are not checked before the change: it may be what corrects a wrong one.
    parse_toml("a settings file", path, text)
    try:
        made = change(text)
    except InputError as error:
        raise FileError(str(error), path=path, line=key_lines(text).get(names)) from error
    parse_settings(kind, path, made)
    write = write_private if kind == "user" else write_whole
    write(path, made.encode())


PROFILE, PROFILES, DEFAULTS = "profile", "profiles", "defaults"
TOKEN_KEYS = ("token", "token_file", "token_command")
"""Three ways to give a token; a table may have only one of them."""


class Key(NamedTuple):
    """One setting."""

    meaning: str
    read: Callable[[object], str | float]  # returns the value; raises InputError if it cannot be used
    variable: str = ""  # the environment variable that overrides every file


def text_of(value: object) -> str:
    """Return a text that a file gives; raises InputError for anything else."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"must be a text in quotes that is not empty, got {shown(value)}")
    return value


def _url(value: object) -> str:
    if not text_of(value).startswith(("http://", "https://")):
        raise InputError(f"must be http://HOST:PORT or https://HOST, got {shown(value)}")
    return text_of(value)


def _secret(value: object) -> str:
    """Return a token; it is not quoted in the message."""
    if not isinstance(value, str) or ":" not in value or not value.isprintable():
        raise InputError("must be a text in quotes as NAME:SECRET, got something else (not shown)")
    return value


def _price(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= float(value) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"must be a number of USD per GPU-hour >= 0, got {shown(value)}")
    return float(value)  # type: ignore[arg-type]


KEYS: dict[str, Key] = {
    "journal": Key("The journal that commands use.", text_of, "SLACKTIDE_JOURNAL"),
    "server": Key("The server whose journal commands use.", _url, "SLACKTIDE_SERVER"),
    "token": Key("The token for the server, as NAME:SECRET.", _secret, "SLACKTIDE_TOKEN"),
    "token_file": Key("A file with the token in its first line.", text_of),
    "token_command": Key("A command that prints the token.", text_of),
    "market": Key("The market of jobs whose files name none.", text_of),
    "spot_usd": Key("Spot USD per GPU-hour, where a trace has no price.", _price),
    "on_demand_usd": Key("On-demand USD per GPU-hour, where a trace has no price.", _price),
}
"""The keys that the top level of a file and each of its profiles may set."""


def _check(table: SettingsTable) -> None:
    """Raise FileError for the first key of a table that cannot be used."""
    known = [*KEYS, DEFAULTS, *(() if table.profile else (PROFILE, PROFILES))]
    project, path = table.file.kind == "project", table.file.path
    for key, value in table.values.items():
        wrong = _wrong(key, value, known, project)
        if wrong:
            raise FileError(wrong, path=path, line=table.line(key))
    ways = [key for key in TOKEN_KEYS if key in table.values]
    if len(ways) > 1:
        must = f"a table must give the token in one way, got {' and '.join(ways)}"
        raise FileError(must, path=path, line=table.line(ways[1]))


def _wrong(key: str, value: object, known: list[str], project: bool) -> str:
    if key not in known:
        return unknown_name("a key", key, known)
    if project and key in TOKEN_KEYS:
        return (
            f"{key} must not be in a project's file, which others may write or read; "
            "move it to your own file (`slacktide config path` names it)"
        )
    if key in (DEFAULTS, PROFILES):
        return "" if isinstance(value, dict) else f"{key} must be a table, got {shown(value)}"
    try:
        (text_of if key == PROFILE else KEYS[key].read)(value)
    except InputError as error:
        return f"{key} {error}"
    return ""


KeyPath = tuple[str, ...]  # a key with the tables that it is in, from the outside in

_PART = r"(?:[\w-]+|\"[^\"]*\"|'[^']*')"
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[(\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_ENTRY = re.compile(rf"\s*({_DOTTED})\s*=")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every key and table; tables of an array are named "0", "1" and so on."""
    lines: dict[KeyPath, int] = {}
    for number, path in _lines(text):
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], number)
        lines[path] = number
    return lines


def _lines(text: str) -> Iterator[tuple[int, KeyPath]]:
    # Neither tomllib nor tomlkit gives line numbers. And this runs whenever a command starts, so it must not
    # import tomlkit.
    table: KeyPath = ()
    lengths: Counter[KeyPath] = Counter()  # of arrays of tables
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            table = _path_of(header[2])
            if header[1]:
                lengths[table] += 1
                table = (*table, str(lengths[table] - 1))
            yield number, table
        elif entry:
            yield number, (*table, *_path_of(entry[1]))


def _path_of(dotted: str) -> KeyPath:
    """Read a dotted key as TOML does."""
    try:
        tree: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    names: list[str] = []
    while isinstance(tree, dict):
        [(name, tree)] = tree.items()
        names.append(name)
    return tuple(names)


def with_value(text: str, path: KeyPath, value: object) -> str:
    """Return the text with a key set, in a new table if there is none yet; everything else stays as it is.

    Raises InputError if the key would be inside something that is not a table, or the value is not UTF-8.
    """
    import tomlkit

    document = tomlkit.parse(text if text.endswith("\n") or not text else f"{text}\n")
    table: MutableMapping[str, Any] = document
    for depth, name in enumerate(path[:-1], 1):
        if name not in table:
            # A table of tables alone needs no header of its own.
            table[name] = tomlkit.table(is_super_table=depth < len(path) - 1)
        table = table[name]
        if not isinstance(table, MutableMapping):
            raise InputError(
                f"{'.'.join(path[:depth])} must be a table to hold {path[-1]}, got {shown(table)}"
            )
    _put(table, path[-1], value)
    return _text_of(document, path)


def without(text: str, path: KeyPath) -> str:
    """Return the text without a key; everything else stays as it is. Raises InputError without such a key."""
    import tomlkit

    document = tomlkit.parse(text)
    table: Any = document
    for name in path[:-1]:
        table = table.get(name) if isinstance(table, MutableMapping) else None
    if not isinstance(table, MutableMapping) or path[-1] not in table:
        raise InputError(f"{'.'.join(path)} must be set in this file to be removed, got a file without it")
    del table[path[-1]]
    return _text_of(document, path)


def _put(table: MutableMapping[str, Any], name: str, value: object) -> None:
    from tomlkit import item, key
    from tomlkit.container import Container
    from tomlkit.items import AoT, Table

    container = table.value if isinstance(table, Table) else table
    body = container.body if isinstance(container, Container) else []
    last = max((at for at, (k, v) in enumerate(body) if k and not isinstance(v, Table | AoT)), default=None)
    if name in table or last is None:
        table[name] = value
    else:
        # tomlkit itself would append after the comments that follow, which are about the next table.
        body.insert(last + 1, (key(name), item(value)))


def _text_of(document: TOMLDocument, path: KeyPath) -> str:
    made = document.as_string()
    try:
        made.encode()  # bytes of a command line that are not text arrive as lone surrogates
    except UnicodeEncodeError as error:
        raise InputError(f"{'.'.join(path)} must be text in UTF-8") from error
    return made
