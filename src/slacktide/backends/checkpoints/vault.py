"""Saves and loads a job's checkpoints in a store: files first, the manifest last, so a kill leaves one whole.

    <root>/<owner>/<job>/blobs/<sha256>.<nonce>                      the content of a file
    <root>/<owner>/<job>/manifests/<attempt>-<number>-<nonce>.json   one whole checkpoint, written last

A blob counts only once a manifest names it, and every writer writes its own blobs, so a writer that is killed
leaves garbage but no damage. The newest checkpoint has the highest attempt, and in that the highest number:
workers that were cut off and go on saving change nothing. Old checkpoints go in two steps an hour apart (a
manifest is retired, later its blobs are removed), so that a save that uses them is over by then.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slacktide.backends.checkpoints import folder as disk
from slacktide.backends.checkpoints.folder import CheckpointCopy, FileState, FolderListing, Stamp
from slacktide.backends.checkpoints.objects import (
    Content,
    Damaged,
    Manifest,
    Number,
    Objects,
    Stored,
    decode,
    is_blob,
    number_of,
)
from slacktide.core.child_process import ParentProcess
from slacktide.core.errors import BackendError, InputError, SlacktideError
from slacktide.files.store_url import open_store

STREAMS = 4  # files that are copied at the same time
PASSES = 20
"""How often to read a folder that changes meanwhile; after the first pass only what changed is read."""
KEPT_S = 3600.0  # for how long blobs that a save under way may need are not removed

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}")


class Fenced(BackendError):
    """A newer set of workers has saved already, so an older one may not."""


class Unsteady(BackendError):
    """The folder changed all the time while it was read."""


@dataclass(slots=True)
class Vault:
    """The checkpoints of one job in a store; all methods raise OSError if the store fails."""

    store: Any  # a pyarrow file system
    root: str
    owner: str
    job: str
    streams: int = STREAMS
    kept_s: float = KEPT_S
    moved: Callable[[], None] = lambda: None  # called after each part that is read or copied: a sign of life
    _objects: Objects = field(init=False)
    _known: dict[tuple[str, FileState], Stored] = field(default_factory=dict, init=False)
    """Where the content of each file that was last saved is, by the file's name and state."""

    def __post_init__(self) -> None:
        for name in (self.owner, self.job):
            if not _NAME.fullmatch(name):
                raise InputError(f"a name in a store must be letters, digits, '.', '_' or '-', got {name!r}")
        self._objects = Objects(self.store, self.root, f"{self.root}/{self.owner}/{self.job}", self.moved)

    def latest(self) -> Manifest | None:
        """Return the newest whole checkpoint; raises Damaged when its manifest cannot be read."""
        current = [number for number, _ in self._manifests() if not number.retired]
        if not current:
            return None
        newest = max(current)[:2]
        # Two writers have the same number if one was wrongly thought dead: the one with more work counts.
        tied = [self._read(number) for number in current if number[:2] == newest]
        return max(tied, key=lambda manifest: (manifest.done_share, manifest.written_utc))

    def save(self, folder: Path, attempt: int, done_share: float) -> CheckpointCopy:
        """Save a folder: copy files that the store lacks, then write the manifest.

        Raises Fenced if a higher attempt has saved, Unsteady if the folder keeps changing, and BackendError
        if it cannot be copied; the checkpoint before then stays the newest.
        """
        self._next_number(attempt)
        before = self._content()
        known = {key: stored for key, stored in self._known.items() if stored.sha256 in before}
        found, files, copied = self._copied(Path(folder), known, before)
        if not files:
            raise BackendError(f"{folder}: a checkpoint must have files, got an empty folder")
        self._check_there(files)
        number = self._next_number(attempt)
        manifest = Manifest(
            job=self.job,
            attempt=attempt,
            number=number,
            done_share=done_share,
            files=files,
            links=found.links,
            written_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        self._publish(Number(attempt, number, secrets.token_hex(4)), manifest)
        self._known = {(name, found.files[name]): stored for name, stored in files.items()}
        return _copy_of(manifest, copied)

    def restore(self, folder: Path, attempt: int) -> CheckpointCopy | None:
        """Load the newest checkpoint into a folder for the workers of an attempt, unless it is there already.

        It is if the attempt that saved last, or a later one, has worked in the folder. Otherwise what the
        folder held is kept next to it under another name. Returns None if the store has no checkpoint; the
        folder then stays as it is, as it does if this raises Damaged.
        """
        place, manifest = Path(os.path.realpath(folder)), self.latest()
        stale = manifest is not None and self._worked_in(place) < manifest.attempt
        if manifest is not None and stale:
            self._bring(manifest, place)
        disk.write_stamp(place, Stamp(self.owner, self.job, attempt))
        if manifest is None:
            return None
        return _copy_of(manifest, manifest.size_bytes if stale else 0)._replace(copied=stale)

    def retain(self, keep: int = 2) -> int:
        """Keep this many of the newest checkpoints, and remove blobs that no save can need; return how many.

        Now is when the newest manifest was written, on the store's own clock.
        """
        found = sorted(self._manifests(), reverse=True)
        current = [number for number, _ in found if not number.retired]
        if not current:
            return 0
        now_s = max(written_s for _, written_s in found)
        kept, gone = current[: max(1, keep)], current[max(1, keep) :]
        named = self._named(kept) | self._retire(gone)
        for number, written_s in found:
            if number.retired and now_s - written_s < self.kept_s:
                named |= self._named([number])
            elif number.retired:
                self._objects.remove(number.path)
        blobs = [blob for blob in self._objects.entries("blobs") if is_blob(blob.name)]
        old = [blob for blob in blobs if blob.name not in named and now_s - blob.written_s >= self.kept_s]
        for blob in old:
            self._objects.remove(f"blobs/{blob.name}")
        return len(old)

    def _manifests(self) -> list[tuple[Number, float]]:
        """Return all manifests, and when each was written."""
        entries = [(number_of(entry.name), entry.written_s) for entry in self._objects.entries("manifests")]
        return [(number, written_s) for number, written_s in entries if number is not None]

    def _read(self, number: Number) -> Manifest:
        manifest = decode(self._objects.read(number.path), number.path)
        if (manifest.job, manifest.attempt, manifest.number) != (self.job, number.attempt, number.number):
            raise Damaged(f"a manifest must be what its name says, got another one in {number.path}")
        return manifest

    def _publish(self, number: Number, manifest: Manifest) -> None:
        self._objects.write_whole(number.path, manifest.encoded())

    def _next_number(self, attempt: int) -> int:
        """Return the number of the next save of an attempt; raises Fenced when a higher attempt has saved."""
        newest = max((number for number, _ in self._manifests()), default=Number(0, 0, ""))
        if newest.attempt > attempt:
            raise Fenced(
                f"job {self.job!r} must be saved by its newest workers, got attempt {attempt} after attempt "
                f"{newest.attempt} has saved"
            )
        return 1 + (newest.number if newest.attempt == attempt else 0)

    def _content(self) -> dict[str, Stored]:
        """Return the whole blobs of the newest checkpoint, by hash; none if its manifest is damaged."""
        try:
            newest = self.latest()
        except Damaged:
            return {}
        sizes = self._sizes()
        files = {} if newest is None else newest.files
        return {stored.sha256: stored for stored in files.values() if sizes.get(stored.blob) == stored.bytes}

    def _sizes(self) -> dict[str, int]:
        return {blob.name: blob.bytes for blob in self._objects.entries("blobs")}

    def _copied(
        self, folder: Path, known: dict[tuple[str, FileState], Stored], before: Mapping[str, Stored]
    ) -> tuple[FolderListing, dict[str, Stored], int]:
        """Copy a folder until it is the same after a pass as before: then the copy is a consistent state."""
        content = dict(before)
        for _ in range(PASSES):
            try:
                found = disk.listing(folder)
                new = [key for key in found.files.items() if key not in known]
                with ThreadPoolExecutor(self.streams) as pool:
                    stored = list(pool.map(lambda key: self._put(folder / key[0], key[1], content), new))
                known.update(zip(new, stored, strict=True))
                if disk.listing(folder) == found:
                    files = {name: known[name, look] for name, look in found.files.items()}
                    return found, files, sum(content[new].bytes for new in content.keys() - before.keys())
            except (FileNotFoundError, _Changed):
                if not folder.is_dir():
                    raise
        raise Unsteady(
            f"{folder}: a checkpoint must not change while it is copied, got changes in {PASSES} passes; "
            "write it under another name ending in .tmp and rename it when it is whole"
        )

    def _put(self, path: Path, look: FileState, content: dict[str, Stored]) -> Stored:
        """Store a file's content, unless the store has it; raises _Changed if the file has changed."""
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            digest = self._objects.digest(file)
            if digest not in content:
                file.seek(0)
                blob = f"{digest}.{secrets.token_hex(8)}"
                if self._objects.upload(file, f"blobs/{blob}") != Content(digest, look.bytes):
                    raise _Changed
                content[digest] = Stored(digest, look.bytes, blob, look.mtime_ns)
            if disk.look(os.fstat(file.fileno())) != look:
                raise _Changed
        return content[digest]._replace(mtime_ns=look.mtime_ns)

    def _check_there(self, files: Mapping[str, Stored]) -> None:
        """Check that the store has all blobs, whole, before a manifest names them; raises BackendError."""
        sizes = self._sizes()
        lost = [name for name, stored in files.items() if sizes.get(stored.blob) != stored.bytes]
        if lost:
            raise BackendError(f"the store must hold what was copied to it, found no content of {lost[0]!r}")

    def _retire(self, numbers: Iterable[Number]) -> set[str]:
        """Mark manifests as retired, so that they no longer count; return the blobs that they name."""
        named: set[str] = set()
        for number in numbers:
            manifest = self._read(number)
            named |= {stored.blob for stored in manifest.files.values()}
            self._publish(number._replace(retired=True), manifest)
            self._objects.remove(number.path)
        return named

    def _named(self, numbers: Iterable[Number]) -> set[str]:
        return {stored.blob for number in numbers for stored in self._read(number).files.values()}

    def _worked_in(self, folder: Path) -> int:
        """Return the attempt of this job that last worked in a folder; -1: none, or the folder is empty."""
        stamp = disk.read_stamp(folder)
        if stamp is None or (stamp.owner, stamp.job) != (self.owner, self.job) or not disk.has_files(folder):
            return -1
        return stamp.attempt

    def _bring(self, manifest: Manifest, folder: Path) -> None:
        fresh = disk.loading_folder(folder)
        with ThreadPoolExecutor(self.streams) as pool:
            list(pool.map(lambda item: self._get(item[1], fresh / item[0]), manifest.files.items()))
        for name, target in manifest.links.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, fresh / name)
        disk.write_stamp(fresh, Stamp(self.owner, self.job, manifest.attempt))
        disk.put_in_place(fresh, folder)

    def _get(self, stored: Stored, target: Path) -> None:
        try:
            content = self._objects.download(f"blobs/{stored.blob}", target)
        except FileNotFoundError as error:
            raise Damaged(f"blob {stored.blob} of job {self.job!r} must be there, found none") from error
        if content != (stored.sha256, stored.bytes):
            raise Damaged(f"blob {stored.blob} of job {self.job!r} must be what was saved, got other content")
        os.utime(target, ns=(stored.mtime_ns, stored.mtime_ns))


class _Changed(Exception):
    """A file has changed since it was listed."""


def _copy_of(manifest: Manifest, copied_bytes: int) -> CheckpointCopy:
    files, size = len(manifest.files), manifest.size_bytes
    return CheckpointCopy(manifest.attempt, manifest.number, manifest.done_share, files, size, copied_bytes)


SIGN_S = 1.0  # how often a copy under way gives a sign of life


class _SignsOfLife:
    """Tells the parent, at most every SIGN_S, that bytes move."""

    def __init__(self, parent: ParentProcess) -> None:
        self._parent, self._next_s = parent, 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + SIGN_S
            self._parent.send({"moving": True})


def main() -> None:
    """Answer requests until the input ends."""
    parent = ParentProcess()
    vault: Vault | None = None
    for request in parent.requests():
        try:
            vault = vault or _open(request, parent)
            copy = _carry_out(vault, request)
            answer: dict[str, Any] = {"checkpoint": copy and copy._asdict()}
        except Fenced as error:
            answer = {"failed": str(error), "fenced": True}
        except (SlacktideError, OSError, ImportError) as error:
            answer = {"failed": str(error) or type(error).__name__}
        except Exception as error:  # an error of a library: the parent has to know, and may try again
            answer = {"failed": f"{type(error).__name__}: {error}"}
        parent.send({"id": request["id"], **answer})


def _open(request: dict[str, Any], parent: ParentProcess) -> Vault:
    store, root = open_store(request["url"])
    return Vault(store, root, request["owner"], request["job"], moved=_SignsOfLife(parent))


def _carry_out(vault: Vault, request: dict[str, Any]) -> CheckpointCopy | None:
    folder, attempt = Path(request["folder"]), request["attempt"]
    if request["kind"] == "load":
        return vault.restore(folder, attempt)
    saved = vault.save(folder, attempt, request["share"])
    with suppress(SlacktideError, OSError):  # the checkpoint is saved all the same; the next save tidies up
        vault.retain(request["keep"])
    return saved


if __name__ == "__main__":
    main()
