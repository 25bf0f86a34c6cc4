"""Zones that a request names: which region each is in, and whether a place is meant by it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slacktide.core.errors import shown
from slacktide.market.live.base import FeedRefused

AWS_REGION = re.compile(r"[a-z]+(?:-[a-z]+)+-\d+")
"""How the zones of AWS begin: `us-east-1a`, and `us-west-2-lax-1a`."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def checked(zones: Sequence[str]) -> tuple[str, ...]:
    """Return the zones, each once; raises FeedRefused for what no cloud calls a zone."""
    for zone in zones:
        if not NAME.fullmatch(zone):
            raise FeedRefused(f"a zone must be letters, digits and dashes, got {shown(zone)}")
    return tuple(dict.fromkeys(zones))


def aws_region(zone: str) -> str:
    """Return the region of a zone of AWS; a region is its own."""
    found = AWS_REGION.match(zone)
    if found is None:
        raise FeedRefused(
            f"a zone of AWS must be like us-east-1a, or a region like us-east-1, got {shown(zone)}"
        )
    return found[0]


def gcp_region(zone: str) -> str:
    """Return the region of a zone of GCP: `us-central1` of `us-central1-a`."""
    return re.sub(r"-[a-z]$", "", zone)


def azure_region(zone: str) -> str:
    """Return the region of a zone of Azure: `eastus2` of `eastus2-1`."""
    return re.sub(r"-\d$", "", zone)


def meant(zones: Sequence[str], region: str, zone: str = "") -> bool:
    """Whether a place is among the requested ones, as a zone or by its region; all where none is."""
    return not zones or region in zones or (bool(zone) and zone in zones)
