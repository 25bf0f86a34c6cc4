"""The contexts of all jobs of a journal, opened when a job comes or when one is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slacktide.engine.job.blocked_jobs import Troubles
from slacktide.engine.job.changed_market import check_unchanged, market_now
from slacktide.engine.job.job_context import JobContext, context_without_market
from slacktide.journal.events import Submitted
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.market.live.feed import Feed

KEPT_CONTEXTS = 64
"""How many jobs that ended keep their context: the bill of a job is mostly wanted soon after its end."""


class JobContexts:
    """The context of each job by its id."""

    def __init__(
        self, state: JournalState, open_one: Callable[[Submitted], JobContext], troubles: Troubles
    ) -> None:
        self._state, self._open, self._troubles = state, open_one, troubles
        self._found: dict[str, JobContext] = {}

    def __contains__(self, job: object) -> bool:
        return job in self._found

    def add(self, submitted: Submitted) -> JobContext:
        """Open the context of a job that is not in the journal yet."""
        self._found[submitted.job] = self._open(submitted)
        return self._found[submitted.job]

    def drop(self, job: str) -> None:
        """Forget a job that was not taken in after all."""
        del self._found[job]

    def drop_ended(self) -> None:
        """Forget all but the last jobs that ended: a controller may run for months."""
        # The first job of a fleet says which pool and slots its machines are billed in, also after its end.
        needed = {*self._state.unended, *(fleet.first.job for fleet in self._state.fleets.values())}
        for job in [job for job in self._found if job not in needed][:-KEPT_CONTEXTS]:
            del self._found[job]

    def of(self, record: JobRecord) -> JobContext:
        """Return a job's context in the pool in which its workers are to be, or where it was last.

        Raises InputError where its market or file cannot be opened, or has changed since the job began.
        """
        if record.job not in self._found:
            context = self._open(record.submitted)
            market = market_now(record.submitted.market, context.feed)
            if record.active and market is not None:
                check_unchanged(self._state.site, market)
            self._found[record.job] = context
        context = self._found[record.job]
        return (
            context.at(record.progress.state.pool)
            if record.holding.order is None
            else context.named(record.holding.order.pool)
        )

    def named(self, job: str) -> JobContext:
        """Return the context of a job that is being taken in or was."""
        return self._found[job] if job in self._found else self.of(self._state.jobs[job])

    def able(self) -> list[JobRecord]:
        """Return the jobs that can go on; one without its market can be cancelled, at its last quote."""
        stuck, able = set(self._troubles.having("market")), []
        for record in self._state.active:
            if record.job in stuck and not record.requests.cancelled:
                continue
            if record.job in stuck and record.holding.begun is not None:
                self._found[record.job] = context_without_market(record.submitted, record.holding.begun.quote)
                self._troubles.note(record.job, "market", "")
            able.append(record)
        return able

    def feeds(self) -> Iterator[Feed]:
        """Yield the feed of each open job whose market is still being written."""
        return (context.feed for context in self._found.values() if context.feed is not None)
