"""A site lived through with requests, absences, and controllers that die at their writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from hypothesis import strategies as st

from campaigns.lives import mixed
from campaigns.lives.mixed import Site
from campaigns.lives.site import SLOT_HOURS, SLOTS, jobs
from slacktide.backends.replay import Replay
from slacktide.core.types import Job
from slacktide.engine.engine import Engine
from slacktide.journal.events import CancellationAsked, Event, PreemptionAsked, Record
from slacktide.journal.store.base import MemoryStore

LAST_SLOT = 8 * SLOTS
"""By then every job of a site has ended: all are submitted within the first slots."""


class Killed(Exception):
    """The controller died here."""


class Fragile(MemoryStore):
    """A journal whose controller dies at some writes: before those with an odd number, after the others."""

    def __init__(self, deaths: frozenset[int]) -> None:
        super().__init__()
        self._deaths, self._writes = deaths, 0

    def append(self, events: Iterable[Event]) -> list[Record]:
        """Write, unless the controller dies before."""
        self._writes += 1
        dies = self._writes in self._deaths
        if dies and self._writes % 2:
            raise Killed
        records = super().append(events)
        if dies:
            raise Killed
        return records


@dataclasses.dataclass(frozen=True)
class Life:
    """A site and all that happens to it."""

    site: Site
    looks_a_slot: int
    late_hours: float
    """How long after a slot's border it is looked at."""
    asked: tuple[tuple[int, int, int | None], ...]
    """Before which look, of which job, how many spot GPUs are to be taken; None: cancel it."""
    deaths: frozenset[int]
    """The writes at which controllers die."""
    absent: frozenset[int]
    """The slots in which nobody looks."""


@st.composite
def tasks(draw: st.DrawFn) -> Job:
    """Draw a job with any billing, and often with a maximum cost."""
    money = st.none() | st.floats(0.5, 30.0) | st.sampled_from([1.0, 4.0])
    return dataclasses.replace(
        draw(jobs()), max_cost_usd=draw(money), billing=draw(st.sampled_from(["second", "slot"]))
    )


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Draw a life."""
    site = draw(mixed.sites(tasks()))
    looks = draw(st.sampled_from([1, 3]))
    requests = st.tuples(
        st.integers(0, 12 * looks), st.integers(0, len(site.job_contexts) - 1), st.none() | st.integers(1, 5)
    )
    return Life(
        site,
        looks,
        draw(st.sampled_from([0.0, 0.03])),
        tuple(draw(st.lists(requests, max_size=4))),
        draw(st.frozensets(st.integers(1, 80), max_size=6)),
        draw(st.frozensets(st.integers(1, 12), max_size=4)),
    )


class Lived:
    """What became of a life."""

    def __init__(self, life: Life) -> None:
        self.life, self.store, self.deaths = life, Fragile(life.deaths), 0
        self.engine = self._engine()
        self._live()

    def _live(self) -> None:
        site, looks = self.life.site, self.life.looks_a_slot
        ticks = {tick * SLOT_HOURS / looks + self.life.late_hours for tick in range(LAST_SLOT * looks)}
        arrivals = {context.terms.submitted_hours for context in site.job_contexts.values()}
        for number, now in enumerate(sorted(ticks | arrivals)):
            self._look(number, now)
            if len(self.engine.state.jobs) == len(site.job_contexts) and not self.engine.state.active:
                break
        while not self._survive(self._close):
            pass

    def _look(self, number: int, now: float) -> None:
        for job, context in self.life.site.job_contexts.items():
            if context.terms.submitted_hours == now:
                self._submit(job)
        for event in self._asked(number, now):
            MemoryStore.append(self.store, [event])  # by somebody else, who does not die
        if int(now / SLOT_HOURS) not in self.life.absent:
            while not self._survive(lambda: self.engine.step(now)):
                pass

    def _close(self) -> None:
        self.engine.close()

    def _submit(self, job: str) -> None:
        while job not in self.engine.state.jobs:
            self._survive(lambda: self.engine.submit(self.life.site.submitted(job)))

    def _asked(self, number: int, now: float) -> Iterable[Event]:
        names = list(self.life.site.job_contexts)
        for when, which, gpus in self.life.asked:
            record = self.engine.state.jobs.get(names[which])
            if when == number and record is not None and record.active:
                yield (
                    CancellationAsked(job=record.job, at_hours=now)
                    if gpus is None
                    else PreemptionAsked(job=record.job, at_hours=now, spot_gpus=gpus)
                )

    def _survive(self, act: Callable[[], object]) -> bool:
        """Do something; if the controller dies of it the next one takes charge, and False is returned."""
        try:
            act()
        except Killed:
            self.deaths += 1
            self.engine = self._engine()
            self.engine.recover()
            return False
        return True

    def _engine(self) -> Engine:
        site = self.life.site
        return Engine(
            self.store, Replay(), open_job=lambda one: site.job_contexts[one.job], open_fleet=site.opened
        )
