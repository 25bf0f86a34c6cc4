"""Where a job may run: which pools of a market it may use, at which widths and how fast."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from slacktide.core.errors import InputError, listed
from slacktide.core.speedup import Scaled
from slacktide.core.types import Job, PoolChoice
from slacktide.market.base import Market, Pool
from slacktide.market.pools.moves import is_at

ANY_GPU = "GPU"  # what a job requests that takes any GPU


class UsablePool(NamedTuple):
    """A pool that a job may use."""

    pool: str
    widths: tuple[int, ...]
    speed: float  # how fast one of its GPUs is for the job, against the reference GPU


def places_of(job: Job, gpu: str, market: Market) -> tuple[UsablePool, ...]:
    """Return the pools of a market that a job may use, in the market's order.

    Where several choices of the job fit a pool the first counts. `gpu` is what a job without choices
    requests; a pool whose GPU type is not known counts as having it, and a market of one other type alone is
    used as if it were its own. Raises InputError where no pool fits.
    """
    choices = job.pools or (PoolChoice(_wanted(gpu, market)),)
    found = ((pool.name, _choice(pool, choices)) for pool in market.pools)
    places = tuple(
        UsablePool(name, choice.widths or job.widths, choice.speed)
        for name, choice in found
        if choice is not None
    )
    if not places:
        raise InputError(
            f"{market.source}: the job must fit at least one pool, requested {_requested(choices)}, got "
            f"{listed([_said(pool) for pool in market.pools])}; change 'resources' of the job, or the market",
            field="pools",
        )
    return places


def job_at(job: Job, place: UsablePool) -> Job:
    """Return a job as it is in one place: its widths there, and how fast it is."""
    if place.speed == 1.0:
        return replace(job, widths=place.widths, pools=())
    phases = tuple(replace(one, speedup=Scaled(one.speedup, place.speed)) for one in job.phases)
    return replace(
        job, widths=place.widths, pools=(), phases=phases, speedup=Scaled(job.speedup, place.speed)
    )


def _wanted(gpu: str, market: Market) -> str:
    types = {pool.gpu.casefold() for pool in market.pools if pool.gpu}
    return ANY_GPU if len(types) == 1 and gpu.casefold() not in types else gpu


def _choice(pool: Pool, choices: tuple[PoolChoice, ...]) -> PoolChoice | None:
    return next(
        (each for each in choices if _same_gpu(each.gpu, pool.gpu) and is_at(pool.name, each.infra)), None
    )


def _same_gpu(wanted: str, there: str) -> bool:
    return wanted in ("", ANY_GPU) or not there or wanted.casefold() == there.casefold()


def _requested(choices: tuple[PoolChoice, ...]) -> str:
    return " or ".join(f"{each.gpu} in {each.infra}" if each.infra else each.gpu for each in choices)


def _said(pool: Pool) -> str:
    return f"{pool.name} ({pool.gpu})" if pool.gpu else pool.name
