"""Chooses the policy of a live job with `policy: auto`, and teaches the learner when such a job has ended."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from slacktide.core.errors import SlacktideError
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Learned, Submitted
from slacktide.journal.state.journal_state import JobRecord
from slacktide.policies.selection import policy_set as arms
from slacktide.policies.selection.auto_policy import arm_for, arms_of
from slacktide.policies.selection.state_file import LearnedStateFile


def foresee(submitted: Submitted, name: str, state: LearnedStateFile) -> Submitted:
    """Return a submission with the policy that the learner will choose, without changing the learner yet."""
    if not submitted.learning:
        return submitted
    return dataclasses.replace(submitted, policy=json.dumps(arms.spec_of(arm_for(name, state.read()))))


def begin_learning(submitted: Submitted, name: str, state: LearnedStateFile) -> Submitted:
    """Let the learner choose the policy of a job with `policy: auto`: the one that a plan names, too."""
    if not submitted.learning:
        return submitted
    with state.changing() as hedge:
        drawn = hedge.begin(_key(submitted), arm=arm_for(name, hedge))
    return dataclasses.replace(submitted, policy=json.dumps(arms.spec_of(drawn)))


def drop_lesson(submitted: Submitted, state: LearnedStateFile) -> None:
    """Make the learner forget a job that it chose a policy for but that could not be run."""
    if submitted.learning:
        with state.changing() as hedge:
            hedge.drop(_key(submitted))


def learn_from(
    record: JobRecord,
    context_of: Callable[[JobRecord], JobContext],
    now_hours: float,
    state: LearnedStateFile,
) -> list[Learned]:
    """Replay every policy on the market of an ended job, and teach the learner what each would have earned.

    Returns the event for the journal; none if nothing was learned, as from a cancelled or failed job.
    """
    from slacktide.simulation.learn_on_past import replay

    assert record.ended is not None
    with state.changing() as hedge:
        key = _key(record.submitted)
        if key not in hedge.open:
            return []
        drawn = hedge.arms[hedge.open[key].arm]
        if record.ended.status in ("cancelled", "failed"):
            hedge.drop(key)
            return []
        policies, context = arms_of(hedge), context_of(record)
        try:
            found = replay(context.job, context.pool, context.start_slot, policies, context.setting)
        except SlacktideError:  # the market does not reach to the deadline
            hedge.drop(key)
            return []
        hedge.end(key, found.shares)
    share = float(found.shares[list(policies).index(drawn)])
    return [Learned(job=record.job, at_hours=now_hours, policy=drawn, share=share)]


def _key(submitted: Submitted) -> str:
    """Name a job to the learner, which may know jobs of many journals."""
    return f"{submitted.job}@{submitted.submitted_utc}"
