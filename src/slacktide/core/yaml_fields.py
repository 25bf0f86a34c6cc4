"""Read the keys of one section of a YAML file, and note those that are unknown, wrong or missing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from slacktide.core.errors import FileError, InputError, shown, unknown_name
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, TextPlace, Tree, describe

Value = TypeVar("Value")
Default = TypeVar("Default")

_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"[-+]?[0-9]{1,15}")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

Reader: TypeAlias = Callable[[Tree, Mistakes], Value]
"""Converts a YAML value, or raises InputError, to which the caller adds the place. It notes mistakes inside a
list or a mapping itself, each at its own place."""


class Fields:
    """The keys of one section as they are read; unknown ones are mistakes from the start."""

    def __init__(self, tree: Tree, mistakes: Mistakes, known: Iterable[str], *, prefix: str = "") -> None:
        """Read a section with these keys; raises InputError for a tree that is something else."""
        self.section, self.mistakes, self._prefix = section(tree), mistakes, prefix
        names = list(known)
        for key, entry in self.section.entries.items():
            if key not in names:
                kind = f"a key of {prefix.rstrip('.')}" if prefix else "a key"
                mistakes.add(entry.place, unknown_name(kind, key, names))

    @classmethod
    def of_item(cls, tree: Tree, mistakes: Mistakes, known: Iterable[str], name: str) -> Fields | None:
        """Read an entry of a list or mapping, which messages call `name`; None if it is not a mapping."""
        try:
            return cls(tree, mistakes, known, prefix=f"{name}.")
        except InputError as error:
            mistakes.add(tree.place, f"{name}: {error}")
            return None

    def __contains__(self, key: str) -> bool:
        return key in self.section.entries

    def read(self, key: str, reader: Reader[Value], default: Default) -> Value | Default:
        """Return the value of a key, converted by its reader; the default if the key is not there.

        If the reader raises InputError, it is noted as a mistake at the value, and the default returned.
        """
        entry = self.section.entries.get(key)
        if entry is None:
            return default
        try:
            return reader(entry.value, self.mistakes)
        except InputError as error:
            self.note(key, str(error))
            return default

    def note(self, key: str, message: str) -> None:
        """Note a mistake at the value of a key, named unless the message begins with its name."""
        named = message if message.startswith(f"{key} ") else f"{self._prefix}{key}: {message}"
        self.mistakes.add(self.place(key), named)

    def require(self, key: str, example: str) -> None:
        """Note a mistake if a key is not there."""
        if key not in self.section.entries:
            message = f"{self._prefix}{key} must be given, got nothing; write for instance '{key}: {example}'"
            self.mistakes.add(self.section.place, message)

    def place(self, key: str) -> TextPlace:
        """Return where the value of a key is written, or where it ought to be."""
        entry = self.section.entries.get(key)
        if entry is None:
            return self.section.place
        nothing = isinstance(entry.value, Scalar) and entry.value.null
        return entry.place if nothing else entry.value.place


def root(tree: Tree | None, mistakes: Mistakes, known: Iterable[str], *, kind: str, least: str) -> Fields:
    """Return the keys of a whole file; raises FileError for an empty file and for anything but a mapping."""
    if tree is None or (isinstance(tree, Scalar) and tree.null):
        message = f"a {kind} file must name at least {least}, got an empty file"
        raise FileError(message, path=mistakes.path, line=1, column=1)
    if not isinstance(tree, Section):
        # The text is not shown: someone may have named a file of secrets by mistake.
        came = "a list" if isinstance(tree, Series) else "a single text"
        message = f"a {kind} file must be a mapping of keys to values, got {came}"
        raise FileError(message, path=mistakes.path, line=tree.place.line, column=tree.place.column)
    return Fields(tree, mistakes, known)


def scalar(parse: Callable[[str], Value]) -> Reader[Value]:
    """Return a reader of single values; lists, mappings and nothing are refused."""
    return lambda tree, _: parse(text_of(tree))


def text_of(tree: Tree) -> str:
    """Return the text of a single value; raises InputError if it is something else."""
    if not isinstance(tree, Scalar) or tree.null:
        raise InputError(f"must be a single value, got {describe(tree)}")
    return tree.text


def section(tree: Tree) -> Section:
    """Return a tree as a section; raises InputError if it is something else."""
    if not isinstance(tree, Section):
        raise InputError(f"must be a mapping of keys to values, got {describe(tree)}")
    return tree


def items(tree: Tree, what: str) -> tuple[Tree, ...]:
    """Return the entries of a list; raises InputError that it must be `what` if it is empty or no list."""
    if not isinstance(tree, Series) or not tree.items:
        came = "an empty list" if isinstance(tree, Series) else describe(tree)
        raise InputError(f"must be {what}, got {came}")
    return tree.items


def number(text: str) -> float:
    """Read a plain decimal number; raises InputError on anything else, infinity included."""
    parsed = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(parsed):
        raise InputError(f"must be a number, got {shown(text)}")
    return parsed


def plain(tree: Tree) -> Any:
    """Return a tree as plain Python values: dicts, lists, numbers, booleans, None and text."""
    if isinstance(tree, Section):
        return {key: plain(entry.value) for key, entry in tree.entries.items()}
    if isinstance(tree, Series):
        return [plain(item) for item in tree.items]
    if tree.quoted or tree.null:
        return tree.text if tree.quoted else None
    if _INTEGER.fullmatch(tree.text):
        return int(tree.text)
    if _NUMBER.fullmatch(tree.text):
        return number(tree.text)
    return _WORDS.get(tree.text.lower(), tree.text)
