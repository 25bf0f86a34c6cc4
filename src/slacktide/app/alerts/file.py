"""The alerts file: reading it, with the place of every mistake."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slacktide.app.alerts.hook import AlertsFile
from slacktide.app.alerts.hook_table import HookTable, text
from slacktide.app.alerts.sending.address import parse_target
from slacktide.app.settings.files import not_toml
from slacktide.core.errors import FileError, InputError, shown, unknown_name

HOOK, DASHBOARD = "hook", "dashboard"
MOST_HOOKS = 32
"""Each has a thread of its own."""
_HOOK_LINE = re.compile(r"\s*\[\[\s*hook\s*\]\]")
_KEY_LINE = re.compile(r"\s*\"?([A-Za-z0-9_-]+)\"?\s*=")


def read_alerts_file(path: str | Path) -> AlertsFile:
    """Read an alerts file; raises FileError with the place of the first mistake."""
    try:
        written = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise FileError(f"an alerts file must be readable, got: {reason}", path=path) from error
    return parse_alerts(written, path=Path(path))


def parse_alerts(written: str, *, path: Path, environment: Mapping[str, str] | None = None) -> AlertsFile:
    """Read the text of an alerts file, and all that it takes from the environment and other files."""
    try:
        tree = tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise not_toml("an alerts file", path, written, str(error)) from None
    lines, given = _lines(written), os.environ if environment is None else environment
    for key in tree:
        if key not in (HOOK, DASHBOARD):
            raise FileError(
                unknown_name("a key", key, (HOOK, DASHBOARD)), path=path, line=lines.get((-1, key))
            )
    tables = tree.get(HOOK)
    if not isinstance(tables, list) or not 0 < len(tables) <= MOST_HOOKS:
        raise FileError(f"an alerts file must have 1 to {MOST_HOOKS} hooks, each as [[hook]]", path=path)
    try:
        dashboard = _dashboard(tree.get(DASHBOARD))
    except InputError as error:
        raise FileError(f"{DASHBOARD} {error}", path=path, line=lines.get((-1, DASHBOARD))) from None
    hooks = tuple(HookTable(table, path, lines, place, given).hook() for place, table in enumerate(tables))
    for place, hook in enumerate(hooks):
        if hook.name in [other.name for other in hooks[:place]]:
            must = f"a hook must have a name of its own, got {shown(hook.name)} again"
            raise FileError(must, path=path, line=lines.get((place, "name")))
    return AlertsFile(path=path, hooks=hooks, dashboard=dashboard, notes=_notes(tables, path))


def _dashboard(came: object) -> str:
    if came is None:
        return ""
    target = parse_target(text(came))
    return f"{target.shown}{target.path.rstrip('/')}"


def _notes(tables: list[Any], path: Path) -> tuple[str, ...]:
    holds_address = any("url" in table for table in tables)
    if holds_address and path.is_file() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return (f"{path} holds addresses of hooks and should be readable by you alone; `chmod 600 {path}`",)
    return ()


def _lines(written: str) -> dict[tuple[int, str], int]:
    """Return the line, from 1, of every key of every hook; -1 is before the first of them."""
    found: dict[tuple[int, str], int] = {}
    place = -1
    for number, line in enumerate(written.splitlines(), 1):
        if _HOOK_LINE.match(line):
            place += 1
            found[place, ""] = number
        elif key := _KEY_LINE.match(line):
            found.setdefault((place, key[1]), number)
    return found
