"""Reads the keys of a fleet file other than its classes: budget, prices, and how to simulate the stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from slacktide.budget.allowance import RENEWALS, Allowance, Renewal
from slacktide.budget.stream import ARRIVALS, SIZES
from slacktide.core.errors import InputError, shown
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.units import (
    Budget,
    parse_budget,
    parse_duration_hours,
    parse_money_usd,
    parse_period_hours,
    parse_range,
    parse_spend,
)
from slacktide.core.yaml_fields import Fields, number, scalar, text_of
from slacktide.core.yaml_tree import Mistakes, Section, Tree
from slacktide.files.keys import positive, usd, word

PRICE_KEYS = ("spot", "on_demand", "spot_share")
STREAM_KEYS = ("node_gpus", "provisioning", "idle_grace", "arrivals", "sizes")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How to simulate a stream of the fleet's jobs."""

    node_gpus: int = 1  # how many GPUs a rented node has
    provisioning_hours: float = 0.0  # from the request for a node until it is ready; billed
    idle_grace_hours: float = 0.0  # how long a node may be idle before it is released
    arrivals: str = "poisson"  # how jobs come: `poisson` or `bursty`
    sizes: str = "exponential"
    """How work differs between the jobs of a class: `exponential`, `fixed`, `lognormal` or `pareto`."""


def quota(text: str) -> int:
    """Read how many on-demand GPUs may be held at a time, such as `64 gpus`."""
    words = text.strip().lower().split()
    count = words[0] if len(words) == 2 and words[1] in ("gpu", "gpus") else ""
    if not count.isdecimal() or not 0 < int(count) < UNLIMITED_GPUS:
        raise InputError(
            f"must be a number of GPUs, such as 64 gpus, got {shown(text)}; leave it out for no limit"
        )
    return int(count)


def price(tree: Tree, mistakes: Mistakes) -> float:
    """Read `2.50 usd` or `{spot: …, on_demand: …, spot_share: …}`: USD per GPU-hour.

    Two prices give their mean, weighted by the share of GPU-hours that is spot.
    """
    money = scalar(positive(parse_money_usd))
    if not isinstance(tree, Section):
        return money(tree, mistakes)
    fields = Fields(tree, mistakes, PRICE_KEYS, prefix="price.")
    spot, on_demand = fields.read("spot", money, math.nan), fields.read("on_demand", money, math.nan)
    share = fields.read("spot_share", scalar(_share), math.nan)
    if "spot" in fields and "on_demand" in fields:
        fields.require("spot_share", "0.7")
        return share * spot + (1 - share) * on_demand
    if "spot" not in fields and "on_demand" not in fields:
        raise InputError("must name spot, on_demand or both, got neither; write for instance '2.50 usd'")
    got, other = ("spot", "on_demand") if "spot" in fields else ("on_demand", "spot")
    if "spot_share" in fields:
        fields.note("spot_share", f"must come with both prices, got only {got}; add {other} or leave it out")
    return spot if got == "spot" else on_demand


def _share(text: str) -> float:
    """Read a share as `0.7` or `70%`."""
    found = number(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)
    if not 0 <= found <= 1:
        raise InputError(f"must be in [0, 1], got {shown(text)}")
    return found


def stream_settings(tree: Tree, mistakes: Mistakes) -> StreamSettings:
    """Read the `stream` section."""
    fields, usual = Fields(tree, mistakes, STREAM_KEYS, prefix="stream."), StreamSettings()
    return StreamSettings(
        fields.read("node_gpus", scalar(_gpus), usual.node_gpus),
        fields.read("provisioning", scalar(parse_duration_hours), usual.provisioning_hours),
        fields.read("idle_grace", scalar(parse_duration_hours), usual.idle_grace_hours),
        fields.read("arrivals", scalar(word("arrivals", ARRIVALS)), usual.arrivals),
        fields.read("sizes", scalar(word("sizes", SIZES)), usual.sizes),
    )


def _gpus(text: str) -> int:
    if not text.strip().isdecimal():
        raise InputError(f"must be a whole number of GPUs, got {shown(text)}")
    return parse_range(text)[0]


BUDGET_KEYS = ("usd", "per", "renewed")
MONTH = "month"


class WrittenBudget(NamedTuple):
    """A budget as written in a file."""

    text: str
    average: Budget  # what may be spent on average
    allowance: Allowance | None = None  # what may be spent in each period; None for a budget in GPUs


def budget(tree: Tree, mistakes: Mistakes) -> WrittenBudget:
    """Read `16 gpus`, `20000 usd/month` or `{usd: …, per: …, renewed: …}`."""
    return _long(tree, mistakes) if isinstance(tree, Section) else short_budget(text_of(tree))


def short_budget(text: str) -> WrittenBudget:
    """Read a budget of one line; a month is a calendar month, other periods count from the beginning."""
    average, written = parse_budget(text), text.strip()
    if average.gpus is not None:
        return WrittenBudget(written, average)
    spend = parse_spend(text)
    if spend.usd <= 0:
        raise InputError("a budget must be > 0, got nothing to spend")
    return WrittenBudget(written, average, Allowance(spend.usd, spend.period_hours, _usual(written)))


def _long(tree: Section, mistakes: Mistakes) -> WrittenBudget:
    fields = Fields(tree, mistakes, BUDGET_KEYS, prefix="budget.")
    fields.require("usd", "20000 usd")
    fields.require("per", MONTH)
    amount = fields.read("usd", scalar(positive(usd)), math.nan)
    named = fields.read("per", scalar(str.strip), MONTH)
    hours = fields.read("per", scalar(positive(parse_period_hours)), math.nan)
    renewal = fields.read("renewed", scalar(_renewal(named)), _usual(named))
    if math.isnan(amount) or math.isnan(hours):
        # The mistake has been noted; the file is refused once all of it has been read.
        return WrittenBudget("", Budget(None, 1.0))
    text = f"{amount:,.10g} usd per {named}, {renewal}"
    return WrittenBudget(text, Budget(None, amount / hours), Allowance(amount, hours, renewal))


def _is_month(period: str) -> bool:
    return period.lower().endswith(MONTH)


def _usual(period: str) -> Renewal:
    return "calendar" if _is_month(period) else "fixed"


def _renewal(period: str) -> Callable[[str], Renewal]:
    def read(text: str) -> Renewal:
        renewal = word("renewed", RENEWALS)(text)
        if renewal == "calendar" and not _is_month(period):
            raise InputError(
                f"calendar must come with 'per: month', got {shown(period)}; write 'renewed: fixed' for "
                "periods counted from the beginning, or 'renewed: rolling'"
            )
        return renewal

    return read
