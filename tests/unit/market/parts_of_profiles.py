"""The figures of measured traces that the profiles of synthetic markets are fitted to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """The figures of a trace that a profile is to reproduce; shares are of time, spells in hours."""

    any_share: float
    half_share: float
    full_share: float
    losses_per_day: float
    up_median_hours: float
    up_mean_hours: float
    down_median_hours: float
    down_mean_hours: float
    autocorrelation_1h: float
    autocorrelation_24h: float
    dip_share: float  # share of time with spot outside 13 to 20 UTC, less the share inside


@dataclass(frozen=True, slots=True)
class ZonesTarget:
    """The figures of the zones of a trace together that several pools are to reproduce."""

    pools: int  # how many zones the trace has
    correlation_within: float  # mean correlation of having spot, of zones in one region
    correlation_between: float  # the same, of zones in two regions
    all_down_share: float  # share of time without spot in any zone
    loss_after_loss: float  # how much more likely a zone is lost within the hour after another one was


_H100 = ZonesTarget(6, 0.26, 0.01, 0.0, 0.066)
"""Of six GCP zones in five regions. The profiles of single zones of that trace share it; how often six zones
that are all scarce or all good are down together is not known."""
_V100 = ZonesTarget(5, 0.377, 0.160, 0.016, 0.095)
"""Of five AWS zones in three regions, where all are down 13 times as often as if they were independent."""

TARGETS = {
    "h100": TraceFigures(0.916, 0.672, 0.368, 4.22, 0.33, 5.07, 0.33, 0.48, 0.40, 0.31, 0.211),
    "h100-good": TraceFigures(0.977, 0.907, 0.828, 2.89, 1.33, 7.81, 0.17, 0.19, 0.04, 0.05, 0.017),
    "h100-scarce": TraceFigures(0.526, 0.456, 0.384, 2.45, 0.33, 4.93, 0.50, 4.65, 0.89, 0.32, 0.06),
    "v100": TraceFigures(0.684, 0.657, 0.637, 4.69, 0.54, 3.48, 0.49, 1.61, 0.59, 0.27, 0.069),
    "volatile": TraceFigures(0.902, 0.516, 0.154, 7.90, 0.67, 2.74, 0.17, 0.30, 0.22, -0.02, 0.061),
}
ZONES = {name: _V100 if name == "v100" else _H100 for name in TARGETS}
