"""A site's prices as arrays, the form that compiled allocators read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.view import FleetView, SiteView
from slacktide.core.arrays import Floats, Ints
from slacktide.core.types import TIME_TOLERANCE_HOURS


class Prices(NamedTuple):
    """What each pool offers to all jobs: [pool]."""

    spot_usd: Floats
    on_demand_usd: Floats
    spot_gpus: Ints
    on_demand_gpus: Ints


def prices_of(site: SiteView) -> Prices:
    """Return what the pools of a site offer."""
    spot_usd, on_demand_usd, spot_gpus, on_demand_gpus = zip(
        *(pool.quote for pool in site.pools), strict=True
    )
    return Prices(
        np.array(spot_usd, dtype=np.float64),
        np.array(on_demand_usd, dtype=np.float64),
        np.array(spot_gpus, dtype=np.int64),
        np.array(on_demand_gpus, dtype=np.int64),
    )


def hours_until_border(view: FleetView) -> float:
    """Return how long it is until the market changes; a whole slot is kept whole, to the last bit."""
    assert view.site is not None
    hours = view.site.next_hours - view.now_hours
    return view.site.slot_hours if abs(hours - view.site.slot_hours) <= TIME_TOLERANCE_HOURS else hours
