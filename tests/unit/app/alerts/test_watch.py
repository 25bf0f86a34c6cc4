"""Which events of a journal lead to alerts, each once and with a stable id."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from slacktide.app.alerts.alert import Alert
from slacktide.app.alerts.watch import KEPT_TIMES, Watch, WatchedFleet, crossed
from slacktide.checks.history import HISTORY
from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.journal import events
from slacktide.journal.codec.json_forms import form
from slacktide.journal.events import Event
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.tariff import Charge
from tests import build

from .parts_of_alerts import records

FILE = "name: train\nrun: 'true'\nresources: {accelerators: 'H100:1'}\nwork: 4 gpu-hours\ndeadline: 12h\n"
FLEET = "budget: 100 usd/month\nmarket: synthetic:h100\n"


def submitted(job: str = "train", text: str = FILE, fleet: str = "") -> events.Submitted:
    return build.submitted(
        job,
        text=text,
        path="/x/train.yaml",
        policy='"ahap"',
        work_gpu_hours=4.0,
        deadline_hours=12.0,
        fleet=fleet,
        fleet_path="/x/team.yaml" if fleet else "",
    )


def health(word: Any, at_hours: float = 1.0) -> events.HealthChanged:
    return events.HealthChanged(job="train", at_hours=at_hours, health=word, why="because")


def ended(status: Any, finish_hours: float = math.inf) -> events.Ended:
    return events.Ended(job="train", at_hours=5.0, status=status, finish_hours=finish_hours)


def lived(to_hours: float, usd: float, total_usd: float = 0.0) -> events.Lived:
    stretch = Stretch("train", "work", 0, to_hours - 0.5, to_hours, 0.5, "a", 0, 1, Quote(1.0, 2.0, 8))
    return events.Lived(
        job="train", at_hours=to_hours, priced=Priced(stretch, Charge(usd=usd)),
        state=JobState(cost_usd=total_usd),
    )  # fmt: skip


def alerts(*given: Event) -> list[Alert]:
    watch = Watch()
    return [alert for record in records(*given) for alert in watch.apply(record)]


def test_outlooks_are_told_once_per_change() -> None:
    outlooks = ("measuring", "on-time", "at-risk", "late-expected", "late", "on-time", "at-risk")
    found = alerts(submitted(), *map(health, outlooks))
    assert [alert.kind for alert in found] == ["at-risk", "late", "late", "at-risk"]
    assert found[0].text == "train is on time, but on-demand GPUs must start soon: because"
    assert found[1].text == "train is expected to be late: because"
    assert found[0].details == {
        "elapsed_hours": 1.0, "deadline_hours": 12.0, "cost_usd": 0.0, "health": "at-risk", "why": "because",
    }  # fmt: skip
    assert found[0].id.startswith("4-at-risk-")
    assert len({alert.id for alert in found}) == 4


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (ended("succeeded", 5.0), "done"),
        (ended("deadline_missed", 13.0), "done"),
        (ended("deadline_missed"), "failed"),
        (ended("failed"), "failed"),
        (ended("budget_exhausted"), "failed"),
        (ended("cancelled"), None),
    ],
)
def test_ends_are_told_unless_somebody_asked_for_them(end: events.Ended, kind: str | None) -> None:
    found = alerts(submitted(text=f"{FILE}owner: ann\n"), lived(1.0, 3.0, 3.0), end, end)
    assert [alert.kind for alert in found] == ([kind] if kind else [])
    for alert in found:
        assert alert.text.endswith("it cost $3.00")
        assert (alert.job, alert.owner, alert.details["status"]) == ("train", "ann", end.status)
        json.loads(alert.written())


def test_a_feed_is_told_once_until_it_is_well_again() -> None:
    found = alerts(*(events.FeedTroubled(at_hours=1.0, why=why) for why in ("old", "older", "", "old", "")))
    assert [(alert.seq, alert.kind, alert.text) for alert in found] == [
        (1, "feed-stale", "the market feed has a problem: old"),
        (4, "feed-stale", "the market feed has a problem: old"),
    ]


def test_a_machine_that_leaked_is_told_with_what_it_costs() -> None:
    (found,) = alerts(*(event for event in HISTORY if isinstance(event, events.Leaked)))
    assert (found.kind, found.job) == ("machine-leaked", "")
    assert "machine i-1 (4 spot GPUs in zone-a, $0.30/h) has no owner and still costs money" in found.text
    assert found.details["machine"] == "i-1"


def test_a_jobs_max_cost_is_told_at_its_levels() -> None:
    one = submitted(text=f"{FILE}max_cost: 10 usd\n")
    found = alerts(
        one, lived(1.0, 4.0, 4.0), lived(1.5, 2.0, 6.0), lived(2.0, 1.0, 7.0), lived(2.5, 3.0, 10.0)
    )
    assert [(alert.kind, alert.details["share"]) for alert in found] == [("budget", 0.5), ("budget", 1.0)]
    assert found[0].text == "train has spent 50 % of its max_cost: $6.00 of $10.00"


def test_a_fleets_budget_is_told_once_in_each_period() -> None:
    site = events.SiteOpened(at_hours=0.0, market="{}", start_utc="2026-01-01T00:00:00+00:00")
    month = 31 * 24.0
    spent = [lived(10.0, 49.0), lived(20.0, 2.0), lived(30.0, 30.0), lived(40.0, 30.0), lived(50.0, 5.0),
             lived(month, 1.0), lived(month + 1.0, 55.0), lived(month + 2.0, 1.0)]  # fmt: skip
    found = alerts(site, submitted(fleet=FLEET), *spent)
    assert [(alert.seq, alert.details["share"]) for alert in found] == [
        (4, 0.5),
        (5, 0.8),
        (6, 1.0),
        (9, 0.5),
    ]
    assert found[0].text == (
        "the fleet of team.yaml has spent 50 % of its budget: $51.00 of $100.00; it is renewed in 30d4h"
    )
    assert (found[0].job, found[0].details["of"]) == ("", "fleet")


def test_a_budget_that_is_always_renewed_is_told_once_in_its_length() -> None:
    text = "budget: {usd: 100 usd, per: month, renewed: rolling}\nmarket: synthetic:h100\n"
    fleet = WatchedFleet.of(submitted(fleet=text))
    shares = []
    for day in range(200):
        passed = fleet.paid(lived(24.0 * (day + 1), 90.0 if day % 31 == 0 else 0.0), None)
        shares += [(day, passed.share)] if passed else []
    assert shares == [(0, 0.8), (31, 0.8), (62, 0.8), (93, 0.8), (124, 0.8), (155, 0.8), (186, 0.8)]
    flapping = WatchedFleet.of(submitted(fleet=text))
    for day in range(30):
        passed = flapping.paid(lived(24.0 * (day + 1), 60.0 if day in (0, 1) else 0.0), None)
        assert (passed is None) == (day > 1)


def test_what_was_spent_before_a_fleet_file_was_changed_counts() -> None:
    site = events.SiteOpened(at_hours=0.0, market="{}", start_utc="2026-01-01T00:00:00+00:00")
    changed = submitted(fleet=FLEET.replace("100", "200"))
    found = alerts(site, submitted(fleet=FLEET), lived(1.0, 49.0), changed, lived(2.0, 50.0), lived(3.0, 2.0))
    assert [(alert.seq, alert.details["share"]) for alert in found] == [(6, 0.5)]
    assert found[0].details["spent_usd"] == 101.0


def test_what_was_spent_in_earlier_periods_is_dropped() -> None:
    fleet = WatchedFleet.of(submitted(fleet=FLEET))
    for hour in range(3 * KEPT_TIMES):
        fleet.paid(lived(hour + 1.0, 0.001), None)
    assert len(fleet.spending.hours) <= KEPT_TIMES + 1


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [(0, 49, None), (0, 50, 0.5), (50, 79, None), (49, 81, 0.8), (0, 200, 1.0), (100, 200, None)],
)
def test_levels_are_passed_once(before: float, after: float, level: float | None) -> None:
    assert crossed(before, after, 100.0) == level
    assert crossed(before, after, None) is None
    assert crossed(before, after, math.inf) is None


def test_the_same_is_told_from_whatever_was_kept() -> None:
    given = [*HISTORY, submitted(text=f"{FILE}max_cost: 10 usd\n", fleet=FLEET), health("late"),
             lived(1.0, 60.0, 6.0), ended("failed")]  # fmt: skip
    whole, kind = alerts(*given), form(Watch)
    assert len(whole) >= 5
    for cut in range(len(given)):
        watch = Watch()
        numbered = records(*given)
        first = [alert for record in numbered[:cut] for alert in watch.apply(record)]
        again: Watch = kind.read(json.loads(kind.text(kind.plain(watch))))
        rest = [alert for record in numbered[cut:] for alert in again.apply(record)]
        assert [*first, *rest] == whole
