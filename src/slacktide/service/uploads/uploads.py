"""Jobs that come over the network: their files, and what their job files must not make the server do.

The client resolves variables, secrets and files, and sends them. So a job file is checked before it enters
the journal: nothing in it may make the server read a file, a variable or a module of its own for others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
import shutil
import stat
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from slacktide.app.jobs.submission import FleetText, Submission, check_runnable
from slacktide.app.markets.market import MarketSpec
from slacktide.app.task_requests import SubmitRequest, parse_policy
from slacktide.backends.machines.launch_package import MOST_BYTES
from slacktide.core.errors import BackendError, FileError, InputError, SlacktideError, shown
from slacktide.core.files import make_private_folder, write_private
from slacktide.core.own_class import is_place
from slacktide.engine.job.launch_spec import UPLOADS
from slacktide.files.job import JobFile, JobText
from slacktide.files.rewrite import leaves_to_class, with_class, without_secrets
from slacktide.files.untrusted import named_in
from slacktide.journal.events import SubmissionAsked
from slacktide.service.uploads.upload_cache import UploadCache

SYNTHETIC = "synthetic"
MOST_UNPACKED_BYTES = 4 * MOST_BYTES
MOST_FILES = 20_000
MOST_KEPT_BYTES = 20 * MOST_BYTES
"""All working folders that wait for their submission."""
KEPT_S = 24 * 3600.0
"""How long a working folder may wait for its submission."""
MARKET_BYTES = 32 << 20
"""Of a market that is sent for a plan or a back-test, packed: some millions of quotes."""
MARKET_KEPT_S = 3600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
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
            whole = (_completed(public.text, public.job_class, fleet) for fleet in (None, self._fleet))
            return text in (public.text, *whole)
        return False

    def submission(self, request: SubmitRequest, key: str) -> Submission:
        """Put the files of a job in their place, and return the submission to request of the controller.

        The same key has the same folder. Raises InputError or InfeasibleError for a job that cannot be run,
        or that needs something of the server's.
        """
        file = checked(request, self._fleet)
        text = without_secrets(request.text) if file.secrets else request.text
        folder = self.folder / hashlib.sha256(key.encode()).hexdigest()[:24]
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
        return sorted(one.name for one in self.folder.iterdir() if _FOLDER.fullmatch(one.name))

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
        for one in self.folder.glob(".*-*") if self.folder.is_dir() else ():
            if one.name.startswith(".gone-") or self.age_s(one.name, now_s) > KEPT_S:
                shutil.rmtree(one, ignore_errors=True)

    def drop(self, key: str) -> None:
        """Remove the folder of a job that was not accepted."""
        shutil.rmtree(self.folder / hashlib.sha256(key.encode()).hexdigest()[:24], ignore_errors=True)


def is_alike(request: SubmitRequest, earlier: SubmissionAsked) -> bool:
    """Whether a request has the policy, pool, sight and class of an earlier one in the journal."""
    before = json.loads(earlier.policy) if earlier.policy else None
    now = parse_policy(request.policy), request.pool or "", request.sight, request.job_class
    return now == (before, earlier.pool, earlier.sight, earlier.job_class)


def markets_of(runs: Path) -> UploadCache:
    """Return the cache of markets that were sent for plans and back-tests, below a journal's runs."""
    return UploadCache(
        folder=runs / UPLOADS / ".markets",
        what="markets",
        most_bytes=MARKET_BYTES,
        most_kept_bytes=16 * MARKET_BYTES,
        kept_s=MARKET_KEPT_S,
    )


def _completed(text: str, job_class: str, fleet: FleetText | None) -> str:
    """Return a job file as the controller will read it: with its class, and the keys of that class."""
    text = with_class(text, job_class) if job_class else text
    return text if fleet is None else fleet.completed(text)


def checked(request: SubmitRequest, fleet: FleetText | None = None) -> JobFile:
    """Read another user's job file; raises InputError where it refers to something of the server's."""
    if not _NAME.fullmatch(request.name):
        raise InputError(
            "the name of a job file must be at most 63 letters, digits, dots and dashes, got "
            f"{shown(request.name)}"
        )
    file = read_sent(JobText(request.text, request.name), fleet, request.job_class)
    check_runnable(file)
    check_policy(request.policy)
    _check_workdir(file)
    for what, names, given in (
        ("variable", [name for name, value in file.envs.items() if value is None], request.envs),
        ("secret", [name for name, value in file.secrets.items() if value is None], request.secrets),
    ):
        for name in names:
            if name not in given:
                raise InputError(
                    f"{what} {name} must come with the job, got none: a server does not look for it"
                )
    return file


def read_sent(
    job: JobText, fleet: FleetText | None, job_class: str = "", *, market_sent: bool = False
) -> JobFile:
    """Read another user's job file, without loading code or opening a file that it names.

    Keys that it leaves to a class are those of the server's fleet. It may name a market that is a file only
    where that file was sent, too.
    """
    named = named_in(job)
    check_policy(named.code)
    # Most jobs leave nothing to a class, and are not parsed again: requests share the process of the engine.
    if job_class or (fleet is not None and leaves_to_class(job.keys)):
        job = JobText(_completed(job.text, job_class, fleet), job.path)
        named = named_in(job)
        check_policy(named.code)
    if named.csv:
        raise InputError(
            f"{job.path}: a job for a server must say its speedup itself, got a CSV file; write "
            "speedup: {table: {1: 1, 2: 1.9}}, or send it with the command line, which does so"
        )
    file = job.read()
    if not market_sent:
        check_market(file.market, job.path)
    return file


def check_market(named: str | None, place: str) -> None:
    """Raise InputError for a market that is a file: it would be read from the server's disk."""
    parts = [] if named is None else named.split(",")
    if any(part.strip().split(":")[0] != SYNTHETIC for part in parts):
        raise InputError(
            f"{place}: a job for a server must leave its market to the server, or name a synthetic one, "
            "got a file; remove 'market'"
        )


def check_policy(written: str | None) -> None:
    """Raise InputError for a policy whose code would be loaded into the server."""
    if any(is_place(word) for word in _words(parse_policy(written))):
        raise InputError(
            f"the policy of a job for a server must be a registered one, got {shown(written)}; "
            "`slacktide policies` lists them, and the operator may install more"
        )


def _words(tree: object) -> Iterator[object]:
    """Yield all names and values in a policy, however deep."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield name
            yield from _words(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _words(value)
    else:
        yield tree


def _check_workdir(file: JobFile) -> None:
    place = PurePosixPath(file.workdir or ".")
    if place.is_absolute() or ".." in place.parts:
        raise InputError(
            f"{file.path}: workdir must be below the job file's folder for a server, got {shown(str(place))}"
        )


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a zipped working folder; raises InputError for one with links, ways out or too much in it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_archive(archive)
            for entry in archive.infolist():
                _write(archive, entry, folder)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise InputError(f"a working folder must be an intact zip file, got: {error}") from error


def _check_archive(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    if len(entries) > MOST_FILES or sum(one.file_size for one in entries) > MOST_UNPACKED_BYTES:
        raise InputError(
            f"a working folder must have at most {MOST_FILES} files and {MOST_UNPACKED_BYTES >> 20} MB, "
            "got more"
        )
    for one in entries:
        path, mode = PurePosixPath(one.filename), one.external_attr >> 16
        if path.is_absolute() or ".." in path.parts or "\\" in one.filename or stat.S_ISLNK(mode):
            raise InputError(
                f"a working folder must hold plain files below it, got {shown(one.filename)}; leave it out"
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
