"""Events as lines of text for terminals and logs, and as JSON: when, who, what and why."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from slacktide.events import Decided, Event, Lived, Opened, Preempted, Record, Submitted
from slacktide.report import words
from slacktide.report.run_sentences import sentence
from slacktide.report.run_words import since
from slacktide.types import JobState


class Teller:
    """Tells the events of a journal one line each, in the journal's order.

    It remembers when each job began, so that times are on the job's own clock, and what was told last of
    it, so that `news` can leave out what only goes on.
    """

    def __init__(self, *, named: bool = False) -> None:
        """Say whether each line names its job: needed where there are several."""
        self.named = named
        self._began: dict[str, float] = {}
        self._last: dict[str, str] = {}

    def know(self, job: str, began_hours: float) -> None:
        """Be told when a job began whose submission is not told."""
        self._began[job] = began_hours

    def line(self, event: Event) -> str:
        """Return the line of an event."""
        if isinstance(event, Submitted):
            self._began[event.job] = event.at_hours
        hours = event.at_hours - self._began.get(event.job, 0.0)
        name = f"{words.plain(event.job, 24):<14}  " if self.named else ""
        return f"{since(hours):>8}  {name}{event.actor:<6}  {sentence(event)}"

    def news(self, event: Event) -> str | None:
        """Return the line of an event; None when it says only that all goes on as it was."""
        line = self.line(event)
        if isinstance(event, Lived):
            return None
        if isinstance(event, Preempted):
            self._last.pop(event.job, None)  # what is held now is news, even when nothing is done about it
        if isinstance(event, Decided):
            before, self._last[event.job] = self._last.get(event.job), event.why
            held = event.state.spot_gpus, event.state.on_demand_gpus
            same = held == (event.spot_gpus, event.on_demand_gpus) and event.why == before
            return None if same and event.ending is None else line
        return line


def as_json(record: Record, submitted: Submitted | None = None) -> dict[str, Any]:
    """Return an event under its documented keys: its place, its kind, its own fields, and its sentence.

    Hours and slots inside an event of a job count from its own beginning, which its submission tells.
    """
    event = record.event
    began, first = (0.0, 0) if submitted is None else (submitted.at_hours, submitted.start_slot)
    return {
        "seq": record.seq,
        "time_utc": record.time_utc.isoformat().replace("+00:00", "Z"),
        "kind": type(event).__name__,
        "elapsed_hours": event.at_hours - began,
        **{name: _plain(value) for name, value in _fields(event, began, first).items()},
        "says": sentence(event),
    }


def _fields(event: Event, began: float, first: int) -> dict[str, Any]:
    """Return the fields of an event as users read them: a stretch lies open, and a job counts for itself."""
    common = {field.name: getattr(event, field.name) for field in dataclasses.fields(Event)}
    own = {name: getattr(event, name) for name in event.__dataclass_fields__ if name not in common}
    match event:
        case Lived():
            own = _stretch(event, began, first)
        case Decided():
            order = ("slot", "quote", "state", "spot_gpus", "on_demand_gpus", "wanted_spot_gpus")
            own = {
                **{name: own[name] for name in order},
                "wanted_on_demand_gpus": event.wanted_on_demand_gpus,
                "from_hours": event.at_hours - began,
                **{name: own[name] for name in ("signals", "memory", "attempt", "ending")},
                "slot": event.slot - first,
                "state": _own_state(event.state, began),
            }
        case Preempted():
            own["slot"] = event.slot - first
        case Submitted():
            for name in _unsaid(event):
                del own[name]
        case Opened() if event.backend == "local":
            del own["backend"]
    return {**common, **own}


def _unsaid(event: Submitted) -> tuple[str, ...]:
    """Return the fields that a journal of before does not have, where they are absent."""
    absent = {
        "work_gpu_hours": event.work_gpu_hours == 0,
        "deadline_hours": event.work_gpu_hours == 0,
        "origin_hours": event.origin_hours is None,
        "key": not event.key,
    }
    return tuple(name for name, is_absent in absent.items() if is_absent)


def _stretch(event: Lived, began: float, first: int) -> dict[str, Any]:
    stretch, charge = event.priced
    return {
        "slot": stretch.slot - first,
        "from_hours": stretch.from_hours - began,
        "to_hours": stretch.to_hours - began,
        "spot_gpus": stretch.spot_gpus,
        "on_demand_gpus": stretch.on_demand_gpus,
        "spot_usd": charge.spot_usd,
        "on_demand_usd": charge.on_demand_usd,
        "pause_hours": stretch.pause_hours,
        "productive_hours": stretch.productive_hours,
        "state": _own_state(event.state, began),
    }


def _own_state(state: JobState, began: float) -> JobState:
    return state._replace(finish_hours=state.finish_hours - began)


def _plain(value: Any) -> Any:
    """Return a field as JSON holds it: NamedTuples by name, null for what is infinite."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
