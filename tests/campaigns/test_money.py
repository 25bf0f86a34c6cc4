"""The short form of the money campaign, and that it sees a wrong bill."""

from __future__ import annotations

import pytest

from campaigns import money
from campaigns.finding import Finding
from slacktide.physics import ledger
from slacktide.physics.tariff import Charge


def test_bills_audits_and_recounts_agree_in_random_lives() -> None:
    counts = money.run(40, 1, lambda words: None)
    assert counts["lives"] == 40
    assert counts["deaths at a write"] > 0


def test_a_bill_that_is_a_little_too_high_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    priced = ledger.priced

    def padded(*given: object, **named: object) -> object:
        one: ledger.Priced = priced(*given, **named)  # type: ignore[arg-type]
        return one._replace(charge=Charge(one.charge.usd * 1.01, *one.charge[1:]))

    monkeypatch.setattr(ledger, "priced", padded)
    with pytest.raises(Finding) as found:
        money.run(20, 1, lambda words: None)
    assert found.value.command == "python -m campaigns money --count 20 --seed 1"
