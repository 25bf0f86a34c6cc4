"""Hedge: which of several arms to trust, learned from what every one of them would have earned.

After a job has ended the utilities of *all* arms are known, not only of the one that ran. With G the
sums of utilities so far and π the prior, the weights are

    w ∝ π · exp(η G)

where η is the rate of the next job (see `rate`). Jobs may overlap, and end in any order. Utilities are
kept to 2⁻³², so that their sums are exact: with a fixed or anytime rate the weights depend on the *set* of
ended jobs alone, to the last bit; the adaptive rate itself depends a little on the order.

Why the regret is bounded. Let Φ_η(G) = (1/η) ln Σ π exp(ηG). A job drawn with weights w is expected to
earn w·u, which is Φ_η(G + u) − Φ_η(G) less the *mixability gap* of the job; the gap is at most η s²/8 when
the utilities lie within a spread s (Hoeffding), and usually far less. Φ grows with η, and η never does, so
the sum over jobs telescopes to Φ(G_K) − Σ gaps or more, and Φ(G_K) is at least the best arm's sum less
ln(1/π)/η. A job that was drawn before others ended is drawn with older weights; this costs at most the total
variation between those and the ones it would have been drawn with had it begun just before it ended,
which is added up as `delay`. The bound is the sum of the three parts: prior, gaps and delay.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, UnknownNameError, shown
from slacktide.policies.selection.rate import Adaptive, LearningRate

GRAIN = 2.0**-32  # utilities are rounded to this, so that sums over two million jobs are exact
REMEMBERED = 256  # how many ended jobs are known by name, to say that one was ended twice
MOST_POINTS = 400  # when there are more, every second one is dropped
WORTH_DRAWING = 0.01  # weights below this are not kept: a hundred of them would not be seen


class Open(NamedTuple):
    """The draw for a job that has begun and not ended."""

    arm: int
    weights: Floats  # the weights it was drawn with


class Tally(NamedTuple):
    """The sums over all ended jobs."""

    ended: int = 0
    expected: float = 0.0  # what the draws were expected to earn
    realised: float = 0.0  # what they earned
    gap: float = 0.0  # mixability gaps
    delay: float = 0.0  # what drawing before others had ended can have cost
    eta: float = math.inf  # the rate of the last job to end


class Regret(NamedTuple):
    """How much more the best fixed arm would have earned than the learner, in scaled utility."""

    best: str  # the arm that would have earned the most
    expected: float
    realised: float
    bound: float  # the most that `expected` can be for these jobs


class Leader(NamedTuple):
    """An arm that took over the greatest weight, and after how many jobs."""

    jobs: int
    arm: str


class RegretPoint(NamedTuple):
    """The learner after a number of jobs."""

    jobs: int
    regret: float
    bound: float
    weights: dict[int, float]  # by the arm's place, those of at least WORTH_DRAWING


class Trail:
    """The learner after every `stride` jobs; when there are too many points, every second one is dropped."""

    def __init__(self, points: list[RegretPoint] | None = None, stride: int = 1) -> None:
        self.points = [] if points is None else points
        self.stride = stride

    def add(self, jobs: int, regret: float, bound: float, weights: Floats) -> None:
        """Keep a point, unless it falls between those that are kept."""
        if jobs % self.stride:
            return
        seen = np.flatnonzero(weights >= WORTH_DRAWING)
        self.points.append(RegretPoint(jobs, regret, bound, {int(arm): float(weights[arm]) for arm in seen}))
        if len(self.points) > MOST_POINTS:
            self.stride *= 2
            self.points = [point for point in self.points if point.jobs % self.stride == 0]


class Hedge:
    """Weights over named arms, a draw for each job that begins, an update for each that ends."""

    def __init__(
        self,
        arms: Sequence[str],
        *,
        prior: Mapping[str, float] | None = None,
        rate: LearningRate | None = None,
    ) -> None:
        """Begin with nothing learned; `prior` gives shares of trust (equal unless given) to all arms."""
        self.arms = tuple(arms)
        if not self.arms or len(set(self.arms)) != len(self.arms):
            raise InputError(f"arms must be at least one name, each given once, got {list(self.arms)[:9]}")
        self.prior = _normalised(self.arms, prior)
        self.rate: LearningRate = Adaptive() if rate is None else rate
        self.utility: Floats = np.zeros(len(self.arms))
        self.tally = Tally()
        self.open: dict[str, Open] = {}
        self.recent: list[str] = []
        self.leaders = [Leader(0, self.leader)]
        self.trail = Trail()

    @property
    def ended(self) -> int:
        """How many jobs have been learned from."""
        return self.tally.ended

    @property
    def eta(self) -> float:
        """The rate with which the next job is drawn."""
        return self.rate.eta(len(self.arms), self.ended, self.tally.gap)

    @property
    def weights(self) -> Floats:
        """The share of trust in each arm, in the order of `arms`."""
        return _shares(self._logs)

    @property
    def _logs(self) -> Floats:
        """The logarithms of the weights, up to a constant; weights themselves may underflow to 0."""
        return np.asarray(np.log(self.prior) + self.eta * self.utility)

    @property
    def leader(self) -> str:
        """The arm of the greatest weight; of equals the first."""
        return self.arms[int(np.argmax(self.weights))]

    def draw(self, key: str, *, seed: int = 0) -> str:
        """Return an arm drawn by weight; the same key, seed and weights draw the same arm."""
        return self.arms[_drawn(self.weights, key, seed)]

    def begin(self, job: str, *, key: str | None = None, seed: int = 0, arm: str | None = None) -> str:
        """Draw the arm for a job; repeated for a job that is open, it returns the arm drawn before.

        `arm` names one to take in place of a draw. Raises InputError for a job that has ended.
        """
        if arm is not None and arm not in self.arms:
            raise UnknownNameError("an arm", arm, self.arms)
        if job in self.recent:
            raise InputError(f"a job must begin once, got {shown(job)}, which has ended; give it a new name")
        if job not in self.open:
            weights = self.weights
            drawn = (
                _drawn(weights, job if key is None else key, seed) if arm is None else self.arms.index(arm)
            )
            self.open[job] = Open(drawn, weights)
        return self.arms[self.open[job].arm]

    def end(self, job: str, utilities: Mapping[str, float] | Sequence[float] | Floats) -> None:
        """Learn what every arm would have earned from a job, in [0, 1]; the job is then closed.

        Raises InputError when the job is not open, or when a utility is missing or out of range;
        nothing is learned then.
        """
        self._check_open(job)
        earned = self._checked(utilities)
        drawn = self.open.pop(job)
        self._add(drawn, earned)
        self.recent = [*self.recent, job][-REMEMBERED:]
        if self.leader != self.leaders[-1].arm:
            self.leaders.append(Leader(self.ended, self.leader))
        regret = self.regret()
        self.trail.add(self.ended, regret.expected, regret.bound, self.weights)

    def drop(self, job: str) -> None:
        """Forget a job that was drawn but taught nothing, such as one that was cancelled."""
        self._check_open(job)
        del self.open[job]

    def regret(self) -> Regret:
        """Return the regret so far against the best fixed arm, and the most it can be."""
        best = int(np.argmax(self.utility))
        most = float(self.utility[best])
        tally = self.tally
        prior = math.log(1.0 / self.prior[best]) / tally.eta if self.prior[best] < 1.0 else 0.0
        bound = prior + tally.gap + tally.delay if self.ended else 0.0
        return Regret(self.arms[best], most - tally.expected, most - tally.realised, bound)

    def changing(self) -> AbstractContextManager[Hedge]:
        """Lend the learner to be changed, like `LearnedStateFile.changing` but without a lock or a file."""
        return nullcontext(self)

    def _add(self, drawn: Open, earned: Floats) -> None:
        logs, eta, tally = self._logs, self.eta, self.tally
        self.utility = self.utility + earned
        self.tally = Tally(
            ended=tally.ended + 1,
            expected=tally.expected + float(drawn.weights @ earned),
            realised=tally.realised + float(earned[drawn.arm]),
            gap=tally.gap + _gap(logs, earned, eta),
            delay=tally.delay + 0.5 * float(np.abs(_shares(logs) - drawn.weights).sum()),
            eta=eta,
        )

    def _check_open(self, job: str) -> None:
        if job in self.open:
            return
        why = "which has ended already" if job in self.recent else "which has not begun, or ended long ago"
        names = ", ".join(sorted(self.open)[:5]) or "none"
        raise InputError(f"a job must be open to be ended, got {shown(job)}, {why}; open: {names}")

    def _checked(self, utilities: Mapping[str, float] | Sequence[float] | Floats) -> Floats:
        if isinstance(utilities, Mapping):
            missing = [arm for arm in self.arms if arm not in utilities]
            if missing:
                raise InputError(f"utilities must name every arm, got none for {shown(missing[0])}")
            utilities = [utilities[arm] for arm in self.arms]
        earned = np.asarray(utilities, dtype=np.float64)
        if earned.shape != (len(self.arms),):
            raise InputError(f"utilities must be {len(self.arms)} numbers, one per arm, got {earned.shape}")
        wrong = np.flatnonzero(~((earned >= 0.0) & (earned <= 1.0)))
        if len(wrong):
            arm = self.arms[wrong[0]]
            raise InputError(f"utilities must be scaled to 0..1, got {earned[wrong[0]]} for {shown(arm)}")
        return np.asarray(np.round(earned / GRAIN) * GRAIN)


def _gap(logs: Floats, earned: Floats, eta: float) -> float:
    """Return the mixability gap, (1/η) ln Σ w exp(ηu) − w·u, from the logarithms of the weights."""
    if len(logs) == 1:
        return 0.0
    mixed = (_log_sum(logs + eta * earned) - _log_sum(logs)) / eta
    # At least 0 by Jensen, but not always after rounding.
    return max(0.0, mixed - float(_shares(logs) @ earned))


def _shares(logs: Floats) -> Floats:
    raw = np.exp(logs - logs.max())
    return np.asarray(raw / raw.sum())


def _log_sum(logs: Floats) -> float:
    return float(logs.max()) + math.log(float(np.exp(logs - logs.max()).sum()))


def _normalised(arms: Sequence[str], prior: Mapping[str, float] | None) -> Floats:
    if prior is None:
        return np.full(len(arms), 1.0 / len(arms))
    if set(prior) != set(arms):
        odd = sorted(set(prior) ^ set(arms))
        raise InputError(f"prior must give every arm its share and no other, got a difference in {odd[:3]}")
    shares = np.array([prior[arm] for arm in arms], dtype=np.float64)
    if not (np.isfinite(shares).all() and (shares > 0).all()):
        raise InputError(f"prior shares must be > 0, got {shares.min()}; leave the arm out instead")
    return np.asarray(shares / shares.sum())


def _drawn(weights: Floats, key: str, seed: int) -> int:
    """Draw by inverse distribution; a digest in place of a generator, so that no state is kept."""
    digest = hashlib.sha256(f"{seed}\0{key}".encode()).digest()
    point = (int.from_bytes(digest[:8], "big") >> 11) * 2.0**-53
    sums = np.cumsum(weights)
    return int(min(np.searchsorted(sums, point * sums[-1], side="right"), len(weights) - 1))
