"""What EC2 answers, as a provider says it: instances as machines, and errors as what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import (
    INTERRUPTED,
    Machine,
    MachineState,
    NoCapacity,
    Refused,
    Spent,
    Unreachable,
)

OWNER_TAG, TICKET_TAG, GPUS_TAG = "slacktide:owner", "slacktide:ticket", "slacktide:gpus"
CAPACITY_CODES = {
    "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity",
    "InsufficientCapacity", "UnfulfillableCapacity", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded",
    "InstanceLimitExceeded", "VcpuLimitExceeded",
}  # fmt: skip
"""Answers that mean: not now, and not with this question."""
SPENT_CODES = {"IdempotentInstanceTerminated", "IdempotentParameterMismatch"}
"""The token was used: for an instance that has gone, or with other settings, whose instance is listed."""
PASSING_CODES = {
    "RequestLimitExceeded", "Throttling", "ThrottlingException", "RequestThrottled", "InternalError",
    "InternalFailure", "InternalServerError", "ServiceUnavailable", "Unavailable", "RequestTimeout",
    "PriorRequestNotComplete",
}  # fmt: skip
GONE_CODES = {"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"}
STATES: dict[str, MachineState] = {
    "pending": "starting", "running": "up", "shutting-down": "ending", "stopping": "ending",
    "stopped": "ending", "terminated": "gone",
}  # fmt: skip
"""A stopped instance has to be terminated, for its disks are paid for: it is listed as ending until it is."""
ENDED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")
REASONS = {
    "Server.SpotInstanceTermination": INTERRUPTED,
    "Server.SpotInstanceShutdown": INTERRUPTED,
    "Server.InsufficientInstanceCapacity": "no capacity",
    "Client.InstanceInitiatedShutdown": "it ended itself",
    "Client.UserInitiatedShutdown": "",
}


def machine_of(instance: Mapping[str, Any]) -> tuple[str, Machine]:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    # EC2 leaves the field out for instances on demand.
    kind: Capacity = "spot" if instance.get("InstanceLifecycle") == "spot" else "on-demand"
    pool = f"{instance.get('Placement', {}).get('AvailabilityZone', '')}/{instance['InstanceType']}"
    gpus, reason = tags.get(GPUS_TAG, ""), str(instance.get("StateReason", {}).get("Code", ""))
    state = STATES.get(instance["State"]["Name"], "ending")
    return tags.get(OWNER_TAG, ""), Machine(
        instance["InstanceId"],
        tags.get(TICKET_TAG, ""),
        MachineKind(kind, pool, int(gpus) if gpus.isdecimal() else 0),
        state,
        instance.get("PrivateIpAddress") or "",
        why=REASONS.get(reason, reason) if state not in ("starting", "up") else "",
        since_utc=instance.get("LaunchTime"),
        until_utc=_until(instance) if state == "gone" else None,
    )


def _until(instance: Mapping[str, Any]) -> datetime | None:
    """Return when an instance ended, which EC2 says in a sentence."""
    found = ENDED.search(str(instance.get("StateTransitionReason", "")))
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if found else None


def terminate(client: Any, ids: Sequence[str]) -> None:
    """Terminate instances; one that EC2 does not know must not save the others."""
    from botocore.exceptions import ClientError

    try:
        client.terminate_instances(InstanceIds=list(ids))
    except ClientError as error:
        if error.response["Error"]["Code"] not in GONE_CODES:
            raise
        for one in ids if len(ids) > 1 else ():
            terminate(client, [one])


@contextmanager
def answers() -> Iterator[None]:
    """Make what AWS says into what a provider may say."""
    try:
        import boto3  # noqa: F401
        from botocore import exceptions
    except ImportError as error:
        raise Refused("the provider ec2 must have boto3, got none; install slacktide[aws]") from error
    try:
        yield
    except exceptions.ClientError as error:
        raise _meant(error.response) from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise Refused(f"AWS credentials must be given, got none: {error}") from error
    except (exceptions.ParamValidationError, exceptions.InvalidRegionError) as error:
        raise Refused(str(error)) from error
    except exceptions.BotoCoreError as error:
        raise Unreachable(str(error)) from error


def _meant(response: Mapping[str, Any]) -> Exception:
    """Return what an error of EC2 means."""
    code = str(response.get("Error", {}).get("Code", ""))
    said = f"{code}: {response.get('Error', {}).get('Message', '')}".strip(": ")
    kinds: list[tuple[set[str], Callable[[str], Exception]]] = [
        (CAPACITY_CODES, NoCapacity),
        (SPENT_CODES, Spent),
        (PASSING_CODES, Unreachable),
    ]
    for codes, kind in kinds:
        if code in codes:
            return kind(said)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return Unreachable(said) if status >= 500 else Refused(said)
