"""Widths, rates and money of a fleet as people say them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from slacktide.core.units import PERIOD_HOURS
from slacktide.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slacktide.budget.result import ClassPlan, WidthShare

RUNS = 4
"""Stretches of equal width that are written out; of more, those in the middle are left out."""

ALIKE = 1.02
"""Real widths closer than this ratio are written as one."""


def gpus(count: float) -> str:
    """Write an average number of GPUs."""
    return f"{count:,.{2 if count < 100 else 1 if count < 10_000 else 0}f}"


def per_month(usd: float) -> str:
    """Write what is spent in a month."""
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:,.2f}"


def rate(per_hour: float) -> str:
    """Write how often something comes, over the shortest period in which it comes at least once."""
    for period in ("hour", "day", "week"):
        if per_hour * PERIOD_HOURS[period] >= 1:
            break
    count = per_hour * PERIOD_HOURS[period]
    return f"{count:,.0f}/{period}" if count >= 1000 else f"{count:.3g}/{period}"


def share(part: float) -> str:
    """Write a share in whole percent, and what is less than half of one as such."""
    return "< 1 %" if 0 < part < 0.005 else words.percent(part)


def width(count: float) -> str:
    """Write a width: whole, or with two digits where it is not."""
    return f"{count:g}" if count == int(count) else f"{count:.2f}"


def path(widths: Sequence[float]) -> str:
    """Write the widths of all phases, equal neighbours once: `8×2→16`."""
    runs = [(value, len(list(same))) for value, same in groupby(widths)]
    texts = [width(value) + (f"×{times}" if times > 1 else "") for value, times in runs]
    if len(texts) > RUNS:
        texts = [*texts[: RUNS - 1], "…", texts[-1]]
    return "→".join(texts)


def ways(plan: ClassPlan) -> str:
    """Write how a class is run: its width, or both with their shares where it is mixed."""
    if len(plan.paths) == 1:
        return path(plan.paths[0].widths)
    return ", ".join(f"{path(one.widths)} ({words.percent(one.share)})" for one in plan.paths)


def short_ways(plan: ClassPlan) -> str:
    """Write the same without shares."""
    return "|".join(path(one.widths) for one in plan.paths)


def shared_widths(shares: Sequence[WidthShare]) -> str:
    """Write one width for all, or two with the share of jobs that has the second."""
    if len(shares) == 1:
        return f"{width(shares[0].gpus)} GPUs"
    low, high = shares
    if high.gpus / low.gpus < ALIKE:
        return f"{width((1 - high.share) * low.gpus + high.share * high.gpus)} GPUs"
    return f"{width(low.gpus)} GPUs, {width(high.gpus)} for {words.percent(high.share)} of them"


def sooner(hours: float) -> str:
    """Write how much sooner a job is done, or later."""
    if abs(hours) < 0.5 / 3600:
        return "the same"
    seconds = round(abs(hours) * 3600) / 3600
    return f"{words.duration(seconds)} {'sooner' if hours > 0 else 'later'}"


def response(hours: float) -> str:
    """Write a response time to the minute, below an hour to the second."""
    return words.duration(round(hours * 3600) / 3600 if hours * 3600 >= 1 else hours)
