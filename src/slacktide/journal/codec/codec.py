"""An event as JSON text and back, exactly: the same fields, floats the same to the last bit.

How a value is written follows from the type its field declares (`journal/codec/json_forms.py`), so a new
kind of event needs nothing here. An event that could not be read back is refused before it is written,
without trying it.

In a store each event carries a checksum as its last field, over all before it and over the time at which it
was written, so that damage on the disk is noticed. Older events have none: for those it is only checked that
times are times and JSON is JSON.
"""

from __future__ import annotations

import json
import zlib
from datetime import datetime
from typing import Any, NoReturn

from slacktide.core.errors import InputError
from slacktide.journal.codec.json_forms import FormMismatch, JsonForm, form
from slacktide.journal.codec.old_journals import JSON_TEXTS, with_values
from slacktide.journal.events import KINDS, Event

KIND = "kind"  # the key, next to the fields, that names the kind
FORM = "form"
"""The key, next to the fields, with the number of the form in which events are written; absent in form 1."""
PRESENT_FORM = 3
CRC = "crc"  # the key of the checksum, next to the fields of an event


def plain(event: Event) -> Event:
    """Return an event as it will be read back: itself, or an equal one of plain values.

    Raises InputError when a field does not hold what its type says, and for kinds that could not be read
    back; so what is returned can always be written and read again.
    """
    name = type(event).__name__
    if KINDS.get(name) is not type(event):
        raise InputError(f"an event must be of a kind in slacktide.journal.events.KINDS, got {event!r:.80}")
    try:
        kept: Event = _form(name).plain(event)
    except FormMismatch as mismatch:
        raise InputError(f"{name}: {mismatch}") from None
    return kept


def text(event: Event) -> str:
    """Write an event that is plain as one line of JSON in ASCII, its kind first."""
    name = type(event).__name__
    return f'{{"{KIND}": "{name}", "{FORM}": {PRESENT_FORM}, {_form(name).text(event)[1:]}'


def from_tree(tree: object) -> Event:
    """Return the event of a parsed text, of form 2 or the present one; fields with a default may be absent.

    Raises InputError when this version of Slacktide does not know the kind or its fields.
    """
    if not isinstance(tree, dict) or not isinstance(tree.get(KIND), str):
        _refuse(f"an event must be an object that names its kind, got {tree!r:.60}")
    name = tree[KIND]
    if name not in KINDS:
        _refuse(f"an event must be of a known kind, got {name!r:.60}")
    try:
        fields = tree.copy() if tree.get(FORM, 1) == PRESENT_FORM else with_values(tree)
        del fields[KIND]
        fields.pop(FORM, None)
        event: Event = _form(name).read(fields)
    except FormMismatch as mismatch:
        _refuse(f"{name}: {mismatch}")
    return event


def encode(event: Event) -> str:
    """Write any event as one line of JSON; raises as `plain` does."""
    return text(plain(event))


def parse(line: str) -> Any:
    """Read the JSON of an event of any form; raises InputError when this is none."""
    try:
        tree = json.loads(line)
    except json.JSONDecodeError as error:
        _refuse(f"an event must be JSON, got text that is none from character {error.pos + 1} on")
    except (ValueError, TypeError, RecursionError):
        _refuse("an event must be JSON, got something that cannot be read as such")
    if isinstance(tree, dict) and tree.get(FORM, 1) not in (1, 2, PRESENT_FORM):
        _refuse(f"an event must be of form 1 to {PRESENT_FORM}, got {tree[FORM]!r:.60}")
    return tree


def is_before(tree: Any) -> bool:
    """Whether an event was written in the first form, before forms had numbers."""
    return isinstance(tree, dict) and FORM not in tree


def sealed(stamp: str, text: str) -> str:
    """Return the JSON of an event with its checksum."""
    return f'{text[:-1]}, "{CRC}": {_sum(stamp, text[:-1])}}}'


def unsealed(stamp: str, line: str, tree: Any) -> Any:
    """Return the parsed event without its checksum; raises InputError if that does not match."""
    if not isinstance(tree, dict):
        return tree
    if CRC not in tree:
        texts = JSON_TEXTS.get(str(tree.get("kind")), ())
        for name, value in tree.items():
            if isinstance(value, str) and value:
                _check_sense(name, value, texts)
        return tree
    body = line[: line.rfind(f', "{CRC}": ')]
    if tree.pop(CRC) != _sum(stamp, body):
        raise InputError("an event must be as it was written, got one with another checksum: it was damaged")
    return tree


def _check_sense(name: str, value: str, texts: tuple[str, ...]) -> None:
    """Raise InputError for a text that should be a time or JSON and is not."""
    try:
        if name.endswith("_utc"):
            datetime.fromisoformat(value)
        elif name in texts:
            json.loads(value)
    except (ValueError, RecursionError):
        raise InputError(f"{name} must be readable, got {value!r:.60}: it was damaged") from None


def _sum(stamp: str, body: str) -> int:
    return zlib.crc32(f"{stamp} {body}".encode("utf-8", "surrogatepass"))


def _form(name: str) -> JsonForm:
    kind: Any = KINDS[name]
    return form(kind)


def _refuse(mismatch: str) -> NoReturn:
    raise InputError(f"{mismatch}; it was damaged, or written by a newer Slacktide: use that one")
