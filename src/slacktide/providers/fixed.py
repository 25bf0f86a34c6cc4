"""Machines that you already have, from a list in a file: renting one marks it as taken, ending it frees it.

Who has which is noted in a folder next to the list, in one file for each machine that is taken, which is
created whole or not at all. So several journals can share one list, and a crash leaves nothing half
taken.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from slacktide.core.errors import FileError, shown
from slacktide.core.files import make_durable
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, parse_tree, read_text, walk
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import (
    ListsAllOwners,
    Machine,
    NoCapacity,
    Refused,
    Renter,
    Unreachable,
    providers,
)

COLUMNS = ("address", "pool", "kind", "gpus")
KINDS = ("spot", "on-demand")


class MachineClaim(NamedTuple):
    """A note that says which owner and ticket have a machine."""

    address: str
    owner: str
    ticket: str
    pool: str
    kind: str
    gpus: int
    since_utc: str


@providers.register
@dataclass(slots=True)
class Fixed(ListsAllOwners):
    """Takes machines that you already have, from a list in a CSV or YAML file, and frees them again."""

    renter: Renter = field(default_factory=Renter)
    file: str = "machines.csv"  # has `address`, `pool`, `kind` (spot or on-demand) and `gpus` of each machine

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Take a free machine of this kind, unless this ticket has one."""
        with _disk():
            taken = list(self._taken())
            if any((claim.owner, claim.ticket) == (self.renter.owner, ticket) for claim in taken):
                return
            busy = {claim.address for claim in taken}
            free = [address for address, of in self._listed().items() if of == spec and address not in busy]
            # Another journal may take one of these meanwhile: only the note that could be made counts.
            if not any(self._take(address, ticket, spec) for address in free):
                raise NoCapacity(f"no machine of {self.file} is free in {spec.pool}")

    def end(self, ids: Sequence[str]) -> None:
        """Free machines of this owner."""
        with _disk():
            mine = {claim.address for claim in self._taken() if claim.owner == self.renter.owner}
            for address in mine.intersection(ids):
                self._note(address).unlink(missing_ok=True)

    def _machines(self) -> list[tuple[str, Machine]]:
        with _disk():
            listed = self._listed()
            return [(claim.owner, _machine(claim, listed, self.file)) for claim in self._taken()]

    @property
    def _path(self) -> str:
        return str(self.renter.settings_folder / self.file)

    @property
    def _folder(self) -> Path:
        return Path(f"{self._path}.taken")

    def _note(self, address: str) -> Path:
        return self._folder / f"{quote(address, safe='')}.json"

    def _taken(self) -> Iterator[MachineClaim]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                yield MachineClaim(**json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:
                continue  # freed while we looked
            except (ValueError, TypeError) as error:
                raise FileError(
                    "must be a note of who has a machine, got something else", path=path
                ) from error

    def _take(self, address: str, ticket: str, spec: MachineKind) -> bool:
        """Note who has a machine; False if another journal was faster."""
        now = datetime.now(UTC).isoformat()
        claim = MachineClaim(address, self.renter.owner, ticket, spec.pool, spec.kind, spec.gpus, now)
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._folder, encoding="utf-8") as file:
            file.write(json.dumps(claim._asdict()))
            file.flush()
            os.fsync(file.fileno())
            try:
                os.link(file.name, self._note(address))  # which, unlike a rename, replaces nothing
            except FileExistsError:
                return False
        make_durable(self._folder)
        return True

    def _listed(self) -> dict[str, MachineKind]:
        file = self._path
        rows = _yaml_rows(file) if file.endswith((".yaml", ".yml")) else _csv_rows(file)
        found: dict[str, MachineKind] = {}
        for line, row in rows:
            address, spec = _read(row, file, line)
            if address in found:
                message = f"a machine must be listed once, got {shown(address)} again"
                raise FileError(message, path=file, line=line)
            found[address] = spec
        return found


@contextmanager
def _disk() -> Iterator[None]:
    """Turn errors of the disk and the list into those of a provider."""
    try:
        yield
    except OSError as error:
        raise Unreachable(str(error)) from error
    except FileError as error:
        raise Refused(str(error)) from error


def _machine(claim: MachineClaim, listed: Mapping[str, MachineKind], file: str) -> Machine:
    spec = MachineKind("spot" if claim.kind == "spot" else "on-demand", claim.pool, claim.gpus)
    there = listed.get(claim.address) == spec
    return Machine(
        claim.address,
        claim.ticket,
        spec,
        "up" if there else "ending",
        claim.address,
        why="" if there else f"it is not in {file} any more",
        since_utc=datetime.fromisoformat(claim.since_utc),
    )


def _csv_rows(file: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
    for row in reader:
        yield reader.line_num, row


def _yaml_rows(file: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    mistakes = Mistakes(file)
    rows = parse_tree(read_text(file), mistakes)
    mistakes.check()
    if not isinstance(rows, Series):
        raise FileError("must be a list of machines, got something else", path=file, line=1)
    for row in rows.items:
        values = dict(walk(row)) if isinstance(row, Section) else {}
        yield row.place.line, {key: value.text for key, value in values.items() if isinstance(value, Scalar)}


def _read(row: Mapping[str, str], file: str, line: int) -> tuple[str, MachineKind]:
    address, pool, kind, gpus = ((row.get(name) or "").strip() for name in COLUMNS)
    for name, value in zip(COLUMNS, (address, pool, kind, gpus), strict=True):
        if not value:
            raise FileError(f"{name} must be given for every machine, got nothing", path=file, line=line)
    if kind not in KINDS:
        raise FileError(f"kind must be spot or on-demand, got {shown(kind)}", path=file, line=line)
    if not gpus.isdecimal() or int(gpus) < 1:
        raise FileError(f"gpus must be a whole number >= 1, got {shown(gpus)}", path=file, line=line)
    return address, MachineKind("spot" if kind == "spot" else "on-demand", pool, int(gpus))
