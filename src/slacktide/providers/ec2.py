"""Machines of Amazon EC2: one instance for each ticket, tagged with its owner's id, that ends by itself.

A pool is `zone/instance type`, such as `us-east-1a/p4d.24xlarge`. An instance is requested with a client
token made from owner and ticket, so a repeated request gives no second one. It joins the cluster by itself
and is terminated, not stopped, when it shuts down: when what it joined is gone, or after its longest life.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slacktide.core.errors import InputError, shown
from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import MachineKind
from slacktide.market.live.ec2_api import ec2_client, ec2_errors
from slacktide.providers.base import (
    INTERRUPTED,
    ListsAllOwners,
    Machine,
    MachineState,
    NoCapacity,
    Refused,
    Renter,
    Spent,
    Unreachable,
    providers,
)
from slacktide.providers.boot import user_data

OWNER_TAG, TICKET_TAG, GPUS_TAG = "slacktide:owner", "slacktide:ticket", "slacktide:gpus"
CAPACITY_CODES = {
    "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity",
    "InsufficientCapacity", "UnfulfillableCapacity", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded",
    "InstanceLimitExceeded", "VcpuLimitExceeded",
}  # fmt: skip
"""Errors that mean: not available now, and this ticket will not get one."""
SPENT_CODES = {"IdempotentInstanceTerminated", "IdempotentParameterMismatch"}
"""The token was used: for an instance that has gone, or with other settings, whose instance is listed."""
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
    """Return when an instance ended, which EC2 reports inside a sentence; None if it does not."""
    found = ENDED.search(str(instance.get("StateTransitionReason", "")))
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if found else None


def terminate(client: Any, ids: Sequence[str]) -> None:
    """Terminate instances; one that EC2 does not know must not keep the others running."""
    from botocore.exceptions import ClientError

    try:
        client.terminate_instances(InstanceIds=list(ids))
    except ClientError as error:
        if error.response["Error"]["Code"] not in GONE_CODES:
            raise
        for one in ids if len(ids) > 1 else ():
            terminate(client, [one])


def answers() -> AbstractContextManager[None]:
    """Turn errors of AWS into those of a provider."""
    return ec2_errors("EC2", Refused, Unreachable, _special)


def _special(code: str, message: str) -> Exception | None:
    if code in CAPACITY_CODES:
        return NoCapacity(message)
    return Spent(message) if code in SPENT_CODES else None


CONNECT_S, READ_S = 3, 10
"""A call returns within seconds; a request without an answer is repeated at the next step."""


@providers.register
@dataclass(slots=True)
class Ec2(ListsAllOwners):
    """Rents instances of Amazon EC2, spot and on demand; needs `slacktide[aws]` and AWS credentials."""

    region: str  # one region, or several with commas between them
    image: str
    """The AMI, with GPU drivers and what `prepare` does not install; `region=AMI, region=AMI` for several."""
    renter: Renter = field(default_factory=Renter)
    prepare: str = ""  # shell lines that run as root before the machine joins
    join: str = ""  # a command that joins and stays as long as the machine is of use; empty: Ray's
    longest_life: str = "48h"  # after this an instance ends itself, whatever happens
    subnet: str = ""  # empty: the zone's default one; `zone=subnet, zone=subnet` for several
    security_groups: str = ""  # with commas between them; empty: the default one
    key: str = ""  # the name of a key pair, to look at a machine over SSH
    instance_profile: str = ""
    """The name of an IAM instance profile, by which the machine reaches buckets and the like."""
    disk_gb: int = 0  # the size of the first disk; 0: as the image says
    endpoint: str = ""  # where the service is; empty: at Amazon
    _clients: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self._regions or not self.image:
            raise InputError("region and image must be given, got an empty one", field="region")
        if self.disk_gb < 0:
            raise InputError(f"disk_gb must be >= 0, got {self.disk_gb}", field="disk_gb")
        self._user_data("t", MachineKind("spot", "z/t", 1))

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Run one instance; the same ticket gives the same one."""
        with answers():
            self._client(self._region_of(spec)).run_instances(**self._request(ticket, spec))

    def end(self, ids: Sequence[str]) -> None:
        """Terminate instances in whichever region they are."""
        with answers():
            for region, mine in self._by_region(ids).items():
                terminate(self._client(region), mine)

    def machines(self) -> Sequence[Machine]:
        """List the instances that carry this owner's tag."""
        found = self._instances({"Name": f"tag:{OWNER_TAG}", "Values": [self.renter.owner]})
        return [machine for owner, machine in found if owner == self.renter.owner]

    def _machines(self) -> Iterator[tuple[str, Machine]]:
        return self._instances({"Name": "tag-key", "Values": [OWNER_TAG]})

    @property
    def _regions(self) -> list[str]:
        return [name.strip() for name in self.region.split(",") if name.strip()]

    def _region_of(self, spec: MachineKind) -> str:
        zone = _parts(spec.pool)[0]
        fitting = [name for name in self._regions if zone.startswith(name)]
        if not fitting:
            raise Refused(f"the zone of pool {shown(spec.pool)} must be in a region of {shown(self.region)}")
        return max(fitting, key=len)

    def _client(self, region: str) -> Any:
        if region not in self._clients:
            self._clients[region] = ec2_client(region, self.endpoint, CONNECT_S, READ_S)
        return self._clients[region]

    def _request(self, ticket: str, spec: MachineKind) -> dict[str, Any]:
        """Return the parameters of the request: the same for the same ticket, as its token demands."""
        zone, instance_type = _parts(spec.pool)
        tags = {
            OWNER_TAG: self.renter.owner,
            TICKET_TAG: ticket,
            GPUS_TAG: str(spec.gpus),
            "Name": "slacktide",
        }
        written = [{"Key": key, "Value": value} for key, value in tags.items()]
        return {
            "ImageId": _named(self.image, self._region_of(spec)),
            "InstanceType": instance_type,
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": hashlib.sha256(f"{self.renter.owner}/{ticket}".encode()).hexdigest(),
            "Placement": {"AvailabilityZone": zone},
            "UserData": self._user_data(ticket, spec),
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
            "TagSpecifications": [{"ResourceType": one, "Tags": written} for one in ("instance", "volume")],
            **(SPOT if spec.kind == "spot" else {}),
            **self._optional(zone),
        }

    def _user_data(self, ticket: str, spec: MachineKind) -> str:
        return user_data(ticket, spec, self.renter, self.prepare, self.join, self.longest_life)

    def _optional(self, zone: str) -> dict[str, Any]:
        groups = [name.strip() for name in self.security_groups.split(",") if name.strip()]
        disk = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": self.disk_gb, "DeleteOnTermination": True}}
        given = {
            "SubnetId": _named(self.subnet, zone),
            "SecurityGroupIds": groups,
            "KeyName": self.key,
            "IamInstanceProfile": {"Name": self.instance_profile} if self.instance_profile else None,
            "BlockDeviceMappings": [disk] if self.disk_gb else None,
        }
        return {name: value for name, value in given.items() if value}

    def _instances(self, wanted: dict[str, Any]) -> Iterator[tuple[str, Machine]]:
        for region in self._regions:
            with answers():
                found = self._described(region, wanted)
            yield from map(machine_of, found)

    def _described(self, region: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        pages = self._client(region).get_paginator("describe_instances").paginate(Filters=[wanted])
        return [one for page in pages for group in page["Reservations"] for one in group["Instances"]]

    def _by_region(self, ids: Sequence[str]) -> dict[str, list[str]]:
        if len(self._regions) == 1:
            return {self._regions[0]: list(ids)} if ids else {}
        # As a filter: an id in the request itself that a region does not know fails the request for all ids.
        wanted = {"Name": "instance-id", "Values": list(ids)}
        found = {name: [one["InstanceId"] for one in self._described(name, wanted)] for name in self._regions}
        return {region: mine for region, mine in found.items() if mine}


SPOT = {
    "InstanceMarketOptions": {
        "MarketType": "spot",
        "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
    }
}


def _named(written: str, place: str) -> str:
    """Return the part of `a=x, b=y` that is meant for a place, or all of a text without such parts."""
    if "=" not in written:
        return written.strip()
    parts = dict(part.strip().split("=", 1) for part in written.split(",") if "=" in part)
    if place not in parts:
        raise Refused(f"there must be a part for {place}, got {shown(written)}")
    return parts[place]


def _parts(pool: str) -> tuple[str, str]:
    zone, _, instance_type = pool.partition("/")
    if not zone or not instance_type:
        raise Refused(f"a pool of ec2 must be zone/instance type, got {shown(pool)}")
    return zone, instance_type
