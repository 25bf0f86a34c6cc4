"""A policy of one's own: a class with one method, in a file next to the job file that names it."""

from dataclasses import dataclass

from slacktide import Allocation, Reason, View


@dataclass(frozen=True, slots=True)
class Patient:
    """Take cheap spot; rent on demand only when less than a third of the time is left."""

    cheap_share: float = 0.5  # spot is cheap below this share of the on-demand price

    def decide(self, view: View) -> Allocation:
        """Say how many GPUs to hold until the next slot, and why."""
        quote = view.quote
        cheap = quote.spot_usd_per_gpu_hour <= self.cheap_share * quote.on_demand_usd_per_gpu_hour
        spot = view.allowed_width(quote.spot_gpus)
        if spot and cheap:
            return Allocation(spot, 0, reason=Reason("cheap-spot", {"spot_gpus": spot}))
        if view.hours_left < view.job.deadline_hours / 3:
            return Allocation(0, view.job.max_gpus, reason=Reason("time-is-short"))
        return Allocation(reason=Reason("wait"))
