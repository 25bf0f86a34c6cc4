"""What each allocator decides, on views made by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from slacktide.allocators.base import SettledWays, allocators
from slacktide.allocators.site.spot import Spot
from slacktide.allocators.streams.fixed_width import FixedWidth
from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.view import Allocator, AnyAllocator, FleetView, JobColumns, Sizing, Wanted, begin
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.widths import optimal_widths
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import Job, Phase
from slacktide.simulation.fleet.stream_world import StreamRows
from slacktide_papers.baselines.efficiency_band import EfficiencyBand
from slacktide_papers.baselines.equi import Equi, share_equally
from slacktide_papers.baselines.fifo import Fifo
from slacktide_papers.baselines.shares import share_by_gain, size_for_efficiency, steps_of
from slacktide_papers.baselines.srpt import Srpt

ROOT = JobClass(
    Job(name="root", work_gpu_hours=1.0, speedup=Power(0.5), widths=tuple(range(1, 17))),
    arrivals_per_hour=2.0,
)
LAW = JobClass(
    Job(name="law", work_gpu_hours=2.0, speedup=Amdahl(0.9), widths=(1, 2, 4, 8)), arrivals_per_hour=1.0
)
WIDE = JobClass(
    Job(
        name="wide",
        phases=(Phase(1.0, Power(0.9)), Phase(1.0, Power(0.3))),
        restart_hours=0.1,
        widths=(2, 4, 8),
    ),
    arrivals_per_hour=1.0,
)
FLEET = Fleet((ROOT, LAW, WIDE), budget_gpus=14.0)


def view(
    classes: list[int],
    *,
    fleet: Fleet = FLEET,
    numbers: list[int] | None = None,
    phases: list[int] | None = None,
    widths: list[int] | None = None,
    work: list[float] | None = None,
    ready: int = 0,
    now: float = 1.0,
) -> FleetView:
    """Make a view of jobs by their classes."""
    count = len(classes)
    index = np.array(classes, dtype=np.int64)
    jobs = JobColumns(
        ids=np.arange(count),
        kind=index,
        number=np.array(numbers or [0] * count),
        phase=np.array(phases or [0] * count, dtype=np.int64),
        submitted_hours=np.zeros(count),
        spot_gpus=np.zeros(count, dtype=np.int64),
        on_demand_gpus=np.array(widths or [0] * count),
        pause_hours=np.zeros(count),
        progress_gpu_hours=np.zeros(count),
        work_gpu_hours=None if work is None else np.array(work),
    )
    return FleetView(
        now_hours=now,
        fleet=fleet,
        jobs=jobs,
        due=range(count),
        ready_gpus=ready,
        rented_gpus=ready,
        spent_gpu_hours=0.0,
        spot=Spot(),
        shown=StreamRows(fleet, now, jobs),
    )


def decided(allocator: AnyAllocator, seen: FleetView) -> list[int]:
    assert seen.fleet is not None
    return answer(begin(allocator, seen.fleet), seen)


def answer(run: Allocator, seen: FleetView) -> list[int]:
    decision = run.decide(seen)
    assert isinstance(decision, Wanted)
    widths: list[int] = decision.on_demand_gpus.tolist()
    return widths


def test_one_width_is_cut_to_what_a_class_may_have() -> None:
    assert decided(OneWidth(3), view([0, 1, 2, 2], phases=[0, 0, 0, 1])) == [3, 2, 2, 2]
    assert decided(OneWidth(1), view([0, 1, 2])) == [1, 1, 2]
    assert decided(OneWidth(999), view([0, 1, 2])) == [16, 8, 8]


def test_fixed_width_is_the_optimum_phase_by_phase() -> None:
    plan = optimal_widths(FLEET.classes, FLEET.budget_gpus)
    phases = [[0], [0], [0, 1]]
    for index, one in enumerate(plan.classes):
        for phase in phases[index]:
            seen = view([index] * 50, numbers=list(range(50)), phases=[phase] * 50)
            widths = decided(FixedWidth(), seen)
            for path in one.paths:
                share = widths.count(int(path.widths[phase])) / 50
                others = sum(way.share for way in one.paths if way.widths[phase] == path.widths[phase])
                assert share == pytest.approx(others, abs=1 / 50)


@pytest.mark.parametrize("share", [0.0, 0.25, 1 / 3, 0.5, 0.999])
def test_a_mixed_class_is_never_off_by_a_whole_job(share: float) -> None:
    ways = SettledWays(np.array([1]), np.array([2]), np.array([share]))
    numbers = np.arange(1000)
    wide = np.cumsum(ways.are_wide(np.zeros(1000, dtype=np.int64), numbers))
    assert np.abs(wide - (numbers + 1) * share).max() <= 1.0 + 1e-9


def test_fixed_width_needs_a_budget_that_is_enough() -> None:
    with pytest.raises(InfeasibleError, match="must be >="):
        begin(FixedWidth(1.0), FLEET)
    with pytest.raises(InputError, match="must be given a budget"):
        begin(FixedWidth(), Fleet((ROOT,)))


def test_fifo_serves_in_order_and_blocks_behind_who_does_not_fit() -> None:
    assert decided(Fifo(7, gpus=4), view([0, 1, 0, 0])) == [4, 0, 0, 0]
    assert decided(Fifo(9, gpus=4), view([0, 1, 0, 0])) == [4, 4, 0, 0]


def test_srpt_serves_the_shortest_and_of_equals_the_first() -> None:
    seen = view([0, 0, 0, 0], work=[3.0, 1.0, 2.0, 1.0])
    assert decided(Srpt(4, gpus=2), seen) == [0, 2, 0, 2]
    assert decided(Srpt(7, gpus=2), seen) == [0, 2, 2, 2]


def test_equi_shares_whole_gpus_and_hands_on_what_is_of_no_use() -> None:
    assert decided(Equi(7), view([0, 0, 0])) == [3, 2, 2]
    assert decided(Equi(2), view([0, 0, 0])) == [1, 1, 0]
    # The second may have 8 at most, so the first gets its 16; then widths 3 is not allowed for the second.
    assert decided(Equi(30), view([0, 1])) == [16, 8]
    assert decided(Equi(6), view([0, 1])) == [4, 2]
    # One GPU each is less than the wide ones may have: the first of them gets two of the others' shares.
    assert sum(decided(Equi(4), view([2, 2, 2]))) == 4


@pytest.mark.parametrize("gpus", range(1, 40, 3))
def test_equal_shares_never_exceed_the_cluster_and_leave_little(gpus: int) -> None:
    rng = np.random.default_rng(gpus)
    stages, fastest = FLEET.stages, np.argmax(FLEET.stages.rate, axis=1)
    for _ in range(20):
        stage = rng.integers(0, len(fastest), rng.integers(1, 8))
        widths = np.zeros(len(stage), dtype=np.int64)
        share_equally(stage, fastest, stages.narrower, gpus, widths)
        assert widths.sum() <= gpus
        left = gpus - widths.sum()
        for job, width in enumerate(widths.tolist()):
            wider = [w for w in range(width + 1, fastest[stage[job]] + 1) if stages.rate[stage[job], w] > 0]
            assert not wider or wider[0] - width > left


def test_a_cluster_must_have_room_for_every_class() -> None:
    for policy in (Fifo(1), Srpt(1), Equi(1)):
        with pytest.raises(InputError, match="room for every class, got 1 GPUs and class 'wide'"):
            begin(policy, FLEET)
    with pytest.raises(InputError, match="at least one GPU, got a budget of inf"):
        begin(Fifo(), Fleet((ROOT,)))


def test_gpus_go_where_they_speed_up_most() -> None:
    """The greedy shares are the best of all shares with the same number of GPUs."""
    fleet = Fleet((ROOT, LAW))
    stages, steps = fleet.stages, steps_of(fleet)
    stage = np.array([0, 1, 0])
    allowed = [[w for w in range(1, 17) if stages.rate[one, w] > 0 and w <= 8] for one in stage]
    for gpus in range(3, 20):
        widths = np.zeros(3, dtype=np.int64)
        share_by_gain(stage, steps, gpus, widths)
        speed = stages.rate[stage, widths].sum()
        used = widths.sum()
        best = max(
            sum(stages.rate[one, w] for one, w in zip(stage, choice, strict=True))
            for choice in product(*allowed)
            if sum(choice) <= used
        )
        assert used <= gpus
        assert speed >= best * (1 - 1e-9)


def test_the_size_for_an_efficiency_is_the_greatest_that_has_it() -> None:
    steps, stage = steps_of(FLEET), np.array([0, 1, 2, 0])
    for efficiency in (0.3, 0.5, 0.7, 0.9):
        size = size_for_efficiency(stage, steps, efficiency)
        speeds = []
        for gpus in (size, size + 8):
            widths = np.zeros(4, dtype=np.int64)
            share_by_gain(stage, steps, gpus, widths)
            speeds.append(steps.rate[stage, widths].sum() / widths.sum())
        least = int(steps.least[stage].sum())
        assert size == least or speeds[0] >= efficiency * (1 - 1e-9)
        assert speeds[1] <= max(efficiency, speeds[0])


def test_the_band_keeps_its_size_inside_and_never_lets_jobs_wait() -> None:
    run = begin(EfficiencyBand(0.6, band_share=0.2), FLEET)
    assert isinstance(run, Sizing)
    first = run.rent_gpus(view([0, 0]))
    assert first >= 2
    assert run.rent_gpus(view([0, 0], ready=first)) == first
    assert run.rent_gpus(view([0, 0], ready=first + 20)) < first + 20
    assert run.rent_gpus(view([0] * 9, ready=3)) >= 9
    assert run.rent_gpus(view([])) == 0


def test_between_rounds_nobody_is_resized() -> None:
    run = begin(EfficiencyBand(0.5, round_hours=1.0), FLEET)
    assert isinstance(run, Sizing)
    size = run.rent_gpus(view([0, 0], now=1.0))
    widths = answer(run, view([0, 0], ready=size, now=1.0))
    assert run.rent_gpus(view([0], widths=widths[:1], ready=size, now=1.5)) == size
    assert answer(run, view([0], widths=widths[:1], ready=size, now=1.5)) == widths[:1]
    later = view([0, 0], widths=[widths[0], 0], ready=size, now=1.6)
    run.rent_gpus(later)
    assert answer(run, later)[0] == widths[0]
    assert answer(run, later)[1] > 0
    assert run.rent_gpus(view([0], widths=widths[:1], ready=size, now=2.1)) < size


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"one-width": {"gpus": 0}}, "gpus must be >= 1"),
        ({"fifo": {"gpus": -1}}, "gpus must be >= 1"),
        ({"efficiency-band": {"efficiency": 1.5}}, r"efficiency must be in \(0, 1\]"),
        ({"efficiency-band": {"band_share": -1}}, "band_share must be >= 0"),
        ({"efficiency-band": {"round_hours": -1}}, "round_hours must be >= 0"),
        ({"online-width": {"period_jobs": 0}}, "period_jobs must be > 0"),
        ("fixedwidth", "did you mean 'fixed-width'"),
        ({"fifo": {"width": 3}}, "a parameter must be one of the known names"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_meant_are_refused(spec: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        allocators.make(spec)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"classes": ()}, "at least one class"),
        ({"budget_gpus": 0.0}, "budget_gpus must be > 0"),
        ({"node_gpus": 0}, "node_gpus must be >= 1"),
        ({"provisioning_hours": -1.0}, "provisioning_hours must be >= 0"),
        ({"idle_grace_hours": float("inf")}, "idle_grace_hours must be >= 0"),
    ],
    ids=["classes", "budget", "nodes", "provisioning", "grace"],
)
def test_a_fleet_checks_itself(wrong: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"classes": (ROOT,), **wrong}
    with pytest.raises(InputError, match=words):
        Fleet(**given)  # type: ignore[arg-type]
