"""Where pools are, which of them a job may use, and what it costs to copy a checkpoint from one to another.

Where a pool is (cloud, region, zone and continent) is read from its name, as large clouds name them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, listed
from slacktide.core.speedup import Scaled
from slacktide.core.types import Job, PoolChoice
from slacktide.market.base import Market, Moves, Pool

ANY_GPU = "GPU"  # the GPU type of a job that takes any
CLOUDS = {
    "aws", "gcp", "azure", "oci", "ibm", "lambda", "nebius", "runpod", "vast", "coreweave", "fluidstack",
    "cudo", "paperspace", "do", "kubernetes", "k8s", "ssh",
}  # fmt: skip
"""Clouds that a part of a pool's name, or of `infra`, may name."""

# us-east-1, us-east-1c, us-gov-west-1a; us-west-2-lax-1a is a local zone of us-west-2.
_AWS = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+){1,2}-[0-9]{1,2})(?P<zone>[a-z]|-[a-z]{3}-[0-9][a-z])?")
# us-central1, us-central1-a, northamerica-northeast1-b
_GCP = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]{1,2})(?P<zone>-[a-z])?")
_SIDES = "north|south|east|west|central"
_LANDS = (
    "us|canada|mexico|brazil|chile|europe|uk|france|germany|norway|sweden|switzerland|poland|italy|spain|"
    "austria|belgium|denmark|asia|japan|korea|india|jioindia|indonesia|malaysia|australia|newzealand|"
    "southafrica|uae|qatar|israel|china"
)
# eastus2, westeurope-3, germanywestcentral: compass directions before or after a country.
_AZURE = re.compile(
    rf"(?=.*(?:{_SIDES}))(?P<region>(?:{_SIDES}){{0,2}}(?P<land>{_LANDS})(?:{_SIDES}){{0,2}}[0-9]?)(?P<zone>-[1-9])?"
)

_CONTINENTS = {
    "north-america": "us ca mx northamerica canada mexico",
    "south-america": "sa southamerica brazil chile",
    "europe": "eu europe uk france germany norway sweden switzerland poland italy spain austria belgium "
    "denmark",
    "middle-east": "il me uae qatar israel",
    "asia": "ap cn asia japan korea india jioindia indonesia malaysia china",
    "oceania": "australia newzealand ap-southeast-2 ap-southeast-4 ap-southeast-6",
    "africa": "af africa southafrica",
}
_CONTINENT_OF = {word: continent for continent, words in _CONTINENTS.items() for word in words.split()}


class Location(NamedTuple):
    """What a pool's name says about where it is; fields that it does not say are empty."""

    cloud: str
    region: str
    zone: str
    continent: str
    parts: frozenset[str]  # all words of the name that select it, in lower case


@lru_cache(maxsize=4096)
def location_of(pool_name: str) -> Location:
    """Read a pool's name: a zone as GCP, AWS or Azure name it, perhaps with more before or after `/` or `_`.

    A name without any such zone is a region of its own, on an unknown continent.
    """
    parts = [part for part in re.split(r"[/_]", pool_name.strip().lower()) if part]
    named = next((part for part in parts if part in CLOUDS), "")
    for part in parts:
        for cloud, pattern in (("aws", _AWS), ("gcp", _GCP), ("azure", _AZURE)):
            if found := pattern.fullmatch(part):
                land = found["land"] if cloud == "azure" else part.partition("-")[0]
                continent = _CONTINENT_OF.get(found["region"]) or _CONTINENT_OF.get(land, "")
                if cloud == "azure" or continent:
                    zone = part if found["zone"] else ""
                    return _location(named or cloud, found["region"], zone, continent, pool_name, parts)
    return _location(named, pool_name, "", "", pool_name, parts)


def _location(cloud: str, region: str, zone: str, continent: str, name: str, parts: list[str]) -> Location:
    words = {cloud, region.lower(), zone, name.strip().lower(), *parts} - {""}
    return Location(cloud, region, zone, continent, frozenset(words))


def region_of(pool_name: str) -> str:
    """Return the region of a pool: `us-central1` for `gcp/us-central1-a`; an unknown name is its own."""
    return location_of(pool_name).region


def is_at(pool_name: str, infra: str) -> bool:
    """Whether a pool is where `infra` says: a cloud, region or zone, or several joined by `/`; `*` is any.

    An empty `infra` is anywhere.
    """
    location, wanted = location_of(pool_name), infra.strip().lower()
    if wanted in location.parts:
        return True
    return all(part in location.parts for part in wanted.split("/") if part not in ("", "*"))


class UsablePool(NamedTuple):
    """A pool that a job may use."""

    pool: str
    widths: tuple[int, ...]
    speed: float  # how fast one of its GPUs is for the job, in multiples of the reference GPU


def places_of(job: Job, gpu: str, market: Market) -> tuple[UsablePool, ...]:
    """Return the pools of a market that a job may use, in the market's order.

    If several choices of the job fit a pool, the first counts. `gpu` is what a job without choices requests;
    a pool of unknown GPU type counts as having it, and if all pools have one other type, that is used
    instead. Raises InputError if no pool fits.
    """
    types = {pool.gpu.casefold() for pool in market.pools if pool.gpu}
    requested = ANY_GPU if len(types) == 1 and gpu.casefold() not in types else gpu
    choices = job.pools or (PoolChoice(requested),)
    fitting = ((pool.name, _choice(pool, choices)) for pool in market.pools)
    places = tuple(
        UsablePool(name, choice.widths or job.widths, choice.speed) for name, choice in fitting if choice
    )
    if not places:
        wanted = " or ".join(
            f"{choice.gpu} in {choice.infra}" if choice.infra else choice.gpu for choice in choices
        )
        pools = [f"{pool.name} ({pool.gpu})" if pool.gpu else pool.name for pool in market.pools]
        raise InputError(
            f"{market.source}: the job must fit at least one pool, requested {wanted}, got {listed(pools)}; "
            "change 'resources' of the job, or the market",
            field="pools",
        )
    return places


def job_at(job: Job, place: UsablePool) -> Job:
    """Return a job with the widths and the speed that it has in one pool."""
    local = replace(job, widths=place.widths, pools=())
    return local if place.speed == 1.0 else local.with_speedups(lambda speedup: Scaled(speedup, place.speed))


def _choice(pool: Pool, choices: tuple[PoolChoice, ...]) -> PoolChoice | None:
    for choice in choices:
        fits = choice.gpu in ("", ANY_GPU) or not pool.gpu or choice.gpu.casefold() == pool.gpu.casefold()
        if fits and is_at(pool.name, choice.infra):
            return choice
    return None


_RULES = (
    ("within_region_usd_per_gb", "within a region"),
    ("between_regions_usd_per_gb", "between regions"),
    ("between_continents_usd_per_gb", "between continents"),
)
_GBIT_PER_GB = 8.0


def move_usd_per_gb(moves: Moves, from_pool: str, to_pool: str) -> float:
    """Return what copying a GB from one pool to another costs; 0 within one pool."""
    if from_pool == to_pool:
        return 0.0
    regions = {region_of(from_pool), region_of(to_pool)}
    for first, second, usd in moves.pairs:
        if {first, second} == regions:
            return usd
    if len(regions) == 1:
        return moves.within_region_usd_per_gb
    continents = {location_of(from_pool).continent, location_of(to_pool).continent}
    # Pools on an unknown continent are not assumed to be on different ones.
    far = len(continents) == 2 and "" not in continents
    return moves.between_continents_usd_per_gb if far else moves.between_regions_usd_per_gb


def move_hours(moves: Moves, checkpoint_gb: float, from_pool: str, to_pool: str) -> float:
    """Return how long copying a checkpoint takes; no time within a region, where pools read one store."""
    if region_of(from_pool) == region_of(to_pool):
        return 0.0
    return checkpoint_gb * _GBIT_PER_GB / moves.gbit_per_s / 3600.0


def move_matrices(moves: Moves, checkpoint_gb: float, pool_names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return USD and hours of all moves of a checkpoint among some pools, each as [from, to]."""
    pairs = [(first, second) for first in pool_names for second in pool_names]
    usd = np.array([checkpoint_gb * move_usd_per_gb(moves, *pair) for pair in pairs])
    hours = np.array([move_hours(moves, checkpoint_gb, *pair) for pair in pairs])
    shape = len(pool_names), len(pool_names)
    return usd.reshape(shape), hours.reshape(shape)


def assumed_moves(moves: Moves, given: Collection[str] = ()) -> str:
    """Say in a sentence what is assumed of moves, for all fields but those that were given.

    Empty where nothing is assumed.
    """
    costs = [f"{getattr(moves, name):g} USD per GB {where}" for name, where in _RULES if name not in given]
    assumed = []
    if costs:
        *first, last = costs
        assumed.append(f"to cost {', '.join(first)} and {last}" if first else f"to cost {last}")
    if "gbit_per_s" not in given:
        assumed.append(f"to go at {moves.gbit_per_s:g} Gbit/s")
    return f"Moving a checkpoint to another pool is assumed {' and '.join(assumed)}." if assumed else ""
