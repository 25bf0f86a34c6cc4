"""GPUs of the machines of clouds whose price lists do not say how many a machine has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slacktide.core.errors import shown
from slacktide.market.live.base import FeedRefused


class MachineType(NamedTuple):
    """A kind of machine."""

    gpus: int
    gpu: str = ""


AZURE_MACHINES = {
    "Standard_NC6s_v3": MachineType(1, "V100"),
    "Standard_NC12s_v3": MachineType(2, "V100"),
    "Standard_NC24s_v3": MachineType(4, "V100"),
    "Standard_NC24rs_v3": MachineType(4, "V100"),
    "Standard_ND40rs_v2": MachineType(8, "V100-32GB"),
    "Standard_NC4as_T4_v3": MachineType(1, "T4"),
    "Standard_NC8as_T4_v3": MachineType(1, "T4"),
    "Standard_NC16as_T4_v3": MachineType(1, "T4"),
    "Standard_NC64as_T4_v3": MachineType(4, "T4"),
    "Standard_NV36ads_A10_v5": MachineType(1, "A10"),
    "Standard_NV72ads_A10_v5": MachineType(2, "A10"),
    "Standard_NC24ads_A100_v4": MachineType(1, "A100-80GB"),
    "Standard_NC48ads_A100_v4": MachineType(2, "A100-80GB"),
    "Standard_NC96ads_A100_v4": MachineType(4, "A100-80GB"),
    "Standard_ND96asr_v4": MachineType(8, "A100"),
    "Standard_ND96amsr_A100_v4": MachineType(8, "A100-80GB"),
    "Standard_NC40ads_H100_v5": MachineType(1, "H100-NVL"),
    "Standard_NC80adis_H100_v5": MachineType(2, "H100-NVL"),
    "Standard_ND96isr_H100_v5": MachineType(8, "H100"),
    "Standard_ND96isr_H200_v5": MachineType(8, "H200"),
}
"""Machines of Azure with whole GPUs, and what SkyPilot calls these."""


def machine_type(name: str, gpus: int, known: Mapping[str, MachineType]) -> MachineType:
    """Return a machine, with the GPUs that the caller gives; raises FeedRefused where they are not known."""
    if gpus < 0:
        raise FeedRefused(f"gpus must be >= 1, or 0 for what is known, got {gpus}")
    if gpus == 0 and name not in known:
        raise FeedRefused(
            f"the GPUs of a machine must be known, got {shown(name)}; give them, as in {name[:40]}?gpus=8"
        )
    found = known.get(name, MachineType(gpus))
    return found._replace(gpus=gpus or found.gpus)
