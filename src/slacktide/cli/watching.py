"""A live session as the view shows it: events become lines, tracks become standings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from slacktide.cli.beside import on_demand_alone
from slacktide.cli.journals import elapsed_hours, policy_of, status_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slacktide.backend.local.progress import Tail
    from slacktide.engine.lane import Lane
    from slacktide.engine.world import Track
    from slacktide.events import Event
    from slacktide.report.run_live import Screen
    from slacktide.report.run_rows import Standing
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
        from slacktide.report.run_lines import Teller

        self._session, self._jobs, self._screen, self._note = session, tuple(jobs), screen, note
        self._teller = Teller(named=len(jobs) > 1)
        self._seq = 0
        self._said = ""
        self._alone_usd = {job: self._whole_usd(job) for job in jobs}
        self._tails: dict[str, Tail] = {}

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
        from slacktide.report.run_view import frame

        standings = [self._standing(self._session.world.jobs[job], now_hours) for job in self._jobs]
        return frame(standings, lines, speed=self._session.clock.speed, note=self._note())

    def _standing(self, track: Track, now_hours: float) -> Standing:
        """Say where a job stands now: what the journal tells, and since then what the back end sees."""
        from slacktide.report.run_rows import Standing

        lane, hours = self._session.engine.lane(track), elapsed_hours(track, now_hours)
        state, spot_usd, on_demand_usd = track.state, track.spot_usd, track.on_demand_usd
        spot = on_demand = 0
        if track.order is not None:
            seen = self._session.engine.backend.look(track.order, max(hours, track.order.from_hours))
            state, spot, on_demand = seen.state, track.order.spot_gpus, track.order.on_demand_gpus
            spot_usd, on_demand_usd = spot_usd + seen.spot_usd, on_demand_usd + seen.on_demand_usd
        return Standing(
            name=track.job,
            job=lane.job,
            policy=policy_of(track),
            pool=lane.pool.name,
            status=status_of(track, self._session.world),
            health=track.health,
            hours=hours,
            quotes=_quotes(lane, lane.slot(hours)),
            spot_gpus=spot,
            on_demand_gpus=on_demand,
            progress_gpu_hours=state.progress_gpu_hours,
            spot_usd=spot_usd,
            on_demand_usd=on_demand_usd,
            on_demand_alone_usd=self._alone_usd[track.job],
            metrics=self._metrics(track.job),
        )

    def _whole_usd(self, job: str) -> float | None:
        curve = on_demand_alone(self._session.engine.lane(self._session.world.jobs[job]))
        return None if curve is None else float(curve.amount[-1])

    def _metrics(self, job: str) -> Mapping[str, float]:
        """Return what the job's workers last said of it, such as its loss."""
        import time

        from slacktide.backend.local.folder import progress_path
        from slacktide.backend.local.progress import Tail
        from slacktide.running import runs_of

        if job not in self._tails:
            path = progress_path(runs_of(self._session.journal) / job)
            self._tails[job] = Tail(path, time.monotonic())
        self._tails[job].poll(time.monotonic())
        return self._tails[job].progress.metrics


def _quotes(lane: Lane, slot: int) -> list[Quote]:
    """Return what the market offered in the last slots, the present one last, also before the job began."""
    first = max(-lane.start_slot, slot - SHOWN_SLOTS + 1)
    return [lane.quote(each) for each in range(first, slot + 1)]
