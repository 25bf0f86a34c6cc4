"""Every policy on one job: both billings, hard and soft, with checkpoints and a greatest cost, or without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.core.types import Billing
from slacktide.market.source import open_market

from .parts_of_jobs import BILLINGS, FOLDER, told


@pytest.mark.parametrize("billing", BILLINGS)
def test_jobs_on_a_synthetic_market_are_as_they_were(
    billing: Billing, golden: Callable[[Path, str], None]
) -> None:
    market = open_market("synthetic:volatile?seed=6&days=4&slot=30m&pools=2")
    golden(FOLDER / f"synthetic-{billing}.json", told(market, market.pools[0], (60, 141), billing, 150.0))


@pytest.mark.parametrize("billing", BILLINGS)
def test_jobs_on_a_real_market_are_as_they_were(
    billing: Billing, golden: Callable[[Path, str], None], real_data: Path
) -> None:
    market = open_market(str(real_data / "markets" / "gcp-h100-2025.csv.gz"), slot_hours=0.5)
    golden(
        FOLDER / f"real-{billing}.json", told(market, market.pool("us-central1-b"), (210,), billing, 190.0)
    )
