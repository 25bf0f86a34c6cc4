"""Each source is asked in its own way, its answers are understood, and its failures told in a sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.core.errors import InputError
from slacktide.core.waits import LONGEST_REQUESTED_S, retry_after_s
from slacktide.market.live import http
from slacktide.market.live.aws import Aws
from slacktide.market.live.azure import Azure
from slacktide.market.live.base import FeedRefused, FeedUnreachable, Price, feeds, open_feed
from slacktide.market.live.gcp import KEY_VARIABLES, Gcp
from slacktide.market.live.skypilot import Skypilot
from tests.unit.market.live import parts_of_feeds as parts

HOUR = timedelta(hours=1)


def told(prices: tuple[Price, ...]) -> list[tuple[str, float, float | None]]:
    return [(one.pool, round(one.spot_per_gpu_hour, 6), one.on_demand_per_gpu_hour) for one in prices]


# --------------------------------------------------------------------- names


def test_a_feed_is_made_from_its_name() -> None:
    assert set(feeds) >= {"aws", "azure", "gcp", "skypilot"}
    assert open_feed("aws:p5.48xlarge") == Aws("p5.48xlarge")
    assert open_feed("skypilot:gcp/H100:8?base_url=/catalogs") == Skypilot("gcp/H100:8", "/catalogs")
    assert open_feed("aws:trn1.2xlarge?gpus=1&on_demand_usd=1.34") == Aws(
        "trn1.2xlarge", gpus=1, on_demand_usd=1.34
    )


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("aws", "must be NAME:TYPE"),
        ("aws:", "must be NAME:TYPE"),
        ("aw:p5", "did you mean 'aws'"),
        ("aws:p5.48xlarge?regoin=1", "parameter"),
        ("aws:x9.large", "--gpus-per-instance"),
        ("azure:Standard_Z", "gpus=8"),
        ("azure:a' or 1 eq 1?gpus=1", "must be like"),
        ("gcp:B7", "must be one of"),
        ("skypilot:p5.48xlarge", "CLOUD/TYPE"),
        ("azure:Standard_NC6s_v3?base_url=file:///etc/passwd", "http or https"),
    ],
)
def test_a_wrong_name_is_refused_with_a_remedy(spec: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        open_feed(spec)


# ----------------------------------------------------------------------- AWS

HISTORY = [
    parts.aws_entry("us-east-1a", datetime.now(UTC) - 50 * HOUR, "24.000000"),
    parts.aws_entry("us-east-1a", datetime.now(UTC) - 3 * HOUR, "32.000000"),
    parts.aws_entry("us-east-1b", datetime.now(UTC) - 40 * HOUR, "20.000000"),
    parts.aws_entry("us-east-1b", datetime.now(UTC) - 2 * HOUR, "40.000000"),
]


def test_aws_tells_prices_per_gpu_over_all_pages() -> None:
    feed = parts.aws(HISTORY)
    now = feed.prices(["us-east-1a", "us-east-1b"])
    assert told(now.prices) == [
        ("us-east-1a/p5.48xlarge", 4.0, 12.29),
        ("us-east-1b/p5.48xlarge", 5.0, 12.29),
    ]
    assert {price.gpu for price in now.prices} == {"H100"}
    assert "list price of 2024" in now.notes[0]
    since = feed.prices(["us-east-1"], datetime.now(UTC) - 10 * HOUR).prices
    assert [price.spot_per_gpu_hour for price in since] == [3.0, 2.5, 4.0, 5.0]
    assert feed.prices(["us-east-1b"]).prices[0].pool == "us-east-1b/p5.48xlarge"


def test_aws_says_what_it_has_no_prices_of() -> None:
    answer = parts.aws(HISTORY).prices(["us-east-1a", "us-east-1f"])
    assert answer.notes[-1] == "AWS has no spot prices of p5.48xlarge in us-east-1f."
    with pytest.raises(FeedRefused, match="zones must be given"):
        parts.aws(HISTORY).prices([])


def test_aws_is_asked_as_botocore_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3")
    from botocore.stub import ANY, Stubber

    client = boto3.client("ec2", "us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
    question = {
        "InstanceTypes": ["p5.48xlarge"],
        "ProductDescriptions": ["Linux/UNIX"],
        "StartTime": ANY,
        "EndTime": ANY,
    }
    with Stubber(client) as stub:
        stub.add_response(
            "describe_spot_price_history", {"SpotPriceHistory": HISTORY[:1], "NextToken": "a"}, question
        )
        stub.add_response(
            "describe_spot_price_history", {"SpotPriceHistory": HISTORY[1:2]}, {**question, "NextToken": "a"}
        )
        feed = Aws("p5.48xlarge")
        feed._clients["us-east-1"] = client
        assert len(feed.prices(["us-east-1a"], datetime.now(UTC) - 90 * HOUR).prices) == 2
        stub.add_client_error("describe_spot_price_history", "RequestLimitExceeded", "slow down", 503)
        with pytest.raises(FeedUnreachable, match="RequestLimitExceeded"):
            feed.prices(["us-east-1a"])
        stub.add_client_error("describe_spot_price_history", "UnauthorizedOperation", "no", 403)
        with pytest.raises(FeedRefused, match="DescribeSpotPriceHistory"):
            feed.prices(["us-east-1a"])


def test_aws_without_credentials_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(FeedRefused, match="credentials must be given") as caught:
        Aws("p5.48xlarge").prices(["us-east-1a"])
    assert caught.value.exit_code == 2


def test_an_answer_of_aws_that_cannot_be_is_told() -> None:
    with pytest.raises(FeedUnreachable, match="must be a number"):
        parts.aws([parts.aws_entry("us-east-1a", datetime.now(UTC) - HOUR, "free")]).prices(["us-east-1a"])


def test_a_recorded_answer_of_aws_is_understood(real_data: Path) -> None:
    file = real_data / "prices" / "aws-describe-spot-price-history-p3.2xlarge.json"
    entries = json.loads(file.read_text(encoding="utf-8"))["SpotPriceHistory"]
    feed = Aws("p3.2xlarge")
    whole = [{**one, "Timestamp": datetime.fromisoformat(one["Timestamp"])} for one in entries]
    feed._clients["us-east-2"] = parts.HistoryOfAws(whole, page=10)
    answer = feed.prices(["us-east-2"])
    assert [price.pool for price in answer.prices] == [f"us-east-2{zone}/p3.2xlarge" for zone in "cba"]
    assert {price.gpu for price in answer.prices} == {"V100"}
    assert {price.on_demand_per_gpu_hour for price in answer.prices} == {3.06}
    newest = {one["AvailabilityZone"]: float(one["SpotPrice"]) for one in reversed(entries)}
    assert {price.pool[:10]: price.spot_per_gpu_hour for price in answer.prices} == newest


# --------------------------------------------------------------------- Azure


def test_azure_reads_all_pages_of_linux_prices() -> None:
    with parts.serving(parts.azure_list) as server:
        answer = Azure(parts.AZURE, base_url=f"{server.url}/api").prices(["eastus-1", "westus3"])
        assert told(answer.prices) == [
            (f"eastus-1/{parts.AZURE}", 4.916, 12.29),
            (f"westus3/{parts.AZURE}", 3.0, 12.29),
        ]
        assert len(server.asked) == 3
        assert {path for path, _ in server.asked} == {"/api"}, "links to elsewhere are not followed"
        assert answer.prices[0].since_utc == datetime(2026, 10, 1, tzinfo=UTC)
        everywhere = Azure(parts.AZURE, base_url=f"{server.url}/api").prices([])
        assert len(everywhere.prices) == 2


# ----------------------------------------------------------------------- GCP


def test_gcp_takes_the_prices_of_the_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLES[0], "sesame")
    with parts.serving(parts.gcp_list) as server:
        answer = Gcp("H100", server.url).prices(["us-central1-a", "us-central1-b", "asia-east1-a"])
    assert told(answer.prices) == [("us-central1-a/H100", 2.253, 9.796), ("us-central1-b/H100", 2.253, 9.796)]
    assert "alone" in answer.notes[0]
    assert "asia-east1-a" in answer.notes[1]


def test_gcp_asks_for_a_key_and_never_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(FeedRefused, match=KEY_VARIABLES[0]):
        Gcp("H100").prices([])
    monkeypatch.setenv(KEY_VARIABLES[0], "hush-hush")
    with parts.serving(parts.gcp_list) as server, pytest.raises(FeedRefused, match="not valid") as caught:
        Gcp("H100", server.url).prices([])
    assert "hush" not in str(caught.value)


# ------------------------------------------------------------------ SkyPilot


def test_skypilot_reads_its_catalog_from_an_address_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / "vms.csv").write_text(parts.CATALOG, encoding="utf-8")
    wanted = [("us-east-1a/p5.48xlarge", 3.0, 12.29), ("us-west-2a/p5.48xlarge", 3.5, 12.29)]
    assert told(Skypilot("aws/p5.48xlarge", str(tmp_path)).prices([]).prices) == wanted
    with parts.serving(parts.always(parts.CATALOG)) as server:
        feed = Skypilot("aws/H100:8", f"{server.url}/v7")
        assert told(feed.prices([]).prices) == wanted
        assert told(feed.prices(["us-west-2"]).prices) == wanted[1:]
        assert server.asked[0][0] == "/v7/aws/vms.csv"
        everything = Skypilot("aws/H100", server.url).prices(["us-east-1a"])
    assert told(everything.prices) == [wanted[0], ("us-east-1a/p5.4xlarge", 3.5, 12.29)]
    with pytest.raises(FeedRefused, match="must be a readable file"):
        Skypilot("gcp/H100", str(tmp_path)).prices([])


# -------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, FeedUnreachable), (503, FeedUnreachable), (500, FeedUnreachable), (404, FeedRefused)],
)
def test_refusals_are_for_now_or_for_good(status: int, kind: type[Exception]) -> None:
    says_no = parts.always("{}", status, Retry_After="120")
    with parts.serving(says_no) as server, pytest.raises(kind, match=f"HTTP {status}") as caught:
        Azure(parts.AZURE, base_url=server.url).prices([])
    if isinstance(caught.value, FeedUnreachable):
        assert caught.value.retry_after_s == 120.0
        assert caught.value.exit_code == 4


def test_how_long_to_wait_is_read_in_all_its_forms() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    assert retry_after_s("7", now) == 7.0
    assert retry_after_s("Sun, 01 Nov 2026 00:01:30 GMT", now) == 90.0
    assert retry_after_s("Sun, 01 Nov 2020 00:01:30 GMT", now) == 0.0
    assert retry_after_s("1e99", now) == LONGEST_REQUESTED_S
    assert [retry_after_s(text, now) for text in (None, "", "soon", "nan", "-3")] == [0.0] * 5


@pytest.mark.parametrize(
    "body",
    [
        "", "<html>", "[]", "{}", '{"Items": 3}', '{"Items": [3]}', '{"Items": [{"meterName": "x"}]}',
        json.dumps({"Items": [{**parts.AZURE_ITEMS[1], "retailPrice": "cheap"}]}),
        json.dumps({"Items": [{**parts.AZURE_ITEMS[1], "retailPrice": -1}]}),
        json.dumps({"Items": [{**parts.AZURE_ITEMS[1], "effectiveStartDate": "soon"}]}),
        json.dumps({"Items": [{**parts.AZURE_ITEMS[1], "currencyCode": "EUR"}]}),
        json.dumps({"Items": [], "NextPageLink": "https://elsewhere/?$skip=1"}),
    ],
)  # fmt: skip
def test_malformed_lists_are_told_in_a_sentence(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slacktide.market.live.http.MAX_PAGES", 3)
    with parts.serving(parts.always(body)) as server, pytest.raises(FeedUnreachable, match="must"):
        Azure(parts.AZURE, base_url=server.url).prices([])


PRICED = parts.GCP_SKUS[0]["pricingInfo"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"category": 3}, {"pricingInfo": []}, {"pricingInfo": [{"effectiveTime": "2026-01-01T00:00:00Z"}]},
        {"pricingInfo": [{**PRICED, "pricingExpression": {"tieredRates": [{"unitPrice": 3}]}}]},
    ],
)  # fmt: skip
def test_malformed_skus_are_told_or_passed_over(
    change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLES[0], "sesame")
    body = json.dumps({"skus": [{**parts.GCP_SKUS[0], **change}]})
    with parts.serving(parts.always(body)) as server:
        if change == {"category": 3}:
            assert Gcp("H100", server.url).prices([]).prices == ()
        else:
            with pytest.raises(FeedUnreachable, match="must"):
                Gcp("H100", server.url).prices([])


@pytest.mark.parametrize(
    "body",
    [
        "",
        "a,b\n1,2\n",
        "\xff\xfe",
        parts.CATALOG.replace("24.0", "cheap"),
        parts.CATALOG.replace("8.0,192", "x,192"),
    ],
)
def test_malformed_catalogs_are_told(body: str) -> None:
    data = body.encode("latin-1")
    with parts.serving(parts.always(data)) as server, pytest.raises(FeedUnreachable, match="must"):
        Skypilot("aws/p5.48xlarge", server.url).prices([])


def test_silence_and_endless_answers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 100)
    with parts.serving(parts.always("x" * 200)) as server, pytest.raises(FeedUnreachable, match="at most"):
        Skypilot("aws/p5.48xlarge", server.url).prices([])
    with pytest.raises(FeedUnreachable, match="refused"):
        Skypilot("aws/p5.48xlarge", server.url).prices([])


def test_a_source_that_does_not_answer_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(http, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(FeedUnreachable, match="no answer within"):
            Azure(parts.AZURE, base_url=url).prices([])
