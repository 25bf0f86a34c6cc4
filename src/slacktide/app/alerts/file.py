"""Reads the alerts file and each of its `[[hook]]` tables; errors name the line of the first mistake."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slacktide.app.alerts.address import Target, literal, parse_target, refusal
from slacktide.app.alerts.alert import FORMATS, KINDS, AlertsFile, Hook
from slacktide.app.settings.files import (
    KeyPath,
    is_open_to_others,
    key_lines,
    parse_toml,
    read_text,
    text_of,
    unreadable,
)
from slacktide.core.errors import FileError, InputError, shown, unknown_name

HOOK, DASHBOARD = "hook", "dashboard"
MOST_HOOKS = 32  # each has a thread of its own
LEAST_SECRET = 16  # characters of a secret; fewer could be guessed from a signature that was intercepted
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_URLS, _SECRETS = ("url", "url_env", "url_file"), ("secret_env", "secret_file")
SAME_KEYS = ("name", "format", "on", "jobs", "owners", "allow_private")
"""Keys with the same names as fields of `Hook`, which has defaults for all but the name."""


def read_alerts_file(path: str | Path) -> AlertsFile:
    """Read an alerts file; raises FileError with the place of the first mistake."""
    return parse_alerts(read_text("an alerts file", Path(path)), path=Path(path))


def parse_alerts(written: str, *, path: Path, environment: Mapping[str, str] | None = None) -> AlertsFile:
    """Read the text of an alerts file, and the variables and other files that it refers to."""
    tree = parse_toml("an alerts file", path, written)
    lines, given = key_lines(written), os.environ if environment is None else environment
    for key in tree:
        if key not in (HOOK, DASHBOARD):
            must = unknown_name("a key", key, (HOOK, DASHBOARD))
            raise FileError(must, path=path, line=lines.get((key,)))
    tables = tree.get(HOOK)
    if not isinstance(tables, list) or not 0 < len(tables) <= MOST_HOOKS:
        raise FileError(f"an alerts file must have 1 to {MOST_HOOKS} hooks, each as [[hook]]", path=path)
    try:
        dashboard = _dashboard(tree.get(DASHBOARD))
    except InputError as error:
        raise FileError(f"{DASHBOARD} {error}", path=path, line=lines.get((DASHBOARD,))) from None
    hooks = tuple(
        HookTable(table, path, lines, (HOOK, str(place)), given).hook() for place, table in enumerate(tables)
    )
    for place, hook in enumerate(hooks):
        if hook.name in [other.name for other in hooks[:place]]:
            must = f"a hook must have a name of its own, got {shown(hook.name)} again"
            raise FileError(must, path=path, line=lines.get((HOOK, str(place), "name")))
    return AlertsFile(path=path, hooks=hooks, dashboard=dashboard, notes=_notes(tables, path))


def _dashboard(value: object) -> str:
    if value is None:
        return ""
    target = parse_target(text_of(value))
    return f"{target.shown}{target.path.rstrip('/')}"


def _notes(tables: list[Any], path: Path) -> tuple[str, ...]:
    holds_address = any("url" in table for table in tables)
    if holds_address and path.is_file() and is_open_to_others(path):
        return (f"{path} holds addresses of hooks and should be readable by you alone; `chmod 600 {path}`",)
    return ()


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise InputError(f'must be a list of texts that is not empty, such as ["a", "b"], got {shown(value)}')
    return tuple(map(text_of, value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"must be true or false, got {shown(value)}")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InputError(f"must be up to 40 letters, digits, dots and dashes, got {shown(value)}")
    return value


def _one_of_names(value: object, known: Sequence[str]) -> str:
    if value not in known:
        raise InputError(unknown_name("", text_of(value), known).strip())
    return str(value)


def _kinds(value: object) -> tuple[str, ...]:
    return tuple(_one_of_names(kind, KINDS) for kind in _texts(value))


KEYS: dict[str, Callable[[object], Any]] = {
    "name": _name, "url": lambda value: value, "url_env": text_of, "url_file": text_of, "command": _texts,
    "format": lambda value: _one_of_names(value, FORMATS), "on": _kinds, "jobs": _texts, "owners": _texts,
    "secret_env": text_of, "secret_file": text_of, "allow_private": _flag,
}  # fmt: skip
"""The keys of a hook, and the function that reads each; it raises InputError."""
WEBHOOK_KEYS = ("format", "secret_env", "secret_file", "allow_private")  # what only webhooks have


@dataclass(frozen=True, slots=True)
class HookTable:
    """One hook of a file while it is read."""

    values: Any
    path: Path
    lines: Mapping[KeyPath, int]
    place: KeyPath  # of this table
    environment: Mapping[str, str]

    def hook(self) -> Hook:
        """Return the hook; raises FileError with the line of its first mistake."""
        if not isinstance(self.values, dict):
            raise self._error("", "a hook must be a table, as [[hook]]")
        for key in self.values:
            if key not in KEYS:
                raise self._error(key, unknown_name("a key", key, KEYS))
        if "name" not in self.values:
            raise self._error("", 'a hook must have a name, got none; write name = "ops"')
        way = self._one_of(*_URLS, "command")
        if not way:
            raise self._error("", "a hook must have a url, url_env, url_file or command, got none of them")
        if way == "command":
            return self._command()
        target, secret = self._target(), self._secret()
        return Hook(**self._fields(), target=target, secret=secret)

    def _command(self) -> Hook:
        for key in WEBHOOK_KEYS:
            if key in self.values:
                raise self._error(key, f"{key} must be of a webhook, got a command with it; leave it out")
        folder, command = self.path.absolute().parent, self._read("command")
        # A path is relative to the alerts file, wherever the controller was started.
        program = str(folder / command[0]) if "/" in command[0] else command[0]
        if shutil.which(program) is None:
            must = f"command must begin with a program that can be run, found none called {shown(command[0])}"
            raise self._error("command", must)
        return Hook(**self._fields(), command=(program, *command[1:]), folder=folder)

    def _fields(self) -> dict[str, Any]:
        return {key: self._read(key) for key in SAME_KEYS if key in self.values}

    def _target(self) -> Target:
        key = self._one_of(*_URLS)
        url = self.values["url"] if key == "url" else self._value_at(key)
        if not isinstance(url, str):
            raise self._error(key, f"{key} must be a text in quotes, got something else (not shown)")
        private = "allow_private" in self.values and self._read("allow_private")
        try:
            target = parse_target(url)
            address = literal(target.host)
            why = "" if address is None else refusal(address, private=private)
            if why:
                raise InputError(f"must not lead to {why}, got {target.shown}")
        except InputError as error:
            raise self._error(key, f"{key} {error}") from None
        return target

    def _secret(self) -> bytes:
        key = self._one_of(*_SECRETS)
        secret = self._value_at(key) if key else ""
        if secret and len(secret) < LEAST_SECRET:
            must = f"{key} must lead to a secret of at least {LEAST_SECRET} characters, got fewer"
            raise self._error(key, f"{must}; `openssl rand -hex 32` makes one")
        return secret.encode()

    def _value_at(self, key: str) -> str:
        """Return the text in the environment or a file to which a key refers; errors never quote it."""
        name = self._read(key)
        if key.endswith("_file"):
            return self._first_line(key, self.path.absolute().parent / Path(name).expanduser())
        value = self.environment.get(name, "")
        if not value:
            raise self._error(key, f"{key} must name a variable that is set, got {shown(name)}, which is not")
        return value.strip()

    def _first_line(self, key: str, file: Path) -> str:
        try:
            mode, text = file.stat().st_mode, file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            must = f"{key} must name a readable file, got {file}: {unreadable(error)}"
            raise self._error(key, must) from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            must = f"{key} must name a file that only you may read, got mode {stat.S_IMODE(mode):04o}"
            raise self._error(key, f"{must}; `chmod 600 {file}`")
        lines = text.splitlines()
        if not lines or not lines[0].strip():
            raise self._error(key, f"{key} must name a file with something in its first line, got {file}")
        return lines[0].strip()

    def _one_of(self, *keys: str) -> str:
        """Return which of these keys is given; empty if none is. Raises FileError if several are."""
        given = [key for key in keys if key in self.values]
        if len(given) > 1:
            must = f"a hook must have one of {', '.join(keys)}, got {' and '.join(given)}"
            raise self._error(given[1], must)
        return given[0] if given else ""

    def _read(self, key: str) -> Any:
        try:
            return KEYS[key](self.values[key])
        except InputError as error:
            raise self._error(key, f"{key} {error}") from None

    def _error(self, key: str, message: str) -> FileError:
        line = self.lines.get((*self.place, key)) or self.lines.get(self.place)
        return FileError(message, path=self.path, line=line)
