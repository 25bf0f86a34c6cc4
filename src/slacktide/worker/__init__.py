"""For training scripts: report progress, save whole checkpoints, and be notified of a stop.

    from slacktide import worker

    start = load(path) if (path := worker.saved("model.pt")) else 0
    for step in range(start, STEPS):
        train(step)
        if step % 100 == 99 or worker.stopping or step + 1 == STEPS:
            worker.save("model.pt", write_model, done=(step + 1) / STEPS)
        if worker.stopping:
            break

A script that can continue in another set of workers without a restart calls `ready` once, and `reform` when
`resizing` is true for any of its workers.

The same script also runs without Slacktide: as rank 0 of 1, without a folder for checkpoints, and its
progress reports are dropped. This module only imports the standard library. Callbacks for `transformers` and
Lightning, and functions for Accelerate, are in the other modules of this package.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

PATIENCE_SECONDS = 20.0
"""How long `reform` waits by default for a worker's new place."""
_POLL_SECONDS = 0.005


class Resizing:
    """True once this worker has a place in another set: finish the step, save, and call `reform`."""

    def __init__(self, stop_requested: Callable[[], bool]) -> None:
        self._stop_requested = stop_requested
        self._read: tuple[int, int] | None = None
        """The state of the last note that was read and named no newer attempt; it is not read again."""

    def __bool__(self) -> bool:
        return self._next_place() is not None

    def __repr__(self) -> str:
        return f"<re-forming requested: {bool(self)}>"

    def ready(self) -> bool:
        """Announce that this worker can re-form and is ready; if it returns False, exit: a stop came.

        Call it once, after imports and whatever else takes time. A worker that is added to others waits here:
        they work on until it is ready, and then all re-form together.
        """
        notes = os.environ.get("SLACKTIDE_NOTES")
        if notes is None:
            return True
        _write(Path(f"{notes}.able"), {"pid": os.getpid()})
        return "SLACKTIDE_ADDED" not in os.environ or self.reform(float("inf"))

    def reform(self, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """Wait for a place in a new set; if it returns False, exit: a stop came, or no place in time.

        If it returns True, `rank`, `world_size`, `attempt` and the variables MASTER_ADDR and MASTER_PORT are
        those of the new place, and what the worker prints goes to that place's log. Call it after a step that
        all workers agreed to be the last of this set, or when another worker is gone.
        """
        until_s = time.monotonic() + patience_seconds
        while not self._stop_requested() and self._is_able():
            place = self._next_place()
            if place is not None:
                self._take(place)
                return True
            if time.monotonic() >= until_s:
                break
            time.sleep(_POLL_SECONDS)
        return False

    def _is_able(self) -> bool:
        notes = os.environ.get("SLACKTIDE_NOTES")
        return notes is not None and os.path.exists(f"{notes}.able")

    def _next_place(self) -> dict[str, Any] | None:
        """Return the place that this worker received and has not taken."""
        notes = os.environ.get("SLACKTIDE_NOTES")
        if notes is None:
            return None
        try:
            state = os.stat(f"{notes}.place")
            if (state.st_ino, state.st_mtime_ns) == self._read:
                return None
            place: dict[str, Any] = json.loads(Path(f"{notes}.place").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        own_attempt = int(os.environ.get("SLACKTIDE_ATTEMPT") or 0)
        if place["attempt"] > own_attempt or "SLACKTIDE_ADDED" in os.environ:
            return place
        self._read = state.st_ino, state.st_mtime_ns
        return None

    def _take(self, place: dict[str, Any]) -> None:
        """Take this place: set its variables, print to its log, and note that it is taken."""
        notes = os.environ["SLACKTIDE_NOTES"]
        _print_to(f"{notes}.log", place["log"])
        os.environ.update(place["variables"])
        os.environ.pop("SLACKTIDE_ADDED", None)
        os.environ["SLACKTIDE_REFORMED"] = "1"
        _write(Path(f"{notes}.taken"), {"attempt": place["attempt"]})


def _print_to(first: str, log: str) -> None:
    """Print to another log from now on, unless the script has sent its output somewhere else."""
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError, ValueError):
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            for output in (1, 2):
                if os.path.samestat(os.fstat(output), os.stat(_print_to_now.get(output, first))):
                    os.dup2(handle, output)
                    _print_to_now[output] = log
        finally:
            os.close(handle)


_print_to_now: dict[int, str] = {}
"""The log to which each output goes, once that is not the first log."""


def _write(path: Path, content: dict[str, int]) -> None:
    """Write a note whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
    os.replace(draft, path)


REPORT_SECONDS = 0.2
"""Progress between checkpoints is written no more often than this, since no reader looks more often."""
_ALMOST = 1e-6
"""How far a share may lie outside of 0 to 1, as sums of floats do."""

rank: int
"""Which worker this is, from 0; only rank 0 reports progress."""
world_size: int
"""How many workers there are."""
attempt: int
"""The number of the set that this worker belongs to; 0 outside of Slacktide. Any change begins a new set."""
checkpoint_dir: Path | None
"""The folder for checkpoints, the same for all attempts; None outside of Slacktide."""
grace_seconds: float
"""How long a worker has from the request to stop until it is killed; infinite outside of Slacktide."""


def __getattr__(name: str) -> Any:
    """Read the variables at each access: some launchers set them after the imports."""
    if name in _READERS:
        return _READERS[name]()
    raise AttributeError(f"module 'slacktide.worker' has no attribute {name!r}")


class StopFlag:
    """True once this process received SIGTERM, the request to stop: save, and exit.

    A script that never looks at it is ended by the signal at once; from the first look on, the signal only
    makes it true. That look has to be in the main thread. A handler that was there before is still called.
    """

    def __init__(self) -> None:
        self._requested = False
        self._process = 0
        self._before: Any = None

    def __bool__(self) -> bool:
        self.heed()
        return self._requested

    def __repr__(self) -> str:
        return f"<stop requested: {self._requested}>"

    def heed(self) -> None:
        """Let SIGTERM only set this flag from now on; raises RuntimeError outside of the main thread."""
        if self._process == os.getpid():
            return
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "worker.stopping must be looked at in the main thread first, got another thread; "
                "call worker.stopping.heed() at the start of the script"
            )
        before = signal.signal(signal.SIGTERM, self._note)
        if before != self._note:  # in a forked process it is ours already
            self._before = before
        self._process = os.getpid()

    def heed_alone(self) -> None:
        """Take SIGTERM back from a library that has set its own handler since; that is no longer called."""
        self.heed()
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._requested = True
        if callable(self._before):
            self._before(number, frame)


stopping = StopFlag()
resizing = Resizing(lambda: bool(stopping))
ready, reform = resizing.ready, resizing.reform


def outlive_stop(*_: object) -> None:
    """Keep the stop signal from a helper process, so that its parent can save first and then end it.

    A stop is signaled to all processes of a worker, and PyTorch takes a data loader that it ends for a crash.
    So write `DataLoader(..., worker_init_fn=worker.outlive_stop)` if the loader has workers of its own.
    """
    os.setpgid(0, 0)


class _Reports:
    """What this process last reported of its progress."""

    def __init__(self) -> None:
        self.checkpointed: float | None = None
        self.next_s = -math.inf

    def write(self, done: float, checkpointed: float | None, metrics: Mapping[str, float]) -> None:
        """Append a line in one write, so that a kill does not leave half of it."""
        path = os.environ.get("SLACKTIDE_PROGRESS")
        if path is None or _rank() != 0:
            return
        line: dict[str, Any] = {"done": done}
        if checkpointed is not None:
            line["checkpointed"] = min(checkpointed, done)
        if metrics:
            line["metrics"] = {name: float(value) for name, value in metrics.items()}
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)


_reports = _Reports()
_writing = threading.Lock()


def progress(done: float, /, *, checkpointed: float | None = None, **metrics: float) -> None:
    """Report which share of the work is done, from 0 to 1; does nothing at ranks other than 0.

    `checkpointed` is the share that is safe in a checkpoint. If left out, it is the last one that was given,
    here or to `save`; if none ever was, all that is done counts as safe. Metrics such as `loss=1.9` are
    shown. It may be called at every step: a few lines a second are written, and always those with
    `checkpointed` and the last one (1). Raises ValueError for a number that is not a share.
    """
    share = _share("done", done)
    if checkpointed is not None:
        _reports.checkpointed = _share("checkpointed", checkpointed)
    elif share < 1.0 and time.monotonic() < _reports.next_s:
        return
    _reports.next_s = time.monotonic() + REPORT_SECONDS
    _reports.write(share, _reports.checkpointed, metrics)


def saved(name: str | os.PathLike[str]) -> Path | None:
    """Return the path of the checkpoint of this name; None if there is none."""
    path = _target(name)
    return path if path.exists() else None


def save(
    name: str | os.PathLike[str],
    content: bytes | Callable[[Path], object],
    /,
    *,
    done: float | None = None,
    **metrics: float,
) -> Path:
    """Write a checkpoint whole or not at all, then report that the share `done` is safe; return its path.

    `content` is bytes, or a function that writes a file or a new folder at the path it is given. A relative
    name is taken in `checkpoint_dir`, outside of Slacktide in the current folder. Once this returns, the
    checkpoint survives a loss of power; if the process is killed before, the previous checkpoint stays. Every
    rank that calls this writes, so give each rank another name, or let only rank 0 save.
    """
    share = None if done is None else _share("done", done)
    began_s, target = time.monotonic(), _target(name)
    with _writing:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = _draft(target)
        try:
            if callable(content):
                content(draft)
            else:
                draft.write_bytes(content)
            settle(draft, target)
        finally:
            remove(draft)
    if share is not None:
        took_s = time.monotonic() - began_s
        progress(share, checkpointed=share, checkpoint_seconds=took_s, **metrics)
    return target


def settle(draft: Path, target: Path) -> None:
    """Rename a finished draft to its target, so that it survives a loss of power; raises OSError."""
    if not draft.exists():
        raise FileNotFoundError(
            f"the function given to worker.save must write to the path it is given, found nothing at {draft}"
        )
    if draft.is_dir() and target.exists():
        raise FileExistsError(
            f"a folder can only be saved under a new name, found {target}; put the step into the name"
        )
    keep(draft)
    os.replace(draft, target)
    _sync(target.parent)


def keep(path: Path) -> None:
    """Flush a file, or a folder with its content, to disk, to survive a loss of power; raises OSError."""
    for part in (*path.rglob("*"), path):
        _sync(part)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _draft(target: Path) -> Path:
    """Return the path to write to first, and remove drafts that killed writers of this rank left.

    The suffix stays the same, because some libraries add theirs if it is missing.
    """
    mark = f".rank-{_rank()}.draft"
    if "SLACKTIDE_REFORMED" in os.environ:  # the worker that had this rank before may still be writing
        mark = f".rank-{_rank()}.of-{_attempt()}.draft"
    for left in target.parent.glob(f".*.rank-{_rank()}.*draft*"):
        if mark in left.name or _left_before(left.name):
            remove(left)
    return target.parent / f".{target.stem}{mark}{target.suffix}"


def _left_before(draft: str) -> bool:
    """Say whether a draft's writer has surely gone: those of older attempts have, unless we re-formed."""
    attempt = draft.partition(".of-")[2].partition(".")[0]
    return "SLACKTIDE_REFORMED" not in os.environ and attempt.isdecimal() and int(attempt) < _attempt()


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _target(name: str | os.PathLike[str]) -> Path:
    return (_checkpoint_dir() or Path()) / name


def _share(what: str, value: float) -> float:
    number = float(value)
    if not -_ALMOST <= number <= 1.0 + _ALMOST:
        raise ValueError(f"{what} must be a share from 0 to 1, got {value}; divide by the number of steps")
    return min(1.0, max(0.0, number))


def _whole(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if text and not text.isdecimal():
        raise ValueError(f"the variable {variable} must be a whole number, got {text!r}")
    return int(text) if text else default


def _rank() -> int:
    return _whole("RANK", 0)


def _attempt() -> int:
    return _whole("SLACKTIDE_ATTEMPT", 0)


def _checkpoint_dir() -> Path | None:
    text = os.environ.get("SLACKTIDE_CHECKPOINT_DIR")
    return Path(text).absolute() if text else None


_READERS: dict[str, Callable[[], object]] = {
    "rank": _rank,
    "world_size": lambda: _whole("WORLD_SIZE", 1),
    "attempt": _attempt,
    "checkpoint_dir": _checkpoint_dir,
    "grace_seconds": lambda: float(os.environ.get("SLACKTIDE_GRACE_SECONDS") or math.inf),
}
