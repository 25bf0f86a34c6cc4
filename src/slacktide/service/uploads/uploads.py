"""Files that come over the network: market files and working folders that wait, and a folder for each job.

A folder is kept while its job waits or runs, and for some days after its end: results may lie in it. A folder
for which no job ever came is kept for a day. All of it follows from the journal, so a server that was killed
in the middle finds the same again.
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
MOST_KEPT_BYTES = 20 * MOST_BYTES  # all working folders that wait for their submission
KEPT_S = 24 * 3600.0  # how long a working folder may wait for its submission
KEPT_DAYS = 7.0  # how long the files of a job are kept after its end
MARKET_BYTES = 32 << 20  # of a market that is sent for a plan or a back-test, packed: some millions of quotes
MARKET_KEPT_S = 3600.0
_FOLDER = re.compile(r"[0-9a-f]{24}")


class Uploads:
    """Keeps working folders that were sent, and makes a folder of its own for every job that comes."""

    def __init__(self, runs: Path, fleet: FleetText | None = None) -> None:
        """Name the folder of a journal's runs, made with the first upload, and the server's fleet."""
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
        """Held while a folder is taken for a job, or removed."""

    def is_same(self, request: SubmitRequest, text: str) -> bool:
        """Whether a text of the journal is that of a request, as it was sent or as it was accepted."""
        public = msgspec.structs.replace(request, text=without_secrets(request.text))
        with contextlib.suppress(SlacktideError):
            whole = (completed(public.text, public.job_class, fleet) for fleet in (None, self._fleet))
            return text in (public.text, *whole)
        return False

    def submission(self, request: SubmitRequest, key: str) -> Submission:
        """Put the files of a job in their place, and return the submission to request of the controller.

        The same key has the same folder. Raises InputError or InfeasibleError for a job that cannot be run,
        or that needs something of the server's.
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
            os.utime(folder)  # as new, so that `sweep` does not remove it as abandoned
            return
        draft = folder.with_name(f".{folder.name}-{os.urandom(4).hex()}")
        try:
            self._fill(draft, file, request, text)
            os.rename(draft, folder)
        except (OSError, FileError) as error:
            if not folder.is_dir():  # no other request made it at the same time
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
        """Return how long ago a folder was made or last requested; 0 for one that is gone."""
        try:
            return now_s - (self.folder / folder).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def remove(self, folder: str, older_than_s: float, now_s: float) -> None:
        """Remove a folder of a job, unless it was just requested again.

        It is renamed first: a folder that is half removed when the server is killed must not be used for a
        job, and `sweep` removes the rest.
        """
        gone = self.folder / f".gone-{folder}-{os.urandom(4).hex()}"
        with self._lock:
            if self.age_s(folder, now_s) <= older_than_s:
                return
            os.rename(self.folder / folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def sweep(self, now_s: float) -> None:
        """Remove folders that a killed server left half made or half removed, and zips that nothing used."""
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
    """Knows the job of every folder, and finds the folders that no job needs any more."""

    def __init__(self, store: Store, keep_days: float = KEPT_DAYS) -> None:
        self._store, self._keep_s = store, keep_days * 24 * 3600.0
        self._ended_s: dict[str, float] = {}
        """When jobs ended, of those whose folders are still there."""

    def unneeded(self, state: JournalState, folders: Iterable[str], now_s: float) -> dict[str, float]:
        """Return those of these folders that no job needs, each with the age in seconds that it must have."""
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
        """Return when a job ended, by the wall clock; infinity if the journal does not say."""
        if job not in self._ended_s:
            records = self._store.read(job=job)
            ends = [record.time_utc for record in records if isinstance(record.event, Ended)]
            self._ended_s[job] = ends[-1].timestamp() if ends else math.inf
        return self._ended_s[job]


def _folder(path: str) -> str:
    """Return the folder of a job that came over the network; empty for another job."""
    return Path(path).parent.name if came_over_network(path) else ""


def markets_of(runs: Path) -> UploadCache:
    """Return the cache of markets that were sent for plans and back-tests, below a journal's runs."""
    return UploadCache(
        folder=runs / UPLOADS / ".markets",
        what="markets",
        most_bytes=MARKET_BYTES,
        most_kept_bytes=16 * MARKET_BYTES,
        kept_s=MARKET_KEPT_S,
    )


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a zipped working folder; raises InputError for links, paths that lead out of it, or too much."""
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
"""A draft that has not grown for this long was abandoned; a server waits for a piece for a tenth of it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DRAFT = ".draft-"


class _File(NamedTuple):
    at_s: float
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadCache:
    """A folder of such files: each of a bounded size, all together, and for a bounded time.

    Where there is no room for another, the oldest file of the sender who holds most is removed.
    """

    folder: Path
    what: str  # what they are, in the plural
    most_bytes: int  # of one
    most_kept_bytes: int  # of all
    kept_s: float  # how long a file may wait since it was last requested
    _senders: dict[str, str] = field(default_factory=dict)
    """Who sent which file; the sender of one from before a restart is unknown."""
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held while room is made

    def has(self, digest: str) -> bool:
        """Whether a file of this digest is here; if so, it is kept for as long as a new one."""
        try:
            os.utime(self.path(digest))
        except FileNotFoundError:
            return False
        return True

    def path(self, digest: str) -> Path:
        """Return where a file of this digest is, or would be; raises InputError unless it is a digest."""
        if not _DIGEST.fullmatch(digest):
            raise InputError(f"an upload must be named by its SHA-256 in hex, got {shown(digest)}")
        return self.folder / digest

    def draft(self) -> Path:
        """Make the file that an upload is written to at first; raises BackendError where there is no room."""
        make_private_folder(self.folder)
        draft = self.folder / f"{_DRAFT}{os.urandom(8).hex()}"
        with self._lock:
            self.tidy()
            self._make_room()
            draft.touch(mode=0o600, exist_ok=False)
        return draft

    def keep(self, draft: Path, digest: str, said: str, sender: str = "") -> None:
        """Keep a file that has arrived completely; raises InputError where its content has another digest."""
        if digest != said:
            draft.unlink(missing_ok=True)
            raise InputError(f"an upload must have the SHA-256 that it is sent under, got {digest[:12]}...")
        os.replace(draft, self.path(digest))
        self._senders[digest] = sender

    def tidy(self, now_s: float | None = None) -> None:
        """Remove files that have waited for too long, and abandoned drafts."""
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
            with contextlib.suppress(FileNotFoundError):  # others come and go meanwhile
                about = path.stat()
                found.append(_File(about.st_mtime, path.name, about.st_size))
        return found

    def _remove(self, file: _File) -> None:
        (self.folder / file.name).unlink(missing_ok=True)
        self._senders.pop(file.name, None)
