"""The best decisions when the future is a Markov chain: expected utility, by backward induction.

State: (slot, market state, holding, pause left, slack). *Slack* is the time to the deadline less the time
that the work left takes at the fastest width. Working at full speed keeps it, an idle slot costs a slot
of it, a restart costs the restart: so most moves shift the grid by whole cells, the edge where on demand
just meets a hard deadline stays put instead of moving with every rounding, and a tight deadline needs few
cells.

For each slot, backwards, and each market state:

1. the expected future of every holding is the mixture of its values over the next market states, where a
   loss of spot is already applied;
2. holding h with a pause p costs what its GPUs cost, and shifts the slack by a constant;
3. staying keeps the pause that is left, a subset waits at least the shrink pause, anything else restarts:
   the best subset is a running maximum over the lattice of holdings, the best restart one maximum for all.

Slack between two cells is interpolated; the value is `NEVER` if that of the lower cell is, so nothing is
promised that a hard deadline forbids. Work lost with spot is taken at its mean, half a checkpoint interval.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.compiled import compilable, compiled, inlined
from slacktide.solvers.slotted import Pauses, Slotted, list_holdings, list_pauses

NEVER = -1e15
LATTICE_UNITS = 16
"""Jobs wider than this are planned in blocks of GPUs; the 153 holdings of 16 still fit into a byte."""
WIDE_EFFORT = 40_000
"""A job that is planned in blocks gets as many as keep slots * spot levels * holdings within this: a few
seconds of CPU."""
FEWEST_UNITS = 4
BARE_BYTES = 16_000_000  # bytes of decisions that are computed at once, before they are packed
UNPACKED_BYTES = 64_000_000
"""Wanted decisions that take at most this many bytes are not packed: they are not kept for long."""

Actions = npt.NDArray[np.uint8]


class Lattice(NamedTuple):
    """What may be held and how long a pause may last, as bare numbers."""

    spot: Ints
    on_demand: Ints
    allowed: Bools  # whether a holding is a width the job may have; others only arise from losses
    cell: Ints  # cell[spot // unit, on demand // unit] = holding
    unit: int
    pauses: Pauses


class Decisions:
    """The best holdings of some slots, each slot and market state packed by itself, unless they are few.

    A run needs one state a slot, which is unpacked in a fraction of a millisecond.
    """

    def __init__(self, packed: list[list[bytes]], axes: tuple[int, int, int], *, bare: bool) -> None:
        self._packed, self._axes = packed, axes
        self._unpack: Callable[[bytes], bytes] = bytes if bare else zlib.decompress

    def __len__(self) -> int:
        return len(self._packed)

    def along(self, states: Ints, first: int = 0) -> Actions:
        """Return the decisions from slot `first` on, for one market state in each that was wanted there.

        The axes: slot, what the market left of the holding, pause ahead, cell of slack.
        """
        slots = zip(self._packed[first:], states, strict=False)
        bare = b"".join(self._unpack(slot[state]) for slot, state in slots)
        return np.frombuffer(bytearray(bare), np.uint8).reshape(-1, *self._axes)


class Chain(NamedTuple):
    """A Markov market: what each state offers, and where it leads, by block of the day."""

    gpus: Ints  # spot GPUs of each state, in whole units of the lattice
    usd: Floats
    first: Ints  # first[block, state] .. last[block, state]: its transitions in `to` and `share`.
    last: Ints
    to: Ints
    share: Floats
    block: Ints  # block of the day of each slot, from the first one solved on


class Worth(NamedTuple):
    """What a result is worth when, and what on demand costs."""

    value_usd: float
    worthless_hours: float
    hard: bool
    on_demand_usd: float


class Slack(NamedTuple):
    """The grid of slack: cell i stands for `most - i * step` hours."""

    cells: int
    step: float
    most: float


def lattice(terms: Slotted) -> Lattice:
    """Return the holdings and pauses of a job, in blocks of GPUs if it is wide."""
    widest = len(terms.fit) - 1
    unit = math.ceil(widest / _units(widest, terms.deadline_slots))
    size = widest // unit + 1
    spot, on_demand = list_holdings(range(size))
    cell = np.full((size, size), -1, dtype=np.int64)
    cell[spot, on_demand] = np.arange(len(spot))
    spot, on_demand = spot * unit, on_demand * unit
    width = spot + on_demand
    return Lattice(
        spot=spot,
        on_demand=on_demand,
        allowed=(width == 0) | (terms.fit[width] == width),
        cell=cell,
        unit=unit,
        pauses=_rounded(list_pauses(terms)),
    )


def _units(widest: int, slots: int) -> int:
    """Return into how many units the widest width is cut: each GPU is one, up to LATTICE_UNITS."""
    if widest <= LATTICE_UNITS:
        return widest
    blocks = range(FEWEST_UNITS, LATTICE_UNITS + 1)
    fitting = [units for units in blocks if slots * (units + 1) ** 2 * (units + 2) // 2 <= WIDE_EFFORT]
    return max(fitting, default=FEWEST_UNITS)


def _rounded(pauses: Pauses) -> Pauses:
    """Round pauses to twelve digits: noise beyond them would choose among plans that are worth the same."""
    return pauses._replace(
        left_hours=np.round(pauses.left_hours, 12), ahead_hours=np.round(pauses.ahead_hours, 12)
    )


def slack_grid(terms: Slotted, *, hard: bool, cells: int, finer: float = 3.0) -> Slack:
    """Return a grid of about this many cells, with a whole number of them in a slot and if possible a pause.

    Fewer than `finer` times as many cells are used to make pauses whole. The top cell is the job's start.
    """
    most = terms.deadline_hours - terms.work_gpu_hours / terms.rate[terms.fastest]
    least = 0.0 if hard else most - terms.deadline_slots * terms.slot_hours
    extent = max(most - least, terms.slot_hours)
    fewest = max(1, round(cells * terms.slot_hours / extent))
    pauses = np.array([terms.restart_hours, terms.shrink_hours]) / terms.slot_hours
    fitting = (
        k
        for k in range(fewest, math.ceil(finer * fewest))
        if np.allclose(k * pauses, np.round(k * pauses), atol=1e-6)
    )
    step = terms.slot_hours / next(fitting, fewest)
    return Slack(max(2, math.floor(extent / step + 1e-9) + 2), step, most)


def solve(
    terms: Slotted,
    shape: Lattice,
    chain: Chain,
    worth: Worth,
    slack: Slack,
    *,
    now: int,
    slots: int,
    wanted: Bools | None = None,
) -> Decisions:
    """Return the best holding for each of the `slots` slots from `now` on.

    `wanted[slot, state]` says which decisions will be needed, None means all: for the others only the value
    is computed, which takes a fraction of the time. Slots are solved some at a time, the last ones first,
    and packed: the bare decisions of a whole job on 16 GPUs would take hundreds of megabytes.
    """
    states = len(chain.gpus)
    of_state = (len(shape.spot), len(shape.pauses.ahead_hours), slack.cells)
    bare = wanted is not None and wanted.sum() * math.prod(of_state) <= UNPACKED_BYTES
    pack = bytes if bare else partial(zlib.compress, level=1)
    wanted = np.ones((slots, states), bool) if wanted is None else wanted
    after = np.empty((states, len(shape.spot), len(shape.pauses.left_hours), slack.cells))
    at_once = max(1, BARE_BYTES // (int(wanted.sum(1).max()) * math.prod(of_state)))
    packed: list[list[bytes]] = []
    until, end = terms.deadline_slots, now + slots
    for first in (*([end] if end < until else []), *reversed(range(now, end, at_once))):
        kept = wanted[first - now : min(until, end) - now]
        rows = np.where(kept, kept.cumsum().reshape(kept.shape) - 1, -1)
        actions = np.zeros((int(kept.sum()), *of_state), dtype=np.uint8)
        from_here = chain._replace(block=chain.block[first - now :])
        compiled(induce)(terms, shape, from_here, worth, slack, first, until, after, rows, actions)
        packed[:0] = [[pack(actions[row]) if row >= 0 else b"" for row in slot] for slot in rows]
        until = first
    return Decisions(packed, of_state, bare=bare)


class SpotWarning(NamedTuple):
    """A warning: the market keeps a number of spot GPUs for some slots, and then has fewer."""

    gpus: int  # the number it keeps until then
    slots: int  # in how many slots it has fewer for the first time
    state: int  # the market's state now


def solve_warned(
    terms: Slotted,
    shape: Lattice,
    chain: Chain,
    worth: Worth,
    slack: Slack,
    fall: SpotWarning,
    fresh: Ints,
    *,
    now: int,
) -> Actions:
    """Return the best holding in slot `now` for a job warned of a fall, by holding, pause ahead and slack.

    After the fall the market is a chain like any other. Before it, and into it, only transitions that agree
    with the warning are possible, their chances scaled up to 1; `fresh[state]` is where a fall leads if the
    chain has no such transition.
    """
    until = min(now + fall.slots, terms.deadline_slots)
    states = len(chain.gpus)
    kept = _given(chain, chain.gpus >= fall.gpus // shape.unit * shape.unit, np.arange(states))
    falls = _given(chain, chain.gpus < fall.gpus, fresh)
    values = np.empty((states, len(shape.spot), len(shape.pauses.left_hours), slack.cells))
    actions = np.zeros((1, len(shape.spot), len(shape.pauses.ahead_hours), slack.cells), np.uint8)
    rows = np.full((1, states), -1)
    unwanted, rows[0, fall.state] = np.full((1, states), -1), 0

    def back(edges: Chain, first: int, last: int) -> None:
        from_here = edges._replace(block=chain.block[first - now :])
        needed = rows if first == now else unwanted
        compiled(induce)(terms, shape, from_here, worth, slack, first, last, values, needed, actions)

    back(chain, until, terms.deadline_slots)
    before = until
    if now + fall.slots == until:
        before = until - 1
        back(falls, before, until)
    if before > now:
        back(kept, now, before)
    return actions


def _given(chain: Chain, possible: Bools, otherwise: Ints) -> Chain:
    """Return the chain without transitions to impossible states; the chances of the others are scaled up.

    A state without any other transition leads to `otherwise[state]`: what was warned of does happen.
    """
    begin, count = chain.first.ravel(), (chain.last - chain.first).ravel()
    of = np.repeat(np.arange(len(begin)), count)  # [edge]: the block and state from which it leads
    edge = np.arange(count.sum()) + np.repeat(begin - (count.cumsum() - count), count)
    keep = possible[chain.to[edge]]
    of, edge = of[keep], edge[keep]
    total = np.bincount(of, chain.share[edge], len(begin))
    stuck = np.flatnonzero(total < 1e-12)
    good = total[of] >= 1e-12
    of, edge = of[good], edge[good]
    into = np.concatenate([chain.to[edge], otherwise[stuck % len(otherwise)]])
    share = np.concatenate([chain.share[edge] / total[of], np.ones(len(stuck))])
    order = np.argsort(np.concatenate([of, stuck]), kind="stable")
    last = np.bincount(np.concatenate([of, stuck]), minlength=len(begin)).cumsum()
    first = np.concatenate([[0], last[:-1]])
    shape = chain.first.shape
    return chain._replace(
        first=first.reshape(shape), last=last.reshape(shape), to=into[order], share=share[order]
    )


@compilable
def value_at(worth: Worth, deadline_hours: float, finish_hours: float) -> float:
    """Return what a result at this time is worth; NEVER when a hard deadline is missed."""
    if finish_hours <= deadline_hours + 1e-6:
        return worth.value_usd
    if worth.hard:
        return NEVER
    if finish_hours >= worth.worthless_hours:
        return 0.0
    late = (finish_hours - deadline_hours) / (worth.worthless_hours - deadline_hours)
    return worth.value_usd * (1.0 - late)


@compilable
def fill_end(terms: Slotted, shape: Lattice, worth: Worth, slack: Slack, end: Floats) -> None:
    """Fill the values at the deadline: the termination configuration does the rest, and is paid for."""
    begun = terms.deadline_slots * terms.slot_hours
    for holding in range(len(shape.spot)):
        ready = shape.spot[holding] == 0 and shape.on_demand[holding] == terms.fastest
        for rest in range(len(shape.pauses.left_hours)):
            pause = shape.pauses.left_hours[rest] if ready else terms.restart_hours
            for i in range(slack.cells):
                need = terms.deadline_hours - begun - (slack.most - i * slack.step)
                took = pause + max(need, 0.0)
                if worth.hard:
                    end[holding, rest, i] = NEVER
                else:
                    whole = math.ceil(took / terms.slot_hours - 1e-9) * terms.slot_hours
                    billed = whole if terms.whole_slots else took
                    cost = worth.on_demand_usd * terms.fastest * billed
                    end[holding, rest, i] = value_at(worth, terms.deadline_hours, begun + took) - cost


@inlined
def fill_value(
    terms: Slotted,
    worth: Worth,
    slack: Slack,
    slot: int,
    width: int,
    pause: float,
    usd_per_hour: float,
    future: Floats,
    out: Floats,
) -> None:
    """Fill what holding a width through a slot is worth, for every cell of slack."""
    length = terms.slot_hours
    waited = min(pause, length)
    best = terms.rate[terms.fastest]
    gain = terms.rate[width] * (length - waited) / best if width > 0 else 0.0
    # A slot that works below full speed loses slack: the value is that of the cell `shift` further down,
    # between two cells where it is not whole.
    shift = (length - gain) / slack.step
    whole = math.floor(shift + 1e-6)
    part = shift - whole
    if part < 2e-6:
        part = 0.0
    left_hours = terms.deadline_hours - slot * length
    rent = usd_per_hour * length
    first = 0
    while width > 0 and first < slack.cells:
        need = left_hours - (slack.most - first * slack.step)
        if need > gain + 1e-9:
            break
        took = waited + max(need, 0.0) * best / terms.rate[width]
        billed = length if terms.whole_slots else took
        value = value_at(worth, terms.deadline_hours, slot * length + took)
        out[first] = value - usd_per_hour * billed if value > NEVER else NEVER
        first += 1
    # In the cells up to `last` the work goes on, below them the slack is used up. Slices, because a loop over
    # shifted indices does not become vector code.
    last = max(first, slack.cells - whole - (1 if part > 0.0 else 0))
    into, high = out[first:last], future[first + whole : last + whole]
    if part > 0.0:
        low = future[first + whole + 1 : last + whole + 1]
        for i in range(len(into)):
            mixed = (1.0 - part) * high[i] + part * low[i] - rent
            into[i] = mixed if low[i] > NEVER else NEVER
    else:
        for i in range(len(into)):
            into[i] = high[i] - rent if high[i] > NEVER else NEVER
    for i in range(last, slack.cells):
        out[i] = NEVER


@compilable
def take_best(value: Floats, which: Actions, other: Floats, other_which: Actions) -> None:
    """Keep the better of two values and the holding it belongs to, for every cell."""
    for i in range(len(value)):
        if other[i] > value[i]:
            value[i] = other[i]
            which[i] = other_which[i]


@inlined
def take_more(value: Floats, other: Floats) -> None:
    """Keep the better of two values, for every cell."""
    for i in range(len(value)):
        value[i] = other[i] if other[i] > value[i] else value[i]


@compilable
def fill_expected(chain: Chain, shape: Lattice, block: int, state: int, nxt: Floats, out: Floats) -> None:
    """Fill the expected value, over the next market states, of every holding that can be had now."""
    for holding in range(out.shape[0]):
        if not shape.allowed[holding] or shape.spot[holding] > chain.gpus[state]:
            continue
        for rest in range(out.shape[1]):
            row = out[holding, rest]
            # E[holding, rest, x] = sum over edges of share * next[to, holding, rest, x].
            row[:] = 0.0
            for edge in range(chain.first[block, state], chain.last[block, state]):
                share = chain.share[edge]
                source = nxt[chain.to[edge], holding, rest]
                for i in range(len(row)):
                    row[i] += share * source[i]
            for i in range(len(row)):
                row[i] = NEVER if row[i] < 0.5 * NEVER * 1e-6 else row[i]


@compilable
def induce(
    terms: Slotted,
    shape: Lattice,
    chain: Chain,
    worth: Worth,
    slack: Slack,
    now: int,
    until: int,
    values: Floats,
    rows: Ints,
    actions: Actions,
) -> None:
    """Go backwards from the slot before `until` to `now`.

    `values` are those of entering slot `until`, and are filled in here at the deadline; afterwards they are
    those of entering slot `now`. `rows[slot, state]` says which row of `actions` takes the decisions, if any.
    """
    lefts, pauses = len(shape.pauses.left_hours), len(shape.pauses.ahead_hours)
    holdings, cells = len(shape.spot), slack.cells
    states = len(chain.gpus)
    after = values
    before = np.empty((states, holdings, lefts, cells))
    expected = np.empty((holdings, lefts, cells))
    value = np.empty((pauses, holdings, cells))
    subset = np.empty((pauses, holdings, cells))
    subset_which = np.empty((pauses, holdings, cells), np.uint8)
    decided = np.empty((holdings, pauses, cells))
    if until == terms.deadline_slots:
        for state in range(states):
            fill_end(terms, shape, worth, slack, after[state])
    # Half an interval on average; without checkpoints half of all the work, as a cell of slack does not say
    # how much was done.
    interval_hours = min(terms.checkpoint_hours, terms.work_gpu_hours / terms.rate[terms.fastest])
    lost_cells = 0.5 * interval_hours / (terms.rate[terms.fastest] * slack.step)
    shrunk = np.zeros(pauses, np.bool_)
    entered = np.zeros(pauses, np.bool_)
    for pause in range(pauses):
        shrunk[shape.pauses.shrink[pause]] = True
    for rest in range(lefts):
        entered[shape.pauses.stay[rest]] = True
        entered[shape.pauses.shrink[shape.pauses.stay[rest]]] = True

    # For each slot and market state: (1) the expected future of every holding, (2) less its rent under each
    # pause, (3) the best of staying, a part, or anything, (4) seen from before the market takes its spot.
    for slot in range(until - 1, now - 1, -1):
        for state in range(states):
            offered = chain.gpus[state]
            fill_expected(chain, shape, chain.block[slot - now], state, after, expected)
            for holding in range(holdings):
                spot, on_demand = shape.spot[holding], shape.on_demand[holding]
                width = spot + on_demand
                if spot > offered:
                    continue
                rent = chain.usd[state] * spot + worth.on_demand_usd * on_demand
                for pause in range(pauses):
                    if not shape.allowed[holding]:
                        value[pause, holding, :] = NEVER
                    elif width == 0 and pause > 0:
                        value[pause, holding, :] = value[0, holding, :]
                    else:
                        rest = shape.pauses.after[pause] if width > 0 else 0
                        hours = shape.pauses.ahead_hours[pause] if width > 0 else 0.0
                        fill_value(
                            terms, worth, slack, slot, width, hours, rent,
                            expected[holding, rest], value[pause, holding],
                        )  # fmt: skip
            row = rows[slot - now, state] if slot - now < len(rows) else -1
            if row >= 0:
                decide(shape, offered, shrunk, value, subset, subset_which, decided, actions[row])
            else:
                evaluate(shape, offered, shrunk, entered, value, subset, decided)
            for holding in range(holdings):
                if shape.allowed[holding]:
                    fill_before(terms, shape, offered, lost_cells, holding, decided, before[state, holding])
        after, before = before, after
    # The two buffers were swapped after each slot: after an odd number the result is not in the caller's.
    if (until - now) % 2 == 1:
        values[:] = after


@compilable
def decide(
    shape: Lattice,
    offered: int,
    shrunk: Bools,
    value: Floats,
    subset: Floats,
    subset_which: Actions,
    decided: Floats,
    actions: Actions,
) -> None:
    """Fill the value of the best move from every holding and pause, and the holding to which it leads.

    `value[pause, holding]` is what a holding is worth when it was settled with this pause ahead; `shrunk` are
    the pauses that lie ahead after workers were let go.
    """
    holdings, pauses, cells = decided.shape
    restart = shape.pauses.restart
    # subset[p, h] = the best within h under pause p, a running maximum over the lattice of holdings;
    # any_value = the best of all after a restart; `which` carries along the holding each belongs to.
    any_value = np.full(cells, NEVER)
    any_which = np.zeros(cells, np.uint8)
    which = np.empty(cells, np.uint8)
    for holding in range(holdings):
        if shape.spot[holding] > offered:
            continue
        row, column = shape.spot[holding] // shape.unit, shape.on_demand[holding] // shape.unit
        for pause in range(pauses):
            if not shrunk[pause]:
                continue
            best, best_which = subset[pause, holding], subset_which[pause, holding]
            best[:] = value[pause, holding]
            best_which[:] = holding
            if row > 0:
                other = shape.cell[row - 1, column]
                take_best(best, best_which, subset[pause, other], subset_which[pause, other])
            if column > 0:
                other = shape.cell[row, column - 1]
                take_best(best, best_which, subset[pause, other], subset_which[pause, other])
        which[:] = holding
        take_best(any_value, any_which, value[restart, holding], which)
    for holding in range(holdings):
        if shape.spot[holding] > offered:
            continue
        for pause in range(pauses):
            less = shape.pauses.shrink[pause]
            best = decided[holding, pause]
            best[:] = value[pause, holding]
            chosen = actions[holding, pause]
            chosen[:] = holding
            take_best(best, chosen, subset[less, holding], subset_which[less, holding])
            take_best(best, chosen, any_value, any_which)


@compilable
def evaluate(
    shape: Lattice,
    offered: int,
    shrunk: Bools,
    entered: Bools,
    value: Floats,
    subset: Floats,
    decided: Floats,
) -> None:
    """Fill the values that `decide` fills, but not the holdings to which the moves lead.

    Only for pauses with which a slot may be `entered`: without its decisions, nothing else is needed of it.
    """
    holdings, pauses, cells = decided.shape
    any_value = np.full(cells, NEVER)
    for holding in range(holdings):
        if shape.spot[holding] > offered:
            continue
        row, column = shape.spot[holding] // shape.unit, shape.on_demand[holding] // shape.unit
        for pause in range(pauses):
            if not shrunk[pause]:
                continue
            best = subset[pause, holding]
            best[:] = value[pause, holding]
            if row > 0:
                take_more(best, subset[pause, shape.cell[row - 1, column]])
            if column > 0:
                take_more(best, subset[pause, shape.cell[row, column - 1]])
        take_more(any_value, value[shape.pauses.restart, holding])
    for holding in range(holdings):
        if shape.spot[holding] > offered:
            continue
        for pause in range(pauses):
            if entered[pause]:
                best = decided[holding, pause]
                best[:] = value[pause, holding]
                take_more(best, subset[shape.pauses.shrink[pause], holding])
                take_more(best, any_value)


@inlined
def fill_before(
    terms: Slotted,
    shape: Lattice,
    offered: int,
    lost_cells: float,
    holding: int,
    decided: Floats,
    out: Floats,
) -> None:
    """Fill the value of entering a slot with a holding, less what the market takes of it."""
    spot, on_demand = shape.spot[holding], shape.on_demand[holding]
    kept = shape.cell[min(spot, offered) // shape.unit, on_demand // shape.unit]
    forced = spot > offered
    lost = math.ceil(lost_cells * terms.rate[spot + on_demand]) if forced else 0
    for rest in range(len(shape.pauses.left_hours)):
        pause = shape.pauses.shrink[shape.pauses.stay[rest]] if forced else shape.pauses.stay[rest]
        source = decided[kept, pause]
        cells = len(source)
        # Work lost with the spot leaves less slack: the value is that of a cell further down.
        same = max(0, cells - lost)
        out[rest, :same] = source[cells - same :]
        out[rest, same:] = NEVER
