"""YAML as a tree in which every value knows its line and column.

People write these files, so the parser is strict and reports mistakes well: tags, anchors and
aliases are refused, scalars stay the text that was written (YAML 1.1 would turn `12:30` into
750 and `no` into False), and mistakes are gathered and reported together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from slacktide.core.errors import FileError, shown
from slacktide.core.files import read_at_most, utf8_text

MAX_BYTES = 1_000_000  # the largest file that is read; a job file has a few hundred bytes
MAX_DEPTH = 20  # the deepest nesting that is read
MAX_VALUES = 20_000  # the most keys and values that are read: they, not the bytes, take the time
MAX_MISTAKES = 20  # how many mistakes are reported at once

_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
"""What PyYAML quotes in its errors: parts of the file, but also single characters and names of its tokens."""
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


class TextPlace(NamedTuple):
    """A place in a file, counted from 1 as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value, as the text that was written."""

    place: TextPlace
    text: str
    quoted: bool = False

    @property
    def null(self) -> bool:
        """Whether nothing was written, or one of YAML's words for nothing."""
        return not self.quoted and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Series:
    """A list of values."""

    place: TextPlace
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping; if a key is given twice, its first value is kept."""

    place: TextPlace
    entries: Mapping[str, KeyValue]


Tree: TypeAlias = Scalar | Series | Section


class KeyValue(NamedTuple):
    """One key of a section: where the key is written, and its value."""

    place: TextPlace
    value: Tree


class Mistakes:
    """The mistakes of one file, gathered so that all of them are reported together."""

    def __init__(self, path: object) -> None:
        self.path, self.folder = str(path), Path(str(path)).parent
        self._found: list[tuple[TextPlace, str]] = []

    def add(self, place: TextPlace, message: str) -> None:
        """Note a mistake; raises FileError when there are too many to be useful."""
        self._found.append((place, message))
        if len(self._found) >= MAX_MISTAKES:
            self.check()

    def check(self) -> None:
        """Raise FileError with all mistakes in the order of the file, if there are any."""
        if not self._found:
            return
        (place, first), *others = sorted(self._found)
        rest = [f"{self.path}:{at.line}:{at.column}: {message}" for at, message in others]
        raise FileError("\n".join([first, *rest]), path=self.path, line=place.line, column=place.column)


def describe(tree: Tree) -> str:
    """Say in words what a tree is."""
    if isinstance(tree, Scalar):
        return "nothing" if tree.null else shown(tree.text)
    if isinstance(tree, Series):
        return "a list"
    return "a mapping" if tree.entries else "an empty mapping"


def walk(tree: Tree, key: str = "") -> Iterator[tuple[str, Tree]]:
    """Yield a tree and all values in it, each with its key, which is empty for the entries of a list."""
    yield key, tree
    if isinstance(tree, Series):
        for item in tree.items:
            yield from walk(item)
    elif isinstance(tree, Section):
        for name, entry in tree.entries.items():
            yield from walk(entry.value, name)


def read_text(path: str | Path) -> str:
    """Return the text of a file; raises FileError unless it is a small, readable UTF-8 file."""
    return utf8_text(read_at_most(path, MAX_BYTES, f"{MAX_BYTES} bytes"), path)


def parse_tree(text: str, mistakes: Mistakes) -> Tree | None:
    """Return the one YAML document in a text, None if there is none.

    Keys given twice are noted as mistakes; raises FileError where the text is no YAML or more
    than a plain tree of values.
    """
    if len(text) > MAX_BYTES:
        raise FileError(f"must be at most {MAX_BYTES} characters, got {len(text)}", path=mistakes.path)
    return _Builder(_events(text.removeprefix("\ufeff"), mistakes.path), mistakes).document()


class _Builder:
    """Builds a tree from YAML events, and refuses what a plain tree does not hold."""

    def __init__(self, events: Iterator[yaml.Event], mistakes: Mistakes) -> None:
        self._events = events
        self._mistakes = mistakes
        self._values = 0

    def document(self) -> Tree | None:
        tree = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if tree is not None:
                    raise self._refused(event, "a file must hold one document, got a second after '---'")
                tree = self._tree(next(self._events), 0)
        return tree

    def _tree(self, event: yaml.Event, depth: int) -> Tree:
        self._check(event, depth)
        place = _place(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(place, event.value, quoted=event.style is not None)
        if isinstance(event, yaml.SequenceStartEvent):
            return Series(place, tuple(self._trees(yaml.SequenceEndEvent, depth + 1)))
        return Section(place, self._entries(depth + 1))

    def _trees(self, end: type[yaml.Event], depth: int) -> Iterator[Tree]:
        while not isinstance(event := next(self._events), end):
            yield self._tree(event, depth)

    def _entries(self, depth: int) -> dict[str, KeyValue]:
        entries: dict[str, KeyValue] = {}
        trees = self._trees(yaml.MappingEndEvent, depth)
        for key in trees:
            value = next(trees)
            if not isinstance(key, Scalar):
                self._mistakes.add(key.place, f"a key must be a single value, got {describe(key)}")
            elif first := entries.get(key.text):
                message = (
                    f"a key must be given once, got {shown(key.text)} again after line {first.place.line}"
                )
                self._mistakes.add(key.place, message)
            else:
                entries[key.text] = KeyValue(key.place, value)
        return entries

    def _check(self, event: yaml.Event, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._refused(event, f"a file must hold at most {MAX_VALUES} values, got more")
        if depth > MAX_DEPTH:
            raise self._refused(event, f"values must be nested at most {MAX_DEPTH} deep, got more")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self._refused(event, "values must be written out, got an anchor (&) or alias (*)")
        if getattr(event, "tag", None):
            raise self._refused(event, "values must be plain, got a tag (!); quote text that begins with !")
        if isinstance(event, yaml.ScalarEvent) and _UNUSABLE.search(event.value):
            raise self._refused(event, "text must not hold NUL or half characters, got one")

    def _refused(self, event: yaml.Event, message: str) -> FileError:
        return _error(message, self._mistakes.path, _place(event.start_mark))


def _events(text: str, path: str) -> Iterator[yaml.Event]:
    """Yield YAML events; whatever the parser cannot read becomes a FileError with its place."""
    last = TextPlace(1, 1)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            last = _place(event.end_mark)
            yield event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _error(_explain(error), path, _place(mark) if mark else last) from error
    except yaml.reader.ReaderError as error:
        place = _place_after(text[: error.position])
        raise _error(f"text must be printable, got character {error.character!r}", path, place) from error
    except (ValueError, OverflowError) as error:
        # PyYAML lets these through for escapes such as "\UFFFFFFFF", which name no character.
        raise _error("the file must be YAML, got a number or escape out of range", path, last) from error


def _explain(error: yaml.MarkedYAMLError) -> str:
    """Say in one line what is wrong, and where a bracket or quote that is not closed began."""
    problem, context = str(error.problem), str(error.context or "")
    if "'\\t'" in problem:
        return "the file must be indented with spaces, got a tab"
    if "mapping values" in problem:
        return "the file must be YAML, got a second ':' in one value; quote text that holds ': '"
    begun = f" (begun at line {error.context_mark.line + 1})" if error.context_mark else ""
    remedy = "; close it, or quote text that holds , { or }" if "flow" in context else ""
    unquoted = _QUOTED.sub(_hidden, problem)
    return f"the file must be YAML, got an error {context}{begun}: {unquoted}{remedy}"


def _hidden(quoted: re.Match[str]) -> str:
    """Return what PyYAML quotes, unless it is text of the file, which may be a secret."""

    own = len(quoted[0]) <= 3 or quoted[0].startswith("'<")
    return quoted[0] if own else "some text"


def _error(message: str, path: str, place: TextPlace) -> FileError:
    return FileError(message, path=path, line=place.line, column=place.column)


def _place(mark: Any) -> TextPlace:
    return TextPlace(mark.line + 1, mark.column + 1)


def _place_after(text: str) -> TextPlace:
    return TextPlace(text.count("\n") + 1, len(text) - text.rfind("\n"))
