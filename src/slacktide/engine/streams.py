"""Jobs of a stream under the engine: one allocator decides about all of them at once.

The policy is shown the same `FleetView` as in the simulator. What it has to remember it learns
from the journal's events, in their order, so that a new engine that reads the journal knows the same.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, field

import numpy as np

from slacktide.allocate.base import allocators
from slacktide.arrays import Floats, Ints
from slacktide.budget.fleet import Fleet
from slacktide.deciding import (
    Allocator,
    Arrived,
    Columns,
    Finished,
    FleetView,
    Learning,
    Progressed,
    Rows,
    Sizing,
    View,
    Wanted,
    begin,
    needs_sizes,
)
from slacktide.engine.world import Track, World
from slacktide.errors import InputError, UnknownNameError
from slacktide.events import Ended, Lived, Record, Submitted
from slacktide.jobfile.fleet import parse_fleet
from slacktide.jobfile.reading import parse_job
from slacktide.site.spot import Spot
from slacktide.store.base import Store
from slacktide.types import Allocation, Reason

DEFAULT_STREAM_POLICY = "fixed-width"


@dataclass(slots=True)
class _Member:
    """A job of a stream, in the numbers an allocator reads."""

    id: int
    class_index: int
    number: int
    work_gpu_hours: float
    arrived_hours: float
    done_gpu_hours: float = 0.0


@dataclass(slots=True)
class _Stream:
    name: str
    fleet: Fleet
    policy: Allocator
    began_hours: float
    """When its first job came: a stream's policy counts from there."""
    members: dict[str, _Member] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    widths: dict[int, int] = field(default_factory=dict)
    """What the policy last said, by the number of the job."""


class Streams:
    """All streams of a journal, each known by its fleet file and policy."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._of: dict[str, _Stream] = {}

    def hear(self, record: Record, world: World) -> None:
        """Take an event of the journal into account, the world already knowing it.

        The policy is asked after each event of its stream and at no other time, so that reading the
        journal anew asks it the same questions: it then remembers the same, whatever it remembers.
        """
        event = record.event
        if isinstance(event, Submitted) and event.fleet:
            self._join(event)
        stream = self._of.get(event.job)
        if stream is None:
            return
        if isinstance(event, Lived):
            _progressed(stream, event)
        elif isinstance(event, Ended):
            member = stream.members[event.job]
            stream.present.discard(event.job)
            _tell(stream, Finished(event.at_hours - stream.began_hours, member.id, member.class_index))
        view = _view(stream, {job: world.jobs[job] for job in stream.members}, event.at_hours)
        wanted = stream.policy.decide(view)
        if not isinstance(wanted, Wanted):
            raise InputError("a live stream's allocator must decide in columns, got a mapping of names")
        widths = wanted.on_demand_gpus.tolist()
        stream.widths = dict(zip(view.jobs.ids.tolist(), widths, strict=True))

    def retell(self, store: Store, world: World) -> None:
        """Take into account what befell the streams' jobs as far as a world knows it, from the journal.

        A world that comes from a snapshot does not say what the policies were asked and told on the way.
        """
        members = [job for job, track in world.jobs.items() if track.submitted.fleet]
        past = World()
        for record in heapq.merge(*(store.read(job=job) for job in members), key=lambda one: one.seq):
            if record.seq > world.seq:
                return
            past.apply(record)
            self.hear(record, past)

    def share(self, job: str) -> Allocation | None:
        """Return what a job of a stream should hold now; None for a job that is of no stream."""
        stream = self._of.get(job)
        if stream is None:
            return None
        width = stream.widths[stream.members[job].id]
        signals = {"jobs": float(len(stream.widths)), "gpus_of_all": float(sum(stream.widths.values()))}
        return Allocation(0, width, reason=Reason(stream.name, signals))

    def _join(self, event: Submitted) -> None:
        key = (event.fleet, event.policy)
        if key not in self._streams:
            self._streams[key] = _open(event)
        stream = self._streams[key]
        member = _member(stream, event)
        stream.members[event.job] = member
        stream.counts[member.class_index] = member.number + 1
        stream.present.add(event.job)
        self._of[event.job] = stream
        _tell(stream, Arrived(event.at_hours - stream.began_hours, member.id, member.class_index))


def check_member(event: Submitted) -> None:
    """Raise InputError unless this job can be one of its stream."""
    _member(_open(event), event)


def _open(event: Submitted) -> _Stream:
    file = parse_fleet(event.fleet, path=event.fleet_path)
    spec = json.loads(event.policy)
    made = allocators.make(spec)
    fleet = Fleet(file.classes, file.budget_gpus)
    policy = begin(made, fleet)
    name = allocators.name_of(made)
    if isinstance(policy, Sizing):
        raise InputError(
            f"a live stream must have a policy of widths, got {name}, which rents a cluster; take fixed-width"
        )
    return _Stream(name, fleet, policy, event.at_hours)


def _member(stream: _Stream, event: Submitted) -> _Member:
    file = parse_job(event.text, path=event.path)
    names = [one.name for one in stream.fleet.classes]
    if file.fleet_class is None:
        raise InputError(
            f"{event.path}: a job of a stream must name its class, got none; write 'class: NAME'"
        )
    if file.fleet_class not in names:
        raise UnknownNameError("a class", file.fleet_class, names, place=f"{event.path}: ")
    index = names.index(file.fleet_class)
    number = stream.counts.get(index, 0)
    arrived = event.at_hours - stream.began_hours
    return _Member(len(stream.members), index, number, file.job.work_gpu_hours, arrived)


def _tell(stream: _Stream, event: Arrived | Progressed | Finished) -> None:
    if isinstance(stream.policy, Learning):
        stream.policy.learn(event)


def _progressed(stream: _Stream, event: Lived) -> None:
    member = stream.members[event.job]
    work = event.state.progress_gpu_hours - member.done_gpu_hours
    phase = _stage(stream.fleet, member) - int(stream.fleet.stages.first[member.class_index])
    stretch = event.priced.stretch
    if work > 0 and stretch.productive_hours > 0:
        _tell(
            stream,
            Progressed(
                event.at_hours - stream.began_hours,
                member.id,
                member.class_index,
                phase,
                stretch.gpus,
                stretch.productive_hours,
                work,
            ),
        )
    member.done_gpu_hours = event.state.progress_gpu_hours


def _stage(fleet: Fleet, member: _Member) -> int:
    """Return the row of a job's phase: phases take the same share of every job of their class."""
    first, last = fleet.stages.first[member.class_index : member.class_index + 2]
    shares = np.cumsum(fleet.stages.work_gpu_hours[first:last])
    done = member.done_gpu_hours / member.work_gpu_hours
    return int(first + min(np.searchsorted(shares / shares[-1], done, side="right"), last - first - 1))


def _view(stream: _Stream, tracks: dict[str, Track], now_hours: float) -> FleetView:
    """Show a stream's policy the jobs that are present, and what all of them have cost so far."""
    present = {job: member for job, member in stream.members.items() if job in stream.present}
    members = list(present.values())
    width = _whole([_held(tracks[job]) for job in present])
    kinds = _whole([member.class_index for member in members])
    stages = _whole([_stage(stream.fleet, member) for member in members])
    work: Floats | None = None
    if needs_sizes(stream.policy):
        work = np.array([member.work_gpu_hours for member in members])
    return FleetView(
        now_hours=now_hours - stream.began_hours,
        fleet=stream.fleet,
        jobs=Columns(
            ids=_whole([member.id for member in members]),
            kind=kinds,
            number=_whole([member.number for member in members]),
            phase=stages - stream.fleet.stages.first[kinds],
            submitted_hours=np.array([member.arrived_hours for member in members]),
            spot_gpus=np.zeros_like(width),
            on_demand_gpus=width,
            pause_hours=np.zeros(len(members)),
            progress_gpu_hours=np.array([member.done_gpu_hours for member in members]),
            work_gpu_hours=work,
        ),
        due=range(len(members)),
        ready_gpus=int(width.sum()),
        rented_gpus=int(width.sum()),
        spent_gpu_hours=sum(_spent(track, now_hours) for track in tracks.values()),
        spot=Spot(),
        shown=_Unread(),
    )


class _Unread(Rows):
    """No rows: the allocators of live streams so far read columns."""

    def name(self, place: int) -> str:
        raise InputError("a live stream's allocator must read columns, got one that reads rows")

    def view(self, place: int, spot: Spot) -> View:
        raise InputError("a live stream's allocator must read columns, got one that reads rows")


def _held(track: Track) -> int:
    return 0 if track.order is None else track.order.gpus


def _spent(track: Track, now_hours: float) -> float:
    """Return the GPU-hours that a job was rented so far, the stretch that is open included."""
    open_hours = 0.0
    if track.begun is not None:
        open_hours = max(0.0, now_hours - track.begun.from_hours)
    return track.bill.spot_gpu_hours + track.bill.on_demand_gpu_hours + _held(track) * open_hours


def _whole(numbers: list[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)
