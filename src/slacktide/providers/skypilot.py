"""Machines through SkyPilot: one cluster of one node for each ticket, on any cloud that SkyPilot can use.

A pool is `infra/accelerator`, such as `aws/us-east-1/A100`, or `H100` for any cloud. The cluster's name has
its owner, its ticket and its kind of machine, so a repeated request gives the same cluster, and nothing has
to be kept here. A launch takes minutes: renting hands it to SkyPilot's server and returns, and if it fails,
the list says why. Tried on a stand-in with SkyPilot 0.14's signatures; it was never run on a real cloud.

SkyPilot's library waits without a limit, so a child process calls it. It answers most calls with the id of a
request, which its server carries out; `get` waits for its result. Launches and ends are not waited for: the
server lists past requests, so any process can see how they went.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from slacktide.core.errors import InputError, shown
from slacktide.core.units import parse_duration_hours
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import ListsAllOwners, Machine, NoCapacity, Refused, Renter, Spent, providers
from slacktide.providers.boot import join_command
from slacktide.providers.library_process import LibraryProcess, serve

PREFIX = "slacktide"


class Parts(NamedTuple):
    """The parts of a cluster's name."""

    owner: str
    ticket: str
    spec: MachineKind


def cluster_name(owner: str, ticket: str, spec: MachineKind) -> str:
    """Return the name of a ticket's cluster: its parts, with dots between them."""
    return ".".join([PREFIX, *map(_written, (owner, ticket, spec.pool, spec.kind, str(spec.gpus)))])


def parts_of(name: str) -> Parts | None:
    """Read the name of a cluster; None if it is not one of ours."""
    first, *rest = name.split(".")
    if first != PREFIX or len(rest) != 5 or not rest[-1].isdecimal():
        return None
    owner, ticket, pool, kind = map(_read, rest[:4])
    return Parts(owner, ticket, MachineKind("spot" if kind == "spot" else "on-demand", pool, int(rest[-1])))


def _written(text: str) -> str:
    """Return a text in which everything but letters, digits and dashes is written as `_` and its bytes."""
    return re.sub(r"[^a-zA-Z0-9-]", lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), text)


def _read(text: str) -> str:
    return re.sub(
        r"(?:_[0-9a-f]{2})+",
        lambda found: bytes.fromhex(found[0].replace("_", "")).decode("utf-8", "replace"),
        text,
    )


MODULE = "slacktide.providers.skypilot"  # which is what the child runs, too
ANSWER_S = 45.0  # how long a request may take; the first one may start SkyPilot's own server


@providers.register
@dataclass(slots=True)
class Skypilot(ListsAllOwners):
    """Rents through SkyPilot, one cluster a machine; needs `skypilot` 0.14; never run on a real cloud."""

    renter: Renter = field(default_factory=Renter)
    prepare: str = ""  # shell lines that run before the machine joins
    join: str = ""  # a command that joins and stays as long as the machine is of use; empty: Ray's
    longest_life: str = "48h"  # after this the command that joined is ended, and with it the machine
    idle_minutes: int = 5
    """When the command that joined has ended, SkyPilot ends the machine after this many minutes."""
    answer_s: float = ANSWER_S  # how long a request may take before SkyPilot is said to be unreachable
    _child: LibraryProcess = field(default_factory=lambda: LibraryProcess(MODULE), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.idle_minutes < 1:
            raise InputError(f"idle_minutes must be >= 1, got {self.idle_minutes}", field="idle_minutes")
        parse_duration_hours(self.longest_life)

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Hand the launch of a cluster to SkyPilot; a repeated call raises its error if it failed."""
        infra, _, accelerator = spec.pool.rpartition("/")
        if not accelerator:
            raise Refused(f"a pool of skypilot must be infra/accelerator, got {shown(spec.pool)}")
        minutes = max(1, math.ceil(parse_duration_hours(self.longest_life) * 60.0))
        join = join_command(ticket, spec, self.renter, self.join)
        self._call(
            "rent",
            name=cluster_name(self.renter.owner, ticket, spec),
            infra=infra or None,
            accelerators={accelerator: spec.gpus},
            use_spot=spec.kind == "spot",
            labels={"slacktide-owner": self.renter.owner, "slacktide-ticket": ticket},
            setup=self.prepare.strip() or None,
            run=f"timeout {minutes}m {join}",
            idle_minutes=self.idle_minutes,
        )

    def end(self, ids: Sequence[str]) -> None:
        """Take clusters of this owner down; launches under way are cancelled."""
        mine = [name for name in ids if (parts := parts_of(name)) and parts.owner == self.renter.owner]
        if mine:
            self._call("end", names=mine)

    def _machines(self) -> Iterator[tuple[str, Machine]]:
        for one in self._call("list"):
            parts = parts_of(one["name"])
            if parts is not None:
                since = None if one["since_s"] is None else datetime.fromtimestamp(one["since_s"], UTC)
                yield parts.owner, Machine(
                    one["name"], parts.ticket, parts.spec, one["state"], one["address"], one["why"],
                    since_utc=since,
                )  # fmt: skip

    def _call(self, verb: str, **about: Any) -> Any:
        return self._child.call({"verb": verb, **about}, self.answer_s, "SkyPilot")


# ---------------------------------------------------------------- the child process

MOST_REQUESTS = 2000  # requests of the past that are looked at
UNDER_WAY = ("PENDING", "WAITING", "RUNNING")
LAUNCH, DOWN = "sky.launch", "sky.down"
FULL = ("ResourcesUnavailableError",)
WRONG = (
    "ApiServerAuthenticationError", "ClusterOwnerIdentityMismatchError", "InvalidClusterNameError",
    "InvalidCloudConfigs", "InvalidCloudCredentials", "InvalidSkyPilotConfigError", "NoCloudAccessError",
    "NoWorkspaceAccessError", "PermissionDeniedError", "UserRequestRejectedByPolicy",
)  # fmt: skip
"""Errors of SkyPilot for which trying again does not help."""


class Story(NamedTuple):
    """What is known of one cluster: its record if there is one, and its requests, the newest first."""

    name: str
    record: Any
    requests: list[Any]

    def newest(self, kind: str) -> Any:
        """Return the newest request of a kind."""
        return next((one for one in self.requests if one.name == kind), None)


def stories(sky: Any, name: str | None = None) -> Iterator[Story]:
    """Yield what is known of our clusters, or of one."""
    records = sky.get(sky.status(None if name is None else [name], all_users=False))
    past = sky.api_status(all_status=True, limit=MOST_REQUESTS, cluster_name=name)
    by_name = {one["name"]: one for one in records}
    requests: dict[str, list[Any]] = {}
    for one in sorted(past, key=lambda one: one.created_at, reverse=True):
        if one.name in (LAUNCH, DOWN) and one.cluster_name:
            requests.setdefault(one.cluster_name, []).append(one)
    for each in dict.fromkeys((*by_name, *requests)):
        if each.startswith(f"{PREFIX}.") and name in (None, each):
            yield Story(each, by_name.get(each), requests.get(each, []))


def state_of(sky: Any, story: Story) -> tuple[str, str]:
    """Return the state of a machine, and why it ended if we had not requested that."""
    launch, down = story.newest(LAUNCH), story.newest(DOWN)
    if story.record is None:
        if launch is not None and launch.status in UNDER_WAY:
            return "starting", ""
        return "gone", "" if launch is None else str(failure(sky, launch))
    if down is not None and down.status in UNDER_WAY:
        return "ending", ""
    status = story.record["status"].value
    if status == "UP":
        return "up", ""
    if status != "INIT":
        return "ending", f"SkyPilot says {status}"
    if launch is not None and launch.status in ("FAILED", "CANCELLED"):
        return "ending", str(failure(sky, launch))
    if _said(story.record, "init_kind") == "unhealthy":
        return "ending", _said(story.record, "init_status_reason") or "SkyPilot says that it is unhealthy"
    return "starting", ""


def failure(sky: Any, request: Any) -> NoCapacity | Refused | Spent:
    """Return the error of a launch that failed; one that succeeded is Spent, with an empty text."""
    if request.status == "CANCELLED":
        return Spent("the launch was cancelled")
    if request.status != "FAILED":
        return Spent("")
    try:
        sky.get(request.request_id)
    except Exception as error:  # what the launch came to
        names = [kind.__name__ for kind in type(error).__mro__]
        why = f"{names[0]}: {(str(error).strip() or 'no reason was given').splitlines()[0]}"
        wrong, full = any(name in WRONG for name in names), any(name in FULL for name in names)
        return Refused(why) if wrong else NoCapacity(why) if full else Spent(why)
    return Spent("the launch failed")


def rent(sky: Any, request: dict[str, Any]) -> None:
    """Hand a launch to the server, unless one with this name exists; raise the error of one that is over."""
    story = next(stories(sky, request["name"]), None)
    if story is not None:
        if state_of(sky, story)[0] != "gone":
            return
        launch = story.newest(LAUNCH)
        error = Spent("") if launch is None else failure(sky, launch)
        raise error if str(error) else Spent("the cluster of this ticket has come and gone")
    task = sky.Task(name=PREFIX, setup=request["setup"], run=request["run"])
    task.set_resources(
        sky.Resources(
            infra=request["infra"],
            accelerators=request["accelerators"],
            use_spot=request["use_spot"],
            labels=request["labels"],
        )
    )
    sky.launch(
        task, cluster_name=request["name"], idle_minutes_to_autostop=request["idle_minutes"], down=True
    )


def end(sky: Any, request: dict[str, Any]) -> None:
    """Cancel launches that are under way, and take clusters down."""
    for name in request["names"]:
        story = next(stories(sky, name), None)
        if story is None or state_of(sky, story)[0] == "gone":
            continue
        under_way = [one for one in story.requests if one.status in UNDER_WAY]
        launches = [one.request_id for one in under_way if one.name == LAUNCH]
        if launches:
            sky.get(sky.api_cancel(launches, silent=True))
        if not any(one.name == DOWN for one in under_way):
            sky.down(name)


def listed(sky: Any, _: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all clusters of ours, those included whose launch is under way or failed."""
    found = []
    for story in stories(sky):
        state, why = state_of(sky, story)
        since = None if story.record is None else story.record["launched_at"]
        address = str(getattr(_said(story.record, "handle"), "head_ip", None) or "")
        found.append({"name": story.name, "state": state, "why": why, "since_s": since, "address": address})
    return found


def _said(record: Any, key: str) -> Any:
    try:
        return record[key]
    except (KeyError, TypeError, AttributeError):
        return None


VERBS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {"rent": rent, "end": end, "list": listed}


def answer(request: dict[str, Any]) -> Any:
    """Answer one request."""
    try:
        sky = importlib.import_module("sky")
    except ImportError as error:
        raise Refused(f"SkyPilot must be installed, got: {error}; pip install skypilot") from error
    try:
        return VERBS[request["verb"]](sky, request)
    except Exception as error:
        if any(kind.__name__ in WRONG for kind in type(error).__mro__):
            raise Refused(f"{type(error).__name__}: {error}") from error
        raise


if __name__ == "__main__":
    serve(answer)
