"""NamedTuples and dataclasses as JSON objects, by functions that are compiled once for each of them.

A journal's events are made of such objects, and their fields are most of what writing and reading it costs.
So the fields are not gone through one by one: for each type a function is written that has all of them in its
own lines, and takes a value that is as expected. Any other goes the slow way, which says what is wrong where,
or turns it into plain values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_type_hints

from slacktide.journal.codec.json_scalars import SCOPE, JsonForm, Misfit


class Shape(NamedTuple):
    """A type with fields, and their forms by name."""

    made: Any
    forms: Mapping[str, JsonForm]
    needed: tuple[str, ...]  # the fields that have no default


def object_form(made: Any, form: Callable[[Any], JsonForm]) -> JsonForm:
    """Return the form of a type with fields, whose own forms `form` knows."""
    hints, fields = get_type_hints(made, include_extras=True), _fields(made)
    shape = Shape(
        made,
        {name: form(hints[name]) for name in fields},
        tuple(name for name, optional in fields.items() if not optional),
    )
    scope = _compiled(shape)
    return JsonForm(scope["plain"], scope["text"], scope["read"], copied=_is_copied(shape))


def inside(name: str, way: Callable[[Any], Any], value: Any) -> Any:
    """Go a way with a value; a Misfit then says that it was inside this name."""
    try:
        return way(value)
    except Misfit as misfit:
        raise misfit.inside(name) from None


def _fields(made: Any) -> dict[str, bool]:
    """Return the names of the fields, and whether each may be absent because it has a default."""
    if hasattr(made, "_fields"):
        return {name: name in made._field_defaults for name in made._fields}
    absent = dataclasses.MISSING
    return {
        one.name: one.default is not absent or one.default_factory is not absent
        for one in dataclasses.fields(made)
        if one.init  # what is worked out from the others is not written
    }


# ---------------------------------------------------------------- the slow way


def _slow_plain(shape: Shape, value: Any) -> Any:
    if type(value) is not shape.made:
        raise Misfit(f"a {shape.made.__name__}", value)
    kept = {name: inside(name, form.plain, getattr(value, name)) for name, form in shape.forms.items()}
    same = all(getattr(value, name) is each for name, each in kept.items())
    return value if same else shape.made(**kept)


def _slow_read(shape: Shape, tree: Any) -> Any:
    if not isinstance(tree, dict):
        raise Misfit("an object", tree)
    if unknown := [name for name in tree if name not in shape.forms]:
        raise Misfit(f"among the fields of {shape.made.__name__}", tree[unknown[0]], unknown[0])
    if missing := [name for name in shape.needed if name not in tree]:
        raise Misfit("there", None, missing[0])
    return shape.made(**{name: inside(name, shape.forms[name].read, each) for name, each in tree.items()})


# ---------------------------------------------------------------- the fast way, written out for one type


def _compiled(shape: Shape) -> dict[str, Any]:
    """Return the functions `plain`, `text` and `read` of a type, made of their source."""
    source = "\n".join((*_plain_source(shape), *_text_source(shape), *_read_source(shape)))
    scope: dict[str, Any] = {**SCOPE, "Misfit": Misfit, "made": shape.made}
    scope["slow_plain"] = lambda value: _slow_plain(shape, value)
    scope["slow_read"] = lambda tree: _slow_read(shape, tree)
    for number, form in enumerate(shape.forms.values()):
        scope |= {f"plain_{number}": form.plain, f"text_{number}": form.text, f"read_{number}": form.read}
    exec(compile(source, f"<the form of {shape.made.__name__}>", "exec"), scope)
    return scope


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
        f"                return {_made(shape, values) if _is_copied(shape) else 'value'}",
        "        except Misfit:",
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
        "        except (KeyError, Misfit):",
        "            pass",
        "    return slow_read(tree)",
    ]


def _is_copied(shape: Shape) -> bool:
    return any(form.copied for form in shape.forms.values())


def _taken_apart(shape: Shape) -> list[str]:
    """Return the lines that put a value's fields into x0, x1 and so on."""
    if issubclass(shape.made, tuple):
        return [f"{', '.join(f'x{number}' for number in range(len(shape.forms)))}, = value"]
    return [f"x{number} = value.{name}" for number, name in enumerate(shape.forms)]


def _made(shape: Shape, values: list[str]) -> str:
    return f"made({', '.join(f'{name}={value}' for name, value in zip(shape.forms, values, strict=True))})"


def _filled(template: str, number: int) -> str:
    return template.replace("$", f"x{number}")
