"""The child process of `skypilot`: calls SkyPilot's server, whose library waits without a limit.

SkyPilot answers most calls with the id of a request, which its server carries out; `get` waits for what it
came to. Launches and ends are not waited for: requests of the past are listed by the server, so how they went
is known to any process.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from slacktide.providers.base import NoCapacity, Refused, Spent
from slacktide.providers.library_process import serve
from slacktide.providers.skypilot import PREFIX

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
    """Return the state of a machine, and why it ended where we had not requested that."""
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
    """Return the error that a launch came to; a launch that succeeded has been used up."""
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
    """Hand a launch to the server, unless there was one with this name; then say how it went."""
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


def answer(question: dict[str, Any]) -> Any:
    """Answer one question."""
    try:
        sky = importlib.import_module("sky")
    except ImportError as error:
        raise Refused(f"SkyPilot must be installed, got: {error}; pip install skypilot") from error
    try:
        return VERBS[question["verb"]](sky, question)
    except Exception as error:
        if any(kind.__name__ in WRONG for kind in type(error).__mro__):
            raise Refused(f"{type(error).__name__}: {error}") from error
        raise


if __name__ == "__main__":
    serve(answer)
