"""URLs of stores: what is read, and that nothing secret is shown."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from slacktide.backends.checkpoints.vault import Vault
from slacktide.core.errors import InputError
from slacktide.files.store_url import StoreUrl, open_store, parse_url


def test_urls_are_read() -> None:
    assert parse_url("s3://bucket/a/b/") == StoreUrl("s3", "bucket/a/b")
    assert parse_url("gs://bucket") == StoreUrl("gs", "bucket")
    assert parse_url("file:///data/check%20points") == StoreUrl("file", "/data/check points")
    own = "s3://bucket/a?endpoint_override=http://localhost:9000/&region=eu-west-1"
    assert parse_url(own) == StoreUrl("s3", "bucket/a", "localhost:9000", "http", "eu-west-1")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ckpt", "must be a URL such as"),
        ("http://host/a", "must be a URL such as"),
        ("s3:///a", "must name a bucket"),
        ("file://ckpt/a", "absolute path"),
        ("file:///", "got the root"),
        ("s3://bucket/../other", "without '.' and '..'"),
        ("file:///a/%2e%2e/b", "without '.' and '..'"),
        ("file:///a?region=x", "nothing may follow"),
        ("s3://bucket?region=a&region=b", "each once"),
        ("s3://bucket?endpoint_override=http://a/b", "endpoint_override must be"),
        ("s3://bucket?scheme=ftp", "scheme must be"),
        ("s3://bucket/a b\n", "blanks"),
        ("s3://[bucket", "got something else"),
    ],
)
def test_what_is_no_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAKEY:hunter2@bucket/a",
        "s3://AKIAKEY:hun/ter2hunter2@bucket/a",
        "s3://AKIAKEY@bucket/a",
        "s3://bucket/a?access_key=AKIAKEY&secret_key=hunter2",
        "s3://bucket/a?hunter2",
        "s3://bucket/a?endpoint_override=http://AKIAKEY:hunter2@host",
        "s3://bucket/a?region=hunter2!",
        "gs://hunter2@bucket",
        "https://AKIAKEY:hunter2@host/a",
    ],
)
def test_credentials_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)
    assert "AKIAKEY" not in str(caught.value)


def test_a_store_that_is_down_is_known_to_be_soon(monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    vault = Vault(*open_store(f"s3://bucket?endpoint_override=http://127.0.0.1:{port}"), "journal", "job")
    began = time.monotonic()
    with pytest.raises(OSError, match="connect") as caught:
        vault.save(work, 1, 0.5)
    assert time.monotonic() - began < 30.0
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_is_not_mounted_is_no_empty_store(tmp_path: Path, work: Path) -> None:
    vault = Vault(*open_store(f"file://{tmp_path}/nowhere"), "journal", "job")
    with pytest.raises(OSError, match="must be a folder that exists"):
        vault.save(work, 1, 0.5)
    with pytest.raises(OSError, match="must be a folder that exists"):
        vault.restore(work, 0)
    assert not (tmp_path / "nowhere").exists()
