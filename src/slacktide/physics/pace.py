"""The pace of a job: an estimate of its speed, from its file and from measurements while it runs.

A job reports how much of its work is left; unknown is how fast it works at each width. The belief is about
y(n) = a + b * log2(n), the logarithm of the real pace on n GPUs over the file's: `a` is how far `work` is
off, `b` how far `speedup` is off for each doubling. Both are normally distributed; each stretch in which a
job worked at one width and reported its progress measures y at that width (`see`). The belief is about two
numbers only, so minutes are enough to learn it.

How long a restart takes, and how often a job saves, are measured as well (`see_restart`, `see_checkpoint`):
the file's figures are believed until the job reports its own.

Policies, plans and bills use the mean. The promise to meet the deadline uses a slow quantile (`safe`): slow
enough for what was not measured yet, for noise in the hours to come, and for a pace that drifts a little.
Nothing can be promised about a pace that changes permanently.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from slacktide.core.compiled import compilable, inlined
from slacktide.core.types import JobState
from slacktide.physics.progress import Terms, carried, measured_terms, work_hours

USUAL_SPREAD = math.exp(0.35) - 1.0
"""How far `work` may be off where its file does not say: a standard deviation, as a share."""
UNKNOWN_SPREAD = math.exp(0.7) - 1.0  # the same where the file says that it is unknown
SLOPE_SD = 0.05  # how far a speedup may be off for each doubling, in logarithms
NOISE_SD = 0.03  # how far the pace of one productive hour lies from the pace of them all, in logarithms
WANDER_SD = 0.01  # how far a pace wanders in an hour, in logarithms
WANDER_HOURS = 6.0  # beyond this many hours it is assumed to wander no further
LEAST_HOURS = 0.02  # stretches with fewer productive hours measure nothing
MEASURED_HOURS = 0.15  # after this many productive hours a pace counts as measured: nine minutes
CALM = 4.0  # a belief begins as if this many measurements had come out as expected
MOST_NOISE = 16.0  # surprises make the variance at most this many times as large
MOST_MARGIN = math.log(2.0)  # the safe pace is at least half the mean
FILE_RESTARTS = 0.25  # the file's restart time counts as this many restarts seen
RESTART_SD = 0.2  # restarts differ by this share of their mean, until several were seen
Z, CAREFUL_Z = 1.5, 2.0
"""How many standard deviations the safe pace lies below the mean, by default and for careful policies."""


class Pace(NamedTuple):
    """A belief about a job's pace, as plain numbers. `KNOWN` takes the file's figures as exact."""

    mean: float = 0.0  # of `a`
    slope: float = 0.0  # the mean of `b`
    variance: float = 0.0
    covariance: float = 0.0
    slope_variance: float = 0.0
    hours: float = 0.0  # productive hours that were measured
    surprise: float = 0.0
    """The sum of squared surprises, each over its variance, from the second measurement on."""
    surprises: float = 0.0  # how many were added up
    restart_hours: float = 0.0  # the mean time from an order of workers to their first report
    restart_squares: float = 0.0  # the sum of squared distances from that mean
    restarts: float = 0.0  # how many were seen
    checkpoint_hours: float = 0.0  # the mean time between two checkpoints
    checkpoints: float = 0.0  # how many such times were seen


KNOWN = Pace(0.0, 0.0, 0.0, 0.0, 0.0, math.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def prior(spread: float) -> Pace:
    """Return what is believed before anything was measured; `spread` is that of the file, as a share.

    Without any spread the file is believed, and nothing is ever measured.
    """
    if spread == 0.0:
        return KNOWN
    return Pace(0.0, 0.0, math.log1p(spread) ** 2, 0.0, SLOPE_SD**2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@inlined
def is_measured(pace: Pace) -> bool:
    """Whether enough was measured to rely on the belief."""
    return pace.hours > MEASURED_HOURS - 1e-9


@inlined
def see(pace: Pace, width: int, hours: float, ratio: float) -> Pace:
    """Return what is believed after some productive hours on a width, at a ratio to the file's pace."""
    if hours <= LEAST_HOURS or ratio <= 0.0 or pace.hours == math.inf:
        return pace
    # Kalman update of the belief (a, b) with the covariance P = ((a, b), (b, c)) by one measurement
    #     y = a + b x + noise,  x = log2(width),  noise variance NOISE_SD² / hours:
    # P (1, x) = (along, across), the variance of the surprise is (1, x) P (1, x) + noise, the gain is
    # P (1, x) over that, and P falls by gain times P (1, x). Between measurements `a` wanders, so its
    # variance grows first. The first surprise is not counted: it shows how wrong the file is, not how noisy
    # the pace is.
    first = pace.hours == 0.0
    x = math.log2(width)
    a = pace.variance if first else pace.variance + WANDER_SD**2 * hours
    b, c = pace.covariance, pace.slope_variance
    along, across = a + x * b, b + x * c
    expected = along + x * across + NOISE_SD**2 / hours
    gain, slope_gain = along / expected, across / expected
    off = math.log(ratio) - pace.mean - pace.slope * x
    return Pace(
        pace.mean + gain * off,
        pace.slope + slope_gain * off,
        a - gain * along,
        b - gain * across,
        c - slope_gain * across,
        pace.hours + hours,
        pace.surprise if first else pace.surprise + off * off / expected,
        pace.surprises if first else pace.surprises + 1.0,
        pace.restart_hours,
        pace.restart_squares,
        pace.restarts,
        pace.checkpoint_hours,
        pace.checkpoints,
    )


def see_restart(pace: Pace, hours: float) -> Pace:
    """Return what is believed after workers needed this long from their order to their first report."""
    # Welford's running mean and sum of squares, which needs no list of the restarts seen.
    count, off = pace.restarts + 1.0, hours - pace.restart_hours
    mean = pace.restart_hours + off / count
    squares = pace.restart_squares + off * (hours - mean)
    return pace._replace(restart_hours=mean, restart_squares=squares, restarts=count)


def see_checkpoint(pace: Pace, hours: float) -> Pace:
    """Return what is believed after a job saved its work this long after it had saved before."""
    count = pace.checkpoints + 1.0
    mean = pace.checkpoint_hours + (hours - pace.checkpoint_hours) / count
    return pace._replace(checkpoint_hours=mean, checkpoints=count)


@inlined
def mean_restart(pace: Pace, file_hours: float) -> float:
    """Return how long a restart is believed to take."""
    if pace.restarts == 0.0:
        return file_hours
    seen = pace.restarts * pace.restart_hours
    return (FILE_RESTARTS * file_hours + seen) / (FILE_RESTARTS + pace.restarts)


@inlined
def safe_restart(pace: Pace, mean_hours: float, z: float) -> float:
    """Return how long a restart may take at the safe quantile; the mean where none was seen."""
    if pace.restarts == 0.0:
        return mean_hours
    # The usual spread counts as one restart's, so a single restart seen does not look certain.
    usual = (RESTART_SD * mean_hours) ** 2
    return mean_hours + z * math.sqrt((usual + pace.restart_squares) / pace.restarts)


@compilable
def learn(pace: Pace, file_terms: Terms, before: JobState, after: JobState, productive_hours: float) -> Pace:
    """Return what is believed after a stretch at the width that is held at its end.

    `file_terms` are the terms of the file; `before` is the state in which the stretch began. Nothing is
    learned from a stretch in which the work was done, because nothing is held then.
    """
    width = after.spot_gpus + after.on_demand_gpus
    if pace.hours == math.inf or productive_hours <= LEAST_HOURS or width == 0:
        return pace
    changed = before.spot_gpus != after.spot_gpus or before.on_demand_gpus != after.on_demand_gpus
    begun, _, _ = carried(file_terms, before, changed or before.pool != after.pool)
    return measure(pace, file_terms, width, productive_hours, begun, after.progress_gpu_hours)


@inlined
def measure(
    pace: Pace, file_terms: Terms, width: int, hours: float, from_gpu_hours: float, to_gpu_hours: float
) -> Pace:
    """Return what is believed after productive hours on a width took the progress from one to another."""
    file_hours = work_hours(file_terms, from_gpu_hours, width) - work_hours(file_terms, to_gpu_hours, width)
    return see(pace, width, hours, file_hours / hours)


@inlined
def mean_factor(pace: Pace, width: int) -> float:
    """Return the believed pace on a width, in multiples of the file's."""
    return math.exp(pace.mean + pace.slope * math.log2(width))


def whole_work(pace: Pace, file_gpu_hours: float) -> float:
    """Return the work of a job on one reference GPU, at the pace that is believed."""
    return file_gpu_hours / mean_factor(pace, 1)


@inlined
def spread(pace: Pace, width: int, left_hours: float, slot_hours: float) -> float:
    """Return the standard deviation of the pace's logarithm over the hours that are left at the mean pace."""
    x = math.log2(width)
    left = max(left_hours, 0.5 * slot_hours)
    # The variance of a + b x; then what the coming hours add: noise that averages out over them, and a walk,
    # whose mean over a time has a third of the variance of its end.
    own = pace.variance + x * (2.0 * pace.covariance + x * pace.slope_variance)
    ahead = NOISE_SD**2 / left + WANDER_SD**2 * min(left, WANDER_HOURS) / 3.0
    # Surprises widen the margin, calm never narrows it: a calm past promises nothing.
    noise = min(max((CALM + pace.surprise) / (CALM + pace.surprises), 1.0), MOST_NOISE)
    return math.sqrt(noise * (max(own, 0.0) + ahead))


@inlined
def margin_factor(pace: Pace, width: int, left_hours: float, slot_hours: float, z: float) -> float:
    """Return the safe pace on a width in multiples of the mean one; 1 where the file is believed."""
    if pace.hours == math.inf:
        return 1.0
    return math.exp(-min(z * spread(pace, width, left_hours, slot_hours), MOST_MARGIN))


@compilable
def believed(terms: Terms, pace: Pace) -> Terms:
    """Return a job's terms at the mean pace; `terms` are the file's, returned as they are for `KNOWN`."""
    if pace.hours == math.inf:
        return terms
    rate = terms.rate.copy()
    for width in range(1, rate.shape[1]):
        factor = mean_factor(pace, width)
        for phase in range(rate.shape[0]):
            rate[phase, width] *= factor
    saves = pace.checkpoint_hours if pace.checkpoints > 0.0 else terms.checkpoint_hours
    return measured_terms(terms, rate, mean_restart(pace, terms.restart_hours), saves)


@compilable
def safe(terms: Terms, pace: Pace, progress_gpu_hours: float, slot_hours: float, z: float) -> Terms:
    """Return a job's terms at the safe pace; `terms` are those at the mean one."""
    rate = terms.rate.copy()
    for width in range(1, rate.shape[1]):
        # Widths that the job may not have are never looked up.
        if terms.fit[width] != width:
            continue
        left = work_hours(terms, progress_gpu_hours, width)
        factor = margin_factor(pace, width, left, slot_hours, z)
        for phase in range(rate.shape[0]):
            rate[phase, width] *= factor
    restart = safe_restart(pace, terms.restart_hours, z)
    return measured_terms(terms, rate, restart, terms.checkpoint_hours)
