"""How a value of a declared type looks in JSON: one form per type, each with a way there and back.

Texts, JSON texts (`JsonText`) as values, whole numbers, numbers, truth values, choices (`Literal`), `| None`,
`tuple[X, ...]` and `list[X]` as a list, `Mapping[str, X]` and `dict[str, X]` as an object, NamedTuples and
dataclasses as objects by field name.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from operator import is_
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from slacktide.journal.codec.json_objects import inside, object_form
from slacktide.journal.codec.json_scalars import JSON, NUMBER, TEXT, TRUTH, WHOLE, JsonForm, Misfit, choice

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
        return _row(form(inner[0]))
    if origin is list:
        return _series(form(inner[0]))
    if origin in (Mapping, dict) and inner[0] is str:
        return _table(form(inner[1]))
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return object_form(hint, form)
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


def _row(inner: JsonForm) -> JsonForm:
    def plain(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple):
            raise Misfit("a tuple", value)
        kept = tuple(map(inner.plain, value))
        return value if type(value) is tuple and all(map(is_, kept, value)) else kept

    def text(value: tuple[Any, ...]) -> str:
        return f"[{', '.join(map(inner.text, value))}]"

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misfit("a list", value)
        return tuple(map(inner.read, value))

    return JsonForm(plain, text, read, copied=inner.copied)


def _series(inner: JsonForm) -> JsonForm:
    """Return the form of a list, which may still grow where it comes from."""

    def plain(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit("a list", value)
        return list(map(inner.plain, value))

    def text(value: list[Any]) -> str:
        return f"[{', '.join(map(inner.text, value))}]"

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit("a list", value)
        return list(map(inner.read, value))

    return JsonForm(plain, text, read, copied=True)


def _table(inner: JsonForm) -> JsonForm:
    plain_text, plain_inner = TEXT.plain, inner.plain

    def plain(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit("a mapping", value)
        try:
            kept = {plain_text(name): plain_inner(each) for name, each in value.items()}
        except Misfit:  # once more, to say where
            kept = {plain_text(name): inside(name, plain_inner, each) for name, each in value.items()}
        if len(kept) < len(value):
            raise Misfit("of names that differ as texts", value)
        return kept

    def text(value: dict[str, Any]) -> str:
        return f"{{{', '.join([f'{TEXT.text(name)}: {inner.text(each)}' for name, each in value.items()])}}}"

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit("an object", value)
        try:
            return {name: inner.read(each) for name, each in value.items()}
        except Misfit:  # once more, to say where
            return {name: inside(name, inner.read, each) for name, each in value.items()}

    return JsonForm(plain, text, read, copied=True)
