"""The NumPy job in real processes: stopped, killed and continued at other widths, it ends where it should."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from slacktide.demo.train import EXIT_LOST, EXIT_STOPPED, Shelf, TrainingState, measured

if TYPE_CHECKING:
    from tests.e2e.conftest import TrainingJob

TOLERANCE = 1e-9
"""Relative: only the order in which floats are added differs between widths."""

STEPS, EVERY, SEED = 240, 20, 3
ARGUMENTS = ("--steps", str(STEPS), "--checkpoint-every", str(EVERY), "--seed", str(SEED))
SLOW = ("--step-seconds", "0.1")  # slow enough that a busy machine interrupts in time

Make = Callable[..., "TrainingJob"]


def job_of(make: Make, *more: str) -> TrainingJob:
    return make("-m", "slacktide.demo.train", *ARGUMENTS, *more)


def saved(job: TrainingJob) -> TrainingState:
    """Return the newest checkpoint."""
    state = Shelf(job.checkpoints, SEED).newest()
    assert state is not None, job.logs()
    return state


@pytest.fixture
def uninterrupted(training_job: Make) -> TrainingState:
    """The end of a run of two workers that nothing happens to."""
    job = job_of(training_job)
    job.start(2)
    assert job.codes() == [0, 0], job.logs()
    return saved(job)


def test_interrupted_run_ends_where_the_uninterrupted_one_does(
    training_job: Make, uninterrupted: TrainingState
) -> None:
    job = job_of(training_job)

    job.start(1, *SLOW)
    job.wait_for_line(lambda line: line["done"] > 0.04)
    job.send(signal.SIGTERM)
    assert job.codes() == [EXIT_STOPPED], job.logs()

    stopped = saved(job).step
    job.start(3, *SLOW)
    job.wait_for_line(lambda line: line["done"] * STEPS > stopped + EVERY)
    job.send(signal.SIGKILL, 2)  # without notice; rank 0 still saves the last whole step
    assert job.codes() == [EXIT_LOST, EXIT_LOST, -signal.SIGKILL], job.logs()

    killed = saved(job).step
    assert killed >= stopped + EVERY
    job.start(4, *SLOW)
    job.wait_for_line(lambda line: line["checkpointed"] * STEPS > killed)
    job.send(signal.SIGKILL, 0)  # nobody is left to save, so the last checkpoint counts
    assert job.codes() == [-signal.SIGKILL, EXIT_LOST, EXIT_LOST, EXIT_LOST], job.logs()

    assert killed < saved(job).step < STEPS
    job.start(2)
    assert job.codes() == [0, 0], job.logs()

    assert saved(job).step == STEPS
    np.testing.assert_allclose(saved(job).weights, uninterrupted.weights, rtol=TOLERANCE, atol=TOLERANCE)
    told = job.lines()[-1]
    assert told["done"] == told["checkpointed"] == 1
    assert told["metrics"]["loss"] == pytest.approx(
        measured(uninterrupted.weights, SEED)["loss"], rel=TOLERANCE
    )
    assert told["metrics"]["loss"] < 0.7 * job.lines()[0]["metrics"]["loss"]  # it did learn


def test_one_worker_asked_to_stop_stops_all_after_the_same_step(training_job: Make) -> None:
    job = job_of(training_job)
    job.start(3, *SLOW)
    job.wait_for_line(lambda line: line["done"] > 0)
    job.send(signal.SIGTERM, 1)
    assert job.codes() == [EXIT_STOPPED] * 3, job.logs()
    assert job.lines()[-1]["done"] == job.lines()[-1]["checkpointed"] > 0
    assert "train:" not in job.logs()  # nobody was lost


def test_broken_checkpoint_gives_way_to_the_one_before(
    training_job: Make, uninterrupted: TrainingState
) -> None:
    job = job_of(training_job)
    job.start(1)
    assert job.codes() == [0]
    newest = max(job.checkpoints.glob("step-*"))
    newest.write_bytes(newest.read_bytes()[:-100])
    (job.checkpoints / ".step-000000999.rank-0.draft.ckpt").write_bytes(b"half")
    before = len(job.lines())
    job.start(3)
    assert job.codes() == [0, 0, 0], job.logs()
    assert "is broken" in job.logs()
    again = [line["done"] for line in job.lines()[before:]]  # on a busy machine it tells more on the way
    assert (again[0], again[-1]) == (1 - EVERY / STEPS, 1)
    assert len(list(job.checkpoints.iterdir())) == 2  # no draft, no third
    np.testing.assert_allclose(saved(job).weights, uninterrupted.weights, rtol=TOLERANCE, atol=TOLERANCE)


def test_another_jobs_checkpoint_is_refused(training_job: Make, uninterrupted: TrainingState) -> None:
    job = job_of(training_job, "--seed", str(SEED + 1))
    Shelf(job.checkpoints, SEED).save(uninterrupted)
    job.start(1)
    assert job.codes() == [2]
    assert f"must be of spirals, seed {SEED + 1}" in job.logs()


@pytest.mark.parametrize("absent", [0, 1])
def test_peer_that_never_comes_is_not_waited_for_for_ever(training_job: Make, absent: int) -> None:
    job = job_of(training_job)
    job.start(3, "--peer-seconds", "0.5", absent=[absent])
    assert job.codes() == [EXIT_LOST, EXIT_LOST], job.logs()


def test_peer_that_falls_silent_is_given_up(training_job: Make) -> None:
    job = job_of(training_job)
    job.start(3, *SLOW, "--peer-seconds", "1")
    job.wait_for_line(lambda line: line["done"] > 0)
    job.send(signal.SIGSTOP, 1)
    assert job.workers[0].wait(30) == job.workers[2].wait(30) == EXIT_LOST, job.logs()
    assert saved(job).step > 0


def test_taken_port_ends_all(training_job: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        job = job_of(training_job)
        job.start(2, "--peer-seconds", "0.5", port=taken.getsockname()[1])
        assert job.codes() == [EXIT_LOST, EXIT_LOST], job.logs()
    assert "must be free" in job.logs()


def test_strangers_and_workers_of_other_attempts_are_sent_away(training_job: Make) -> None:
    job = job_of(training_job)
    job.start(2, absent=[1])
    late = job_of(training_job)
    late.attempt = 7
    late.start(2, port=job.port, absent=[0])
    assert late.codes() == [EXIT_LOST]
    assert "got a closed connection" in late.logs()
    socket.create_connection(("127.0.0.1", job.port)).close()
    job.join(1, 2)
    assert job.codes() == [0, 0], job.logs()
