"""Money: random lives on the replay back end and in back-tests, counted again by the rules in the docs.

A life has jobs with deadlines and jobs of a fleet on one site, both ways of billing, maximum costs,
requests, slots that nobody saw, and controllers that die at their writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from campaigns.finding import Finding, Tell
from campaigns.money import laws
from campaigns.money.lives import Life, Lived, lives

LIVES_A_ROUND = 50


def run(count: int, seed: int, tell: Tell) -> Counter[str]:
    """Live this many lives; each round has a seed of its own, counted up from the first."""
    counts: Counter[str] = Counter({"lives": 0})
    while counts["lives"] < count:
        wanted = min(LIVES_A_ROUND, count - counts["lives"])
        before = counts["lives"]
        try:
            _round(wanted, seed, counts, lambda: tell(f"{counts['lives']:,} of {count:,} lives"))
        except Finding as finding:
            finding.command = f"python -m campaigns money --count {wanted} --seed {seed}"
            raise
        if counts["lives"] == before:
            raise Finding("no life could be drawn")
        seed += 1
    return counts


def _round(wanted: int, seed: int, counts: Counter[str], tell: Callable[[], None]) -> None:
    @seeded(seed)
    @settings(
        max_examples=wanted,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(lives())
    def all_of_them(life: Life) -> None:
        counts.update(_counted(life))
        tell()

    all_of_them()


def _counted(life: Life) -> dict[str, int]:
    """Live one life, see that the laws hold, and say what happened in it."""
    lived = Lived(life)
    laws.check(lived)
    alone = [context for job, context in life.site.job_contexts.items() if job not in life.site.classes]
    for context in alone:
        laws.check_back_test(context)
    ended = Counter(f"{record.status.replace('_', ' ')}" for record in lived.engine.state.jobs.values())
    return {
        "lives": 1,
        "jobs": len(life.site.job_contexts),
        **ended,
        "deaths at a write": lived.deaths,
        "back-tests": len(alone),
    }
