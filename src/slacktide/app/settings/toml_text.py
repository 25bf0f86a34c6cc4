"""The text of a settings file: in which line a key is, and how one is set or removed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from slacktide.core.errors import InputError, shown

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

Path = tuple[str, ...]  # a key with the tables that it is in, from the outside in

_PART = r"(?:[\w-]+|\"[^\"]*\"|'[^']*')"
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]\s*(?:#.*)?$")
_ENTRY = re.compile(rf"\s*({_DOTTED})\s*=")


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, from 1, of every key and table."""
    found: dict[Path, int] = {}
    for number, path in _lines(text):
        for end in range(1, len(path) + 1):
            found.setdefault(path[:end], number)
        found[path] = number
    return found


def _lines(text: str) -> Iterator[tuple[int, Path]]:
    # Python's reader gives no lines and tomlkit none either; and this runs whenever a command starts, so it
    # must not import tomlkit.
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            table = _path_of(header[1])
            yield number, table
        elif entry:
            yield number, (*table, *_path_of(entry[1]))


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


def with_value(text: str, path: Path, value: object) -> str:
    """Return the text with a key set, in a new table where there is none yet; all else stays as it is.

    Raises InputError where the key would be inside something that is not a table, or the value is not text.
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


def without(text: str, path: Path) -> str:
    """Return the text without a key; all else stays as it is. Raises InputError where it has no such key."""
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


def _text_of(document: TOMLDocument, path: Path) -> str:
    made = document.as_string()
    try:
        made.encode()  # bytes of a command line that are no text arrive as halves of characters
    except UnicodeEncodeError as error:
        raise InputError(f"{'.'.join(path)} must be text in UTF-8") from error
    return made
