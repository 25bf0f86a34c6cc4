"""A story tells why a job holds what it holds as all of its events do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slacktide.app.journal.timeline import MOST_HISTORIES, DecisionHistory, OfEachJob
from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.journal.events import Decided, Ended, Event, Preempted, WorkerFailed
from slacktide.journal.store.base import MemoryStore
from slacktide.report.text.sentences.why import NO_NEW_DECISION, why
from slacktide.results.status import JobStatus
from tests import build

STATUS = JobStatus(
    name="job",
    policy="p",
    status="running",
    health="on-time",
    hours=3.0,
    spot_gpus=1,
    on_demand_gpus=0,
    progress_gpu_hours=1.0,
    cost_usd=1.0,
    preemptions=0,
    submitted_utc="",
    work_gpu_hours=4.0,
    deadline_hours=9.0,
)
BEGIN = build.submitted(actor="user", policy='"p"', market="{}", pool="a", slot_hours=1.0)
DECIDED = Decided(
    job="job",
    at_hours=0.0,
    actor="engine",
    slot=0,
    quote=Quote(1.0, 2.0, 3),
    state=JobState(),
    spot_gpus=1,
    on_demand_gpus=0,
    wanted_spot_gpus=1,
    wanted_on_demand_gpus=0,
    attempt=1,
    pool="a",
    until_hours=9.0,
    why="cheap",
)
FAILED = WorkerFailed(job="job", at_hours=0.0, attempt=1, rank=0, exit_code=1, checkpointed_gpu_hours=0.0)
PREEMPTED = Preempted(
    job="job", at_hours=0.0, actor="market", slot=0, spot_before=2, spot_left=1, lost_gpu_hours=0.5
)
ENDED = Ended(job="job", at_hours=0.0, status="succeeded", finish_hours=1.0)

decisions = st.builds(
    lambda reason, gpus, moved: replace(
        DECIDED, why=reason, spot_gpus=gpus, moved_from=moved, wanted_pool="a"
    ),
    st.sampled_from(["cheap", "late", NO_NEW_DECISION]),
    st.integers(0, 2),
    st.sampled_from(["", "", "b"]),
)
happenings = st.lists(st.one_of(decisions, st.sampled_from([FAILED, PREEMPTED])), max_size=25)


@given(happenings, st.booleans())
def test_a_story_is_as_good_as_all_events(came: list[Event], is_over: bool) -> None:
    events = [
        replace(one, at_hours=float(hour)) for hour, one in enumerate([BEGIN, *came, *[ENDED] * is_over])
    ]
    store, stories = MemoryStore(), None
    for event in events:
        store.append([event])
        stories = stories or OfEachJob(store, DecisionHistory, MOST_HISTORIES)
        if event.at_hours % 3 == 0:
            stories.of("job")
    assert stories is not None
    assert why(STATUS, stories.of("job").events()) == why(STATUS, events)


def test_a_story_stays_small() -> None:
    store, story = MemoryStore(), DecisionHistory()
    for hour in range(2000):
        reason = ("cheap", "late", NO_NEW_DECISION)[hour // 7 % 3]
        (record,) = store.append([replace(DECIDED, at_hours=float(hour), why=reason)])
        story.apply(record)
    assert len(story.events()) < 10
