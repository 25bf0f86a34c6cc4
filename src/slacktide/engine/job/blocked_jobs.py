"""Notes what blocks single jobs, and writes it to the journal when it changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slacktide.core.errors import PolicyError, SlacktideError
from slacktide.core.types import Allocation, Reason
from slacktide.journal.events import Blocked, Event, Unblocked
from slacktide.journal.state.journal_state import JobRecord
from slacktide.policies.view import Policy, View, goes_where_it_may, stays_in

Source: TypeAlias = Literal["market", "launch", "machine", "policy"]
"""What blocks a job: its market or file cannot be opened, the start of its workers cannot be prepared, the
machine that they run on has trouble, or its policy or allocator fails."""

FAILED = Reason("policy-failed")


class Troubles:
    """What is known to be wrong with each job now."""

    def __init__(self) -> None:
        self._found: dict[str, dict[Source, str]] = {}

    def note(self, job: str, source: Source, why: str) -> None:
        """Note what is wrong; an empty `why` says that nothing is any more."""
        if why:
            self._found.setdefault(job, {})[source] = why
        elif job in self._found:
            self._found[job].pop(source, None)
            if not self._found[job]:
                del self._found[job]

    def of(self, job: str) -> str:
        """Return everything that is wrong with a job, in one sentence; empty when nothing is."""
        return "; ".join(self._found.get(job, {}).values())

    def has(self, job: str, source: Source) -> bool:
        """Whether a job has trouble of this source."""
        return source in self._found.get(job, {})

    def having(self, source: Source) -> list[str]:
        """Return the jobs that have trouble of this source."""
        return [job for job, found in self._found.items() if source in found]

    def news(self, records: Iterable[JobRecord], at_hours: float) -> list[Event]:
        """Return the events for jobs whose trouble is new, has changed or is over."""
        news: list[Event] = []
        for record in records:
            why = self.of(record.job)
            if why and why != record.progress.blocked:
                news.append(Blocked(job=record.job, at_hours=at_hours, why=why))
            elif record.progress.blocked and not why:
                news.append(Unblocked(job=record.job, at_hours=at_hours))
        return news


def error_text(error: Exception) -> str:
    """Return the text of an error, with its class if it is not one of Slacktide's."""
    return str(error) if isinstance(error, SlacktideError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class FailsafePolicy:
    """Calls the policy of one job; if that fails, the job keeps what it holds and other jobs go on."""

    policy: Policy
    troubles: Troubles

    def decide(self, view: View) -> Allocation:
        """Return what the policy wants, or what is held now if the policy fails."""
        try:
            wish = self.policy.decide(view)
            if view.places is None:
                stays_in(wish, view.pools[view.pool].name, view.id)
            else:
                goes_where_it_may(wish, [pool.name for pool in view.pools], view.id)
        except Exception as error:
            inner = error.__cause__ if isinstance(error, PolicyError) else None  # what went wrong in a policy
            met = inner if isinstance(inner, Exception) else error
            self.troubles.note(view.id, "policy", f"its policy failed: {error_text(met)}")
            held = view.state
            return Allocation(held.spot_gpus, held.on_demand_gpus, reason=FAILED, memory=view.memory)
        self.troubles.note(view.id, "policy", "")
        return wish
