"""Stores for the tests: a folder, and an S3 server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from slacktide.backends.checkpoints.vault import Vault
from slacktide.files.store_url import open_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An empty store."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a small checkpoint."""
    folder = tmp_path / "ckpt"
    (folder / "deep").mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights 1")
    (folder / "deep" / "optimizer.pt").write_bytes(b"moments 1")
    return folder


@pytest.fixture
def vault(store: Path) -> Vault:
    """The checkpoints of a job in that store."""
    return Vault(*open_store(f"file://{store}"), "journal", "job-1")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[Any]:
    """A moto server on loopback; skipped where moto is not installed."""
    reason = "moto is not installed: pip install 'moto[s3]' flask flask-cors boto3"
    moto = pytest.importorskip("moto.server", reason=reason)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def s3_url(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket on that server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    host, port = s3_server.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    urlopen(Request(f"http://{host}:{port}/bucket", method="PUT")).close()
    return f"s3://bucket/ckpt?endpoint_override=http://{host}:{port}&region=us-east-1"
