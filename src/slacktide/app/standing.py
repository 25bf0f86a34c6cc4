"""Where a controller's jobs stand at a moment: what the journal tells, and the stretch that each is in."""

from __future__ import annotations

from slacktide.app.controller import Controller
from slacktide.app.listing import elapsed_hours, held_by, policy_of, status_of
from slacktide.engine.account import Account
from slacktide.engine.bill import on_demand_alone
from slacktide.engine.lane import Lane
from slacktide.engine.world import Track
from slacktide.ledger import added
from slacktide.report.live.rows import Standing
from slacktide.types import Quote

SHOWN_SLOTS = 120
"""More slots of the past than most terminals have room for."""


class Standings:
    """Looks at the jobs of a controller as often as they are to be shown."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._alone_usd: dict[str, float | None] = {}

    def of(self, job: str, now_hours: float) -> Standing | None:
        """Say where a job stands now; None where its market is gone, so that nobody can say."""
        engine, track = self._controller.engine, self._controller.world.jobs[job]
        if engine.troubles.has(job, "market"):
            return None
        lane, one, facts = engine.lane(track), engine.account(track, now_hours), engine.facts.get(job)
        bill = track.bill if one is None else added(track.bill, one.priced)
        state, held = track.state if one is None else one.state, held_by(track)
        return Standing(
            name=job,
            job=lane.job,
            policy=policy_of(track),
            pool=lane.market_pool.name,
            status=status_of(track, self._controller.world, in_charge=True),
            health=track.health,
            hours=elapsed_hours(track, now_hours),
            quotes=_quotes(lane, lane.slot(_shown_until(track, now_hours))),
            spot_gpus=held.spot_gpus,
            on_demand_gpus=held.on_demand_gpus,
            progress_gpu_hours=state.progress_gpu_hours,
            estimated=track.estimated if one is None else _is_estimate(track, one),
            spot_usd=bill.spot_usd,
            on_demand_usd=bill.on_demand_usd,
            on_demand_alone_usd=self._whole_usd(job, lane),
            metrics={} if facts is None else facts.metrics,
        )

    def _whole_usd(self, job: str, lane: Lane) -> float | None:
        """Return what the whole work would cost on demand, worked out once."""
        if job not in self._alone_usd:
            run = on_demand_alone(lane)
            self._alone_usd[job] = None if run is None else run.cost_usd
        return self._alone_usd[job]


def _is_estimate(track: Track, one: Account) -> bool:
    """Whether real workers never reported how much is done; in a dry run nobody does."""
    return one.priced.stretch.estimated and track.held is not None


def _shown_until(track: Track, now_hours: float) -> float:
    return track.began_hours + elapsed_hours(track, now_hours)


def _quotes(lane: Lane, slot: int) -> list[Quote]:
    """Return what the market offered in the last slots, the present one last, also before the job began."""
    first = max(0, slot - SHOWN_SLOTS + 1)
    return [lane.quote(each) for each in range(first, slot + 1)]
