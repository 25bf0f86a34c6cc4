"""Read the bytes and JSON of market files, with one-sentence errors, and the notes of a table of prices."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from slacktide.core.errors import FileError
from slacktide.core.files import utf8_text, write_whole
from slacktide.market.formats.samples import ASSUMED_SPOT_GPUS, MAX_SPOT_GPUS

_GZIP_MAGIC = b"\x1f\x8b"

MAX_BYTES = 512 << 20
"""The most that is read of a market file, unpacked: about ten million rows. Ten megabytes of gzip can unpack
to ten gigabytes."""
_PIECE_BYTES = 1 << 20


def read_bytes(path: str | Path) -> bytes:
    """Return what a file holds, unpacked if it is gzip.

    Raises FileError when it is missing, a folder, unreadable, empty, broken gzip or larger than MAX_BYTES.
    """
    try:
        with Path(path).open("rb") as file:
            packed = _at_most(file, path)
    except FileNotFoundError:
        remedy = "check the path" if "," not in str(path) else "a live feed is one table with all pools"
        raise FileError(f"a market file must exist, found none; {remedy}", path=path) from None
    except IsADirectoryError:
        raise FileError("a market must be a file, got a folder; name a file in it", path=path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"a market file must be readable, got: {reason}", path=path) from error
    data = _unpacked(packed, path)
    if not data.strip():
        raise FileError("a market file must not be empty, got no data", path=path)
    return data


def packed(data: bytes, path: str | Path) -> bytes:
    """Return the data, as gzip if the file's name ends in `.gz`; the same data give the same bytes."""
    return gzip.compress(data, compresslevel=6, mtime=0) if Path(path).suffix == ".gz" else data


def _at_most(file: IO[bytes], path: str | Path, how: str = "") -> bytes:
    """Read a file piece by piece to its end; raises FileError as soon as it is too large."""
    data = bytearray()
    while piece := file.read(_PIECE_BYTES):
        data += piece
        if len(data) > MAX_BYTES:
            raise FileError(
                f"a market file must have at most {MAX_BYTES >> 20} MiB{how}, got more; use longer slots, or "
                "part of it",
                path=path,
            )
    return bytes(data)


def _unpacked(data: bytes, path: str | Path) -> bytes:
    if data[:2] == _GZIP_MAGIC:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                return _at_most(cast(IO[bytes], file), path, " uncompressed")
        except EOFError:
            raise FileError(
                "gzip must be complete, got a truncated file; download it again", path=path
            ) from None
        except (gzip.BadGzipFile, zlib.error):
            raise FileError("gzip must be intact, got a damaged file; download it again", path=path) from None
    if data and Path(path).suffix == ".gz":
        raise FileError("a .gz file must be gzip, got something else; rename it or compress it", path=path)
    return data


def json_object(data: bytes, path: str) -> dict[str, Any]:
    """Return the object a JSON file holds; raises FileError if it is broken or something else."""
    text = utf8_text(data, path)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise FileError(
            f"must be well-formed JSON, got: {error.msg}", path=path, line=error.lineno, column=error.colno
        ) from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise FileError(
            "must be JSON with sensible numbers, got one with thousands of digits", path=path
        ) from None
    except RecursionError:
        raise FileError("must be JSON nested a few levels deep, got too many", path=path) from None
    if not isinstance(document, dict):
        raise FileError(f"must be a JSON object, got {kind_of(document)}", path=path)
    return document


def kind_of(value: Any) -> str:
    """Name the JSON kind of a value, with an article."""
    kinds = {dict: "an object", list: "an array", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotes:
    """The notes that `market follow` keeps next to a table."""

    feed: str = ""  # the source that is followed, as `aws:p5.48xlarge`
    zones: tuple[str, ...] = ()
    slot_hours: float | None = None  # how far apart rows should be; None: as far as they are
    spot_gpus: int = ASSUMED_SPOT_GPUS  # spot GPUs that are assumed where nothing was seen of a pool
    notes: tuple[str, ...] = ()  # what the source does not report, and what is assumed instead
    trouble: str = ""  # what keeps the source from answering, in a sentence; empty when it answered last time
    answered_utc: str = ""  # when it last answered


NO_NOTES = TableNotes()  # for a table without notes
_MOST_NOTES_BYTES = 1 << 20


def notes_path(path: str | Path) -> Path:
    """Return where the notes of a table are."""
    return Path(f"{path}.notes.json")


def write_notes(path: str | Path, notes: TableNotes) -> None:
    """Write the notes of a table; raises FileError."""
    write_whole(notes_path(path), (json.dumps(asdict(notes), indent=1) + "\n").encode())


def read_notes(path: str | Path) -> TableNotes | None:
    """Return the notes of a table; None where it has none that can be read."""
    try:
        with notes_path(path).open("rb") as file:
            notes = msgspec.json.decode(file.read(_MOST_NOTES_BYTES), type=TableNotes)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    # A reader of prices must not fail because of notes, so impossible ones are ignored.
    possible = (notes.slot_hours or 0.0) > 0.0 and 0 <= notes.spot_gpus <= MAX_SPOT_GPUS
    return notes if possible else None
