"""Workers on machines that go on in another set: who stays where, and what that set is to be.

The set that there is works on until machines for the added workers and a port to meet at are found. Then the
new one is written down with those it takes over, and only then machines receive it. Each starts what is added
there and reports when all of its workers are ready. When all machines have reported that, all may go on, and
each sends its workers their places. Workers that leave are ended after that. Whatever does not go well on the
way is answered by ending the whole set, as if none of its workers could do this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slacktide.backends.machines.machine_set import MachineSet, SetForm, StayingWorker
from slacktide.backends.machines.placement import GpuSeat
from slacktide.backends.workers.launch import Kind, Launch
from slacktide.backends.workers.reforming import lower_ranks_first, script_of


def is_same(form: SetForm, pool: str, launch: Launch) -> bool:
    """Say whether a set was started with the same command in the same pool."""
    return (form.pool, form.script) == (pool, script_of(launch))


def staying(spread: MachineSet, kinds: Sequence[Kind]) -> dict[int, int]:
    """Return the ranks of who stays, by their new ranks; empty where all have to be started anew.

    Rank 0 has to stay where it is, because it saves and all others know where to find it.
    """
    if spread.stopping or spread.broken or spread.failed is not None or not spread.able:
        return {}
    stay = lower_ranks_first(kinds, spread.form.kinds)
    return stay if stay.get(0) == 0 else {}


def successor(
    before: SetForm,
    attempt: int,
    kinds: tuple[Kind, ...],
    stay: Mapping[int, int],
    new_seats: Sequence[GpuSeat],
) -> SetForm:
    """Return what a set is to be that takes these workers over where they are; its port is not known yet."""
    new = iter(new_seats)
    return before._replace(
        attempt=attempt,
        kinds=kinds,
        seats=tuple(before.seats[stay[rank]] if rank in stay else next(new) for rank in range(len(kinds))),
        port=0,
        former=before.attempt,
        kept=tuple(StayingWorker(rank, former, *before.began(former)) for rank, former in stay.items()),
    )


def part(old: MachineSet, new: SetForm) -> None:
    """Leave with a set only those of its workers that another one has not taken over."""
    if new.former == old.attempt:
        old.hand_on({one.former_rank for one in new.kept}, {seat.host for seat in new.seats})
