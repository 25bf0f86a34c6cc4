"""The picture of a run shows what its journal says, to the cent."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.engine.bills.bill import run_result
from slacktide.journal.events import Decided, Ended, Event, Lived, Preempted
from slacktide.physics.ledger import Priced
from slacktide.report import words
from slacktide.report.figures.drawing import scene as numbers
from slacktide.report.figures.drawing.style import looks
from slacktide.report.figures.panels import progress
from slacktide.report.figures.run import PANELS, panel_svg, plot_run
from slacktide.results.run import RunResult

from ..runs import BEGAN, ODD_RUNS, Told, submitted, told
from .test_backtest import size_px


@pytest.fixture(params=sorted(ODD_RUNS))
def odd_run(request: pytest.FixtureRequest) -> Told:
    return ODD_RUNS[request.param]()


def test_png_of_every_run(odd_run: Told, tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.png"
    plot_run(odd_run.runs, path)
    width, height = size_px(path)
    assert width == 1650
    assert 1200 < height < 2100
    assert "matplotlib.pyplot" not in sys.modules


def test_same_run_same_picture(tmp_path: Path) -> None:
    runs = told().runs
    for name in ("a.png", "b.png"):
        plot_run(runs, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert panel_svg(runs, "money") == panel_svg(runs, "money")


def test_svg_panels_say_what_they_show() -> None:
    runs = told().runs
    for panel, says in PANELS.items():
        svg = panel_svg(runs, panel)
        assert f'aria-label="{says}"' in svg
        assert "http" not in svg


def test_what_was_held_adds_up(odd_run: Told) -> None:
    spot, on_demand = numbers.held(odd_run.run)
    hours = np.diff(spot.edges)
    lived = [event.priced.stretch for event in odd_run.events if isinstance(event, Lived)]
    assert (hours >= 0).all()
    assert spot.values @ hours == pytest.approx(
        sum(one.spot_gpus * (one.to_hours - one.from_hours) for one in lived)
    )
    assert on_demand.values @ hours == pytest.approx(
        sum(one.on_demand_gpus * (one.to_hours - one.from_hours) for one in lived)
    )


def test_money_and_work_end_where_the_journal_ends(odd_run: Told) -> None:
    money, path = numbers.spent(odd_run.run), numbers.share(numbers.done(odd_run.run), odd_run.run.job)
    last = [event for event in odd_run.events if isinstance(event, Lived)][-1]
    assert money.amount[-1] == pytest.approx(last.state.cost_usd)
    assert (np.diff(money.amount) >= -1e-12).all()
    assert path.amount[-1] == pytest.approx(last.state.progress_gpu_hours / odd_run.run.job.work_gpu_hours)
    assert (np.diff(path.hours) >= -1e-9).all()


def test_every_loss_is_kept_with_the_work_it_took(odd_run: Told) -> None:
    taken = [event for event in odd_run.events if isinstance(event, Preempted)]
    losses = odd_run.run.losses
    assert [loss.hours for loss in losses] == [event.at_hours - BEGAN for event in taken]
    assert [loss.lost_gpu_hours for loss in losses] == [event.lost_gpu_hours for event in taken]
    path = numbers.share(numbers.done(odd_run.run), odd_run.run.job)
    fallen = -np.diff(path.amount)[np.diff(path.amount) < 0].sum() * odd_run.run.job.work_gpu_hours
    assert fallen == pytest.approx(odd_run.run.lost_gpu_hours)


def test_restarts_are_new_sets_of_workers_after_the_first(odd_run: Told) -> None:
    decided = [event for event in odd_run.events if isinstance(event, Decided)]
    sets = {event.attempt for event in decided if event.spot_gpus + event.on_demand_gpus}
    assert len(odd_run.run.restarts) == max(0, len(sets) - 1)


def later(one: Priced, hours: float) -> Priced:
    stretch = one.stretch
    return one._replace(
        stretch=stretch._replace(from_hours=stretch.from_hours + hours, to_hours=stretch.to_hours + hours)
    )


def again(whole: Told, events: Sequence[Event]) -> RunResult:
    """Return what other events say of the same job."""
    return run_result(events, whole.run.job, whole.run.pool, "on-demand")


def test_time_without_a_controller_is_empty() -> None:
    """A run that was let go and taken up again held nothing in between."""
    whole, gap = told("on-demand"), 1.0
    lived = [event for event in whole.events if isinstance(event, Lived)]
    moved = [
        dataclasses.replace(event, priced=later(event.priced, gap)) if event in lived[1:] else event
        for event in whole.events
    ]
    spot, on_demand = numbers.held(again(whole, moved))
    place = int(np.searchsorted(on_demand.edges, lived[0].at_hours - BEGAN + gap / 2)) - 1
    assert on_demand.values[place] == spot.values[place] == 0


def test_stretches_without_a_decision_between_them_join() -> None:
    whole = told("on-demand")
    first = next(event for event in whole.events if isinstance(event, Decided))
    kept = [event for event in whole.events if event is first or not isinstance(event, Decided)]
    assert again(whole, kept).laps == whole.run.laps


def test_work_rises_only_while_it_is_done(odd_run: Told) -> None:
    path = numbers.share(numbers.done(odd_run.run), odd_run.run.job)
    rising = np.diff(path.hours)[np.diff(path.amount) > 1e-12].sum()
    assert rising == pytest.approx(sum(one.productive_hours for one, _ in odd_run.run.stretches))


def test_a_run_that_goes_on_can_be_drawn(tmp_path: Path) -> None:
    whole = told()
    going = again(whole, [event for event in whole.events if not isinstance(event, Ended)][:8])
    assert (going.status, going.on_time) == (None, False)
    assert words.outcome(going).endswith("running")
    named = [key.get_label() for key in progress.keys(numbers.scene([going]), looks([going.policy]))]
    assert named == ["on-demand: 27 %, running", "straight line"], "it has no end to be marked"
    plot_run([going], tmp_path / "a.png")
    assert size_px(tmp_path / "a.png")[0] == 1650


def test_a_job_handed_in_inside_a_slot_meets_the_market_where_it_stood() -> None:
    whole = told()
    inside = dataclasses.replace(submitted(), origin_hours=BEGAN - 0.2)
    run = again(whole, [inside, *whole.events[1:]])
    shown = numbers.scene([run])
    assert run.origin_hours == pytest.approx(-0.2)
    assert shown.edges[:3].tolist() == pytest.approx([0.0, 0.3, 0.8])
    assert (shown.start - run.pool.time(run.start_slot)).total_seconds() == pytest.approx(720)


def test_nothing_lived_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="it has not run yet"):
        again(told(), [submitted()])
