"""From a wish to what a job will hold: cut to what can be had, and written as a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slacktide import physics
from slacktide.backend.base import Facts, Order
from slacktide.deciding import stays_in
from slacktide.engine.event_builders import decided
from slacktide.engine.health import health
from slacktide.engine.holding import nothing_yet
from slacktide.engine.incidents import next_attempt
from slacktide.engine.views import Ask, believed_of
from slacktide.events import Event, HealthChanged
from slacktide.pace import believed
from slacktide.site.moment import offer
from slacktide.site.spot import Claim
from slacktide.types import Allocation

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine


def settle(engine: Engine, ask: Ask, wish: Allocation) -> list[Event]:
    """Say what a job is to hold of what it wants, and take that out of what is left for others.

    A new set of workers begins where the holding changes, and where some were just taken. Raises InputError
    for a wish that names another pool.
    """
    track, state, begun = ask.track, ask.state, ask.begun
    lane = engine.lane(track)
    pool = lane.market_pool.name
    stays_in(wish, pool, track.job)
    left = offer(begun.quote, engine.spot.by_others(track.job).get(pool, 0))
    spot, on_demand = physics.cut(lane.terms, left, wish.spot_gpus, wish.on_demand_gpus)
    before = track.order or state  # what was ordered may not be there yet, and is not ordered again
    changed = ask.taken is not None or (spot, on_demand) != (before.spot_gpus, before.on_demand_gpus)
    attempt = next_attempt(engine, track) if changed else track.attempt
    wanted = Order(track.job, attempt, pool, int(spot), int(on_demand))
    engine.spot.hold(Claim(track.job, pool, wanted.spot_gpus, begun.from_hours))
    order = engine.lasting(track, state, begun, wanted)
    none = nothing_yet(track, engine.facts.get(track.job, Facts()), attempt, begun.from_hours, order.gpus)
    lost = physics.given_up(lane.terms, state, order.spot_gpus, order.on_demand_gpus, state.pool)
    return [decided(begun, state, order, wish, lost_gpu_hours=lost), *none, *_health(engine, ask, order)]


OUTRAN = "it reports nothing and is not done after the work of its file, so nobody knows what is left"


def _health(engine: Engine, ask: Ask, order: Order) -> list[Event]:
    """Say so where the outlook of a job changes with what it is to hold."""
    lane, hours = engine.lane(ask.track), ask.begun.from_hours
    pace = believed_of(lane, ask)
    terms = believed(lane.terms, pace)
    word, why = health(terms, pace, ask.state, hours, lane.slot_hours, order.spot_gpus, order.on_demand_gpus)
    if ask.track.estimated and physics.work_hours(terms, ask.state.progress_gpu_hours, terms.fastest) <= 0.0:
        word, why = "at-risk", OUTRAN
    if word == ask.track.health:
        return []
    return [HealthChanged(job=ask.track.job, at_hours=hours, health=word, why=why)]
