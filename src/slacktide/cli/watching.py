"""A live session as the view shows it: events become lines, tracks become standings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slacktide.cli.journals import elapsed_hours, policy_of, status_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slacktide.engine.lane import Lane
    from slacktide.engine.world import Track
    from slacktide.events import Event
    from slacktide.report.live.rows import Standing
    from slacktide.report.live.screen import Screen
    from slacktide.running import Session
    from slacktide.types import Quote

SHOWN_SLOTS = 120
"""More slots of the past than most terminals have room for."""


class Watch:
    """Shows a session on a screen: call it with the time as often as the session goes round."""

    def __init__(
        self, session: Session, jobs: Sequence[str], screen: Screen, note: Callable[[], str]
    ) -> None:
        """Watch these jobs; `note` says what is to be said above all else, or nothing."""
        from slacktide.report.live.lines import Teller

        self._session, self._jobs, self._screen, self._note = session, tuple(jobs), screen, note
        self._teller = Teller(named=len(jobs) > 1)
        self._seq = 0
        self._said = ""
        self._alone_usd = {job: self._whole_usd(job) for job in jobs}

    def __call__(self, now_hours: float) -> None:
        """Show what is new, and where things stand."""
        self._tell_news()
        over = self._session.engine.idle
        self._screen.draw(lambda lines: self._picture(lines, now_hours), now=over)

    def _tell_news(self) -> None:
        told = [self._line(record.seq, record.event) for record in self._session.store.read(after=self._seq)]
        news = [line for line in told if line is not None]
        if self._note() != self._said:
            self._said = self._note()
            news.append(f"{'':8}  {self._said}")
        if news:
            self._screen.tell(news)

    def _line(self, seq: int, event: Event) -> str | None:
        """Return the line of an event if it is news of a job that is watched."""
        self._seq = seq
        line = self._teller.news(event)
        return line if event.job in self._jobs or not event.job else None

    def _picture(self, lines: Sequence[str], now_hours: float) -> RenderableType:
        from slacktide.report.live.view import frame

        standings = [self._standing(self._session.world.jobs[job], now_hours) for job in self._jobs]
        return frame(standings, lines, speed=self._session.clock.speed, note=self._note())

    def _standing(self, track: Track, now_hours: float) -> Standing:
        """Say where a job stands now: what the journal tells, and the stretch that it is in."""
        from slacktide.ledger import added
        from slacktide.report.live.rows import Standing

        engine, order = self._session.engine, track.order
        lane, one, facts = engine.lane(track), engine.account(track, now_hours), engine.facts.get(track.job)
        bill = track.bill if one is None else added(track.bill, one.priced)
        state = track.state if one is None else one.state
        return Standing(
            name=track.job,
            job=lane.job,
            policy=policy_of(track),
            pool=lane.market_pool.name,
            status=status_of(track, self._session.world),
            health=track.health,
            hours=elapsed_hours(track, now_hours),
            quotes=_quotes(lane, lane.slot(_shown_until(track, now_hours))),
            spot_gpus=order.spot_gpus if order else 0,
            on_demand_gpus=order.on_demand_gpus if order else 0,
            progress_gpu_hours=state.progress_gpu_hours,
            spot_usd=bill.spot_usd,
            on_demand_usd=bill.on_demand_usd,
            on_demand_alone_usd=self._alone_usd[track.job],
            metrics={} if facts is None else facts.metrics,
        )

    def _whole_usd(self, job: str) -> float | None:
        from slacktide.engine.bill import on_demand_alone

        run = on_demand_alone(self._session.engine.lane(self._session.world.jobs[job]))
        return None if run is None else run.cost_usd


def _shown_until(track: Track, now_hours: float) -> float:
    return track.began_hours + elapsed_hours(track, now_hours)


def _quotes(lane: Lane, slot: int) -> list[Quote]:
    """Return what the market offered in the last slots, the present one last, also before the job began."""
    first = max(0, slot - SHOWN_SLOTS + 1)
    return [lane.quote(each) for each in range(first, slot + 1)]
