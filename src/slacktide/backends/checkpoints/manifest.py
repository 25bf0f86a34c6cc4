"""The manifest of a saved checkpoint: which files it has, and which blob holds the content of each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from slacktide.backends.checkpoints.folder import safe_link, safe_name
from slacktide.core.errors import BackendError

FORMAT = 1
_FILE = re.compile(r"([0-9]{1,12})-([0-9]{1,12})-([0-9a-f]{8})\.(json|retired)")
_BLOB = re.compile(r"([0-9a-f]{64})\.[0-9a-f]{16}")


class Damaged(BackendError):
    """What a store holds is not what was saved."""


class Stored(NamedTuple):
    """The content of one file."""

    sha256: str
    bytes: int
    blob: str  # the name under which the store has it
    mtime_ns: int


class Number(NamedTuple):
    """What orders checkpoints: the highest attempt wins, then the highest number."""

    attempt: int
    number: int
    nonce: str  # keeps two writers of one number from overwriting each other
    retired: bool = False

    @property
    def file(self) -> str:
        """The name of the manifest in its folder."""
        return f"{self.attempt:06d}-{self.number:06d}-{self.nonce}.{'retired' if self.retired else 'json'}"


def number_of(file: str) -> Number | None:
    """Return which manifest a file is; None for one that is none."""
    found = _FILE.fullmatch(file)
    return None if found is None else Number(int(found[1]), int(found[2]), found[3], found[4] == "retired")


def is_blob(name: str) -> bool:
    """Whether a name in the folder of blobs is one that we gave."""
    return _BLOB.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One whole checkpoint."""

    job: str
    attempt: int
    number: int
    done_share: float  # how much of the job's work it holds
    files: Mapping[str, Stored]
    links: Mapping[str, str]
    written_utc: str

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(stored.bytes for stored in self.files.values())

    def encoded(self) -> bytes:
        """Return the manifest as it is stored."""
        fact = {
            "format": FORMAT,
            "job": self.job,
            "attempt": self.attempt,
            "number": self.number,
            "done_share": self.done_share,
            "written_utc": self.written_utc,
            "files": {name: stored._asdict() for name, stored in self.files.items()},
            "links": dict(self.links),
        }
        return json.dumps(fact, indent=1).encode() + b"\n"


def decode(content: bytes, where: str) -> Manifest:
    """Read a manifest; raises Damaged for what is none, or names files outside of the folder."""
    try:
        return _decoded(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Damaged(
            f"a manifest must be one that Slacktide wrote, got {where}, which cannot be read ({error}); "
            "remove it to continue from the checkpoint before it"
        ) from error


def _decoded(fact: Any) -> Manifest:
    if fact["format"] != FORMAT:
        raise ValueError(f"format {FORMAT} must be given, got {fact['format']!r}")
    files = {safe_name(name): _stored(entry) for name, entry in fact["files"].items()}
    links = {safe_name(name): safe_link(name, there) for name, there in fact["links"].items()}
    _check_no_way_through(files, links)
    share = float(fact["done_share"])
    if not math.isfinite(share):
        raise ValueError("a done share must be a number")
    return Manifest(
        job=str(fact["job"]),
        attempt=int(fact["attempt"]),
        number=int(fact["number"]),
        done_share=share,
        files=files,
        links=links,
        written_utc=str(fact["written_utc"]),
    )


def _check_no_way_through(files: Mapping[str, Stored], links: Mapping[str, str]) -> None:
    """Refuse names below a file or a link of the same manifest: no file is written through a link."""
    for name in (*files, *links):
        parts = name.split("/")
        above = {"/".join(parts[:end]) for end in range(1, len(parts))}
        if above & files.keys() or above & links.keys() or (name in files and name in links):
            raise ValueError(f"unsafe name {name!r}")


def _stored(entry: Any) -> Stored:
    stored = Stored(str(entry["sha256"]), int(entry["bytes"]), str(entry["blob"]), int(entry["mtime_ns"]))
    found = _BLOB.fullmatch(stored.blob)
    if found is None or found[1] != stored.sha256 or stored.bytes < 0:
        raise ValueError("a blob must have the name of its content")
    return stored
