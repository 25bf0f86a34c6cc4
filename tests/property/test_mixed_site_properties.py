"""Jobs with deadlines and the jobs of a fleet on one site: promises hold, and every GPU-hour is paid once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.lives.mixed import Site, rented_gpu_hours, sites, stretches
from campaigns.lives.site import SLOT_HOURS, SLOTS
from slacktide.backends.replay import Replay
from slacktide.engine.engine import Engine
from slacktide.journal.state.snapshots import keep, known
from slacktide.journal.store.base import MemoryStore
from slacktide.physics import ledger
from slacktide.physics.tariff import tariff_of


@given(site=sites(), ticks=st.sampled_from([1, 4]), late_hours=st.sampled_from([0.0, 0.03]))
@settings(deadline=None, max_examples=60)
def test_deadlines_hold_beside_a_fleet_and_every_gpu_hour_is_paid_once(
    site: Site, ticks: int, late_hours: float
) -> None:
    store = MemoryStore()
    engine = Engine(store, Replay(), open_job=lambda one: site.job_contexts[one.job], open_fleet=site.opened)
    moments = {tick * SLOT_HOURS / ticks + late_hours for tick in range(8 * SLOTS * ticks)}
    for now in sorted(moments | {context.terms.submitted_hours for context in site.job_contexts.values()}):
        for job, context in site.job_contexts.items():
            if context.terms.submitted_hours == now:
                engine.submit(site.submitted(job))
        engine.step(now)
        if len(engine.state.jobs) == len(site.job_contexts) and not engine.state.active:
            break
    engine.close()
    for job, context in site.job_contexts.items():
        ended = engine.state.jobs[job].ended
        assert ended is not None, job
        assert ended.status == "succeeded", (job, ended)
        assert context.job.on_time(ended.finish_hours), job
    by_the_second = tariff_of("second", SLOT_HOURS)
    tariffs = {job: context.tariff for job, context in site.job_contexts.items()}
    checked = ledger.audit(stretches(store), lambda payer: tariffs.get(payer, by_the_second))
    assert checked.clean, checked
    (fleet,) = engine.state.fleets.values()
    of_fleet = [one for one in stretches(store) if not one.stretch.payer.startswith("alone")]
    assert abs(fleet.spent_gpu_hours - ledger.bill(of_fleet).gpu_hours) < 1e-6
    assert fleet.cluster.rented == 0
    if site.opened(fleet.first).owns_machines:
        assert abs(fleet.spent_gpu_hours - rented_gpu_hours(store)) < 1e-6
    keep(store, engine.state)
    assert repr(known(store)) == repr(engine.state)
