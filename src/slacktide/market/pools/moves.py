"""What it costs to carry a checkpoint from one pool to another: USD and hours, by where the two pools are."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.market.pools.zones import continent_of, region_of

__all__ = ["Moves", "continent_of", "region_of"]

_RULES = (
    ("within_region_usd_per_gb", "within a region"),
    ("between_regions_usd_per_gb", "between regions"),
    ("between_continents_usd_per_gb", "between continents"),
)
_GBIT_PER_GB = 8.0
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Moves:
    """What carrying a checkpoint between pools costs, and how fast it goes.

    The defaults are about what large clouds charge for traffic between their own regions. Raises InputError
    for a number that cannot be meant.
    """

    within_region_usd_per_gb: float = 0.0
    between_regions_usd_per_gb: float = 0.02
    between_continents_usd_per_gb: float = 0.08
    gbit_per_s: float = 5.0
    """How fast a checkpoint travels to another region; may be infinite."""
    pairs: tuple[tuple[str, str, float], ...] = ()
    """Two regions and the USD per GB between them, both ways; they come before the general rule."""

    def __post_init__(self) -> None:
        for name, _ in _RULES:
            _check_usd(name, getattr(self, name))
        if not self.gbit_per_s > 0:
            raise InputError(f"gbit_per_s must be > 0, got {self.gbit_per_s:g}", field="gbit_per_s")
        for first, second, usd in self.pairs:
            _check_usd(f"the cost of a move between {first} and {second}", usd, "pairs")

    def usd_per_gb(self, from_pool: str, to_pool: str) -> float:
        """Return what a GB costs on its way from one pool to another; nothing where they are one."""
        if from_pool == to_pool:
            return 0.0
        regions = {region_of(from_pool), region_of(to_pool)}
        for first, second, usd in self.pairs:
            if {first, second} == regions:
                return usd
        if len(regions) == 1:
            return self.within_region_usd_per_gb
        continents = {continent_of(from_pool), continent_of(to_pool)}
        # Where a continent is not known, nothing says that an ocean lies between.
        far = len(continents) == 2 and "" not in continents
        return self.between_continents_usd_per_gb if far else self.between_regions_usd_per_gb

    def usd(self, checkpoint_gb: float, from_pool: str, to_pool: str) -> float:
        """Return what it costs to carry a checkpoint from one pool to another."""
        return checkpoint_gb * self.usd_per_gb(from_pool, to_pool)

    def hours(self, checkpoint_gb: float, from_pool: str, to_pool: str) -> float:
        """Return how long a checkpoint is on its way; within a region the same store is read, at once."""
        if region_of(from_pool) == region_of(to_pool):
            return 0.0
        return checkpoint_gb * _GBIT_PER_GB / self.gbit_per_s / _SECONDS_PER_HOUR

    def matrices(self, checkpoint_gb: float, pool_names: Sequence[str]) -> tuple[Floats, Floats]:
        """Return USD and hours of all moves among some pools, each as [from, to]."""
        shape = len(pool_names), len(pool_names)
        usd, hours = np.zeros(shape), np.zeros(shape)
        for row, first in enumerate(pool_names):
            for column, second in enumerate(pool_names):
                usd[row, column] = self.usd(checkpoint_gb, first, second)
                hours[row, column] = self.hours(checkpoint_gb, first, second)
        return usd, hours

    def assumed(self, given: Collection[str] = ()) -> str:
        """Say in a sentence what is assumed of moves, for all fields but those that were given.

        Empty where nothing is assumed.
        """
        parts = [f"{getattr(self, name):g} USD per GB {where}" for name, where in _RULES if name not in given]
        costs = f"to cost {_listed(parts)}" if parts else ""
        speed = f"to go at {self.gbit_per_s:g} Gbit/s" if "gbit_per_s" not in given else ""
        said = " and ".join(part for part in (costs, speed) if part)
        return f"Moving a checkpoint to another pool is assumed {said}." if said else ""


def _listed(parts: Sequence[str]) -> str:
    """Join parts by commas, the last one by `and`."""
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]


def _check_usd(name: str, usd: float, field: str = "") -> None:
    if not (math.isfinite(usd) and usd >= 0):
        raise InputError(f"{name} must be >= 0 and finite, got {usd:g}", field=field or name)
