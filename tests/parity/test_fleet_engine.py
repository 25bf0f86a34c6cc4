"""A stream under the engine on replay is the simulated one: every allocator, on machines of every kind."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.view import FleetView, Remembering, begin
from slacktide.backends.replay import Replay
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.arrays import Ints
from slacktide.core.register import Spec
from slacktide.core.types import Job, Phase
from slacktide.engine.engine import Engine
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Kept, Lived, Remembered, Submitted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import keep, read_state
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Pool
from slacktide.physics import ledger
from slacktide.physics.tariff import tariff_of
from slacktide.policies.base import policies
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.run import RunOptions, run_events
from tests import build
from tests.golden.parts_of_streams import POLICIES, SETTINGS, Ground
from tests.parts_of_effort import examples

SLOT_HOURS = 10_000.0
"""One slot lasts longer than any stream here: the simulator of streams has no slots."""
POOL = Pool("cluster", SLOT_HOURS, [1.0], [1.0], [0])  # type: ignore[arg-type]


def from_its_first_job(where: Ground) -> Ground:
    """Return a stream whose clock begins when its first job comes, as a journal's does."""
    stream = where.stream
    hours = stream.arrival_hours - stream.arrival_hours[0]
    return Ground(Stream(hours, stream.class_index, stream.size), where.fleet)


def begun(where: Ground) -> Ground:
    """Return the first jobs of a stream: an engine's time goes by the square of their number."""
    some, stream = examples(len(where.stream)), where.stream
    return Ground(
        Stream(stream.arrival_hours[:some], stream.class_index[:some], stream.size[:some]), where.fleet
    )


def member(where: Ground, number: int) -> Job:
    """Return a job of a stream as its own file would describe it."""
    template: JobClass = where.fleet.classes[int(where.stream.class_index[number])]
    size = float(where.stream.size[number])
    phases = tuple(Phase(phase.work_gpu_hours * size, phase.speedup) for phase in template.phases)
    return dataclasses.replace(template.job, phases=phases)


def job_context(where: Ground, number: int) -> JobContext:
    arrival = float(where.stream.arrival_hours[number])
    return make_context(
        member(where, number), Market((POOL,)), POOL, policies.make("on-demand"), 0,
        began_hours=arrival, origin_hours=0.0,
    )  # fmt: skip


def submitted(where: Ground, number: int) -> Submitted:
    return build.submitted(
        str(number),
        at_hours=float(where.stream.arrival_hours[number]),
        policy=json.dumps("any"),
        slot_hours=SLOT_HOURS,
        origin_hours=0.0,
        fleet="a fleet",
        fleet_class=where.fleet.classes[where.stream.class_index[number]].name,
    )


def opened(spec: Spec, fleet: Fleet) -> Callable[[Submitted], LiveFleet]:
    names = {one.name: index for index, one in enumerate(fleet.classes)}
    return lambda _: LiveFleet(fleet, begin(allocators.make(spec), fleet), "any", names)


class Lives:
    """A stream that was simulated, and lived through by the engine at the same moments."""

    def __init__(self, spec: Spec, where: Ground, *, between: int = 0, crash_every: int = 0) -> None:
        self.where = from_its_first_job(where)
        self.moments: list[float] = []
        self.told: StreamRun = run_events(
            self.where.stream,
            self.where.fleet,
            allocators.make(spec),
            RunOptions(watch=self._note),
            last_call=False,
        )
        self.job_contexts = {
            str(number): job_context(self.where, number) for number in range(len(self.where.stream))
        }
        self.store, self.spec = MemoryStore(), spec
        self.engine = self.open()
        self._live(between, crash_every)

    def _note(self, view: FleetView, widths: Ints) -> None:
        self.moments.append(view.now_hours)

    def open(self) -> Engine:
        """Return a new engine on what the journal tells so far."""
        return Engine(
            self.store,
            Replay(),
            open_job=lambda event: self.job_contexts[event.job],
            open_fleet=opened(self.spec, self.where.fleet),
        )

    def _live(self, between: int, crash_every: int) -> None:
        came, arrivals = 0, self.where.stream.arrival_hours
        for number, now in enumerate(_with_more(sorted(set(self.moments)), between)):
            while came < len(arrivals) and arrivals[came] <= now:
                self.engine.submit(submitted(self.where, came))
                came += 1
            # A new engine asks at once: at a moment at which the simulator asks too.
            if crash_every and number % crash_every == 0:
                self.engine.keep()
                self.engine = self.open()
                self.engine.recover()
            self.engine.step(now)

    def check(self) -> None:
        """See that all jobs took as long as simulated, and that all GPU-hours are the same, by their use."""
        ended = [self.engine.state.jobs[str(number)].ended for number in range(len(self.where.stream))]
        hours = [np.nan if one is None else one.finish_hours for one in ended]
        np.testing.assert_allclose(hours, self.told.response_hours, rtol=1e-9, atol=1e-9)
        self.engine.close()
        used, bill = self.gpu_hours(), self.told.bill
        assert used["busy"] == pytest.approx(bill.busy_gpu_hours, rel=1e-9)
        assert used["restart"] == pytest.approx(bill.restart_gpu_hours, rel=1e-9)
        assert used["rounding"] == pytest.approx(bill.fragmentation_gpu_hours, rel=1e-9, abs=1e-9)
        assert used["boot"] + used["idle"] == pytest.approx(bill.idle_gpu_hours, rel=1e-9, abs=1e-9)
        stretches = [
            record.event.priced for record in self.store.read() if isinstance(record.event, Lived | Kept)
        ]
        checked = ledger.audit(stretches, lambda payer: tariff_of("second", SLOT_HOURS))
        assert checked.clean, checked

    def gpu_hours(self) -> dict[str, float]:
        """Return the GPU-hours of all stretches in the journal, by what they were for."""
        found = dict.fromkeys(("busy", "restart", "boot", "idle", "rounding"), 0.0)
        for record in self.store.read():
            if isinstance(record.event, Lived):
                one = record.event.priced.stretch
                found["busy"] += one.gpus * one.productive_hours
                found["restart"] += one.gpus * one.pause_hours
            elif isinstance(record.event, Kept):
                one = record.event.priced.stretch
                found[one.use] += one.gpus * one.held_hours
        return found


def _with_more(moments: list[float], between: int) -> list[float]:
    """Return moments with some more between each two."""
    shares = np.arange(between + 1) / (between + 1)
    pairs = zip(moments, [*moments[1:], moments[-1]], strict=True)
    return [float(one + (other - one) * share) for one, other in pairs for share in shares]


@pytest.mark.parametrize("spec", POLICIES, ids=str)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_engine_on_replay_lives_the_stream_that_was_simulated(setting: str, spec: Spec) -> None:
    Lives(spec, begun(SETTINGS[setting](0.0))).check()


@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_with_restarts_looked_at_more_often_and_begun_anew_on_the_way_it_is_the_same(spec: Spec) -> None:
    Lives(spec, begun(SETTINGS["everything"](0.05)), between=1, crash_every=40).check()


def test_the_state_of_a_fleet_is_a_fold_over_its_journal() -> None:
    lives = Lives("online-width", SETTINGS["everything"](0.05))
    again = JournalState()
    for record in lives.store.read():
        again.apply(record)
    assert dataclasses.asdict(again) == dataclasses.asdict(lives.engine.state)


def knows(lives: Lives, store: MemoryStore) -> list[object]:
    """Return what the allocators know in an engine that begins with a journal."""
    lives.store = store
    engine = lives.open()
    runs = [engine.context.fleets.run(fleet).allocator for fleet in engine.state.fleets.values()]
    return [json.loads(json.dumps(one.remember())) for one in runs if isinstance(one, Remembering)]


EARLIER = json.dumps({"knowledge": {"pace": {"since_hours": 0.0, "count": 1, "ends_hours": []}}, "new": []})
"""What `online-width` wrote down before it knew how bursty a stream is, shortened."""


@pytest.mark.parametrize("spec", ["online-width", {"efficiency-band": {"round_hours": 0.5}}], ids=str)
def test_what_an_allocator_knows_follows_from_a_snapshot_at_any_cut_and_the_rest(spec: Spec) -> None:
    lives = Lives(spec, SETTINGS["everything"](0.05))
    events = [record.event for record in lives.store.read()]
    for end in range(150, len(events), 250):
        plain, kept = MemoryStore(), MemoryStore()
        plain.append(events[:end])
        kept.append(events[: end // 2])
        keep(kept, read_state(kept))
        kept.append(events[end // 2 : end])
        assert repr(read_state(kept)) == repr(read_state(plain))
        assert knows(lives, kept) == knows(lives, plain)
        written = [one.memory for one in events[:end] if isinstance(one, Remembered) and one.memory]
        exact, asked = MemoryStore(), [at for at in range(end) if isinstance(events[at], Remembered)]
        exact.append(events[: asked[-1] + 1])
        assert knows(lives, exact) == [json.loads(written[-1])]


def test_what_an_earlier_version_wrote_down_is_learned_again_from_the_events() -> None:
    lives = Lives("online-width", SETTINGS["everything"](0.05))
    events = [record.event for record in lives.store.read()]
    cut, old = len(events) // 2, MemoryStore()
    old.append(
        dataclasses.replace(one, memory=EARLIER) if isinstance(one, Remembered) and one.memory else one
        for one in events[:cut]
    )
    plain = MemoryStore()
    plain.append(events[:cut])
    ((known,), (again,)) = (knows(lives, store) for store in (plain, old))
    assert isinstance(known, dict)
    assert isinstance(again, dict)
    assert again["knowledge"] == known["knowledge"]
    assert sorted(job for job, _ in again["new"]) == sorted(
        [job for job, _ in known["paths"]] + [job for job, _ in known["new"]]
    )
