"""One job on this machine: which workers are started, kept, re-formed, or killed when spot GPUs are taken."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from slacktide.backends.checkpoints.stored import StoredCheckpoints, read_note
from slacktide.backends.process_table import MARKER
from slacktide.backends.workers import environment, reforming
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.job_table import RETRY_S, OrderedJob
from slacktide.backends.workers.launch import TAKE_S, Launch, SetPart, WorkerOrder, script_of
from slacktide.backends.workers.progress import PrintedProgress, Tail
from slacktide.backends.workers.reforming import Reforming
from slacktide.backends.workers.worker import Worker, attempt_end_s, spawn
from slacktide.backends.workers.worker_set import JobSetup, WorkerSet
from slacktide.core.errors import InputError
from slacktide.journal.events import Capacity

SIGN_S = 5.0
"""How often to note that workers were seen alive, in case no controller is there when they end."""


class LocalJob(OrderedJob[WorkerSet]):
    """A job's folder, its processes, and its last order."""

    def __init__(
        self,
        place: Path,
        owner: str,
        base: Mapping[str, str],
        pick_devices: Callable[[int], tuple[str, ...]],
        now: float,
    ) -> None:
        """Run a job with few of the controller's variables, on the GPUs that `pick_devices` chooses."""
        super().__init__(place, owner)
        self.intent: folder.Intent | None = None  # what was written down about the current set
        self.reforming: Reforming | None = None
        """How far the set has come, if it was made from another one."""
        self.moved = False
        """Whether its folder was moved while its workers ran, which may have made them fail."""
        self.tail: Tail | None = None
        """The job's own reports; None until its folder was found to be ours."""
        self.printed: PrintedProgress | None = None
        """Progress found by a pattern in what it prints, if its file gives one."""
        self.stored: StoredCheckpoints | None = None
        """Its checkpoints in a store, where its file names one."""
        self.damaged: int | None = None
        """The attempt whose attempt.json cannot be read."""
        self.began_at = now  # when the set of workers was begun
        self.before_gone_s: float | None = None
        """When the attempt before this one had gone, if an earlier controller began this one."""
        self.prefix = f"{owner}/{place.name}"
        self.setup = JobSetup(place, f"{self.prefix}/setup/0")
        self._base, self._pick_devices = base, pick_devices
        self._noted_share: float | None = None
        """The share that an earlier controller knew to be in a store, for jobs that cannot be registered."""
        self._sign_at = -math.inf

    def open(self, now: float) -> None:
        if self.tail is None:
            super().open(now)
            self.tail = Tail(folder.progress_path(self.place), now)
            self._noted_share = read_note(folder.stored_path(self.place))

    def enter(self, launch: Launch) -> None:
        """Use this launch from the next start on; a start that failed is tried again at once."""
        super().enter(launch)
        self.retry_at = -math.inf
        if launch.spec.progress_log is None:
            self.printed = None
        elif self.printed is None or self.printed.pattern != launch.spec.progress_log:
            self.printed = PrintedProgress(launch.spec.progress_log)
        if self.stored is None and launch.spec.checkpoint_url is not None:
            owner = launch.checkpoint_owner or self.owner
            self.stored = StoredCheckpoints(launch, owner, folder.stored_path(self.place))

    @property
    def safe_share(self) -> float:
        """How much work may count as checkpointed: what a store has acknowledged, where there is one."""
        if self.stored is not None:
            return self.stored.safe_share
        return 1.0 if self._noted_share is None else self._noted_share

    @property
    def finishing(self) -> bool:
        """Whether all workers have gone, but what they saved last is not in the store yet."""
        worker_set = self.current
        if self.stored is None or worker_set is None or not self._saves:
            return False
        return worker_set.gone and self.stored.over != worker_set.attempt

    @property
    def _saves(self) -> bool:
        """Whether this machine's checkpoint folder is the one to copy: that of rank 0 is."""
        return self.intent is not None and 0 in self.intent.rank_numbers

    def advance(self, now: float) -> None:
        """Take the next steps towards what was ordered; raises BackendError if one fails."""
        self._poll(now)
        if self.stored is not None:
            self._keep_safe(self.stored, now)
        if self.order is not None:
            self._pursue(self.checked(self.order), now)
        if self.current and self.current.halved:
            self.current.stop(now)  # no order came for a set in which the others go on
        if self.reforming:
            self.reforming.advance(now, go=self._may_go)
        if self.reforming is None or not self.reforming.under_way:
            for leaving in self.going:
                if not leaving.stopping:
                    leaving.stop(now)
        self.clear_trouble(now)

    def take(self, spot_left: int, notice_s: float, now: float) -> None:
        self.void_if_taken(spot_left)
        worker_set = self.current
        if worker_set is None:
            return
        worker_set.poll(now)
        spot = [worker.rank for worker in worker_set.workers if worker.kind == "spot" and not worker.cleared]
        taken = spot[spot_left:]
        alone = self.intent is not None and not self.intent.ranks
        if taken and alone and self._settled and reforming.can_spare(worker_set, taken):
            worker_set.take_some(taken, notice_s, now)
        elif taken:
            worker_set.take(taken, notice_s, now)

    def fence(self, patience_s: float, now: float) -> bool:
        """End all workers within this time, and start no more of the last order; say if any was alive."""
        if self.order and self.order.kinds:
            self.order = self.order.voided()
        sets = [worker_set for worker_set in self.sets if worker_set.present]
        for worker_set in sets:
            worker_set.take([worker.rank for worker in worker_set.workers], patience_s, now)
        self.setup.stop(now)
        return bool(sets)

    def adopt(self, attempt: int, now: float) -> bool:
        """Take charge of an attempt that an earlier controller began; False when none can be read.

        One that was requested to stop, or whose folder was moved under it, is not kept running.
        """
        intent = folder.read_intent(self.place, attempt)
        if intent is None:
            return False
        worker_set = self.worker_set_of(intent, folder.taken_over(self.place))
        written_ns = folder.age_ns(folder.attempt_folder(self.place, attempt) / "attempt.json")
        self.began_at = now - max(0.0, time.time() - (written_ns or 0) / 1e9)
        self._replace_set(worker_set, intent, now)
        self.note_before(attempt)
        self.moved = intent.home not in ("", os.path.realpath(self.place))
        if worker_set.stopping or self.moved:
            worker_set.stop(now)
        return True

    def note_before(self, attempt: int) -> None:
        """Find out when the attempt before this one had gone; nothing of it may live any more."""
        older = [number for number in folder.attempts(self.place) if number < attempt]
        intent = folder.read_intent(self.place, older[-1]) if older else None
        if intent is not None and self.reforming is None:
            self.before_gone_s = attempt_end_s(self._stem(intent, rank) for rank in intent.rank_numbers)

    def not_adopted(self, attempt: int, *, lives: bool) -> None:
        """Distinguish an attempt that was never begun, and may be now, from one whose note cannot be read."""
        home = folder.attempt_folder(self.place, attempt)
        if os.path.lexists(home / "attempt.json"):
            self.damaged = attempt
        elif not lives and not any(home.glob("rank-*")):
            self.formed = attempt

    def worker_set_of(self, intent: folder.Intent, taken_over: Mapping[tuple[int, int], int]) -> WorkerSet:
        """Return the workers of an attempt that no other has taken over, as their notes describe them."""
        workers = (
            self._worker(intent, rank, kind)
            for rank, kind in zip(intent.rank_numbers, intent.kinds, strict=True)
            if taken_over.get(intent.origin(rank), intent.attempt) == intent.attempt
        )
        return self._set(intent, workers)

    def _set(self, intent: folder.Intent, workers: Iterable[Worker]) -> WorkerSet:
        home = folder.attempt_folder(self.place, intent.attempt)
        return WorkerSet(intent.attempt, workers, home / "stop", intent.grace_s)

    def _worker(self, intent: folder.Intent, rank: int, kind: Capacity) -> Worker:
        attempt, former_rank = intent.origin(rank)
        return Worker(rank, kind, f"{self.prefix}/{attempt}/{former_rank}", self._stem(intent, rank))

    def _stem(self, intent: folder.Intent, rank: int) -> Path:
        """Return where the notes of a worker are: in the attempt in which it registered."""
        attempt, former_rank = intent.origin(rank)
        return folder.attempt_folder(self.place, attempt) / f"rank-{former_rank}"

    def is_formed_for(self, current: WorkerSet, order: WorkerOrder) -> bool:
        kinds, ranks = (self.intent.kinds, self.intent.ranks) if self.intent else ((), ())
        return (order.kinds, order.part.ranks if order.part else ()) == (kinds, ranks)

    def _poll(self, now: float) -> None:
        """Find workers that ended, and only then read reports: otherwise the last ones could be missed."""
        self.setup.poll(now)
        for worker_set in self.sets:
            worker_set.poll(now)
        self.going = [worker_set for worker_set in self.going if not worker_set.gone]
        if self.tail:
            self.tail.poll(now)
        if self.printed:
            if self.current and self.current.attempt:
                home = folder.attempt_folder(self.place, self.current.attempt)
                self.printed.follow(home / "rank-0.log", now)
            self.printed.poll(now)
        if self.current and self.current.present and now >= self._sign_at:
            homes = {worker.stem.parent for worker in self.current.workers}
            for home in {*homes, folder.attempt_folder(self.place, self.current.attempt)}:
                folder.touch(folder.seen_path(home))
            self._sign_at = now + SIGN_S

    def _keep_safe(self, stored: StoredCheckpoints, now: float) -> None:
        """Copy to the store what the workers have saved, and after their end what they saved last."""
        stored.poll(now)
        worker_set = self.current
        if worker_set is None and (self.order is None or not self.order.kinds):
            stored.rest()
        if worker_set is None or not self._saves:
            return
        if not worker_set.gone:
            stored.keep(worker_set.attempt, self._reported_share(), now)
        elif self.finishing:
            stored.finish(worker_set.attempt, self._reported_share(), now)
        elif self.order is None or not self.order.kinds or worker_set.succeeded:
            stored.rest()

    def _reported_share(self) -> float | None:
        """Return what the workers of this attempt report to have saved; None while they report nothing.

        Printed lines do not say what is saved: the folder then counts as holding all that is done.
        """
        source = self.printed or self.tail
        if source is None or source.reported_at is None or source.reported_at < self.began_at:
            return None
        progress = source.progress
        return progress.done_share if progress.saved == "unknown" else progress.checkpointed_share

    def _pursue(self, order: WorkerOrder, now: float) -> None:
        if not order.kinds:
            self.setup.stop(now)
        if self.current and (self.current.attempt != order.attempt or order.void or not order.kinds):
            if not self._reform(self.current, order, now):
                order = self._without_kept(order)
                self._part(self.current, order, now)
            elif self.current.attempt != order.attempt:
                return
        elif self.current is None:
            order = self._without_kept(order)
        if order.void or not order.kinds or self.going:
            return
        missing = self.current is None or self.current.lacking
        if missing and now >= max(order.not_before, self.retry_at):
            self._start(order, now)

    def _without_kept(self, order: WorkerOrder) -> WorkerOrder:
        """Return the order, void if it keeps workers that cannot be kept: other machines rely on them."""
        if order.part is not None and order.part.kept and order.kinds:
            self.order = order = order.voided()
        return order

    def _part(self, worker_set: WorkerSet, order: WorkerOrder, now: float) -> None:
        """End workers that are no longer wanted; how those of the last order ended stays known."""
        if not worker_set.stopping:
            worker_set.stop(now)
        if worker_set.gone and not self.finishing and worker_set.attempt != order.attempt:
            self.current = self.intent = self.reforming = None

    def _start(self, order: WorkerOrder, now: float) -> None:
        """Start the workers that are missing; a start that fails is tried again later."""
        launch, self.retry_at = self.startable(now), now + RETRY_S
        try:
            if self.tail is None:
                self.open(now)  # what the folder holds may forbid the start
            else:
                self._begin(order, launch, now)
        except (OSError, InputError) as error:
            raise self.not_startable(order.attempt, error, now) from error
        self.retry_at = -math.inf

    def _begin(self, order: WorkerOrder, launch: Launch, now: float) -> None:
        """Run the set-up if it has not succeeded yet, then write down the attempt, then start it."""
        variables = environment.job_variables(self._base, launch, folder.progress_path(self.place))
        if self.current is None:
            if not self.setup.done(launch, variables, order.attempt, now):
                return
            if self.stored and not self.stored.ready(order.attempt, self._last_share, now):
                return
            if self.stored and order.part and 0 not in order.part.ranks:
                self.stored.disown()  # the workers that save are on another machine
            part = order.part or _whole(self._pick_devices(len(order.kinds)))
            intent = self._intended(order, part, launch)
            self._write(intent, now)
            self._replace_set(self.worker_set_of(intent, {}), intent, now)
        self._fill(launch, variables)

    @property
    def _last_share(self) -> float:
        """What was last reported to be saved, by whichever attempt."""
        return self.tail.progress.checkpointed_share if self.tail else 0.0

    def _intended(self, order: WorkerOrder, part: SetPart, launch: Launch) -> folder.Intent:
        return folder.Intent(
            attempt=order.attempt,
            kinds=order.kinds,
            devices=part.devices,
            master_port=part.master_port,
            grace_s=launch.spec.grace_s,
            home=os.path.realpath(self.place),
            ranks=part.ranks,
            addresses=part.addresses,
            pool=order.pool,
            script=script_of(launch),
            former=part.former,
        )

    def _write(self, intent: folder.Intent, now: float) -> None:
        """Write down an attempt before anything of it is started."""
        folder.make_private(folder.attempt_folder(self.place, intent.attempt))
        folder.write_intent(self.place, intent)
        self.newest = self.formed = intent.attempt
        self.before_gone_s, self.began_at, self.moved = None, now, False
        if self.tail:
            self.tail.begin_anew()

    def _replace_set(self, worker_set: WorkerSet, intent: folder.Intent, now: float) -> None:
        self.current, self.intent, self.reforming = worker_set, intent, None
        if intent.reforms:
            home = folder.attempt_folder(self.place, intent.attempt)
            self.reforming = Reforming(worker_set, intent, home, self.began_at, now)

    @property
    def _settled(self) -> bool:
        """Whether the set is complete, not in the middle of re-forming."""
        return self.reforming is None or self.reforming.formed_at is not None

    @property
    def _may_go(self) -> bool:
        """Whether workers on other machines are ready, so that those here may receive their places."""
        if self.intent is None or not self.intent.ranks:
            return True
        order = self.order
        if order is None or order.attempt != self.intent.attempt or order.part is None:
            return False
        return order.part.go

    def _reform(self, worker_set: WorkerSet, order: WorkerOrder, now: float) -> bool:
        """Let workers go on in the set that was ordered, where they can; False: all have to be ended."""
        before, launch, stay = self.intent, self.launch, self._staying(worker_set, order, now)
        if not stay or before is None or launch is None:
            return False
        if self._not_yet(order, now):
            return not worker_set.halved and now < self.held_at + before.grace_s + TAKE_S
        part = order.part or self._whole_with(before, order, stay)
        intent = reforming.successor(before, self._intended(order, part, launch), stay)
        try:
            self._write(intent, now)
        except (OSError, InputError):
            return False
        leaving = self._set(before, [worker for worker in worker_set.workers if worker not in stay.values()])
        self._take_over(intent, stay, now)
        if leaving.workers:
            self.going.append(leaving)
            if not intent.ranks:  # all others have received their places by now
                leaving.stop(now)
        return True

    def _whole_with(self, before: folder.Intent, order: WorkerOrder, stay: Mapping[int, Worker]) -> SetPart:
        """Return the whole set; workers that stay keep their GPUs, which a process cannot change."""
        new = iter(self._pick_devices(len(order.kinds) - len(stay)))
        ranks = range(len(order.kinds)) if before.devices else ()
        return _whole(tuple(before.devices[stay[rank].rank] if rank in stay else next(new) for rank in ranks))

    def _not_yet(self, order: WorkerOrder, now: float) -> bool:
        """Say whether workers have to go on unchanged until the last change is over or the store is ready."""
        if self.going or not self._settled:
            return True
        if order.part is not None and 0 not in order.part.ranks:
            return False  # a checkpoint from elsewhere must not replace the folder of running workers
        return self.stored is not None and not self.stored.ready(order.attempt, self._last_share, now)

    def _staying(self, worker_set: WorkerSet, order: WorkerOrder, now: float) -> Mapping[int, Worker]:
        """Return the workers that can go on in the set that was ordered, by their new ranks."""
        intent, launch = self.intent, self.launch
        if intent is None or launch is None or self.tail is None or self.moved:
            return {}
        if order.void or now < order.not_before:
            return {}
        if (intent.pool, intent.script) != (order.pool, script_of(launch)):
            return {}
        if order.part is not None:
            is_former = order.part.former == worker_set.attempt and bool(intent.ranks)
            return reforming.named(worker_set, order.part.kept) if is_former else {}
        return {} if intent.ranks else reforming.staying(worker_set, order.kinds)

    def _take_over(self, intent: folder.Intent, stay: Mapping[int, Worker], now: float) -> None:
        """Make the set that was written down, and send its workers their places if none has to be started."""
        for rank, worker in stay.items():
            worker.rank = rank
        ranks = zip(intent.rank_numbers, intent.kinds, strict=True)
        workers = [stay.get(rank) or self._worker(intent, rank, kind) for rank, kind in ranks]
        self._replace_set(self._set(intent, workers), intent, now)
        if self.reforming:
            self.reforming.advance(now, go=self._may_go)

    def _fill(self, launch: Launch, variables: Mapping[str, str]) -> None:
        """Start the workers that have not registered; of two processes for one rank the later one exits."""
        worker_set, intent = self.current, self.intent
        if worker_set is None or intent is None or not worker_set.lacking:
            return
        for worker in worker_set.workers:
            if worker.awaited:
                all_variables = {
                    **variables,
                    **environment.rank_variables(intent, worker.rank),
                    **environment.note_variables(intent, worker.stem),
                    MARKER: worker.marker,
                }
                log, stop = Path(f"{worker.stem}.log"), worker.stem.with_name("stop")
                worker.began(spawn(worker.stem, stop, log, launch.workdir, launch.spec.run, all_variables))


def _whole(devices: tuple[str, ...]) -> SetPart:
    """Return the whole set as one part, for a machine that runs it alone."""
    return SetPart((), (), environment.free_port(), devices)
