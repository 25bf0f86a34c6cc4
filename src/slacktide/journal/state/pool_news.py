"""What befell jobs in each pool last: spot that was taken back, and spot that was wanted and not there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.journal.events import Decided, Preempted


class PoolNews(NamedTuple):
    """The last of each in one pool, on the market's clock; None: it never happened."""

    taken_hours: float | None = None
    taken_gpus: int = 0  # how many spot GPUs the market took back then
    refused_hours: float | None = None
    refused_gpus: int = 0  # how many spot GPUs were wanted then; there were fewer


@dataclass(slots=True)
class PoolsNews:
    """A fold over the events of jobs."""

    pools: dict[str, PoolNews] = field(default_factory=dict)

    def apply(self, event: Preempted | Decided, pool: str) -> None:
        """Take an event of a job into account that was in this pool."""
        if isinstance(event, Preempted):
            if event.actor == "market" and event.spot_left < event.spot_before:
                gpus = event.spot_before - event.spot_left
                self._note(pool, taken_hours=event.at_hours, taken_gpus=gpus)
        elif event.wanted_spot_gpus > 0 and _is_refused(event):
            where, gpus = event.wanted_pool or event.pool, event.wanted_spot_gpus
            self._note(where, refused_hours=event.at_hours, refused_gpus=gpus)

    def _note(self, pool: str, **news: float | int) -> None:
        self.pools[pool] = self.pools.get(pool, PoolNews())._replace(**news)  # type: ignore[arg-type]


def _is_refused(event: Decided) -> bool:
    """Whether the spot of the first wish was not there; on-demand GPUs that are not there are no spot."""
    if event.missed:
        return 0 not in event.unstocked
    return event.wanted_spot_gpus > event.spot_gpus
