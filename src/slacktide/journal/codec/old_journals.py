"""Journals of earlier versions, read as today's: events of form 1 and 2 in the present form.

Form 2 kept policies, markets and the memory of allocators as JSON text inside the JSON of an event.

Form 1 counted hours and slots from each job's own beginning and kept a stretch's money without its quote. So
a reader remembers when each job began and its last decision, and looks them up if it began to read after
them. Money stays as it was paid.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from slacktide.journal.codec.json_forms import FormMismatch

Tree: TypeAlias = dict[str, Any]
Find: TypeAlias = Callable[[str, str, int], Tree | None]
"""Returns the last event of a job and kind before a number, as it is written; None when there is none."""

JSON_TEXTS = {
    "SubmissionAsked": ("policy",),
    "Submitted": ("policy", "market"),
    "SiteOpened": ("market",),
    "Remembered": ("memory",),
}  # fields whose value was JSON text before form 3; empty text where there is none
COMMON = ("kind", "job", "at_hours", "actor", "why")  # what every event has


def with_values(tree: Tree) -> Tree:
    """Return an event of form 1 or 2 with its JSON texts as values; raises FormMismatch for other text."""
    found = tree.copy()
    for name in JSON_TEXTS.get(tree["kind"], ()):
        if name in tree:
            found[name] = _meant(name, tree[name])
    return found


def _meant(name: str, text: Any) -> Any:
    if not isinstance(text, str):
        raise FormMismatch("text", text, name)
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        raise FormMismatch("JSON", text, name) from None


@dataclass(slots=True)
class _OldJob:
    began_hours: float
    start_slot: int
    pool: str
    decided: Tree | None = None


@dataclass(slots=True)
class OldJournal:
    """Turns events of form 1 into the present form, in the journal's order."""

    find: Find
    _jobs: dict[str, _OldJob] = field(default_factory=dict)

    def today(self, seq: int, tree: Tree) -> Tree:
        """Return an event as today's Slacktide would have written it; a damaged one as it is."""
        try:
            return self._today(seq, tree)
        except (KeyError, TypeError, AttributeError):
            return tree  # the codec reports what is wrong with it

    def _today(self, seq: int, tree: Tree) -> Tree:
        job = tree.get("job", "")
        match tree.get("kind"):
            case "Submitted":
                self._jobs[job] = _submitted(tree)
            case "Preempted":
                return {**tree, "slot": tree["slot"] + self._of(job, seq).start_slot}
            case "Decided":
                job_then = self._of(job, seq)
                job_then.decided = tree
                return _decided(tree, job_then)
            case "Lived":
                return _lived(tree, self._of(job, seq))
        return tree

    def _of(self, job: str, seq: int) -> _OldJob:
        if job not in self._jobs:
            job_then = self._jobs[job] = _submitted(self.find(job, "Submitted", seq) or {})
            job_then.decided = self.find(job, "Decided", seq)
        return self._jobs[job]


def _submitted(tree: Tree) -> _OldJob:
    return _OldJob(tree.get("at_hours", 0.0), tree.get("start_slot", 0), tree.get("pool", ""))


def _decided(tree: Tree, job_then: _OldJob) -> Tree:
    kept = {name: value for name, value in tree.items() if name != "from_hours"}
    slot = tree["slot"] + job_then.start_slot
    return {**kept, "slot": slot, "pool": job_then.pool, "state": _state(tree["state"], job_then)}


def _lived(tree: Tree, job_then: _OldJob) -> Tree:
    hours = tree["to_hours"] - tree["from_hours"]
    gpus = tree["spot_gpus"] + tree["on_demand_gpus"]
    decided = job_then.decided or {}
    stretch = {
        "payer": tree["job"],
        "use": "work",
        "slot": tree["slot"] + job_then.start_slot,
        "from_hours": job_then.began_hours + tree["from_hours"],
        "to_hours": job_then.began_hours + tree["to_hours"],
        "held_hours": hours if gpus else 0.0,
        "pool": job_then.pool,
        "spot_gpus": tree["spot_gpus"],
        "on_demand_gpus": tree["on_demand_gpus"],
        "quote": decided.get("quote"),
        "pause_hours": tree["pause_hours"],
        "productive_hours": tree["productive_hours"],
    }
    charge = {"usd": tree["spot_usd"] + tree["on_demand_usd"], "on_demand_usd": tree["on_demand_usd"]}
    common: Tree = {name: tree[name] for name in COMMON if name in tree}
    return {
        **common,
        "priced": {"stretch": stretch, "charge": charge},
        "state": _state(tree["state"], job_then),
    }


def _state(state: Tree, job_then: _OldJob) -> Tree:
    finish = state.get("finish_hours", "inf")
    return state if isinstance(finish, str) else {**state, "finish_hours": finish + job_then.began_hours}
