"""One job from its start to its end, and each of its slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide import ledger
from slacktide.types import Allocation, JobState, Quote


class SlotRecord(NamedTuple):
    """One slot of a back-test: what was offered, wanted, held, done and paid, and why."""

    slot: int
    quote: Quote
    wanted: Allocation
    before: JobState
    """The state the policy saw: spot that the market took is already gone."""
    lost_gpus: int
    """Spot GPUs that the market took at the start of the slot."""
    lost_gpu_hours: float
    """Work that went with them."""
    lived: ledger.Priced
    """What was held and came of it."""
    after: JobState

    @property
    def spot_gpus(self) -> int:
        """Spot GPUs held."""
        return self.lived.stretch.spot_gpus

    @property
    def on_demand_gpus(self) -> int:
        """On-demand GPUs held."""
        return self.lived.stretch.on_demand_gpus

    @property
    def cost_usd(self) -> float:
        """What the slot cost."""
        return self.lived.charge.usd


@dataclass(frozen=True, slots=True)
class Run:
    """A job from its start to its end under one policy."""

    policy: str
    pool: str
    start_slot: int
    cost_usd: float
    utility_usd: float
    finish_hours: float
    """Hours from the start until the work was done; infinite when the money ended before it."""
    on_time: bool
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    preemptions: int
    """Times that the market took GPUs away."""
    lost_gpu_hours: float
    """Work that was lost with them."""
    slots: tuple[SlotRecord, ...] = ()
