"""One job on machines: the last order, the set that there is, and the way from this to that."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from slacktide.backends.machines import machine_set as spreads
from slacktide.backends.machines import reforming
from slacktide.backends.machines.agent.messages import AgentStatus, LaunchPack
from slacktide.backends.machines.last_report import LastReport, LastReportFile
from slacktide.backends.machines.link.peers import Peer, Peers
from slacktide.backends.machines.machine_set import MachinePart, MachineSet, SetForm
from slacktide.backends.machines.placement import GpuSeat
from slacktide.backends.processes import owned_folders
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.launch import Kind, Launch
from slacktide.backends.workers.orders import RETRY_S, WorkerOrder, not_startable
from slacktide.backends.workers.process_status import ProcessStatus
from slacktide.backends.workers.reforming import READY_S, TAKE_S, script_of
from slacktide.core import machine_clock as boot
from slacktide.core.errors import BackendError, InputError

WAIT_S = 10.0
"""How long to wait for machines before that is reported as trouble."""


class Placing(Protocol):
    """Returns where workers can be placed just now, where others of the set are on `used`."""

    def __call__(
        self, kinds: Sequence[Kind], pool: str, used: Collection[str] = ()
    ) -> tuple[GpuSeat, ...] | None: ...


Packing = Callable[[Launch], "Future[tuple[str, LaunchPack]]"]


class RemoteJob:
    """A job's folder, its sets, and what was ordered for it."""

    def __init__(self, place: Path, owner: str) -> None:
        self.place, self.owner = place, owner
        self.launch: Launch | None = None
        self.refusal = "the command of the job is not known yet"
        self.order: WorkerOrder | None = None
        self.spread: MachineSet | None = None
        self.going: list[MachineSet] = []
        """What an earlier controller left and no order explains, and workers that leave while others stay."""
        self.joining: MachineSet | None = None
        """The set in which workers are to go on, while no machine has received any of it."""
        self.unplaced: tuple[Kind, ...] = ()
        """For whom there were not enough machines."""
        self.said = LastReport()
        self._said_file = LastReportFile(place)
        self.newest = 0
        self.trouble = ""
        self.pack: tuple[str, LaunchPack] | None = None
        """What travels to machines, with its name."""
        self._packing: Future[tuple[str, LaunchPack]] | None = None
        self._packed_for = 0
        self._lacked = False
        """Whether a machine requested what is to be started, and we have not packed it."""
        self._formed: int | None = None
        self._elsewhere: dict[str, int] = {}
        """Machines where another attempt than ours lives, by their own word."""
        self._retry_at = self._held_at = -math.inf
        self._waiting_since: float | None = None

    def open(self, now: float) -> None:
        """Read what there is in the folder; raises InputError or OSError when it is not ours."""
        owned_folders.check_owned(self.place, self.owner)
        self.newest = max([self.newest, *folder.attempts(self.place)])
        if self.said.at is None:
            self.said = self._said_file.read(now)

    def sweep(self, kept: int | None, now: float) -> None:
        """Take up what an earlier controller wrote down: one attempt is kept, all else is to end."""
        self.open(now)
        homes = {one: folder.attempt_folder(self.place, one) for one in folder.attempts(self.place)}
        found = {attempt: spreads.read(home, attempt) for attempt, home in homes.items()}
        written = [spread for spread in found.values() if spread is not None]
        if kept in homes and found[kept] is None and not (homes[kept] / spreads.SET_FILE).exists():
            self._formed = kept  # no machine ever received it
        for spread in written:
            for later in written:
                reforming.part(spread, later.form)
            if spread.attempt == kept:
                self.spread = spread
            elif not spreads.is_over(spread.home):
                self._send_away(spread)
        for spread in self.going:
            if self.spread is None or self.spread.form.former != spread.attempt:
                spread.stop()

    def _send_away(self, spread: MachineSet) -> None:
        """Have an end of what is left of a set; of one that another took over whole, nothing is."""
        if spread.parts:
            self.going.append(spread)
        else:
            spread.write_over()

    def hold(self, order: WorkerOrder, now: float) -> None:
        """Take a new order."""
        self.order, self._retry_at, self._waiting_since = order, -math.inf, None
        self.joining, self._held_at = None, now

    def take(self, spot_left: int, notice_s: float) -> None:
        """Let the market take the highest-ranked spot workers beyond some; the others have to end too."""
        order, spread = self.order, self.spread
        if order and (spread is None or spread.attempt != order.attempt):
            self.order = order.after_take(spot_left)
        if spread is not None and spread.form.kinds.count("spot") > spot_left and not spread.over:
            spread.spot_left, spread.notice_s = spot_left, notice_s
            self._stop(spread)

    # ---------------------------------------------------------------- what machines say

    def receive(self, peer: Peer, seen: AgentStatus, number: int, now: float) -> None:
        """Take in what a machine says of this job."""
        observed, host = seen.observed, peer.host.id
        self.newest = max(self.newest, observed.newest_attempt)
        for spread in self.going:  # of older attempts it says nothing any more
            part = spread.parts.get(host)
            if part is not None and spread.attempt < observed.attempt:
                part.lost = part.lost or observed.gone
                part.left = part.left or (part.handed_on and not observed.leaving)
        for spread in filter(None, (self.spread, *self.going)):
            part = spread.parts.get(host)
            if part is None or observed.attempt != spread.attempt:
                continue
            self._elsewhere.pop(host, None)
            if not part.lost and not part.handed_on:
                self._note(spread, part, seen, number, now)
            return
        if observed.gone:
            self._elsewhere.pop(host, None)
        else:
            self._elsewhere[host] = observed.attempt

    def _note(
        self, spread: MachineSet, part: MachinePart, seen: AgentStatus, number: int, now: float
    ) -> None:
        observed = seen.observed
        part.seen, part.seen_at, part.number = seen, now, number
        if observed.gone and part.gone_at is None:
            part.gone_at = now
            part.gone_s = None if observed.gone_s is None else boot.seconds() - observed.gone_s
        if spread is not self.spread:
            return
        if observed.spoken and observed.said_s is not None:
            self._take_report(spread, part, now - observed.said_s, now)
        if spread.began_at is None:
            began = [one.observed.began_s if one.observed else None for one in spread.parts.values()]
            if None not in began:
                spread.began_at = now - min(one for one in began if one is not None)

    def _take_report(self, spread: MachineSet, part: MachinePart, at: float, now: float) -> None:
        """Believe rank 0's machine, and another one only where that has said nothing."""
        said, observed = self.said, part.observed
        assert observed is not None
        if said.attempt == spread.attempt and said.part != part.host and 0 not in part.ranks:
            return
        grown_at = now - observed.silent_s
        self.said = LastReport(
            observed.done_share, observed.checkpointed_share, observed.saved, observed.metrics,
            at, grown_at, spread.attempt, part.host,
        )  # fmt: skip

    @property
    def failed(self) -> ProcessStatus | None:
        """What a machine saw of a failure of the job's own: all have answered after it, and none was lost."""
        spread = self.spread
        if spread is None or spread.failed is None or spread.broken or spread.stopping:
            return None
        reported = (
            part.gone or part.number > spread.after.get(part.host, 0) for part in spread.parts.values()
        )
        return spread.failed.observed if all(reported) else None

    # ---------------------------------------------------------------- what is to be done

    def advance(self, peers: Peers, placing: Placing, packing: Packing, now: float) -> None:
        """Take the next steps from what there is to what was ordered; raises BackendError if one fails."""
        self._lead_on()
        for spread in filter(None, (self.spread, *self.going)):
            self._watch(spread, peers, now)
        self._said_file.keep(self.said, now)
        for spread in [one for one in self.going if one.over and one.drained(now)]:
            spread.write_over()
            self.going.remove(spread)
        if self.order is not None:
            self._pursue(self._checked(self.order), peers, placing, packing, now)
        if now >= self._retry_at:
            self.trouble = ""

    def _lead_on(self) -> None:
        """Let workers take their places once all are ready, and end those that leave after that."""
        spread = self.spread
        if spread is not None and spread.form.former:
            spread.go = spread.go or spread.able
        if spread is None or spread.stopping or spread.places_sent:
            for leaving in self.going:
                self._stop(leaving)

    def _watch(self, spread: MachineSet, peers: Peers, now: float) -> None:
        """See which machines were lost, and end the others' parts where some were."""
        for part in spread.parts.values():
            peer = peers.get(part.host)
            if part.gone:
                continue
            if peer is not None and peer.notice_s is not None:
                part.noticed = True
                part.taken_at = min(part.taken_at, now + peer.notice_s)
            part.away = part.away or peers.is_away(part.host)
            if peers.is_fenced(part.host, now):
                part.lost = True
                part.gone_at = now
                ago_s = now - (part.seen_at or now)
                part.gone_s = boot.seconds() - ago_s if part.seen is not None else None
        failed = [part for part in spread.parts.values() if part.seen is not None and part.seen.failure]
        if failed and spread.failed is None and spread is self.spread:
            spread.failed = min(failed, key=lambda part: (part.seen_at, part.ranks))
            spread.after = {host: peers.talk.sent(host) for host in spread.parts}
        if spread.stopping:
            return
        if spread.broken:
            self._stop(spread)
        # Workers may end on the way because of those that leave, or because others got their places late; or
        # it has done the last step, and those who were added would wait for it.
        lacks_some = spread.broken or (spread is self.spread and spread.has_ended)
        new = self.spread
        if new is not None and new.reported and new.reforming and lacks_some:
            self._stop(new)

    def _stop(self, spread: MachineSet) -> None:
        try:
            spread.stop()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> BackendError:
        return BackendError(f"the folder of job {self.place.name} must be writable, got: {error}")

    def _checked(self, order: WorkerOrder) -> WorkerOrder:
        """Return the order, void where what is on disk under its number is not its own."""
        if not order.kinds or order.void:
            return order
        if self.spread is not None and self.spread.attempt == order.attempt:
            foreign = order.attempt < self.newest or order.kinds != self.spread.form.kinds
        else:
            foreign = order.attempt <= self.newest and order.attempt != self._formed
        if foreign:
            self.order = order = order.voided()
        return order

    def _pursue(
        self, order: WorkerOrder, peers: Peers, placing: Placing, packing: Packing, now: float
    ) -> None:
        spread = self.spread
        if spread is not None and (spread.attempt != order.attempt or order.void or not order.kinds):
            if self._goes_on(spread, order, peers, placing, packing, now):
                return
            self.joining = None
            self._stop(spread)
            if spread.over and spread.drained(now) and spread.attempt != order.attempt:
                spread.write_over()
                self.spread = spread = None
        if order.void or not order.kinds or self.going:
            return
        if spread is None and now >= max(order.not_before, self._retry_at):
            self._begin(order, placing, packing, now)
        elif spread is not None and not spread.announced and not spread.stopping:
            self._meet(spread, peers)
        if self._lacked and self.pack is None and self.launch is not None:
            self._is_packed(order, self.launch, packing, now)

    def _begin(self, order: WorkerOrder, placing: Placing, packing: Packing, now: float) -> None:
        """Find machines for a set and write it down; raises BackendError where that cannot be done."""
        if self.launch is None:
            self._retry_at = now + RETRY_S
            raise BackendError(f"the workers cannot be started: {self.refusal}")
        if not self._is_packed(order, self.launch, packing, now) or self._elsewhere:
            return
        seats = self._placed(order.kinds, order.pool, (), placing, now)
        if seats is None:
            return
        assert self.pack is not None
        script = script_of(self.launch)
        form = SetForm(order.attempt, order.kinds, seats, launch=self.pack[0], pool=order.pool, script=script)
        self._write(self._made(form), now)

    def _placed(
        self, kinds: tuple[Kind, ...], pool: str, used: Collection[str], placing: Placing, now: float
    ) -> tuple[GpuSeat, ...] | None:
        """Find machines for workers, or note for how long there have not been enough."""
        seats = placing(kinds, pool, used)
        if seats is not None:
            self._waiting_since = None
            return seats
        self.unplaced = kinds
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        return None

    def _made(self, form: SetForm) -> MachineSet:
        return MachineSet(form, folder.attempt_folder(self.place, form.attempt))

    def _write(self, made: MachineSet, now: float) -> None:
        """Write down a set, which machines receive from now on; raises BackendError."""
        try:
            owned_folders.make_private(made.home)
            made.write()
        except (OSError, InputError) as error:
            raise self._failed(made.attempt, str(error), now) from error
        self.spread, self.newest, self._formed = made, made.attempt, made.attempt

    # ---------------------------------------------------------------- workers that stay

    def _goes_on(
        self,
        spread: MachineSet,
        order: WorkerOrder,
        peers: Peers,
        placing: Placing,
        packing: Packing,
        now: float,
    ) -> bool:
        """Let workers go on in the set that was ordered, where they can; False: all have to be ended."""
        launch = self.launch
        if order.void or not order.kinds or launch is None or now < order.not_before:
            return False
        if spread.stopping or spread.broken or not reforming.is_same(spread.form, order.pool, launch):
            return False
        soon = now < self._held_at + launch.grace_s + TAKE_S
        if not spread.reported:
            return soon
        stay = reforming.staying(spread, order.kinds)
        if stay and (self.going or spread.reforming):
            return soon
        if not stay or not self._is_packed_as(spread.form.launch, order, launch, packing, now):
            return bool(stay) and self._packing is not None and soon
        if self.joining is None:
            self.joining = self._planned(spread, order, stay, placing, now)
        if self.joining is None:
            return now < self._held_at + READY_S
        port = self._port(self.joining, peers)
        if port is None or port == spread.form.port:
            return soon
        self._take_over(spread, self.joining, port, now)
        return True

    def _is_packed_as(
        self, name: str, order: WorkerOrder, launch: Launch, packing: Packing, now: float
    ) -> bool:
        """Say whether we have what the workers were started with, for those who are added."""
        if self.pack is None:
            self._is_packed(order, launch, packing, now)
        return self.pack is not None and self.pack[0] == name

    def _planned(
        self, spread: MachineSet, order: WorkerOrder, stay: Mapping[int, int], placing: Placing, now: float
    ) -> MachineSet | None:
        """Return the set in which workers could go on; None where there are not enough machines."""
        added = tuple(kind for rank, kind in enumerate(order.kinds) if rank not in stay)
        seats = self._placed(added, order.pool, spread.parts.keys(), placing, now) if added else ()
        if seats is None:
            return None
        return self._made(reforming.successor(spread.form, order.attempt, order.kinds, stay, seats))

    def _take_over(self, spread: MachineSet, made: MachineSet, port: int, now: float) -> None:
        """Write down the set that takes workers over; from then on the other machines receive it."""
        made.form = made.form._replace(port=port)
        self.joining = None
        self._write(made, now)
        reforming.part(spread, made.form)
        self._send_away(spread)

    def fall_short(self, spot_gpus: int) -> None:
        """Give up an order for which there is not enough spot: nothing of it has begun, so it is lost."""
        assert self.order is not None
        self.order = self.order._replace(void=True, short_spot=spot_gpus)
        self._waiting_since = None

    def waited_s(self, now: float) -> float:
        """Return for how long there have not been enough machines."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def _is_packed(self, order: WorkerOrder, launch: Launch, packing: Packing, now: float) -> bool:
        """Say whether the working folder is ready to travel, as it is at the beginning of each attempt."""
        if self._packed_for == order.attempt:
            return True
        if self._packing is None:
            self._packing = packing(launch)
        if not self._packing.done():
            return False
        packing_done, self._packing = self._packing, None
        try:
            self.pack = packing_done.result()
        except (OSError, InputError) as error:
            raise self._failed(order.attempt, str(error), now) from error
        self._packed_for = order.attempt
        return True

    def _failed(self, attempt: int, why: str, now: float) -> BackendError:
        self._retry_at = now + RETRY_S
        return not_startable(attempt, self.place.name, why)

    def _meet(self, spread: MachineSet, peers: Peers) -> None:
        """Learn at which port the ranks meet, and write that down before any machine is to start."""
        port = self._port(spread, peers)
        if port is not None:
            spread.form = spread.form._replace(port=port)
            try:
                spread.write()
            except OSError as error:
                spread.form = spread.form._replace(port=0)
                raise self._unwritable(error) from error

    def _port(self, spread: MachineSet, peers: Peers) -> int | None:
        """Return the port that the machine of rank 0 offers to meet at."""
        peer = peers.get(spread.form.seats[0].host)
        return None if peer is None else peer.ports.get(self.place.name)

    def lacks(self, launch: str) -> bool:
        """Say whether a machine that knows nothing of this launch is to receive what we have."""
        spread = self.spread
        if spread is None or launch != spread.form.launch:
            return False
        if self.pack is None:  # an earlier controller began it, and perhaps had no time to send it
            self._lacked = True
            return False
        if self.pack[0] != launch:  # an earlier controller's: the files may have changed since
            with suppress(OSError):
                spread.form = spread.form._replace(launch=self.pack[0])
                spread.write()
        return True
