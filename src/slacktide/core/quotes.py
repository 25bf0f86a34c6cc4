"""What a pool offers in a slot, and what is known of its spot from requests and losses."""

from __future__ import annotations

from typing import NamedTuple

UNLIMITED_GPUS = 10**9
"""An offer of this many on-demand GPUs, or more, counts as unlimited."""


class Quote(NamedTuple):
    """What the market offers during one slot."""

    spot_usd_per_gpu_hour: float
    on_demand_usd_per_gpu_hour: float
    spot_gpus: int
    """Spot GPUs obtainable, those already held included."""
    on_demand_gpus: int = UNLIMITED_GPUS
    """On-demand GPUs obtainable, those already held included; limited only where a trace says so. Those that
    are held stay held when there are fewer: a cloud does not take them away."""

    def keeping(self, held_gpus: int) -> Quote:
        """Return what is offered to a job that holds that many on-demand GPUs: it keeps them."""
        return self if self.on_demand_gpus >= held_gpus else self._replace(on_demand_gpus=held_gpus)


class Sighting(NamedTuple):
    """Bounds on a pool's spot GPUs at a moment, from a request, a loss, or what is held."""

    at_hours: float
    at_least_gpus: int
    at_most_gpus: int
