"""Laws of the journal's text: any event of any kind comes back the same, to the last bit of every float.

What cannot come back is refused, which is seen from the values alone. So a second, naive writer stands here,
which looks at nothing: an event is accepted just where its text, read again, is equal to it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.checks.history import HISTORY
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import JobState, JsonText
from slacktide.journal.codec.codec import FORM, KIND, PRESENT_FORM, encode, from_tree, parse, plain, text
from slacktide.journal.events import KINDS, Decided, Event
from slacktide.journal.store.base import MemoryStore
from tests.parts_of_effort import examples

TEXTS = st.text(st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF))
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
    JsonText: st.one_of(
        st.just(""),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
            lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
            max_leaves=5,
        )
        .filter(lambda value: value is not None)  # which is written as no text at all
        .map(json.dumps),
    ),
}


DECIDED = next(event for event in HISTORY if isinstance(event, Decided))


class Odd(str, enum.Enum):  # noqa: UP042 (its str() is not what it equals, which a StrEnum's is)
    """Texts that are more than that."""

    ENGINE = "engine"


class Row(NamedTuple):
    """A tuple with a name."""

    first: float = 0.5


ODD = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.integers(-(2**70), 2**70).map(float),
    st.booleans(),
    st.none(),
    st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100), max_size=4),
    st.builds(np.float64, st.floats()),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.int64, st.integers(-(2**63), 2**63 - 1)),
    st.builds(np.uint64, st.integers(0, 2**64 - 1)),
    st.sampled_from([np.bool_(True), np.array(0.5), np.array([0.5]), np.str_("engine"), np.longdouble(0.1)]),
    st.sampled_from([np.timedelta64(5, "ns"), np.datetime64(5, "ns"), np.complex64(1), 1j, b"engine", "inf"]),
    st.sampled_from([Odd.ENGINE, Row(), Quote(0.1, 2.5, 4), (0.1, 2.5, 4), JobState(), (), [], [1.0], {}]),
    st.sampled_from(
        [{"a": 1.0}, {"a": "b"}, {1: 1.0}, {Odd.ENGINE: 1.0}, types.MappingProxyType({"a": 1.0})]
    ),
    st.sampled_from([(0.5, np.float64(0.1)), (float("nan"),), (True,), ("inf",), {"a": np.float64(0.1)}]),
)
"""Values that no type asks for, or that are equal to some that it does."""


def decode(line: str) -> Event:
    return from_tree(parse(line))


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a declared type; written apart from the codec's own reading of types."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (types.UnionType, Union):
        return st.one_of(*map(values, inner))
    if origin is tuple:
        return st.lists(values(inner[0]), max_size=4).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXTS, values(inner[1]), max_size=4)
    hints = get_type_hints(hint, include_extras=True)
    names = getattr(hint, "_fields", None) or [one.name for one in dataclasses.fields(hint)]
    return st.builds(hint, **{name: values(hints[name]) for name in names})


def naive(value: Any) -> Any:
    """Turn a value into what `json` can write, by what it is, whatever it should be."""
    if isinstance(value, np.generic | np.ndarray):
        return naive(value.item()) if value.ndim == 0 and not isinstance(value, np.longdouble) else None
    if isinstance(value, Mapping):
        return {naive(name): naive(each) for name, each in value.items()}
    if hasattr(value, "_fields"):
        return {name: naive(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple | list):
        return list(map(naive, value))
    return {np.inf: "inf", -np.inf: "-inf"}.get(value, value) if isinstance(value, float) else value


def naive_text(event: Event) -> str:
    """Write an event with its fields in order, unchecked; raises what `json` raises."""
    fields = {}
    for name, hint in get_type_hints(type(event), include_extras=True).items():
        value = getattr(event, name)
        if hint == JsonText:
            fields[name] = json.loads(value) if value else None
            continue
        row = get_origin(hint) is tuple and isinstance(value, tuple)  # one with names is a row too
        fields[name] = naive(tuple(value) if row else value)
    return json.dumps({KIND: type(event).__name__, FORM: PRESENT_FORM, **fields})


def comes_back(event: Event) -> bool:
    """Whether an event can be written and then read as one that is equal to it."""
    try:
        return bool(decode(naive_text(event)) == event)
    except (InputError, TypeError, ValueError):
        return False


def foreign(value: object) -> bool:
    """Whether texts hold surrogates that stand for no byte: halves of a letter, which could become one."""
    return any("\ud800" <= each <= "\udfff" and not "\udc80" <= each <= "\udcff" for each in str(value))


@st.composite
def oddly_filled(draw: st.DrawFn, kind: type[Event]) -> Event:
    """Draw an event of a kind in which a few values, at any depth, are odd ones."""
    event: Event = draw(values(kind))
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from([one.name for one in dataclasses.fields(kind)]))
        odd = draw(ODD)
        old = getattr(event, name)
        if hasattr(old, "_fields") and draw(st.booleans()):
            odd = _deeper(draw, old, odd)
        event = dataclasses.replace(event, **{name: odd})
    return event


def _deeper(draw: st.DrawFn, old: Any, odd: Any) -> Any:
    name = draw(st.sampled_from(old._fields))
    inner = getattr(old, name)
    return old._replace(**{name: _deeper(draw, inner, odd) if hasattr(inner, "_fields") else odd})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_just_what_comes_back_is_accepted(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(oddly_filled(kind))
    try:
        kept = plain(event)
    except InputError:
        assert not comes_back(event) or foreign(naive_text(event).encode().decode("unicode_escape"))
        with pytest.raises(InputError):
            MemoryStore().append([event])
        return
    assert comes_back(event)
    # What append returns is what everybody else will read, in value, bits and types.
    assert repr(kept) == repr(decode(text(kept)))
    assert kept == event
    assert encode(event) == text(kept) == naive_text(kept)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_event_comes_back_the_same(kind: type[Event], data: st.DataObject) -> None:
    event: Event = data.draw(values(kind))
    line = encode(event)
    found = decode(line)
    assert found == event
    # The repr tells 0.0 from -0.0 and 1 from 1.0, and is the same only for the same bits.
    assert repr(found) == repr(event)
    assert encode(found) == line == naive_text(event)
    assert line.isascii()
    assert "\n" not in line


def test_an_event_that_is_plain_is_kept_as_it_is() -> None:
    event = KINDS["Preempted"](at_hours=1.0, slot=2, spot_before=3, spot_left=1, lost_gpu_hours=0.2)  # type: ignore[call-arg]
    assert plain(event) is event


def test_what_was_kept_does_not_change_with_the_mapping_it_was_given() -> None:
    given = {"slack_hours": 1.0}
    kept = plain(dataclasses.replace(DECIDED, signals=given))
    given["slack_hours"] = 2.0
    assert kept == dataclasses.replace(DECIDED, signals={"slack_hours": 1.0})


def test_no_event_has_a_field_named_like_the_kind() -> None:
    assert not any(one.name == KIND for kind in KINDS.values() for one in dataclasses.fields(kind))
