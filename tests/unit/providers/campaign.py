"""Keepers against a cloud with all its faults, killed at any write and any call: what comes out, counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from slacktide.journal.events import Rented, Returned
from slacktide.journal.state.tickets import Fact, MachineKind, MemoryMachineLog, Tickets
from slacktide.providers.base import Machine, Renter, Rules
from slacktide.providers.reconciler import Reconciler
from slacktide.testing.fake_provider import Cloud, Fake, Faults

MINUTE = 1.0 / 60.0
SPOT, ON_DEMAND = MachineKind("spot", "zone/big", 8), MachineKind("on-demand", "zone/big", 8)
RULES = Rules(
    usd_per_hour={SPOT[:2]: 12.0, ON_DEMAND[:2]: 32.0}, max_machines=6, max_usd_per_hour=120.0,
    join_within_hours=8 * MINUTE, first_wait_hours=MINUTE, longest_wait_hours=4 * MINUTE,
)  # fmt: skip
FAULTS = Faults(
    lost_share=0.1, throttled_share=0.05, late_hours=3 * MINUTE, full_share=0.1, full_hours=5 * MINUTE,
    interruptions_per_hour=0.6, dud_share=0.02,
)  # fmt: skip
CALM = Faults(late_hours=3 * MINUTE)
STORM, CALM_FROM, END_FROM, QUIET_FROM, STEPS = 0, 45, 70, 77, 85
"""Steps: faults and wishes of all kinds, calm and a steady wish, faults and no wish, calm."""
STEADY = {SPOT: 2, ON_DEMAND: 1}
CRASH_SHARE = 0.02


class Crash(Exception):
    """The controller is killed."""


class Fate:
    """Kills at any write and any call, before it or after it."""

    def __init__(self, seed: int) -> None:
        self._random, self.share, self.crashes = random.Random(seed), CRASH_SHARE, 0

    def strike(self) -> None:
        if self._random.random() < self.share:
            self.crashes += 1
            raise Crash


class Journal(MemoryMachineLog):
    """A diary that outlives keepers; a crash comes before a write or after it."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def note(self, *facts: Fact) -> None:
        self._fate.strike()
        super().note(*facts)
        self._fate.strike()


class Struck:
    """A provider whose caller may be killed before it is asked, or before it has heard the answer."""

    def __init__(self, inner: Fake, journal: Journal, fate: Fate) -> None:
        self._inner, self._journal, self._fate = inner, journal, fate

    def rent(self, ticket: str, spec: MachineKind) -> None:
        assert ticket in self._journal.tickets().open, "asked before it was written down"
        self._fate.strike()
        self._inner.rent(ticket, spec)
        self._fate.strike()

    def end(self, ids: Sequence[str]) -> None:
        self._fate.strike()
        self._inner.end(ids)
        self._fate.strike()

    def machines(self) -> Sequence[Machine]:
        self._fate.strike()
        return self._inner.machines()


class Life:
    """One seed: a journal, a cloud, and one keeper after the other."""

    def __init__(self, seed: int) -> None:
        self.hours, self._random, self.fate = 0.0, random.Random(seed + 10**6), Fate(seed + 2 * 10**6)
        self.cloud = Cloud(lambda: self.hours, seed=seed, faults=FAULTS, boot_hours=2 * MINUTE)
        self.journal = Journal(self.fate)
        self.other = Fake(Renter(owner="another"), cloud=self.cloud)
        self._provider = Struck(Fake(Renter(owner="own"), cloud=self.cloud), self.journal, self.fate)
        self._keeper: Reconciler | None = None
        self._want: dict[MachineKind, int] = {}
        self.counts: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        self._rent_for_another()
        for step in range(STEPS):
            self._steer(step)
            self._step()
            self._check()
            self.hours += MINUTE
        self._settle()
        return self.counts

    def _rent_for_another(self) -> None:
        """Let there be a machine of an old journal, which is none of ours."""
        faults, self.cloud.faults = self.cloud.faults, Faults()
        self.other.rent("1-old", ON_DEMAND)
        self.cloud.faults = faults

    def _steer(self, step: int) -> None:
        if step == END_FROM:
            self._check_steady()
        if step in (STORM, END_FROM):
            self.fate.share, self.cloud.faults = CRASH_SHARE, FAULTS
        elif step in (CALM_FROM, QUIET_FROM):
            self.fate.share, self.cloud.faults = 0.0, CALM
        if step >= CALM_FROM:
            self._want = STEADY if step < END_FROM else {}
        elif self._random.random() < 0.2:
            self._want = {SPOT: self._random.randrange(9), ON_DEMAND: self._random.randrange(5)}

    def _step(self) -> None:
        try:
            if self._keeper is None:
                self._keeper = Reconciler(self._provider, self.journal, RULES, token="t")
            stock = self._keeper.step(self._want, self.hours)
            self.counts["found full"] += len(stock.full)
            self.counts["held back by a limit"] += "max_" in stock.trouble
            self.counts["too many"] += stock.listed and any(
                count > self._want.get(spec, 0) for spec, count in self._held().items()
            )
        except Crash:
            self.counts["crashes"] += 1
            self._keeper = None

    def _held(self) -> Counter[MachineKind]:
        return Counter(ticket.spec for ticket in self.journal.tickets().open.values())

    def _check_steady(self) -> None:
        """See that a calm time is enough to have just what is wanted, whatever was before."""
        alive = Counter(one.spec for one in self.cloud.living if one.owner == "own" and not one.dud)
        self.counts["not as wanted"] += dict(alive) != STEADY or dict(self._held()) != STEADY

    def _check(self) -> None:
        ours = [one for one in self.cloud.living if one.owner == "own"]
        tickets = [one.ticket for one in ours]
        self.counts["doubled"] += len(tickets) - len(set(tickets))
        usd = sum(RULES.price(one.spec) for one in ours)
        self.counts["limits passed"] += len(ours) > RULES.max_machines or usd > RULES.max_usd_per_hour

    def _settle(self) -> None:
        assert replayed(self.journal) == self.journal.tickets()
        ours = [one for one in self.cloud.instances.values() if one.owner == "own"]
        alive = {one.owner for one in self.cloud.living}
        self.counts["leaked"] += sum(one.owner == "own" for one in self.cloud.living)
        self.counts["another's ended"] += "another" not in alive
        self.counts["left open"] += len(self.journal.tickets().open)
        self.counts["machines"] += len(ours)
        self.counts["duds"] += sum(one.dud for one in ours)
        self.counts["interrupted"] += sum(one.why == "interrupted" for one in ours)
        rented = {fact.ticket: fact for fact in self.journal.facts if isinstance(fact, Rented)}
        returned = {fact.ticket: fact for fact in self.journal.facts if isinstance(fact, Returned)}
        self.counts["tickets"] += len(rented)
        self.counts["never written"] += sum(one.ticket not in rented for one in ours)
        for one in ours:
            told = returned[one.ticket].at_hours - rented[one.ticket].at_hours
            billed = min(one.ended_hours, self.hours) - one.made_hours
            self.counts["billed s"] += round(billed * 3600)
            self.counts["told s"] += round(told * 3600)
            self.counts["off s"] += round(abs(told - billed) * 3600)


def replayed(journal: Journal) -> Tickets:
    """Fold the facts of a journal again."""
    tickets = Tickets()
    for fact in journal.facts:
        tickets.apply(fact)
    return tickets


def campaign(seeds: int) -> Counter[str]:
    """Live through as many lives as there are seeds, and add up what was counted."""
    total: Counter[str] = Counter()
    for seed in range(seeds):
        total.update(Life(seed).run())
    return total
