"""An event as JSON text and back, exactly: the same fields, floats the same to the last bit.

How a value is written follows from the type its field declares (`journal/codec/json_types.py`), so a new
kind of event needs nothing here. Both ways check: what could not be read back is refused before it is
written, which is seen from the values and needs no reading.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from slacktide.core.errors import InputError
from slacktide.journal.codec.json_scalars import JsonForm, Misfit
from slacktide.journal.codec.json_types import form
from slacktide.journal.events import KINDS, Event

KIND = "kind"
"""The key, next to the fields, that names the kind."""
FORM = "form"
"""The key, next to the fields, with the number of the form in which events are written; absent in form 1."""
PRESENT_FORM = 2


def plain(event: Event) -> Event:
    """Return an event as it will be read back: itself, or its twin in plain values.

    Raises InputError when a field does not hold what its type says, and for kinds that could not be read
    back; so what is returned can be written and read again without a trial.
    """
    name = type(event).__name__
    if KINDS.get(name) is not type(event):
        raise InputError(f"an event must be of a kind in slacktide.journal.events.KINDS, got {event!r:.80}")
    try:
        kept: Event = _form(name).plain(event)
    except Misfit as misfit:
        raise InputError(f"{name}: {misfit}") from None
    return kept


def text(event: Event) -> str:
    """Write an event that is plain as one line of JSON in ASCII, its kind first."""
    name = type(event).__name__
    return f'{{"{KIND}": "{name}", "{FORM}": {PRESENT_FORM}, {_form(name).text(event)[1:]}'


def from_tree(tree: object) -> Event:
    """Return the event of a parsed text, in the present form; fields with a default may be absent.

    Raises InputError when this version of Slacktide does not know the kind or its fields.
    """
    if not isinstance(tree, dict) or not isinstance(tree.get(KIND), str):
        _refuse(f"an event must be an object that names its kind, got {tree!r:.60}")
    name = tree[KIND]
    if name not in KINDS:
        _refuse(f"an event must be of a known kind, got {name!r:.60}")
    fields = tree.copy()
    del fields[KIND]
    fields.pop(FORM, None)
    try:
        event: Event = _form(name).read(fields)
    except Misfit as misfit:
        _refuse(f"{name}: {misfit}")
    return event


def encode(event: Event) -> str:
    """Write any event as one line of JSON; raises as `plain` does."""
    return text(plain(event))


def decode(line: str) -> Event:
    """Read an event of the present form; raises InputError as `from_tree` does, and when this is no JSON."""
    return from_tree(parse(line))


def parse(line: str) -> Any:
    """Read the JSON of an event of any form; raises InputError when this is none."""
    try:
        tree = json.loads(line)
    except json.JSONDecodeError as error:
        _refuse(f"an event must be JSON, got text that is none from character {error.pos + 1} on")
    except (ValueError, TypeError, RecursionError):
        _refuse("an event must be JSON, got something that cannot be read as such")
    if isinstance(tree, dict) and tree.get(FORM, 1) not in (1, PRESENT_FORM):
        _refuse(f"an event must be of form 1 or {PRESENT_FORM}, got {tree[FORM]!r:.60}")
    return tree


def is_before(tree: Any) -> bool:
    """Whether an event was written in the first form, before forms had numbers."""
    return isinstance(tree, dict) and FORM not in tree


def _form(name: str) -> JsonForm:
    kind: Any = KINDS[name]
    return form(kind)


def _refuse(misfit: str) -> NoReturn:
    raise InputError(f"{misfit}; it was damaged, or written by a newer Slacktide: use that one")
