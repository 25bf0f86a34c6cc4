"""One job on other machines: which workers are started, kept, re-formed, or ended when GPUs are taken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from slacktide.backends.machines.agent.messages import LaunchPack
from slacktide.backends.machines.exchange import KnownMachine, KnownMachines
from slacktide.backends.machines.machine_set import (
    OVER_FILE,
    SET_FILE,
    GpuSeat,
    MachinePart,
    MachineSet,
    SetForm,
    read_set,
)
from slacktide.backends.machines.status_report import LastReport, LastReportFile
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.job_table import OrderedJob
from slacktide.backends.workers.launch import READY_S, TAKE_S, Launch, ProcessStatus, WorkerOrder, script_of
from slacktide.backends.workers.worker_backend import failure_of
from slacktide.core import machine_clock as boot
from slacktide.core.errors import BackendError, InputError
from slacktide.journal.events import Capacity

WAIT_S = 10.0  # how long to wait for machines before that is reported as trouble


Packing: TypeAlias = "Future[tuple[str, LaunchPack]]"
"""A package that is being made in a thread, with its name."""


Placing: TypeAlias = Callable[[Sequence[Capacity], str, Collection[str], float], tuple[GpuSeat, ...] | None]
"""Finds seats in a pool for workers of these kinds, best on machines that their set uses; None: too few."""


class RemoteJob(OrderedJob[MachineSet]):
    """A job's folder, its sets of workers, and its last order."""

    def __init__(
        self,
        place: Path,
        owner: str,
        machines: KnownMachines,
        seats: Placing,
        start_packing: Callable[[Launch], Packing],
    ) -> None:
        super().__init__(place, owner)
        self._machines, self._seats, self._start_packing = machines, seats, start_packing
        self.joining: MachineSet | None = None
        """The set in which workers will go on, as long as no machine has received any of it."""
        self.unplaced: tuple[Capacity, ...] = ()  # workers for which there were not enough machines
        self.last_report = LastReport()
        self._report_file = LastReportFile(place)
        self.pack: tuple[str, LaunchPack] | None = None  # the package for machines, with its name
        self._packing: Packing | None = None
        self._packed_for = 0
        self._lacked = False
        """Whether a machine reported the package as lacking, and we have not made it yet."""
        self._elsewhere: dict[str, int] = {}
        """Machines that report living workers of an attempt that is not ours, and that attempt."""
        self._waiting_since: float | None = None

    def open(self, now: float) -> None:
        super().open(now)
        if self.last_report.at is None:
            self.last_report = self._report_file.read(now)

    def sweep(self, kept: int | None, now: float) -> None:
        """Read what an earlier controller wrote down: keep one attempt, and end all others."""
        self.open(now)
        homes = {number: folder.attempt_folder(self.place, number) for number in folder.attempts(self.place)}
        if kept in homes and not (homes[kept] / SET_FILE).exists():
            self.formed = kept  # no machine ever received it
        sets = (read_set(home, attempt) for attempt, home in homes.items())
        written = [machine_set for machine_set in sets if machine_set is not None]
        for machine_set in written:
            for later in written:
                machine_set.hand_on(later.form)
            if machine_set.attempt == kept:
                self.current = machine_set
            elif not (machine_set.home / OVER_FILE).exists():
                self._send_away(machine_set)
        for machine_set in self.going:
            if self.current is None or self.current.form.former != machine_set.attempt:
                machine_set.stop()

    def _send_away(self, machine_set: MachineSet) -> None:
        """End what is left of a set; if another set took over all its workers, nothing is."""
        if machine_set.parts:
            self.going.append(machine_set)
        else:
            machine_set.write_over()

    def hold(self, order: WorkerOrder, now: float) -> None:
        """Take a new order; plans for the last one are dropped."""
        super().hold(order, now)
        self.joining = self._waiting_since = None

    def take(self, spot_left: int, notice_s: float, now: float) -> None:
        self.void_if_taken(spot_left)
        machine_set = self.current
        if machine_set is None or machine_set.over:
            return
        if machine_set.form.kinds.count("spot") > spot_left:
            machine_set.spot_left, machine_set.notice_s = spot_left, notice_s
            self._stop(machine_set)

    # ---------------------------------------------------------------- what machines report

    def receive(self, machine: KnownMachine, seen: ProcessStatus, number: int, now: float) -> None:
        """Take in what a machine reports of this job."""
        host = machine.host.id
        self.newest = max(self.newest, seen.newest_attempt)
        for machine_set in self.going:  # it no longer reports on older attempts
            part = machine_set.parts.get(host)
            if part is not None and machine_set.attempt < seen.attempt:
                part.lost = part.lost or seen.gone
                part.left = part.left or (part.handed_on and not seen.leaving)
        for machine_set in self.sets:
            part = machine_set.parts.get(host)
            if part is None or seen.attempt != machine_set.attempt:
                continue
            self._elsewhere.pop(host, None)
            if not part.lost and not part.handed_on:
                self._note(machine_set, part, seen, number, now)
            return
        if seen.gone:
            self._elsewhere.pop(host, None)
        else:
            self._elsewhere[host] = seen.attempt

    def _note(
        self, machine_set: MachineSet, part: MachinePart, seen: ProcessStatus, number: int, now: float
    ) -> None:
        part.seen, part.seen_at, part.number = seen, now, number
        if seen.gone and part.gone_at is None:
            part.gone_at = now
            part.gone_s = None if seen.gone_s is None else boot.seconds() - seen.gone_s
        if machine_set is not self.current:
            return
        if seen.own_report and seen.reported_s is not None:
            self._take_report(machine_set, part, now - seen.reported_s, now)
        if machine_set.began_at is None:
            began = [other.seen and other.seen.began_s for other in machine_set.parts.values()]
            if None not in began:
                machine_set.began_at = now - min(ago_s for ago_s in began if ago_s is not None)

    def _take_report(self, machine_set: MachineSet, part: MachinePart, at: float, now: float) -> None:
        """Take the report of rank 0's machine, or of another one as long as no other machine has reported."""
        last, seen = self.last_report, part.seen
        assert seen is not None
        if last.attempt == machine_set.attempt and last.part != part.host and 0 not in part.ranks:
            return
        grown_at = now - seen.silent_s
        self.last_report = LastReport(
            seen.done_share, seen.checkpointed_share, seen.saved, seen.metrics,
            at, grown_at, machine_set.attempt, part.host,
        )  # fmt: skip

    # ---------------------------------------------------------------- the next steps

    def advance(self, now: float) -> None:
        """Take the next steps towards what was ordered; raises BackendError if one fails."""
        self._lead_on()
        for machine_set in self.sets:
            self._watch(machine_set, self._machines, now)
        self._report_file.keep(self.last_report, now)
        for leaving in [leaving for leaving in self.going if leaving.over and leaving.drained(now)]:
            leaving.write_over()
            self.going.remove(leaving)
        if self.order is not None:
            self._pursue(self.checked(self.order), now)
        self.clear_trouble(now)

    def _lead_on(self) -> None:
        """Let workers take their places once all are ready, and end those that leave after that."""
        machine_set = self.current
        if machine_set is not None and machine_set.form.former:
            machine_set.go = machine_set.go or machine_set.able
        if machine_set is None or machine_set.stopping or machine_set.places_sent:
            for leaving in self.going:
                self._stop(leaving)

    def _watch(self, machine_set: MachineSet, machines: KnownMachines, now: float) -> None:
        """Find lost machines and failed parts; if any was lost, end the other parts."""
        for part in machine_set.parts.values():
            machine = machines.get(part.host)
            if part.gone:
                continue
            if machine is not None and machine.notice_s is not None:
                part.noticed = True
                part.taken_at = min(part.taken_at, now + machine.notice_s)
            part.away = part.away or machines.is_away(part.host)
            if machines.is_fenced(part.host, now):
                part.lost = True
                part.gone_at = now
                ago_s = now - (part.seen_at or now)
                part.gone_s = boot.seconds() - ago_s if part.seen is not None else None
        failed = [
            part for part in machine_set.parts.values() if part.seen is not None and failure_of(part.seen)
        ]
        if failed and machine_set.failed is None and machine_set is self.current:
            machine_set.failed = min(failed, key=lambda part: (part.seen_at, part.ranks))
            machine_set.after = {host: machines.loop.sent(host) for host in machine_set.parts}
        if machine_set.stopping:
            return
        if machine_set.broken:
            self._stop(machine_set)
        # A worker may end during the change because others leave or got their places late, or because it has
        # done the last step: then workers that were added would wait for it.
        lacks_some = machine_set.broken or (machine_set is self.current and machine_set.has_ended)
        new = self.current
        if new is not None and new.reported and new.reforming and lacks_some:
            self._stop(new)

    def _stop(self, machine_set: MachineSet) -> None:
        try:
            machine_set.stop()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> BackendError:
        return BackendError(f"the folder of job {self.place.name} must be writable, got: {error}")

    def is_formed_for(self, current: MachineSet, order: WorkerOrder) -> bool:
        return order.kinds == current.form.kinds

    def _pursue(self, order: WorkerOrder, now: float) -> None:
        machine_set = self.current
        if machine_set and (machine_set.attempt != order.attempt or order.void or not order.kinds):
            if self._goes_on(machine_set, order, now):
                return
            self.joining = None
            self._stop(machine_set)
            if machine_set.over and machine_set.drained(now) and machine_set.attempt != order.attempt:
                machine_set.write_over()
                self.current = machine_set = None
        if order.void or not order.kinds or self.going:
            return
        if machine_set is None and now >= max(order.not_before, self.retry_at):
            self._begin(order, now)
        elif machine_set is not None and not machine_set.announced and not machine_set.stopping:
            self._meet(machine_set)
        if self._lacked and self.pack is None and self.launch is not None:
            self._is_packed(order, self.launch, now)

    def _begin(self, order: WorkerOrder, now: float) -> None:
        """Find machines for a set and write it down; raises BackendError if that fails."""
        launch = self.startable(now)
        if not self._is_packed(order, launch, now) or self._elsewhere:
            return
        seats = self._placed(order.kinds, order.pool, (), now)
        if seats is None:
            return
        assert self.pack is not None
        script = script_of(launch)
        form = SetForm(order.attempt, order.kinds, seats, launch=self.pack[0], pool=order.pool, script=script)
        self._write(self._made(form), now)

    def _placed(
        self, kinds: tuple[Capacity, ...], pool: str, used: Collection[str], now: float
    ) -> tuple[GpuSeat, ...] | None:
        """Find machines for workers, or note for how long there have not been enough."""
        seats = self._seats(kinds, pool, used, now)
        if seats is not None:
            self._waiting_since = None
            return seats
        self.unplaced = kinds
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        return None

    def _made(self, form: SetForm) -> MachineSet:
        return MachineSet(form, folder.attempt_folder(self.place, form.attempt))

    def _write(self, made: MachineSet, now: float) -> None:
        """Write down a set, and make it the current one, which machines receive; raises BackendError."""
        try:
            folder.make_private(made.home)
            made.write()
        except (OSError, InputError) as error:
            raise self.not_startable(made.attempt, error, now) from error
        self.current, self.newest, self.formed = made, made.attempt, made.attempt

    # ---------------------------------------------------------------- workers that stay

    def _goes_on(self, machine_set: MachineSet, order: WorkerOrder, now: float) -> bool:
        """Let workers go on in the set that was ordered, where they can; False: all have to be ended."""
        launch = self.launch
        if order.void or not order.kinds or launch is None or now < order.not_before:
            return False
        started_as = machine_set.form.pool, machine_set.form.script
        if machine_set.stopping or machine_set.broken or started_as != (order.pool, script_of(launch)):
            return False
        soon = now < self.held_at + launch.spec.grace_s + TAKE_S
        if not machine_set.reported:
            return soon
        stay = machine_set.staying(order.kinds)
        if stay and (self.going or machine_set.reforming):
            return soon
        if not stay or not self._is_packed_as(machine_set.form.launch, order, launch, now):
            return bool(stay) and self._packing is not None and soon
        if self.joining is None:
            self.joining = self._planned(machine_set, order, stay, now)
        if self.joining is None:
            return now < self.held_at + READY_S
        port = self._port(self.joining)
        if port is None or port == machine_set.form.port:
            return soon
        self._take_over(machine_set, self.joining, port, now)
        return True

    def _is_packed_as(self, name: str, order: WorkerOrder, launch: Launch, now: float) -> bool:
        """Say whether our package is the one the workers were started with: added workers need it too."""
        if self.pack is None:
            self._is_packed(order, launch, now)
        return self.pack is not None and self.pack[0] == name

    def _planned(
        self, machine_set: MachineSet, order: WorkerOrder, stay: Mapping[int, int], now: float
    ) -> MachineSet | None:
        """Return the set in which workers could go on; None where there are not enough machines."""
        added = tuple(kind for rank, kind in enumerate(order.kinds) if rank not in stay)
        seats = self._placed(added, order.pool, machine_set.parts.keys(), now) if added else ()
        if seats is None:
            return None
        return self._made(machine_set.form.successor(order.attempt, order.kinds, stay, seats))

    def _take_over(self, machine_set: MachineSet, made: MachineSet, port: int, now: float) -> None:
        """Write down the set that takes workers over; from then on machines receive it."""
        made.form = made.form._replace(port=port)
        self.joining = None
        self._write(made, now)
        machine_set.hand_on(made.form)
        self._send_away(machine_set)

    def fall_short(self, spot_gpus: int) -> None:
        """Void an order that lacks this much spot; nothing of it has begun, so the spot counts as lost."""
        assert self.order is not None
        self.order = self.order._replace(void=True, short_spot=spot_gpus)
        self._waiting_since = None

    def waited_s(self, now: float) -> float:
        """Return for how many seconds there have not been enough machines."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def _is_packed(self, order: WorkerOrder, launch: Launch, now: float) -> bool:
        """Say whether the working folder has been packed for this attempt; begin to pack it if not."""
        if self._packed_for == order.attempt:
            return True
        if self._packing is None:
            self._packing = self._start_packing(launch)
        if not self._packing.done():
            return False
        packing_done, self._packing = self._packing, None
        try:
            self.pack = packing_done.result()
        except (OSError, InputError) as error:
            raise self.not_startable(order.attempt, error, now) from error
        self._packed_for = order.attempt
        return True

    def _meet(self, machine_set: MachineSet) -> None:
        """Write down the port where the ranks meet, once it is known; only then may machines start."""
        port = self._port(machine_set)
        if port is not None:
            machine_set.form = machine_set.form._replace(port=port)
            try:
                machine_set.write()
            except OSError as error:
                machine_set.form = machine_set.form._replace(port=0)
                raise self._unwritable(error) from error

    def _port(self, machine_set: MachineSet) -> int | None:
        """Return the port that the machine of rank 0 offers to meet at."""
        machine = self._machines.get(machine_set.form.seats[0].host)
        return None if machine is None else machine.ports.get(self.place.name)

    def lacks(self, launch: str) -> bool:
        """Say whether to send our package to a machine that lacks the one of this name."""
        machine_set = self.current
        if machine_set is None or launch != machine_set.form.launch:
            return False
        if self.pack is None:  # an earlier controller began the set, and may not have sent it
            self._lacked = True
            return False
        if self.pack[0] != launch:  # an earlier controller's: the files may have changed since
            with suppress(OSError):
                machine_set.form = machine_set.form._replace(launch=self.pack[0])
                machine_set.write()
        return True
