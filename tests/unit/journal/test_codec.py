"""An event as text: what is written, what may be absent, and what is refused on either way."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from slacktide.checks.history import HISTORY
from slacktide.core.errors import InputError
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import JobState
from slacktide.journal.codec.codec import encode, from_tree, parse
from slacktide.journal.codec.json_forms import form
from slacktide.journal.events import (
    CancellationAsked,
    Decided,
    Ended,
    Event,
    Opened,
    PreemptionAsked,
    Submitted,
)

NOT_TEXT: Any = b"host"
DECIDED = next(event for event in HISTORY if isinstance(event, Decided))


def decode(line: str) -> Event:
    return from_tree(parse(line))


def to_tree(event: Event) -> dict[str, Any]:
    """Return an event as JSON has it."""
    tree: dict[str, Any] = json.loads(encode(event))
    return tree


def changed(**changes: Any) -> Decided:
    """Return a decision with other values in it, of any type."""
    return replace(DECIDED, **changes)


def test_an_event_is_an_object_by_field_name_with_its_kind_first() -> None:
    tree = to_tree(DECIDED)
    assert next(iter(tree)) == "kind"
    assert tree["kind"] == "Decided"
    prices = {"spot_usd_per_gpu_hour": 0.1, "on_demand_usd_per_gpu_hour": 2.5}
    assert tree["quote"] == {**prices, "spot_gpus": 4, "on_demand_gpus": UNLIMITED_GPUS}
    assert tree["memory"] == [1e-9, 0.0]
    assert tree["signals"] == {"slack_hours": "inf", "lead": "-inf"}
    assert tree["state"]["finish_hours"] == "inf"


def test_a_quote_of_before_limits_no_on_demand_gpus() -> None:
    tree = to_tree(DECIDED)
    del tree["quote"]["on_demand_gpus"]
    assert decode(json.dumps(tree)) == DECIDED
    tree["quote"]["on_demand_gpus"] = 3
    found = decode(json.dumps(tree))
    assert isinstance(found, Decided)
    assert found.quote == DECIDED.quote._replace(on_demand_gpus=3)


def test_numpy_scalars_become_plain_numbers() -> None:
    quote: list[Any] = [np.float32(0.5), 1, np.int32(3), np.int64(2)]
    true: Any = np.bool_(True)
    event = changed(
        at_hours=np.float64(0.1),
        slot=np.int64(7),
        quote=Quote(*quote),
        state=JobState(exhausted=true),
        signals={"gpus": np.int64(2)},
        memory=(np.float64(0.25),),
    )
    found = decode(encode(event))
    assert found == event
    assert isinstance(found, Decided)
    plain = (found.at_hours, found.slot, *found.quote, found.state.exhausted, *found.memory)
    assert [type(value) for value in plain] == [float, int, float, float, int, int, bool, float]


def test_fields_with_a_default_may_be_absent() -> None:
    assert decode('{"kind": "PreemptionAsked", "at_hours": 2}') == PreemptionAsked(at_hours=2.0)
    tree = to_tree(DECIDED)
    tree["state"] = {"spot_gpus": 3}
    found = decode(json.dumps(tree))
    assert isinstance(found, Decided)
    assert found.state == JobState(spot_gpus=3)


def _with(**changes: Any) -> str:
    return json.dumps({**to_tree(DECIDED), **changes})


def _without(name: str) -> str:
    return json.dumps({key: value for key, value in to_tree(DECIDED).items() if key != name})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "names its kind"),
        ('{"kind": 3}', "names its kind"),
        ('{"kind": "Teleported", "at_hours": 1.0}', "of a known kind, got 'Teleported'"),
        (_without("slot"), "Decided: slot must be there, got None"),
        (_with(colour="red"), "Decided: colour must be among the fields of Decided, got 'red'"),
        (_with(quote={"spot_gpus": 1}), r"quote\.spot_usd_per_gpu_hour must be there"),
        (
            _with(quote={**to_tree(DECIDED)["quote"], "eur": 1}),
            r"quote\.eur must be among the fields of Quote",
        ),
        (_with(quote=[0.1, 2.5, 4]), "quote must be an object"),
        (_with(slot=1.5), "slot must be a whole number, got 1.5"),
        (_with(slot=True), "slot must be a whole number, got True"),
        (_with(slot=2**63), "slot must be a whole number"),
        (_with(at_hours="soon"), "at_hours must be a number, got 'soon'"),
        (_with(at_hours=10**400), "at_hours must be a number"),
        (_with(at_hours=math.nan), "at_hours must be a number, got nan"),
        (_with(job=None), "job must be text, got None"),
        (_with(actor="ghost"), "actor must be one of engine, market, user, worker, got 'ghost'"),
        (_with(memory={}), "memory must be a list"),
        (_with(signals=[]), "signals must be an object"),
        (_with(signals={"slack": None}), r"signals\.slack must be a number"),
        (_with(state={"exhausted": 1}), r"state\.exhausted must be true or false, got 1"),
    ],
)
def test_what_this_version_does_not_know_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        decode(text)
    assert "newer Slacktide" in str(caught.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dreamt(Event):
    """A kind that no reader knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed(CancellationAsked):
    """A kind that stands under another's name."""


Renamed.__name__ = "CancellationAsked"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Dreamt(at_hours=1.0), "of a kind in slacktide.journal.events.KINDS"),
        (Renamed(at_hours=1.0), "of a kind in slacktide.journal.events.KINDS"),
        (Ended(at_hours=1.0, status="failed", finish_hours=math.nan), "finish_hours must be .*, got nan"),
        (Ended(at_hours=2**53 + 1, status="failed", finish_hours=1.0), "at_hours must be a number"),
        (changed(slot=1.0), "slot must be a whole number"),
        (changed(quote=(0.1, 2.5, 4)), "quote must be a Quote"),
        (changed(memory=[1.0]), "memory must be a tuple"),
        (changed(signals={"a": np.ones(1)}), r"signals\.a must be a number"),
        (changed(signals={1: 1.0}), "signals must be text, got 1"),
        (Opened(at_hours=1.0, pid=1, host="\ud83d\ude00", version=""), "host must be text"),
        (Opened(at_hours=1.0, pid=1, host=NOT_TEXT, version=""), "host must be text"),
    ],
)  # fmt: skip
def test_what_could_not_be_read_back_is_not_written(event: Event, words: str) -> None:
    with pytest.raises(InputError, match=words):
        encode(event)


def test_a_path_that_is_no_text_is_kept() -> None:
    event = next(event for event in HISTORY if isinstance(event, Submitted))
    assert "\udcff" in event.path
    assert decode(encode(event)) == event


def test_a_type_without_a_form_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="can be written as JSON"):
        form(set[int])
