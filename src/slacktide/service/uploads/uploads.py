"""Files that clients upload: market files, zipped working folders, and the folder that each job runs in.

The folder of a job is kept while the job waits or runs, and for some days after its end, because it may
contain results. A folder without a job is kept for a day. What to remove follows from the journal, so a
server that was killed continues correctly.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import math
import os
import re
import shutil
import stat
import threading
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from slacktide.app.jobs.submission import FleetText, Submission
from slacktide.app.markets.market import MarketSpec
from slacktide.app.task_requests import SubmitRequest, parse_policy
from slacktide.backends.machines.launch_package import MOST_BYTES
from slacktide.core.errors import BackendError, FileError, InputError, SlacktideError, shown
from slacktide.core.files import make_private_folder, write_private
from slacktide.engine.job.launch_spec import UPLOADS, came_over_network
from slacktide.files.job import JobFile
from slacktide.files.rewrite import without_secrets
from slacktide.journal.events import Ended
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store
from slacktide.service.uploads.job_checks import checked, completed

MOST_UNPACKED_BYTES = 4 * MOST_BYTES
MOST_FILES = 20_000
MOST_KEPT_BYTES = 20 * MOST_BYTES  # of all zipped working folders together
KEPT_S = 24 * 3600.0  # how long a working folder may wait for the job that uses it
KEPT_DAYS = 7.0  # how long the files of a job are kept after its end
MARKET_BYTES = 32 << 20  # of a market sent for a plan or a back-test, compressed: some millions of quotes
MARKET_KEPT_S = 3600.0
_FOLDER = re.compile(r"[0-9a-f]{24}")


class Uploads:
    """Keeps uploaded working folders, and makes a folder for every job that is submitted."""

    def __init__(self, runs: Path, fleet: FleetText | None = None) -> None:
        """Name the folder of a journal's runs, which the first upload creates, and the server's fleet."""
        self._fleet = fleet
        self.folder = runs / UPLOADS
        self.zips = UploadCache(
            folder=self.folder / ".zips",
            what="working folders",
            most_bytes=MOST_BYTES,
            most_kept_bytes=MOST_KEPT_BYTES,
            kept_s=KEPT_S,
        )
        self.markets = markets_of(runs)
        self._lock = threading.Lock()
        """Held while a job's existing folder is marked as new, or removed."""

    def is_same(self, request: SubmitRequest, text: str) -> bool:
        """Whether a job file in the journal is that of a request: as sent, or completed from its class."""
        public = msgspec.structs.replace(request, text=without_secrets(request.text))
        with contextlib.suppress(SlacktideError):
            whole = (completed(public.text, public.job_class, fleet) for fleet in (None, self._fleet))
            return text in (public.text, *whole)
        return False

    def submission(self, request: SubmitRequest, key: str) -> Submission:
        """Write the files of a job into its folder, and return the submission for the controller.

        The same key always has the same folder. Raises InputError or InfeasibleError for a job that cannot
        run or that needs something of the server's, and BackendError if the disk takes no more.
        """
        file = checked(request, self._fleet)
        text = without_secrets(request.text) if file.secrets else request.text
        folder = self._folder_of(key)
        self._lay_out(folder, file, request, text)
        path = str(folder / request.name)
        envs = {name: request.envs[name] for name, value in file.envs.items() if value is None}
        own = {name: value for name, value in file.secrets.items() if value is not None}
        return Submission(
            file=dataclasses.replace(file, path=path, secrets=dict.fromkeys(file.secrets)),
            text=text,
            envs={**envs, **own, **{name: request.secrets[name] for name in file.secrets if name not in own}},
            policy=parse_policy(request.policy),
            market=MarketSpec(pool=request.pool or None),
            key=key,
            sight=request.sight,
        )

    def _lay_out(self, folder: Path, file: JobFile, request: SubmitRequest, text: str) -> None:
        """Make the folder of a job, whole or not at all."""
        with self._lock, contextlib.suppress(FileNotFoundError):
            os.utime(folder)  # mark it as new, so that `remove` does not take it for abandoned
            return
        draft = folder.with_name(f".{folder.name}-{os.urandom(4).hex()}")
        try:
            self._fill(draft, file, request, text)
            os.rename(draft, folder)
        except (OSError, FileError) as error:
            if not folder.is_dir():  # otherwise another request has made it at the same time
                cause = error if isinstance(error, OSError) else error.__cause__
                reason = getattr(cause, "strerror", None) or "an error"
                raise BackendError(
                    f"the disk of the server must take the files of a job, got: {reason}; notify its operator"
                ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _fill(self, folder: Path, file: JobFile, request: SubmitRequest, text: str) -> None:
        make_private_folder(folder)
        if request.workdir:
            if not self.zips.has(request.workdir):
                raise InputError(
                    "the working folder must be sent before the job, got none of that SHA-256; "
                    "PUT it to /api/v1/uploads/SHA256 first"
                )
            unpack(self.zips.path(request.workdir).read_bytes(), folder / (file.workdir or "."))
        write_private(folder / request.name, text.encode())

    def folders(self) -> list[str]:
        """List the folders of all jobs, waiting, running or ended."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if _FOLDER.fullmatch(path.name))

    def age_s(self, folder: str, now_s: float) -> float:
        """Return the seconds since a folder was made or last requested; 0 if it does not exist."""
        try:
            return now_s - (self.folder / folder).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def remove(self, folder: str, older_than_s: float, now_s: float) -> None:
        """Remove a folder of a job, unless it was requested again in the last `older_than_s`.

        It is renamed first: if the server is killed during the removal, no job must use what is left of it;
        `sweep` removes that later.
        """
        gone = self.folder / f".gone-{folder}-{os.urandom(4).hex()}"
        with self._lock:
            if self.age_s(folder, now_s) <= older_than_s:
                return
            os.rename(self.folder / folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def sweep(self, now_s: float) -> None:
        """Remove folders that a killed server left half made or half removed, and uploads that expired."""
        for cache in (self.zips, self.markets):
            cache.tidy(now_s)
        for folder in self.folder.glob(".*-*") if self.folder.is_dir() else ():
            if folder.name.startswith(".gone-") or self.age_s(folder.name, now_s) > KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)

    def drop(self, key: str) -> None:
        shutil.rmtree(self._folder_of(key), ignore_errors=True)

    def _folder_of(self, key: str) -> Path:
        return self.folder / hashlib.sha256(key.encode()).hexdigest()[:24]


class UploadHistory:
    """Finds the folders that no job needs any more."""

    def __init__(self, store: Store, keep_days: float = KEPT_DAYS) -> None:
        self._store, self._keep_s = store, keep_days * 24 * 3600.0
        self._ended_s: dict[str, float] = {}
        """When jobs ended, in epoch seconds: a cache, for jobs whose folders are still there."""

    def unneeded(self, state: JournalState, folders: Iterable[str], now_s: float) -> dict[str, float]:
        """Return the folders that no job needs, each with the age in seconds at which it may be removed."""
        needed = {_folder(waiting.path) for waiting in state.requests.waiting.values()}
        needed |= {_folder(record.submitted.path) for record in state.active}
        jobs = {_folder(record.submitted.path): record.job for record in state.jobs.values()}
        found: dict[str, float] = {}
        for name in folders:
            if name not in needed and name not in jobs:
                found[name] = KEPT_S
            elif name not in needed and self._ended(jobs[name]) + self._keep_s < now_s:
                found[name] = -math.inf
        return found

    def _ended(self, job: str) -> float:
        """Return when a job ended, in epoch seconds; infinity if the journal does not say."""
        if job not in self._ended_s:
            records = self._store.read(job=job)
            ends = [record.time_utc for record in records if isinstance(record.event, Ended)]
            self._ended_s[job] = ends[-1].timestamp() if ends else math.inf
        return self._ended_s[job]


def _folder(path: str) -> str:
    """Return the name of an uploaded job's folder, from the path of its file; empty for any other job."""
    return Path(path).parent.name if came_over_network(path) else ""


def markets_of(runs: Path) -> UploadCache:
    """Return the cache of markets sent for plans and back-tests, in the folder of a journal's runs."""
    return UploadCache(
        folder=runs / UPLOADS / ".markets",
        what="markets",
        most_bytes=MARKET_BYTES,
        most_kept_bytes=16 * MARKET_BYTES,
        kept_s=MARKET_KEPT_S,
    )


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a zipped working folder; raises InputError for links, paths outside of it, or too much data."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_archive(archive)
            for entry in archive.infolist():
                _write(archive, entry, folder)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise InputError(f"a working folder must be an intact zip file, got: {error}") from error


def _check_archive(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_UNPACKED_BYTES:
        raise InputError(
            f"a working folder must have at most {MOST_FILES} files and {MOST_UNPACKED_BYTES >> 20} MB, "
            "got more"
        )
    for entry in entries:
        path, mode = PurePosixPath(entry.filename), entry.external_attr >> 16
        if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or stat.S_ISLNK(mode):
            raise InputError(
                f"a working folder must hold plain files below it, got {shown(entry.filename)}; leave it out"
            )


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    target = folder / entry.filename
    if entry.is_dir():
        make_private_folder(target)
        return
    make_private_folder(target.parent)
    with archive.open(entry) as source, open(target, "wb") as out:
        shutil.copyfileobj(io.BytesIO(source.read(entry.file_size + 1)[: entry.file_size]), out)
    target.chmod(0o600 | (entry.external_attr >> 16) & 0o100)


STALE_S = 600.0
"""A draft that has not grown for this long is abandoned: the server waits for a client a tenth as long."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DRAFT = ".draft-"


class _File(NamedTuple):
    at_s: float
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadCache:
    """A folder of uploads, named by their SHA-256, with limits on the size of each, on all, and on their age.

    If there is no room for another, the oldest file of the sender whose files take most space is removed.
    """

    folder: Path
    what: str  # the plural noun for messages
    most_bytes: int  # of one file
    most_kept_bytes: int  # of all files
    kept_s: float  # how long a file is kept after it was last requested
    _senders: dict[str, str] = field(default_factory=dict)
    """Who sent which file; unknown for files from before a restart."""
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held while a draft gets its room

    def has(self, digest: str) -> bool:
        """Whether there is a file with this digest; if so, it is kept for as long as a new one."""
        try:
            os.utime(self.path(digest))
        except FileNotFoundError:
            return False
        return True

    def path(self, digest: str) -> Path:
        """Return the path for this digest, whether or not it exists; raises InputError for other text."""
        if not _DIGEST.fullmatch(digest):
            raise InputError(f"an upload must be named by its SHA-256 in hex, got {shown(digest)}")
        return self.folder / digest

    def draft(self) -> Path:
        """Make the temporary file for an upload; raises BackendError if there is no room."""
        make_private_folder(self.folder)
        draft = self.folder / f"{_DRAFT}{os.urandom(8).hex()}"
        with self._lock:
            self.tidy()
            self._make_room()
            draft.touch(mode=0o600, exist_ok=False)
        return draft

    def keep(self, draft: Path, digest: str, said: str, sender: str = "") -> None:
        """Keep an upload that is complete; raises InputError if it was sent under another digest."""
        if digest != said:
            draft.unlink(missing_ok=True)
            raise InputError(f"an upload must have the SHA-256 that it is sent under, got {digest[:12]}...")
        os.replace(draft, self.path(digest))
        self._senders[digest] = sender

    def tidy(self, now_s: float | None = None) -> None:
        """Remove expired files and abandoned drafts."""
        now_s = time.time() if now_s is None else now_s
        for file in self._files():
            is_draft = file.name.startswith(_DRAFT)
            if file.at_s < now_s - (min(STALE_S, self.kept_s) if is_draft else self.kept_s):
                self._remove(file)

    def _make_room(self) -> None:
        """Remove files until there is room for another of the largest size."""
        files = self._files()
        coming = sum(file.name.startswith(_DRAFT) for file in files)
        kept = sorted(file for file in files if not file.name.startswith(_DRAFT))
        over = sum(file.size_bytes for file in kept) - self.most_kept_bytes + (coming + 1) * self.most_bytes
        while over > 0:
            if not kept:
                raise BackendError(
                    f"{self.what} that wait must have at most {self.most_kept_bytes >> 20} MB, got more that "
                    "come at the same time; send it again later"
                )
            gone = self._oldest_of_most(kept)
            kept.remove(gone)
            self._remove(gone)
            over -= gone.size_bytes

    def _oldest_of_most(self, kept: list[_File]) -> _File:
        held: Counter[str] = Counter()
        for file in kept:
            held[self._senders.get(file.name, "")] += file.size_bytes
        most = max(held, key=lambda sender: held[sender])
        return next(file for file in kept if self._senders.get(file.name, "") == most)

    def _files(self) -> list[_File]:
        found: list[_File] = []
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):  # another thread may remove it meanwhile
                about = path.stat()
                found.append(_File(about.st_mtime, path.name, about.st_size))
        return found

    def _remove(self, file: _File) -> None:
        (self.folder / file.name).unlink(missing_ok=True)
        self._senders.pop(file.name, None)
