"""How a value of a declared type looks in JSON: one form per type, each with a way there and back.

Texts, whole numbers, numbers, truth values, choices (`Literal`), `| None`, `tuple[X, ...]` as a list,
`Mapping[str, X]` and `dict[str, X]` as an object, NamedTuples and dataclasses as objects by field name.
Infinity is the text "inf", for JSON has no number for it; NaN is refused, for nothing equals it.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
WHOLE_LIMIT = 2**63
"""Whole numbers are kept to 64 bits: every reader of JSON and SQLite can hold them."""


class Misfit(Exception):
    """A value that is not what the type says; says where, what must hold and what came."""

    def __init__(self, expected: str, value: object, where: str = "") -> None:
        super().__init__(f"{where or 'it'} must be {expected}, got {value!r:.60}")
        self.expected, self.value, self.where = expected, value, where

    def inside(self, name: str) -> Misfit:
        """Return the same, seen from one level further out."""
        return Misfit(self.expected, self.value, f"{name}.{self.where}" if self.where else name)


class Form(NamedTuple):
    """The way of a value into JSON and back; both raise Misfit."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@cache
def form(hint: Any) -> Form:
    """Return the form of a declared type; raises TypeError for a type that has none."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _choice(inner)
    if origin in (Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        return _optional(form(next(each for each in inner if each is not type(None))))
    if origin is tuple and inner[1:] == (...,):
        return _row(form(inner[0]))
    if origin in (Mapping, dict) and inner[0] is str:
        return _table(form(inner[1]))
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return _object(hint)
    raise TypeError(f"a field must have a type that can be written as JSON, got {hint!r}")


def _plain(value: Any) -> Any:
    # NumPy's scalars know their plain twin; asking by shape avoids importing NumPy.
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _write_text(value: Any) -> str:
    try:
        # The bytes of a path that are no text come as such surrogates; others could come back as one letter.
        value.encode("utf-8", "surrogateescape")
    except (AttributeError, TypeError, UnicodeEncodeError):
        raise Misfit("text", value) from None
    return str(value)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("text", value)
    return value


def _whole(value: Any) -> int:
    if type(value) is int and -WHOLE_LIMIT <= value < WHOLE_LIMIT:
        return value
    number = _plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not -WHOLE_LIMIT <= number < WHOLE_LIMIT:
        raise Misfit("a whole number", value)
    return int(number)


def _truth(value: Any) -> bool:
    truth = _plain(value)
    if not isinstance(truth, bool):
        raise Misfit("true or false", value)
    return truth


def _number(value: Any) -> float:
    if type(value) is float and not math.isnan(value):
        return value
    number = _plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Misfit("a number", value)
    try:
        exact = float(number)
    except OverflowError:
        exact = math.nan
    if exact != number:  # NaN, and whole numbers that a float cannot hold
        raise Misfit("a number", value)
    return exact


def _write_number(value: Any) -> float | str:
    number = _number(value)
    return number if math.isfinite(number) else str(number)


def _read_number(value: Any) -> float:
    if isinstance(value, str) and value in INFINITIES:
        return INFINITIES[value]
    return _number(value)


PLAIN: dict[Any, Form] = {
    str: Form(_write_text, _read_text),
    int: Form(_whole, _whole),
    bool: Form(_truth, _truth),
    float: Form(_write_number, _read_number),
}


def _choice(choices: tuple[Any, ...]) -> Form:
    def check(value: Any) -> Any:
        if value not in choices:
            raise Misfit(f"one of {', '.join(map(str, choices))}", value)
        return value

    return Form(check, check)


def _optional(inner: Form) -> Form:
    return Form(
        lambda value: None if value is None else inner.write(value),
        lambda value: None if value is None else inner.read(value),
    )


def _row(inner: Form) -> Form:
    def write(value: Any) -> list[Any]:
        if not isinstance(value, tuple):
            raise Misfit("a tuple", value)
        return [inner.write(each) for each in value]

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misfit("a list", value)
        return tuple(inner.read(each) for each in value)

    return Form(write, read)


def _table(inner: Form) -> Form:
    def write(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit("a mapping", value)
        return {_write_text(name): _inside(name, inner.write, each) for name, each in value.items()}

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit("an object", value)
        return {name: _inside(name, inner.read, each) for name, each in value.items()}

    return Form(write, read)


def _object(made: Any) -> Form:
    hints = get_type_hints(made)
    forms = {name: form(hints[name]) for name in _fields(made)}
    needed = [name for name, optional in _fields(made).items() if not optional]

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not made:
            raise Misfit(f"a {made.__name__}", value)
        try:
            return {name: each.write(getattr(value, name)) for name, each in forms.items()}
        except Misfit:  # once more, to say where
            return {name: _inside(name, each.write, getattr(value, name)) for name, each in forms.items()}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Misfit("an object", value)
        if unknown := [name for name in value if name not in forms]:
            raise Misfit(f"among the fields of {made.__name__}", value[unknown[0]], unknown[0])
        if missing := [name for name in needed if name not in value]:
            raise Misfit("there", None, missing[0])
        try:
            return made(**{name: forms[name].read(each) for name, each in value.items()})
        except Misfit:  # once more, to say where
            return made(**{name: _inside(name, forms[name].read, each) for name, each in value.items()})

    return Form(write, read)


def _fields(made: Any) -> dict[str, bool]:
    """Return the names of the fields, and whether each may be absent because it has a default."""
    if hasattr(made, "_fields"):
        return {name: name in made._field_defaults for name in made._fields}
    absent = dataclasses.MISSING
    return {
        one.name: one.default is not absent or one.default_factory is not absent
        for one in dataclasses.fields(made)
    }


def _inside(name: str, way: Callable[[Any], Any], value: Any) -> Any:
    try:
        return way(value)
    except Misfit as misfit:
        raise misfit.inside(name) from None
