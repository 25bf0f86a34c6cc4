"""Laws of the journal's text: any event of any kind comes back the same, to the last bit of every float."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.events import KINDS, Event
from slacktide.store.codec import KIND, decode, encode

TEXTS = st.text(st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF))
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
}


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
    hints = get_type_hints(hint)
    names = getattr(hint, "_fields", None) or [one.name for one in dataclasses.fields(hint)]
    return st.builds(hint, **{name: values(hints[name]) for name in names})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_event_comes_back_the_same(kind: type[Event], data: st.DataObject) -> None:
    event: Event = data.draw(values(kind))
    text = encode(event)
    found = decode(text)
    assert found == event
    # The repr tells 0.0 from -0.0 and 1 from 1.0, and is the same only for the same bits.
    assert repr(found) == repr(event)
    assert encode(found) == text
    assert text.isascii()
    assert "\n" not in text


def test_no_event_has_a_field_named_like_the_kind() -> None:
    assert not any(one.name == KIND for kind in KINDS.values() for one in dataclasses.fields(kind))
