"""Why a job holds what it holds is said in sentences that need no knowledge of rules and signals."""

from __future__ import annotations

from dataclasses import replace

from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.journal.events import Decided, Preempted
from slacktide.policies import deadline_guard
from slacktide.policies.base import RulePolicy, policies
from slacktide.report import words
from slacktide.report.text.sentences.reasons import RULES, reason
from slacktide.report.text.sentences.why import why
from slacktide.results.status import JobStatus

STATUS = JobStatus(
    name="bert", policy="uniform-progress", status="running", health="on-time", hours=3.3333, spot_gpus=2,
    on_demand_gpus=1, progress_gpu_hours=10.0, cost_usd=21.5, preemptions=1,
    submitted_utc="2026-01-01T00:00:00Z", work_gpu_hours=40.0, deadline_hours=12.0,
)  # fmt: skip
SIGNALS = {"progress_gpu_hours": 10.0, "line_gpu_hours": 11.5, "hours_left": 8.6667, "spot_gpus": 2.0,
           "spot_usd_per_gpu_hour": 2.1}  # fmt: skip


def decided(hours: float, rule: str, spot: int, on_demand: int) -> Decided:
    return Decided(
        job="bert", at_hours=hours, why=rule, signals=SIGNALS, state=JobState(), slot=0, attempt=1,
        pool="zone", quote=Quote(2.1, 10.0, 2), spot_gpus=spot,
        on_demand_gpus=on_demand, wanted_spot_gpus=spot, wanted_on_demand_gpus=on_demand,
    )  # fmt: skip


def test_the_newest_decision_is_explained() -> None:
    events = [
        decided(0.0, "take-spot", 3, 0),
        decided(2.0, "behind-line", 2, 1),
        decided(2.5, "behind-line", 2, 1),
    ]
    text = " ".join(why(STATUS, events))
    assert text.startswith(
        "bert is running after 3h20m of 12h: it holds 2 spot + 1 on demand, 25 % of its work"
    )
    assert (
        "uniform-progress decided, 2h30m after the start, to hold 2 spot + 1 on demand, as it had since 2h, "
        "because it is behind" in text
    )
    assert "It was 1.5 GPU-hours behind an even pace to the deadline. 8h40m were left" in text
    assert "The market offered 2 spot GPUs at $2.10 an hour." in text


def test_an_allocator_may_give_its_reasons_in_sentences_of_its_own() -> None:
    told = decided(2.0, "An hour of waiting is worth 10 USD today. Four GPUs would finish later.", 2, 1)
    text = " ".join(why(STATUS, [replace(told, signals={"usd_per_job_hour": 10.0})]))
    assert "to hold 2 spot + 1 on demand. An hour of waiting is worth 10 USD today. Four GPUs" in text
    assert "An hour of a job's waiting was worth $10.00." in text
    waits = decided(2.0, "spot is expected in 1.2 h, and on demand would cost 14.20 USD more", 0, 0)
    scarce = replace(waits, signals={"scarcity_usd_per_gpu_hour": 1.2})
    text = " ".join(why(STATUS, [scarce]))
    assert "to hold nothing, because spot is expected in 1.2 h, and on demand" in text
    assert "Spot was short: it was worth $1.20 a GPU-hour above its price." in text


def test_a_warning_is_said() -> None:
    warned = replace(decided(2.0, "on-demand-pays", 0, 2), signals={**SIGNALS, "notice_hours": 1 / 6})
    assert "A warning said that spot here would go in 10m." in " ".join(why(STATUS, [warned]))
    assert "a warning says that spot here goes in 10m" in reason(warned.why, warned.signals)


def test_losses_and_what_was_not_to_be_had_are_said() -> None:
    lost = Preempted(
        job="bert", at_hours=3.0, actor="market", slot=6, spot_before=3, spot_left=2, lost_gpu_hours=0.0
    )
    text = " ".join(why(STATUS, [decided(0.0, "my-own-rule", 3, 0), lost]))
    assert "because of its rule 'my-own-rule'" in text
    assert "The market took spot GPUs once, last 3h after the start; no work was lost." in text
    assert "Nothing has been decided for this job yet." in " ".join(why(STATUS, []))


def test_what_was_not_decided_and_not_taken_by_the_market_is_not_said_to_be() -> None:
    lost = Preempted(
        job="bert", at_hours=3.0, actor="user", slot=6, spot_before=3, spot_left=0, lost_gpu_hours=0.0
    )
    events = [decided(0.0, "take-spot", 3, 0), lost, decided(3.0, "what-is-left", 0, 0)]
    text = " ".join(why(STATUS, events))
    assert "It keeps what was left 3h after the start until uniform-progress decides again." in text
    assert "uniform-progress decided last, 0s after the start, to hold 3 spot, because spot GPUs are" in text
    assert "Spot GPUs were taken once, last 3h after the start, because a user asked for it; no" in text
    assert "no new decision" not in text
    both = " ".join(why(STATUS, [*events, replace(lost, actor="market", at_hours=3.5)]))
    assert "Spot GPUs were taken 2 times, last 3h30m after the start, once because a user asked for" in both


def test_a_silent_job_that_outran_its_file_is_not_said_to_be_done() -> None:
    silent = replace(STATUS, progress_estimated=True)
    assert "about 25 % of its work is done (estimated: it reports no progress) and" in why(silent, [])[0]
    outran = replace(silent, progress_gpu_hours=40.0)
    assert "it is not done after the 40.0 GPU-hours of work that its file says and $" in why(outran, [])[0]
    assert "100 % of its work is done and" in why(replace(outran, status="succeeded"), [])[0]


def test_every_rule_of_ours_has_a_sentence() -> None:
    made = [policies.make(name) for name in policies if name != "deadline-guard"]
    rules = {rule for one in made if isinstance(one, RulePolicy) for rule in one.reasons()}
    wrappers = {*deadline_guard.REASONS.values(), "no-checkpoint"}
    assert rules | wrappers <= set(RULES)


def test_a_state_is_one_word() -> None:
    assert words.state("running", "on-time") == "running"
    assert words.state("running", "late") == "late"
    assert words.state("succeeded", "late") == "succeeded"
    for status in ("budget_exhausted", "deadline_missed", "cancelled", "failed", "blocked"):
        assert " " not in words.state(status, "on-time")
        assert "_" not in words.state(status, "on-time")
    assert words.rounded(1.26) == "1h16m"
    assert words.rounded(0.5001) == "30m"
