"""The picture of a run shows what its journal says, to the cent."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from slacktide.errors import InputError
from slacktide.events import Decided, Ended, Lived, Preempted
from slacktide.ledger import Priced
from slacktide.report import run_scene as numbers
from slacktide.report.figures.run import PANELS, panel_svg, plot_run
from slacktide.report.run_scene import RunScene, run_scene

from ..runs import BEGAN, ODD_RUNS, scene_of
from .test_backtest import size_px


@pytest.fixture(params=sorted(ODD_RUNS))
def odd_run(request: pytest.FixtureRequest) -> RunScene:
    return ODD_RUNS[request.param]()


def test_png_of_every_run(odd_run: RunScene, tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.png"
    plot_run(odd_run, path)
    width, height = size_px(path)
    assert width == 1650
    assert 1200 < height < 2000
    assert "matplotlib.pyplot" not in sys.modules


def test_same_run_same_picture(tmp_path: Path) -> None:
    scene = scene_of()
    for name in ("a.png", "b.png"):
        plot_run(scene, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert panel_svg(scene, "spending", says="x") == panel_svg(scene, "spending", says="x")


def test_svg_panels_have_ids_of_their_own() -> None:
    scene = scene_of()
    for panel in PANELS:
        svg = panel_svg(scene, panel, says="what it shows")
        assert 'aria-label="what it shows"' in svg
        assert "http" not in svg


def test_what_was_held_adds_up(odd_run: RunScene) -> None:
    spot, on_demand = numbers.held(odd_run)
    hours = np.diff(spot.edges)
    lived = [one for one, _ in odd_run.stretches]
    assert (hours >= 0).all()
    assert spot.values @ hours == pytest.approx(
        sum(one.spot_gpus * (one.to_hours - one.from_hours) for one in lived)
    )
    assert on_demand.values @ hours == pytest.approx(
        sum(one.on_demand_gpus * (one.to_hours - one.from_hours) for one in lived)
    )


def test_money_and_work_end_where_the_journal_ends(odd_run: RunScene) -> None:
    spot, both = numbers.spent(odd_run)
    last = odd_run.told(Lived)[-1]
    assert both.amount[-1] == pytest.approx(last.state.cost_usd)
    assert (np.diff(both.amount) >= -1e-12).all()
    assert (both.amount >= spot.amount - 1e-9).all()
    path = numbers.progress(odd_run)
    assert path.amount[-1] == pytest.approx(last.state.progress_gpu_hours / odd_run.job.work_gpu_hours)
    assert (np.diff(path.hours) >= -1e-9).all()


def test_every_loss_is_drawn_as_a_fall(odd_run: RunScene) -> None:
    losses = numbers.losses(odd_run)
    told = odd_run.told(Preempted)
    assert [loss.hours for loss in losses] == [event.at_hours - BEGAN for event in told]
    for loss, event in zip(losses, told, strict=True):
        fall = (loss.before - loss.after) * odd_run.job.work_gpu_hours
        assert fall == pytest.approx(event.lost_gpu_hours)


def test_restarts_are_new_sets_of_workers_after_the_first(odd_run: RunScene) -> None:
    sets = {event.attempt for event in odd_run.told(Decided) if event.spot_gpus + event.on_demand_gpus}
    assert len(numbers.restarts(odd_run)) == max(0, len(sets) - 1)


def later(one: Priced, hours: float) -> Priced:
    stretch = one.stretch
    return one._replace(
        stretch=stretch._replace(from_hours=stretch.from_hours + hours, to_hours=stretch.to_hours + hours)
    )


def test_time_without_a_controller_is_empty() -> None:
    """A run that was let go and taken up again held nothing in between."""
    scene = scene_of("on-demand")
    first, *rest = scene.told(Lived)
    gap = 1.0
    moved = [dataclasses.replace(one, priced=later(one.priced, gap)) for one in rest]
    spot, on_demand = numbers.held(dataclasses.replace(scene, events=(first, *moved)))
    place = int(np.searchsorted(on_demand.edges, first.at_hours - BEGAN + gap / 2)) - 1
    assert on_demand.values[place] == spot.values[place] == 0


def test_a_run_that_goes_on_can_be_drawn(tmp_path: Path) -> None:
    scene = scene_of()
    going = tuple(event for event in scene.events if not isinstance(event, Ended))[:8]
    plot_run(dataclasses.replace(scene, events=going, alone=None, clairvoyant_usd=None), tmp_path / "a.png")
    assert size_px(tmp_path / "a.png")[0] == 1650


def test_nothing_lived_cannot_be_drawn() -> None:
    scene = scene_of()
    with pytest.raises(InputError, match="nothing was run yet"):
        run_scene(scene.job, scene.pool, 3, [], name="job", policy="x", began_hours=0.0)
