"""`slacktide market forecast` from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slacktide.cli import run, slacktide

MARKET = "synthetic:h100?days=6&slot=30m&pools=2"
KEYS = {"source", "assumptions", "warmup_share", "overall", "pools"}
POOL_KEYS = {
    "pool", "slot_hours", "horizon", "slots", "scores", "best_availability", "best_price", "verdicts",
}  # fmt: skip
SCORE_KEYS = {
    "forecaster", "knows_the_future", "price_error_usd", "gpus_error", "enough_share", "price_skill",
    "gpus_skill", "notes",
}  # fmt: skip


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(slacktide, ["market", "forecast", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_prints_errors_and_says_who_is_best() -> None:
    text = invoke(MARKET, "--horizon", "8").stdout
    for word in ("harmonic", "seasonal", "persistence", "best availability forecast", "price", "4h"):
        assert word in text


def test_json_has_the_documented_keys() -> None:
    found = json.loads(invoke(MARKET, "--horizon", "4", "--warmup", "50%", "-o", "json").stdout)
    assert set(found) == KEYS
    assert found["warmup_share"] == 0.5
    for document in (found["overall"], *found["pools"]):
        assert set(document) == POOL_KEYS
        assert [one["forecaster"] for one in document["scores"]] == ["persistence", "harmonic", "seasonal"]
        assert all(set(one) == SCORE_KEYS and len(one["gpus_error"]) == 4 for one in document["scores"])
    page = Path(__file__).parents[2] / "docs" / "reference" / "market.md"
    text = page.read_text(encoding="utf-8")
    assert all(f"`{key}`" in text for key in KEYS | POOL_KEYS | SCORE_KEYS)


def test_cheats_are_called_so() -> None:
    text = invoke(MARKET, "--forecaster", "noisy-truth", "--pool", "h100-1").stdout
    assert "noisy-truth knows the future" in text


def test_takes_parameters_and_tells_what_was_too_short() -> None:
    text = invoke(MARKET, "--forecaster", "{seasonal: {days: 30}}").stdout
    assert "days of history, not 30" in text


def test_draws_a_picture(tmp_path: Path) -> None:
    invoke(MARKET, "--forecaster", "harmonic,noisy-truth", "--plot", str(tmp_path / "f.png"))
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--forecaster", "harmonics"], "did you mean 'harmonic'"),
        (["--forecaster", "{seasonal: {dayz: 3}}"], "parameter"),
        (["--forecaster", "{seasonal"], "--forecaster"),
        (["--warmup", "300%"], "share"),
        (["--warmup", "some"], "share"),
        (["--horizon", "300"], "longer market"),
        (["--horizon", "0"], "horizon"),
        (["--pool", "nowhere"], "pool"),
    ],
)
def test_refusals_say_what_must_hold(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["market", "forecast", MARKET, *arguments]) == 2
    assert words in capsys.readouterr().err
