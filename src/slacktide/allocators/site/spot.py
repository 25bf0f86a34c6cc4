"""Which job holds which GPUs of which pool, what is left, and whose spot goes when the market takes some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class Claim(NamedTuple):
    """What one job holds in a pool."""

    job: str
    pool: str
    spot_gpus: int
    added_hours: float  # when some of the spot was last added, on the market's clock
    on_demand_gpus: int = 0


class Spot:
    """Who holds what where: what is left for a job, and whose spot goes when the market takes some back."""

    def __init__(self, claims: Iterable[Claim] = (), scarce: Mapping[str, int] | None = None) -> None:
        """`claims` are in the order in which their jobs were submitted.

        `scarce` is spot, by pool, that the market offers but no machine can provide; it counts as held.
        """
        self._scarce = scarce or {}
        self._claims: dict[str, Claim] = {}
        self._held: Counter[str] = Counter()
        self._on_demand: Counter[str] = Counter()
        for claim in claims:
            self.hold(claim)

    def hold(self, claim: Claim) -> None:
        """Let a job hold this from now on, and nothing else."""
        before = self._claims.get(claim.job)
        if before is not None:
            self._held[before.pool] -= before.spot_gpus
            self._on_demand[before.pool] -= before.on_demand_gpus
        self._claims[claim.job] = claim
        self._held[claim.pool] += claim.spot_gpus
        self._on_demand[claim.pool] += claim.on_demand_gpus

    def by_others(self, job: str) -> Mapping[str, int]:
        """Return the spot that jobs other than this one hold, by pool, with what no machine can provide."""
        own = self._claims.get(job)
        held = {
            pool: gpus - (own.spot_gpus if own is not None and own.pool == pool else 0)
            for pool, gpus in self._held.items()
        }
        return {**held, **{pool: held.get(pool, 0) + gpus for pool, gpus in self._scarce.items()}}

    def on_demand_by_others(self, job: str) -> Mapping[str, int]:
        """Return the on-demand GPUs that jobs other than this one hold, by pool."""
        own = self._claims.get(job)
        held = dict(self._on_demand)
        if own is not None:
            held[own.pool] -= own.on_demand_gpus
        return held

    def on_demand_of(self, jobs: Iterable[str]) -> int:
        """Return the on-demand GPUs that some jobs hold, also those not yet given back in pools they left."""
        names = (name for job in jobs for name in (job, f"{job} left"))
        return sum(self._claims[name].on_demand_gpus for name in names if name in self._claims)

    def outside(self, jobs: Collection[str]) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return the spot and the on-demand GPUs that all but these jobs hold, by pool.

        Spot that no machine can provide counts as held.
        """
        spot, on_demand = Counter(self._scarce), Counter[str]()
        among = frozenset(jobs)
        for job, claim in self._claims.items():
            if job not in among:
                spot[claim.pool] += claim.spot_gpus
                on_demand[claim.pool] += claim.on_demand_gpus
        return spot, on_demand

    def lose(self, pool: str, offered_gpus: int, jobs: Iterable[str]) -> None:
        """Take back, from these jobs, the spot of a pool that is held beyond what it offers.

        The job whose spot was added last loses first; of two at one moment, the one submitted later.
        """
        among = frozenset(jobs)
        here = [claim for job, claim in self._claims.items() if claim.pool == pool and job in among]
        here.sort(key=lambda one: one.added_hours)
        excess = self._held[pool] - offered_gpus
        for claim in reversed(here):
            taken = min(max(excess, 0), claim.spot_gpus)
            self.hold(claim._replace(spot_gpus=claim.spot_gpus - taken))
            excess -= taken

    def held(self, job: str) -> int:
        """Return the spot GPUs that a job holds; 0 for a job without a claim."""
        return self._claims[job].spot_gpus if job in self._claims else 0

    def safe_gpus(self, job: str) -> int:
        """Return how much the pool of a job must offer for the job to keep all the spot that it holds there.

        Jobs that added theirs later lose before it; of two at one moment, the one submitted later.
        """
        own = self._claims.get(job)
        if own is None or not own.spot_gpus:
            return 0
        names = list(self._claims)
        before = [
            claim.spot_gpus
            for at, claim in enumerate(self._claims.values())
            if claim.pool == own.pool and (claim.added_hours, at) <= (own.added_hours, names.index(job))
        ]
        return sum(before)

    def copy(self) -> Spot:
        """Return a copy; changes to it do not change this one."""
        return Spot(self._claims.values(), self._scarce)
