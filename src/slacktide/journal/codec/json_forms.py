"""Converts values to JSON and back by their declared types, with one form for each type.

Texts, JSON texts (`JsonText`) as values, whole numbers, numbers, truth values, choices (`Literal`), `| None`,
`tuple[X, ...]` and `list[X]` as a list, `Mapping[str, X]` and `dict[str, X]` as an object, NamedTuples and
dataclasses as objects by field name.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from json.encoder import encode_basestring_ascii
from operator import is_
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
INFINITE_TEXTS = {number: f'"{text}"' for text, number in INFINITIES.items()}
LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**63 - 1
"""Whole numbers are kept to 64 bits: every reader of JSON and SQLite can hold them."""


class FormMismatch(Exception):
    """A value that is not what the type says; says where, what must hold and what came."""

    def __init__(self, expected: str, value: object, where: str = "") -> None:
        super().__init__(f"{where or 'it'} must be {expected}, got {value!r:.60}")
        self.expected, self.value, self.where = expected, value, where

    def inside(self, name: str) -> FormMismatch:
        """Return the same mismatch with the name of the enclosing field in front."""
        return FormMismatch(self.expected, self.value, f"{name}.{self.where}" if self.where else name)


class JsonForm(NamedTuple):
    """The functions that convert values of one type to JSON and back.

    `plain` and `read` raise FormMismatch. What `plain` returns will be read back equal, without trying it.
    """

    plain: Callable[[Any], Any]
    """Returns a value as it will be read back: itself, or an equal value of plain types."""
    text: Callable[[Any], str]  # writes a plain value
    read: Callable[[Any], Any]  # takes what a reader of JSON made of the text
    is_plain: str = ""  # Python that is true of `$` only if `plain($) is $`; empty where that must be called
    shown: str = ""  # Python for what an f-string shows as `text($)`; empty where that must be called
    copied: bool = False  # whether `plain` always copies, because a value may change after it was given


def _without_numpy(value: Any) -> Any:
    """Return a NumPy scalar as a plain number, and anything else as it is."""
    # By shape, which avoids importing NumPy.
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _plain_text(value: Any) -> str:
    if type(value) is str and value.isascii():
        return value
    try:
        # Bytes of a path that are not text are such surrogates; others could be read back as one letter.
        str.encode(value, "utf-8", "surrogateescape")
    except (TypeError, UnicodeEncodeError):
        raise FormMismatch("text", value) from None
    return str.__str__(value)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise FormMismatch("text", value)
    return value


@lru_cache(maxsize=64)  # all jobs of a journal name the same market, and few policies
def _as_dumped(text: str) -> str:
    value = json.loads(text) if text else None
    return "" if value is None else json.dumps(value)


def _json_text(value: Any) -> str:
    """Return JSON text as it will be read back: as `json.dumps` writes the value that it means."""
    try:
        return _as_dumped(_plain_text(value))
    except (ValueError, RecursionError):
        raise FormMismatch("JSON", value) from None


def _whole(value: Any) -> int:
    if type(value) is int and LEAST_WHOLE <= value <= MOST_WHOLE:
        return value
    number = _without_numpy(value)
    if isinstance(number, bool) or not isinstance(number, int) or not LEAST_WHOLE <= number <= MOST_WHOLE:
        raise FormMismatch("a whole number", value)
    if number != value:  # a NumPy time, whose plain form is a number
        raise FormMismatch("a whole number", value)
    return int.__int__(number)


def _truth(value: Any) -> bool:
    truth = _without_numpy(value)
    if not isinstance(truth, bool):
        raise FormMismatch("true or false", value)
    return truth


def _number(value: Any) -> float:
    if type(value) is float and not math.isnan(value):
        return value
    number = _without_numpy(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise FormMismatch("a number", value)
    try:
        exact = float(number)
    except OverflowError:
        exact = math.nan
    if exact != number or exact != value:  # NaN, whole numbers that a float cannot hold, NumPy times
        raise FormMismatch("a number", value)
    return exact


def _read_number(value: Any) -> float:
    if isinstance(value, str) and value in INFINITIES:
        return INFINITIES[value]
    return _number(value)


TEXT = JsonForm(
    _plain_text, encode_basestring_ascii, _read_text, "type($) is str and $.isascii()", "escaped($)"
)
JSON = JsonForm(
    _json_text,
    lambda value: value or "null",
    lambda value: "" if value is None else json.dumps(value),
    shown="$ or null",
)
"""JSON text is written in an event as the value that it encodes, empty text as null."""
WHOLE = JsonForm(_whole, int.__repr__, _whole, f"type($) is int and {LEAST_WHOLE} <= $ <= {MOST_WHOLE}", "$")
TRUTH = JsonForm(_truth, json.dumps, _truth, "type($) is bool", "true if $ else false")
NUMBER = JsonForm(
    _number,
    lambda value: INFINITE_TEXTS.get(value) or float.__repr__(value),
    _read_number,
    "type($) is float and $ == $",
    "$ if $ - $ == 0.0 else infinite[$]",  # infinity less itself is no number
)
SCOPE = {"escaped": encode_basestring_ascii, "infinite": INFINITE_TEXTS}
SCOPE |= {word: word for word in ("true", "false", "null")}  # the names in generated code


def choice(choices: tuple[str, ...]) -> JsonForm:
    """Return the form of a text that must be one of these."""

    def check(value: Any) -> str:
        word = str.__str__(value) if isinstance(value, str) else None
        if word not in choices:
            raise FormMismatch(f"one of {', '.join(choices)}", value)
        return word

    return JsonForm(
        check, encode_basestring_ascii, check, f"type($) is str and $ in {choices!r}", "escaped($)"
    )


PLAIN: dict[Any, JsonForm] = {str: TEXT, int: WHOLE, bool: TRUTH, float: NUMBER}


@cache
def form(hint: Any) -> JsonForm:
    """Return the form of a declared type; raises TypeError for a type that has none."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated and hint.__metadata__ == ("JSON",):
        return JSON
    if origin is Literal and all(isinstance(each, str) for each in inner):
        return choice(inner)
    if origin in (Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        return _optional(form(next(each for each in inner if each is not type(None))))
    if origin is tuple and inner[1:] == (...,):
        return _sequence(tuple, form(inner[0]))
    if origin is list:
        return _sequence(list, form(inner[0]))
    if origin in (Mapping, dict) and inner[0] is str:
        return _table(form(inner[1]))
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return _object(hint)
    raise TypeError(f"a field must have a type that can be written as JSON, got {hint!r}")


def _optional(inner: JsonForm) -> JsonForm:
    return JsonForm(
        lambda value: None if value is None else inner.plain(value),
        lambda value: "null" if value is None else inner.text(value),
        lambda value: None if value is None else inner.read(value),
        inner.is_plain and f"($ is None or {inner.is_plain})",
        inner.shown and f"null if $ is None else {inner.shown}",
        inner.copied,
    )


def _sequence(kind: type[tuple[Any, ...]] | type[list[Any]], inner: JsonForm) -> JsonForm:
    """Return the form of a tuple, or of a list, which is copied because its owner may still change it."""

    def plain(value: Any) -> Any:
        if not isinstance(value, kind):
            raise FormMismatch(f"a {kind.__name__}", value)
        kept = kind(map(inner.plain, value))
        same = kind is tuple and type(value) is tuple and all(map(is_, kept, value))
        return value if same else kept

    def text(value: Any) -> str:
        return f"[{', '.join(map(inner.text, value))}]"

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise FormMismatch("a list", value)
        return kind(map(inner.read, value))

    return JsonForm(plain, text, read, copied=inner.copied or kind is list)


def _table(inner: JsonForm) -> JsonForm:
    plain_text, plain_inner = TEXT.plain, inner.plain

    def plain(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise FormMismatch("a mapping", value)
        try:
            kept = {plain_text(name): plain_inner(each) for name, each in value.items()}
        except FormMismatch:  # once more, to say where
            kept = {plain_text(name): inside(name, plain_inner, each) for name, each in value.items()}
        if len(kept) < len(value):
            raise FormMismatch("of names that differ as texts", value)
        return kept

    def text(value: dict[str, Any]) -> str:
        return f"{{{', '.join([f'{TEXT.text(name)}: {inner.text(each)}' for name, each in value.items()])}}}"

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise FormMismatch("an object", value)
        try:
            return {name: inner.read(each) for name, each in value.items()}
        except FormMismatch:  # once more, to say where
            return {name: inside(name, inner.read, each) for name, each in value.items()}

    return JsonForm(plain, text, read, copied=True)


class Shape(NamedTuple):
    """A type with fields, and their forms by name."""

    made: Any
    forms: Mapping[str, JsonForm]
    needed: tuple[str, ...]  # the fields that have no default
    copied: bool  # whether any of the forms copies


def _object(made: Any) -> JsonForm:
    """Return the form of a type with fields, by functions that are compiled once for it.

    A journal's events are made of such objects, and their fields are most of what writing and reading it
    costs. So instead of looping over fields, code is generated for each type that handles a value that is as
    expected. Any other goes the slow way, which says what is wrong where, or turns it into plain values.
    """
    hints, fields = get_type_hints(made, include_extras=True), _fields(made)
    forms = {name: form(hints[name]) for name in fields}
    needed = tuple(name for name, optional in fields.items() if not optional)
    shape = Shape(made, forms, needed, any(one.copied for one in forms.values()))
    source = "\n".join((*_plain_source(shape), *_text_source(shape), *_read_source(shape)))
    scope: dict[str, Any] = {**SCOPE, "FormMismatch": FormMismatch, "made": made}
    scope["slow_plain"], scope["slow_read"] = partial(_slow_plain, shape), partial(_slow_read, shape)
    for number, one in enumerate(forms.values()):
        scope |= {f"plain_{number}": one.plain, f"text_{number}": one.text, f"read_{number}": one.read}
    exec(compile(source, f"<the form of {made.__name__}>", "exec"), scope)
    return JsonForm(scope["plain"], scope["text"], scope["read"], copied=shape.copied)


def inside(name: str, way: Callable[[Any], Any], value: Any) -> Any:
    """Return `way(value)`; a FormMismatch that it raises gets this name in front."""
    try:
        return way(value)
    except FormMismatch as mismatch:
        raise mismatch.inside(name) from None


def _fields(made: Any) -> dict[str, bool]:
    """Return the names of the fields, and whether each may be absent because it has a default."""
    if hasattr(made, "_fields"):
        return {name: name in made._field_defaults for name in made._fields}
    absent = dataclasses.MISSING
    return {
        one.name: one.default is not absent or one.default_factory is not absent
        for one in dataclasses.fields(made)
        if one.init  # fields that are computed from others are not written
    }


def _slow_plain(shape: Shape, value: Any) -> Any:
    if type(value) is not shape.made:
        raise FormMismatch(f"a {shape.made.__name__}", value)
    kept = {name: inside(name, form.plain, getattr(value, name)) for name, form in shape.forms.items()}
    same = all(getattr(value, name) is each for name, each in kept.items())
    return value if same else shape.made(**kept)


def _slow_read(shape: Shape, tree: Any) -> Any:
    if not isinstance(tree, dict):
        raise FormMismatch("an object", tree)
    if unknown := [name for name in tree if name not in shape.forms]:
        raise FormMismatch(f"among the fields of {shape.made.__name__}", tree[unknown[0]], unknown[0])
    if missing := [name for name in shape.needed if name not in tree]:
        raise FormMismatch("there", None, missing[0])
    return shape.made(**{name: inside(name, shape.forms[name].read, each) for name, each in tree.items()})


def _plain_source(shape: Shape) -> list[str]:
    tests, values = list[str](), list[str]()
    for number, form in enumerate(shape.forms.values()):
        if form.copied:
            values.append(f"plain_{number}(x{number})")
            continue
        tests.append(_filled(form.is_plain, number) or f"plain_{number}(x{number}) is x{number}")
        values.append(f"x{number}")
    return [
        "def plain(value):",
        "    if type(value) is made:",
        *(f"        {line}" for line in _taken_apart(shape)),
        "        try:",
        f"            if {' and '.join(tests) or True}:",
        f"                return {_made(shape, values) if shape.copied else 'value'}",
        "        except FormMismatch:",
        "            pass",
        "    return slow_plain(value)",
    ]


def _text_source(shape: Shape) -> list[str]:
    shown = [
        f'"{name}": {{{_filled(form.shown, number) or f"text_{number}(x{number})"}}}'
        for number, (name, form) in enumerate(shape.forms.items())
    ]
    return [
        "def text(value):",
        *(f"    {line}" for line in _taken_apart(shape)),
        f"    return f'{{{{{', '.join(shown)}}}}}'",
    ]


def _read_source(shape: Shape) -> list[str]:
    lines = list[str]()
    for number, (name, form) in enumerate(shape.forms.items()):
        unless = f"if not ({_filled(form.is_plain, number)}): " if form.is_plain else ""
        lines += [f"x{number} = tree['{name}']", f"{unless}x{number} = read_{number}(x{number})"]
    return [
        "def read(tree):",
        f"    if type(tree) is dict and len(tree) == {len(shape.forms)}:",
        "        try:",
        *(f"            {line}" for line in lines),
        f"            return {_made(shape, [f'x{number}' for number in range(len(shape.forms))])}",
        "        except (KeyError, FormMismatch):",
        "            pass",
        "    return slow_read(tree)",
    ]


def _taken_apart(shape: Shape) -> list[str]:
    """Return the lines that put a value's fields into x0, x1 and so on."""
    if issubclass(shape.made, tuple):
        return [f"{', '.join(f'x{number}' for number in range(len(shape.forms)))}, = value"]
    return [f"x{number} = value.{name}" for number, name in enumerate(shape.forms)]


def _made(shape: Shape, values: list[str]) -> str:
    return f"made({', '.join(f'{name}={value}' for name, value in zip(shape.forms, values, strict=True))})"


def _filled(template: str, number: int) -> str:
    return template.replace("$", f"x{number}")
