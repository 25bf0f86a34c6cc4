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


_AWS_FAMILIES = """
    p2 K80: xlarge 1 0.90, 8xlarge 8 7.20, 16xlarge 16 14.40
    p3 V100: 2xlarge 1 3.06, 8xlarge 4 12.24, 16xlarge 8 24.48
    p3dn V100: 24xlarge 8 31.212
    p4d A100: 24xlarge 8 32.7726
    p4de A100-80GB: 24xlarge 8 40.96575
    p5 H100: 48xlarge 8 98.32
    p5e H200:
    p5en H200:
    g4dn T4: xlarge 1 0.526, 2xlarge 1 0.752, 4xlarge 1 1.204, 8xlarge 1 2.176, 12xlarge 4 3.912
    g4dn T4: 16xlarge 1 4.352, metal 8 7.824
    g5 A10G: xlarge 1 1.006, 2xlarge 1 1.212, 4xlarge 1 1.624, 8xlarge 1 2.448, 12xlarge 4 5.672
    g5 A10G: 16xlarge 1 4.096, 24xlarge 4 8.144, 48xlarge 8 16.288
    g6 L4: xlarge 1 0.8048, 2xlarge 1 0.9776, 4xlarge 1 1.3232, 8xlarge 1 2.0144, 12xlarge 4 4.6016
    g6 L4: 16xlarge 1 3.3968, 24xlarge 4 6.6752, 48xlarge 8 13.3504
    g6e L40S:
"""
"""Families of AWS machines with their GPU, as SkyPilot names it; of each machine its GPUs and USD per hour.

The prices are the list prices of 2024 in us-east-1, Linux; they differ by region and change over the years.
"""
AWS_LIST = "the AWS list price of 2024 in us-east-1"
AWS_INSTANCES: dict[str, MachineType] = {}
_GPU_OF_FAMILY: dict[str, str] = {}
for _line in _AWS_FAMILIES.strip().splitlines():
    _family, _gpu, _machines = re.split(r"[ :]+", _line.strip(), maxsplit=2)
    _GPU_OF_FAMILY[_family] = _gpu
    for _size, _count, _usd in (words.split() for words in _machines.split(",") if words):
        AWS_INSTANCES[f"{_family}.{_size}"] = MachineType(int(_count), float(_usd))

ON_DEMAND_USD_PER_GPU_HOUR = {
    "K80": 0.90, "T4": 0.526, "V100": 3.06, "A10G": 1.006, "L4": 0.8048, "A100": 4.0966, "H100": 12.29,
}  # fmt: skip
"""The same prices by GPU, for traces that name the GPU but no machine."""

SPOT_SHARE = 0.3
"""Spot price as a share of on demand where a trace has no price: about the median on AWS in 2024."""


def instance(name: str, gpus: int | None, on_demand_usd_per_gpu_hour: float | None) -> MachineType:
    """Return a machine's GPUs and price; what the caller gives comes first. Raises InputError if unknown."""
    known = AWS_INSTANCES.get(name)
    if known is None and (gpus is None or on_demand_usd_per_gpu_hour is None):
        options = {"gpus_per_instance": gpus, "on_demand_usd": on_demand_usd_per_gpu_hour}
        missing = [option for option, given in options.items() if given is None]
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
