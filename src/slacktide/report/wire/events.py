"""Events of a journal as JSON, as users read them."""

from __future__ import annotations

import dataclasses
from typing import Any

from slacktide.core.types import JobState
from slacktide.journal import events
from slacktide.journal.events import Event, Record
from slacktide.physics.ledger import Priced
from slacktide.report.text.sentences.events import sentence
from slacktide.report.wire import values
from slacktide.report.wire.values import picked

ROAMING_KEYS = (
    "pool", "wanted_pool", "instead", "missed", "unstocked", "moved_from", "move_usd", "move_hours",
)  # fmt: skip


def as_json(record: Record, submitted: events.Submitted | None = None) -> dict[str, Any]:
    """Return an event under its documented keys: its number, its kind, its own fields, and its sentence.

    Hours and slots in an event of a job count from that job's start, which is read from `submitted`.
    """
    event = record.event
    began, first = (0.0, 0) if submitted is None else (submitted.at_hours, submitted.start_slot)
    return {
        "seq": record.seq,
        "time_utc": values.utc(record.time_utc),
        "kind": type(event).__name__,
        "elapsed_hours": event.at_hours - began,
        **values.plain(_fields(event, began, first)),
        "says": sentence(event),
    }


def _fields(event: Event, began: float, first: int) -> dict[str, Any]:
    """Return an event's fields as users read them: those of a stretch inline, times from the job's start."""
    common = {field.name: getattr(event, field.name) for field in dataclasses.fields(Event)}
    own = {name: getattr(event, name) for name in event.__dataclass_fields__ if name not in common}
    match event:
        case events.Lived():
            own = _stretch(event, began, first)
        case events.Decided():
            order = ("slot", "quote", "state", "spot_gpus", "on_demand_gpus", "wanted_spot_gpus")
            own = {
                **{name: own[name] for name in order},
                "wanted_on_demand_gpus": event.wanted_on_demand_gpus,
                "from_hours": event.at_hours - began,
                **{name: own[name] for name in ("signals", "memory", "attempt", "ending")},
                "slot": event.slot - first,
                "state": _own_state(event.state, began),
                **({"lost_gpu_hours": event.lost_gpu_hours} if event.lost_gpu_hours else {}),
                **({} if event.notice_hours is None else {"notice_hours": event.notice_hours}),
                # Of a job that may move: the pool it wanted, what it would have taken instead, its move.
                **(picked(event, *ROAMING_KEYS) if event.wanted_pool else {}),
            }
        case events.Kept():
            own = {"fleet": event.fleet, "use": event.priced.stretch.use, **_paid(event.priced, began, first)}
        case events.Preempted():
            own["slot"] = event.slot - first
        case events.Submitted():
            own["envs"] = dict.fromkeys(event.envs)  # only names: an older journal holds values, too
            for name in _unsaid(event):
                del own[name]
        case events.SubmissionAsked():
            own["envs"] = dict.fromkeys(event.envs)
        case events.Opened() if event.backend == "local":
            del own["backend"]
    return {**common, **own}


def _unsaid(event: events.Submitted) -> tuple[str, ...]:
    """Return the fields to leave out because they are absent, as in an older journal."""
    absent = {
        "work_gpu_hours": event.work_gpu_hours == 0,
        "deadline_hours": event.work_gpu_hours == 0,
        "origin_hours": event.origin_hours is None,
        "key": not event.key,
        "fleet_class": not event.fleet_class,
        "pools": not event.pools,
        "sight": not event.pools,
    }
    return tuple(name for name, is_absent in absent.items() if is_absent)


def _stretch(event: events.Lived, began: float, first: int) -> dict[str, Any]:
    stretch = event.priced.stretch
    return {
        **_paid(event.priced, began, first),
        **({"move_usd": event.priced.charge.move_usd} if event.priced.charge.move_usd else {}),
        **picked(stretch, "pool", "pause_hours", "productive_hours"),
        "state": _own_state(event.state, began),
    }


def _paid(priced: Priced, began: float, first: int) -> dict[str, Any]:
    """Return when a stretch began and ended, the GPUs that were held, and what they cost."""
    stretch, charge = priced
    return {
        "slot": stretch.slot - first,
        "from_hours": stretch.from_hours - began,
        "to_hours": stretch.to_hours - began,
        **picked(stretch, "spot_gpus", "on_demand_gpus"),
        **picked(charge, "spot_usd", "on_demand_usd"),
    }


def _own_state(state: JobState, began: float) -> JobState:
    return state._replace(finish_hours=state.finish_hours - began)
