"""The `market` commands from end to end: figures, files, pictures and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slacktide.cli import run, slacktide
from slacktide.market.formats.samples import COLUMNS
from slacktide.market.source import open_market
from slacktide.market.synthetic import PROFILES

POOL_KEYS = {
    "name", "start", "end", "slot_hours", "slots", "hours", "max_spot_gpus", "any_share", "half_share",
    "full_share", "mean_spot_gpus", "losses_per_day", "up_median_hours", "up_mean_hours", "down_median_hours",
    "down_mean_hours", "autocorrelation_1h", "autocorrelation_24h", "any_share_by_hour", "spot_min_usd",
    "spot_mean_usd", "spot_max_usd", "on_demand_mean_usd", "price_share", "price_moves_per_day",
    "gpu", "region", "spot_now_usd", "on_demand_now_usd", "spot_now_gpus", "half_of_largest_share",
    "largest_share", "on_demand_any_share", "on_demand_mean_gpus",
}  # fmt: skip


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(slacktide, ["market", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def gappy(tmp_path: Path) -> Path:
    minutes = ("00:00", "00:10", "00:20", "01:00", "01:10")
    rows = [f"2025-10-04T{minute}Z,a,{count},1.5,3" for count, minute in enumerate(minutes)]
    path = tmp_path / "gappy.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows]))
    return path


def test_show_prints_a_table_and_its_assumptions() -> None:
    text = invoke("show", "synthetic:h100?days=3").stdout
    for word in ("h100-1", "losses", "2025-01-01", "assumed:"):
        assert word in text


def test_show_json_has_the_documented_keys() -> None:
    found = json.loads(invoke("show", "synthetic:h100?days=3&pools=2", "-o", "json").stdout)
    assert set(found) == {"source", "assumptions", "pools", "moves", "largest_spot_gpus"}
    assert [set(pool) for pool in found["pools"]] == [POOL_KEYS, POOL_KEYS]
    assert len(found["pools"][0]["any_share_by_hour"]) == 24
    page = Path(__file__).parents[2] / "docs" / "reference" / "market.md"
    text = page.read_text(encoding="utf-8")
    assert all(f"`{key}`" in text for key in POOL_KEYS | set(found))


def test_show_can_be_limited_and_resampled(gappy: Path) -> None:
    found = json.loads(
        invoke("show", str(gappy), "--pool", "a", "--gaps", "hold", "--slot", "20m", "-o", "json").stdout
    )
    assert found["pools"][0]["slots"] == 4


def test_show_says_that_a_gap_was_filled(gappy: Path) -> None:
    found = json.loads(invoke("show", str(gappy), "--pool", "a", "-o", "json").stdout)
    assert any("filled with the quote before them" in sentence for sentence in found["assumptions"])


def test_show_draws_a_picture(tmp_path: Path) -> None:
    invoke("show", "synthetic:volatile?days=3", "--plot", str(tmp_path / "m.png"))
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet", "out_v100.json"])
def test_import_writes_what_can_be_opened_again(tmp_path: Path, gappy: Path, name: str) -> None:
    out = tmp_path / name
    text = invoke("import", str(gappy), str(out), "--gaps", "empty", "--slot", "10m").stdout
    assert "8 slots of 10 min" in text
    assert open_market(str(out)).pools[0].spot_gpus.tolist() == [0, 1, 2, 0, 0, 0, 3, 4]


def test_import_says_what_was_assumed(tmp_path: Path) -> None:
    path = tmp_path / "trace_v100.json"
    path.write_text('{"metadata": {"gap_seconds": 600}, "data": [1, 2]}')
    text = invoke("import", str(path), str(tmp_path / "out.csv"), "--spot-usd", "0.5").stdout
    assert "assumed: The trace has no prices: spot is 0.5 USD per GPU-hour (as given)" in text


def test_synthesize_is_seeded(tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        invoke("synthesize", "h100", str(tmp_path / name), "--days", "2", "--seed", "4", "--slot", "30m")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert (tmp_path / "one.csv").read_text().count("\n") == 97


def test_nothing_is_replaced_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    out.write_text("precious")
    arguments = ["market", "synthesize", "h100", str(out), "--days", "1"]
    assert run(arguments) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert run([*arguments, "--force"]) == 0
    assert out.read_text().startswith("time_utc")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "none.csv"], "none.csv: a market file must exist"),
        (["show", "synthetic:h10"], "did you mean 'h100'"),
        (["show", "synthetic:h100?days=2", "--pool", "x"], "pool must be one of"),
        (["show", "synthetic:h100", "--slot", "30"], "duration"),
        (["synthesize", "h10", "out.csv"], "did you mean 'h100'"),
        (["synthesize", "h100", "out.xls"], "must end in"),
        (["synthesize", "h100", "out.json", "--pools", "2"], "one pool"),
        (["synthesize", "h100", "/dev/null/out.csv", "--days", "1"], "writable"),
        (["synthesize", "h100", "out.csv", "--days", "0"], "days must be > 0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["market", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_gap_is_named_with_its_line_and_remedy(gappy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["market", "import", str(gappy), str(gappy.with_name("out.csv"))]) == 2
    error = capsys.readouterr().err
    assert f"{gappy}:5: pool 'a'" in error
    assert "gaps=hold" in error


def test_every_profile_is_in_help_and_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "market.md").read_text(encoding="utf-8")
    text = invoke("synthesize", "--help").stdout
    for name in PROFILES:
        assert name in text
        assert f"| `{name}` |" in page


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from slacktide.cli import run; run(['market', '--help']); "
        "heavy = {'numpy', 'pyarrow', 'matplotlib', 'rich'} & set(sys.modules); sys.exit(bool(heavy))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
