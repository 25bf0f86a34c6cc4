"""Reads the URL of a checkpoint store (S3, Google Cloud Storage, a folder) and opens its file system.

Credentials come from the environment, never from the URL: job files, journals and messages contain URLs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from slacktide.core.errors import InputError, shown

EXAMPLES = "s3://bucket/folder, gs://bucket/folder or file:///folder"
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "s3": ("endpoint_override", "region", "scheme"),
    "gs": ("endpoint_override", "scheme"),
    "file": (),
}
"""What may follow the `?` of a URL, by its scheme."""

CONNECT_S = 5.0
REQUEST_S = 10.0
TRIES = 3  # together these limit how long it takes to notice that a store is down

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?/?")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


class StoreUrl(NamedTuple):
    """The parts of a well-formed URL of a store."""

    scheme: str
    root: str  # bucket and folder, or the absolute path of a folder
    endpoint: str | None = None  # host and port of a store that is not its vendor's own
    endpoint_scheme: str | None = None
    region: str | None = None


def parse_url(text: str) -> StoreUrl:
    """Read the URL of a store; raises InputError, whose text shows nothing that may be a credential."""
    if text != text.strip() or not text.isprintable():
        raise InputError(f"must be a URL such as {EXAMPLES}, got blanks or control characters in it")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise InputError(f"must be a URL such as {EXAMPLES}, got something else") from None
    # A user and password before '@'; checked in the text, because a '/' in a password misleads the parser.
    if "@" in text.split("?", maxsplit=1)[0] or "@" in parts.query or "@" in parts.fragment:
        raise InputError(
            "must hold no credentials, got a URL with '@'; give them in the environment "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or GOOGLE_APPLICATION_CREDENTIALS)"
        )
    if "#" in text:
        raise InputError("must have no '#', got one; write %23 for the character")
    if parts.scheme not in OPTIONS:
        raise InputError(f"must be a URL such as {EXAMPLES}, got {shown(text.split('?', maxsplit=1)[0])}")
    if parts.scheme == "file":
        return StoreUrl("file", _folder(parts))
    if not _BUCKET.fullmatch(parts.netloc):
        raise InputError(
            f"must name a bucket, as in {parts.scheme}://bucket/folder, got {shown(parts.netloc)}"
        )
    options = _options(parts)
    endpoint, scheme = _endpoint(options)
    region = options.get("region")
    if region is not None and not _REGION.fullmatch(region):
        raise InputError("region must be a name such as us-east-1, got another one")
    root = "/".join([parts.netloc, *_segments(parts.path)])
    return StoreUrl(parts.scheme, root, endpoint, scheme, region)


def open_store(url: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a URL and the folder in it; raises InputError and OSError."""
    from pyarrow import fs

    found = parse_url(url)
    if found.scheme == "file":
        return fs.LocalFileSystem(), found.root
    return _open_s3(found) if found.scheme == "s3" else _open_gs(found), found.root


def _options(parts: SplitResult) -> dict[str, str]:
    """Return what follows the `?`; an unknown name is not shown: it may be part of a secret."""
    known = OPTIONS[parts.scheme]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if any(name not in known for name, _ in pairs) or len(dict(pairs)) != len(pairs):
        allowed = f"only {', '.join(known)}, each once," if known else "nothing"
        raise InputError(
            f"{allowed} may follow the '?' of a {parts.scheme} URL, got something else; "
            "give credentials in the environment"
        )
    return dict(pairs)


def _endpoint(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return host and port, and http or https, from `host:port` or `http://host:port`."""
    text, scheme = options.get("endpoint_override"), options.get("scheme")
    if text is not None and "://" in text:
        before, text = text.split("://", 1)
        if scheme not in (None, before):
            raise InputError("endpoint_override and scheme must agree, got two schemes")
        scheme = before
    if scheme not in (None, "http", "https"):
        raise InputError("scheme must be http or https, got another one")
    if text is not None and not _HOST.fullmatch(text):
        raise InputError("endpoint_override must be host:port or http://host:port, got something else")
    return None if text is None else text.rstrip("/"), scheme


def _folder(parts: SplitResult) -> str:
    _options(parts)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise InputError(
            f"must be an absolute path of this machine, as in file:///folder, got {shown(parts[1])}"
        )
    segments = _segments(parts.path)
    if not segments:
        raise InputError("must name a folder, as in file:///folder, got the root of the file system")
    return "/" + "/".join(segments)


def _segments(path: str) -> list[str]:
    segments = [unquote(part) for part in path.split("/") if part]
    if any(part in (".", "..") or "/" in part or "\0" in part for part in segments):
        raise InputError(f"must be a path without '.' and '..', got {shown(path)}")
    return segments


def _open_s3(url: StoreUrl) -> Any:
    from pyarrow import fs

    endpoint, scheme = url.endpoint, url.endpoint_scheme
    usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None and usual:
        endpoint, scheme = _endpoint({"endpoint_override": usual})
    region = url.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = fs.resolve_s3_region(url.root.split("/", maxsplit=1)[0])
    return fs.S3FileSystem(
        region=region or "us-east-1",  # stores of other vendors ignore it, but the client needs one
        endpoint_override=endpoint,
        scheme=scheme or "https",
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        # Parts wait for each other, so that a fast disk and a slow network do not fill the memory.
        background_writes=False,
    )


def _open_gs(url: StoreUrl) -> Any:
    from pyarrow import fs

    limit = timedelta(seconds=TRIES * REQUEST_S)
    settings = {"endpoint_override": url.endpoint, "scheme": url.endpoint_scheme}
    return fs.GcsFileSystem(
        retry_time_limit=limit, **{name: value for name, value in settings.items() if value}
    )
