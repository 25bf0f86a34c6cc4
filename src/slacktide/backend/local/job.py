"""One job on this machine: the last order, the workers that there are, and the way from these to that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from slacktide.backend.local import environment, folder
from slacktide.backend.local.band import Band
from slacktide.backend.local.launch import Kind, Launch
from slacktide.backend.local.machine import MARKER
from slacktide.backend.local.progress import Tail
from slacktide.backend.local.setup import Setup
from slacktide.backend.local.sighting import Phase, Sighting
from slacktide.backend.local.supervisor import spawn
from slacktide.backend.local.worker import Worker
from slacktide.errors import BackendError

RETRY_S = 1.0
"""How long to wait after the system could not start something."""


class Order(NamedTuple):
    """What is to be held."""

    attempt: int
    kinds: tuple[Kind, ...]
    not_before: float
    void: bool = False
    """Whether the market took its workers before they began."""


class Job:
    """A job's folder, its processes, and what was ordered for it."""

    def __init__(self, place: Path, prefix: str, base: Mapping[str, str], now: float) -> None:
        self.launch: Launch | None = None
        self.order: Order | None = None
        self.band: Band | None = None
        self.intent: folder.Intent | None = None
        """What the band was written down as."""
        self.going: list[Band] = []
        """What an earlier controller left behind and nobody wants."""
        self.setup = Setup(place, f"{prefix}/setup/0")
        self.place = place
        self.prefix = prefix
        self._base = base
        self._tail = Tail(folder.progress_path(place), now)
        self._began_at = now
        self._retry_at = -math.inf

    def advance(self, now: float, pick_devices: Callable[[int], tuple[str, ...]]) -> None:
        """Take the next steps from what there is to what was ordered; raises BackendError if one fails."""
        self._poll(now)
        order = self.order
        if order is None:
            return
        if not order.kinds:
            self.setup.stop(now)
        if self.band and (self.band.attempt != order.attempt or not order.kinds):
            self._part(self.band, now)
        if order.void or not order.kinds or self.going:
            return
        missing = self.band is None or self.band.lacking
        if missing and now >= max(order.not_before, self._retry_at):
            self._start(order, now, pick_devices)

    def take(self, spot_left: int, notice_s: float, now: float) -> None:
        """Let the market take the highest-ranked spot workers beyond some; the others have to end too."""
        band, order = self.band, self.order
        if order and (band is None or band.attempt != order.attempt):
            self.order = order._replace(void=order.void or order.kinds.count("spot") > spot_left)
        if band is None:
            return
        band.poll(now)
        spot = [worker.rank for worker in band.workers if worker.kind == "spot" and not worker.cleared]
        if spot[spot_left:]:
            band.take(spot[spot_left:], notice_s, now)

    def adopt(self, attempt: int, now: float) -> bool:
        """Take charge of an attempt that an earlier controller began; False when none was written down."""
        self.intent = folder.read_intent(self.place, attempt)
        if self.intent is None:
            return False
        self.band = self.band_of(self.intent)
        written_ns = folder.age_ns(folder.attempt_folder(self.place, attempt) / "attempt.json")
        self._began_at = now - max(0.0, time.time() - (written_ns or 0) / 1e9)
        if self.band.stopping:
            self.band.stop(now)
        return True

    def band_of(self, intent: folder.Intent) -> Band:
        """Return the workers of an attempt, with all that is known of them on disk."""
        home = folder.attempt_folder(self.place, intent.attempt)
        workers = (
            Worker(rank, kind, f"{self.prefix}/{intent.attempt}/{rank}", home / f"rank-{rank}")
            for rank, kind in enumerate(intent.kinds)
        )
        return Band(intent.attempt, workers, home / "stop", intent.grace_s)

    def look(self, now: float) -> Sighting:
        """Say what there was at the last step."""
        band, order = self.band, self.order
        workers = band.workers if band else ()
        present = [worker.kind for worker in workers if worker.present]
        progress, said_at = self._tail.progress, self._tail.said_at
        never = (None,) * len(order.kinds) if order and not band else ()
        return Sighting(
            attempt=band.attempt if band else order.attempt if order else 0,
            phase=self._phase(),
            spot_gpus=present.count("spot"),
            on_demand_gpus=present.count("on-demand"),
            exit_codes=tuple(worker.exit_code for worker in workers) or never,
            failed_rank=band.failed_rank if band else None,
            done_share=progress.done_share,
            checkpointed_share=progress.checkpointed_share,
            said_s=None if said_at is None else now - said_at,
            spoken=band is not None and said_at is not None and said_at >= self._began_at,
            metrics=self._tail.metrics,
            silent_s=now - max(self._began_at, self._tail.grown_at) if present else 0.0,
            setup_exit=self.setup.exit_code,
            broken_lines=self._tail.broken_lines,
        )

    def _phase(self) -> Phase:
        band, order = self.band, self.order
        if band:
            if band.gone:
                return "exited"
            ended = all(worker.exit_code is not None for worker in band.workers)
            return "stopping" if band.stopping or ended else "running" if band.begun else "starting"
        if self.setup.present:
            return "setting-up" if order and order.kinds else "stopping"
        if order is None or not order.kinds:
            return "none"
        return "exited" if order.void or self.setup.failed_for == order.attempt else "starting"

    def _poll(self, now: float) -> None:
        self._tail.poll(now)
        self.setup.poll(now)
        for band in (*self.going, *filter(None, (self.band,))):
            band.poll(now)
        self.going = [band for band in self.going if not band.gone]

    def _part(self, band: Band, now: float) -> None:
        """Send away workers that are no longer wanted."""
        if not band.stopping:
            band.stop(now)
        if band.gone:
            self.band = self.intent = None

    def _start(self, order: Order, now: float, pick_devices: Callable[[int], tuple[str, ...]]) -> None:
        """Start what is missing; what the system refuses is tried again later."""
        launch = self.launch
        assert launch is not None, "orders are only taken for registered jobs"
        variables = environment.job_variables(self._base, launch, folder.progress_path(self.place))
        try:
            if self.band is None and not self.setup.done(launch, variables, order.attempt, now):
                return
            if self.band is None and not self.adopt(order.attempt, now):
                self._form(order, launch.grace_s, pick_devices(len(order.kinds)), now)
            self._fill(launch, variables)
        except OSError as error:
            self._retry_at = now + RETRY_S
            raise BackendError(
                f"attempt {order.attempt} of job {launch.job_id} must be startable, got: {error}; "
                f"trying again in {RETRY_S:g} s"
            ) from error

    def _form(self, order: Order, grace_s: float, devices: tuple[str, ...], now: float) -> None:
        """Write down the attempt before anything of it is started."""
        intent = folder.Intent(
            attempt=order.attempt,
            kinds=order.kinds,
            devices=devices,
            master_port=environment.free_port(),
            grace_s=grace_s,
        )
        folder.write_intent(self.place, intent)
        self.band, self.intent, self._began_at = self.band_of(intent), intent, now

    def _fill(self, launch: Launch, variables: Mapping[str, str]) -> None:
        """Start the workers of whom nothing is known; one who comes late finds the place taken and leaves."""
        band, intent = self.band, self.intent
        if band is None or intent is None or not band.lacking:
            return
        for worker in filter(lambda worker: worker.awaited, band.workers):
            own = {**environment.rank_variables(intent, worker.rank), MARKER: worker.marker}
            log = Path(f"{worker.stem}.log")
            stop = worker.stem.with_name("stop")
            worker.began(spawn(worker.stem, stop, log, launch.workdir, launch.run, {**variables, **own}))
