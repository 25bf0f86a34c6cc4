"""Which GPUs machines have, and the on-demand and spot prices assumed where a file gives none."""

from __future__ import annotations

import re
from typing import NamedTuple

from slacktide.core.errors import InputError, shown


class MachineType(NamedTuple):
    """A machine type: how many GPUs it has and what it costs on demand, per machine and hour."""

    gpus: int
    on_demand_usd_per_hour: float

    @property
    def on_demand_usd_per_gpu_hour(self) -> float:
        """What one of its GPUs costs."""
        return self.on_demand_usd_per_hour / self.gpus


AWS_INSTANCES = {
    "p2.xlarge": MachineType(1, 0.90),
    "p2.8xlarge": MachineType(8, 7.20),
    "p2.16xlarge": MachineType(16, 14.40),
    "p3.2xlarge": MachineType(1, 3.06),
    "p3.8xlarge": MachineType(4, 12.24),
    "p3.16xlarge": MachineType(8, 24.48),
    "p3dn.24xlarge": MachineType(8, 31.212),
    "p4d.24xlarge": MachineType(8, 32.7726),
    "p4de.24xlarge": MachineType(8, 40.96575),
    "p5.48xlarge": MachineType(8, 98.32),
    "g4dn.xlarge": MachineType(1, 0.526),
    "g4dn.2xlarge": MachineType(1, 0.752),
    "g4dn.4xlarge": MachineType(1, 1.204),
    "g4dn.8xlarge": MachineType(1, 2.176),
    "g4dn.12xlarge": MachineType(4, 3.912),
    "g4dn.16xlarge": MachineType(1, 4.352),
    "g4dn.metal": MachineType(8, 7.824),
    "g5.xlarge": MachineType(1, 1.006),
    "g5.2xlarge": MachineType(1, 1.212),
    "g5.4xlarge": MachineType(1, 1.624),
    "g5.8xlarge": MachineType(1, 2.448),
    "g5.12xlarge": MachineType(4, 5.672),
    "g5.16xlarge": MachineType(1, 4.096),
    "g5.24xlarge": MachineType(4, 8.144),
    "g5.48xlarge": MachineType(8, 16.288),
    "g6.xlarge": MachineType(1, 0.8048),
    "g6.2xlarge": MachineType(1, 0.9776),
    "g6.4xlarge": MachineType(1, 1.3232),
    "g6.8xlarge": MachineType(1, 2.0144),
    "g6.12xlarge": MachineType(4, 4.6016),
    "g6.16xlarge": MachineType(1, 3.3968),
    "g6.24xlarge": MachineType(4, 6.6752),
    "g6.48xlarge": MachineType(8, 13.3504),
}
"""AWS list prices of 2024 in us-east-1, Linux; they differ by region and change over the years."""
AWS_LIST = "the AWS list price of 2024 in us-east-1"

_GPU_OF_FAMILY = {
    "p2": "K80", "p3": "V100", "p3dn": "V100", "p4d": "A100", "p4de": "A100-80GB", "p5": "H100",
    "p5e": "H200", "p5en": "H200", "g4dn": "T4", "g5": "A10G", "g6": "L4", "g6e": "L40S",
}  # fmt: skip
"""The GPU of each family of AWS machines, as SkyPilot names it."""

ON_DEMAND_USD_PER_GPU_HOUR = {
    "K80": 0.90,
    "T4": 0.526,
    "V100": 3.06,
    "A10G": 1.006,
    "L4": 0.8048,
    "A100": 4.0966,
    "H100": 12.29,
}
"""The same prices by GPU, for traces that name the GPU but no machine."""

SPOT_SHARE = 0.3
"""Spot price as a share of on demand where a trace has no price: about the median on AWS in 2024."""


def instance(name: str, gpus: int | None, on_demand_usd_per_gpu_hour: float | None) -> MachineType:
    """Return a machine's GPUs and price, what the caller gives first; raises InputError if unknown."""
    known = AWS_INSTANCES.get(name)
    if known is None and (gpus is None or on_demand_usd_per_gpu_hour is None):
        missing = [
            option
            for option, given in (("gpus_per_instance", gpus), ("on_demand_usd", on_demand_usd_per_gpu_hour))
            if given is None
        ]
        raise InputError(
            f"the instance type must be a known one, got {shown(name)}; give {' and '.join(missing)} "
            f"({', '.join('--' + option.replace('_', '-') for option in missing)})"
        )
    count = gpus if gpus is not None else known.gpus if known else 1
    if on_demand_usd_per_gpu_hour is not None:
        return MachineType(count, on_demand_usd_per_gpu_hour * count)
    assert known is not None
    return MachineType(count, known.on_demand_usd_per_hour)


def gpu_of(name: str) -> str:
    """Return the GPU type of an instance type; empty where it is not known."""
    return _GPU_OF_FAMILY.get(name.partition(".")[0], "")


def gpu_named_in(*texts: str) -> str | None:
    """Find a GPU we know the price of among the words of some texts."""
    words = {word.upper() for text in texts for word in re.split(r"[^A-Za-z0-9]+", text)}
    return next((gpu for gpu in ON_DEMAND_USD_PER_GPU_HOUR if gpu in words), None)
