"""A folder of a store, through a pyarrow file system: files are read, written whole, listed and removed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from slacktide.core.files import make_durable

CHUNK_BYTES = 1 << 23
MOST_BYTES = 1 << 26  # the most that is read at once: a manifest has one line for each file


class Content(NamedTuple):
    """What was read or copied."""

    sha256: str
    bytes: int


class StoredObject(NamedTuple):
    """An object in the store."""

    name: str
    bytes: int
    written_s: float  # by the store's own clock


def pumped(
    read: Callable[[int], bytes], write: Callable[[bytes], object], moved: Callable[[], None]
) -> Content:
    """Copy until nothing is left to read, and return what that was."""
    whole, size = hashlib.sha256(), 0
    while part := read(CHUNK_BYTES):
        write(part)
        whole.update(part)
        size += len(part)
        moved()
    return Content(whole.hexdigest(), size)


class Objects:
    """What is below one folder of a store; all methods raise OSError."""

    def __init__(self, store: Any, root: str, base: str, moved: Callable[[], None]) -> None:
        self._store, self._root, self._base, self._moved = store, root, base, moved
        self._local = store.type_name == "local"

    def entries(self, part: str) -> list[StoredObject]:
        """List a folder; one that is not there is empty."""
        from pyarrow import fs

        if self._local and not os.path.isdir(self._root):  # a disk that is not mounted is no empty store
            raise FileNotFoundError(f"{self._root} must be a folder that exists, found none; make it")
        selector = fs.FileSelector(f"{self._base}/{part}", allow_not_found=True)
        found = [info for info in self._store.get_file_info(selector) if info.type == fs.FileType.File]
        return [StoredObject(one.base_name, one.size, (one.mtime_ns or 0) / 1e9) for one in found]

    def read(self, path: str) -> bytes:
        """Return a small object."""
        with self._store.open_input_stream(f"{self._base}/{path}") as stream:
            return bytes(stream.read(MOST_BYTES))

    def write_whole(self, path: str, content: bytes) -> None:
        """Write a small object whole or not at all: objects of a store are, files are by their renaming."""
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
        """Copy a file to where nothing is yet; a kill may leave half of it."""
        target = f"{self._base}/{path}"
        self._make_folder(target)
        try:
            with self._store.open_output_stream(target) as stream:
                content = pumped(file.read, stream.write, self._moved)
            if self._local:
                make_durable(Path(target))
        except OSError:
            with suppress(OSError):  # each try would leave another half on a disk that is full
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
        if self._local:  # stores of objects have no folders
            self._store.create_dir(path.rpartition("/")[0], recursive=True)
