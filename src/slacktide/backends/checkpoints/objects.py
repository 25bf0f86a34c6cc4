"""Objects in a checkpoint store, through a pyarrow file system, and the manifests that name them.

Objects are read, written whole, listed and removed. A manifest describes one whole checkpoint: which files it
has, and which blob holds the content of each.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from slacktide.backends.checkpoints.folder import safe_link, safe_name
from slacktide.core.errors import BackendError
from slacktide.core.files import make_durable

CHUNK_BYTES = 1 << 23
MOST_BYTES = 1 << 26  # the largest small object that is read: a manifest has some lines for each file


class Content(NamedTuple):
    """Hash and size of what was read or copied."""

    sha256: str
    bytes: int


class StoredObject(NamedTuple):
    """An object in the store."""

    name: str
    bytes: int
    written_s: float  # when, on the store's own clock


def pumped(
    read: Callable[[int], bytes], write: Callable[[bytes], object], moved: Callable[[], None]
) -> Content:
    """Copy until nothing is left to read; call `moved` after each part."""
    whole, size = hashlib.sha256(), 0
    while part := read(CHUNK_BYTES):
        write(part)
        whole.update(part)
        size += len(part)
        moved()
    return Content(whole.hexdigest(), size)


class Objects:
    """The objects below one folder of a store; all methods raise OSError."""

    def __init__(self, store: Any, root: str, base: str, moved: Callable[[], None]) -> None:
        self._store, self._root, self._base, self._moved = store, root, base, moved
        self._local = store.type_name == "local"

    def entries(self, part: str) -> list[StoredObject]:
        """List a folder; a missing one counts as empty."""
        from pyarrow import fs

        if self._local and not os.path.isdir(self._root):  # an unmounted disk is not an empty store
            raise FileNotFoundError(f"{self._root} must be a folder that exists, found none; make it")
        selector = fs.FileSelector(f"{self._base}/{part}", allow_not_found=True)
        files = [info for info in self._store.get_file_info(selector) if info.type == fs.FileType.File]
        return [StoredObject(file.base_name, file.size, (file.mtime_ns or 0) / 1e9) for file in files]

    def read(self, path: str) -> bytes:
        """Return a small object."""
        with self._store.open_input_stream(f"{self._base}/{path}") as stream:
            return bytes(stream.read(MOST_BYTES))

    def write_whole(self, path: str, content: bytes) -> None:
        """Write a small object whole or not at all: stores do that themselves, a local file is renamed."""
        target = f"{self._base}/{path}"
        draft = f"{target}.tmp" if self._local else target
        self._make_folder(target)
        with self._store.open_output_stream(draft) as stream:
            stream.write(content)
        if self._local:
            make_durable(Path(draft))
            self._store.move(draft, target)
            make_durable(Path(target).parent)

    def upload(self, file: BinaryIO, path: str) -> Content:
        """Copy a file to a new object; if the process is killed, half of it may remain."""
        target = f"{self._base}/{path}"
        self._make_folder(target)
        try:
            with self._store.open_output_stream(target) as stream:
                content = pumped(file.read, stream.write, self._moved)
            if self._local:
                make_durable(Path(target))
        except OSError:
            with suppress(OSError):  # otherwise every try would leave another half on a full disk
                self._store.delete_file(target)
            raise
        return content

    def download(self, path: str, target: Path) -> Content:
        """Copy an object into a new file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._store.open_input_stream(f"{self._base}/{path}") as stream, open(target, "xb") as file:
            content = pumped(stream.read, file.write, self._moved)
            file.flush()
            os.fsync(file.fileno())
        return content

    def digest(self, file: BinaryIO) -> str:
        """Return the hash of a file's content."""
        return pumped(file.read, lambda part: None, self._moved).sha256

    def remove(self, path: str) -> None:
        """Remove an object."""
        self._store.delete_file(f"{self._base}/{path}")

    def _make_folder(self, path: str) -> None:
        if self._local:  # object stores have no folders
            self._store.create_dir(path.rpartition("/")[0], recursive=True)


FORMAT = 1
_FILE = re.compile(r"([0-9]{1,12})-([0-9]{1,12})-([0-9a-f]{8})\.(json|retired)")
_BLOB = re.compile(r"([0-9a-f]{64})\.[0-9a-f]{16}")


class Damaged(BackendError):
    """The content of a store is not what was saved."""


class Stored(NamedTuple):
    """The content of one file."""

    sha256: str
    bytes: int
    blob: str  # the name under which the store has it
    mtime_ns: int


class Number(NamedTuple):
    """The number of a checkpoint: the newest has the highest attempt, and in that the highest number."""

    attempt: int
    number: int
    nonce: str  # keeps two writers of the same number from overwriting each other
    retired: bool = False

    @property
    def path(self) -> str:
        """The path of the manifest."""
        ending = "retired" if self.retired else "json"
        return f"manifests/{self.attempt:06d}-{self.number:06d}-{self.nonce}.{ending}"


def number_of(file: str) -> Number | None:
    """Return the number in the name of a manifest file; None for any other file."""
    found = _FILE.fullmatch(file)
    return None if found is None else Number(int(found[1]), int(found[2]), found[3], found[4] == "retired")


def is_blob(name: str) -> bool:
    """Whether the name of a file is that of a blob."""
    return _BLOB.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of one whole checkpoint."""

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
        files = {name: stored._asdict() for name, stored in self.files.items()}
        fact = {"format": FORMAT, **asdict(self), "files": files}
        return json.dumps(fact, indent=1).encode() + b"\n"


def decode(content: bytes, where: str) -> Manifest:
    """Read a manifest; raises Damaged if it is invalid or names files outside of the folder."""
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
    links = {safe_name(name): safe_link(name, target) for name, target in fact["links"].items()}
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
    """Raise ValueError for names below a file or link of the manifest: none is written through a link."""
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
