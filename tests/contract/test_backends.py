"""Every back end keeps the contract, and broken ones do not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import pytest

from slacktide.backends.base import BackendPlace, BackendStatus, LaunchSpec, Log, WorkerFailure, backends
from slacktide.backends.local import Local
from slacktide.backends.replay import Replay
from slacktide.checks import BACKEND_CHECKS, CheckFailed, check_backend
from slacktide.checks import backend as checks
from slacktide.checks import trial as trials
from slacktide.checks.backend import BackendCheck, is_dry
from slacktide.core.types import Order


def test_the_usual_ones_are_known() -> None:
    assert {"local", "replay"} <= set(backends)


def test_a_dry_run_keeps_the_contract() -> None:
    assert is_dry(Replay)
    check_backend(Replay)


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_local_processes_keep_the_contract(check: BackendCheck) -> None:
    with trials.backend_trial(Local) as one:
        check(one)


def test_local_processes_are_no_dry_run() -> None:
    assert not is_dry(Local)


def wait_no_longer() -> None:
    """Let the check give up soon: what it waits for now never happens."""
    trials.PATIENCE_S = 0.5


class Broken(Local):
    """Local processes that are told of wrongly; where they cannot be ended, the test ends them itself."""

    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {job: self.facts(facts) for job, facts in super().look(jobs).items()}


class StartsNothing(Replay):
    """Claims to hold real workers that have not finished."""

    def enter(self, launch: LaunchSpec) -> None:
        wait_no_longer()

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {job: facts._replace(finished=False) for job, facts in super().look(jobs).items()}


class FinishesNothing(Replay):
    """Starts nothing, and takes every end for a success."""

    def enter(self, launch: LaunchSpec) -> None:
        wait_no_longer()

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {
            job: facts._replace(finished=facts.gone, stopped=facts.gone, newest_attempt=facts.attempt)
            for job, facts in super().look(jobs).items()
        }


class SaysItAfterAll(Replay):
    """A dry run that says of a job that it has finished."""

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {
            job: facts._replace(finished=True if facts.gone else None)
            for job, facts in super().look(jobs).items()
        }


class DropsVariables(Broken):
    def enter(self, launch: LaunchSpec) -> None:
        super().enter(dataclasses.replace(launch, env={}))


class DropsSecrets(Broken):
    def enter(self, launch: LaunchSpec) -> None:
        super().enter(dataclasses.replace(launch, secrets=()))


class KeepsLogs(Broken):
    def logs(self, job: str) -> Sequence[Log]:
        return ()


class KillsAtOnce(Broken):
    def enter(self, launch: LaunchSpec) -> None:
        super().enter(dataclasses.replace(launch, grace_s=0.0))


class AnyCode(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(failure=facts.failure and facts.failure._replace(exit_code=1))


class NeverFails(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(failure=None, finished=facts.gone)


class NeverFinishes(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(finished=False)


class FinishesOnce(Broken):
    told = False

    def facts(self, facts: BackendStatus) -> BackendStatus:
        told, self.told = self.told, self.told or bool(facts.finished)
        return facts._replace(finished=facts.finished and not told)


class NeverEnds(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(until_hours=math.inf)


class RunsAgain(Broken):
    """Takes the same order for a new one once its workers have gone."""

    def hold(self, order: Order) -> None:
        again = 5 if self.look([order.job])[order.job].finished else 0
        super().hold(order._replace(attempt=order.attempt + again))


class TellsOfTheLast(Broken):
    before = False

    def facts(self, facts: BackendStatus) -> BackendStatus:
        self.before = self.before or bool(facts.finished)
        return facts._replace(finished=self.before)


class HearsNothing(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(progress=None)


class BelievesZero(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        zero = facts.failure is not None and facts.failure.exit_code == 0
        return facts._replace(finished=True, failure=None) if zero else facts


class StopIsSuccess(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(finished=facts.finished or (facts.stopped and facts.gone))


class StopIsFailure(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(failure=WorkerFailure(0, 0)) if facts.stopped else facts


class StopIsNothing(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(stopped=False)


class LossIsFailure(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        lost = facts.taken_spot_gpus + facts.lost_on_demand_gpus
        return facts._replace(failure=WorkerFailure(1, -9), stopped=False) if lost else facts


class LossOfAnyKind(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        lost = facts.taken_spot_gpus + facts.lost_on_demand_gpus
        return facts._replace(taken_spot_gpus=lost, lost_on_demand_gpus=0)


class AdoptsNobody(Broken):
    """Ends what an earlier controller left, and starts it again."""

    def sweep(self, orders: Sequence[Order]) -> None:
        super().sweep([order._replace(attempt=order.attempt + 7) for order in orders])
        wait_no_longer()


class ForgetsNumbers(Broken):
    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(newest_attempt=0)


class NeedsEntering(Broken):
    """Does not hear orders for jobs that it was not told of."""

    def __init__(self, place: BackendPlace) -> None:
        super().__init__(place)
        self.entered: set[str] = set()

    def enter(self, launch: LaunchSpec) -> None:
        super().enter(launch)
        self.entered.add(launch.job)

    def hold(self, order: Order) -> None:
        if order.ending or order.job in self.entered:
            super().hold(order)
        elif order.attempt == 2:
            wait_no_longer()


class NoTrouble(Broken):
    def hold(self, order: Order) -> None:
        super().hold(order)
        if order.attempt == 2 and not order.ending:
            wait_no_longer()

    def facts(self, facts: BackendStatus) -> BackendStatus:
        return facts._replace(trouble="")


FAULTS: list[tuple[type, BackendCheck, str]] = [
    (DropsVariables, checks.check_running, "know its rank and variables"),
    (DropsSecrets, checks.check_running, "must have its secrets"),
    (KeepsLogs, checks.check_running, "there must be one log"),
    (AnyCode, checks.check_exit_code, "rank 1 must have failed with 3"),
    (NeverFails, checks.check_ended_unseen, "rank 1 must have failed with 3"),
    (NeverFinishes, checks.check_success, "must be finished"),
    (FinishesOnce, checks.check_success, "must be finished, at every look"),
    (NeverEnds, checks.check_success, "time of its end must be reported"),
    (RunsAgain, checks.check_success, "must be finished, at every look"),
    (TellsOfTheLast, checks.check_next_attempt, "success of an attempt must not be reported for the next"),
    (HearsNothing, checks.check_progress, "what a job reports must be passed on"),
    (BelievesZero, checks.check_progress, "must not be finished, though it ended with 0"),
    (KillsAtOnce, checks.check_stopping, "SIGTERM must reach the command"),
    (StopIsSuccess, checks.check_stopping, "must not be a success"),
    (StopIsSuccess, checks.check_stopped_from_outside, "must not be a success"),
    (StopIsFailure, checks.check_stopped_from_outside, "must not be a failure"),
    (StopIsNothing, checks.check_stopping, "must be reported as stopped"),
    (StopIsNothing, checks.check_stopped_attempt, "must be reported as stopped"),
    (LossIsFailure, checks.check_losing, "must not be a failure"),
    (LossOfAnyKind, checks.check_losing, r"must be lost, got \(1, 0\)"),
    (StopIsNothing, checks.check_losing, "must be stopped"),
    (AdoptsNobody, checks.check_adopting, "adopted workers must continue|GPUs must be held"),
    (ForgetsNumbers, checks.check_used_number, "highest attempt"),
    (NeedsEntering, checks.check_unentered, "must say why"),
    (NoTrouble, checks.check_unentered, "must say why"),
    (StartsNothing, checks.check_running, "must be reported as gone"),
    (FinishesNothing, checks.check_running, "must be reported as gone"),
]


def _names(fault: tuple[type, BackendCheck, str]) -> str:
    return f"{fault[0].__name__}-{fault[1].__name__}"


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who wait no longer do so for this test alone."""
    monkeypatch.setattr(trials, "PATIENCE_S", trials.PATIENCE_S)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("fault", FAULTS, ids=_names)
def test_a_broken_back_end_does_not_keep_the_contract(fault: tuple[type, BackendCheck, str]) -> None:
    make, check, words = fault
    with trials.backend_trial(make) as one, pytest.raises(CheckFailed, match=words):
        check(one)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(
    ("make", "words"),
    [(StartsNothing, "gone"), (FinishesNothing, "gone"), (SaysItAfterAll, "must never say so")],
)
def test_a_back_end_that_starts_nothing_fails_unless_it_says_so(
    make: Callable[[BackendPlace], Replay], words: str
) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_backend(make)


def test_all_checks_are_run() -> None:
    functions = [getattr(checks, name) for name in dir(checks)]
    named = {function for function in functions if getattr(function, "__name__", "").startswith("check_")}
    assert named - {check_backend} == set(BACKEND_CHECKS)
