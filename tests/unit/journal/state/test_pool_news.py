"""What befell jobs in each pool last: taken back by the market, or wanted and not there."""

from __future__ import annotations

from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.journal.events import Decided, Preempted
from slacktide.journal.state.journal_state import PoolNews, note_pool


def preempted(actor: str) -> Preempted:
    return Preempted(
        job="j", at_hours=2.0, actor=actor, slot=4, spot_before=4, spot_left=1, lost_gpu_hours=0.0  # type: ignore[arg-type]
    )  # fmt: skip


def decided(wanted: int, given: int, **more: object) -> Decided:
    return Decided(
        job="j", at_hours=3.0, slot=6, quote=Quote(1.0, 2.0, 8), state=JobState(), attempt=1, pool="near",
        spot_gpus=given, on_demand_gpus=0, wanted_spot_gpus=wanted, wanted_on_demand_gpus=0, until_hours=4.0,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_what_the_market_took_is_told_and_what_a_user_asked_for_is_not() -> None:
    news: dict[str, PoolNews] = {}
    note_pool(news, preempted("user"), "near")
    assert news == {}
    note_pool(news, preempted("market"), "near")
    assert news == {"near": PoolNews(taken_hours=2.0, taken_gpus=3)}


def test_spot_that_was_wanted_and_not_there_is_a_refusal() -> None:
    news: dict[str, PoolNews] = {}
    note_pool(news, decided(4, 4), "near")
    note_pool(news, decided(4, 0, missed=1, wanted_pool="far", unstocked=(0,)), "near")
    assert news == {}, "it was on demand that was lacking"
    note_pool(news, decided(4, 2), "near")
    note_pool(news, decided(8, 2, missed=1, wanted_pool="far"), "near")
    assert news == {
        "near": PoolNews(refused_hours=3.0, refused_gpus=4),
        "far": PoolNews(refused_hours=3.0, refused_gpus=8),
    }
