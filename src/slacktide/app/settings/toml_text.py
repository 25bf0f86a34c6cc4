"""The text of a TOML file: in which line a key is; one is set or removed without touching the rest."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from slacktide.core.errors import InputError

Path = tuple[str, ...]
"""A key with the tables that it is in, from the outside in."""

_PART = r"(?:[\w-]+|\"[^\"]*\"|'[^']*')"
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]\s*(?:#.*)?$")
_ENTRY = re.compile(rf"(\s*({_DOTTED})\s*=\s*)(.*)$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Line(NamedTuple):
    """A line that names a table or a key."""

    number: int
    """From 0."""
    path: Path
    is_table: bool


def places(text: str) -> dict[Path, int]:
    """Return the line, from 1, of every key and table."""
    found: dict[Path, int] = {}
    for line in _lines(text):
        for end in range(1, len(line.path) + 1):
            found.setdefault(line.path[:end], line.number + 1)
        found[line.path] = line.number + 1
    return found


def with_value(text: str, path: Path, value: object) -> str:
    """Return the text with a key set: its line is changed, or one is added; all else stays as it is.

    Raises InputError where the file is written so that a line alone cannot be changed.
    """
    lines = text.splitlines()
    known = {line.path: line.number for line in _lines(text) if not line.is_table}
    if path in known:
        lines[known[path]] = _changed(lines[known[path]], value)
    else:
        lines = _with_line(lines, list(_lines(text)), path, f"{_written(path[-1:])} = {_literal(value)}")
    made = "\n".join(lines) + "\n"
    if not _says(made, _with(tomllib.loads(text), path, value)):
        raise InputError(f"{'.'.join(path)} must be set by hand: it is inside a value of several lines")
    return made


def without(text: str, path: Path) -> str:
    """Return the text without a key's line; all else stays as it is.

    Raises InputError where the key is not in the file, or is no line of its own.
    """
    known = {line.path: line.number for line in _lines(text) if not line.is_table}
    tree = tomllib.loads(text)
    if not _holds(tree, path):
        raise InputError(f"{'.'.join(path)} must be set in this file to be removed, got a file without it")
    lines = text.splitlines()
    made = "\n".join(line for number, line in enumerate(lines) if number != known.get(path))
    if path not in known or not _says(made, _less(tree, path)):
        raise InputError(f"{'.'.join(path)} must be removed by hand: it has no line of its own")
    return made + "\n" if made else ""


def _lines(text: str) -> Iterator[Line]:
    table: Path = ()
    for number, line in enumerate(text.splitlines()):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            table = _path_of(header[1])
            yield Line(number, table, True)
        elif entry:
            yield Line(number, (*table, *_path_of(entry[2])), False)


def _path_of(dotted: str) -> Path:
    """Read a dotted key as TOML does."""
    try:
        tree: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    found: list[str] = []
    while isinstance(tree, dict):
        [(name, tree)] = tree.items()
        found.append(name)
    return tuple(found)


def _changed(line: str, value: object) -> str:
    """Return a line with another value; a comment behind it stays."""
    entry = _ENTRY.match(line)
    assert entry is not None
    comment = next((at for at in _hashes(entry[3]) if _is_value(entry[3][:at])), len(entry[3]))
    return f"{entry[1]}{_literal(value)}{'  ' if entry[3][comment:] else ''}{entry[3][comment:]}"


def _hashes(text: str) -> Iterator[int]:
    return (at for at, letter in enumerate(text) if letter == "#")


def _is_value(text: str) -> bool:
    try:
        tomllib.loads(f"x = {text}")
    except tomllib.TOMLDecodeError:
        return False
    return True


def _with_line(lines: list[str], known: Sequence[Line], path: Path, new: str) -> list[str]:
    """Return the lines with one more: behind the last key of its table, else in a new table at the end."""
    table = path[:-1]
    headers = [line.number for line in known if line.is_table]
    if table and table not in [line.path for line in known if line.is_table]:
        return [*lines, *([""] if lines and lines[-1] else []), f"[{_written(table)}]", new]
    begins = next((line.number for line in known if line.is_table and line.path == table), -1)
    ends = next((number for number in headers if number > begins), len(lines))
    inside = [line.number for line in known if begins <= line.number < ends]
    at = max(inside, default=-1) + 1
    room = [""] if at < len(lines) and at in headers else []
    return [*lines[:at], new, *room, *lines[at:]]


def _written(path: Path) -> str:
    return ".".join(name if _BARE.fullmatch(name) else json.dumps(name) for name in path)


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _with(tree: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    inner = value if len(path) == 1 else _with(tree.get(path[0], {}), path[1:], value)
    return {**tree, path[0]: inner}


def _holds(tree: Any, path: Path) -> bool:
    return not path or (isinstance(tree, dict) and path[0] in tree and _holds(tree[path[0]], path[1:]))


def _less(tree: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a tree without a key that is in it; the tables around it stay, empty or not."""
    if len(path) == 1:
        return {name: value for name, value in tree.items() if name != path[0]}
    return {**tree, path[0]: _less(tree[path[0]], path[1:])}


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False
