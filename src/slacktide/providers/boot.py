"""What an EC2 instance does by itself: join a cluster, end when not needed, know when it will be taken."""

from __future__ import annotations

import json
import math
import shlex
import urllib.request
from datetime import UTC, datetime

from slacktide.core.errors import InputError
from slacktide.core.units import parse_duration_hours
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Renter

METADATA = "http://169.254.169.254"
TIMEOUT_S = 2.0
TOKEN_S = 60
LONGEST_USER_DATA = 16_000  # EC2 takes 16 KB

SCRIPT = """\
#!/bin/bash
# Joins the cluster. When that ends, for whatever reason, so does the machine; at the latest after its life.
shutdown -P +{minutes}
trap 'shutdown -P now' EXIT
set -e
{prepare}
{join}
"""
RAY = (
    "ray start --address={head} --num-gpus={gpus} "
    "--labels=market={kind},pool={pool},slacktide-ticket={ticket} --block"
)
WAIT = "sleep infinity"


def user_data(
    ticket: str, spec: MachineKind, renter: Renter, prepare: str, join: str, longest_life: str
) -> str:
    """Return the script that an instance runs once it is up; the same for the same ticket."""
    minutes = max(1, math.ceil(parse_duration_hours(longest_life) * 60.0))
    text = SCRIPT.format(
        minutes=minutes, prepare=prepare.strip(), join=join_command(ticket, spec, renter, join)
    )
    if len(text.encode()) > LONGEST_USER_DATA:
        raise InputError("prepare and join must fit into 16 KB, got more; fetch the rest from a bucket")
    return text


def join_command(ticket: str, spec: MachineKind, renter: Renter, join: str) -> str:
    """Return the command that runs as long as the machine is useful; its values are quoted for the shell."""
    command = join.strip() or (RAY if renter.head else WAIT)
    values = {
        "head": shlex.quote(renter.head), "gpus": str(spec.gpus), "kind": spec.kind,
        "pool": shlex.quote(spec.pool.replace("/", ".")), "ticket": shlex.quote(ticket),
    }  # fmt: skip
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", value)
    return command


def notice_s(metadata: str = METADATA) -> float | None:
    """Return how many seconds this machine has left, by its own metadata service; None: no warning came.

    Works only on the machine itself. A service that does not answer says nothing.
    """
    try:
        token = _fetched(
            f"{metadata}/latest/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
        )
        action = _fetched(
            f"{metadata}/latest/meta-data/spot/instance-action", "GET", {"X-aws-ec2-metadata-token": token}
        )
        at = datetime.fromisoformat(json.loads(action)["time"])
    except (OSError, ValueError, KeyError, TypeError):  # 404 while nothing is planned
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _fetched(url: str, method: str, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        text: str = answer.read(10_000).decode()
    return text
