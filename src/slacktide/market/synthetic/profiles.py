"""Named synthetic markets and the figures they are calibrated to.

The parameters were fitted by a search on long runs so that the generated figures come near the
targets, which are figures of measured traces. Targets and parameters stand side by side here; a test
compares what is generated with the targets, another one the targets with the traces.
"""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.core.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Drift:
    """One time scale on which free capacity wanders."""

    spread_gpus: float  # standard deviation
    memory_hours: float  # after so long, about a third of an excursion is left


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonesTarget:
    """The figures of the zones of a trace together that several pools are to reproduce."""

    pools: int  # how many zones the trace has
    correlation_within: float  # mean correlation of having spot, of zones in one region
    correlation_between: float  # the same, of zones in two regions
    all_down_share: float  # share of time without spot in any zone
    loss_after_loss: float  # how much more likely a zone is lost within the hour after another one was


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """How the pools of one market differ, and what their drifts share; the first pool is the profile's."""

    target: ZonesTarget
    within_share: float  # share of the variance of drifts that pools of one region have in common
    between_share: float = 0.0  # share that all pools have in common, at most that of a region
    level_shift_gpus: float = 0.0
    """How much more free capacity the other pools have on average than the first."""
    level_spread_gpus: float  # standard deviation of the mean free capacity among pools
    price_spread: float  # the same of the spot price, relative
    dip_range: tuple[float, float]
    """How deep the dip of a pool is, as a share of the first one's: anything between these two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a synthetic market is like: its free capacity, its prices, and the target of both."""

    name: str
    summary: str
    target: TraceFigures
    zones: Zones
    gpu: str = ""  # the GPU type of its pools; empty for any
    slot_hours: float
    level_gpus: float
    """Mean free capacity; what is above the maximum or below zero is not seen, but lengthens spells."""
    drifts: tuple[Drift, ...]
    dip_gpus: float  # capacity missing at the bottom of the afternoon's dip
    hits_per_hour: float  # sudden outages of a slot or a few
    hit_gpus: float = 16.0  # what an outage takes away on average
    max_spot_gpus: int = 16
    on_demand_usd_per_gpu_hour: float = 10.32
    spot_share: float = 0.22  # mean spot price between jumps, as a share of on demand
    move_share: float = 0.003  # typical relative size of a price move; there is one every few hours
    jumps_per_day: float = 0.03  # how often the price doubles or trebles
    fade_hours: float = 12.0  # after so long, about a third of a jump is left


_H100 = ZonesTarget(
    pools=6, correlation_within=0.26, correlation_between=0.01, all_down_share=0.0, loss_after_loss=0.066
)
"""Of six GCP zones in five regions. The profiles of single zones of that trace share it; how often six zones
that are all scarce or all good are down together is not known."""
_V100 = ZonesTarget(
    pools=5, correlation_within=0.377, correlation_between=0.160, all_down_share=0.016, loss_after_loss=0.095
)
"""Of five AWS zones in three regions, where all are down 13 times as often as if they were independent."""


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="h100",
            summary="An average H100 zone: full capacity at night, little in the afternoon.",
            target=TraceFigures(
                any_share=0.916,
                half_share=0.672,
                full_share=0.368,
                losses_per_day=4.22,
                up_median_hours=0.33,
                up_mean_hours=5.07,
                down_median_hours=0.33,
                down_mean_hours=0.48,
                autocorrelation_1h=0.40,
                autocorrelation_24h=0.31,
                dip_share=0.211,
            ),
            gpu="H100",
            zones=Zones(
                target=_H100,
                within_share=0.6,
                level_shift_gpus=-7.5,
                level_spread_gpus=4.6,
                price_spread=0.1,
                dip_range=(0.0, 0.3),
            ),
            slot_hours=1 / 6,
            level_gpus=15.9,
            drifts=(Drift(4.65, 0.30), Drift(2.28, 5.0), Drift(4.36, 32.0)),
            dip_gpus=13.6,
            hits_per_hour=0.014,
        ),
        Profile(
            name="h100-good",
            summary="The best H100 zone measured: nearly always available, with short interruptions.",
            target=TraceFigures(
                any_share=0.977,
                half_share=0.907,
                full_share=0.828,
                losses_per_day=2.89,
                up_median_hours=1.33,
                up_mean_hours=7.81,
                down_median_hours=0.17,
                down_mean_hours=0.19,
                autocorrelation_1h=0.04,
                autocorrelation_24h=0.05,
                dip_share=0.017,
            ),
            gpu="H100",
            zones=Zones(
                target=_H100,
                within_share=0.65,
                level_spread_gpus=5.0,
                price_spread=0.1,
                dip_range=(0.5, 1.5),
            ),
            slot_hours=1 / 6,
            level_gpus=34.9,
            drifts=(Drift(13.5, 0.114), Drift(6.7, 5.5), Drift(9.7, 20.3)),
            dip_gpus=4.0,
            hits_per_hour=0.11,
            hit_gpus=3.6,
        ),
        Profile(
            name="h100-scarce",
            summary="A scarce H100 zone: no spot for hours or days, then full capacity.",
            target=TraceFigures(
                any_share=0.526,
                half_share=0.456,
                full_share=0.384,
                losses_per_day=2.45,
                up_median_hours=0.33,
                up_mean_hours=4.93,
                down_median_hours=0.50,
                down_mean_hours=4.65,
                autocorrelation_1h=0.89,
                autocorrelation_24h=0.32,
                dip_share=0.06,
            ),
            gpu="H100",
            zones=Zones(
                target=_H100,
                within_share=0.45,
                level_spread_gpus=20.0,
                price_spread=0.1,
                dip_range=(0.5, 1.5),
            ),
            slot_hours=1 / 6,
            level_gpus=12.0,
            drifts=(Drift(60.0, 40.0),),
            dip_gpus=18.0,
            hits_per_hour=0.6,
            hit_gpus=5.0,
            spot_share=0.23,
        ),
        Profile(
            name="v100",
            summary="V100 as on AWS in 2023: all or nothing, lost five times a day.",
            target=TraceFigures(
                any_share=0.684,
                half_share=0.657,
                full_share=0.637,
                losses_per_day=4.69,
                up_median_hours=0.54,
                up_mean_hours=3.48,
                down_median_hours=0.49,
                down_mean_hours=1.61,
                autocorrelation_1h=0.59,
                autocorrelation_24h=0.27,
                dip_share=0.069,
            ),
            gpu="V100",
            zones=Zones(
                target=_V100,
                within_share=0.66,
                between_share=0.27,
                level_shift_gpus=30.0,
                level_spread_gpus=220.0,
                price_spread=0.14,
                dip_range=(0.5, 1.5),
            ),
            slot_hours=1 / 6,
            level_gpus=220.0,
            drifts=(Drift(130.0, 1.57), Drift(197.0, 3.57), Drift(310.0, 51.6)),
            dip_gpus=65.0,
            hits_per_hour=0.005,
            on_demand_usd_per_gpu_hour=3.06,
            spot_share=0.34,
        ),
        Profile(
            name="volatile",
            summary="A volatile market: eight losses a day, rarely full, prices that jump every few days.",
            target=TraceFigures(
                any_share=0.902,
                half_share=0.516,
                full_share=0.154,
                losses_per_day=7.90,
                up_median_hours=0.67,
                up_mean_hours=2.74,
                down_median_hours=0.17,
                down_mean_hours=0.30,
                autocorrelation_1h=0.22,
                autocorrelation_24h=-0.02,
                dip_share=0.061,
            ),
            zones=Zones(
                target=_H100,
                within_share=0.5,
                level_spread_gpus=2.0,
                price_spread=0.1,
                dip_range=(0.5, 1.5),
            ),
            slot_hours=1 / 6,
            level_gpus=9.6,
            drifts=(Drift(4.57, 0.176), Drift(0.49, 3.1), Drift(4.9, 21.5)),
            dip_gpus=2.8,
            hits_per_hour=0.029,
            spot_share=0.3,
            move_share=0.005,
            jumps_per_day=0.3,
        ),
    )
}
DEFAULT_PROFILE = "h100"


def profile(name: str) -> Profile:
    """Return a profile by name; raises UnknownNameError with "did you mean"."""
    if name not in PROFILES:
        raise UnknownNameError("a synthetic profile", name, PROFILES)
    return PROFILES[name]
