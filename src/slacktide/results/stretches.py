"""The stretches of a simulated stream, kept as columns; objects are made when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

from slacktide.core.arrays import Floats, Ints
from slacktide.core.quotes import Quote
from slacktide.physics.ledger import Priced, Stretch, Use
from slacktide.physics.tariff import BY_THE_SECOND, Meter, price

POOL = "cluster"  # the only pool of a simulated stream: GPUs at one price
PREFIX = "job-"  # a job's name is this and its number in the stream
SITE = -1  # stands for the site in the column of jobs
USES: tuple[Use, ...] = ("work", "boot", "idle", "rounding")
"""What the numbers in the column of uses mean; after work, what of a cluster is not used, in its order."""


class StretchColumns(NamedTuple):
    """Stretches in the order in which they began, one entry of each array for each."""

    job: Ints
    use: Ints
    gpus: Ints
    from_hours: Floats
    to_hours: Floats
    held_hours: Floats
    pause_hours: Floats
    productive_hours: Floats
    gained_gpu_hours: Floats


class KeptStretches(Sequence[Priced]):
    """All stretches of a run, priced: those of its jobs, who wait or work, and those of the site itself."""

    def __init__(self, columns: StretchColumns, usd_per_gpu_hour: float) -> None:
        self.columns = columns
        self.quote = Quote(usd_per_gpu_hour, usd_per_gpu_hour, 0)

    def __len__(self) -> int:
        return len(self.columns.job)

    @overload
    def __getitem__(self, index: int) -> Priced: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Priced]: ...
    def __getitem__(self, index: int | slice) -> Priced | Sequence[Priced]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        row = (column[index].item() for column in self.columns)
        job, use, gpus, from_hours, to_hours, held_hours, pause_hours, productive_hours, gained = row
        stretch = Stretch(
            payer="" if job == SITE else f"{PREFIX}{job}",
            use=USES[use],
            slot=0,
            from_hours=from_hours,
            to_hours=to_hours,
            held_hours=held_hours,
            pool=POOL,
            spot_gpus=0,
            on_demand_gpus=gpus,
            quote=self.quote,
            pause_hours=pause_hours,
            productive_hours=productive_hours,
            gained_gpu_hours=gained,
        )
        charge, _ = price(BY_THE_SECOND, Meter(), 0, 0, self.quote, 0, gpus, held_hours, 0.0)
        return Priced(stretch, charge)
