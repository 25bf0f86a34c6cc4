"""Scores of forecasters and the sentences made of them."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.market.base import Pool
from slacktide.market.forecast.persistence import Persistence
from slacktide.market.forecast.score import Score, Scores, named, overall, score, with_skill
from slacktide.report.text.tables.forecasts import best, verdicts
from slacktide_papers.forecasters.noisy_truth import NoisyTruth
from slacktide_papers.forecasters.seasonal import Seasonal
from tests import build


def alternating(slots: int = 20) -> Pool:
    gpus = np.arange(slots) % 2 * 4
    return build.pool(2.0, 4.0, gpus, name="zone")


def test_errors_are_counted_by_hand() -> None:
    found = score(alternating(), {}, horizon=2, warmup_share=0.5)
    (persistence,) = found.scores
    assert found.slots == 8
    assert persistence.gpus_error == (4.0, 0.0)
    assert persistence.enough_share == (0.0, 1.0)
    assert persistence.gpus_skill == (0.0, None)
    assert persistence.price_skill == (None, None)


def test_truth_is_perfect_and_called_cheating() -> None:
    found = score(alternating(), {"truth": NoisyTruth(0.0)}, horizon=2)
    assert found.scores[1].gpus_skill[0] == 1.0
    assert found.scores[1].knows_the_future
    assert best(found, "availability") == ["persistence", "persistence"]


def test_persistence_is_scored_once() -> None:
    assert len(score(alternating(), {"persistence": Persistence()}, horizon=1).scores) == 1


def test_overall_is_the_mean_over_pools() -> None:
    still = build.pool(2.0, 4.0, 3, slots=20, name="still")
    both = overall([score(pool, {}, horizon=2) for pool in (alternating(), still)])
    assert both.scores[0].gpus_error == (2.0, 0.0)


def test_forecasters_of_one_kind_are_told_apart() -> None:
    names = list(named([Seasonal(), Seasonal(days=3), "persistence"]))
    assert len(set(names)) == 3
    assert "days=3" in names[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"horizon": 0}, "horizon"), ({"horizon": 30}, "20 slots"), ({"warmup_share": 1.0}, "warm-up")],
)
def test_refuses_what_cannot_be_scored(options: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        score(alternating(), {}, **options)


def scores_of(*rival: float) -> Scores:
    base = tuple(1.0 for _ in rival)
    made = [
        Score("persistence", False, base, base, base),
        Score("rival", False, base, tuple(1.0 - gain for gain in rival), base),
    ]
    return Scores("zone", 0.5, len(rival), 100, with_skill(made))


def test_verdict_says_plainly_that_persistence_wins() -> None:
    told = verdicts(scores_of(0.0, -0.2, 0.005))
    assert told[0] == "persistence is the best availability forecast at every horizon up to 1h30m"
    assert told[1] == "persistence is the best price forecast at every horizon up to 1h30m"


def test_verdict_says_how_far_each_wins() -> None:
    assert verdicts(scores_of(0.0, 0.1, 0.2, 0.0))[0] == (
        "persistence is the best availability forecast up to 30m ahead, "
        "then rival from 1h to 1h30m (20 % less error at 1h30m), then persistence at 2h"
    )


def test_verdict_on_a_market_that_stands_still() -> None:
    still = score(build.pool(1.0, 1.0, 1, slots=9, name="s", slot_hours=1.0), {}, horizon=2)
    assert all("never moved" in sentence for sentence in verdicts(still))
