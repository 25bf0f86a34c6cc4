"""What happens while no controller runs: jobs end, machines are lost, journals come and go."""

from __future__ import annotations

import signal

from campaigns.faults.play import BYSTANDER, ENDLESS, VICTIM, Play
from campaigns.finding import Finding
from campaigns.stage import laws, processes, told
from campaigns.stage.arena import Task
from campaigns.stage.commands import tail
from campaigns.stage.record import checkpoint
from campaigns.waiting import wait_until

WHILE_AWAY_S = (1.0, 4.0)


def a_job_ends_while_no_controller_runs(play: Play) -> None:
    """Its true end decides about its finish and its bill, not the moment at which somebody saw it."""
    play.begin(play.task(VICTIM, units=300))
    play.kill_controller()
    wait_until(lambda: not play.arena.workers(VICTIM), "the workers of a job that nobody watches")
    play.pause(*WHILE_AWAY_S)
    play.resume()
    play.end()
    _finished_when_it_did(play, VICTIM)


def _finished_when_it_did(play: Play, job: str) -> None:
    """See that a job's finish is that of its last worker."""
    (ended,) = [row for row in told.rows(play.arena.journal, "Ended") if row.job == job]
    said_s = play.arena.pace.wall_s(float(ended.data["finish_hours"]))
    last_s = max(life.to_s for life in play.arena.record(job).lives()) - play.submitted_s[job]
    if said_s > last_s + laws.START_S + laws.SLOW * play.arena.slowness.worst_s:
        raise Finding(
            f"{job} is said to have finished after {said_s:.2f} s, but its last worker ended by {last_s:.2f}"
        )


def a_machine_is_lost_while_no_controller_runs(play: Play) -> None:
    """Controller and workers die at once, as in a power cut; nothing is billed until somebody comes."""
    play.begin()
    play.kill_controller()
    for one in play.arena.workers(VICTIM):
        processes.send(one, signal.SIGKILL)
    play.pause(*WHILE_AWAY_S)
    play.resume()
    play.end()


def a_machine_is_lost(play: Play) -> None:
    """Workers die with their supervisors under the eyes of the controller; that is no failure of the job."""
    play.begin()
    play.signal_workers(signal.SIGKILL, VICTIM)
    play.end()
    if any(row.job == VICTIM for row in told.rows(play.arena.journal, "WorkerFailed")):
        raise Finding("a lost machine was counted as a failure of the job")


def a_job_is_cancelled_while_no_controller_runs(play: Play) -> None:
    """The request waits for the next controller, which ends the workers that went on."""
    play.begin(play.task(VICTIM, units=ENDLESS))
    play.kill_controller()
    said = play.ask("cancel", VICTIM)
    if "controller" not in said.err:
        raise Finding("no controller is running, but `cancel` does not say so")
    play.pause()
    play.resume()
    play.end(victim="cancelled")


def a_job_is_cancelled_at_any_moment(play: Play) -> None:
    """A request is heard whatever the job is doing, and ends it once."""
    play.hand_in(play.task(VICTIM, units=ENDLESS))
    play.hand_in(play.task(BYSTANDER))
    play.arena.take_charge()
    wait_until(lambda: VICTIM in play.arena.statuses(), "a job to be accepted")
    play.pause()
    if play.rng.random() < 0.5:
        play.arena.in_charge().signal(signal.SIGSTOP)
        play.ask("cancel", VICTIM)
        play.arena.in_charge().signal(signal.SIGCONT)
        play.arena.wait_for_end(VICTIM)
    else:
        play.cancel(VICTIM)
    play.end(victim="cancelled")


def a_journal_is_deleted(play: Play) -> None:
    """A new journal of the same name does not take the old one's workers and folders for its own."""
    play.begin()
    play.kill_controller()
    for path in play.arena.folder.glob("*journal.db*"):
        path.unlink()
    old = play.arena.tasks.pop(VICTIM), play.arena.tasks.pop(BYSTANDER)
    play.arena.take_charge()
    for task in old:
        _again(play, task)
    play.arena.let_go()
    wait_until(
        lambda: not play.arena.workers() or bool(play.arena.unended()), "workers of a journal that is gone"
    )


def _again(play: Play, task: Task) -> None:
    """Hand the same file in again: either it is refused, or what succeeds has done its work."""
    said = play.ask("submit", str(play.arena.folder / f"{task.name}.yaml"))
    if said.code in (2, 4):
        return
    if said.code != 0:
        raise Finding(f"submit to a new journal exited with {said.code}: {tail(said.err)}")
    wait_until(lambda: bool(play.arena.statuses().get(task.name)), f"the end of {task.name}")
    done, _ = checkpoint(play.arena.checkpoints(task.name))
    if play.arena.statuses()[task.name] == "succeeded" and done < task.units:
        raise Finding(f"{task.name} of a new journal succeeded with {done} of {task.units} units done")


def a_second_controller_comes_by_another_name(play: Play) -> None:
    """A link to the journal is the same journal, and there is one controller at a time."""
    play.begin()
    link = play.arena.folder / "link.db"
    link.symlink_to(play.arena.journal)
    second = play.arena.nursery.start(
        "controller", "--journal", str(link), "--speed", f"{play.arena.pace.speed:g}"
    )
    wait_until(lambda: second.code is not None or len(second.out) > 200, "a second controller to be refused")
    code = second.code
    second.kill()
    if code != 4:
        raise Finding(f"a second controller by a link must be refused with 4, but it came to {code}")
    play.end()


PLAYS = (
    a_job_ends_while_no_controller_runs,
    a_machine_is_lost_while_no_controller_runs,
    a_machine_is_lost,
    a_job_is_cancelled_while_no_controller_runs,
    a_job_is_cancelled_at_any_moment,
    a_journal_is_deleted,
    a_second_controller_comes_by_another_name,
)
