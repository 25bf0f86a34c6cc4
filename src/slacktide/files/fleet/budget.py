"""The budget of a fleet file: GPUs on average, or money per period and when there is money again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from slacktide.budget.allowance import RENEWALS, Allowance, Renewal
from slacktide.core.errors import InputError, shown, unknown_name
from slacktide.core.units import Budget, parse_budget, parse_money_usd, parse_period_hours, parse_spend
from slacktide.core.yaml_fields import Fields, number, scalar
from slacktide.core.yaml_tree import Mistakes, Section, Tree
from slacktide.files.keys import positive

BUDGET_KEYS = ("usd", "per", "renewed")
MONTH = "month"


class WrittenBudget(NamedTuple):
    """A budget as a file says it."""

    text: str
    average: Budget
    """What may be spent on average."""
    allowance: Allowance | None = None
    """What may be spent in each period; None for a budget in GPUs."""


def budget(mistakes: Mistakes) -> Callable[[Tree], WrittenBudget]:
    """Return a reader of `16 gpus`, `20000 usd/month` and `{usd: …, per: …, renewed: …}`."""
    return lambda tree: _long(tree, mistakes) if isinstance(tree, Section) else scalar(short_budget)(tree)


def short_budget(text: str) -> WrittenBudget:
    """Read a budget of one line; a month is a calendar month, other periods count from the beginning."""
    average, said = parse_budget(text), text.strip()
    if average.gpus is not None:
        return WrittenBudget(said, average)
    spend = parse_spend(text)
    if spend.usd <= 0:
        raise InputError("a budget must be > 0, got nothing to spend")
    return WrittenBudget(said, average, Allowance(spend.usd, spend.period_hours, _usual(said)))


def _long(tree: Section, mistakes: Mistakes) -> WrittenBudget:
    fields = Fields(tree, mistakes, BUDGET_KEYS, prefix="budget.")
    fields.require("usd", "20000 usd")
    fields.require("per", MONTH)
    usd = fields.read("usd", scalar(positive(_usd)), math.nan)
    named = fields.read("per", scalar(str.strip), MONTH)
    hours = fields.read("per", scalar(positive(parse_period_hours)), math.nan)
    renewal = fields.read("renewed", scalar(_renewal(named)), _usual(named))
    if math.isnan(usd) or math.isnan(hours):
        # What is wrong was noted at its place; the file is refused after all of it has been read.
        return WrittenBudget("", Budget(None, 1.0))
    text = f"{usd:,.10g} usd per {named}, {renewal}"
    return WrittenBudget(text, Budget(None, usd / hours), Allowance(usd, hours, renewal))


def _usd(text: str) -> float:
    """Read money; the key names its unit, so a bare number will do."""
    return number(text) if text.strip().replace(".", "", 1).isdecimal() else parse_money_usd(text)


def _usual(period: str) -> Renewal:
    return "calendar" if _is_month(period) else "fixed"


def _is_month(period: str) -> bool:
    return period.lower().endswith(MONTH)


def _renewal(period: str) -> Callable[[str], Renewal]:
    def read(text: str) -> Renewal:
        found = next((one for one in RENEWALS if one == text), None)
        if found is None:
            raise InputError(unknown_name("renewed", text, RENEWALS))
        if found == "calendar" and not _is_month(period):
            raise InputError(
                f"calendar must come with 'per: month', got {shown(period)}; write 'renewed: fixed' for "
                "periods counted from the beginning, or 'renewed: rolling'"
            )
        return found

    return read
